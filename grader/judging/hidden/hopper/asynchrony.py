"""Hidden cases of unit 14: mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16, fixed
from course_lib.exercises.sm.cases import factors, matrix


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N, spare = rng.randrange(65, 190), 8 * rng.randrange(9, 24), 8 * rng.randrange(1, 9)
    match exercise_id.partition(".")[2]:
        case "phase_of":
            drawn = [(rng.randrange(60), rng.randrange(1, 9)) for _ in range(8)]
            return [fixed(f"hidden tile {n}", "other", i=i, SIZE=size) for n, (i, size) in enumerate(drawn)]
        case "tma_copy":
            return [
                Case(f"{M} x {N}", "ragged", matrix(M, N)),
                Case(f"{M} x {N}, rows apart, bfloat16", "strided", matrix(M, N, BF16, spare=spare)),
                Case(f"{256 + M} x {N + 256}", "performance", matrix(256 + M, N + 256)),
            ]
        case "ring_column_sum":
            return [
                Case(f"{5 * M} x {N}, rows apart", "ragged", matrix(5 * M, N, spare=spare)),
                Case(f"{M} x {N}, bfloat16, beyond float16", "ragged", matrix(M, N, BF16, scale=1e6)),
                Case(f"{9 * M} x {N}", "performance", matrix(9 * M, N)),
            ]
        case "wgmma_matmul":
            K = 8 * rng.randrange(30, 50)
            long = 64 * rng.randrange(8, 11) + 8  # so long that steps of 65 would end before the last 8
            return [
                Case(f"1 x 8 x {long}", "ragged", factors(1, 8, long)),
                Case(f"{M} x {N} x {K}", "ragged", factors(M, N, K)),
                Case(f"64 x {N} x {K}", "performance", factors(64, N, K)),
            ]
    return []
