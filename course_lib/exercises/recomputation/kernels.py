"""Kernels that recompute, keep one number per row, or draw the same numbers again."""

from __future__ import annotations

import torch
from torch.nn.functional import cross_entropy

from course_lib.catalogue import say
from course_lib.criteria import GATES, BuffersBelow, Coalesced, Correct, Launches, NoAtomics, Programs, Saves, Traffic
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import Drawing, against_copy, twice
from course_lib.exercises.recomputation.cases import (
    dropped,
    dropped_at,
    elementwise,
    logits,
    normed,
    times,
    traffic,
)
from course_lib.exercises.recomputation.criteria import KeepsNothing
from course_lib.exercises.recomputation.mistakes import (
    FLOAT32,
    GELUS,
    GRADIENTS,
    LOGITS,
    RMSNORMS,
    SAME_MASK,
    SIGMOIDS,
    UPSIDE_DOWN,
    another_mask,
    applied_once,
    cast_by_autograd,
    in_tensors,
    mean_over_a_block,
    nan_if_hard,
    of_the_other,
    partial_sums_of_each_row,
    saved_nothing,
    saved_something,
    several_launches,
    unscaled,
)
from course_lib.exercises.recomputation.oracles import (
    cross_entropy_budget,
    dropout_and_gradient,
    gated_gelu,
    gelu_budget,
    rmsnorm_budget,
    rmsnorm_gradients,
    rounding_budget,
    sigmoid_budget,
    sigmoid_bytes,
    three_sigmoids,
    with_gradients,
)

# ------------------------------------------------------------------------------------------------ recomputing for speed


sigmoid3_traffic = Exercise(
    id="recomputation.sigmoid3_traffic",
    signature="sigmoid3_traffic(n: int, itemsize: int, recompute: bool) -> (int, int)",
    kind="formula",
    effort=Effort(minutes=5, lines=2, difficulty=2),
    cases=[traffic(n, b, r) for r in (False, True) for n, b in ((1000, 4), (4096, 2), (77, 8))],
    oracle=sigmoid_bytes,
    criteria=[
        Correct("stored", 2, say("recomputation.sigmoid3_traffic.title_stored")),
        Correct("recomputed", 2, say("recomputation.sigmoid3_traffic.title_recomputed")),
    ],
    mistakes=[in_tensors],
)

sigmoid3 = Exercise(
    id="recomputation.sigmoid3",
    signature="Sigmoid3.apply(x, contiguous) -> sigmoid(sigmoid(sigmoid(x)))",
    called="forward and backward",
    effort=Effort(minutes=20, lines=16, difficulty=3),
    cases=[
        Case("64 x 128", "plain", elementwise((64, 128))),
        Case("one element", "ragged", elementwise((1,))),
        Case("37 x 53 x 3", "ragged", elementwise((37, 53, 3))),
        Case("5001, bfloat16", "ragged", elementwise((5001,), torch.bfloat16)),
        Case("large numbers", "hard", elementwise((40, 77), scale=60)),
        Case("large numbers, float16", "hard", elementwise((3001,), torch.float16, scale=60)),
        Case("another x before backward", "twice", twice(elementwise((64, 128)))),
        Case("512 x 1024", "performance", elementwise((512, 1024))),
        Case("128 x 512", "performance", elementwise((128, 512))),
        Case("128 x 512, float16", "performance", elementwise((128, 512), torch.float16)),
    ],
    oracle=three_sigmoids,
    budget=sigmoid_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 1),
        Correct("hard", 1, say("recomputation.sigmoid3.title_hard")),
        Correct("twice", 1, say("recomputation.twice.title")),
        Saves(lambda x, dy: 0, 3, say("recomputation.sigmoid3.title_saves")),
        Launches(1, 1, phase=0),
        Launches(1, 1, phase=1),
        Traffic(times(5), 2, title=say("recomputation.sigmoid3.title_traffic")),
    ],
    bonus=[against_copy(Drawing("8192 x 8192", elementwise((8192, 8192))), times(5), full=0.85)],
    mistakes=[
        of_the_other(three_sigmoids, "x"),
        applied_once(*SIGMOIDS),
        FLOAT32,
        GRADIENTS,
        cast_by_autograd,
        saved_nothing,
        nan_if_hard(lambda: sigmoid3, say("recomputation.sigmoid3.an_exponential_that_overflows")),
        saved_something(say("recomputation.sigmoid3.one_kernel_a_sigmoid")),
        several_launches(
            (0, 1), say("recomputation.sigmoid3.through_memory"), say("recomputation.sigmoid3.forward_twice")
        ),
    ],
)

recomputed_gelu = Exercise(
    id="recomputation.recomputed_gelu",
    signature="RecomputedGelu.apply(x, gate), contiguous, of one shape -> gelu(x) * gate",
    called="forward and backward",
    effort=Effort(minutes=15, lines=35, difficulty=3),
    track="more",
    cases=[
        Case("64 x 128", "plain", elementwise((64, 128), names="x gate dy")),
        Case("one element", "ragged", elementwise((1,), names="x gate dy")),
        Case("37 x 53 x 3", "ragged", elementwise((37, 53, 3), names="x gate dy")),
        Case("5001, bfloat16", "ragged", elementwise((5001,), torch.bfloat16, names="x gate dy")),
        Case("large numbers", "hard", elementwise((40, 77), scale=8, names="x gate dy")),
        Case("large numbers, float16", "hard", elementwise((3001,), torch.float16, scale=20, names="x gate dy")),
        Case("another x and gate before backward", "twice", twice(elementwise((64, 128), names="x gate dy"))),
        Case("512 x 1024", "performance", elementwise((512, 1024), names="x gate dy")),
        Case("128 x 256", "performance", elementwise((128, 256), names="x gate dy")),
        Case("128 x 256, float16", "performance", elementwise((128, 256), torch.float16, names="x gate dy")),
    ],
    oracle=gated_gelu,
    budget=gelu_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 1),
        Correct("hard", 2, say("recomputation.recomputed_gelu.title_hard")),
        Correct("twice", 1, say("recomputation.twice.title")),
        Saves(lambda x, gate, dy: 0, 3, say("recomputation.recomputed_gelu.title_saves")),
        Launches(1, 1, phase=1),
        Traffic(times(8), 2, title=say("recomputation.recomputed_gelu.title_traffic")),
    ],
    bonus=[against_copy(Drawing("8192 x 4096", elementwise((8192, 4096), names="x gate dy")), times(8), full=0.85)],
    mistakes=[
        of_the_other(gated_gelu, "x", "gate"),
        applied_once(*GELUS),
        FLOAT32,
        GRADIENTS,
        cast_by_autograd,
        saved_nothing,
        saved_something(say("recomputation.recomputed_gelu.keeps_gelu_x")),
        several_launches((1,), say("recomputation.recomputed_gelu.a_launch_for_each_gradient")),
    ],
)


# ------------------------------------------------------------------------------------------------ keeping less: one number per row


cross_entropy_backward = Exercise(
    id="recomputation.cross_entropy_backward",
    signature="cross_entropy_backward(x: (M, V), target: (M,), lse: (M,), dloss: (M,)) -> (M, V)",
    effort=Effort(minutes=15, lines=16, difficulty=2),
    cases=[
        Case("48 rows of 256", "plain", logits(48, 256)),
        Case("one row of one", "ragged", logits(1, 1)),
        Case("37 rows of 5003", "ragged", logits(37, 5003)),
        Case("9 rows of 777, bfloat16", "ragged", logits(9, 777, torch.bfloat16)),
        Case("logits around 100", "hard", logits(20, 333, mean=100.0)),
        Case("logits around -200", "hard", logits(20, 333, mean=-200.0)),
        Case("logits of large spread, float16", "hard", logits(20, 333, torch.float16, scale=30.0)),
        Case("a third of them -inf", "hard", logits(20, 333, ban=0.33)),
        Case("64 rows of 4096", "performance", logits(64, 4096)),
        Case("64 rows of 4096, float16", "performance", logits(64, 4096, torch.float16)),
    ],
    oracle=lambda x, target, lse, dloss: (
        with_gradients(lambda x: cross_entropy(x, target, reduction="none"), dloss, x=x).dx
    ),
    budget=cross_entropy_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, say("recomputation.cross_entropy_backward.title_hard")),
        Traffic(lambda x, target, lse, dloss: 2 * x.nbytes, 2),
        Coalesced("load", 1),
        BuffersBelow(
            lambda x, target, lse, dloss: x.nbytes / 8,
            1,
            say("recomputation.cross_entropy_backward.title_buffers_below"),
        ),
    ],
    bonus=[against_copy(Drawing("8192 rows of 8192", logits(8192, 8192)), times(2), full=0.8)],
    mistakes=[
        *LOGITS,
        FLOAT32,
        nan_if_hard(
            lambda: cross_entropy_backward, say("recomputation.cross_entropy_backward.exponentials_that_overflow")
        ),
    ],
)


rmsnorm_backward = Exercise(
    id="recomputation.rmsnorm_backward",
    signature="rmsnorm_backward(x: (M, N), weight: (N,), rstd: (M,), dy: (M, N)) -> (M, N), (N,) float32",
    effort=Effort(minutes=25, lines=40, difficulty=4),
    track="more",
    cases=[
        Case("96 rows of 128", "plain", normed(96, 128)),
        Case("1 x 1", "ragged", normed(1, 1)),
        Case("131 rows of 77", "ragged", normed(131, 77)),
        Case("3 rows of 1031", "ragged", normed(3, 1031)),
        Case("70 rows of 200, bfloat16", "ragged", normed(70, 200, torch.bfloat16)),
        Case("many rows, float16", "hard", normed(301, 33, torch.float16)),
        Case("large rows, float16", "hard", normed(40, 300, torch.float16, scale=1000.0)),
        Case("128 rows of 2048", "performance", normed(128, 2048)),
        Case("128 rows of 1024, float16", "performance", normed(128, 1024, torch.float16)),
    ],
    oracle=rmsnorm_gradients,
    budget=rmsnorm_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("hard", 2, say("recomputation.rmsnorm_backward.title_hard")),
        Traffic(times(3), 2, at_most=1.2, title=say("recomputation.rmsnorm_backward.title_traffic"), programs=0),
        NoAtomics(2),
        Programs(8, 1, group="performance"),
        Coalesced("load", 1),
    ],
    bonus=[against_copy(Drawing("8192 rows of 4096", normed(8192, 4096)), times(3), full=0.7)],
    mistakes=[
        *RMSNORMS,
        lambda trials: (
            say("recomputation.rmsnorm_backward.atomics")
            if any(a.op == "atomic" for t in trials for launch in t.evidence.launches for a in launch.accesses)
            else ""
        ),
        mean_over_a_block,
        partial_sums_of_each_row,
    ],
)


# ------------------------------------------------------------------------------------------------ random numbers


seeded_dropout = Exercise(
    id="recomputation.seeded_dropout",
    signature="SeededDropout.apply(x, contiguous, p: float, seed: int) -> x / (1 - p) or 0",
    called="forward and backward",
    effort=Effort(minutes=10, lines=25, difficulty=3),
    cases=[
        Case("64 x 128, p = 0.5", "plain", dropped((64, 128), 0.5, 7)),
        Case("one element", "ragged", dropped((1,), 0.3, 11)),
        Case("37 x 53 x 3, p = 0.1", "ragged", dropped((37, 53, 3), 0.1, 123456789)),
        Case("5001, bfloat16", "ragged", dropped((5001,), 0.25, 99, torch.bfloat16)),
        Case("p = 0: nothing is dropped", "probabilities", dropped((1000,), 0.0, 5)),
        Case("p = 0.9", "probabilities", dropped((50, 60), 0.9, 5)),
        Case("p is a number that is drawn", "probabilities", dropped_at((50, 60), 1234, 8)),
        Case("another seed", "probabilities", dropped((50, 60), 0.9, 6)),
        Case("another p and seed before backward", "twice", twice(dropped((64, 128), 0.5, 7), p=0.2, seed=8)),
        Case("512 x 1024", "performance", dropped((512, 1024), 0.2, 41)),
        Case("128 x 512", "performance", dropped((128, 512), 0.2, 42)),
        Case("128 x 512, float16", "performance", dropped((128, 512), 0.2, 43, torch.float16)),
    ],
    oracle=dropout_and_gradient,
    budget=rounding_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 1),
        Correct("twice", 1, say("recomputation.twice.title")),
        Correct("probabilities", 1, say("recomputation.seeded_dropout.title_probabilities")),
        KeepsNothing(3),
        Traffic(times(4), 2),
    ],
    bonus=[against_copy(Drawing("8192 x 8192", dropped((8192, 8192), 0.2, 42)), times(4), full=0.5)],
    mistakes=[
        of_the_other(dropout_and_gradient, "p", "seed"),
        applied_once(UPSIDE_DOWN, SAME_MASK),
        GRADIENTS,
        cast_by_autograd,
        saved_something(say("recomputation.seeded_dropout.a_mask_in_memory")),
        applied_once(unscaled, another_mask),
    ],
)
