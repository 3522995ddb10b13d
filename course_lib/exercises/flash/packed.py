"""Sequences of several lengths, packed one after another: cases, oracle, budget, costs, and the exercise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import DotFlops, Launches, Traffic, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.attention.cases import qkv
from course_lib.exercises.cases import BF16, FP16, FP32
from course_lib.exercises.flash.criteria import GATES, least_bytes, least_flops, tiles_flops
from course_lib.exercises.flash.mistakes import OVERFLOW, unstored
from course_lib.exercises.flash.oracles import attend, attend_causal, causal_budget
from course_lib.exercises.flash.slips import undivided, with_tf32
from course_lib.exercises.misconceptions import Misconception, multiplied_in_tf32
from course_lib.mistakes import on_race


def packed(lengths: Sequence[int], heads: int, d: int, dtype: torch.dtype = FP16, **kind: Any):
    """Return a function that draws q, k, v (heads, T, d), offsets of sequences of these lengths, in random order, and the longest
    length."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        given = qkv(sum(lengths), sum(lengths), d, dtype, lead=(heads,), **kind)(g)
        order = torch.randperm(len(lengths), generator=g, device=g.device).tolist()
        ends = torch.tensor([0, *(lengths[i] for i in order)], device=g.device).cumsum(0)
        return given | {"offsets": ends.to(torch.int32), "longest": max(lengths)}

    return draw


def sequences(q, k, v, offsets, **_: Any) -> Iterator[dict[str, torch.Tensor]]:
    """Yield q, k and v of each packed sequence."""
    for start, stop in pairwise(offsets.tolist()):
        yield {"q": q[:, start:stop], "k": k[:, start:stop], "v": v[:, start:stop]}


def in_each(one: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Make the function that returns o (heads, T, d) of packed sequences, from one(q, k, v) of a single sequence."""

    def of_all(**call: Any) -> torch.Tensor:
        found = [one(**own) if own["q"].shape[1] else own["q"].double() for own in sequences(**call)]
        return torch.cat(found, 1)

    return of_all


attend_packed = in_each(lambda **own: attend_causal(**own).o)


def packed_budget(expected, dtype, arguments):
    """Return `causal_budget`, sequence by sequence."""
    bounds = pairwise(arguments["offsets"].tolist())
    parts = zip(bounds, sequences(**arguments), strict=True)
    return torch.cat([causal_budget(expected[:, a:b], dtype, own) for (a, b), own in parts if a < b], 1)


def summed(cost: Callable[..., int]) -> Callable[..., int]:
    """Sum a cost of causal attention over all sequences."""
    return lambda **call: sum(cost(**own, causal=True) for own in sequences(**call) if own["q"].shape[1])


def tf32_of_all(**call: Any) -> list[torch.Tensor]:
    """Compute o with one or both of each sequence's products in TF32: three results."""
    return [in_each(lambda i=i, **own: with_tf32(**own, causal=True)[i])(**call) for i in range(3)]


varlen = Exercise(
    id="flash.varlen",
    signature="varlen(q, k, v: (H, T, D), contiguous, offsets: (S + 1,) int32, longest: int) -> o: (H, T, D)",
    effort=Effort(minutes=25, lines=35, difficulty=4),
    track="more",
    cases=[
        Case("2 heads, 100, 32 and 64 tokens, float16", "plain", packed((64, 32, 100), 2, 32)),
        Case("one sequence of 37, bfloat16", "ragged", packed((37,), 2, 32, BF16)),
        Case("1, 70 and 130 tokens", "ragged", packed((1, 70, 130), 1, 32)),
        Case("1, 2, 3 and 5 tokens, float32", "ragged", packed((5, 3, 2, 1), 2, 32, FP32)),
        Case("33 and 90 tokens, float32", "ragged", packed((33, 90), 1, 32, FP32)),
        Case("two of four sequences are empty", "empty", packed((0, 40, 0, 25), 2, 32)),
        Case("an empty one and 70 tokens, bfloat16", "empty", packed((70, 0), 1, 32, BF16)),
        Case("large scores", "hard", packed((70, 100), 1, 32, scores="large")),
        Case("rising scores, float32", "hard", packed((20, 150), 1, 32, FP32, scores="rising", v_mean=20.0)),
        Case("scores near -200, bfloat16", "hard", packed((40, 130), 1, 32, BF16, scores="low")),
        Case("8 heads, 32 to 256 tokens", "performance", packed((128, 64, 32, 256, 96), 8, 32)),
        Case("16 heads, 7 to 300 tokens", "performance", packed((300, 20, 45, 7), 16, 32)),
    ],
    oracle=attend_packed,
    budget=packed_budget,
    gates=GATES,
    criteria=[
        *correct("flash.varlen", {"ragged": 3, "empty": 1, "hard": 1}),
        DotFlops(summed(tiles_flops), summed(least_flops), 2, say("flash.varlen.title_dot_flops")),
        Traffic(summed(least_bytes), 2, at_most=1.0, title=say("flash.varlen.title_traffic")),
        Launches(1, 1),
    ],
    mistakes=[
        on_race(say("flash.varlen.past_an_empty_text")),
        Misconception(
            lambda q, k, v, **_: attend_causal(q, k, v).o, say("flash.varlen.sees_the_texts_before"), attend_packed
        ),
        Misconception(in_each(lambda **own: attend(**own).o), say("flash.varlen.not_causal"), attend_packed),
        Misconception(
            in_each(lambda **own: attend(**own, causal=True, scale=1.0).o), say("flash.varlen.no_scale"), attend_packed
        ),
        Misconception(
            in_each(lambda **own: undivided(**own, causal=True)), say("flash.one_head.forgets_to_divide"), attend_packed
        ),
        unstored,
        OVERFLOW,
        multiplied_in_tf32(tf32_of_all, attend_packed),
    ],
)
