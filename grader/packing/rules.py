"""The rules of a class that travel with a pack: dates, extensions, what lateness costs, and under which id a student is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nbgrader.api import MissingEntry

from grader import nbgrader_config
from grader.gradebook import counts, late, results
from grader.lms import enrolled

OF_STUDENTS = {"of": "single students"}


@dataclass(frozen=True)
class Rules:
    """The rules of one unit.

    lateness  by the names in late.RULES
    due       for all, or None;  extended  student -> a later date;  both in ISO 8601, UTC
    counts    how exercises count, as counts.json has it
    ids       an email address, a login or a student's number -> the student's id in the class, so that both give the same hidden inputs

    What tells of single students is marked so, and `public` leaves it out.
    """

    unit: str
    lateness: Mapping[str, float]
    counts: Mapping[str, Any] = field(default_factory=dict)
    due: str | None = None
    extended: Mapping[str, str] = field(default_factory=dict, metadata=OF_STUDENTS)
    ids: Mapping[str, str] = field(default_factory=dict, metadata=OF_STUDENTS)

    @property
    def public(self) -> Rules:
        """Return the rules without those about single students: who has more time is often who is ill."""
        return replace(self, **{each.name: {} for each in fields(self) if each.metadata == OF_STUDENTS})

    def student(self, name: str) -> str:
        """Return the id of the student with this email address, login or number, or this name itself. Of an address the part before the @
        is most often the login."""
        name = name.casefold()
        return self.ids.get(name) or self.ids.get(name.partition("@")[0], name)

    def due_for(self, student: str, elsewhere: datetime | None = None) -> datetime | None:
        """Return the student's due date: the latest that the class or the other grader gives."""
        own = self.extended.get(student, self.due)
        dates = [date for date in (datetime.fromisoformat(own) if own else None, elsewhere) if date]
        return max(dates, default=None)

    def penalty(self, score: float, handed_in: datetime, due: datetime | None) -> float:
        """Return the points that lateness takes."""
        seconds = (handed_in - due).total_seconds() if due else 0.0
        return late.penalty(self.lateness, score, seconds) or 0.0


def rules_of(home: Path, unit: str) -> Rules:
    """Return the rules of a unit in the class whose state lies in `home`, as `grader autograde` applies them."""
    plugin = late.ByTheDay(config=nbgrader_config.config(home))
    lateness = {name: getattr(plugin, name) for name in late.RULES} | late.rules_of(home, unit)
    said = counts.rules_of(home, unit)
    if not (home / "gradebook.db").exists():
        return Rules(unit, lateness, said)
    members = enrolled.members(home)
    with results.book(home) as book:
        ids = {key: student.id for student in book.students for key in _keys(student, members.get(student.id))}
        try:
            assignment = book.find_assignment(unit)
        except MissingEntry:
            return Rules(unit, lateness, said, ids=ids)
        given = {s.student.id: s.duedate for s in assignment.submissions if s.extension and s.duedate}
        due = _utc(assignment.duedate) if assignment.duedate else None
        return Rules(unit, lateness, said, due, {student: _utc(date) for student, date in given.items()}, ids)


def _keys(student, member: enrolled.Member | None) -> set[str]:
    """The names by which another grader may know a student of the gradebook."""
    known = (student.email, *((member.login, member.sis) if member else ()))
    return {key.casefold() for key in known if key}


def _utc(date: datetime) -> str:
    """A date of the gradebook, which names no zone and means UTC."""
    return date.replace(tzinfo=UTC).isoformat()
