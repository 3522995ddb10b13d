"""Hidden cases of unit 04: odd sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises import coalescing


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    M, N = rng.randrange(65, 200, 2), rng.randrange(33, 150, 2)
    if exercise_id == "coalescing.transpose":
        return [
            Case(f"{M} x {N}", "ragged", coalescing.matrix(M, N), {"M": M, "N": N}),
            Case(f"{N} x {M}, column-major", "strided", coalescing.matrix(N, M, layout="columns"), {"M": N, "N": M}),
        ]
    return []
