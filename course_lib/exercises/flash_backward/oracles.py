"""Oracles of unit 10: right gradients and their error bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from course_lib.criteria import EPS32, roundings
from course_lib.exercises.attention import oracles as of_attention
from course_lib.exercises.attention.oracles import CHANCE, score_error
from course_lib.exercises.cases import FP32
from course_lib.exercises.flash.oracles import TOGETHER, attend, kernel_budget, visible
from course_lib.exercises.remembered import remembered

# ------------------------------------------------------------------------------------------------ oracles


class Result(NamedTuple):
    """Results of a forward and a backward pass: o, and the gradients of q, k and v."""

    o: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


class KeysAndValues(NamedTuple):
    """Gradients of the keys and of the values."""

    dk: torch.Tensor
    dv: torch.Tensor


def by_heads(q: torch.Tensor, k: torch.Tensor, *more: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield the tensors (..., N, D) as (some heads, N, D) each, some heads at a time, in float64."""
    some = max(1, TOGETHER // max(1, q.shape[-2] * k.shape[-2]))
    return zip(*(t.reshape(-1, *t.shape[-2:]).double().split(some) for t in (q, k, *more)), strict=True)


def joined(found: Sequence[Sequence[torch.Tensor]], *like: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Join results that were computed some heads at a time, in the shapes of `like`."""
    return tuple(torch.cat(part).reshape(x.shape) for part, x in zip(zip(*found, strict=True), like, strict=True))


@remembered
def gradients(q, k, v, do, causal: bool = False, scale: float | None = None, **_: Any) -> tuple[torch.Tensor, ...]:
    """Compute (dq, dk, dv) in float64."""
    times = 1.0 if scale is None else scale * math.sqrt(q.shape[-1])  # a scale of one's own is one of q
    found = []
    for of_q, of_k, of_v, of_do in by_heads(q, k, v, do):
        dq, dk, dv = of_attention.gradients(times * of_q, of_k, of_v, of_do, causal)
        found.append((times * dq, dk, dv))
    return joined(found, q, k, v)


def keys_and_values(**given: Any) -> KeysAndValues:
    """Compute dk and dv."""
    return KeysAndValues(*gradients(**given)[1:])


def result(q, k, v, dy, between=(), **more: Any) -> Result:
    """Compute o and the gradients for a gradient dy of o. between: inputs of another application, which change nothing."""
    return Result(attend(q, k, v, **more)[0], *gradients(q, k, v, dy, **more))


def row_dots(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor:
    """Compute delta: the sum of o * do along each row, in float32."""
    return (o.double() * do.double()).sum(-1).float()


# ------------------------------------------------------------------------------------------------ budgets


def delta_budget(expected, dtype, arguments):
    """Return the error bound for delta: the float32 error of a sum of D products."""
    o, do = (arguments[name].double() for name in ("o", "do"))
    return (2 * math.sqrt(o.shape[-1]) + 4) * EPS32 * (o * do).abs().sum(-1)


@remembered
def allowances(
    q, k, v, do, causal=False, scale=None, o_rounded: bool = False, of: str = "qkv", **_: Any
) -> tuple[torch.Tensor, ...]:
    """Return the error bounds for dq, dk and dv, or for those of them that are named in `of`.

    Float32 arithmetic: each probability has the error of its score, each sum that of its order. Half precision: probabilities and
    ds are rounded once, for a product, and as many errors of either sign add up to the root of their squares.
    o_rounded: delta was computed from an o of q's dtype.
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    nq, nk, d = q.shape[-2], k.shape[-2], q.shape[-1]
    mask = visible(nq, nk, causal, None, q.device)
    info = torch.finfo(q.dtype)
    unit = info.eps / 2 if q.dtype != FP32 else 0.0
    least = info.smallest_normal * unit  # float16 has no smaller numbers to round to
    order = 2 * math.sqrt(max(nq, nk) + d) * EPS32

    def walk(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | float:
        if not unit:
            return 0.0
        return CHANCE * torch.sqrt((unit * x.abs() + least * (x != 0)) ** 2 @ y**2)

    def bounds(q1: torch.Tensor, k1: torch.Tensor, v1: torch.Tensor, do1: torch.Tensor) -> Iterator[torch.Tensor]:
        s = (q1 @ k1.mT * scale).masked_fill(~mask, -math.inf)
        lse = s.logsumexp(-1, keepdim=True)
        p = torch.softmax(s, -1).nan_to_num(0)
        error = (score_error(q1, k1, scale)[..., None] + order + EPS32 * lse.abs().nan_to_num(0, posinf=0)) * p
        dp = do1 @ v1.mT
        ds = p * (dp - (p * dp).sum(-1, keepdim=True))
        sizes = do1.abs() @ v1.abs().mT + (do1.abs() * (p @ v1.abs())).sum(-1, keepdim=True)
        delta = torch.zeros_like(lse)
        if o_rounded:  # one error a query: of delta, and so were the probabilities that made it
            of_o = (do1 * (p @ v1)).square().sum(-1, keepdim=True) + (p * dp).square().sum(-1, keepdim=True)
            delta = CHANCE * unit * torch.sqrt(of_o)
        for name in of:
            if name == "q":
                yield scale * (error * sizes @ k1.abs() + walk(ds, k1) + delta * (p @ k1).abs())
            elif name == "k":
                of_delta = CHANCE * torch.sqrt(((delta * p) ** 2).mT @ q1**2)
                yield scale * ((error * sizes).mT @ q1.abs() + walk(ds.mT, q1) + of_delta)
            else:
                yield error.mT @ do1.abs() + walk(p.mT, do1)

    found = [[*bounds(*some)] for some in by_heads(q, k, v, do)]
    return joined(found, *({"q": q, "k": k, "v": v}[name] for name in of))


def gradient_budget(expected, dtype, arguments, of: str = "qkv"):
    """Return the error bound for dq, dk or dv, whichever `expected` is; of: those that an exercise asks for."""
    expected = expected.nan_to_num()  # NaN equals nothing, and a wrong reading of an input may hold some
    which = next(i for i, each in enumerate(gradients(**arguments)) if torch.equal(each.nan_to_num(), expected))
    bounds = dict(zip(of, allowances(**arguments, of=of), strict=True))
    return roundings(expected, dtype, 1) + bounds["qkv"[which]]


def result_budget(expected, dtype, arguments):
    """Return the error bounds for o as in unit 09, and for gradients that were computed from a rounded o."""
    given = {("do" if name == "dy" else name): value for name, value in arguments.items()}
    for i, found in enumerate(gradients(**given)):
        if torch.equal(found, expected):
            return roundings(expected, dtype, 1) + allowances(**given, o_rounded=True)[i]
    return kernel_budget(expected, dtype, given)
