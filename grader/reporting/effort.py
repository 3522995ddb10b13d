"""Checks and hints of students who handed in the output of `effort()` with a notebook: how long exercises take, never a mark.

A student says these numbers. They are read as any part of a submission is: in a child with limits, as plain data of a known form.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grader
from course_lib import metadata
from course_lib.metadata import SharedEffort
from grader.gradebook.exchange import plain
from grader.judging.bounded import TooMuch, bounded
from grader.judging.submission import MAX_FILE

MOST = 10_000  # checks of an exercise; more is a joke


@dataclass(frozen=True)
class CountedEffort:
    """How many checks and hints a student requested, or the median of several students."""

    checks: float
    hints: float


Shared = Mapping[str, CountedEffort]  # by exercise


def of_unit(home: Path, unit: str) -> dict[str, Shared]:
    """Map each student who shares it to the effort in each exercise of a unit."""
    by_student = {
        path.parents[1].name: _shared(path, unit) for path in sorted(home.glob(f"submitted/*/{unit}/{unit}.ipynb"))
    }
    return {student: shared for student, shared in by_student.items() if shared}


def median(efforts: Mapping[str, Shared], exercise: str) -> CountedEffort | None:
    """Return the median effort of those who share theirs and began the exercise; None if there is nobody."""
    each = [shared[exercise] for shared in efforts.values() if exercise in shared]
    if not each:
        return None
    return CountedEffort(statistics.median(e.checks for e in each), statistics.median(e.hints for e in each))


def total(shared: Shared) -> CountedEffort:
    """Sum the effort of a unit's exercises."""
    return CountedEffort(sum(e.checks for e in shared.values()), sum(e.hints for e in shared.values()))


def _shared(path: Path, unit: str) -> Shared:
    try:
        content = plain(path, MAX_FILE)
    except OSError:
        return {}
    if not all(b'"%s"' % name in content for name in (b"checks", b"hints")):
        return {}
    try:
        numbers = bounded(lambda: _told(content, unit))
    except TooMuch:
        return {}
    return {
        id: CountedEffort(*(_count(numbers[what].get(id)) for what in ("checks", "hints")))
        for id in grader.exercises(unit)
        if numbers and any(id in numbers[what] for what in ("checks", "hints"))
    }


def _told(content: bytes, unit: str) -> dict[str, Any]:
    """The numbers of the last such output of the unit, as the file has them; {} if there is none."""
    try:
        outputs = [output for cell in json.loads(content)["cells"] for output in cell.get("outputs", ())]
        read = [metadata.read(output.get("metadata", {}), SharedEffort) for output in outputs]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    last = [each for each in read if each and each.unit == unit][-1:]
    return {"checks": dict(last[0].checks), "hints": dict(last[0].hints)} if last else {}


def _count(number: Any) -> int:
    return min(max(number, 0), MOST) if type(number) is int else 0
