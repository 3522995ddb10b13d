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
    return []
