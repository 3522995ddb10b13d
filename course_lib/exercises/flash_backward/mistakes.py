"""Mistakes in gradients, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial
from course_lib.criteria.results import of_group
from course_lib.exercise import Trial
from course_lib.exercises.attention import backward_slips
from course_lib.exercises.attention import mistakes as of_attention
from course_lib.exercises.attention.gradient_mistakes import (
    DELTA_ADDED,
    EARLY,
    ENDS_EARLY,
    IN_CUT_TILES,
    LATE,
    OF_DS,
    UNMASKED,
)
from course_lib.exercises.attention.mistakes import has_nan
from course_lib.exercises.attention.oracles import seen
from course_lib.exercises.flash.mistakes import in_bounds
from course_lib.exercises.flash.oracles import attend
from course_lib.exercises.flash.slips import TILES
from course_lib.exercises.flash_backward.oracles import gradients, row_dots
from course_lib.exercises.misconceptions import (
    OF_THE_OTHER,
    Misconception,
    Wrong,
    failing,
    multiplied_in_tf32,
    nth,
    several,
)
from course_lib.exercises.remembered import remembered
from course_lib.mistakes import MistakeMatcher, as_tf32, on_exception


def with_do_named(call: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call with the gradient of o renamed to `do`."""
    return {("do" if name == "dy" else name): value for name, value in call.items()}


def slip(name: str, place: int, wrong: Wrong, says: str, **how: Any) -> Misconception:
    """Make a Misconception: `wrong` of a call's arguments, (dq, dk, dv), is returned instead of the gradients. Only `name`, one of the
    three, is compared: the kernel returns it as result number `place`."""
    return Misconception([one_of(name, one) for one in several(wrong)], says, one_of(name, gradients), place, **how)


@cache  # a trial works out the right gradient once, for the very same function
def one_of(name: str, all_three: Callable[..., Any]) -> Callable[..., torch.Tensor | None]:
    """Make a function that returns only dq, dk or dv (`name`) of one that returns all three."""
    which = ("dq", "dk", "dv").index(name)
    return lambda **call: (found := all_three(**with_do_named(call))) and found[which]


def scaled(power: int) -> Callable[..., tuple[torch.Tensor, ...] | None]:
    """Make the wrong formula of (dq, dk, dv) with the factor scale `power` times more than is right."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        if scale == 0:
            return None
        times = (q.shape[-1] ** -0.5 if scale is None else scale) ** power
        dq, dk, dv = gradients(q, k, v, do, causal, scale)
        return times * dq, times * dk, dv

    return wrong


def scaled_dv(q, k, v, do, causal=False, scale=None, **_):
    """Compute (dq, dk, dv) with dv times the scale; None where that is 0 or 1."""
    times = q.shape[-1] ** -0.5 if scale is None else scale
    dq, dk, dv = gradients(q, k, v, do, causal, scale)
    return None if times in (0, 1) else (dq, dk, times * dv)


def scaled_otherwise_on_the_way_back(q, k, v, do, causal=False, scale=None, lse=None, delta=None, **_):
    """Compute (dq, dk, dv) with the scale 1 / sqrt(D), where forward used the given one; None where lse and delta are given."""
    if lse is not None or scale is None or q.shape[:-2] != k.shape[:-2]:
        return None
    o, lse = attend(q, k, v, causal, scale=scale)
    return without_ones_own_scale(q, k, v, do, causal, scale, lse, (do.double() * o).sum(-1))


def without_ones_own_scale(q, k, v, do, causal=False, scale=None, lse=None, delta=None, **_):
    """Compute (dq, dk, dv) with the scale 1 / sqrt(D), where another scale was given; lse and delta, if given, come from the right one."""
    if scale is None or q.shape[:-2] != k.shape[:-2]:
        return None
    if lse is None or delta is None:
        return gradients(q, k, v, do, causal)
    return by_lse(q, k, v, do, causal, q.shape[-1] ** -0.5, lse, delta)


def by_lse(q, k, v, do, causal: bool, scale: float, lse, delta) -> tuple[torch.Tensor, ...]:
    """Compute (dq, dk, dv) in float64 from these lse and delta, whatever they belong to."""
    q, k, v, do = (x.double() for x in (q, k, v, do))
    sees = seen(q.shape[-2], k.shape[-2], causal, q.device)
    p = torch.exp(scale * q @ k.mT - lse.double()[..., None]).masked_fill(~sees, 0)
    ds = p * (do @ v.mT - delta.double()[..., None])
    return scale * ds @ k, scale * ds.mT @ q, p.mT @ do


p_and_ds = remembered(backward_slips.p_and_ds)  # each side of a tile is tried on the same inputs


def by_the_formula(edge: Callable[[int, int], int] | None = None, minus: float = 1.0) -> Callable[..., Any]:
    """Make the wrong formula of (dq, dk, dv) by the chain rule of 08, with `minus` times delta, and a mask
    that lets query i see the keys up to i + edge(Nq, Nk)
    although lse knows better; None where some query sees nothing."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if (causal and nq > nk) or (edge and not causal):
            return None
        if edge and edge(nq, nk) == nk - nq:
            return gradients(q, k, v, do, causal, scale)  # what is wrong there is no such mistake
        mask = seen(nq, nk, False, q.device).tril(edge(nq, nk)) if edge else None
        p, ds = p_and_ds(q, k, v, do, causal, scale, mask, minus)
        ds = ds * (q.shape[-1] ** -0.5 if scale is None else scale)
        return ds @ k.double(), ds.mT @ q.double(), p.mT @ do.double()

    return wrong


def by_other_products(of: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]) -> Callable[..., Any]:
    """Make the wrong formula of (dq, dk, dv), not causal: of(p, dp - delta, q, do) returns weights of k and q, weights of dv, dv's
    factor."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        if causal or q.shape[:-2] != k.shape[:-2]:
            return None
        p, _ds = p_and_ds(q, k, v, do, False, scale)
        _ones, difference = backward_slips.p_and_ds(q, k, v, do, False, scale, weights=torch.ones_like)
        of_s, of_v, met = of(p, difference, q.double(), do.double())
        of_s = of_s * (q.shape[-1] ** -0.5 if scale is None else scale)
        return of_s @ k.double(), of_s.mT @ q.double(), of_v.mT @ met

    return wrong


def along_tiles(tile: int, rounded: bool = False, whole: bool = False) -> Callable[..., Any]:
    """Make the wrong formula of (dq, dk, dv), not causal, summed tile by tile: dq along keys, dk and dv along queries. rounded: a sum is
    rounded to q's dtype after each tile; whole: only whole tiles count. None where there is one tile."""

    def wrong(q, k, v, do, causal=False, scale=None, **_):
        nq, nk = q.shape[-2], k.shape[-2]
        if causal or min(nq, nk) <= tile or q.shape[:-2] != k.shape[:-2]:
            return None
        p, ds = p_and_ds(q, k, v, do, False, scale)
        times = q.shape[-1] ** -0.5 if scale is None else scale

        def summed(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
            end = rows.shape[-2] // tile * tile if whole else rows.shape[-2]
            total = torch.zeros_like(weights[..., :1] * rows[..., :1, :].double())
            for some, of_these in zip(
                weights[..., :end].split(tile, -1), rows[..., :end, :].split(tile, -2), strict=True
            ):
                total += some.to(q.dtype).double() @ of_these.double()
                total = total.to(q.dtype).double() if rounded else total
            return total

        return times * summed(ds, k), times * summed(ds.mT, q), summed(p.mT, do)

    return wrong


def of_tiles(
    side: int = 128,
    lse: Callable[..., torch.Tensor] = lambda x, _: x[..., None],
    delta: Callable[..., torch.Tensor] = lambda x, _: x[..., None],
    *,
    exp: Callable[..., torch.Tensor] = torch.exp,
    kept: Callable[[torch.Tensor, int], torch.Tensor] = lambda ends, _: ends >= 0,
    turned: bool = False,
    others: bool = False,
) -> Callable[..., Any]:
    """Make the wrong formula of (dq, dk, dv), not causal, from whole tiles of side x side, with one of these changes.

    lse, delta  (x, side) -> what is subtracted, of (..., Nq, 1) or (..., Nq, Nk)
    kept        (how many keys or queries there are from each one on, side) -> which of them a sum takes in
    turned      of p and ds with each tile transposed in itself
    others      of products with v in place of k, do in place of q, q in place of do
    """

    def wrong(q, k, v, do, scale=None, causal=False, **rows):
        n = k.shape[-2]
        if causal or q.shape[-2] != n or n % side:
            return None
        q, k, v, do, shift, less = (x.double() for x in (q, k, v, do, rows["lse"], rows["delta"]))
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        p = exp(scale * q @ k.mT - lse(shift, side))
        ds = p * (do @ v.mT - delta(less, side))
        if turned:
            p, ds = (x.unflatten(-1, (-1, side)).unflatten(-3, (-1, side)).transpose(-3, -1) for x in (p, ds))
            p, ds = (x.flatten(-2).flatten(-3, -2) for x in (p, ds))
        if others:
            q, k, do = do, v, q
        here = kept(torch.arange(n, 0, -1), side)
        return scale * (ds * here) @ k, scale * (ds.mT * here) @ q, (p.mT * here) @ do

    return wrong


def along_keys(x: torch.Tensor, side: int) -> torch.Tensor:
    """Lay x (..., N) of the queries along the keys of each tile, the wrong axis: (..., N, N)."""
    n = torch.arange(x.shape[-1])
    return x[..., n[:, None] // side * side + n % side]


def sums_of(name: str, place: int) -> list[MistakeMatcher]:
    """List the matchers of mistakes in the sum over keys or queries that makes dq, dk or dv (`name`). place: which result that is."""
    along, n = ("keys", "Nk") if name == "dq" else ("queries", "Nq")
    left_out = say("flash_backward.sums.left_out", along=along, n=n)
    rounded = say("flash_backward.sums.rounded", name=name)
    return [
        slip(name, place, [along_tiles(side, whole=True) for side in TILES], left_out, each=True),
        *(slip(name, place, along_tiles(side, rounded=True), rounded, times=3) for side in TILES),
    ]


def in_tiles_of(name: str, place: int, sentence: str, sides: Sequence[int] = TILES, **how: Any) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if, in the plain case, that result is of_tiles(side, **how) for one of these sides."""
    looks = [slip(name, place, of_tiles(side, **how), sentence) for side in sides]
    return lambda trials: next(filter(None, (look(of_group(trials, "plain")) for look in looks)), "")


def tiles_of(name: str, place: int) -> list[MistakeMatcher]:
    """List the matchers of mistakes within the tiles of dq, dk or dv (`name`). place: which result that is."""
    along = "keys" if name == "dq" else "queries"
    alone = say("flash_backward.sums.the_last_tile_alone", name=name)
    turned = say("flash_backward.sums.turned", name=name, tile="p" if name == "dv" else "ds")
    found = [
        in_tiles_of(name, place, alone, (16, 32), kept=lambda left, side: left <= side),
        # of two tiles nobody can tell whether the sum lost the first, or did not begin with it
        in_tiles_of(
            name,
            place,
            say("flash_backward.sums.one_of_two_tiles", name=name, along=along),
            (64,),
            kept=lambda left, side: left <= side,
        ),
        *(
            in_tiles_of(name, place, say(f"flash_backward.sums.{which}_is_left_out", along=along), sides, kept=kept)
            for which, sides, kept in (
                ("the_first_tile", (16, 32), lambda left, side: left <= left[0] - side),
                ("the_last_tile", (16, 32, 64), lambda left, side: left > side),
            )
        ),
        in_tiles_of(name, place, turned, turned=True),
    ]
    if name == "dv":
        of_q = by_other_products(lambda p, difference, q, do: (p * difference, p, q))
        of_dp = backward_slips.slipped(lambda x: (x.p * x.dp, x.ds()))
        of_ds = backward_slips.slipped(lambda x: (x.ds(), x.ds()))
        return [
            *found,
            slip(name, place, of_q, say("flash_backward.dkdv.dv_from_q")),
            slip(name, place, [of_dp, of_ds], say("flash_backward.dkdv.dv_from_ds")),
            slip(name, place, scaled_dv, say("flash_backward.dkdv.dv_scaled")),
        ]
    other, wanted = ("v", "k") if name == "dq" else ("do", "q")
    base = say("flash_backward.sums.exp2", log2_e=math.log2(math.e))
    return [
        in_tiles_of(name, place, say("flash_backward.sums.axis_of_lse"), lse=along_keys),
        in_tiles_of(name, place, say("flash_backward.sums.axis_of_delta"), delta=along_keys),
        in_tiles_of(name, place, say("flash_backward.sums.axis_of_both"), lse=along_keys, delta=along_keys),
        in_tiles_of(name, place, base, (128,), exp=torch.exp2),
        in_tiles_of(name, place, base, (128,), lse=lambda x, _: math.log(2) * x[..., None]),
        in_tiles_of(name, place, say("flash_backward.dkdv.p_without_lse"), (128,), lse=lambda x, _: 0 * x[..., None]),
        in_tiles_of(
            name,
            place,
            say("flash_backward.sums.other_factor", name=name, wanted=wanted, other=other),
            (128,),
            others=True,
        ),
        *found,
    ]


def with_tf32(name: str) -> Callable[..., list[torch.Tensor]]:
    """Make a function that computes dq, dk or dv (`name`) with some of its products in TF32 (scores, dp, gradient): one result a choice."""

    def guesses(q, k, v, do, causal=False, scale=None, **_):
        shape = {"dq": q, "dk": k, "dv": v}[name].shape
        q, k, v, do = (x.reshape(-1, *x.shape[-2:]).double() for x in (q, k, v, do))
        times, sees = q.shape[-1] ** -0.5 if scale is None else scale, seen(q.shape[-2], k.shape[-2], causal, q.device)
        lse = (times * q @ k.mT).masked_fill(~sees, -math.inf).logsumexp(-1, keepdim=True)
        lse = torch.where(lse == -math.inf, math.inf, lse)  # where nothing is seen
        delta = (torch.exp(times * q @ k.mT - lse) * sees * (do @ v.mT)).sum(-1, keepdim=True)
        found = []
        for of_s, of_dp, of_sum in product((False, True), repeat=3):
            if of_s or of_dp or of_sum:
                p = torch.exp(times * multiplied(q, k.mT, of_s) - lse) * sees
                ds = p * (multiplied(do, v.mT, of_dp) - delta)
                weights, rows, factor = {"dq": (ds, k, times), "dk": (ds.mT, q, times), "dv": (p.mT, do, 1)}[name]
                found.append((factor * multiplied(weights, rows, of_sum)).reshape(shape))
        return found

    return guesses


def multiplied(a: torch.Tensor, b: torch.Tensor, tf32: bool) -> torch.Tensor:
    """Compute a @ b in float64, of factors that are rounded to TF32 or not."""
    return as_tf32(a) @ as_tf32(b) if tf32 else a @ b


def like_tf32(name: str, place: int) -> MistakeMatcher:
    """Make a matcher of dq, dk or dv (`name`) multiplied in TF32; it looks at the answer's result `place`."""
    which, guesses = ("dq", "dk", "dv").index(name), with_tf32(name)
    return multiplied_in_tf32(
        lambda **call: guesses(**with_do_named(call)), lambda **call: gradients(**with_do_named(call))[which], place
    )


def handed_q(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if dk or dv has the shape of q, and should not, else ""."""
    for t in failing(trials):
        for call, out in t.calls:
            for place, (name, like) in enumerate((("dk", "k"), ("dv", "v"))):
                if getattr(nth(out, place), "shape", None) == call["q"].shape != call[like].shape:
                    return say("flash_backward.dkdv.handed_q", name=name, like=like)
    return ""


def atomics(trials: Sequence[Trial]) -> str:
    """Return a remark that atomics add in any order, if there are any, else ""."""
    found = any(a.op == "atomic" for t in trials for launch in t.evidence.launches for a in launch.accesses)
    return say("flash_backward.dkdv.adds_dk_atomically") if found else ""


def no_scale_at_all(**call: Any) -> tuple[torch.Tensor, ...] | None:
    """Compute (dq, dk, dv) without the scale, in the scores and at the end."""
    found = backward_slips.slipped(backward_slips.unscaled_p)(**call)
    scale = call.get("scale")
    scale = call["q"].shape[-1] ** -0.5 if scale is None else scale
    return found and (*((x / scale).to(call["q"].dtype).double() for x in found[:2]), found[2])


DELTA_BEHIND_P = backward_slips.slipped(lambda x: x.p * x.dp - x.delta, False)
EXP_OF_BASE_2 = backward_slips.slipped(backward_slips.of_other_p(lambda x: math.log2(math.e) * (x.s - x.lse)))


def mistakes_of(name: str, place: int) -> list[MistakeMatcher]:
    """List the matchers of mistakes in the formula of dq or dk (`name`): scale or delta is missing, or scale is there twice. place: which
    result it is."""
    other = {"dq": "k", "dk": "q"}[name]
    return [
        slip(
            name,
            place,
            (without_ones_own_scale, scaled_otherwise_on_the_way_back),
            say("flash_backward.sums.scale_ignored", name=name),
            each=True,
        ),
        slip(name, place, scaled(-1), say("flash_backward.sums.no_scale", name=name, other=other)),
        slip(name, place, scaled(1), say("flash_backward.sums.scaled_twice", name=name, other=other)),
        slip(name, place, by_the_formula(minus=0.0), say("flash_backward.sums.no_delta", name=name), times=100),
        slip(name, place, by_the_formula(minus=-1.0), DELTA_ADDED),
        slip(
            name,
            place,
            by_other_products(lambda p, difference, q, do: (difference, p, do)),
            say("flash_backward.sums.no_p", name=name),
        ),
        slip(name, place, DELTA_BEHIND_P, say("flash_backward.sums.delta_behind_p")),
        slip(name, place, backward_slips.slipped(lambda x: x.p), say("flash_backward.sums.p_for_ds", name=name)),
        slip(name, place, EXP_OF_BASE_2, say("flash_backward.sums.exp_of_base_2")),
        *(slip(name, place, wrong, says) for wrong, says in OF_DS),
        # trap: where both give inf, nobody can tell it from a p that alone lacks the scale
        slip(name, place, no_scale_at_all, say("flash_backward.sums.no_scale_at_all", name=name)),
    ]


def masks_of(name: str) -> list[MistakeMatcher]:
    """List the matchers of a wrong causal mask in a kernel whose first result is dq or dk (`name`)."""
    return [
        slip(name, 0, by_the_formula(lambda nq, nk: nq - nk), of_attention.THE_OTHER_WAY, each=True),
        slip(name, 0, by_the_formula(lambda nq, nk: 0), of_attention.AT_THE_TOP_LEFT, each=True),
        slip(name, 0, IN_CUT_TILES, of_attention.NOT_AT_THE_BOTTOM_RIGHT, each=True, strict=True),
        # in one case it could be one tile
        slip(name, 0, by_the_formula(lambda nq, nk: nk), say("flash_backward.sums.no_mask"), each=True),
        slip(name, 0, by_the_formula(lambda nq, nk: nk - nq - 1), say("flash_backward.dkdv.off_by_one")),
        slip(name, 0, by_the_formula(lambda nq, nk: nk - nq + 1), say("flash_backward.sums.one_key_more")),
        slip(name, 0, UNMASKED, of_attention.NO_MASK_IN_A_TILE, each=True, strict=True),
        *(slip(name, 0, slips, says, each=True, strict=True) for slips, says in WALKS[name]),
    ]


WALKS = {  # of one program
    "dq": [(slips, ENDS_EARLY) for slips in EARLY],
    "dk": [(LATE, say("attention.attention_backward.the_walk_begins_late"))],
}


def swapped(place: int) -> MistakeMatcher:
    """Make the matcher of dk and dv in each other's place. place: which result dk is."""
    return slip(
        "dk",
        place,
        lambda **given: (dkv := gradients(**given)) and (dkv[0], dkv[2], dkv[1]),
        say("flash_backward.dkdv.dk_and_dv_swapped"),
    )


KEPT = ("q", "k", "v", "causal", "scale", "o", "lse")  # by forward, for backward


def mixed(taken: Collection[str]) -> Callable[..., tuple[torch.Tensor, ...] | None]:
    """Make the wrong formula of (dq, dk, dv) that takes these of KEPT from the application between; None where there is none."""

    def kept(*inputs: Any) -> dict[str, Any]:
        return dict(zip(KEPT, (*inputs, *attend(*inputs)), strict=True))

    def wrong(q, k, v, do, causal=False, scale=None, between=(), **_):
        if not between:
            return None
        other, scale = kept(*between), q.shape[-1] ** -0.5 if scale is None else scale
        given = kept(q, k, v, causal, scale) | {name: other[name] for name in taken}
        return by_lse(do=do, delta=row_dots(given.pop("o"), do), **given)

    return wrong


def of_the_other() -> Misconception:
    """Make the Misconception that dq is made from the application between: from all that forward keeps for it, or from some."""
    parts = [("q", "k", "v"), ("causal",), ("scale",), ("o",), ("lse",)]
    chosen = [sum(some, ()) for n in range(1, 1 + len(parts)) for some in combinations(parts, n)]
    return slip("dq", 1, [mixed(names) for names in chosen], OF_THE_OTHER)


def lost_nothing(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if NaN comes where some query sees no key, and in no other causal case; else ""."""
    sentence = say("flash_backward.dkdv.a_mask_before_exp")
    return "" if has_nan(["causal"], "elsewhere")(trials) else in_bounds(has_nan(["nothing"], sentence))(trials)


LOST_RAGGED = in_bounds(has_nan(["ragged", "hard"], say("flash_backward.dkdv.exp_of_s_divided_by_exp_of_lse")))
FOUR_STRIDES = on_exception("index out of range", say("flash_backward.flash_attention.four_strides"))


def heads_and_batches(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor | None:
    """Compute delta (n, n, N) with batch and head swapped; None where they differ in number."""
    return row_dots(o, do).transpose(0, 1) if o.dim() == 4 and o.shape[0] == o.shape[1] else None


def rounded_products(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor | None:
    """Compute delta from products in half precision; None for float32."""
    return None if o.dtype == torch.float32 else (o * do).double().sum(-1)


def rounded_sums(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor | None:
    """Compute delta rounded to half precision; None for float32."""
    return None if o.dtype == torch.float32 else row_dots(o, do).to(o.dtype).double()


DELTAS = [
    *(
        Misconception(wrong, say("flash_backward.delta.one_factor", name=name, other=other))
        for name, other, wrong in (
            ("o", "do", [lambda o, do: o.double().sum(-1), lambda o, do: o.double().square().sum(-1)]),
            ("do", "o", [lambda o, do: do.double().sum(-1), lambda o, do: do.double().square().sum(-1)]),
        )
    ),
    Misconception([rounded_products, rounded_sums], say("flash_backward.delta.rounded"), times=3),
]
SWAPPED_HEADS = Misconception(heads_and_batches, say("flash_backward.delta.batches_and_heads_swapped"), row_dots)
