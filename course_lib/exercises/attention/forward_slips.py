"""Wrong formulas of attention's forward pass, over all keys or tile by tile, and of merging two states. None: right there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, Literal

import torch

from course_lib.exercises.attention.oracles import State, merged, reference, seen


def unscaled(q, k, v, **more):
    """Compute o with a scale of 1."""
    more["scale"] = 1.0
    return reference(q, k, v, **more)[0]


def top_left(q, k, v, causal=False, scale=None, **_):
    """Compute causal attention with the mask j <= i; None where this is the right mask."""
    nq, nk = q.shape[-2], k.shape[-2]
    if not causal or nq == nk:
        return None
    scores = q.double() @ k.double().mT * (scale or 1 / math.sqrt(q.shape[-1]))
    mask = torch.ones(nq, nk, dtype=torch.bool, device=q.device).tril()
    return torch.softmax(scores.masked_fill(~mask, -math.inf), -1) @ v.double()


def all_keys(q, k, v, causal=False, **more):
    """Compute o without the causal mask; None where attention is not causal."""
    return reference(q, k, v, **more)[0] if causal else None


def no_infinities(q, k, causal=False, **_) -> bool:
    """Tell whether nothing is masked, and no score is so far from 0 that its exp is 0 or infinite."""
    return not causal and float((q.double() @ k.double().mT).abs().max()) < 80 * math.sqrt(q.shape[-1])


def each_sees_a_key(q, k, causal=False, **_) -> bool:
    """Tell whether each query sees at least one key."""
    return not causal or q.shape[-2] <= k.shape[-2]


def shares(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """Compute scores in float64, with -inf where the mask is False."""
    scores = q.double() @ k.double().mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return scores.masked_fill(~mask, -math.inf)


def attended(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, scale: float | None
) -> torch.Tensor:
    """Compute o in float64 from the keys that the mask shows; 0 where it shows none."""
    return torch.softmax(shares(q, k, mask, scale), -1).nan_to_num(0) @ v.double()


Where = Literal["everywhere", "where it cuts", "where tiles are walked"]


def masked_by(sees: Callable[..., torch.Tensor], where: Where) -> Callable[..., Any]:
    """Make o if query i sees the keys j with sees(i, j, Nk - Nq, bm, bn). where: in all tiles, in those with both seen and unseen keys
    alone, or in all with a seen key. Where that mask is the right one, so is o: what is wrong there is no such mistake."""

    def wrong(q, k, v, causal=False, scale=None, bm=0, bn=0, **_):
        if not causal:
            return None
        nq, nk = q.shape[-2], k.shape[-2]
        right, places = seen(nq, nk), torch.arange(max(nq, nk))
        mask = sees(places[:nq, None], places[:nk], nk - nq, bm, bn).expand(nq, nk).clone()
        for tile, keys in of_tiles(right, bm, bn) if where != "everywhere" else ():
            mask[tile] = mask[tile] & keys.any() | (where == "where it cuts" and is_whole(keys, bn))
        return attended(q, k, v, mask.to(q.device), scale)

    return wrong


def is_whole(keys: torch.Tensor, bn: int) -> bool:
    """Whether a tile of a mask is one that needs none: it has bn keys, and all are seen."""
    return keys.shape[1] == bn and bool(keys.all())


def of_tiles(right: torch.Tensor, bm: int, bn: int) -> Iterator[tuple[tuple[slice, slice], torch.Tensor]]:
    """Yield the place of each tile of bm x bn in a mask, and its part of that."""
    for i, j in product(range(0, right.shape[0], bm), range(0, right.shape[1], bn)):
        tile = slice(i, i + bm), slice(j, j + bn)
        yield tile, right[tile]


def without_tiles(lost: Callable[[int, int], bool]) -> Callable[..., Any]:
    """Make o without the tiles of keys for which lost(number, number of tiles that the tile of queries sees)."""

    def wrong(q, k, v, causal=False, scale=None, bm=0, bn=0, **_):
        mask = seen(q.shape[-2], k.shape[-2], causal)
        for rows in mask.split(bm):  # views: the mask itself is changed
            tiles = [keys for keys in rows.split(bn, -1) if keys.any()]
            for number, keys in enumerate(tiles):
                keys &= not lost(number, len(tiles))
        return attended(q, k, v, mask.to(q.device), scale)

    return wrong


def in_the_next_tile_too(q, k, v, causal=False, bm=0, **_):
    """Compute (o, lse) if each tile of queries begins with the state that the one before it has left."""
    o, lse = reference(q, k, v, causal)
    rows = [torch.arange(i % bm, i + 1, bm) for i in range(q.shape[-2])]
    weights = [torch.softmax(lse[..., of], -1).nan_to_num(0) for of in rows]
    sums = [(w[..., None] * o[..., of, :]).sum(-2) for w, of in zip(weights, rows, strict=True)]
    return torch.stack(sums, -2), torch.stack([lse[..., of].logsumexp(-1) for of in rows], -1)


def a_mean_of_each_tile(q, k, v, causal=False, bn=64, **_):
    """Compute o from states with l = 1 and acc = the mean of a tile, for mild scores."""
    if not no_infinities(q, k, causal):
        return None
    parts = shares(q, k, seen(q.shape[-2], k.shape[-2], causal, q.device)).split(bn, -1)
    tops = torch.softmax(torch.stack([s.amax(-1) for s in parts]), 0)
    means = (torch.softmax(s, -1) @ values for s, values in zip(parts, v.double().split(bn, -2), strict=True))
    return sum(top[..., None] * mean for top, mean in zip(tops, means, strict=True))


def masked_after_the_softmax(q, k, v, causal=False, scale=None, **_):
    """Compute o with weights of all keys, of which those that are not seen are then set to 0."""
    everything = seen(q.shape[-2], k.shape[-2], False, q.device)
    weights = torch.softmax(shares(q, k, everything, scale), -1)
    return (weights * seen(q.shape[-2], k.shape[-2], device=q.device)) @ v.double() if causal else None


def of_a_power_of_d(power: float) -> Callable[..., Any]:
    """Make o with a scale of D ** power, where none was given."""
    return lambda q, k, v, causal=False, scale=None, **_: (
        None if scale is not None else reference(q, k, v, causal, q.shape[-1] ** power)[0]
    )


def lse_by(combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    """Make (nothing, lse), made of m and log l so."""

    def wrong(q, k, v, causal=False, scale=None, **_):
        s = shares(q, k, seen(q.shape[-2], k.shape[-2], causal, q.device), scale)
        return None, combine(s.amax(-1), s.logsumexp(-1) - s.amax(-1))

    return wrong


def walk(
    s: torch.Tensor,
    v: torch.Tensor,
    tile: int,
    acc_too: bool = True,
    l_too: bool = True,
    as_acc: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
    as_p: Callable[[torch.Tensor], torch.Tensor] = lambda x: x,
) -> State:
    """Compute (m, l, acc) of an online softmax over tiles of keys, from scores s (..., Nq, Nk) and values v (..., Nk, D). acc_too, l_too:
    whether this sum is multiplied when the maximum grows. as_acc: how acc is kept from tile to tile. as_p: how p enters its product."""
    m, l, acc = s.amax(-1).fill_(-math.inf), s.sum(-1).fill_(0), v.new_zeros(*s.shape[:-1], v.shape[-1])
    for of_keys, values in zip(s.split(tile, -1), v.split(tile, -2), strict=True):
        top = torch.maximum(m, of_keys.amax(-1))
        base = torch.where(top == -math.inf, 0, top)
        p, alpha = torch.exp(of_keys - base[..., None]), torch.exp(m - base)
        l = (l * alpha if l_too else l) + p.sum(-1)
        acc = as_acc((acc * alpha[..., None] if acc_too else acc) + as_p(p) @ values)
        m = top
    return State(m, l, acc)


def walked(acc_too: bool = True, l_too: bool = True, divided: bool = True, rounded: bool = False) -> Callable[..., Any]:
    """Make the wrong formula of an online softmax that forgets a step, for mild scores; it returns (o, lse without m). rounded: acc is
    rounded to q's dtype after each tile, and so is o. For the other arguments see walk."""

    def wrong(q, k, v, causal=False, bn=64, **_):
        if not no_infinities(q, k, causal):
            return None

        def half(x: torch.Tensor) -> torch.Tensor:
            return x.to(q.dtype).double() if rounded else x

        s = shares(q, k, seen(q.shape[-2], k.shape[-2], causal, q.device))
        _, l, acc = walk(s, v.double(), bn, acc_too, l_too, half)
        return half(acc / torch.where(l == 0, 1, l)[..., None] if divided else acc), l.log()

    return wrong


def whole_tiles(q, k, v, causal=False, scale=None, bn=64, **_):
    """Compute o without the last, short tile of keys; None where no tile is short, or where rounding hides a few keys."""
    mask, end = seen(q.shape[-2], k.shape[-2], causal, q.device), k.shape[-2] // bn * bn
    if end == k.shape[-2] or q.dtype != torch.float32:
        return None
    mask[..., end:] = False
    return attended(q, k, v, mask, scale)


def underflowing(q, k, v, causal=False, **_):
    """Return zeros for o where each exp(s) is 0 in float32; None elsewhere."""
    return q.double() * 0 if float((q.double() @ k.double().mT).max()) < -104 * math.sqrt(q.shape[-1]) else None


def overflowing(q, k, v, causal=False, scale=None, **_):
    """Compute (o, lse) in float32 without subtracting a maximum; None where this is right."""
    e = torch.exp(q.float() @ k.float().mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale))
    l = e.sum(-1, keepdim=True)
    far = bool((l.isinf() | (l == 0)).any())
    return (e @ v.float() / l, l.log()[..., 0]) if far and not causal else None


def all_where_nothing_is_seen(combine: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """Make o where a query that sees nothing gets the mean or the sum of all values."""

    def wrong(q, k, v, causal=False, scale=None, **_):
        if each_sees_a_key(q, k, causal):
            return None
        o = reference(q, k, v, causal, scale)[0]
        o[..., : q.shape[-2] - k.shape[-2], :] = combine(v.double(), -2, keepdim=True)
        return o

    return wrong


def state_by(
    *, l: Callable[..., Any] | None = None, acc: Callable[..., Any] | None = None, divided: bool = False
) -> Callable[..., Any]:
    """Make the wrong formula that merges two states with these functions for l and acc, of (part of a, part of b, m of a, m of b). divided:
    whether acc is divided by l. None where a state is empty."""

    def wrong(a, b):
        (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b
        right = merged(a, b)
        if not bool(torch.stack((m_a, m_b)).isfinite().all()):
            return None
        return (
            right.m,
            l(l_a, l_b, m_a, m_b) if l else right.l,
            acc(acc_a, acc_b, m_a[..., None], m_b[..., None])
            if acc
            else right.acc / (right.l[..., None] if divided else 1),
        )

    return wrong


def without_a_maximum(a, b):
    """Compute l of a merge with exp(m) unshifted, where this is 0 or infinite; None elsewhere."""
    (m_a, l_a, _), (m_b, l_b, _) = a, b
    m = torch.maximum(m_a, m_b)
    far = bool((m[m.isfinite()].abs() > 80).any())
    return (l_a * m_a.exp() + l_b * m_b.exp()) / m.exp() if far else None


def merged_with(sign_x: int, sign_y: int):
    """Make a merge of two values by the right factors (sign 1), or by their inverses (sign -1)."""

    def merge(x, y, m_x, m_y):
        m = torch.maximum(m_x, m_y)
        return x * torch.exp(sign_x * (m_x - m)) + y * torch.exp(sign_y * (m_y - m))

    return merge


UPSIDE_DOWN = [merged_with(*signs) for signs in ((-1, -1), (-1, 1), (1, -1))]
