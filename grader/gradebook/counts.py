"""The exercises of a unit that count in a class, and how: on the main path, as More, or not at all.

    python -m grader counts UNIT                            what counts, and the unit's maximum
    python -m grader counts UNIT --drop tiling.tune         counts.json next to the gradebook; also --path, --more

A unit's maximum is the points of its path. What is earned in More is extra credit, which makes up for points lost on the path and
goes no further; with `--above` it goes above the maximum, too. Extra credit for speed is counted beside both, as ever.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import grader
from course_lib.exercise import Exercise
from grader import disk

Counting = Literal["path", "more", "dropped"]
WAYS: tuple[Counting, ...] = ("path", "more", "dropped")


@dataclass(frozen=True)
class ExerciseCounts:
    """How each exercise of a unit counts.

    ways    exercise -> "path", "more" or "dropped";  above = whether More may lift a score above the maximum
    said    whether the class has said something of its own
    """

    exercises: Mapping[str, Exercise]
    ways: Mapping[str, Counting]
    above: bool = False
    said: bool = False

    def ids(self, way: Counting) -> list[str]:
        return [id for id in self.exercises if self.ways[id] == way]

    def worth(self, id: str) -> float:
        """Return the points of an exercise that are part of the maximum."""
        return self.exercises[id].points if self.ways[id] == "path" else 0.0

    @property
    def in_the_maximum(self) -> dict[str, float]:
        """Map each exercise to its points that are part of the maximum."""
        return {id: self.worth(id) for id in self.exercises}

    @property
    def out_of(self) -> float:
        """Return the unit's maximum: the points of its path."""
        return sum(self.in_the_maximum.values())

    @property
    def more(self) -> float:
        """Return the points that can be earned in More."""
        return sum(self.exercises[id].points for id in self.ids("more"))

    def extra(self, points: Mapping[str, float | None]) -> dict[str, float]:
        """Map each exercise of More to how many of its points count, by what was earned in all exercises; earlier ones go first."""
        room = self.out_of - sum(points.get(id) or 0.0 for id in self.ids("path"))
        counted = {}
        for id in self.ids("more"):
            earned = points.get(id) or 0.0
            counted[id] = earned if self.above else round(min(earned, max(room, 0.0)), 2)
            room -= counted[id]
        return counted

    def score(self, points: Mapping[str, float | None]) -> float:
        """Sum the points of a unit: those of the path, and what counts of More; without extra credit for speed."""
        return sum(points.get(id) or 0.0 for id in self.ids("path")) + sum(self.extra(points).values())


def of(home: Path | None, unit: str) -> ExerciseCounts:
    """Return how the exercises of a unit count in the class whose state lies in `home`, or as the course says where there is none."""
    return made(unit, rules_of(home, unit) if home else {})


def made(unit: str, rules: Mapping[str, Any]) -> ExerciseCounts:
    """Return how the exercises of a unit count under these rules, in the form of counts.json."""
    exercises = grader.exercises(unit)
    said = rules.get("exercises", {})
    ways = {id: said.get(id, e.track) for id, e in exercises.items()}
    return ExerciseCounts(exercises, ways, rules.get("above", False), bool(rules))


def rules_of(home: Path, unit: str) -> dict[str, Any]:
    """Return the class's rules that differ from the course: {"exercises": {id: way}, "above": bool}; {} if there are none."""
    return disk.read(home / "counts.json").get(unit, {})


def set_rules(
    home: Path, unit: str, ways: Mapping[Counting, Collection[str]] = {}, above: bool | None = None
) -> ExerciseCounts:
    """Save how exercises of a unit count; all others stay as they are. Raises ValueError for an exercise that the unit does not have, or
    for one that is named twice."""
    exercises, chosen = grader.exercises(unit), {}
    for way, ids in ways.items():
        for id in ids:
            if id not in exercises:
                raise ValueError(f"{unit} has no exercise {id!r}. It has: {', '.join(exercises)}.")
            if chosen.get(id, way) != way:
                raise ValueError(f"{id} cannot count in two ways: say one of --path, --more and --drop.")
            chosen[id] = way
    kept = disk.read(home / "counts.json")
    rules = kept.get(unit, {})
    merged = rules.get("exercises", {}) | chosen
    rules = {"exercises": {id: way for id, way in merged.items() if id in exercises and way != exercises[id].track}} | {
        "above": rules.get("above", False) if above is None else above
    }
    if not (counts := made(unit, rules)).ids("path"):
        raise ValueError(f"Nothing would be left on the path of {unit}, and its maximum would be 0.")
    disk.write({home / "counts.json": json.dumps(kept | {unit: rules}, indent=1).encode()})
    return counts
