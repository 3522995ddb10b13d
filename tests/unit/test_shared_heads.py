"""The course's FlashAttention for heads that share k and v: right both ways, in a model too, and nothing lies in memory twice."""

from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from course_lib import trace
from course_lib.workloads import shared_heads
from course_lib.workloads.gpt import GPT, TORCH, Config
from grader.published import published


@cache
def course():
    """The published functions of units 09, 10 and 11."""
    attention = shared_heads.forward(published("flash.flash_attention_forward"))
    names = ("flash_backward.delta", "flash_backward.dq", "training.grouped_backward")
    return shared_heads.differentiable(attention, shared_heads.backward(*map(published, names)))


def of_a_layer(B, Hq, Hkv, N, D, dtype=torch.float32):
    """q, k, v and do as a layer has them: q and k dense, v a window of qkv, do as (B, N, Hq, D)."""
    g = torch.Generator().manual_seed(0)
    qkv = torch.randn(B, N, Hq + 2 * Hkv, D, generator=g).to(dtype).transpose(1, 2)
    q, k, v = qkv.split([Hq, Hkv, Hkv], 1)
    do = torch.randn(B, N, Hq, D, generator=g).to(dtype).transpose(1, 2)
    return *(x.detach().requires_grad_() for x in (q.contiguous(), k.contiguous(), v)), do


@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("heads", [(6, 2), (4, 1), (3, 3)], ids=["6 for 2", "4 for 1", "3 for 3"])
def test_results_and_gradients_are_torchs(heads, scale):
    q, k, v, do = of_a_layer(2, *heads, 37, 16)
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=scale)
    expected = torch.autograd.grad(o, (q, k, v), do)
    with trace():
        found = course()(q, k, v, scale)
        gradients = torch.autograd.grad(found, (q, k, v), do)
    torch.testing.assert_close(found, o, rtol=1e-5, atol=1e-5)
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


class Largest(TorchDispatchMode):
    """Names of torch's operations, and the bytes of the largest result that is not a view."""

    def __init__(self):
        super().__init__()
        self.names, self.bytes = set(), {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        given = {t.untyped_storage()._cdata for t in args if isinstance(t, torch.Tensor)}
        self.names.add(name := function.overloadpacket.__name__)
        if isinstance(out, torch.Tensor) and out.untyped_storage()._cdata not in given:
            self.bytes[name] = max(self.bytes.get(name, 0), out.untyped_storage().nbytes())
        return out


def test_k_and_v_are_in_memory_once():
    q, k, v, do = of_a_layer(2, 8, 2, 130, 16, torch.bfloat16)
    with trace() as t, Largest() as torchs:
        torch.autograd.grad(course()(q, k, v), (q, k, v), do)
    launches = {launch.kernel: launch for launch in t.launches}
    assert launches.keys() == {"forward_kernel", "delta_kernel", "dq_kernel", "grouped_dkdv_kernel"}
    assert len(t.launches) == 4, "one launch each, for all texts and heads"
    for launch in t.launches:
        for footprint in launch.footprints:
            if footprint.tensor.partition("#")[0] in ("k_ptr", "v_ptr"):
                sizes = footprint.nbytes, footprint.read_distinct_bytes
                assert sizes == (k.nbytes, k.nbytes), (launch.kernel, footprint.tensor)
    # the owner of keys reads them once for all four heads of a group
    loaded = {a.tensor.partition("#")[0]: a.bytes for a in launches["grouped_dkdv_kernel"].accesses if a.op == "load"}
    assert loaded["k_ptr"] == loaded["v_ptr"] == k.nbytes
    copies = {name: size for name, size in torchs.bytes.items() if not name.startswith(("empty", "new_empty"))}
    assert copies == {"clone": do.nbytes}, "do made dense is the largest copy, and v the other"
    assert not torchs.names & {"repeat", "repeat_interleave", "index_select"}


def test_a_model_trains_on_it_as_on_torchs():
    torch.manual_seed(0)
    models = [GPT(Config(vocab=13, layers=2, width=64, heads=4, kv_heads=2, hidden=40)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    models[1].ops = replace(TORCH, attention=course())
    optimizers, losses = [model.optimizer(1e-2) for model in models], ([], [])
    for _ in range(3):
        tokens = torch.randint(13, (2, 2, 20))
        for model, optimizer, found in zip(models, optimizers, losses, strict=True):
            with trace():
                loss = model(*tokens)
                optimizer.zero_grad()
                loss.backward()
            optimizer.step()
            found.append(loss.item())
    torch.testing.assert_close(*map(torch.tensor, losses), rtol=0, atol=2e-6)
