"""unsloth's kernels, each against torch: its own tests ask for models and bitsandbytes."""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from importlib.util import find_spec, module_from_spec

import pytest
import torch
from torch.nn import functional as F

os.environ["UNSLOTH_IS_PRESENT"] = "1"
os.environ["UNSLOTH_COMPILE_LOCATION"] = tempfile.gettempdir()
for name in ("unsloth", "unsloth.kernels"):  # packages that are not run: they change transformers
    if (spec := find_spec(name)) is None:
        raise ModuleNotFoundError(name)
    sys.modules[name] = module_from_spec(spec)

MODULES = "cross_entropy_loss fp8 geglu layernorm rms_layernorm rope_embedding swiglu"
cross_entropy_loss, fp8, geglu, layernorm, rms_layernorm, rope_embedding, swiglu = (
    import_module(f"unsloth.kernels.{module}") for module in MODULES.split()
)


def backward(function, *inputs):
    """The result of a function and the gradients of its inputs."""
    inputs = [x.detach().clone().requires_grad_() for x in inputs]
    y = function(*inputs)
    y.backward(torch.linspace(-1, 1, y.numel()).reshape(y.shape))
    return [y.detach(), *(x.grad for x in inputs if x.grad is not None)]


def same(got, expected, tolerance=1e-4):
    for one, other in zip(got, expected, strict=True):
        assert torch.allclose(one.float(), other.float(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("columns", [128, 1000])
def test_layer_norm(columns):
    x, w, b = torch.randn(3, 7, columns), torch.randn(columns), torch.randn(columns)
    got = backward(lambda x: layernorm.Fast_Layernorm.apply(x, w, b, 1e-5), x)
    same(got, backward(lambda x: F.layer_norm(x, (columns,), w, b, 1e-5), x))


@pytest.mark.parametrize("gemma", [False, True])
@pytest.mark.parametrize("columns", [128, 1000])
def test_rms_norm(columns, gemma):
    x, w = torch.randn(3, 7, columns), torch.randn(columns)
    got = backward(lambda x: rms_layernorm.Fast_RMS_Layernorm.apply(x, w, 1e-5, gemma), x)
    same(got, backward(lambda x: F.rms_norm(x, (columns,), w + gemma, 1e-5), x))


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize("heads", [4, 6])
def test_rope(heads, indices):
    q, k = torch.randn(2, heads, 16, 32), torch.randn(2, 2, 16, 32)
    angles = (torch.arange(16)[:, None] / 100 ** (torch.arange(16) / 16)).repeat(1, 2)
    cos, sin = angles.cos(), angles.sin()
    order = torch.arange(16).flip(0).repeat(2) if indices else None
    if order is not None:
        places = order[:16]
        expected = [rotated(x, cos[places], sin[places]) for x in (q, k)]
    else:
        expected = [rotated(x, cos, sin) for x in (q, k)]
    same(rope_embedding.fast_rope_embedding(q.clone(), k.clone(), cos, sin, order), expected)


GATES = [
    (swiglu.swiglu_fg_kernel, swiglu.swiglu_DWf_DW_dfg_kernel, F.silu),
    (geglu.geglu_exact_forward_kernel, geglu.geglu_exact_backward_kernel, F.gelu),
    (
        geglu.geglu_approx_forward_kernel,
        geglu.geglu_approx_backward_kernel,
        lambda e: F.gelu(e, approximate="tanh"),
    ),
]


@pytest.mark.parametrize("forward, backwards, gate", GATES, ids=["swiglu", "geglu exact", "geglu"])
def test_gates(forward, backwards, gate):
    e, g, dw = (torch.randn(6, 500) for _ in range(3))
    same([forward(e.view(2, 3, 500), g.view(2, 3, 500)).view(6, 500)], [gate(e) * g])
    at = e.clone().requires_grad_()
    (slope,) = torch.autograd.grad(gate(at).sum(), at)
    same(backwards(dw.clone(), e.clone(), g.clone()), [gate(e) * g, dw * gate(e), dw * g * slope])


# of a small softcap the sums would be off: masked positions, at -inf, go through tanh as well and add exp(-softcap) each
@pytest.mark.parametrize("softcap", [0, 30.0])
@pytest.mark.parametrize("words", [1000, 70_000])
def test_cross_entropy(words, softcap):
    labels = torch.tensor([1, words - 1, -100])
    lossy = lambda x: F.cross_entropy(softcap * torch.tanh(x / softcap) if softcap else x, labels, reduction="none")  # noqa: E731
    x = torch.randn(3, words)
    got = backward(lambda x: cross_entropy_loss.Fast_CrossEntropyLoss.apply(x.clone(), labels, softcap, 0), x)
    same(got, backward(lossy, x))


def test_fp8():
    x = torch.randn(128, 256)
    q, scales = fp8.act_quant(x)
    same([(q.float().view(128, 2, 128) * scales[..., None]).view(128, 256)], [x], 0.1)
    weight, by_block = torch.randn(256, 256).to(torch.float8_e4m3fn), torch.rand(2, 2) + 0.5
    full = weight.float() * by_block.repeat_interleave(128, 0).repeat_interleave(128, 1)
    same([fp8.weight_dequant_block(weight, by_block, dtype=torch.float32)], [full])
    product = fp8.w8a8_block_fp8_matmul_triton(q, weight, scales, by_block, [128, 128], torch.float32)
    same([product], [(q.float().view(128, 2, 128) * scales[..., None]).view(128, 256) @ full.T], 1e-2)
