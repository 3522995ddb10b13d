"""Oracles of unit 07: right results and their error bounds."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch.nn.functional import gelu, rms_norm

from course_lib.criteria import EPS32, roundings
from course_lib.workloads.activations import chain, split_evenly
from course_lib.workloads.gradients import dotted
from tritontrace.tracing import trace

RMS_EPS = 1e-6


# ------------------------------------------------------------------------------------------------ oracles


def with_gradients(fn: Callable, dy: torch.Tensor, **inputs: torch.Tensor) -> Any:
    """Compute (out, dx, ...) in float64, one gradient for each of `inputs` and named after it."""
    names = namedtuple("WithGradients", ["out", *(f"d{name}" for name in inputs)])
    with torch.enable_grad():
        leaves = [x.double().detach().requires_grad_() for x in inputs.values()]
        out = fn(*leaves)
        return names(out.detach(), *torch.autograd.grad(dotted(out, dy), leaves))


def kept_bytes(name: str, sizes: Sequence[int], *, inputs: bool = False) -> int:
    """Count the bytes that autograd saves for backward of a chain, besides the chain's arguments; with `inputs`, including them."""
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage()._cdata] = tensor.untyped_storage()
        return tensor

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        fn, args = chain(name, sizes)
        _out = fn(*args)
    own = set() if inputs else {a.untyped_storage()._cdata for a in args}
    return sum(storage.nbytes() for key, storage in kept.items() if key not in own)


@triton.jit
def sigmoids(x_ptr, s1_ptr, s2_ptr, out_ptr, n, STORE: tl.constexpr, BLOCK: tl.constexpr):
    """Compute three sigmoids in a row; STORE: keep the first two."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s1 = tl.sigmoid(tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32))
    s2 = tl.sigmoid(s1)
    if STORE:
        tl.store(s1_ptr + i, s1, mask=i < n)
        tl.store(s2_ptr + i, s2, mask=i < n)
    tl.store(out_ptr + i, tl.sigmoid(s2), mask=i < n)


@triton.jit
def sigmoids_backward(x_ptr, s1_ptr, s2_ptr, dy_ptr, dx_ptr, n, STORED: tl.constexpr, BLOCK: tl.constexpr):
    """Compute the gradient of three sigmoids; STORED: from the first two results, otherwise from x."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if STORED:
        s1 = tl.load(s1_ptr + i, mask=i < n, other=0).to(tl.float32)
        s2 = tl.load(s2_ptr + i, mask=i < n, other=0).to(tl.float32)
    else:
        s1 = tl.sigmoid(tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32))
        s2 = tl.sigmoid(s1)
    s3 = tl.sigmoid(s2)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0).to(tl.float32)
    tl.store(dx_ptr + i, dy * s1 * (1 - s1) * s2 * (1 - s2) * s3 * (1 - s3), mask=i < n)


class Ways(NamedTuple):
    """Bytes that each kernel moves, forward and backward."""

    forward: int
    backward: int


@cache
def sigmoid_bytes(n: int, itemsize: int, recompute: bool) -> Ways:
    """Trace the bytes of three fused sigmoids, forward and backward: backward recomputes s1 and s2 from x, or they are stored."""
    x = torch.ones(n, dtype={2: torch.float16, 4: torch.float32, 8: torch.float64}[itemsize])
    s1, s2, out, dy, dx = (torch.ones_like(x) for _ in range(5))
    BLOCK, found = 1024, []
    for kernel, tensors in ((sigmoids, (x, s1, s2, out)), (sigmoids_backward, (x, s1, s2, dy, dx))):
        with trace() as t:
            launch: Any = kernel[(triton.cdiv(n, BLOCK),)]
            launch(*tensors, n, not recompute, BLOCK=BLOCK)
        found.append(t.bytes)
    return Ways(*found)


@triton.jit
def draws(out_ptr, n, seed, BLOCK: tl.constexpr):
    """Store the i-th random number of the seed in out[i]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.rand(seed, i), mask=i < n)


def kept_elements(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """Return the dropout mask: a boolean tensor of x's shape, True where an element is kept."""
    return drawn(x.numel(), seed, x.device).reshape(x.shape) >= p


def drawn(n: int, seed: int, device: Any = "cpu") -> torch.Tensor:
    """Return the first n numbers of tl.rand for a seed, (n,) float32."""
    numbers = torch.empty(n, device=device)
    with nullcontext() if numbers.is_cuda else trace():
        draws[(triton.cdiv(n, 4096),)](numbers, n, seed, BLOCK=4096)  # pyright: ignore[reportArgumentType]
    return numbers


def three_sigmoids(x, dy, between=()) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute three sigmoids in a row and their gradient in float64. between: inputs of another application, which change nothing."""
    return with_gradients(lambda x: x.sigmoid().sigmoid().sigmoid(), dy, x=x)


def gated_gelu(x, gate, dy, between=()) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute gelu(x) * gate and its gradients in float64. between: as in three_sigmoids."""
    return with_gradients(lambda x, gate: gelu(x) * gate, dy, x=x, gate=gate)


def dropout_and_gradient(x, p, seed, dy, between=()) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute dropout and its gradient in float64. between: as in three_sigmoids."""
    kept = kept_elements(x, p, seed).double() / (1 - p)
    return with_gradients(lambda x: x * kept, dy, x=x)


class NormGradients(NamedTuple):
    """Gradients of x and of the weight of RMSNorm."""

    dx: torch.Tensor
    dweight: torch.Tensor


def rmsnorm_gradients(x, weight, rstd, dy) -> NormGradients:
    """Compute the gradients of RMSNorm, for a gradient dy of its result."""
    norm = lambda x, weight: rms_norm(x, x.shape[1:], weight, RMS_EPS)  # noqa: E731
    _, dx, dweight = with_gradients(norm, dy, x=x, weight=weight)
    return NormGradients(dx, dweight.float())


def peak_of(layers: int, boundary: int, inside: int, segments: int) -> int:
    """Simulate a checkpointed step and return its peak: boundaries pile up, then segments are recomputed, the last one first, and freed."""
    kept, peak = segments * boundary, 0
    for length in reversed(split_evenly(layers, segments)):
        peak = max(peak, kept + length * inside)
        kept -= boundary
    return peak


def least_peak(layers: int, boundary: int, inside: int) -> tuple[int, int]:
    """Return the number of segments with the lowest peak, and that peak, by trying all."""
    peaks = {s: peak_of(layers, boundary, inside, s) for s in range(1, layers + 1)}
    best = min(peaks, key=peaks.__getitem__)
    return best, peaks[best]


def two_like_x(output: Any, x: torch.Tensor) -> bool:
    """Tell whether `output` is a result and a gradient: two finite tensors of the shape of x."""
    return (
        isinstance(output, list)
        and len(output) == 2
        and all(isinstance(o, torch.Tensor) and o.shape == x.shape and bool(o.isfinite().all()) for o in output)
    )


# ------------------------------------------------------------------------------------------------ budgets


def sigmoid_budget(expected, dtype, arguments):
    """Return the error bound: each factor s (1 - s) may be off by a few roundings of 1; of the result's dtype, if s was stored."""
    dy = arguments["dy"].double().abs()
    return roundings(expected, dtype) + 4 * EPS32 * (1 + dy) + torch.finfo(dtype).eps / 16 * dy


def gelu_budget(expected, dtype, arguments):
    """Return the error bound: F, the normal distribution function, is off by a rounding of 1, and multiplies all of these terms."""
    x, gate, dy = (arguments[name].double().abs() for name in ("x", "gate", "dy"))
    return roundings(expected, dtype) + 8 * EPS32 * (x * gate + dy * gate * (1 + x) + dy * x)


def cross_entropy_budget(expected, dtype, arguments):
    """Return the error bound: x - lse is off by a rounding of the larger of the two. The relative error of its exponential is as large."""
    x, lse, dloss = (arguments[name].double() for name in ("x", "lse", "dloss"))
    size = torch.where(x.isinf(), 0, x.abs()) + lse[:, None].abs() + 8
    p = torch.exp(x - lse[:, None])
    return roundings(expected, dtype) + 2 * EPS32 * dloss.abs()[:, None] * (p * size + 1)


def rmsnorm_budget(expected, dtype, arguments):
    """Return the error bound: dx sums N terms, and dweight sums M. Their roundings make a random walk, with room for any order."""
    x, weight, dy = (arguments[name].double() for name in ("x", "weight", "dy"))
    rstd = arguments["rstd"].double()[:, None]
    M, N = x.shape
    if expected.dim() == 1:
        size, length = (dy * x * rstd).abs().sum(0), M
    else:
        g = (weight * dy).abs()
        size = rstd * (g + (x * rstd).abs() * (g * (x * rstd).abs()).mean(1, keepdim=True))
        length = N
    return roundings(expected, dtype) + (2 * math.sqrt(length) + 8) * EPS32 * size


def rounding_budget(expected, dtype, arguments):
    """Return the error bound of a few roundings of the result."""
    return roundings(expected, dtype)
