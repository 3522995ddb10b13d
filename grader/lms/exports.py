"""The gradebook as CSV: for a spreadsheet (sheets.py), and for the import of Canvas and of Moodle (canvas.py, moodle.py).

Rows begin with the header. What stands in a cell was partly written by students, so what a spreadsheet
would take for a formula gets an apostrophe in front: also behind a semicolon or on a new line, where Excel begins a cell in
countries that write 1,5, whatever the quotes say.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path

from grader import disk
from grader.gradebook import amended, counts, results
from grader.lms import FORMS, LMS, canvas, enrolled, moodle, rosters, sheets
from grader.lms.matching import Export, Rows

# a sign at the start of a cell, here or where semicolons separate, but not of a number, nor a dash alone, as Moodle writes one;
# full-width signs count in Japan
FORMULA = re.compile(r"""(^|[;\n])(?!-[\d.]*(?:[;\n]|$))(?=(?:[^\S\n]|")*[=+\-@\uff1d\uff0b\uff0d\uff20])""")


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
    rows = rosters.read(roster, fields) if roster else None
    members, counting = enrolled.members(home), counts.of(home, unit)
    verdicts = {}
    if form in ("criteria", "moodle"):
        verdicts = {entry.student: results.verdicts(home, unit, entry.student) for entry in entries}
    match form:
        case "exercises":
            done = Export(sheets.by_exercise(counting, entries, members, enrolled.missing(home, unit, entries)))
        case "criteria":
            done = Export(sheets.by_criterion(unit, entries, verdicts))
        case "canvas":
            done = canvas.export(unit, counting.out_of, entries, rows, column, members, out_of)
        case _:
            done = moodle.export(counting, entries, verdicts, rows, members, out_of)
    return done._replace(unmarked=[entry.student for entry in entries if not entry.marked])
