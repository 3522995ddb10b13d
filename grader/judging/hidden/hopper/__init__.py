"""Hidden cases of unit 12, by its three parts.

anywhere.py      what needs no Hopper: limits, tiles, machine code, orders of tiles
asynchrony.py    layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
"""

from __future__ import annotations

import random

from course_lib.exercise import Case
from grader.judging.hidden.hopper import anywhere, asynchrony, pipelines

PARTS = (anywhere, asynchrony, pipelines)


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    return [case for part in PARTS for case in part.cases(exercise_id, rng)]
