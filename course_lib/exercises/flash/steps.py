"""Steps towards a forward pass: predictions, one tile, one head, one causal head."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from course_lib.catalogue import say
from course_lib.criteria import Coalesced, Correct, DotFlops, Launches, Rereads, Traffic, TritonDidTheWork, correct
from course_lib.evidence import Evidence
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.attention.cases import qkv
from course_lib.exercises.attention.oracles import moved_bytes, tiles_of
from course_lib.exercises.cases import BF16, FP16, fixed
from course_lib.exercises.flash.cases import scored
from course_lib.exercises.flash.criteria import GATES, TILE, least_bytes, least_flops, tiles_flops
from course_lib.exercises.flash.mistakes import (
    BASES,
    CUT,
    EDGES,
    FIRST_KEYS_OF_LSE,
    INVERSE_D,
    LAST_KEYS,
    LOST,
    MASKS,
    MISSING_KEYS,
    NAN,
    NAN_AT_ONCE,
    NAN_WITHOUT_KEYS,
    NO_KEY_AT_ALL,
    NOT_RESCALED,
    ONLY_THE_MAXIMUM,
    OVERFLOW,
    POWERS_OF_2,
    RACE_IN_ONE_HEAD,
    ROUNDED_ACCUMULATOR,
    ROUNDED_SCORES,
    ROUNDED_SUMS,
    SAME_KEYS,
    SCALED_Q,
    UNDIVIDED,
    UNSCALED,
    UNSEEN_SCORE_0,
    UPDATES,
    all_causal,
    looks_like_tf32,
    rounded_result,
    unstored,
)
from course_lib.exercises.flash.oracles import attend, attend_causal, causal_budget, kernel_budget, means, means_budget
from course_lib.mistakes import miscounted
from tritontrace.results import Cause

# ------------------------------------------------------------------------------------------------ predictions


ASKED = {"n": 1024, "d": 128, "itemsize": 2}


def counted() -> dict[str, int]:
    """Return the right number for each question of `predictions`, counted tile by tile."""
    n, d, size = ASKED["n"], ASKED["d"], ASKED["itemsize"]

    def times(bm: int) -> int:
        beside = 2 * n * d * size + 4 * n  # q, o and lse
        return (moved_bytes(n, d, bm, 64, size, False) - beside) // (2 * n * d * size)

    ends = [end for _, end in tiles_of(8, 128, 128, n, n)]
    fulls = [full for full, _ in tiles_of(8, 128, 128, n, n)]
    return {
        "times k is read, tiles of 64 queries": times(64),
        "times k is read, tiles of 128 queries": times(128),
        "tiles of a causal pass": sum(ends),
        "of these, tiles that need the mask": sum(ends) - sum(fulls),
        "bytes of the accumulator of a program": torch.zeros(128, d).nbytes,
        "bytes of scores written to memory": 0,
    }


predictions = Exercise(
    id="flash.predictions",
    signature="predictions: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=6, difficulty=2),
    cases=[fixed("six numbers", "plain")],
    oracle=counted,
    criteria=[Correct("plain", 3, say("flash.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("times k is read, tiles of 64 queries", 8): say("flash.predictions.tiles_of_128"),
                ("times k is read, tiles of 128 queries", 16): say("flash.predictions.tiles_of_64"),
                ("times k is read, tiles of 64 queries", 1): say("flash.predictions.each_program_reads_k"),
                ("times k is read, tiles of 128 queries", 1): say("flash.predictions.each_program_reads_k"),
                ("tiles of a causal pass", 64): say("flash.predictions.all_tiles"),
                ("tiles of a causal pass", 32): say("flash.predictions.half_of_a_tile"),
                ("tiles of a causal pass", 28): say("flash.predictions.below_the_diagonal"),
                ("of these, tiles that need the mask", 64): say("flash.predictions.nothing_to_hide"),
                ("of these, tiles that need the mask", 36): say("flash.predictions.nothing_to_hide"),
                ("of these, tiles that need the mask", 28): say("flash.predictions.nothing_to_hide"),
                ("bytes of the accumulator of a program", 128 * 128 * 2): say("flash.predictions.float32"),
                ("bytes of the accumulator of a program", 128 * 128): say("flash.predictions.elements"),
                ("bytes of scores written to memory", 2 * 1024**2): say("flash.predictions.in_registers"),
                ("bytes of scores written to memory", 4 * 1024**2): say("flash.predictions.in_registers"),
            }
        )
    ],
)


# ------------------------------------------------------------------------------------------------ one tile


@dataclass
class UpdateIsWritten(TritonDidTheWork):
    """Gate for a kernel that is half given: in the plain case, a program's final state differs from the one that it starts from. (In other
    cases sums may underflow and look the same.)"""

    def _untouched(self, evidence: Evidence) -> bool:
        untouched = [
            isinstance(out, list)
            and all(
                isinstance(x, torch.Tensor) and (x == start).all()
                for x, start in zip(out, (0, -math.inf), strict=False)
            )
            for out in evidence.outputs
        ]
        return bool(untouched) and all(untouched)

    def _why(self, evidence: Evidence) -> Cause | None:
        return Cause("blank") if self._untouched(evidence) else super()._why(evidence)

    def _problem(self, exercise: Exercise, evidence: Evidence, group: str) -> str:
        if group == "plain" and self._untouched(evidence):
            return say("flash.predictions.unsolved")
        return super()._problem(exercise, evidence, group)


online_update = Exercise(
    id="flash.online_update",
    entry="weighted_mean",
    given=("weighted_mean_kernel", "weighted_mean"),
    signature="online_update(m, l, acc, s, v) -> m, l, acc, called by weighted_mean(s: (M, N), v: (N, D)) -> o, lse",
    effort=Effort(minutes=15, lines=7, difficulty=3),
    cases=[
        Case("64 rows of 128 scores, float16", "plain", scored(64, 128, 32, FP16)),
        Case("1 row of 5", "ragged", scored(1, 5, 16)),
        Case("100 rows of 333", "ragged", scored(100, 333, 64)),
        Case("large scores", "hard", scored(40, 300, 32, scores="large")),
        Case("scores that rise by 300", "hard", scored(40, 300, 32, scores="rising", v_mean=20.0)),
        Case("scores that fall by 300", "hard", scored(40, 300, 32, scores="falling", v_mean=20.0)),
        Case("scores near -300", "hard", scored(40, 300, 32, scores="low")),
        Case("neighbouring rows 300 apart", "hard", scored(40, 300, 32, scores="apart")),
        Case("tiles of -inf first", "late", scored(40, 300, 32, scores="late")),
        Case("tiles of -inf first, then scores near -300", "late", scored(40, 300, 32, scores="late and low")),
        Case("rows of -inf alone", "late", scored(40, 300, 32, scores="nothing")),
        Case("32 rows of 4096, bfloat16", "half", scored(32, 4096, 32, BF16, v_mean=20.0)),
        Case("32 rows of 4096, float16", "half", scored(32, 4096, 32, FP16, v_mean=20.0)),
        Case("40 rows of 500, float32, v around 20", "float32", scored(40, 500, 32, v_mean=20.0)),
    ],
    oracle=means,
    budget=means_budget,
    gates=(UpdateIsWritten(), *GATES[1:]),
    criteria=correct("flash.online_update", {"ragged": 1, "hard": 2, "late": 2, "half": 2, "float32": 1}),
    mistakes=[
        *NOT_RESCALED,
        *UPDATES,
        POWERS_OF_2,
        *ROUNDED_SUMS,
        ROUNDED_ACCUMULATOR,
        *LOST,
        NAN_AT_ONCE,
        NAN,
        OVERFLOW,
        looks_like_tf32,
    ],
)


# ------------------------------------------------------------------------------------------------ one head


one_head = Exercise(
    id="flash.one_head",
    signature="one_head(q: (Nq, D), k: (Nk, D), v: (Nk, D), contiguous) -> o: (Nq, D), lse: (Nq,) float32",
    effort=Effort(minutes=25, lines=30, difficulty=3),
    cases=[
        Case("64 queries, 128 keys, float16", "plain", qkv(64, 128, 32, FP16)),
        Case("37 queries, 50 keys, bfloat16", "ragged", qkv(37, 50, 32, BF16)),
        Case("200 queries, 1 key, float16", "ragged", qkv(200, 1, 32, FP16)),
        Case("1 query, 333 keys, float32", "ragged", qkv(1, 333, 32)),
        Case("large scores, float16", "hard", qkv(24, 170, 32, FP16, scores="large")),
        Case("rising scores, float32", "hard", qkv(24, 270, 32, scores="rising", v_mean=20.0)),
        Case("one score of 80, at the last key", "hard", qkv(24, 257, 32, scores="last")),
        Case("scores near -200, bfloat16", "hard", qkv(24, 170, 32, BF16, scores="low")),
        Case("5120 queries, 128 keys, float16", "performance", qkv(5120, 128, 64, FP16)),
        Case("384 queries and keys, float16", "performance", qkv(384, 384, 64, FP16)),
    ],
    oracle=attend,
    budget=kernel_budget,
    gates=GATES,
    criteria=[
        *correct("flash.one_head", {"ragged": 2, "hard": 2}),
        Rereads("k", lambda q, **_: math.ceil(q.shape[-2] / TILE), 2, say("flash.one_head.title_rereads_k")),
        Launches(1, 1),
        Coalesced("load", 1),
    ],
    mistakes=[
        RACE_IN_ONE_HEAD,
        unstored,
        UNSCALED,
        INVERSE_D,
        *SAME_KEYS,
        FIRST_KEYS_OF_LSE,  # of o nobody could tell them from a first tile that is read anew
        UNDIVIDED,
        MISSING_KEYS,
        LAST_KEYS,
        *NOT_RESCALED,
        POWERS_OF_2,
        *BASES,
        ONLY_THE_MAXIMUM,
        *SCALED_Q,
        *ROUNDED_SCORES,
        ROUNDED_ACCUMULATOR,
        NAN_AT_ONCE,
        OVERFLOW,
        looks_like_tf32,
        rounded_result,
    ],
)


# ------------------------------------------------------------------------------------------------ one causal head


causal_one_head = Exercise(
    id="flash.causal_one_head",
    signature="causal_one_head(q: (Nq, D), k, v: (Nk, D), contiguous, Nk >= Nq) -> o: (Nq, D), lse: (Nq,) float32",
    effort=Effort(minutes=20, lines=45, difficulty=4),
    cases=[
        Case("128 queries and keys, float16", "plain", qkv(128, 128, 32, FP16)),
        Case("37 queries and keys, bfloat16", "ragged", qkv(37, 37, 32, BF16)),
        Case("1 query, 1 key, float32", "ragged", qkv(1, 1, 32)),
        Case("200 queries and keys, float32", "ragged", qkv(200, 200, 32)),
        Case("1 query, 100 keys, float16", "longer", qkv(1, 100, 32, FP16)),
        Case("130 queries, 167 keys, float16", "longer", qkv(130, 167, 32, FP16)),
        Case("large scores, float16", "hard", qkv(70, 170, 32, FP16, scores="large")),
        Case("rising scores, float32", "hard", qkv(140, 140, 32, scores="rising", v_mean=20.0)),
        Case("scores near -200, bfloat16", "hard", qkv(170, 170, 32, BF16, scores="low")),
        Case("1024 queries and keys, float16", "performance", qkv(1024, 1024, 64, FP16)),
    ],
    oracle=attend_causal,
    budget=causal_budget,
    gates=GATES,
    criteria=[
        *correct("flash.causal_one_head", {"ragged": 2, "longer": 1, "hard": 1}),
        DotFlops(tiles_flops, least_flops, 2, say("flash.causal_one_head.title_dot_flops")),
        # of one head every program reads nearly all, so that none does a fair share: one_head asks who shares the work
        Traffic(
            lambda q, k, v: least_bytes(q, k, v, True),
            1,
            at_most=1.0,
            title=say("flash.causal_one_head.title_traffic"),
            programs=0,
        ),
        Launches(1, 1),
    ],
    mistakes=[
        RACE_IN_ONE_HEAD,
        unstored,
        all_causal(
            UNSCALED,
            INVERSE_D,
            *MASKS,
            *EDGES,
            *CUT,
            *UNSEEN_SCORE_0,
            UNDIVIDED,
            *NOT_RESCALED,
            POWERS_OF_2,
            *BASES,
            ONLY_THE_MAXIMUM,
            *SCALED_Q,
            *ROUNDED_SCORES,
            ROUNDED_ACCUMULATOR,
            looks_like_tf32,
        ),
        NAN_AT_ONCE,
        NAN_WITHOUT_KEYS,
        NO_KEY_AT_ALL,
        OVERFLOW,
        rounded_result,
    ],
)
