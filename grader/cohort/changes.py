"""Marks that an autograde changes. What they were is kept until the list of changes has been shown, however often it is stopped before.

reports/UNIT.before.json    student -> points, from the first change on; gone once the list has been shown
reports/UNIT_changes.csv    a row for each change, as soon as it is entered
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from grader import disk
from grader.gradebook.results import Entry

TOTAL = "total"  # beside the exercises, whose ids have a dot
Points = Mapping[str, float | None]


class ChangedMarks:
    """The marks of a unit before an autograde, or before the first of several of which none could show its list."""

    def __init__(self, home: Path, unit: str, entries: Mapping[str, Entry]) -> None:
        self.path = home / "reports" / f"{unit}.before.json"
        self.log = home / "reports" / f"{unit}_changes.csv"
        now = {student: _points(entry) for student, entry in entries.items()}
        self.resumed = self.path.exists()  # a run was stopped before it could show its list
        self.before: dict[str, Points] = now | disk.read(self.path)
        self.logged = {student: dict(points) for student, points in self.before.items()}
        if self.before:
            disk.write({self.path: json.dumps(self.before).encode()})
        if self.log.exists():  # a run that was stopped has logged what it entered
            with self.log.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    if row["student"] in self.logged:
                        after = None if row["after"] == "?" else float(row["after"])
                        self.logged[row["student"]][row["exercise"]] = after

    def entered(self, entry: Entry) -> None:
        """Add the changes of a student's marks to the log, if there were marks before."""
        now = _points(entry)
        changed = _changed(self.logged[entry.student], now)
        self.logged[entry.student] = dict(now)
        if not changed:
            return
        when, new = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC", not self.log.exists()
        with self.log.open("a", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerows([["when", "student", "exercise", "before", "after"]] * new)
            rows.writerows([when, entry.student, id, *map(_shown, change)] for id, change in changed.items())

    def told(self, entries: Mapping[str, Entry]) -> dict[str, str]:
        """Return the changes of each student who had been graded and has other points now: {"ada": "matmul 20 -> 18, total 66 -> 64"}."""
        for student in self.before.keys() & entries.keys():
            self.entered(
                entries[student]
            )  # of those whom nobody entered: an exercise that is dropped takes its points along
        changes = {}
        for student, before in self.before.items():
            if student in entries and (changed := _changed(before, _points(entries[student]))):
                parts = (f"{id.rpartition('.')[2]} {_shown(a)} -> {_shown(b)}" for id, (a, b) in changed.items())
                changes[student] = ", ".join(parts)
        return changes

    def shown(self) -> None:
        """Delete the saved marks, once the list of changes has been shown."""
        self.path.unlink(missing_ok=True)


def _points(entry: Entry) -> Points:
    return {**entry.scores, TOTAL: entry.score}


def _changed(before: Points, now: Points) -> dict[str, tuple[float | None, float | None]]:
    return {id: (before.get(id), points) for id, points in now.items() if before.get(id) != points}


def _shown(points: float | None) -> str:
    return "?" if points is None else f"{points:g}"
