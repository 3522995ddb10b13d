"""Late submissions, through nbgrader's own means: due dates and extensions stand in the gradebook, and nbgrader calls the
plugin below for whoever is later than both.

    python -m grader due UNIT 2026-11-30T23:59+01:00    # the gradebook's due date
    python -m grader extend UNIT STUDENT --days 2       # nbgrader's grant_extension
    python -m grader due UNIT ... --percent 10          # what a day costs in this unit: late.json next to the gradebook
    c.ByTheDay.percent = 10                             # and in all others: grader/nbgrader_config.py

Submission times are those of `timestamp.txt` next to a notebook, which nbgrader's exchange writes.
"""

from __future__ import annotations

import difflib
import json
import math
import warnings
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from nbgrader.api import MissingEntry
from nbgrader.plugins import LateSubmissionPlugin
from traitlets import Float

from grader import disk
from grader.gradebook import dates, results

DAY = 24 * 3600


class ByTheDay(LateSubmissionPlugin):
    """nbgrader's plugin for late penalties: takes a share of the points earned for each day begun. 0 percent, the default, takes nothing.
    What a unit has in late.json goes before the configuration."""

    percent = Float(0.0, min=0, max=100, help="Of the points earned, for each day begun.").tag(config=True)
    grace_minutes = Float(10.0, min=0, help="Lateness that nobody minds.").tag(config=True)
    at_most = Float(100.0, min=0, max=100, help="The most that lateness can take, in percent.").tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, total_seconds_late: float) -> float | None:
        rules = {name: getattr(self, name) for name in RULES} | self._of_unit()
        return penalty(rules, score, total_seconds_late)

    def _of_unit(self) -> dict[str, float]:
        """The unit's own rules. nbgrader makes a plugin for each submission, whose parent knows what it is of."""
        if self.parent is None:
            return {}
        home = Path(self.parent.db_url.removeprefix("sqlite:///")).parent
        return rules_of(home, self.parent.assignment_id)


RULES = ("percent", "grace_minutes", "at_most")


def penalty(rules: Mapping[str, float], score: float, seconds_late: float) -> float | None:
    """Return the points that lateness takes under rules by the names in RULES; None if it takes nothing."""
    if not rules["percent"] or seconds_late <= 60 * rules["grace_minutes"]:
        return None
    taken = min(rules["at_most"], rules["percent"] * math.ceil(seconds_late / DAY))
    return round(score * taken / 100, 2)


def rules_of(home: Path, unit: str) -> dict[str, float]:
    """Return the rules of lateness in a unit, by the names in RULES; {} if only the configuration has them."""
    return disk.read(home / "late.json").get(unit, {})


def set_rules(home: Path, unit: str, **rules: float | None) -> None:
    """Save what lateness costs in a unit; what is None stays as it is."""
    path = home / "late.json"
    known = disk.read(path)
    known[unit] = known.get(unit, {}) | {name: value for name, value in rules.items() if value is not None}
    disk.write({path: json.dumps(known, indent=1).encode()})


def set_due(home: Path, unit: str, when: str) -> datetime:
    """Save the due date of a unit, as dates.utc reads it; return it in UTC."""
    due = dates.utc(when)
    with results.book(home) as book:
        book.update_or_create_assignment(unit, duedate=due)
    return due


def without_times(home: Path, unit: str) -> bool:
    """Whether there are submissions of a unit, and none has a timestamp."""
    folders = [notebook.parent for notebook in home.glob(f"submitted/*/{unit}/{unit}.ipynb")]
    return bool(folders) and not any((folder / "timestamp.txt").is_file() for folder in folders)


def unheard_of(home: Path, student: str) -> str:
    """Return a message if the class has no such student yet, in the gradebook or among the submissions; else ""."""
    with results.book(home) as book:
        known = {s.id for s in book.students} | {folder.name for folder in home.glob("submitted/*")}
    if student in known:
        return ""
    by_letters = {name.casefold(): name for name in sorted(known)}
    near = difflib.get_close_matches(student.casefold(), by_letters, n=1, cutoff=0.5)
    nearest = f" (the nearest name is {by_letters[near[0]]})" if near else ""
    return f"The class has no {student} yet{nearest}: if that is a slip, take it back with --days 0."


def extend(home: Path, unit: str, student: str, days: float) -> datetime | None:
    """Give one student more time, replacing an earlier extension; return the new due date, None if the unit has none.

    Raises ValueError if the gradebook does not know the unit.
    """
    with results.book(home) as book:
        try:
            due = book.find_assignment(unit).duedate
        except MissingEntry:
            raise ValueError(f"{unit} is not in the gradebook yet: set its due date first.") from None
        book.update_or_create_student(student)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SQLAlchemy's, about nbgrader's own queries
            book.update_or_create_submission(unit, student)
        book.grant_extension(unit, student, minutes=round(days * 24 * 60))
        return book.find_submission(unit, student).duedate if due else None
