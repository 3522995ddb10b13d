"""Slips of a backward pass: gradients with one mistake each, in float64, to compare with a student's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from course_lib.exercises.attention.forward_slips import each_sees_a_key, is_whole, no_infinities, of_tiles, shares
from course_lib.exercises.attention.oracles import gradients, seen

SIZES = [(16, 16), (32, 32), (64, 64), (128, 128), (64, 32), (128, 64)]
"""Tiles of queries x keys that a kernel may have."""


@dataclass(frozen=True)
class Parts:
    """The parts that the gradients of a call are made of, in float64: s, p, dp, sees (..., Nq, Nk), and lse, delta (..., Nq, 1). p is 0
    where a query does not see a key, and s is not masked."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    do: torch.Tensor
    scale: float
    s: torch.Tensor
    sees: torch.Tensor
    lse: torch.Tensor
    p: torch.Tensor
    dp: torch.Tensor
    delta: torch.Tensor

    def ds(self, **changed: torch.Tensor) -> torch.Tensor:
        """p * (dp - delta), of other ones if they are given."""
        parts = replace(self, **changed)
        return parts.p * (parts.dp - parts.delta)


def parts_of(q, k, v, do, causal: bool = False, scale: float | None = None) -> Parts:
    """Compute the parts of a call."""
    q, k, v, do = (x.double() for x in (q, k, v, do))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    sees, s, dp = seen(q.shape[-2], k.shape[-2], causal, q.device), scale * q @ k.mT, do @ v.mT
    lse = s.masked_fill(~sees, -torch.inf).logsumexp(-1, keepdim=True)
    p = torch.exp(s - lse) * sees
    return Parts(q, k, v, do, scale, s, sees, lse, p, dp, (p * dp).sum(-1, keepdim=True))


Change = Callable[[Parts], torch.Tensor | tuple[torch.Tensor, torch.Tensor]]


def slipped(change: Change, causal: bool | None = None) -> Callable[..., Any]:
    """Make (dq, dk, dv) of what `change` returns: ds, or (p, ds). causal: of such calls alone. None where a query sees nothing, and where
    scores are so large that many mistakes give the same."""

    def wrong(q, k, v, do, scale=None, **more):
        masked = more.get("causal", False)
        if (
            causal not in (None, masked)
            or not each_sees_a_key(q, k, masked)
            or q.shape[:-2] != k.shape[:-2]
            or scale == 0
        ):
            return None
        parts = parts_of(q, k, v, do, masked, scale)
        if bool((parts.s.abs() > 80).any()):
            return None
        changed = change(parts)
        # trap: what is too large for half precision is infinite in a product, and in what comes of it
        p, ds = (x.to(q.dtype).double() for x in (changed if isinstance(changed, tuple) else (parts.p, changed)))
        found = parts.scale * (ds @ parts.k), parts.scale * (ds.mT @ parts.q), p.mT @ parts.do
        return tuple(x.to(q.dtype).double() for x in found)

    return wrong


def of_other_p(other: Callable[[Parts], torch.Tensor]) -> Change:
    """p and ds, of exp of another exponent where a key is seen."""

    def change(parts: Parts) -> tuple[torch.Tensor, torch.Tensor]:
        p = torch.exp(other(parts)) * parts.sees
        return p, parts.ds(p=p)

    return change


unscaled_p = of_other_p(lambda x: x.s / x.scale - x.lse)
row_maximum = of_other_p(lambda x: x.s - x.s.masked_fill(~x.sees, -torch.inf).amax(-1, keepdim=True))


def maximum_of_each_tile(side: int) -> Change:
    """ds of p = exp(s - the largest of the row in its tile)."""
    return of_other_p(lambda x: torch.cat([s - s.amax(-1, keepdim=True) for s in x.s.split(side, -1)], -1))


def lse_of_the_first_tile(side: int) -> Change:
    """ds of p = exp(s - lse of the query with the same number in the first tile)."""
    return of_other_p(lambda x: x.s - x.lse[..., torch.arange(x.s.shape[-2]) % side, :])


def delta_of_each_tile(side: int) -> Change:
    """ds, if delta adds up p * dp in each tile of keys alone."""

    def change(x: Parts) -> torch.Tensor:
        sums = [pdp.sum(-1, keepdim=True).expand_as(pdp) for pdp in (x.p * x.dp).split(side, -1)]
        return x.ds(delta=torch.cat(sums, -1))

    return change


def in_walked_tiles(bm: int, bn: int, ds_is_masked: bool) -> Change:
    """p without a mask in tiles with a seen key, and ds with or without it."""

    def change(x: Parts) -> tuple[torch.Tensor, torch.Tensor]:
        walked = x.sees.clone()
        for tile, keys in of_tiles(x.sees, bm, bn):
            walked[tile] = keys.any()
        p = torch.exp(x.s - x.lse) * walked
        return p, x.ds() if ds_is_masked else x.ds(p=p)

    return change


def with_the_edge(bm: int, bn: int, edge: Callable[[int, int], int]) -> Change:
    """p and ds, if query i sees the keys up to i + edge(Nq, Nk) in tiles that the right mask cuts."""

    def change(x: Parts) -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.ones_like(x.sees).tril(edge(*x.sees.shape))
        for tile, keys in of_tiles(x.sees, bm, bn):
            mask[tile] = mask[tile] & keys.any() | is_whole(keys, bn)
        p = torch.exp(x.s - x.lse) * mask
        return p, x.ds(p=p)

    return change


def ends_with_the_first_row(bm: int, bn: int) -> Change:
    """p and ds, if the walk of a tile of queries ends with the last tile of keys that its first query sees."""
    return without(bm, bn, lambda rows, first: not bool(rows[0, first:].any()))


def ends_before_the_first_row(bm: int, bn: int) -> Change:
    """p and ds, if the walk of a tile of queries has no tile that begins with the last key of its first query, or later."""
    return without(bm, bn, lambda rows, first: not bool(rows[0, first + 1 :].any()))


def without_the_last_tile(bm: int, bn: int) -> Change:
    """p and ds, if the walk of a tile of queries ends one tile of keys early."""
    return without(bm, bn, lambda rows, first: not bool(rows[:, first + bn :].any()))


def begins_a_tile_late(bm: int, bn: int) -> Change:
    """p and ds, if the walk of a tile of keys leaves out the first tile of queries that sees one of them."""

    def change(x: Parts) -> tuple[torch.Tensor, torch.Tensor]:
        here = torch.ones_like(x.sees)
        for keys in (slice(j, j + bn) for j in range(0, x.sees.shape[1], bn)):
            first = next((i for i in range(0, x.sees.shape[0], bm) if bool(x.sees[i : i + bm, keys].any())), 0)
            here[first : first + bm, keys] = False
        p = x.p * here
        return p, x.ds(p=p)

    return change


def without(bm: int, bn: int, lost: Callable[[torch.Tensor, int], bool]) -> Change:
    """p and ds without tiles. lost(what a tile of queries sees, the first key of a tile) tells of each."""

    def change(x: Parts) -> tuple[torch.Tensor, torch.Tensor]:
        here = torch.ones_like(x.sees)
        for (rows, keys), _ in of_tiles(x.sees, bm, bn):
            here[rows, keys] = not lost(x.sees[rows], keys.start)
        p = x.p * here
        return p, x.ds(p=p)

    return change


def several(make: Callable[..., Change], sizes: Sequence[tuple[int, ...]], causal: bool | None = None, **how: Any):
    """Make a slip for each size of tiles."""
    return [slipped(make(*size, **how), causal) for size in sizes]


def p_and_ds(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    do: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    mask: torch.Tensor | None = None,
    minus: float = 1.0,
    weights: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute p and ds (..., Nq, Nk) in float64 with the right lse and delta, or with the change that an argument makes. mask: replaces the
    right mask, which lse and delta still use. minus: how many times delta is subtracted. weights: scores -> p, instead of exp(s - lse)."""
    right = seen(q.shape[-2], k.shape[-2], causal, q.device)
    s, dp = shares(q, k, torch.ones_like(right), scale), do.double() @ v.double().mT
    lse = s.masked_fill(~right, -math.inf).logsumexp(-1, keepdim=True)
    p = torch.exp(s - torch.where(lse == -math.inf, math.inf, lse))
    delta = (p * right * dp).sum(-1, keepdim=True)
    p = (weights(s) if weights else p) * (right if mask is None else mask)
    return p, p * (dp - minus * delta)


def by_chain_rule(
    minus: float = 1.0, edge: Callable[[int, int], int] | None = None, keys: int = 0, queries: int = 0, tile: int = 0
):
    """Make a wrong formula of the chain rule for (dq, dk, dv): `minus` times delta, or as below. None where scores are not mild.

    edge(Nq, Nk)   the mask lets query i see the keys up to i + edge, although lse comes from the right mask
    keys, queries  dq comes only from the last tile of this many keys; dk and dv only from the last tile of this many queries
    tile           a softmax of each tile of this many keys replaces p
    """

    def wrong(q, k, v, do, causal=False, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if not each_sees_a_key(q, k, causal) or not no_infinities(q, k) or (edge and not causal) or (tile and causal):
            return None
        if edge and edge(nq, nk) == nk - nq:
            return gradients(q, k, v, do, causal)  # what is wrong there is no such mistake
        by_tile = (lambda s: torch.cat([torch.softmax(part, -1) for part in s.split(tile, -1)], -1)) if tile else None
        mask = seen(nq, nk, False, q.device).tril(edge(nq, nk)) if edge else None
        p, ds = p_and_ds(q, k, v, do, causal, None, mask, minus, by_tile)
        q, k, do, ds = q.double(), k.double(), do.double(), ds / math.sqrt(q.shape[-1])
        j, i = (start_of_last(n, tile) for n, tile in ((nk, keys), (nq, queries)))
        return ds[..., j:] @ k[..., j:, :], ds[..., i:, :].mT @ q[..., i:, :], p[..., i:, :].mT @ do[..., i:, :]

    return wrong


def start_of_last(n: int, tile: int) -> int:
    """Return the index at which the last tile of n begins; 0 if tile is 0."""
    return (n - 1) // tile * tile if tile else 0
