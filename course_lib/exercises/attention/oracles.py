"""Oracles of unit 08: right results, their error bounds, and properties that right results have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, roundings
from course_lib.hardware.measurements import measured
from course_lib.words import in_words
from course_lib.workloads.gradients import dotted

# ------------------------------------------------------------------------------------------------ oracles


def seen(nq: int, nk: int, causal: bool = True, device: Any = None) -> torch.Tensor:
    """Return the mask (nq, nk), True where a query sees a key."""
    everything = torch.ones(nq, nk, dtype=torch.bool, device=device)
    return everything.tril(nk - nq) if causal else everything


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention's (o, lse) in float64: o (..., Nq, D), lse (..., Nq)."""
    q, k, v = q.double(), k.double(), v.double()
    scores = (q @ k.mT) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    scores = scores.masked_fill(~seen(q.shape[-2], k.shape[-2], causal, q.device), -math.inf)
    lse = scores.logsumexp(-1)
    return torch.softmax(scores, -1).nan_to_num(0) @ v, lse


class Forward(NamedTuple):
    """Results of a forward pass: o (..., Nq, D) and lse (..., Nq)."""

    o: torch.Tensor
    lse: torch.Tensor


class Gradients(NamedTuple):
    """Gradients of the loss with respect to q, k and v, in their shapes."""

    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor


class State(NamedTuple):
    """The state of an online softmax: maximum, sum and weighted sum."""

    m: torch.Tensor
    l: torch.Tensor
    acc: torch.Tensor


def output_and_lse(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **more: Any) -> Forward:
    """Compute o in float64 and lse in float32."""
    o, lse = reference(q, k, v, **more)
    return Forward(o, lse.float())


def gradients(q, k, v, do, causal: bool = False, **_: Any) -> Gradients:
    """Compute (dq, dk, dv) in float64 by autograd; queries that see nothing are left out, and get zeros."""
    nothing = max(0, q.shape[-2] - k.shape[-2]) if causal else 0
    with torch.enable_grad():
        q, k, v = (t.double().detach().requires_grad_() for t in (q, k, v))
        o = reference(q[..., nothing:, :], k, v, causal=causal)[0]
        return Gradients(*torch.autograd.grad(dotted(o, do[..., nothing:, :]), (q, k, v)))


def merged(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> State:
    """Merge two states of an online softmax in float64, by way of log-sum-exps and means."""
    m = torch.maximum(a[0], b[0]).double()
    base = torch.where(m == -math.inf, 0, m)
    lse_a, lse_b = (x[0].double() + x[1].double().log() for x in (a, b))
    l = torch.exp(torch.logaddexp(lse_a, lse_b) - base)
    first, second = (
        torch.exp(lse - base)[..., None] * (x[2].double() / x[1].double()[..., None]).nan_to_num(0)
        for lse, x in ((lse_a, a), (lse_b, b))
    )
    return State(m.float(), l.float(), (first + second).float())


def rotated(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Compute rotary embeddings: pairs (x[2 i], x[2 i + 1]) as complex numbers, each turned by position * base ** (-2 i / D)."""
    turns = base ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64, device=x.device) / x.shape[-1])
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    angles = positions.double()[:, None] * turns
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def tiles_of(programs: int, bm: int, bn: int, nq: int, nk: int) -> list[list[int]]:
    """Return [full, end] for each program, looked up in the mask, tile by tile."""
    mask, found = seen(nq, nk).numpy(), []
    for pid in range(programs):
        band = mask[pid * bm : (pid + 1) * bm]
        tiles = [band[:, start : start + bn] for start in range(0, nk, bn)]
        whole = [t.all() and t.shape[1] == bn for t in tiles]
        found.append([int(sum(whole)), int(sum(t.any() for t in tiles))])
    return found


@cache
def footprints() -> dict[tuple, int]:
    """Return the bytes that a traced kernel moved, by (n, d, bm, bn, itemsize, causal)."""
    return {tuple(row[:-1]): row[-1] for row in measured("flash_footprints")["rows"]}


def moved_bytes(n: int, d: int, bm: int, bn: int, itemsize: int, causal: bool) -> int:
    """Count the bytes of a forward pass, from a trace if there is one; else from each program's tiles in the mask."""
    traced = footprints().get((n, d, bm, bn, itemsize, causal))
    if traced is not None:
        return traced
    mask, keys = seen(n, n, causal).numpy(), 0
    for first in range(0, n, bm):
        for start in range(0, n, bn):
            if mask[first : first + bm, start : start + bn].any():
                keys += min(bn, n - start)
    return 2 * n * d * itemsize + 4 * n + 2 * keys * d * itemsize


# ------------------------------------------------------------------------------------------------ budgets


def rotary_budget(expected, dtype, arguments):
    """Return the error bound for rotary embeddings: one rounding, and the error of an angle in float32."""
    x, positions = arguments["x"].double(), arguments["positions"].double()
    length = x.unflatten(-1, (-1, 2)).norm(dim=-1).repeat_interleave(2, -1)
    turns = arguments.get("base", 10000.0) ** (-torch.arange(0, x.shape[-1], 2, device=x.device).double() / x.shape[-1])
    angle = (positions.abs()[:, None] * turns).repeat_interleave(2, -1)
    return length * (0.75 * torch.finfo(dtype).eps + (8 + 8 * angle) * EPS32)


def merge_budget(expected, dtype, arguments):
    """Return the error bound of a merge: each factor exp(m - m_new) is off by some roundings, and by one of its exponent."""
    (m_a, _, acc_a), (m_b, _, acc_b) = arguments["a"], arguments["b"]
    apart = (m_a - m_b).double().abs().nan_to_num(0, posinf=0)
    relative = (8 + apart) * EPS32
    if expected.dim() == m_a.dim():
        return relative * torch.where(expected.isfinite(), expected.abs(), 0)
    m = torch.maximum(m_a, m_b).double()
    base = torch.where(m == -math.inf, 0, m)
    size = sum(torch.exp(x.double() - base)[..., None] * acc.double().abs() for x, acc in ((m_a, acc_a), (m_b, acc_b)))
    return relative[..., None] * size


def score_error(q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """Return the relative error (..., Nq) of exp(score), and of a sum of them, that honest float32 arithmetic may have."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    size = (scale * q.double().abs() @ k.double().abs().mT).amax(-1)
    return (2 * math.sqrt(k.shape[-2]) + 8 + 2 * size) * EPS32


def attention_budget(expected, dtype, arguments):
    """Return the error bounds for o and lse. For o: four roundings of its own, and the error of float32 arithmetic times the largest |v| of
    the channel. For lse: that error, and a rounding or four."""
    q, k, v = (arguments[name] for name in "qkv")
    error = score_error(q, k, arguments.get("scale"))
    if expected.dim() < q.dim():
        return error + 4 * EPS32 * torch.where(expected.isfinite(), expected.abs(), 0)
    return roundings(expected, dtype) + error[..., None] * v.double().abs().amax(-2, keepdim=True)


def backward_budget(expected, dtype, arguments):
    """Return the error bound for dq, dk or dv: sums over keys or queries, each term with the error of its probability, in float32. o was
    rounded to the task's dtype, and so delta = rowsum(do * o) is off by as much."""
    which = next(i for i, found in enumerate(gradients(**arguments)) if torch.equal(found, expected))
    q, k, v, o, do = (arguments[name].double() for name in ("q", "k", "v", "o", "do"))
    scale = 1 / math.sqrt(q.shape[-1])
    mask = seen(q.shape[-2], k.shape[-2], arguments["causal"], q.device)
    p = torch.softmax((q @ k.mT * scale).masked_fill(~mask, -math.inf), -1).nan_to_num(0)
    walk = 2 * math.sqrt(q.shape[-2] + q.shape[-1]) * EPS32
    # of s - lse: the score's error, and lse's own last bit
    error = (score_error(q, k) + walk + EPS32 * arguments["lse"].double().abs().nan_to_num(0, posinf=0))[..., None]
    do_o = (do * o).abs().sum(-1, keepdim=True)
    ds = p * ((do.abs() @ v.abs().mT + do_o) * error + torch.finfo(dtype).eps / 2 * do_o)
    sums = (lambda: scale * ds @ k.abs(), lambda: scale * ds.mT @ q.abs(), lambda: (p * error).mT @ do.abs())
    return roundings(expected, dtype) + sums[which]()


# ------------------------------------------------------------------------------------------------ properties


def any_order(output: Any, a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> str:
    """Return "" if merging gives the same in any order (x + y and y + x, (x + y) + z and x + (y + z)), else a message."""
    if not isinstance(output, list) or len(output) != 3 or not all(isinstance(t, torch.Tensor) for t in output):
        return say("attention.merge.no_state")
    n = len(a[0]) // 4
    for name, out, right in zip(("m", "l", "acc"), output, merged(a, b), strict=True):
        if out.shape != right.shape:
            return say("attention.merge.shape", name=name, right=str(tuple(right.shape)), got=str(tuple(out.shape)))
        parts = out.double().split(n)
        for law, one, other in ((say("attention.merge.commutes"), 0, 1), (say("attention.merge.associates"), 2, 3)):
            apart = (parts[one] - parts[other]).abs().max()
            if not apart <= 1e-5 * (1 + parts[one].abs().max()):
                return say("attention.merge.differs", law=law, name=name, apart=float(apart))
    return ""


def _tiles(first: int, end: int, kind: str) -> str:
    """ "tile 3 is full", "tiles 0 to 2 are full" or "no tile is full"."""
    if end <= first:
        return say(f"attention.causal_tiles.none_{kind}")
    if end - first == 1:
        return say(f"attention.causal_tiles.one_{kind}", first=first)
    return say(f"attention.causal_tiles.several_{kind}", first=first, last=end - 1)


def right_tiles(output: Any, programs: int, bm: int, bn: int, nq: int, nk: int) -> str:
    """Return "" if the pair (full, end) of each program is right, else a message."""
    right = tiles_of(programs, bm, bn, nq, nk)
    for pid, (found, expected) in enumerate(zip(output, right, strict=True)):
        said = say("attention.causal_tiles.task", nq=nq, nk=nk, bm=bm, bn=bn, program=pid)
        if not isinstance(found, list) or [type(x) for x in found] != [int, int]:
            return say("attention.causal_tiles.no_pair", given=said, got=in_words(found))
        if found != expected:
            full, end = expected
            kinds = {"full": _tiles(0, full, "full"), "masked": _tiles(full, end, "masked")}
            facts = {"right": str((full, end)), "got": str(tuple(found))}
            return say("attention.causal_tiles.other", given=said, **kinds, **facts)
    return ""
