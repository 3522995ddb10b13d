"""The three kernels of the backward pass, each alone; of one of them first its loop, for one head."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from course_lib.catalogue import say
from course_lib.criteria import (
    BuffersBelow,
    Coalesced,
    Compiles,
    Correct,
    DotFlops,
    NoAtomics,
    Rereads,
    Traffic,
    correct,
)
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP16, FP32, Drawing, against_copy
from course_lib.exercises.flash.cases import each_in_its_order
from course_lib.exercises.flash.criteria import GATES, TILE
from course_lib.exercises.flash.mistakes import RACE, RACE_IN_ONE_HEAD, VIEWS, unstored
from course_lib.exercises.flash_backward.cases import backward, of_one_head, outputs
from course_lib.exercises.flash_backward.criteria import products, scores_bytes
from course_lib.exercises.flash_backward.mistakes import (
    DELTAS,
    FOUR_STRIDES,
    LOST_RAGGED,
    SWAPPED_HEADS,
    atomics,
    handed_q,
    like_tf32,
    lost_nothing,
    masks_of,
    mistakes_of,
    sums_of,
    swapped,
    tiles_of,
)
from course_lib.exercises.flash_backward.oracles import (
    delta_budget,
    gradient_budget,
    gradients,
    keys_and_values,
    row_dots,
)

# ------------------------------------------------------------------------------------------------ delta


delta = Exercise(
    id="flash_backward.delta",
    signature="delta(o: (..., N, D), do: (..., N, D)) -> (..., N) float32",
    effort=Effort(minutes=15, lines=16, difficulty=2),
    cases=[  # float32 but for one group: a cast that is forgotten costs that group alone
        Case("(2, 2) heads of 64, float32", "plain", outputs(2, 2, 64, 32)),
        Case("37 rows of 80", "ragged", outputs(37, 80)),
        Case("(3, 1, 2) heads of 1 x 16", "ragged", outputs(3, 1, 2, 1, 16)),
        Case("3 heads of 100 x 256", "ragged", outputs(3, 100, 256)),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", outputs(2, 3, 40, 32, layout="heads", do="heads")),
        Case("windows", "strided", outputs(2, 50, 24, layout="window", do="window")),
        Case("do is one number for all", "strided", outputs(2, 3, 33, 16, do="one number")),
        Case("(2, 2, B, N, H, D)", "strided", outputs(2, 2, 1, 2, 19, 16, layout="heads", do="heads")),
        Case("o around 20, do around 3, bfloat16", "half", outputs(2, 70, 128, mean=20.0, do="around 3", dtype=BF16)),
        Case("o around 300, do around 3, float16", "half", outputs(70, 256, mean=300.0, do="around 3", dtype=FP16)),
        Case("8 heads of 512 x 64", "performance", outputs(8, 512, 64)),
        Case("2 heads of 512 x 128", "performance", outputs(2, 512, 128)),
    ],
    oracle=row_dots,
    budget=delta_budget,
    gates=GATES,
    criteria=[
        Correct("ragged", 1, say("flash_backward.delta.title_ragged")),
        Correct("strided", 2, say("flash_backward.delta.title_strided"), uncopied=True),
        Correct("half", 2, say("flash_backward.delta.title_half")),
        Traffic(
            lambda o, do: o.nbytes + do.nbytes + 4 * math.prod(o.shape[:-1]),
            1,
            title=say("flash_backward.delta.title_traffic"),
        ),
        Coalesced("load", 1),
    ],
    bonus=[
        against_copy(
            Drawing("64 heads of 8192 x 128, bfloat16", outputs(64, 8192, 128, dtype=BF16)),
            lambda o, do: o.nbytes + do.nbytes,
            points=1,
        )
    ],
    mistakes=[*VIEWS, FOUR_STRIDES, RACE, SWAPPED_HEADS, *DELTAS, unstored],
)


# ------------------------------------------------------------------------------------------------ dk and dv of one head


dkdv_one_head = Exercise(
    id="flash_backward.dkdv_one_head",
    signature="dkdv_one_head(q, do: (Nq, D), k, v: (Nk, D), lse, delta: (Nq,) float32, all contiguous) -> dk, dv: (Nk, D)",
    effort=Effort(minutes=25, lines=40, difficulty=4),
    cases=[
        Case("128 queries and keys, float16", "plain", of_one_head(128, 128, 32)),
        Case("37 queries, 50 keys, bfloat16", "ragged", of_one_head(37, 50, 16, BF16)),
        Case("1 query, 200 keys", "ragged", of_one_head(1, 200, 32)),
        Case("130 queries, 7 keys", "ragged", of_one_head(130, 7, 32)),
        Case("33 queries, 70 keys, float32", "ragged", of_one_head(33, 70, 32, FP32)),
        Case("large scores", "hard", of_one_head(24, 170, 32, BF16, scores="large")),
        Case(
            "rising scores, v around 20, float32", "hard", of_one_head(40, 150, 16, FP32, scores="rising", v_mean=20.0)
        ),
        Case("scores near -200", "hard", of_one_head(150, 170, 16, scores="low")),
        Case(
            "512 queries and keys, sums that cancel, bfloat16",
            "half",
            of_one_head(512, 512, 16, BF16, do="turning", q=2.0),
        ),
        Case("64 queries, 4096 keys, float16", "performance", of_one_head(64, 4096, 32)),
        Case("256 queries and keys, float16", "performance", of_one_head(256, 256, 32)),
    ],
    oracle=keys_and_values,
    budget=partial(gradient_budget, of="kv"),
    gates=GATES,
    criteria=[
        *correct("flash_backward.dkdv_one_head", {"ragged": 2, "hard": 2, "half": 1}),
        DotFlops(products(4), products(4, 1), 1, say("flash_backward.dkdv_one_head.title_dot_flops")),
        Rereads(
            "q", lambda k, **_: math.ceil(k.shape[-2] / TILE), 2, say("flash_backward.dkdv_one_head.title_rereads_q")
        ),
        NoAtomics(1),
    ],
    mistakes=[
        handed_q,
        RACE_IN_ONE_HEAD,
        unstored,
        swapped(0),
        *mistakes_of("dk", 0)[1:],  # the first is about another scale
        *tiles_of("dk", 0),
        *tiles_of("dv", 1),
        *sums_of("dk", 0),
        *sums_of("dv", 1),
        like_tf32("dk", 0),
        like_tf32("dv", 1),
        atomics,
    ],
)


# ------------------------------------------------------------------------------------------------ dk and dv, dq


def gradient_cases(performance: Sequence[Case]) -> list[Case]:
    """Make the cases of both gradient kernels, dq and dkdv."""
    return [
        Case("(2, 1) heads of 128 queries and keys, float16", "plain", backward(128, 128, 32, lead=(2, 1))),
        Case("37 queries, 50 keys", "ragged", backward(37, 50, 16)),
        Case("1 query, 200 keys, bfloat16", "ragged", backward(1, 200, 32, BF16)),
        Case("130 queries, 7 keys", "ragged", backward(130, 7, 32)),
        Case("no leading dimension, heads of 80", "ragged", backward(33, 50, 80, lead=())),
        Case("(3, 1, 2) heads of 256", "ragged", backward(20, 30, 256, lead=(3, 1, 2))),
        Case("33 queries, 70 keys, float32", "ragged", backward(33, 70, 32, FP32, lead=())),
        Case("(B, N, H, D) as (B, H, N, D)", "strided", backward(40, 33, 32, lead=(2, 3), layout="heads", do="heads")),
        Case("windows", "strided", backward(30, 45, 24, BF16, layout="window", do="window")),
        Case("do is one number for all", "strided", backward(30, 45, 16, lead=(2, 2), do="one number")),
        Case(
            "q, k, v, do each in an order of its own",
            "strided",
            each_in_its_order(backward(30, 45, 24, lead=(2, 3)), ("q", "k", "v", "do")),
        ),
        Case("100 queries and keys, causal", "causal", backward(100, 100, 16, causal=True)),
        Case("23 queries, 161 keys, causal", "causal", backward(23, 161, 16, BF16, causal=True)),
        Case("1 query, 70 keys, causal, float32", "causal", backward(1, 70, 32, FP32, causal=True)),
        Case("144 queries, 49 keys, causal", "nothing", backward(144, 49, 16, causal=True)),
        Case("70 queries, 1 key, causal, float32", "nothing", backward(70, 1, 16, FP32, causal=True)),
        Case("large scores", "hard", backward(24, 170, 32, BF16, scores="large")),
        Case(
            "rising scores, v around 20, float32",
            "hard",
            backward(40, 150, 16, FP32, scores="rising", v_mean=20.0, lead=()),
        ),
        Case("scores near -200", "hard", backward(150, 170, 16, scores="low")),
        Case("scores near -200, 70 keys, float32", "hard", backward(70, 70, 16, FP32, scores="low", lead=())),
        Case(
            "512 queries and keys, sums over queries that cancel, bfloat16",
            "half",
            backward(512, 512, 16, BF16, lead=(), do="turning", q=2.0),
        ),
        Case(
            "400 queries and keys, v around 20, float16",
            "half",
            backward(400, 400, 16, lead=(), v_mean=20.0, do="around 3"),
        ),
        Case(
            "512 queries and keys, sums over keys that cancel, bfloat16",
            "half",
            backward(512, 512, 16, BF16, lead=(), k=2.0, v="turning", do="around 3"),
        ),
        Case("a scale of 0.4", "scale", backward(33, 44, 16, scale=0.4)),
        Case("a scale of 0", "scale", backward(64, 128, 16, scale=0.0)),
        Case("a scale of 0.02", "scale", backward(33, 44, 32, BF16, scale=0.02)),
        *performance,
    ]


PERFORMANCE = [
    Case("64 heads of 64 queries and keys, float16", "performance", backward(64, 64, 32, lead=(64,))),
    Case("512 queries and keys, float16", "performance", backward(512, 512, 32, lead=(1,))),
    Case("512 queries and keys, causal, bfloat16", "half of it", backward(512, 512, 32, BF16, lead=(1,), causal=True)),
]


def judged_by(tensor: str, times: Callable[..., float], title: str, count: int) -> list:
    """List the criteria of both gradient kernels, dq and dkdv."""
    return [
        Correct("ragged", 2, say("flash_backward.kernels.title_ragged"), compiles=True),
        Correct("strided", 1, say("flash_backward.kernels.title_strided"), uncopied=True),
        Correct("causal", 2, say("flash_backward.kernels.title_causal")),
        Correct("nothing", 1, say("flash_backward.kernels.title_nothing")),
        Correct("hard", 2, say("flash_backward.kernels.title_hard")),
        Correct("half", 2, say("flash_backward.kernels.title_half")),
        Correct("scale", 1, say("flash_backward.kernels.title_scale")),
        DotFlops(products(count), products(count, 1), 1, say("flash_backward.kernels.title_dot_flops", products=count)),
        DotFlops(
            products(count),
            products(count, 1),
            1,
            say("flash_backward.kernels.title_dot_flops_half_of_it"),
            "half of it",
        ),
        NoAtomics(1),
        Rereads(tensor, times, 1, title),
        BuffersBelow(scores_bytes, 1, say("flash_backward.kernels.title_buffers_below")),
        Coalesced("load", 1),
    ]


dkdv = Exercise(
    id="flash_backward.dkdv",
    signature="dkdv(q, k, v, do, lse, delta, causal=False, scale=None) -> dk, dv: (..., Nk, D)",
    effort=Effort(minutes=45, lines=70, difficulty=5),
    cases=gradient_cases(PERFORMANCE),
    oracle=keys_and_values,
    budget=partial(gradient_budget, of="kv"),
    gates=(*GATES[:2], Compiles(apart=["ragged"])),
    criteria=judged_by(
        "q", lambda k, **_: math.ceil(k.shape[-2] / TILE), say("flash_backward.dkdv.title_judged_by_q"), 4
    ),
    mistakes=[
        *VIEWS,
        FOUR_STRIDES,
        handed_q,
        RACE,
        unstored,
        swapped(0),
        *mistakes_of("dk", 0),
        *tiles_of("dk", 0),
        *tiles_of("dv", 1),
        *masks_of("dk"),
        *sums_of("dk", 0),
        *sums_of("dv", 1),
        lost_nothing,
        LOST_RAGGED,
        like_tf32("dk", 0),
        like_tf32("dv", 1),
        atomics,
    ],
)

dq = Exercise(
    id="flash_backward.dq",
    signature="dq(q, k, v, do, lse, delta, causal=False, scale=None) -> (..., Nq, D)",
    effort=Effort(minutes=25, lines=60, difficulty=4),
    cases=gradient_cases(PERFORMANCE),
    oracle=lambda **given: gradients(**given)[0],
    budget=partial(gradient_budget, of="q"),
    gates=(*GATES[:2], Compiles(apart=["ragged"])),
    criteria=judged_by(
        "k", lambda q, **_: math.ceil(q.shape[-2] / TILE), say("flash_backward.dq.title_judged_by_k"), 3
    ),
    mistakes=[
        *VIEWS,
        FOUR_STRIDES,
        RACE,
        unstored,
        *mistakes_of("dq", 0),
        *tiles_of("dq", 0),
        *sums_of("dq", 0),  # before a walk that ends early: whole tiles alone are one, too
        *masks_of("dq"),
        lost_nothing,
        LOST_RAGGED,
        like_tf32("dq", 0),
        atomics,
    ],
)
