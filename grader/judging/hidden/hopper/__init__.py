"""Hidden cases of unit 14, by its two parts.

asynchrony.py    mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
"""

from __future__ import annotations

import random

from course_lib.exercise import Case
from grader.judging.hidden.hopper import asynchrony, pipelines

PARTS = (asynchrony, pipelines)


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    return [case for part in PARTS for case in part.cases(exercise_id, rng)]
