"""Mistakes in attention, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial
from course_lib.exercises.attention import forward_slips as slips
from course_lib.exercises.attention.oracles import gradients, merged, reference, seen
from course_lib.exercises.misconceptions import Misconception, failing, is_closer_to, nth, results
from course_lib.mistakes import MistakeMatcher


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


def masks(
    sees: Callable[..., torch.Tensor], sentence: str, where: Sequence[slips.Where] = ("everywhere", "where it cuts")
) -> list[MistakeMatcher]:
    """Make the mistakes of a wrong mask. In a single case, several wrong masks may look the same, so every result must be what
    the slip gives."""
    return [Misconception(slips.masked_by(sees, tiles), sentence, each=True) for tiles in where]


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
TOP_LEFT = Misconception(slips.top_left, AT_THE_TOP_LEFT, each=True)
WITHOUT_SCALE = say("attention.attention.no_scale")
WITHOUT_MASK = say("attention.attention.no_mask")
UNSCALED = Misconception(slips.unscaled, WITHOUT_SCALE)
UNMASKED = Misconception(slips.all_keys, WITHOUT_MASK, each=True)  # in one case it could be one tile
NO_MAXIMUM = [Misconception(slips.overflowing, say("attention.attention.no_maximum"), place=place) for place in (0, 1)]
LAST_QUERIES = say("attention.attention_backward.last_queries")

ONE_TOO_FEW = say("attention.tiled_attention.off_by_one")
ONE_TOO_MANY = say("attention.tiled_attention.sees_one_key_more")
NOT_AT_THE_BOTTOM_RIGHT = say("attention.tiled_attention.not_at_the_bottom_right")
SCALE_OF_1_BY_D = say("attention.attention.a_scale_of_1_by_d")
INVERSE_D = Misconception(slips.of_a_power_of_d(-1), SCALE_OF_1_BY_D, each=True)  # in one case it may be one of tiles
ROOT_D = Misconception(slips.of_a_power_of_d(0.5), say("attention.attention.a_scale_of_root_d"), each=True)
THE_MAXIMUM_FOR_LSE = say("attention.attention.lse_is_the_maximum")
LSE_IN_BASE_2 = say("attention.attention.lse_in_base_2")
OF_LSE = [
    Misconception(slips.lse_by(lambda m, log_l: m), THE_MAXIMUM_FOR_LSE, place=1, each=True),
    Misconception(slips.lse_by(lambda m, log_l: (m + log_l) / math.log(2)), LSE_IN_BASE_2, place=1, each=True),
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
            else torch.softmax(slips.shares(q, k, seen(q.shape[-2], k.shape[-2], False), scale), -2) @ v.double()
        ),
        say("attention.attention.a_softmax_along_the_queries"),
    ),
    *(
        Misconception(
            slips.all_where_nothing_is_seen(combine), say(f"attention.attention.{what}_where_nothing_is_seen")
        )
        for combine, what in ((torch.mean, "equal_weights"), (torch.sum, "weights_of_1"))
    ),
    *masks(lambda i, j, shift, *_: j <= i - shift, THE_OTHER_WAY, ["everywhere"]),
    *masks(lambda i, j, shift, *_: j < i + shift, ONE_TOO_FEW, ["everywhere"]),
    *masks(lambda i, j, shift, *_: j <= i + shift + 1, ONE_TOO_MANY, ["everywhere"]),
    *masks(lambda i, j, shift, *_: j >= i + shift, say("attention.attention.turned_round"), ["everywhere"]),
    Misconception(slips.masked_after_the_softmax, say("attention.attention.masked_after_the_softmax"), each=True),
    INVERSE_D,
    ROOT_D,
    *OF_LSE,
]
WALKS = [
    Misconception(slips.walked(divided=False), say("attention.tiled_attention.never_divides")),
    Misconception(slips.walked(acc_too=False), say("attention.tiled_attention.acc_is_not_rescaled")),
    Misconception(slips.walked(l_too=False), say("attention.tiled_attention.l_is_not_rescaled")),
    Misconception(slips.walked(False, False), say("attention.tiled_attention.no_rescaling")),
    Misconception(slips.walked(rounded=True), say("attention.tiled_attention.a_state_in_half_precision")),
    Misconception(slips.walked(), say("attention.tiled_attention.lse_without_the_maximum"), place=1),
]
LAST_KEYS = Misconception(
    slips.whole_tiles, say("attention.tiled_attention.forgets_the_short_last_tile_of_keys"), each=True
)
UNDERFLOW = Misconception(slips.underflowing, say("attention.tiled_attention.m_starts_at_0"))
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
        slips.without_tiles(lambda number, of: number == 0),
        say("attention.tiled_attention.the_first_tile_is_left_out"),
        each=True,
    ),
    Misconception(
        slips.without_tiles(lambda number, of: number == of - 1),
        say("attention.tiled_attention.the_last_tile_is_left_out"),
        each=True,
    ),
]
STATES = [
    Misconception(slips.a_mean_of_each_tile, say("attention.tiled_attention.a_mean_of_each_tile")),
    Misconception(slips.in_the_next_tile_too, say("attention.tiled_attention.the_state_goes_on")),
]
MERGES = [
    Misconception(slips.without_a_maximum, say("attention.merge.absolute_exponentials"), merged, 1),
    *(
        Misconception(slips.state_by(l=turned), say("attention.merge.upside_down"), merged, 1, each=True)
        for turned in slips.UPSIDE_DOWN
    ),
    *(
        Misconception(slips.state_by(l=added), say("attention.merge.own_maximum", who=who), merged, 1, each=True)
        for who, added in (
            ("l_a", lambda x, y, m_x, m_y: x + y * torch.exp(m_y - torch.maximum(m_x, m_y))),
            ("l_b", lambda x, y, m_x, m_y: x * torch.exp(m_x - torch.maximum(m_x, m_y)) + y),
        )
    ),
    Misconception(
        slips.state_by(l=lambda x, y, *_: x + y), say("attention.merge.neither_l_is_corrected"), merged, 1, each=True
    ),
    Misconception(slips.state_by(acc=lambda x, y, *_: x + y), say("attention.merge.acc_is_not_corrected"), merged, 2),
    Misconception(slips.state_by(divided=True), say("attention.merge.acc_becomes_a_mean"), merged, 2),
]
