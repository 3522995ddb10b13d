"""Hidden cases of unit 10: sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.breaking import mutant
from course_lib.exercises.cases import BF16, FP16, FP32, fixed
from course_lib.exercises.flash.cases import each_in_its_order
from course_lib.exercises.flash_backward import cases as B
from course_lib.exercises.rounds import versions


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    nq, nk, d = rng.randrange(17, 60), rng.randrange(61, 140), rng.choice((16, 24, 32, 40))
    lead = rng.choice(((2,), (3,), (2, 1, 2), ()))
    low, scores = rng.choice((FP16, BF16)), rng.choice(("large", "rising", "last", "low"))
    sizes = {"layers": rng.randrange(1, 90), "heads": rng.randrange(1, 70), "head_dim": 8 * d}
    budget = rng.randrange(10**6, 10**11)
    match exercise_id.split(".")[1]:
        case "dq_log":
            queries, keys = 128 * rng.choice((2, 3)), 128 * rng.choice((2, 4))
            return versions(f"{queries} queries, {keys} keys", B.of_one_head(queries, keys, 32))
        case "break_gradients":
            return [
                mutant(
                    "the walk begins where the last key is seen",
                    ("tl.maximum(first +", "tl.maximum(first + BLOCK - 1 +"),
                ),
                mutant(
                    "as many programs as queries need",
                    ("triton.cdiv(S, 32)", "min(triton.cdiv(S, 32), triton.cdiv(N, 32))"),
                ),
                mutant("causal from the upper left", ("offs_m[None, :] + S - N", "offs_m[None, :]")),
                mutant("exp without its maximum", ("tl.exp(s - lse[None, :])", "tl.exp(s) / tl.exp(lse)[None, :]")),
                mutant("the scale of 32 channels", ("dk * scale", "dk * 32**-0.5")),
                mutant("the scale of 16 channels", ("dk * scale", "dk * 0.25")),
                mutant(
                    "delta as far as there are keys",
                    ("mask=offs_m < N, other=0)\n        s =", "mask=offs_m < S, other=0)\n        s ="),
                ),
                mutant("p in half", ("tl.dot(p, do,", "tl.dot(p.to(tl.float16), do.to(tl.float16),")),
                mutant(
                    "no more than 80", ("        p = tl.exp", "        s = tl.minimum(s, 80.0)\n        p = tl.exp")
                ),
            ]
        case "delta":
            return [
                Case(f"{lead} x {nk} x {d}", "ragged", B.outputs(*lead, nk, d)),
                Case(f"{nq} x {d}, windows", "strided", B.outputs(2, nq, d, layout="window", do="window")),
                Case(f"{nq} x {d}, by columns", "strided", B.outputs(2, nq, d, layout="columns", do="mild")),
                Case("far from 0", "half", B.outputs(nk, 5 * d, mean=rng.randrange(10, 90), do="around 3", dtype=low)),
            ]
        case "dkdv_one_head":
            sides = rng.choice((16, 32, 64))
            return [
                Case(f"{nq} queries, {nk} keys", "ragged", B.of_one_head(nq, nk, sides, low)),
                Case(f"{nk} queries, {nq} keys, float32", "ragged", B.of_one_head(nk, nq, sides, FP32)),
                Case("hidden scores", "hard", B.of_one_head(nq, nk, 32, FP32, scores=scores, v_mean=5.0)),
                Case("sums over queries", "half", B.of_one_head(4 * nk, nk, 16, low, do="turning", q=2.0)),
            ]
        case "dkdv" | "dq":
            return [
                Case(f"{lead} heads, {nq} queries, {nk} keys", "ragged", B.backward(nq, nk, d, low, lead=lead)),
                Case(
                    f"{nq} queries, each in its order",
                    "strided",
                    each_in_its_order(B.backward(nq, nq + 1, d, low, lead=(2, 3)), ("q", "k", "v", "do")),
                ),
                Case(f"{nq} queries, {nk} keys, causal", "causal", B.backward(nq, nk, d, low, causal=True)),
                # one key short of a whole tile that the first query sees
                Case(f"{nq} queries, {nq + 126} keys, causal", "causal", B.backward(nq, nq + 126, d, low, causal=True)),
                Case(f"{nk} queries, {nq} keys, causal", "nothing", B.backward(nk, nq, d, low, causal=True)),
                Case("hidden scores", "hard", B.backward(nq, nk, d, FP32, lead=(), scores=scores, v_mean=5.0)),
                Case("sums over queries", "half", B.backward(4 * nk, nk, d, low, lead=(), do="turning", q=2.0)),
                Case(
                    "sums over keys", "half", B.backward(nk, 4 * nq, d, low, lead=(), do="around 3", k=2.0, v="turning")
                ),
                Case("a hidden scale", "scale", B.backward(nq, nk, d, low, scale=rng.randrange(1, 50) / 100)),
            ]
        case "flash_attention":
            return [
                Case(f"{lead} heads, {nq} queries, {nk} keys", "ragged", B.both(nq, nk, d, low, lead=lead)),
                Case(f"{nq} queries, heads between", "strided", B.both(nq, nk, d, low, lead=(2, 2), layout="heads")),
                Case(f"{nk} queries, {nq} keys, causal", "causal", B.both(nk, nq, d, low, causal=True)),
                Case("hidden scores", "hard", B.both(nq, nk, d, FP32, lead=(), scores=scores, v_mean=5.0)),
            ]
        case "longest_context":
            return [
                fixed("a hidden model", "flash", **B.model(budget, **sizes, itemsize=2, scores=False)),
                fixed("a hidden model, scores kept", "scores", **B.model(budget, **sizes, itemsize=2, scores=True)),
                fixed("another", "edges", **B.model(budget, **sizes, itemsize=4, scores=True)),
            ]
    return []  # costs
