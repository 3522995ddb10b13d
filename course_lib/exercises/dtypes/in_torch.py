"""Rounding, sums and quantizing in torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import BuffersBelow, Correct, Holds, correct, sum_budget
from course_lib.exercise import Case, Effort, Exercise, Trial
from course_lib.exercises.cases import ARITHMETIC, INTEGERS
from course_lib.exercises.dtypes.cases import (
    bits_of_numbers,
    cancelling,
    logits,
    normal,
    rows_of_all_sizes,
    special_floats,
    ties,
)
from course_lib.exercises.dtypes.mistakes import any_of, cut_off, nan_where_all_is_masked, outputs_of, wraps_around
from course_lib.exercises.dtypes.oracles import (
    Ran,
    bit_exact,
    is_nan,
    least_step,
    rounded,
    within_half_a_step,
    zeros_stay,
)
from course_lib.mistakes import MistakeMatcher, on_exception, torch_did


def bits_in_and_out(trials: Sequence[Trial]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """List (x, output) of each call whose output is int32 bits of the same shape."""
    pairs = [(call["x"], out) for t in trials for call, out in t.calls]
    return [
        (x, out)
        for x, out in pairs
        if isinstance(out, torch.Tensor) and out.dtype == torch.int32 and out.shape == x.shape
    ]


def loses_nan(trials: Sequence[Trial]) -> str:
    """Return a remark if a NaN became a number, and all else is right; else ""."""
    pairs = bits_in_and_out(trials)
    lost = any(bool((is_nan(x) & ~is_nan(out)).any()) for x, out in pairs)
    else_right = all(bool(((out == rounded(x)) | is_nan(x)).all()) for x, out in pairs)
    sentence = say("dtypes.round_to_bf16.nan_runs_over")
    return sentence if lost and else_right else ""


def infinity_is_nan(trials: Sequence[Trial]) -> str:
    """Return a remark if infinities became NaN, and all else is right; else ""."""
    pairs = bits_in_and_out(trials)
    infinite = [(x & 0x7FFFFFFF) == 0x7F800000 for x, _ in pairs]
    became = any(bool((inf & is_nan(out)).any()) for inf, (_, out) in zip(infinite, pairs, strict=True))
    else_right = all(
        bool(((out == rounded(x)) | inf | is_nan(x)).all()) for inf, (x, out) in zip(infinite, pairs, strict=True)
    )
    sentence = say("dtypes.round_to_bf16.infinity_is_nan")
    return sentence if became and else_right else ""


def shifted_down(trials: Sequence[Trial]) -> str:
    """Return a remark if the results are the upper halves, shifted down, else ""."""
    pairs = bits_in_and_out(trials)
    below = pairs and all(bool((((out << 16) == rounded(x)) | is_nan(x)).all()) for x, out in pairs)
    return say("dtypes.round_to_bf16.the_upper_half_shifted_down") if below else ""


def rounds_as(added: int, sentence: str, less_where_odd: int = 0) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if every number came out as (x + added) with the lower 16 bits cleared.

    less_where_odd   how much less is added where the lowest bit that stays is 1
    """

    def look(trials: Sequence[Trial]) -> str:
        pairs = [(x, x + added - less_where_odd * (x >> 16 & 1), out) for x, out in bits_in_and_out(trials)]
        found = pairs and all(bool(((out == (up & -0x10000)) | is_nan(x)).all()) for x, up, out in pairs)
        return sentence if found else ""

    return look


round_to_bf16 = Exercise(
    id="dtypes.round_to_bf16",
    signature="round_to_bf16(x: (n,) int32, bits of float32) -> (n,) int32, bits whose lower 16 are 0",
    effort=Effort(minutes=20, lines=5, difficulty=4),
    track="more",
    cases=[
        Case("1000 numbers", "plain", bits_of_numbers(1000)),
        Case("500 numbers of all sizes", "plain", bits_of_numbers(500, powers=30)),
        Case("600 ties and neighbours", "ties", ties),
        Case("zeros, infinities, NaN, subnormals", "special", special_floats),
    ],
    oracle=rounded,
    allows=INTEGERS,
    gates=[Ran(["int32", "int64", "int16", "int8", "uint8", "bool"])],
    criteria=[
        Holds(bit_exact, 2, say("dtypes.round_to_bf16.title_plain")),
        Holds(bit_exact, 2, say("dtypes.round_to_bf16.title_ties"), "ties"),
        Holds(bit_exact, 2, say("dtypes.round_to_bf16.title_special"), "special"),
    ],
    mistakes=[
        on_exception("without overflow", say("dtypes.round_to_bf16.no_int32")),
        torch_did(["lift_fresh"], say("dtypes.round_to_bf16.number_in_place")),
        shifted_down,
        loses_nan,
        infinity_is_nan,
        rounds_as(0x8000, say("dtypes.round_to_bf16.ties_to_odd"), less_where_odd=1),
        rounds_as(0, say("dtypes.round_to_bf16.cuts_off")),
        rounds_as(0x8000, say("dtypes.round_to_bf16.ties_up")),
        rounds_as(0x7FFF, say("dtypes.round_to_bf16.ties_towards_zero")),
    ],
)


def rounded_at_the_end(trials: Sequence[Trial]) -> str:
    """Return a remark if all sums of the first case are float32s that bfloat16, or else float16, could hold; else ""."""
    sums = [o for o in outputs_of(trials, "plain") if o.numel() > 1]
    for dtype in ("bfloat16", "float16") if sums else ():  # the coarser one first: the other may hold its numbers, too
        if all(o.dtype == torch.float32 and torch.equal(o, o.to(getattr(torch, dtype)).float()) for o in sums):
            return say("dtypes.half_sum.is_rounded", dtype=dtype)
    return ""


half_sum = Exercise(
    id="dtypes.half_sum",
    signature="half_sum(x: (M, N) float16) -> (M,) float32, the sum of each row",
    effort=Effort(minutes=5, lines=1, difficulty=2),
    cases=[
        Case("16 x 100", "plain", normal(16, 100, dtype=torch.float16)),
        Case("16 x 5000 around 1", "long", normal(16, 5000, dtype=torch.float16, mean=1)),
        Case("8 x 4001 between 0 and 1", "long", lambda g: {"x": torch.rand(8, 4001, generator=g).half()}),
        Case("16 x 2000 around 100", "large", normal(16, 2000, dtype=torch.float16, mean=100)),
        Case("16 x 2500, large numbers that cancel", "large", cancelling(16, 500)),
        Case("64 x 4096", "performance", normal(64, 4096, dtype=torch.float16)),
    ],
    oracle=lambda x: x.double().sum(1).float(),
    budget=sum_budget(lambda x: x.double().abs().sum(1), lambda x: x.shape[1]),
    allows=ARITHMETIC,
    gates=[Correct("plain")],
    criteria=[
        *correct("dtypes.half_sum", {"long": 2, "large": 2}),
        BuffersBelow(lambda x: x.nbytes, 1, say("dtypes.half_sum.title_buffers_below")),
    ],
    mistakes=[
        rounded_at_the_end,
        any_of(torch.isinf, ("large",), say("dtypes.half_sum.infinite")),
        any_of(torch.isnan, ("large",), say("dtypes.half_sum.nan")),
    ],
)


def logsumexp_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound of a log-sum-exp: a rounding or four of the result, and the relative error of the sum under the logarithm,
    which is an absolute error of the logarithm."""
    size = torch.where(expected.isfinite(), expected.abs(), 0)
    return (4 * size + 2 * math.sqrt(arguments["x"].shape[1]) + 8) * torch.finfo(torch.float32).eps


stable_logsumexp = Exercise(
    id="dtypes.stable_logsumexp",
    signature="stable_logsumexp(x: (M, N) float32 or float16) -> (M,) float32, log(sum(exp(row)))",
    effort=Effort(minutes=15, lines=5, difficulty=3),
    cases=[
        Case("7 x 100", "plain", logits(7, 100)),
        Case("5 x 33 around 1000", "large", logits(5, 33, mean=1000)),
        Case("5 x 33 around -1000", "large", logits(5, 33, mean=-1000)),
        Case("4 x 50, from -30000 to 30000", "large", logits(4, 50, scale=10000)),
        Case("6 x 40, masked", "masked", logits(6, 40, masked=True)),
        Case("3 x 70000, float16", "float16", logits(3, 70000, torch.float16, scale=0.5)),
        Case("6 x 300, float16", "float16", logits(6, 300, torch.float16, scale=8)),
    ],
    oracle=lambda x: torch.logsumexp(x.double(), 1).float(),
    budget=logsumexp_budget,
    allows=ARITHMETIC,
    gates=[Correct("plain")],
    criteria=correct("dtypes.stable_logsumexp", {"large": 2, "masked": 2, "float16": 2}),
    mistakes=[any_of(torch.isinf, ("large",), say("dtypes.stable_logsumexp.no_maximum")), nan_where_all_is_masked],
)

quantize_rows = Exercise(
    id="dtypes.quantize_rows",
    signature="quantize_rows(x: (M, N) float32) -> q: (M, N) int8, scale: (M,) float32",
    effort=Effort(minutes=15, lines=4, difficulty=3),
    track="more",
    cases=[
        Case("8 x 100", "plain", normal(8, 100)),
        Case("1 x 1", "plain", normal(1, 1)),
        Case("7 x 200, rows of all sizes", "sizes", rows_of_all_sizes(7, 200)),
        Case("6 x 50, two rows of zeros", "zeros", rows_of_all_sizes(6, 50, zeros=2)),
    ],
    oracle=lambda x: (x.double(), x.double().abs().amax(1) / 127),  # what q * scale and scale stand for
    allows=ARITHMETIC,
    gates=[Ran()],
    criteria=[
        Holds(within_half_a_step, 2, say("dtypes.quantize_rows.title_plain")),
        Holds(within_half_a_step, 1, say("dtypes.quantize_rows.title_sizes"), "sizes"),
        Holds(least_step, 2, say("dtypes.quantize_rows.title_least_step"), "sizes"),
        Holds(zeros_stay, 1, say("dtypes.quantize_rows.title_zeros"), "zeros"),
    ],
    mistakes=[wraps_around, cut_off, on_exception("The size of tensor a", say("dtypes.quantize_rows.scale_by_row"))],
)
