"""FlashAttention behind the interface that CS336's second assignment publishes: a torch.autograd.Function with
apply(q, k, v, is_causal) on (batch, queries, D), which keeps exactly one tensor of shape (batch, queries), the log-sum-exp.

Written anew from that interface, and with its shapes and tolerances. What is tested is unit 10's published solution, whose forward
pass is as unit 09's; `adapter` is all that its students have to write.
"""

from __future__ import annotations

import contextlib
import math
from functools import cache

import pytest
import torch

from course_lib import trace
from grader.published import published

BATCH, QUERIES, D = 4, 128, 64
SOLUTION = "flash_backward.flash_attention"
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]


@cache
def adapter(device: str) -> type[torch.autograd.Function]:
    return published(SOLUTION, on_the_cpu=device == "cpu")


def running(device: str):
    """Kernels run traced where there is no GPU."""
    return trace() if device == "cpu" else contextlib.nullcontext()


def drawn(device: str, count: int = 3) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    return [torch.randn(BATCH, QUERIES, D, generator=g).to(device).requires_grad_() for _ in range(count)]


def whole(q, k, v, is_causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse) with the whole matrix of scores."""
    s = q @ k.mT / math.sqrt(q.shape[-1])
    if is_causal:
        s = s.masked_fill(~torch.ones_like(s, dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_forward_returns_o_and_keeps_the_log_sum_exp_alone(device, is_causal):
    q, k, v = drawn(device)
    with running(device):
        o = adapter(device).apply(q, k, v, is_causal)
    kept = [t for t in o.grad_fn.saved_tensors if t.shape == (BATCH, QUERIES)]
    assert len(kept) == 1, "exactly one tensor of shape (batch, queries)"
    expected, lse = whole(q, k, v, is_causal)
    torch.testing.assert_close(o, expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(kept[0], lse, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_causal", [False, True], ids=["full", "causal"])
def test_backward_gives_the_gradients(device, is_causal):
    q, k, v, do = drawn(device, 4)
    expected = torch.autograd.grad(whole(q, k, v, is_causal)[0], (q, k, v), do)
    with running(device):
        adapter(device).apply(q, k, v, is_causal).backward(do)
    for found, right in zip((q.grad, k.grad, v.grad), expected, strict=True):
        torch.testing.assert_close(found, right, rtol=1e-2, atol=1e-2)


def test_that_tolerance_is_wide_enough_for_kernels_that_are_wrong():
    """The reason why the course's own cases are harder: on these inputs a kernel without a running maximum is right."""
    q, k, v = drawn("cpu")
    s = q @ k.mT / math.sqrt(D)
    without_maximum = torch.exp(s) @ v / torch.exp(s).sum(-1, keepdim=True)
    torch.testing.assert_close(without_maximum, whole(q, k, v, False)[0], rtol=1e-2, atol=1e-2)
