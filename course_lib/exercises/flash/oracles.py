"""Oracles of unit 09: right results and their error bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from course_lib.criteria import EPS32, roundings
from course_lib.exercises.attention.oracles import Forward, seen
from course_lib.exercises.remembered import remembered

# ------------------------------------------------------------------------------------------------ oracles


def visible(nq: int, nk: int, causal: bool, window: int | None, device: Any) -> torch.Tensor:
    """Return the mask (nq, nk), True where a query sees a key."""
    mask = seen(nq, nk, causal, device)
    if window is not None:
        mask &= ~torch.ones_like(mask).tril(nk - nq - window)  # keys too old for the window
    return mask


TOGETHER = 1 << 18  # scores of heads that are worked out at once: small heads one by one take longer


def by_heads(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None, window: int | None
) -> Iterator[tuple[torch.Tensor, ...]]:
    """Yield, for some heads at a time of q (heads, Nq, D), k and v (fewer heads, Nk, D), in float64: the probabilities (..., Nq, Nk), v
    (..., Nk, D), the log-sum-exp (..., Nq), and the largest sum of |terms| of a score (..., Nq)."""
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    mask = visible(q.shape[-2], k.shape[-2], causal, window, q.device)
    group, some = q.shape[0] // k.shape[0], max(1, TOGETHER // max(1, mask.numel()))
    for each in zip(
        *(x.split(some) for x in (q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0))), strict=True
    ):
        one, key, value = (x.double() for x in each)
        s = (one @ key.mT * factor).masked_fill(~mask, -math.inf)
        size = (abs(factor) * one.abs() @ key.abs().mT).amax(-1)
        yield torch.softmax(s, -1).nan_to_num(0), value, s.logsumexp(-1), size


class Bounds(NamedTuple):
    """Results of attention and their error bounds, for each head of q and each of its rows: o and lse, the error of float32 arithmetic in
    lse and in o, and the sum of the absolute values of the terms of o."""

    o: torch.Tensor
    lse: torch.Tensor
    error: torch.Tensor
    inside: torch.Tensor
    weights: torch.Tensor


@remembered
def bounds(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None, window: int | None
) -> Bounds:
    """Compute the Bounds of attention for q (..., Nq, D), or (heads, D) of one query each; k, v (..., Nk, D), of fewer heads or as many."""
    rows = q[:, None] if q.dim() == k.dim() - 1 else q
    q, k, v = (x.reshape(-1, *x.shape[-2:]) for x in (rows, k, v))
    found = []
    for p, value, lse, size in by_heads(q, k, v, causal, scale, window):
        error = (2 * math.sqrt(k.shape[-2]) + 8 + 2 * size) * EPS32
        inside = error[..., None] * value.abs().amax(-2, keepdim=True)
        found.append((p @ value, lse, error, inside, p @ value.abs()))
    return Bounds(*(torch.cat(part) for part in zip(*found, strict=True)))


def attend(q, k, v, causal=False, scale=None, window=None, **_: Any) -> Forward:
    """Compute attention's (o, lse): o (..., Nq, D) in float64, lse (..., Nq) in float32."""
    found = bounds(q, k, v, bool(causal), scale, window)
    return Forward(found.o.reshape(q.shape).clone(), found.lse.reshape(q.shape[:-1]).float())


def attend_causal(q, k, v, **_: Any) -> Forward:
    """Compute (o, lse) of causal attention, whatever the arguments say."""
    return attend(q, k, v, causal=True)


def only_o(q, k, v, **more: Any) -> torch.Tensor:
    """Compute attention and return o without lse."""
    return attend(q, k, v, **more)[0]


def windowed(q, k, v, window: int) -> torch.Tensor:
    """Compute causal attention with a window."""
    return attend(q, k, v, causal=True, window=window)[0]


def decoded(q, k, v, splits: int) -> torch.Tensor:
    """Compute attention of one query for each head; how keys are split makes no difference."""
    return attend(q, k, v)[0]


def oracle_of(call: dict[str, Any]) -> Callable[..., Any]:
    """Select the oracle for a call with these arguments."""
    if "s" in call:
        return means
    if "splits" in call:
        return decoded
    return windowed if "window" in call else attend


def means(s: torch.Tensor, v: torch.Tensor) -> Forward:
    """Compute (o, lse) from scores s (M, N) and values v (N, D): in float64, and in float32."""
    return Forward(torch.softmax(s.double(), -1).nan_to_num(0) @ v.double(), s.double().logsumexp(-1).float())


# ------------------------------------------------------------------------------------------------ budgets


def kernel_budget(expected, dtype, arguments):
    """Return the error bounds for o and lse. For o: one rounding of the result and one of the probabilities, to the dtype of v, with half
    as much again, and float32 arithmetic inside. For lse: float32 arithmetic alone."""
    q, k, v = (arguments[name] for name in "qkv")
    causal, scale, window = (arguments.get(name) for name in ("causal", "scale", "window"))
    known = bounds(q, k, v, bool(causal), scale, window)
    if expected.shape != q.shape:
        return known.error.reshape(expected.shape) + 4 * EPS32 * expected.abs().nan_to_num(0, posinf=0, neginf=0)
    return rounded(expected, dtype, v.dtype, known.weights.reshape(q.shape)) + known.inside.reshape(q.shape)


def causal_budget(expected, dtype, arguments):
    """Return `kernel_budget` for attention that is always causal."""
    return kernel_budget(expected, dtype, arguments | {"causal": True})


def rounded(expected: torch.Tensor, dtype: torch.dtype, inner: torch.dtype, weights: torch.Tensor) -> torch.Tensor:
    """Return the error bound of two roundings of the result and one of its terms; weights: the sum of the terms' absolute values."""
    return roundings(expected, dtype, 1) + torch.finfo(inner).eps / 2 * weights


def means_budget(expected, dtype, arguments):
    """Return the error bounds of `means`, attention from given scores."""
    s, v = arguments["s"].double(), arguments["v"].double()
    error = (2 * math.sqrt(s.shape[1]) + 32) * EPS32
    if expected.dim() == 1:
        return error + 4 * EPS32 * expected.abs().nan_to_num(0, posinf=0, neginf=0)
    weights = torch.softmax(s, -1).nan_to_num(0) @ v.abs()
    return rounded(expected, dtype, arguments["v"].dtype, weights) + error * v.abs().amax(0)
