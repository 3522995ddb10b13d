"""Hidden cases of unit 11's second half: positions, interfaces, caches, decoding."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16, FP32
from course_lib.exercises.model import cases as M


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise; none if it is of the other half."""
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
                Case(f"{heads * group} heads for {heads}", "grouped", M.layer(B, heads, group, nq, nk, 16, causal=False)),
                Case(f"{nq} tokens after {nk - nq}", "causal", M.layer(B, heads, group, nq, nk, 32, cached=True)),
                Case(f"{nq} tokens in {nk} places", "top left", M.layer(B, heads, group, nq, nk, 16, top_left=True)),
                Case("a hidden window", "window", M.layer(B, heads, group, nk, nk, 16, window=rng.randrange(3, 30))),
                Case("a hidden mask", "mask", M.layer(B + 1, heads, group, nq, nk, 16, mask="holes")),
                Case("padded, hidden", "mask", M.layer(B + 1, heads, group, nk, nk, 16, mask="padded")),
                Case("a hidden scale", "scale", M.layer(B, heads, group, nk, nk, 16, scaling=rng.randrange(5, 50) / 100)),
                Case("hidden, bfloat16", "half", M.layer(B, heads, group, nk, nk, 32, BF16)),
            ]
        case "grouped_backward":
            group, nq, nk = rng.choice((2, 3, 4)), rng.randrange(5, 40), rng.randrange(41, 110)
            return [
                Case(f"{heads * group} heads for {heads}", "grouped", M.shared_heads(B, heads, group, nq, nq, 16)),
                Case(f"{nq} queries, {nk} keys", "ragged", M.shared_heads(B, heads, group, nq, nk, 32)),
                Case("hidden, bfloat16", "half", M.shared_heads(1, heads, group, nk, nk, 16, BF16)),
            ]
    return []
