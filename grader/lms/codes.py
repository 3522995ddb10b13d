"""The codes of a class with twists, for the table that students get theirs from: by mail, or through the LMS."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from course_lib.exercises import UNITS
from grader import disk
from grader.cohort import frozen
from grader.gradebook import results
from grader.judging import twists


@dataclass(frozen=True)
class CodeRow:
    """A student's twist code, and where to send it."""

    student: str
    name: str
    email: str
    code: str


def switch(home: Path, of: Collection[str]) -> set[str]:
    """Enable twists in these units, and in no others. Raises ValueError for a unit that has none, and for one whose marks are frozen or
    exported: another task would change them."""
    for unit in {*of} ^ {*twists.units(home)}:
        if unit in UNITS and (frozen.since(home, unit) or frozen.exported(home, unit)):
            raise ValueError(
                f"The marks of {unit} were exported or frozen, and other tasks would change them. Nothing was changed; "
                f"`python -m grader freeze {unit} --thaw` lets them change."
            )
    return {*twists.switch(home, of)}


def table(home: Path) -> list[CodeRow]:
    """List the code of everybody in the gradebook, or who has handed something in, by id."""
    with results.book(home) as book:
        people = {s.id: (" ".join(filter(None, (s.first_name, s.last_name))), s.email or "") for s in book.students}
    people |= {path.name: ("", "") for path in (home / "submitted").glob("*") if path.name not in people}
    return [CodeRow(student, *people[student], twists.of_student(home, student).code) for student in sorted(people)]


def write(home: Path) -> tuple[Path, int]:
    """Write the table to reports/codes.csv. Return the file and how many students it has."""
    rows, text = table(home), io.StringIO()
    writer = csv.writer(text)
    writer.writerow([field.name for field in fields(CodeRow)])
    writer.writerows([astuple(row) for row in rows])
    path = home / "reports" / "codes.csv"
    disk.write({path: text.getvalue().encode()})
    return path, len(rows)
