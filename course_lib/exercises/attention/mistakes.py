"""Mistakes in attention, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, Literal

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial
from course_lib.exercises.attention.oracles import State, gradients, merged, reference, seen
from course_lib.exercises.misconceptions import Misconception, failing, is_closer_to, nth, results
from course_lib.mistakes import MistakeMatcher


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


def has_nan(
    groups: Sequence[str],
    sentence: str,
    never: Callable[..., bool] = lambda **_: False,
    where: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if a wrong result of these groups holds NaN. NaN from masked positions without `other`, and
    results of a wrong shape, do not count.

    never   tells from the arguments of a call that they cannot give such a NaN. If it is there all the same, it has another cause,
            and so may all others
    where   rows of the first result that hold NaN, (..., Nq) of booleans -> whether it is such a NaN; None: any is
    """

    def look(trials: Sequence[GradedTrial]) -> str:
        found = False
        for t in (t for t in failing(trials) if not t.evidence.poisoned):
            for call, out in t.calls:
                if nan_in(out) and (never(**call) or misshapen(out, t.exercise.oracle(**call))):
                    return ""
                such = nan_in(out) and (where is None or bool(where(nth(out, 0).isnan().any(-1))))
                found |= such and t.case.group in groups
        return sentence if found else ""

    return look


def misshapen(found: Any, right: Any) -> bool:
    """Tell whether a result has another shape than the right one."""
    pairs = (
        zip(found, right, strict=False) if isinstance(found, list) and isinstance(right, tuple) else [(found, right)]
    )
    return any(isinstance(x, torch.Tensor) and x.shape != y.shape for x, y in pairs)


def nan_in(value: Any) -> bool:
    """Tell whether a tensor, or one in a list, holds NaN."""
    parts = value if isinstance(value, list) else [value]
    return any(isinstance(x, torch.Tensor) and x.is_floating_point() and bool(x.isnan().any()) for x in parts)


def no_infinities(q, k, causal=False, **_) -> bool:
    """Tell whether nothing is masked, and no score is so far from 0 that its exp is 0 or infinite."""
    return not causal and float((q.double() @ k.double().mT).abs().max()) < 80 * math.sqrt(q.shape[-1])


def each_sees_a_key(q, k, causal=False, **_) -> bool:
    """Tell whether each query sees at least one key."""
    return not causal or q.shape[-2] <= k.shape[-2]


def last_queries_unwritten(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if all NaN are in the last, short tile of queries, else ""."""
    places = [(o.isnan().all(-1), call) for call, o in results(trials) if bool(o.isnan().any())]
    for rows, call in places:
        partial = torch.arange(rows.shape[-1], device=rows.device) >= rows.shape[-1] // call["bm"] * call["bm"]
        if not torch.equal(rows, partial.expand_as(rows)):
            return ""
    return LAST_QUERIES if places else ""


def starts_from_empty(trials: Sequence[GradedTrial]) -> str:
    """Return a remark that names the gradients that are NaN everywhere while others are not, else ""."""
    for t in failing(trials):
        for out in t.evidence.outputs:
            if isinstance(out, list) and len(out) == 3 and all(isinstance(x, torch.Tensor) for x in out):
                empty = [name for name, x in zip(("dq", "dk", "dv"), out, strict=True) if bool(x.isnan().all())]
                if empty and not all(nan_in(x) for x in out):
                    return say("attention.attention_backward.starts_from_empty", gradients=[*empty])
    return ""


# ------------------------------------------------------------------------------------------------ slips, computed


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


def masks(
    sees: Callable[..., torch.Tensor], sentence: str, where: Sequence[Where] = ("everywhere", "where it cuts")
) -> list[MistakeMatcher]:
    """Make the mistakes of a wrong mask. In a single case, several wrong masks may look the same, so every result must be what
    the slip gives."""
    return [Misconception(masked_by(sees, tiles), sentence, each=True) for tiles in where]


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


def no_scale_on_the_way_back(trials: Sequence[GradedTrial]) -> str:
    """Return a remark that names which of dq and dk are 1 / scale times too large, else ""."""
    for t in failing(trials):
        for call, out in t.calls:
            if not isinstance(out, list) or len(out) != 3 or not all(isinstance(x, torch.Tensor) for x in out):
                continue
            factor, right = math.sqrt(call["q"].shape[-1]), gradients(**call)
            lacks = [
                name
                for name, found, expected in zip(("dq", "dk"), out, right, strict=False)
                if is_closer_to(found, factor * expected, expected)
            ]
            if lacks:
                return say("attention.attention_backward.no_scale", gradients=lacks, one=len(lacks))
    return ""


AT_THE_TOP_LEFT = say("attention.attention.aligned_at_the_top_left")
THE_OTHER_WAY = say("attention.attention.shifted_the_other_way")
TOP_LEFT = Misconception(top_left, AT_THE_TOP_LEFT, each=True)
WITHOUT_SCALE = say("attention.attention.no_scale")
WITHOUT_MASK = say("attention.attention.no_mask")
UNSCALED = Misconception(unscaled, WITHOUT_SCALE)
UNMASKED = Misconception(all_keys, WITHOUT_MASK, each=True)  # in one case it could be one tile
NO_MAXIMUM = [Misconception(overflowing, say("attention.attention.no_maximum"), place=place) for place in (0, 1)]
LAST_QUERIES = say("attention.attention_backward.last_queries")

ONE_TOO_FEW = say("attention.tiled_attention.off_by_one")
ONE_TOO_MANY = say("attention.tiled_attention.sees_one_key_more")
NOT_AT_THE_BOTTOM_RIGHT = say("attention.tiled_attention.not_at_the_bottom_right")
SCALE_OF_1_BY_D = say("attention.attention.a_scale_of_1_by_d")
INVERSE_D = Misconception(of_a_power_of_d(-1), SCALE_OF_1_BY_D, each=True)  # in one case it may be one of tiles
ROOT_D = Misconception(of_a_power_of_d(0.5), say("attention.attention.a_scale_of_root_d"), each=True)
THE_MAXIMUM_FOR_LSE = say("attention.attention.lse_is_the_maximum")
LSE_IN_BASE_2 = say("attention.attention.lse_in_base_2")
OF_LSE = [
    Misconception(lse_by(lambda m, log_l: m), THE_MAXIMUM_FOR_LSE, place=1, each=True),
    Misconception(lse_by(lambda m, log_l: (m + log_l) / math.log(2)), LSE_IN_BASE_2, place=1, each=True),
]

FORMULA_SLIPS = [
    Misconception(
        lambda q, k, v, causal=False, scale=None: None if scale is None else reference(q, k, v, causal)[0],
        say("attention.attention.ignores_the_scale_it_is_given"),
    ),
    Misconception(
        lambda q, k, v, causal=False, scale=None: (
            None
            if causal
            else torch.softmax(shares(q, k, seen(q.shape[-2], k.shape[-2], False), scale), -2) @ v.double()
        ),
        say("attention.attention.a_softmax_along_the_queries"),
    ),
    *(
        Misconception(all_where_nothing_is_seen(combine), say(f"attention.attention.{what}_where_nothing_is_seen"))
        for combine, what in ((torch.mean, "equal_weights"), (torch.sum, "weights_of_1"))
    ),
    *masks(lambda i, j, shift, *_: j <= i - shift, THE_OTHER_WAY, ["everywhere"]),
    *masks(lambda i, j, shift, *_: j < i + shift, ONE_TOO_FEW, ["everywhere"]),
    *masks(lambda i, j, shift, *_: j <= i + shift + 1, ONE_TOO_MANY, ["everywhere"]),
    *masks(lambda i, j, shift, *_: j >= i + shift, say("attention.attention.turned_round"), ["everywhere"]),
    Misconception(masked_after_the_softmax, say("attention.attention.masked_after_the_softmax"), each=True),
    INVERSE_D,
    ROOT_D,
    *OF_LSE,
]
WALKS = [
    Misconception(walked(divided=False), say("attention.tiled_attention.never_divides")),
    Misconception(walked(acc_too=False), say("attention.tiled_attention.acc_is_not_rescaled")),
    Misconception(walked(l_too=False), say("attention.tiled_attention.l_is_not_rescaled")),
    Misconception(walked(False, False), say("attention.tiled_attention.no_rescaling")),
    Misconception(walked(rounded=True), say("attention.tiled_attention.a_state_in_half_precision")),
    Misconception(walked(), say("attention.tiled_attention.lse_without_the_maximum"), place=1),
]
LAST_KEYS = Misconception(whole_tiles, say("attention.tiled_attention.forgets_the_short_last_tile_of_keys"), each=True)
UNDERFLOW = Misconception(underflowing, say("attention.tiled_attention.m_starts_at_0"))
NO_MASK_IN_A_TILE = say("attention.tiled_attention.no_mask_in_a_tile")
MASKS = [
    *masks(lambda i, j, shift, *_: j <= i - shift, THE_OTHER_WAY, ["everywhere"]),
    *masks(lambda i, j, *_: j <= i, AT_THE_TOP_LEFT, ["everywhere"]),
    # within the right tiles nobody can tell the two
    *masks(lambda i, j, *_: j <= i, NOT_AT_THE_BOTTOM_RIGHT, ["where it cuts", "where tiles are walked"]),
    *masks(
        lambda i, j, shift, *_: j <= i - shift, NOT_AT_THE_BOTTOM_RIGHT, ["where it cuts", "where tiles are walked"]
    ),
    *masks(
        lambda i, j, shift, bm, bn: j <= i % bm + shift, say("attention.tiled_attention.a_query_s_number_in_its_tile")
    ),
    *masks(
        lambda i, j, shift, bm, bn: j % bn <= i + shift, say("attention.tiled_attention.a_key_s_number_in_its_tile")
    ),
    *masks(lambda i, j, shift, *_: j < i + shift, ONE_TOO_FEW),
    *masks(lambda i, j, shift, *_: j <= i + shift + 1, ONE_TOO_MANY),
    *masks(lambda i, j, *_: j > -1, NO_MASK_IN_A_TILE, ["where it cuts"]),
]
LOST_TILES = [
    Misconception(
        without_tiles(lambda number, of: number == 0),
        say("attention.tiled_attention.the_first_tile_is_left_out"),
        each=True,
    ),
    Misconception(
        without_tiles(lambda number, of: number == of - 1),
        say("attention.tiled_attention.the_last_tile_is_left_out"),
        each=True,
    ),
]
STATES = [
    Misconception(a_mean_of_each_tile, say("attention.tiled_attention.a_mean_of_each_tile")),
    Misconception(in_the_next_tile_too, say("attention.tiled_attention.the_state_goes_on")),
]
MERGES = [
    Misconception(without_a_maximum, say("attention.merge.absolute_exponentials"), merged, 1),
    *(
        Misconception(state_by(l=turned), say("attention.merge.upside_down"), merged, 1, each=True)
        for turned in UPSIDE_DOWN
    ),
    *(
        Misconception(state_by(l=added), say("attention.merge.own_maximum", who=who), merged, 1, each=True)
        for who, added in (
            ("l_a", lambda x, y, m_x, m_y: x + y * torch.exp(m_y - torch.maximum(m_x, m_y))),
            ("l_b", lambda x, y, m_x, m_y: x * torch.exp(m_x - torch.maximum(m_x, m_y)) + y),
        )
    ),
    Misconception(
        state_by(l=lambda x, y, *_: x + y),
        say("attention.merge.neither_l_is_corrected"),
        merged,
        1,
        each=True,
    ),
    Misconception(state_by(acc=lambda x, y, *_: x + y), say("attention.merge.acc_is_not_corrected"), merged, 2),
    Misconception(state_by(divided=True), say("attention.merge.acc_becomes_a_mean"), merged, 2),
]
