"""Hidden cases of unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

import random

from course_lib.exercise import Case


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    return []
