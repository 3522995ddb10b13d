"""Hidden cases of unit 11, by its two halves.

training.py    optimizers, data, accounting, checkpoints, kernels in a model
serving.py     positions, attention interfaces, operators, caches, decoding
"""

from __future__ import annotations

import random

from course_lib.exercise import Case
from grader.judging.hidden.model import serving, training

PARTS = (training, serving)


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    return [case for part in PARTS for case in part.cases(exercise_id, rng)]
