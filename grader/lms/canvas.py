"""Marks for Canvas's gradebook import."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from grader.gradebook.results import Entry
from grader.lms import rosters, scale
from grader.lms.enrolled import Member, PersonKeys
from grader.lms.matching import Export, RosterMatch, Rows, without_doubles
from grader.lms.rosters import Roster

ID = re.compile(r" \(\d+\)$")  # Canvas's, behind an assignment's title
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def export(
    unit: str,
    own: float,
    entries: Sequence[Entry],
    roster: Roster | None = None,
    column: str = "",
    members: Mapping[str, Member] = {},
    out_of: str = "",
) -> Export:
    """Return the rows of Canvas's gradebook import. It takes scores above a column's maximum as extra credit.

    Its first five columns tell who a student is, all others are assignments, and the second row their points. Canvas
    looks for the ID, then the SIS ids, then the name (lib/gradebook_importer.rb). Who has not been graded has no row, as
    an empty cell would take away what they have.

    own       the unit's maximum in the class
    roster    the gradebook as Canvas exports it: its ids and its order. Without it we write what we know: Canvas's id
              of those who came through `import`, else our id as the login
    column    the assignment's name there, "Unit 04 (1234)" with its id; "": the one that is called as our unit, else a new one
    out_of    see scale.py
    """
    rows = roster.of_lms("canvas", "name", "id") if roster else []
    possible = next((row for row in rows if "Points Possible" in row["Student"]), {})
    column = _assignment(roster, possible, unit, column) if roster else column
    theirs = scale.number(possible.get(column, ""))
    worth = scale.scale(own, theirs, out_of, repr(column))
    header: list[object] = [*CANVAS, column or unit]
    points: list[object] = ["    Points Possible", "", "", "", "", own if theirs is None else theirs]
    students = [row for row in rows if "Points Possible" not in row["Student"] and any(map(row.get, CANVAS))]
    if not students:
        entries, doubles = without_doubles(entries)
        known: Rows = [[*_in_canvas(e, members.get(e.student, Member())), e.score] for e in entries if e.marked]
        return Export([header, points, *known], doubles=doubles)
    people = [PersonKeys([row["ID"]], [row.get("SIS Login ID", ""), row.get("SIS User ID", "")]) for row in students]
    match = RosterMatch(students, people, entries, members)
    marks: Rows = [
        [*(row.get(name, "") for name in CANVAS), round(worth * e.score, 2)]
        for row, e in match.pairs
        if e and e.score is not None
    ]
    made = _assignments(roster, possible) if roster and not column else []
    return Export([header, points, *marks], match.unknown, match.absent("Student"), doubles=match.doubles, made=made)


def _assignment(roster: Roster, possible: Mapping[str, str], unit: str, column: str) -> str:
    """The column that Canvas would take for the one that is meant, by its title where there is no id. "" if it would make a new
    assignment; NotARoster where that was not meant, or where it is not known which.

    possible    the row of points, which an assignment has or may have, and no other column
    """
    found = _assignments(roster, possible)
    same = [name for name in found if name == column or ID.sub("", name) == (column or unit)]
    if column in same or not (same or column):
        return column
    if len(same) == 1:
        return same[0]
    what = f"{len(same)} assignments {column or unit!r}" if same else f"no assignment {column!r}"
    listed = ", ".join(map(repr, same or found)) or "it has none, and without --column Canvas makes one"
    raise rosters.NotARoster(f"{roster.path} has {what}. Say which with --column: {listed[:300]}.")


def _assignments(roster: Roster, possible: Mapping[str, str]) -> list[str]:
    """The columns that are assignments, by their id or their points."""
    return [name for name in roster.columns if ID.search(name) or scale.number(possible.get(name, "")) is not None]


def _in_canvas(entry: Entry, member: Member) -> list[str]:
    login = member.login or ("" if entry.lms_id else entry.student)
    return [_last_first(entry), entry.lms_id, member.sis, login, member.section]


def _last_first(entry: Entry) -> str:
    return ", ".join(filter(None, (entry.last_name, entry.first_name))) or entry.student
