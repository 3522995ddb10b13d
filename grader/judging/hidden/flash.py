"""Hidden cases of unit 09: sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.attention.cases import qkv
from course_lib.exercises.breaking import mutant
from course_lib.exercises.cases import BF16, FP16, FP32
from course_lib.exercises.flash import cases as F
from course_lib.exercises.flash.packed import packed
from course_lib.exercises.rounds import versions


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    nq, nk = rng.randrange(5, 90), rng.randrange(91, 180)
    lead, d = rng.choice(((2,), (3,), (2, 1, 2))), 32  # each size of head is compiled anew
    drawn = rng.choice(("large", "rising", "last", "low"))
    group = rng.choice((2, 3, 5))
    match exercise_id.split(".")[1]:
        case "attention_log":
            queries, keys = 128 * rng.choice((2, 3)), 128 * rng.choice((2, 4))
            return versions(f"{queries} queries, {keys} keys", qkv(queries, keys, 64, FP16))
        case "break_attention":
            return [
                mutant("l is not corrected", ("l = l * alpha", "l = l")),
                mutant(
                    "the diagonal is not seen",
                    ("<= offs_m[:, None] + S - N", "< offs_m[:, None] + S - N + (offs_m[:, None] + S - N == 0)"),
                ),
                mutant("the scale of 32 channels", ("D**-0.5", "32**-0.5")),
                mutant("p in half", ("tl.dot(p, v,", "tl.dot(p.to(tl.float16), v.to(tl.float16),")),
                mutant("a little in the denominator", ("acc / l[:, None]", "acc / (l[:, None] + 1e-3)")),
                mutant(
                    "no more than 80", ("qk = tl.where(seen", "qk = tl.minimum(qk, 80.0)\n        qk = tl.where(seen")
                ),
                mutant(
                    "queries behind the last tile of keys",
                    ("triton.cdiv(N, 32)", "min(triton.cdiv(N, 32), triton.cdiv(k.shape[0], 32))"),
                ),
            ]
        case "online_update":
            return [
                Case(f"{nq} rows of {nk}", "ragged", F.scored(nq, nk, d)),
                Case(
                    "hidden scores", "hard", F.scored(nq, nk, d, scores=rng.choice(("large", "rising", "low", "apart")))
                ),
                Case("hidden scores, late", "late", F.scored(nq, nk, d, scores=rng.choice(("late", "late and low")))),
                Case(f"{nq} rows of {nk}, float32", "float32", F.scored(nq, nk, d, v_mean=9.0)),
            ]
        case "one_head":
            return [
                Case(f"{nq} queries, {nk} keys, float16", "ragged", qkv(nq, nk, d, FP16)),
                Case("hidden scores", "hard", qkv(nq, nk, d, FP32, scores=drawn, v_mean=9.0)),
            ]
        case "causal_one_head":
            return [
                Case(f"{nk} queries and keys, float16", "ragged", qkv(nk, nk, d, FP16)),
                Case(f"{nq} queries, {nk} keys, bfloat16", "longer", qkv(nq, nk, d, BF16)),
                Case("hidden scores", "hard", qkv(nq, nk, d, FP32, scores=drawn, v_mean=9.0)),
            ]
        case "flash_attention_forward":
            return [
                Case(f"{lead} heads, {nq} queries, {nk} keys", "ragged", F.heads(nq, nk, d, lead=lead)),
                Case(
                    f"{nq} queries, {nk} keys, views", "strided", F.each_in_its_order(F.heads(nq, nk, d, lead=(2, 3)))
                ),
                Case(f"heads of 48, {nq} queries", "dims", F.heads(nq, nk, 48, lead=())),
                Case(f"{nq} queries, {nk} keys, causal", "causal", F.heads(nq, nk, d, causal=True)),
                Case(f"{nk} queries, {nq} keys, causal", "nothing", F.heads(nk, nq, d, causal=True)),
                Case("hidden scores", "hard", F.heads(nq, nk, d, BF16, scores=drawn, v_mean=9.0)),
                Case("hidden scores, causal", "hard", F.heads(nk, nk, d, scores=drawn, causal=True)),
            ]
        case "sliding_window":
            window, narrow = (
                rng.randrange(2, nk),
                rng.choice((2, 34, 66)),
            )  # a walk may begin a key too late just for such
            return [
                Case(f"150 tokens, window {narrow}", "ragged", qkv(150, 150, d, FP16, lead=(2,), window=narrow)),
                Case(f"{nk} tokens, window {window}", "ragged", qkv(nk, nk, d, FP16, lead=(2,), window=window)),
                Case("hidden scores", "hard", qkv(nk, nk, d, FP32, lead=(2,), scores=drawn, window=window)),
            ]
        case "varlen":
            return [
                Case(f"{nq}, {nk} and 2 tokens", "ragged", packed((nq, nk, 2), 2, d, FP16)),
                Case(f"{nq} tokens in one of three", "empty", packed((0, nq, 0), 3, d, BF16)),
                Case("hidden scores", "hard", packed((nq, nk), 1, d, FP32, scores=drawn, v_mean=9.0)),
                Case("hidden lengths", "performance", packed((nq, nk, 33, 64, 2 * nk), 16, d, FP16)),
            ]
        case "grouped_attention":
            return [
                Case(f"{2 * group} heads for 2", "ragged", F.grouped(2, group, nq, nk, d, causal=False)),
                Case(f"{2 * group} heads for 2, causal", "causal", F.grouped(2, group, nq, nk, d, BF16, causal=True)),
                Case(f"{nk} queries, {nq} keys", "nothing", F.grouped(2, group, nk, nq, d, causal=True)),
            ]
        case "flash_decode":
            splits = rng.randrange(2, 12)
            return [
                Case(
                    f"{2 * group} heads for 2, {nk} keys, {splits} shares",
                    "ragged",
                    F.one_token(2, group, nk, d, splits),
                ),
                Case(f"{nq} keys, {nq + 3} shares", "empty", F.one_token(1, group, nq, d, nq + 3)),
                Case("hidden scores", "hard", F.one_token(2, group, nk, d, splits, BF16, scores=drawn)),
            ]
    return []  # predictions
