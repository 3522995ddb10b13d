"""The cases that an answer is judged on: the public ones, and those that are drawn for one student and that nobody sees."""

from __future__ import annotations

import dataclasses
import importlib
import random

from course_lib import content
from course_lib.exercise import Case, Exercise


def all_cases(exercise: Exercise, seed: int) -> list[Case]:
    """List the public cases, then the hidden ones of grader/judging/hidden, which depend on the seed; a wheel has none.

    Whatever is drawn from the secret is hidden, in public cases too; the fixed numbers of a formula's public cases are not.
    """
    public = [dataclasses.replace(case, hidden=_drawn(exercise, case)) for case in exercise.cases]
    if content.INSTALLED:
        return public
    return public + [dataclasses.replace(case, hidden=True) for case in hidden_cases(exercise.id, seed)]


def hidden_cases(exercise_id: str, seed: int) -> list[Case]:
    """Draw the hidden cases of an exercise from its unit's module in grader/judging/hidden."""
    unit = exercise_id.partition(".")[0]
    return importlib.import_module(f"grader.judging.hidden.{unit}").cases(exercise_id, random.Random(seed))


def _drawn(exercise: Exercise, case: Case) -> bool:
    """Do the case's values depend on the seed?"""
    return exercise.kind == "kernel" or repr(case.arguments(0)) != repr(case.arguments(1))
