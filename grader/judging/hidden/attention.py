"""Hidden cases of unit 08: sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.attention import cases as A
from course_lib.exercises.cases import BF16, fixed


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    nq, nk = rng.randrange(5, 40), rng.randrange(41, 80)
    lead, d = rng.choice(((2,), (3,), (2, 1, 2))), rng.choice((8, 16, 24))
    bm, bn = rng.choice((12, 16, 20)), rng.choice((10, 24, 32))
    drawn = rng.choice(("large", "rising", "last", "low"))
    match exercise_id.split(".")[1]:
        case "rotary":
            return [
                Case(f"{lead} x {nq} x {d}", "shapes", A.positions(*lead, nq, d=d, places=A.from_zero)),
                Case(f"{nk} x {d}, in any order", "anywhere", A.positions(nk, d=d, places=A.anywhere)),
                Case(f"{nq} x {2 * d}, bfloat16", "half", A.positions(nq, d=2 * d, places=A.anywhere, dtype=BF16)),
            ]
        case "attention":
            return [
                Case(f"{lead} heads, {nq} queries, {nk} keys", "ragged", A.qkv(nq, nk, d, lead=lead, scale=0.2)),
                Case(f"{nq} queries, {nk} keys, causal", "causal", A.qkv(nq, nk, d, lead=lead, causal=True)),
                Case(f"{nk} queries, {nq} keys, causal", "nothing", A.qkv(nk, nq, d, causal=True)),
                Case(f"{nq} queries, {nk} keys, bfloat16", "half", A.qkv(nq, nk, d, BF16, scores=drawn)),
            ]
        case "merge":
            empty = rng.choice("ab")
            return [
                Case(f"{lead} x {nq} queries", "plain", A.states(*lead, nq, d=d)),
                Case(f"{nq} queries, half of {empty} empty", "identity", A.states(nq, nothing=empty)),
                Case(
                    f"{nk} queries, far apart", "large", A.states(nk, mean=(rng.randrange(-900, 900), 100), spread=20)
                ),
            ]
        case "causal_tiles":
            sizes = [("ragged", nk, nk), ("more keys", nq, nk + nq), ("more queries", nk, nq)]
            return [
                fixed("hidden sizes", group, programs=-(-q // bm), bm=bm, bn=bn, nq=q, nk=k) for group, q, k in sizes
            ]
        case "tiled_attention":
            return [
                Case(f"{lead} heads, {nq} queries, {nk} keys", "ragged", A.tiled(nq, nk, d, bm, bn, lead=lead)),
                Case(f"{nq} queries, {nk} keys, causal", "causal", A.tiled(nq, nk, d, bm, bn, causal=True)),
                Case(f"{nk} queries, {nq} keys, causal", "nothing", A.tiled(nk, nq, d, bm, bn, causal=True)),
                Case("hidden scores", "hard", A.tiled(nq, nk, d, bm, bn, scores=drawn, v_mean=10.0)),
                Case("bfloat16", "half", A.tiled(nq, nk, d, bm, bn, BF16, scores="large")),
            ]
        case "flash_bytes":
            n, width = rng.randrange(70, 300), rng.choice((16, 48, 96))
            tiles = {"d": 8 * d, "bm": 16 * rng.randrange(1, 5), "bn": width, "itemsize": rng.choice((2, 4))}
            return [
                fixed("hidden sizes", "ragged", n=n, **tiles, causal=False),
                fixed("hidden sizes, causal", "causal ragged", n=n + 1, **tiles, causal=True),
            ]
        case "attention_backward":
            return [
                Case(
                    f"{lead} heads, {nq} queries, {nk} keys",
                    "ragged",
                    A.with_backward(A.qkv(nq, nk, d, lead=lead), False),
                ),
                Case(f"{nq} queries, {nk} keys, causal", "causal", A.with_backward(A.qkv(nq, nk, d), True)),
                Case(f"{nk} queries, {nq} keys, causal", "nothing", A.with_backward(A.qkv(nk, nq, d), True)),
                Case("hidden scores", "hard", A.with_backward(A.qkv(nq, nk, d, scores=drawn, v_mean=5.0), False)),
                Case("bfloat16", "half", A.with_backward(A.qkv(nk, nk + nq, d, BF16), False)),
            ]
    return []  # claims
