"""Mistakes in a forward pass, and how results reveal them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from course_lib import common_mistakes
from course_lib.catalogue import say
from course_lib.criteria import GradedTrial
from course_lib.evidence import Evidence
from course_lib.exercises.attention.mistakes import (
    AT_THE_TOP_LEFT,
    LSE_IN_BASE_2,
    SCALE_OF_1_BY_D,
    THE_MAXIMUM_FOR_LSE,
    THE_OTHER_WAY,
    WITHOUT_MASK,
    WITHOUT_SCALE,
    has_nan,
    misshapen,
)
from course_lib.exercises.cases import BF16, FP16, FP32
from course_lib.exercises.flash.oracles import attend, oracle_of
from course_lib.exercises.flash.slips import (
    TILES,
    by_strides_of,
    edge,
    far_below_its_neighbours,
    first_keys,
    heads_as_queries,
    in_the_tiles_of_a_walk,
    in_tiles,
    instead,
    lost,
    low_behind_an_empty_tile,
    lse_by,
    lse_of_other_heads,
    merged_by,
    mild,
    of_a_power_of_2,
    of_an_inverse_d,
    of_rounded_scores,
    of_rounded_weights,
    other_heads,
    other_keys,
    scale_in,
    shifted,
    swapped_heads,
    the_same_keys,
    undivided,
    with_strides_of,
    with_tf32,
    without_its_own,
)
from course_lib.exercises.flash.updates import (
    along_the_columns,
    by_the_new_maximum,
    by_the_tile,
    divided,
    in_tiles_by,
    lse_of_the_start,
    relative_to_the_tile,
    rescaled_behind,
    rounded_before_its_sum,
)
from course_lib.exercises.flash.walks import (
    SIZES,
    begun_anew,
    counted,
    ends_with_the_first_row,
    not_rounded_down,
    turned_round,
    uncut,
    unseen_score_0,
    whole_by_the_last_row,
    whole_rounded_up,
)
from course_lib.exercises.misconceptions import Misconception, Wrong, failing, multiplied_in_tf32, nth, results, several
from course_lib.mistakes import MistakeMatcher, on_exception, on_race, torch_did

looks_like_tf32 = multiplied_in_tf32(
    lambda dy=None, between=(), **call: with_tf32(**call),
    lambda dy=None, between=(), **call: oracle_of(call)(**call),
)


def rounded_result(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if float32 results hold only numbers of half precision, and are nearly right; else ""."""
    for call, found in results(trials):
        right = nth(oracle_of(call)(**call), 0)
        if call["v"].dtype != FP32 or found.shape != right.shape or (found - right).norm() > 0.01 * right.norm():
            continue
        for dtype in (BF16, FP16):  # which has most numbers of the first as well
            if bool(found.any()) and torch.equal(found, found.to(dtype).to(found.dtype)):
                return say("flash.flash_attention_forward.a_rounded_result", dtype=str(dtype)[6:])
    return ""


def unstored(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if kernels left elements of a result unwritten, else ""."""
    for t in failing(trials):
        for out in t.evidence.outputs[-1:]:
            parts = out if isinstance(out, list) else [out]
            for place, x in enumerate(parts):
                label = f"out[{place}]" if isinstance(out, list) else "out"
                if isinstance(x, torch.Tensor) and x.isnan().any():
                    if misshapen(out, t.exercise.oracle(**t.inputs[-1])):
                        return ""
                    stored = stored_bytes(t.evidence, label) // x.element_size()
                    if stored < x.numel():
                        facts = {"case": t.case.name, "stored": stored, "all": x.numel()}
                        heads = "of_each_head" if x.dim() > 2 else "whole"
                        return say(f"flash.flash_attention_forward.unstored_{heads}", **facts)
    return ""


def unused_strides(trials: Sequence[GradedTrial]) -> str:
    """Return a remark that names the parameters which a kernel never uses, strides among them, if its programs race on the same addresses,
    and only where tensors are views; else ""."""
    racing = [t for t in trials if any(f.kind == "race" for f in t.evidence.faults)]
    unread = {name for t in racing for launch in t.evidence.launches for name in launch.unread}
    if not any("stride" in name for name in unread) or any(t.case.group != "strided" for t in racing):
        return ""
    return common_mistakes.unread(trials, racing)


copied = torch_did(["clone"], say("flash.flash_attention_forward.makes_copies"))


def in_bounds(look: MistakeMatcher) -> MistakeMatcher:
    """Restrict a matcher to answers without faults: a NaN from elsewhere in memory says nothing about the arithmetic."""
    return lambda trials: "" if any(t.evidence.faults for t in failing(trials)) else look(trials)


def stored_bytes(evidence: Evidence, label: str) -> int:
    """Count the bytes of a result that the kernels of the last call wrote, each byte counted once."""
    own = [f for launch in evidence.launches for f in launch.footprints if f.tensor == label]
    return sum(f.written_distinct_bytes for f in own)


def all_causal(*looks: MistakeMatcher) -> MistakeMatcher:
    """Make a matcher of an exercise whose attention is always causal: it adds causal=True to the calls, and returns the first remark that
    one of `looks` has."""

    def said(trials: Sequence[GradedTrial]) -> str:
        told = [replace(t, inputs=[call | {"causal": True} for call in t.inputs]) for t in trials]
        return next(filter(None, (look(told) for look in looks)), "")

    return said


def rows_as_queries(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if only causal results are wrong, and in each group all heads but the first; else ""."""
    off = []
    for call, found in results(trials):
        right, group = nth(oracle_of(call)(**call), 0), call["q"].shape[0] // call["k"].shape[0]
        if not call["causal"] or found.shape != right.shape or group == 1:
            return ""
        error = (found - right).flatten(1).norm(dim=1) / right.flatten(1).norm(dim=1)
        off.append(bool((error[::group] < 0.02).all() and (error > 0.1).any()))
    return ROWS_AS_QUERIES if off and all(off) else ""


def few_programs(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if results are wrong, and the first kernel has fewer programs than heads times splits; else ""."""
    for t in failing(trials):
        heads, splits, launches = t.inputs[-1]["k"].shape[0], t.inputs[-1]["splits"], t.evidence.launches
        if len(launches) == 2 and launches[0].programs < heads * splits:
            return say(
                "flash.flash_decode.few_programs",
                case=t.case.name,
                kernel=launches[0].kernel,
                programs=launches[0].programs,
                splits=splits,
                heads=heads,
            )
    return ""


def infinite(trials: Sequence[GradedTrial]) -> str:
    """Return a remark if sums of many values overflowed, else ""."""
    over = any(bool(o.isinf().any()) for t in trials if t.case.group == "half" for _, o in results([t]))
    return say("flash.flash_decode.states_in_float16") if over else ""


def slip(wrong: Wrong, says: str, place: int = 0, **how: Any) -> Misconception:
    """Make a Misconception: the results are those of `wrong` instead of the oracle's. A gradient dy is left aside, and so are the results
    that it adds."""

    def forward(one: Callable[..., Any]) -> Callable[..., Any]:
        return lambda dy=None, between=(), **call: one(**call)

    right = forward(lambda **call: oracle_of(call)(**call))
    return Misconception([forward(one) for one in several(wrong)], says, right, place, **how)


ROUNDED_Q = say("flash.flash_attention_forward.q_scaled_in_half_precision")
SCALED_Q = [slip(scale_in(factor), ROUNDED_Q, place=1) for factor in (1.0, math.log2(math.e))]
UNSCALED = slip(instead(scale=1.0), WITHOUT_SCALE)
WITHOUT_WINDOW = [
    slip(instead(window=None, causal=True), say("flash.sliding_window.no_window")),
    *(
        slip(in_the_tiles_of_a_walk(bm, bn), say("flash.sliding_window.no_mask_for_keys_that_are_too_old"))
        for bm in (16, 32, 64, 128)
        for bn in (16, 32, 64, 128)
    ),
]
TOP_LEFT = slip(edge(lambda nq, nk: 0), AT_THE_TOP_LEFT)
MASKS = [
    *(slip(edge(lambda nq, nk: nq - nk, clamped), THE_OTHER_WAY, each=True) for clamped in (True, False)),
    slip(lambda causal=False, **call: instead()(**call) if causal else None, WITHOUT_MASK, each=True),
    TOP_LEFT,
]
CUT = [
    slip(mild(counted(times, *size, nothing)), say(f"flash.causal_one_head.{what}"))
    for what, times, nothings in (
        ("the_comparison_turned_round", turned_round(False), (math.nan, 0.0)),
        ("the_comparison_turned_round", turned_round(True), (math.nan, 0.0)),
        ("tiles_without_a_mask", uncut, (0.0,)),
        ("tiles_without_a_mask", whole_by_the_last_row, (0.0,)),
        ("tiles_without_a_mask", whole_rounded_up, (0.0,)),
        ("keys_counted_twice", not_rounded_down, (0.0,)),
        ("keys_counted_twice", begun_anew, (0.0,)),
        ("ends_with_the_first_row", ends_with_the_first_row, (0.0,)),
    )
    for nothing in nothings
    for size in SIZES
]
UNSEEN_SCORE_0 = [slip(mild(unseen_score_0(*size)), say("flash.causal_one_head.unseen_keys_score_0")) for size in SIZES]
SAME_KEYS = [
    slip(mild(the_same_keys(tile)), say("flash.one_head.the_same_keys_again"), place=1, each=True, times=100)
    for tile in TILES
]
INVERSE_D = slip(mild(of_an_inverse_d), SCALE_OF_1_BY_D)
ONLY_THE_MAXIMUM = slip(lse_by(lambda m, l: m), THE_MAXIMUM_FOR_LSE, place=1, each=True)
OTHER_STRIDES = [
    slip(
        mild(by_strides_of(name, other)),
        say("flash.flash_attention_forward.strides_of_another", name=name, other=other),
    )
    for name, other in ("vk", "kv")
]
PADDED_SCALE = slip(mild(of_a_power_of_2), say("flash.flash_attention_forward.a_scale_of_block_d"))
LSE_OF_OTHER_HEADS = slip(lse_of_other_heads, say("flash.flash_attention_forward.lse_of_other_heads"), place=1)
UPDATES = [
    slip(lse_of_the_start, say("flash.online_update.lse_of_inf_alone"), place=1),
    *(
        slip(in_tiles_by(update), say(f"flash.online_update.{what}"))
        for what, update in (
            ("p_relative_to_its_own_tile", relative_to_the_tile),
            ("factors_along_the_columns", along_the_columns),
            ("divided_in_each_step", divided),
            ("multiplied_by_the_new_maximum", by_the_new_maximum),
            ("multiplied_by_the_tile", by_the_tile),
            ("the_last_tile_alone", rescaled_behind(True, True)),
            ("multiplied_behind", rescaled_behind(True, False)),
            ("multiplied_behind", rescaled_behind(False, True)),
        )
    ),
]
FIRST_NQ_KEYS = say("flash.one_head.the_first_nq_keys_alone")
FIRST_KEYS = slip(first_keys, FIRST_NQ_KEYS)
FIRST_KEYS_OF_LSE = slip(mild(first_keys), FIRST_NQ_KEYS, place=1, each=True)
ROWS_AS_QUERIES = say("flash.grouped_attention.row_is_query")
HEADS_AS_QUERIES = slip(heads_as_queries, say("flash.grouped_attention.head_is_query"), each=True)
POWERS_OF_2 = slip(
    instead(lambda s: s * math.log(2)),
    say("flash.one_head.powers_of_two"),
    times=30,  # a scale of (2D)^-0.5 is 0.7071 of the right one, and ln 2 is 0.6931
)
BASES = [
    slip(lse_by(lambda m, l: (m + l.log()) / math.log(2)), LSE_IN_BASE_2, place=1, each=True),
    *(
        slip(lse_by(mixed), say("flash.one_head.half_of_lse_in_base_2"), place=1, each=True)
        for mixed in (lambda m, l: m + l.log2(), lambda m, l: m / math.log(2) + l.log())
    ),
    slip(lse_by(lambda m, l: l.log()), say("flash.one_head.lse_without_the_maximum"), place=1, each=True),
]
LOST = [
    slip(lost(far_below_its_neighbours), say("flash.online_update.one_maximum_for_all_rows"), each=True),
    slip(lost(low_behind_an_empty_tile), say("flash.online_update.0_for_a_maximum_of_inf_stays"), each=True),
]
ROUNDED_SUMS = [
    slip(of_rounded_weights(too), say("flash.online_update.sums_rounded_probabilities"), place=1)
    for too in (False, True)
]
ROUNDED_SCORES = [
    slip(of_rounded_scores(scaled), say("flash.flash_attention_forward.scores_in_half_precision"), place=1)
    for scaled in (False, True)
]
ROUNDED_ACCUMULATOR = slip(
    [*in_tiles(rounded=True), *in_tiles_by(rounded_before_its_sum, rounds=True)],
    say("flash.flash_attention_forward.an_accumulator_in_half_precision"),
)
STRIDED_LSE = slip(with_strides_of, say("flash.flash_attention_forward.lse_with_the_strides_of_q"), place=1)
ONE_TOO_FEW = say("flash.causal_one_head.sees_one_key_fewer")
OWN_KEY = [
    slip(without_its_own(nothing), say("flash.causal_one_head.its_own_key_is_missing", mistake=ONE_TOO_FEW))
    for nothing in (math.nan, 0.0)
]
EDGES = [
    *(slip(shifted(-1, nothing), ONE_TOO_FEW) for nothing in (0.0, math.nan)),
    slip(shifted(1), say("flash.causal_one_head.sees_one_key_more")),
]
OTHER_SCALE = slip(
    lambda scale=None, **call: None if scale is None else attend(**call),
    say("flash.flash_attention_forward.a_scale_of_0_taken_for_none"),
    each=True,
)
MISSING_KEYS = slip(
    other_keys(lambda nk, tile: -(-nk // tile) * tile),
    say("flash.flash_attention_forward.missing_keys_score_0"),
    each=True,
)
LAST_KEYS = slip(
    other_keys(lambda nk, tile: nk // tile * tile), say("flash.grouped_attention.only_whole_tiles_of_keys"), each=True
)
NOT_RESCALED = [
    slip(in_tiles(**how), say(f"flash.online_update.{what}"), each=True)
    for what, how in (
        ("acc_is_not_multiplied", {"acc_too": False}),
        ("l_is_not_multiplied", {"l_too": False}),
        ("nothing_is_multiplied", {"acc_too": False, "l_too": False}),
    )
]
SWAPPED_HEADS = [
    slip(swapped_heads(*names), say("flash.flash_attention_forward.swapped_heads", names=[*names]))
    for names in ("q", "k", "v", "o", "kv")
]
UNDIVIDED = slip(undivided, say("flash.one_head.forgets_to_divide"))
OTHER_HEADS = slip(other_heads, say("flash.grouped_attention.heads_in_another_order"))
MERGES = [
    slip(merged_by(lambda m, l, acc: acc.sum(0) / l.sum(0)[..., None]), say("flash.flash_decode.adds_the_shares_up")),
    slip(merged_by(lambda m, l, acc: (acc / l[..., None]).mean(0)), say("flash.flash_decode.a_mean_of_the_shares")),
    slip(
        merged_by(lambda m, l, acc: (torch.exp(m - m.amax(0))[..., None] * acc).sum(0) / l.sum(0)[..., None]),
        say("flash.flash_decode.l_is_not_corrected"),
    ),
]
OF_O = [
    UNSCALED,
    OTHER_SCALE,
    *SWAPPED_HEADS,
    FIRST_KEYS,
    *MASKS,
    *EDGES,
    UNDIVIDED,
    MISSING_KEYS,
    LAST_KEYS,
    *NOT_RESCALED,
    POWERS_OF_2,
]
SEEN_NOTHING = say("flash.flash_attention_forward.0_0_where_nothing_is_seen")
NAN = in_bounds(has_nan(["nothing", "causal", "late"], SEEN_NOTHING))
NAN_IN_WINDOW = [
    in_bounds(
        has_nan(
            ["plain", "ragged"],
            say("flash.sliding_window.the_last_row_s_window"),
            where=lambda rows: rows.reshape(-1, rows.shape[-1])[:, 0].any(),
        )
    ),
    in_bounds(has_nan(["plain", "ragged"], SEEN_NOTHING)),
]
NO_KEY_AT_ALL = in_bounds(has_nan(["plain"], say("flash.causal_one_head.the_second_part_is_forgotten")))
NAN_WITHOUT_KEYS = in_bounds(has_nan(["longer"], say("flash.causal_one_head.shifted_the_other_way")))
NAN_AT_ONCE = in_bounds(
    has_nan(
        ["plain"],
        say("flash.flash_attention_forward.nan_at_once"),
        where=torch.all,  # what is NaN in some rows alone does not come from this
    )
)
OVERFLOW = in_bounds(has_nan(["hard"], say("flash.causal_one_head.no_maximum")))
OVERFLOW_OF_SHARES = in_bounds(has_nan(["hard"], say("flash.flash_decode.no_maximum_of_the_shares")))
VIEWS = [on_exception("view size is not compatible", say("flash.flash_attention_forward.views")), copied]
RACE = on_race(say("flash.flash_attention_forward.one_batch_alone"))
RACE_IN_ONE_HEAD = on_race(say("flash.one_head.a_tile_for_each_program"))
