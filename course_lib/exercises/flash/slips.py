"""Slips: results of forward passes with one mistake each, in float64, to compare with a student's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.common_mistakes import viewed
from course_lib.exercises.attention.forward_slips import walk
from course_lib.exercises.attention.oracles import Forward
from course_lib.exercises.cases import FP32
from course_lib.exercises.flash.oracles import attend, means, oracle_of, visible
from course_lib.mistakes import as_tf32

TILES = (16, 32, 64, 128)  # of keys: those that a kernel may have


def with_tf32(**call: Any) -> list[torch.Tensor]:
    """Compute o three times: with the product for the scores in TF32, with that of the values in TF32, and with both."""
    rounded: dict[str, Any] = call | {name: as_tf32(call[name]) for name in "qk" if name in call}
    found = []
    for given, values in ((rounded, False), (call, True), (rounded, True)):
        s, v = scored(**given)
        p, l = weights(s)
        found.append(of_rows((as_tf32(p) @ as_tf32(v) if values else p @ v) / l[..., None], call))
    return found


def of_each_head(q: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return k or v in float64, repeated so that each head of q has its own."""
    return (x if x.dim() == 2 else x.repeat_interleave(q.shape[0] // x.shape[0], 0)).double()


def under(mask: torch.Tensor, q: torch.Tensor, k: torch.Tensor, scale: float | None = None) -> torch.Tensor:
    """Compute scores (..., Nq, Nk) in float64, -inf where the mask (Nq, Nk) is False."""
    scores = q.double() @ of_each_head(q, k).mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return scores.masked_fill(~mask, -math.inf)


def scored(
    v, q=None, k=None, s=None, causal=False, scale=None, window=None, splits=None, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute scores (..., Nq, Nk) in float64, -inf where a query does not see a key; return them and the values (..., Nk, D) of each
    head."""
    if s is not None:
        return s.double(), v.double()
    assert q is not None and k is not None  # either scores are given or what makes them
    q = q[:, None] if splits else q
    mask = visible(q.shape[-2], k.shape[-2], causal or bool(window), window, q.device)
    return under(mask, q, k, scale), of_each_head(q, v)


def exponentials(s: torch.Tensor) -> torch.Tensor:
    """Compute exp(s - m), m the maximum of each row; zeros in rows of -inf."""
    m = s.amax(-1, keepdim=True)
    return torch.exp(s - torch.where(m == -math.inf, 0, m))


def weights(s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute (p, l): exp(s - m), and the sum of each row; zeros and 1 in rows of -inf."""
    p = exponentials(s)
    l = p.sum(-1)
    return p, torch.where(l == 0, 1, l)


def of_rows(o: torch.Tensor, call: dict[str, Any]) -> torch.Tensor:
    """Return o (..., Nq, D) in the shape of the call's result: for decoding, without the query axis."""
    return o[..., 0, :] if "splits" in call else o


def instead(change: Callable[[torch.Tensor], torch.Tensor] = lambda s: s, **others: Any) -> Callable[..., Forward]:
    """Make the wrong formula that computes (o, lse) with other arguments, or with scores that `change` has changed."""

    def wrong(**call):
        s, v = scored(**(call | others))
        s = change(s)
        return Forward(of_rows(torch.softmax(s, -1).nan_to_num(0) @ v, call), s.logsumexp(-1))

    return wrong


def edge(
    at: Callable[[int, int], int], clamped: bool = True, nothing: float = 0.0
) -> Callable[..., torch.Tensor | None]:
    """Make the wrong formula in which query i sees the keys up to i + at(Nq, Nk); it returns o.
    Not clamped: keys that are not there, too, whose scores and values are 0.
    nothing: in rows that then see nothing. Where that is Nk - Nq, o is right: what is wrong there is no such mistake."""

    def wrong(q, k, v, causal=False, scale=None, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if not causal:
            return None
        if at(nq, nk) == nk - nq:
            return attend(q, k, v, causal, scale=scale).o
        k, v = (x if clamped else torch.nn.functional.pad(x, (0, 0, 0, nq)) for x in (k, v))
        mask = torch.ones(nq, k.shape[-2], dtype=torch.bool, device=q.device).tril(at(nq, nk))
        return softened(mask, q, k, v, scale, nothing)

    return wrong


def heads_as_queries(q, k, v, causal=False, scale=None, **_) -> torch.Tensor | None:
    """Compute o as if every query of head h had the causal mask of query h % group."""
    (nq, nk), group = (q.shape[-2], k.shape[-2]), q.shape[0] // k.shape[0]
    if not causal or group == 1:
        return None
    heads = torch.arange(q.shape[0], device=q.device) % group
    mask = torch.arange(nk, device=q.device) <= heads[:, None, None] + nk - nq
    return softened(mask.expand(-1, nq, -1), q, k, v, scale)


def softened(mask: torch.Tensor, q, k, v, scale: float | None = None, nothing: float = 0.0) -> torch.Tensor:
    """Compute o under this mask; `nothing` is the weight where a query sees no key."""
    return softmax_of(under(mask, q, k, scale), nothing) @ of_each_head(q, v)


def softmax_of(s: torch.Tensor, nothing: float = 0.0) -> torch.Tensor:
    """Compute the softmax of scores; `nothing` in rows of -inf."""
    return torch.softmax(s, -1).nan_to_num(nothing)


def shifted(by: int, nothing: float = 0.0) -> Callable[..., torch.Tensor | None]:
    """Make the wrong formula in which the edge of a causal mask, or the old end of a window, lies `by` keys further out; it returns o.
    nothing: the weight in rows that then see no key."""

    def wrong(q, k, v, causal=False, scale=None, window=None, **_):
        if window is None:
            return edge(lambda nq, nk: nk - nq + by, nothing=nothing)(q, k, v, causal, scale)
        return softened(visible(q.shape[-2], k.shape[-2], True, window + by, q.device), q, k, v, nothing=nothing)

    return wrong


def without_its_own(nothing: float) -> Callable[..., torch.Tensor]:
    """Make the wrong formula of a window that ends one key before the query's own; it returns o. nothing: the weight in the first row."""
    return lambda q, k, v, window: softened(
        visible(q.shape[-2], k.shape[-2], True, window, q.device).tril(-1), q, k, v, nothing=nothing
    )


def in_the_tiles_of_a_walk(bm: int, bn: int) -> Callable[..., torch.Tensor]:
    """Make the wrong formula in which each block of bm queries starts at its window's first tile of bn keys, unmasked; it returns o."""

    def wrong(q, k, v, window):
        n = q.shape[-2]
        places = torch.arange(n, device=q.device)
        start = (places // bm * bm - window + 1).clamp(min=0) // bn * bn
        return softened((places >= start[:, None]) & (places <= places[:, None]), q, k, v)

    return wrong


def are_mild(s: torch.Tensor) -> bool:
    """Tell whether no score is so large that a few keys have all the weight. With large scores many mistakes give the same result."""
    return not bool((s.masked_fill(s == -math.inf, 0).abs() > 20).any())


def mild(wrong: Callable[..., Any]) -> Callable[..., Any]:
    """Restrict a wrong formula to calls whose scores are mild."""
    return lambda **call: wrong(**call) if are_mild(scored(**call)[0]) else None


def first_keys(q, k, v, causal=False, **more: Any) -> Forward | None:
    """Compute (o, lse) from the first Nq keys alone; None where there are no more, or where the mask leaves the others out."""
    n = q.shape[-2]
    return instead()(q=q, k=k[..., :n, :], v=v[..., :n, :], **more) if n < k.shape[-2] and not causal else None


def the_same_keys(tile: int) -> Callable[..., tuple[None, torch.Tensor] | None]:
    """Make the wrong formula in which each iteration over tiles of keys reads the first tile; it returns (None, lse)."""

    def wrong(q, k, v, causal=False, **more: Any) -> tuple[None, torch.Tensor] | None:
        nk = k.shape[-2]
        if causal or tile >= nk:
            return None
        return None, instead()(q=q, k=k[..., :tile, :], v=v[..., :tile, :], **more).lse + math.log(-(-nk // tile))

    return wrong


def by_strides_of(name: str, other: str) -> Callable[..., torch.Tensor | None]:
    """Make the wrong formula in which q, k or v (`name`) is read by the strides of another one (`other`); it returns o."""

    def wrong(**call: Any) -> torch.Tensor | None:
        x, strides = call[name], call[other].stride()
        if x.dim() != call[other].dim() or strides == x.stride():
            return None
        read = viewed(x, strides)
        if read is None:
            return None
        given: dict[str, Any] = call | {name: read}
        return attend(**given).o

    return wrong


def of_an_inverse_d(q, k, v, scale=None, **more: Any) -> torch.Tensor | None:
    """Compute o with a scale of 1 / D; None where the scale is given."""
    return None if scale is not None else attend(q, k, v, scale=1 / q.shape[-1], **more).o


def of_a_power_of_2(q, k, v, scale=None, **more: Any) -> torch.Tensor | None:
    """Compute o with a scale of the next power of 2 after D; None where D is one, or the scale is given."""
    d = q.shape[-1]
    wide = 1 << (d - 1).bit_length()
    return None if scale is not None or wide == d else attend(q, k, v, scale=wide**-0.5, **more).o


def lse_of_other_heads(q, k, v, **more: Any) -> tuple[None, torch.Tensor] | None:
    """Compute lse with batch and head swapped; None where they differ in number."""
    return None if q.dim() != 4 or q.shape[0] != q.shape[1] else (None, attend(q, k, v, **more).lse.transpose(0, 1))


def other_keys(sides: Callable[[int, int], int]) -> list[Callable[..., torch.Tensor | None]]:
    """Make wrong formulas of o over sides(Nk, tile) keys, for several tile sizes: keys past the end have scores and values of 0."""

    def of_tile(tile: int) -> Callable[..., torch.Tensor | None]:
        def wrong(q, k, v, **more: Any) -> torch.Tensor | None:
            nk = k.shape[-2]
            keys = sides(nk, tile)
            if more.get("causal") or more.get("window") or more.get("splits") or keys in (0, nk):
                return None
            k, v = (torch.nn.functional.pad(x, (0, 0, 0, keys - nk)) for x in (k, v))  # or cut, if that is below 0
            o = instead()(q=q, k=k, v=v, **more).o
            return o if bool(o.any()) else None  # many mistakes give nothing but 0

        return wrong

    return [of_tile(tile) for tile in TILES]


def in_tiles(
    acc_too: bool = True, l_too: bool = True, rounded: bool = False
) -> list[Callable[..., torch.Tensor | None]]:
    """Make wrong formulas of an online softmax along tiles of several sizes; they return o. acc_too, l_too: whether that sum is rescaled
    when the maximum grows; rounded: acc is rounded to v's dtype after each tile, and p before its product."""

    def of_tile(tile: int) -> Callable[..., torch.Tensor | None]:
        def wrong(**call: Any) -> torch.Tensor | None:
            s, v = scored(**call)
            dtype = call["v"].dtype
            if call.get("splits") or s.shape[-1] <= tile or (rounded and dtype == FP32):
                return None

            def half(x: torch.Tensor) -> torch.Tensor:
                return x.to(dtype).double() if rounded else x

            _, l, acc = walk(s, v, tile, acc_too, l_too, half, half)
            o = acc / torch.where(l == 0, 1, l)[..., None]
            return o if "s" in call else o.to(dtype).double()  # online_update's is float32

        return wrong

    return [of_tile(tile) for tile in TILES]


def swapped_heads(*names: str) -> Callable[..., Any]:
    """Make the wrong formula in which batch and head are swapped where these of q, k, v and o are read or stored."""

    def turned(x: torch.Tensor, name: str) -> torch.Tensor:
        return x.transpose(0, 1) if name in names else x

    def wrong(q, k, v, **more: Any) -> torch.Tensor | None:
        if q.dim() != 4 or q.shape[0] != q.shape[1] or q.shape[:2] != k.shape[:2]:
            return None
        return turned(attend(turned(q, "q"), turned(k, "k"), turned(v, "v"), **more).o, "o")

    return wrong


def undivided(**call: Any) -> torch.Tensor:
    """Compute the accumulator in place of o: sums of exp(s - m) v."""
    s, v = scored(**call)
    return of_rows(exponentials(s) @ v, call)


def lse_by(combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., tuple[None, torch.Tensor]]:
    """Make the wrong formula that computes lse as combine(m, l)."""

    def wrong(**call):
        s, _ = scored(**call)
        return None, combine(s.amax(-1), exponentials(s).sum(-1))

    return wrong


def lost(below: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make the wrong formula of o in which all terms of the rows that `below` marks underflow."""
    return lambda s, v: means(s, v).o.masked_fill(below(s)[:, None], 0)


def far_below_its_neighbours(s: torch.Tensor, rows: int = 32) -> torch.Tensor:
    """Mark the rows whose exp is 0 in float32, relative to the largest score of the `rows` rows of a program."""
    return torch.cat([top < top.max() - 104 for top in s.amax(1).split(rows)])


def low_behind_an_empty_tile(s: torch.Tensor, tile: int = 64) -> torch.Tensor:
    """Mark the rows that see nothing in their first tile and whose exp is 0 relative to 0."""
    return (s[:, :tile].amax(1) == -math.inf) & (s.amax(1) < -104)


def of_rounded_weights(sums_too: bool, tile: int = 64) -> Callable[..., tuple[None, torch.Tensor] | None]:
    """Make the wrong formula of lse in which l sums weights rounded to v's dtype, tile by tile; sums_too: each tile's sum is, too."""

    def wrong(s, v):
        m, l = torch.full_like(s[:, 0], -math.inf), torch.zeros_like(s[:, 0])
        for of_tile in s.split(tile, 1):
            top = torch.maximum(m, of_tile.amax(1))
            base = torch.where(top == -math.inf, 0, top)
            p = torch.exp(of_tile - base[:, None]).to(v.dtype).float().sum(1)
            m, l = top, l * torch.exp(m - base) + (p.to(v.dtype).float() if sums_too else p)
        return (None, (m + l.log()).double()) if v.dtype != FP32 else None

    return wrong


def of_rounded_scores(scaled: bool) -> Callable[..., Forward | None]:
    """Make the wrong formula of (o, lse) in which the scores, before or after the scale (`scaled`), are rounded to half precision."""

    def wrong(q, **more):
        factor = more.pop("scale", None) or q.shape[-1] ** -0.5

        def rounded(s: torch.Tensor) -> torch.Tensor:
            return (s * factor).to(q.dtype).double() if scaled else s.to(q.dtype).double() * factor

        return instead(rounded, scale=1.0)(q=q, **more) if q.dtype != FP32 else None

    return wrong


def with_strides_of(q, k, v, causal=False, scale=None) -> tuple[None, torch.Tensor] | None:
    """Compute lse as it reads if it was stored row by row into torch.empty_like(q[..., 0])."""
    lse = torch.empty_like(q[..., 0], dtype=torch.float64)
    if lse.is_contiguous():
        return None
    lse.as_strided((lse.numel(),), (1,)).copy_(attend(q, k, v, causal, scale).lse.flatten())
    return None, lse


def other_heads(q, k, v, **more: Any) -> Any:
    """Compute attention that reads head h % Hkv of k and v, instead of h // group."""
    heads = torch.arange(q.shape[0], device=q.device) % k.shape[0]
    return oracle_of(more)(q, k[heads], v[heads], **more)


def merged_by(merge: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor | None]:
    """Make the wrong formula of decoding whose splits are merged by `merge`(m, l, acc): m and l (splits, Hq), acc (splits, Hq, D)."""

    def wrong(q, k, v, splits):
        if k.shape[-2] % splits:
            return None  # who knows where the student cuts
        k, v = (of_each_head(q, x).chunk(splits, 1) for x in (k, v))
        s = torch.stack(
            [(one @ q.double()[..., None])[..., 0] * q.shape[-1] ** -0.5 for one in k]
        )  # (splits, Hq, share)
        m = s.amax(-1)
        p = torch.exp(s - m[..., None])
        return merge(m, p.sum(-1), torch.stack([(one[:, None] @ x)[:, 0] for one, x in zip(p, v, strict=True)]))

    return wrong


def scale_in(factor: float) -> Callable[..., Forward]:
    """Make the wrong formula of (o, lse) in which q * scale * factor is rounded to q's dtype."""

    def wrong(q, k, v, causal=False, scale=None):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        rounded = (q.float() * (scale * factor)).to(q.dtype)
        return attend(rounded, k, v, causal, 1 / factor)

    return wrong
