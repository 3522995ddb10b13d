"""Hidden cases of unit 12: positions, interfaces, caches, decoding."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16, FP32
from course_lib.exercises.serving import cases as M
from course_lib.exercises.serving.batching import question
from course_lib.exercises.serving.broken import attention_of
from course_lib.exercises.serving.positions import anywhere, placed, scored, somewhere


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    B, heads, D = rng.randrange(1, 4), rng.randrange(1, 5), rng.choice((8, 16, 32))
    dtype = rng.choice((BF16, FP32))
    match exercise_id.split(".")[1]:
        case "kv_cache":
            slots, pieces = rng.randrange(5, 12), [rng.randrange(1, 5) for _ in range(rng.randrange(6, 12))]
            return [
                Case(f"{len(pieces)} pieces", "ragged", M.tokens(B, heads, pieces, D, sum(pieces), dtype)),
                Case(f"{len(pieces)} pieces, a ring of {slots}", "ring", M.tokens(B, heads, pieces, D, slots, dtype)),
                Case(f"a long prompt, a ring of {slots}", "long", M.tokens(B, heads, (3 * slots + 1, 2), D, slots)),
            ]
        case "decode_step":
            group, start = rng.choice((1, 2, 4)), rng.randrange(8, 40)
            return [
                Case(f"from token {start}", "positions", M.text(B, heads, group, start + 3, 16, start, 64)),
                Case(f"{heads * group} heads for {heads}", "ragged", M.text(B, heads, group, start + 2, 32, start, 50)),
                Case("a hidden ring", "ring", M.text(B, heads, group, start + 6, 16, start, rng.randrange(5, 9))),
                Case("hidden, bfloat16", "half", M.text(B, heads, group, start + 2, 32, start, 64, BF16)),
            ]
        case "paged_decode":
            group, lengths = rng.choice((1, 2, 4)), [rng.randrange(1, 90) for _ in range(B + 1)]
            return [
                Case(f"texts of {lengths}", "ragged", M.pages(B + 1, heads, group, lengths, 16, 16)),
                Case("pages of 32", "ragged", M.pages(B + 1, heads, group, lengths, 32, 32)),
                Case("hidden, bfloat16", "half", M.pages(B + 1, heads, group, lengths, 16, 16, BF16)),
            ]
        case "attention_for":
            group, nq, nk = rng.choice((1, 2, 4)), rng.randrange(5, 40), rng.randrange(41, 110)
            return [
                Case(
                    f"{heads * group} heads for {heads}", "grouped", M.layer(B, heads, group, nq, nk, 16, causal=False)
                ),
                Case(f"{nq} tokens after {nk - nq}", "causal", M.layer(B, heads, group, nq, nk, 32, cached=True)),
                Case(f"{nq} tokens in {nk} places", "top left", M.layer(B, heads, group, nq, nk, 16, top_left=True)),
                Case("a hidden window", "window", M.layer(B, heads, group, nk, nk, 16, window=rng.randrange(3, 30))),
                Case("a hidden mask", "mask", M.layer(B + 1, heads, group, nq, nk, 16, mask="holes")),
                Case("padded, hidden", "mask", M.layer(B + 1, heads, group, nk, nk, 16, mask="padded")),
                Case(
                    "a hidden scale", "scale", M.layer(B, heads, group, nk, nk, 16, scaling=rng.randrange(5, 50) / 100)
                ),
                Case("hidden, bfloat16", "half", M.layer(B, heads, group, nk, nk, 32, BF16)),
            ]
        case "sinusoidal":
            return [Case("hidden sizes", "sizes", somewhere(rng.randrange(2, 90), 2 * rng.randrange(2, 60)))]
        case "alibi":
            return [
                Case(
                    "a hidden cache", "decode", scored(rng.randrange(1, 20), rng.randrange(1, 5), rng.randrange(9, 60))
                ),
                Case("hidden heads", "heads", scored(rng.randrange(2, 40), 7, 7)),
            ]
        case "rotary":
            n, first = rng.randrange(2, 50), rng.randrange(1, 300)
            return [
                Case(f"{n} tokens from {first} on", "positions", placed(B, heads, n, D, first=first)),
                Case("hidden positions", "positions", anywhere(B, heads, n, D)),
                Case(
                    "a hidden base",
                    "ragged",
                    placed(B, heads, n, 2 * rng.randrange(5, 40), base=rng.choice((500.0, 1e6))),
                ),
                Case("hidden, bfloat16", "half", placed(B, heads, n, D, BF16, first=first)),
            ]
        case "capacity":
            size = {
                "layers": rng.randrange(2, 60),
                "head_dim": rng.choice((64, 96, 128)),
                "parameters": rng.randrange(10**8, 10**10),
            }
            memory, tokens = rng.randrange(3 * 10**10, 14 * 10**10), rng.randrange(2000, 50000)
            return [
                question("hidden heads", "heads", memory, tokens, kv_heads=rng.randrange(1, 20), **size),
                question("a hidden window", "window", memory, tokens, window=rng.randrange(500, 9000), **size),
                question("a small memory", "edges", 10**8, tokens, **size),
            ]
        case "mended":
            group, nq, nk = rng.randrange(2, 5), rng.randrange(3, 8), rng.randrange(9, 30)
            return [
                Case(f"{nq} tokens after {nk - nq}", "causal", attention_of(B, heads, 1, nq, nk, 8)),
                Case("hidden padding", "mask", attention_of(B + 2, heads, 1, nk, nk, 8, mask="padded")),
                Case(
                    "a hidden scale", "scale", attention_of(B, heads, 1, nq, nq, 8, scale=rng.randrange(50, 200) / 100)
                ),
                Case("hidden, turned", "again", attention_of(B, heads, 1, nq, nq, 8, turns=True)),
                Case("hidden heads", "shared", attention_of(B, heads, group, nq, 7 * nk, 8, turns=True, mask="padded")),
            ]
    return []
