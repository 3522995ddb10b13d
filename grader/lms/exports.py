"""The gradebook as CSV: for a spreadsheet, per exercise or per criterion, and for the import of Canvas and of Moodle.

Every writer returns rows, the header first. What stands in a cell was partly written by students, so what a spreadsheet
would take for a formula gets an apostrophe in front: also behind a semicolon or on a new line, where Excel begins a cell in
countries that write 1,5, whatever the quotes say.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import grader
from course_lib.exercise import Finding, Verdict
from grader import disk
from grader.gradebook import amended, counts, results
from grader.gradebook.counts import ExerciseCounts
from grader.gradebook.results import Entry
from grader.lms import FORMS, LMS, enrolled, rosters, scale
from grader.lms.enrolled import Absent, Member, PersonKeys
from grader.lms.rosters import Roster

Rows = list[list[object]]
# a sign at the start of a cell, here or where semicolons separate, but not of a number, nor a dash alone, as Moodle writes one;
# full-width signs count in Japan
FORMULA = re.compile(r"""(^|[;\n])(?!-[\d.]*(?:[;\n]|$))(?=(?:[^\S\n]|")*[=+\-@\uff1d\uff0b\uff0d\uff20])""")


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


def write(rows: Rows, path: Path) -> None:
    """Write rows as CSV: UTF-8 with commas. A byte-order mark would hide the first column's name from Canvas, so there is none."""
    text = io.StringIO()
    csv.writer(text).writerows([_cell(value) for value in row] for row in rows)
    disk.write({path: text.getvalue().encode()})


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (int, float)):
        return f"{value:g}"
    text = "".join(c if c.isprintable() or c == "\n" else " " for c in str(value))
    return FORMULA.sub(r"\1'", text)


# --------------------------------------------------------------------------------------------- for a spreadsheet


MORE = "more"  # before the id of an exercise whose points are not in the maximum


def by_exercise(
    counting: ExerciseCounts,
    entries: Sequence[Entry],
    members: Mapping[str, Member] = {},
    absent: Sequence[Absent] = (),
) -> Rows:
    """Return a row per student: section and group, the points of each exercise, those of More behind the path's, the extra credit (what
    counts of More, and for speed), the penalty for lateness, the score, the maximum, which is the path's, which exercises were given points
    or a comment by hand, and on which GPU kernels were judged, too. Who has handed in nothing comes last, without points."""
    exercises = [*counting.ids("path"), *counting.ids("more")]
    last = ["extra", "penalty", "score", "out_of", "by_hand", "gpu"]
    more = (f"{MORE} {id}" for id in counting.ids("more"))
    rows: Rows = [["student", "name", "section", "group", *counting.ids("path"), *more, *last]]

    def who(student: str, name: str) -> list[object]:
        member = members.get(student, Member())
        return [student, name, member.section, member.group]

    for entry in entries:
        points = [entry.scores[id] for id in exercises]
        numbers = [*points, sum(entry.extra.values()), entry.penalty, entry.score, counting.out_of]
        rows.append([*who(entry.student, entry.name), *numbers, " ".join(entry.by_hand), ", ".join(entry.gpus)])
    nothing = [None] * (len(exercises) + len(last))
    return rows + [[*who(*student), *nothing] for student in absent]


def by_criterion(unit: str, entries: Sequence[Entry], verdicts: Mapping[str, Mapping[str, Verdict]]) -> Rows:
    """Return a row per student, exercise and criterion: what was seen and what it earned, as the judge said it, how much of that was given
    back because an earlier exercise's mistake had cost it, and on which machine. Where something was given by hand, a row of the kind "by
    hand" follows, with the points that count and the comment.

    verdicts    student -> exercise -> verdict
    """
    rows: Rows = [
        [
            "student",
            "exercise",
            "criterion",
            "kind",
            "judged",
            "passed",
            "points",
            "out_of",
            "carried",
            "expected",
            "seen",
            "detail",
            "on",
        ]
    ]
    of_unit = grader.exercises(unit)
    for entry in entries:
        for id in of_unit:
            verdict = verdicts.get(entry.student, {}).get(id)
            for f in verdict.findings if verdict and verdict.judged else ():
                kind = "gate" if f.gate else "extra" if f.bonus else "criterion"
                expected = f"{f.expected} on {f.on}" if f.on else f.expected
                said = [f.points, f.out_of, f.carried, expected, f.seen, f.detail, verdict.on if verdict else ""]
                rows.append([entry.student, id, f.title, kind, *map(_yes, (f.judged, f.passed)), *said])
            if id in entry.by_hand:
                fields = entry.by_hand[id]
                said = [fields.points, of_unit[id].points, "", "", fields.comment, EARLIER if fields.review else "", ""]
                rows.append([entry.student, id, "", "by hand", "", "", *said])
    return rows


EARLIER = "given to an earlier answer, and not looked at since"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# ------------------------------------------------------------------------------------------------- for an LMS


ID = re.compile(r" \(\d+\)$")  # Canvas's, behind an assignment's title
CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def canvas(
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
        entries, doubles = _one_by_one(entries)
        known: Rows = [[*_in_canvas(e, members.get(e.student, Member())), e.score] for e in entries if e.marked]
        return Export([header, points, *known], doubles=doubles)
    people = [PersonKeys([row["ID"]], [row.get("SIS Login ID", ""), row.get("SIS User ID", "")]) for row in students]
    found = _Found(students, people, entries, members)
    marks: Rows = [
        [*(row.get(name, "") for name in CANVAS), round(worth * e.score, 2)]
        for row, e in found.pairs
        if e and e.score is not None
    ]
    made = _assignments(roster, possible) if roster and not column else []
    return Export([header, points, *marks], found.unknown, found.absent("Student"), doubles=found.doubles, made=made)


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


MOODLE = (
    "Identifier",
    "Full name",
    "Email address",
    "Grade",
    "Maximum Grade",
    "Last modified (grade)",
    "Feedback comments",
)


def moodle(
    counting: ExerciseCounts,
    entries: Sequence[Entry],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    roster: Roster | None = None,
    members: Mapping[str, Member] = {},
    out_of: str = "",
) -> Export:
    """Return the rows of Moodle's offline grading worksheet, with the roster's column names: Moodle looks for its own language's.

    Moodle needs Identifier ("Participant 123"), Grade and Last modified (grade), and takes the feedback as HTML. A grade
    that was changed in Moodle after the time given stays, so a worksheet downloaded there is the best roster. It refuses a
    grade above the maximum: who has more, by extra credit, gets the maximum.

    out_of    see scale.py
    """
    own, name = counting.out_of, "the column 'Maximum Grade'"

    def said(entry: Entry) -> str:
        return feedback(entry, verdicts.get(entry.student, {}), counting)

    students = roster.of_lms("moodle", "identifier", "grade") if roster else []
    if not students:
        if any(len(members.get(e.student, Member()).ids) > 1 for e in entries):
            raise rosters.NotARoster(
                "Moodle numbers participants anew in each assignment: give this one's grading worksheet with --roster."
            )
        scale.scale(own, None, out_of, name)
        entries, doubles = _one_by_one(entries)
        rows: Rows = [
            [f"Participant {e.lms_id}" if e.lms_id else "", e.name, e.email, min(e.score, own), own, "", said(e)]
            for e in entries
            if e.score is not None
        ]
        cut = [e.student for e in entries if e.score is not None and e.score > own]
        return Export([list(MOODLE), *rows], doubles=doubles, cut=cut)
    people = [
        PersonKeys([rosters.number(row["Identifier"])], [row.get("Email address", ""), row.get("ID number", "")])
        for row in students
    ]
    found = _Found(students, people, entries, members)
    columns = list(dict.fromkeys([*students[0], "Feedback comments"]))
    maxima = [number for row in students if (number := scale.number(row.get("Maximum Grade", ""))) is not None]
    theirs = maxima[0] if maxima else None
    worth = scale.scale(own, theirs, out_of, name)
    if theirs is not None and theirs < own and out_of == "unit":
        raise scale.OtherMaximum(
            f"Moodle refuses grades above its maximum of {theirs:g}, and the unit has {own:g} points: set that maximum to {own:g} and "
            "download the worksheet again, or say `--out-of column`."
        )
    rows: Rows = []
    cut: list[str] = []
    for row, entry in found.pairs:
        graded = {}
        if entry and entry.score is not None:
            score = round(worth * entry.score, 2)
            if theirs is not None and score > theirs:
                cut.append(entry.student)
                score = theirs
            graded = {"Grade": score, "Feedback comments": said(entry)}
        rows.append([graded.get(name, row.get(name, "")) for name in columns])
    names = roster.names("moodle") if roster else {}
    header: list[object] = [names.get(name, name) for name in columns]
    return Export([header, *rows], found.unknown, found.absent("Full name"), doubles=found.doubles, cut=cut)


def feedback(entry: Entry, verdicts: Mapping[str, Verdict], counting: ExerciseCounts) -> str:
    """Return one line of HTML per exercise that counts, in which nothing that a student wrote is active."""
    lines = []
    for id in [*counting.ids("path"), *counting.ids("more")]:
        points, exercise = entry.scores[id], counting.exercises[id]
        name = id if counting.ways[id] == "path" else f"{MORE} {id}"
        line = f"{name}: {'not graded' if points is None else f'{points:g}'} / {exercise.points:g}"
        verdict, by_hand = verdicts.get(id), []
        if fields := entry.by_hand.get(id):
            line += ", given by hand" if fields.points is not None else ""
            by_hand = [fields.comment.strip()] if fields.comment else []
        failed = [f"{f.missed}: {f.seen}" for f in verdict.findings if _told(f)] if verdict else []
        if verdict and failed and fields and fields.points is not None:
            failed[0] = f"Judged {verdict.points:g}: {failed[0]}"
        lines.append(html.escape(". ".join([line, *by_hand, *failed])))
    if entry.penalty:
        lines.append(f"late: -{entry.penalty:g}")
    if entry.gpus:
        lines.append(html.escape(f"kernels judged on {', '.join(entry.gpus)}, too"))
    return "<br>".join(lines)


def _told(finding: Finding) -> bool:
    """Failed, and not for a reason that another finding has given."""
    return finding.lost and not finding.bonus and finding.status != "same_cause"


class _Found:
    """Matches of a roster's rows. pairs: (row, entry or None); unknown: students of no row; doubles: several of one row."""

    def __init__(
        self,
        rows: Sequence[Mapping[str, str]],
        people: Sequence[PersonKeys],
        entries: Sequence[Entry],
        members: Mapping[str, Member],
    ) -> None:
        of_id = {entry.student: entry for entry in entries}
        self._told = enrolled.matched(people, {id: _known(e, members.get(id, Member())) for id, e in of_id.items()})
        self._rows = rows
        only = [of_id[students[0]] if len(students) == 1 else None for students in self._told]
        self.pairs = list(zip(rows, only, strict=True))
        self.doubles = [students for students in self._told if len(students) > 1]
        self.unknown = sorted(set(of_id) - {student for students in self._told for student in students})

    def absent(self, column: str) -> list[str]:
        """List those who stand only in a row of the roster, by the name in `column`, else by what else the row begins with."""
        rows = [row for row, students in zip(self._rows, self._told, strict=True) if not students]
        return [row.get(column, "").strip() or next(filter(None, row.values()), "a row without a name") for row in rows]


def _known(entry: Entry, member: Member) -> PersonKeys:
    return PersonKeys([entry.lms_id, *member.ids], (entry.student, entry.email, member.login, member.sis))


def _one_by_one(entries: Sequence[Entry]) -> tuple[list[Entry], list[list[str]]]:
    """The entries without those who share an id of the LMS, as older versions left them; and who these are."""
    by_id: dict[str, list[str]] = {}
    for entry in entries:
        by_id.setdefault(entry.lms_id.casefold(), []).append(entry.student)
    doubles = [students for id, students in by_id.items() if id and len(students) > 1]
    return [e for e in entries if not any(e.student in students for students in doubles)], doubles


# ---------------------------------------------------------------------------------------------------- by name


def export(
    home: Path,
    unit: str,
    form: str,
    *,
    roster: Path | None = None,
    fields: Iterable[str] = (),
    column: str = "",
    out_of: str = "",
) -> Export:
    """Export the gradebook in one of FORMS. fields: "FIELD=COLUMN" of the roster. NotGraded, NotARoster, OtherMaximum, ValueError: also
    where points have changed since."""
    if form not in FORMS:
        raise ValueError(f"There is no export {form!r}. There are: {', '.join(FORMS)}.")
    if form not in LMS and (roster or column or out_of):
        raise ValueError(
            f"--roster, --column and --out-of are for {' and '.join(LMS)}, and would change nothing in {form!r}."
        )
    entries = results.gradebook(home, unit)
    amended.require_current(home, unit)
    done = _export(home, unit, entries, form, rosters.read(roster, fields) if roster else None, column, out_of)
    return done._replace(unmarked=[entry.student for entry in entries if not entry.marked])


def _export(
    home: Path, unit: str, entries: Sequence[Entry], form: str, roster: Roster | None, column: str, out_of: str
) -> Export:
    members, counting = enrolled.members(home), counts.of(home, unit)
    if form == "exercises":
        return Export(by_exercise(counting, entries, members, enrolled.missing(home, unit, entries)))
    if form == "canvas":
        return canvas(unit, counting.out_of, entries, roster, column, members, out_of)
    verdicts = {entry.student: results.verdicts(home, unit, entry.student) for entry in entries}
    if form == "criteria":
        return Export(by_criterion(unit, entries, verdicts))
    return moodle(counting, entries, verdicts, roster, members, out_of)
