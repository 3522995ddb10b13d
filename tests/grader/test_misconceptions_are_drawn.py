"""Each slip's remark is drawn by a variant, which says so; the kill matrix holds the real kernel against it."""

from __future__ import annotations

import pytest

from course_lib.exercises import UNITS
from course_lib.exercises.misconceptions import Misconception
from grader import exercises
from grader.audit import variants


def slips() -> dict[str, set[str]]:
    """Remark -> the exercises that may say it."""
    found: dict[str, set[str]] = {}
    for unit in UNITS:
        for exercise in exercises(unit).values():
            for mistake in exercise.mistakes:
                if isinstance(mistake, Misconception):
                    found.setdefault(mistake.says, set()).add(exercise.id)
    return found


SLIPS = slips()


@pytest.fixture(scope="module")
def said() -> set[tuple[str, str]]:
    """(exercise, words that a variant's remark must hold), of all units."""
    return {(v.exercise, v.says) for module in UNITS.values() for v in variants.of_unit(module) if v.says}


@pytest.mark.parametrize("remark", SLIPS, ids=lambda remark: remark[:60])
def test_a_variant_draws_it(remark, said):
    """Ask that a variant of one exercise draws each slip: the same one stands in several."""
    drawn = any(exercise in SLIPS[remark] and words in remark for exercise, words in said)
    assert drawn
