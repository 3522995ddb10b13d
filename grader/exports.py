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
from grader import disk, results
from grader.results import Entry

Rows = list[list[object]]
# a sign at the start of a cell, here or where semicolons separate, but not of a number; full-width ones count in Japan
FORMULA = re.compile(r"""(^|[;\n])(?!-[\d.]+(?:[;\n]|$))(?=(?:[^\S\n]|")*[=+\-@\uff1d\uff0b\uff0d\uff20])""")


class Export(NamedTuple):
    """unknown    students that the roster does not have;  absent = names in the roster of whom nothing has been graded
    unmarked   students who have no mark, as the grader could not judge all of theirs; for an LMS they are left out
    """

    rows: Rows
    unknown: list[str] = []
    absent: list[str] = []
    unmarked: list[str] = []


def write(rows: Rows, path: Path) -> None:
    """UTF-8 with commas. A byte-order mark would hide the first column's name from Canvas, so there is none."""
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


def by_exercise(unit: str, entries: Sequence[Entry]) -> Rows:
    """A row per student: the points of each exercise, the extra credit, the penalty for lateness, the score, and which
    exercises were given points or a comment by hand."""
    exercises = grader.exercises(unit)
    last = ["extra", "penalty", "score", "out_of", "by_hand"]
    rows: Rows = [["student", "name", *(e.id for e in exercises.values()), *last]]
    out_of = sum(e.points for e in exercises.values())
    for entry in entries:
        points = [entry.scores[id] for id in exercises]
        numbers = [*points, sum(entry.extra.values()), entry.penalty, entry.score, out_of]
        rows.append([entry.student, entry.name, *numbers, " ".join(entry.by_hand)])
    return rows


def by_criterion(unit: str, entries: Sequence[Entry], verdicts: Mapping[str, Mapping[str, Verdict]]) -> Rows:
    """A row per student, exercise and criterion: what was seen and what it earned, as the judge said it. Where something was
    given by hand, a row of the kind "by hand" follows, with the points that count and the comment.

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
            "expected",
            "seen",
            "detail",
        ]
    ]
    of_unit = grader.exercises(unit)
    for entry in entries:
        for id in of_unit:
            verdict = verdicts.get(entry.student, {}).get(id)
            for f in verdict.findings if verdict and verdict.judged else ():
                kind = "gate" if f.gate else "extra" if f.bonus else "criterion"
                said = [f.points, f.out_of, f.expected, f.seen, f.detail]
                rows.append([entry.student, id, f.title, kind, *map(_yes, (f.judged, f.passed)), *said])
            if id in entry.by_hand:
                fields = entry.by_hand[id]
                said = [fields.points, of_unit[id].points, "", fields.comment, EARLIER if fields.review else ""]
                rows.append([entry.student, id, "", "by hand", "", "", *said])
    return rows


EARLIER = "given to an earlier answer, and not looked at since"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


# ------------------------------------------------------------------------------------------------- for an LMS


class NoSuchColumn(ValueError):
    """One sentence: the roster is not what the LMS exports."""


def read_roster(path: Path, *needed: str) -> list[dict[str, str]]:
    """The rows of a CSV that the LMS has exported, by column; with semicolons, as Canvas can be told to.

    NoSuchColumn if one of the `needed` columns is missing.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, restval="", delimiter=";" if header.count(";") > header.count(",") else ",")
            rows = [{key: value for key, value in row.items() if key} for row in reader]
            columns = reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise NoSuchColumn(f"{path} cannot be read as CSV ({error}).") from None
    if missing := [name for name in needed if name not in columns]:
        raise NoSuchColumn(f"{path} has no column {missing[0]!r}; it has: {', '.join(columns)[:200]}.")
    return rows


CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")


def canvas(unit: str, entries: Sequence[Entry], roster: Sequence[Mapping[str, str]] = (), column: str = "") -> Export:
    """Canvas's gradebook import.

    Its first five columns tell who a student is, all others are assignments, and the second row their points. Canvas
    looks for the ID, then the SIS ids, then the name (lib/gradebook_importer.rb). Who has not been graded has no row, as
    an empty cell would take away what they have.

    roster    rows of the gradebook as Canvas exports it: its ids and its order. Without it we write what the gradebook
              knows: Canvas's id of those who came through `import`, else our id as the login
    column    the assignment's name there, "Unit 04 (1234)" with its id; our unit's name makes a new assignment
    """
    header = [*CANVAS, column or unit]
    points = ["    Points Possible", "", "", "", "", sum(e.points for e in grader.exercises(unit).values())]
    students = [row for row in roster if "Points Possible" not in row["Student"] and any(row.values())]
    if not students:
        own = [[_last_first(e), e.lms_id, "", "" if e.lms_id else e.student, "", e.score] for e in entries if e.marked]
        return Export([header, points, *own])
    keys = ("ID", "SIS Login ID", "SIS User ID")
    found, unknown = _matched(entries, students, lambda row: [row.get(key, "") for key in keys])
    rows = [[*(row.get(name, "") for name in CANVAS), e.score] for row, e in found if e and e.marked]
    return Export([header, points, *rows], unknown, _absent(found, "Student"))


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
    unit: str,
    entries: Sequence[Entry],
    verdicts: Mapping[str, Mapping[str, Verdict]],
    roster: Sequence[Mapping[str, str]] = (),
) -> Export:
    """Moodle's offline grading worksheet.

    Moodle needs Identifier ("Participant 123"), Grade and Last modified (grade), and takes the feedback as HTML. A grade
    that was changed in Moodle after the time given stays, so a worksheet downloaded there is the best roster.
    """
    out_of = sum(e.points for e in grader.exercises(unit).values())

    def said(entry: Entry) -> str:
        return feedback(entry, verdicts.get(entry.student, {}), unit)

    if not roster:
        rows = [
            [f"Participant {e.lms_id}" if e.lms_id else "", e.name, e.email, e.score, out_of, "", said(e)]
            for e in entries
            if e.marked
        ]
        return Export([list(MOODLE), *rows])
    found, unknown = _matched(
        entries,
        roster,
        lambda row: [
            re.sub(r"\D", "", row.get("Identifier", "")),
            row.get("Email address", ""),
            row.get("ID number", ""),
        ],
    )
    columns = list(dict.fromkeys([*roster[0], "Feedback comments"]))
    rows = []
    for row, entry in found:
        graded = {"Grade": entry.score, "Feedback comments": said(entry)} if entry and entry.marked else {}
        rows.append([graded.get(name, row.get(name, "")) for name in columns])
    return Export([columns, *rows], unknown, _absent(found, "Full name"))


def feedback(entry: Entry, verdicts: Mapping[str, Verdict], unit: str) -> str:
    """One line per exercise, as HTML in which nothing that a student wrote is active."""
    lines = []
    for id, exercise in grader.exercises(unit).items():
        points = entry.scores[id]
        line = f"{id}: {'not graded' if points is None else f'{points:g}'} / {exercise.points:g}"
        verdict, by_hand = verdicts.get(id), []
        if fields := entry.by_hand.get(id):
            line += ", given by hand" if fields.points is not None else ""
            by_hand = [fields.comment.strip()] if fields.comment else []
        failed = [f"{f.title}: {f.seen}" for f in verdict.findings if _told(f)] if verdict else []
        if failed and fields and fields.points is not None:
            failed[0] = f"Judged {verdict.points:g}: {failed[0]}"
        lines.append(html.escape(". ".join([line, *by_hand, *failed])))
    if entry.penalty:
        lines.append(f"late: -{entry.penalty:g}")
    return "<br>".join(lines)


def _told(finding: Finding) -> bool:
    """Failed, and not for a reason that another finding has given."""
    return finding.lost and not finding.bonus and finding.status != "same_cause"


def _matched(
    entries: Iterable[Entry], roster: Sequence[Mapping[str, str]], ids_of
) -> tuple[list[tuple[Mapping[str, str], Entry | None]], list[str]]:
    """(row, entry or None) for each row, and the students of no row. Ids are compared without regard to case."""
    by_id: dict[str, Entry] = {}
    for entry in entries:
        for id in (entry.student, entry.email, entry.lms_id):  # what the LMS gave us comes last, and wins
            if id:
                by_id[id.casefold()] = entry
    pairs = []
    for row in roster:
        ids = [id.strip().casefold() for id in ids_of(row)]
        pairs.append((row, next((by_id[id] for id in ids if id in by_id), None)))
    seen = {entry.student for _, entry in pairs if entry}
    return pairs, sorted({entry.student for entry in by_id.values()} - seen)


def _absent(pairs: Iterable[tuple[Mapping[str, str], Entry | None]], column: str) -> list[str]:
    """Who stands in a row of the roster alone, by the name in `column`, else by what else the row begins with."""
    rows = [row for row, entry in pairs if entry is None]
    return [row.get(column, "").strip() or next(filter(None, row.values()), "a row without a name") for row in rows]


# ---------------------------------------------------------------------------------------------------- by name

FORMS = ("exercises", "criteria", "canvas", "moodle")  # and "feedback", which is no CSV: handback.py


def export(home: Path, unit: str, form: str, *, roster: Path | None = None, column: str = "") -> Export:
    """One of FORMS. NotGraded, NoSuchColumn, ValueError."""
    if form not in FORMS:
        raise ValueError(f"There is no export {form!r}. There are: {', '.join(FORMS)}.")
    entries = results.gradebook(home, unit)
    done = _export(home, unit, entries, form, roster, column)
    return done._replace(unmarked=[entry.student for entry in entries if not entry.marked])


def _export(home: Path, unit: str, entries: Sequence[Entry], form: str, roster: Path | None, column: str) -> Export:
    if form == "exercises":
        return Export(by_exercise(unit, entries))
    if form == "canvas":
        return canvas(unit, entries, read_roster(roster, "Student", "ID") if roster else (), column)
    verdicts = {entry.student: results.verdicts(home, unit, entry.student) for entry in entries}
    if form == "criteria":
        return Export(by_criterion(unit, entries, verdicts))
    return moodle(unit, entries, verdicts, read_roster(roster, "Identifier", "Grade") if roster else ())
