"""Hidden cases of unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16
from course_lib.exercises.hopper.asynchrony import matrix


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    name = exercise_id.partition(".")[2]
    match name:
        case "tma_copy":
            M, N, spare = rng.randrange(65, 190), 8 * rng.randrange(9, 24), 8 * rng.randrange(1, 9)
            return [
                Case(f"{M} x {N}", "ragged", matrix(M, N)),
                Case(f"{M} x {N}, rows apart, bfloat16", "strided", matrix(M, N, BF16, spare=spare)),
                Case(f"{128 + M} x {N + 128}", "performance", matrix(128 + M, N + 128)),
            ]
    return []
