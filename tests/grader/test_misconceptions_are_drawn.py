"""Each remark that an exercise may make is drawn by a variant of it; the kill matrix holds real answers against it."""

from __future__ import annotations

import pytest

from course_lib.exercises import UNITS
from course_lib.exercises.misconceptions import Misconception
from grader import exercises
from grader.audit import remarks, variants


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
def drawn() -> set[tuple[str, str]]:
    """(exercise, remark that a variant draws), of all units."""
    return {
        (exercise, remark) for module in UNITS.values() for (exercise, _), remark in remarks.of_module(module).items()
    }


@pytest.mark.parametrize("remark", SLIPS, ids=lambda remark: remark[:60])
def test_a_variant_draws_it(remark, drawn):
    """Ask that a variant of one exercise draws each slip: the same one stands in several."""
    assert any((exercise, remark) in drawn for exercise in SLIPS[remark])


def test_remarks_are_written_down_of_variants_alone():
    names = {(v.exercise, v.name) for module in UNITS.values() for v in variants.of_unit(module)}
    assert {key for module in UNITS.values() for key in remarks.of_module(module)} <= names
