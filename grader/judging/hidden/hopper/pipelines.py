"""Hidden cases of unit 14: pipelined and specialised products and attention, races to be named."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16
from course_lib.exercises.hopper.pipelines import heads
from course_lib.exercises.sm.cases import factors


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N, K = 64 * rng.randrange(1, 4), 64 * rng.randrange(1, 3), 64 * rng.randrange(6, 10)
    match exercise_id.partition(".")[2]:
        case "pipelined_matmul":
            return [
                Case(f"{M} x {K} by {N}", "performance", factors(M, N, K)),
                Case(f"{M} x 128 by {N}, bfloat16", "short", factors(M, N, 128, BF16)),
            ]
        case "warp_specialised_matmul":
            return [
                Case(f"{2 * M} x {K} by {N}", "performance", factors(2 * M, N, K)),
                Case(f"128 x {3 * K} by 64, bfloat16", "long", factors(128, 64, 3 * K, BF16)),
            ]
        case "persistent_matmul":
            tiles = (M + 64) // 64 * (N // 64)
            programs = rng.randrange(1, tiles)
            uneven = next(p for p in (2, 3, 4, 5) if (3 * M // 64) * (N // 64) % p)
            return [
                Case(f"{M + 64} x 192 by {N}, {programs}", "performance", factors(M + 64, N, 192, programs=programs)),
                Case(f"{3 * M} x 128 by {N}, {uneven}", "uneven", factors(3 * M, N, 128, programs=uneven)),
            ]
        case "overlapped_attention":
            tokens = 128 * rng.randrange(1, 3)
            return [
                Case(f"1 head, {tokens} tokens", "large", heads(1, tokens, 64, scale=8.0)),
                Case(f"1 head, {tokens + 128} tokens, bfloat16", "performance", heads(1, tokens + 128, 64, BF16)),
            ]
    return []
