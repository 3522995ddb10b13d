"""A gradebook's entries beside the rows of a roster, and what of them an export leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grader.gradebook.results import Entry
from grader.lms import enrolled
from grader.lms.enrolled import Member, PersonKeys

Rows = list[list[object]]


class Export(NamedTuple):
    """Result of an export to an LMS, with what was left out.
    unknown    students that the roster does not have;  absent = names in the roster of whom nothing has been graded
    unmarked   students who have no mark, as the grader could not judge all of theirs; for an LMS they are left out
    doubles    students who are the same person in the LMS: all of them are left out
    made       Canvas's assignments in the roster, where the import would make another
    cut        students whose score is above the LMS's maximum, which is what stands there for them
    """

    rows: Rows
    unknown: list[str] = []
    absent: list[str] = []
    unmarked: list[str] = []
    doubles: list[list[str]] = []
    cut: list[str] = []
    made: list[str] = []


class RosterMatch:
    """Matches of a roster's rows. pairs: (row, entry or None); unknown: students of no row; doubles: several of one row."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, str]],
        people: Sequence[PersonKeys],
        entries: Sequence[Entry],
        members: Mapping[str, Member],
    ) -> None:
        of_id = {entry.student: entry for entry in entries}
        self._matched = enrolled.matched(people, {id: _known(e, members.get(id, Member())) for id, e in of_id.items()})
        self._rows = rows
        only = [of_id[students[0]] if len(students) == 1 else None for students in self._matched]
        self.pairs = list(zip(rows, only, strict=True))
        self.doubles = [students for students in self._matched if len(students) > 1]
        self.unknown = sorted(set(of_id) - {student for students in self._matched for student in students})

    def absent(self, column: str) -> list[str]:
        """List those who stand only in a row of the roster, by the name in `column`, else by what else the row begins with."""
        rows = [row for row, students in zip(self._rows, self._matched, strict=True) if not students]
        return [row.get(column, "").strip() or next(filter(None, row.values()), "a row without a name") for row in rows]


def _known(entry: Entry, member: Member) -> PersonKeys:
    return PersonKeys([entry.lms_id, *member.ids], (entry.student, entry.email, member.login, member.sis))


def without_doubles(entries: Sequence[Entry]) -> tuple[list[Entry], list[list[str]]]:
    """The entries without those who share an id of the LMS, as older versions left them; and who these are."""
    by_id: dict[str, list[str]] = {}
    for entry in entries:
        by_id.setdefault(entry.lms_id.casefold(), []).append(entry.student)
    doubles = [students for id, students in by_id.items() if id and len(students) > 1]
    return [e for e in entries if not any(e.student in students for students in doubles)], doubles
