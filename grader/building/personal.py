"""A unit's notebook for one student of a class with twists: the tasks stand in its text, the code in a cell behind the imports.

It is today's release with words put in, so it is read and judged as that. What it says of its student is for its checks alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import nbformat

import grader
from course_lib.exercises.twists import Draw
from grader import disk

CELL = "code-of-the-class"


def notebook(unit: str, drawn: Draw) -> str:
    """Return the text of the student's notebook file, with the tasks of the drawn twists."""
    nb, tasks = nbformat.read(grader.released(unit), as_version=4), drawn.tasks(unit)
    for cell in nb.cells:
        for exercise, twist in tasks.items() if cell.cell_type == "markdown" else ():
            lines = cell.source.splitlines()
            announced = [i for i, line in enumerate(lines) if line.startswith(f"`{exercise}` · ")]
            for at in announced:
                lines[at + 1 : at + 1] = ["", f"**Your task** is another than the text says: {twist.asks}"]
            cell.source = "\n".join(lines) if announced else cell.source
    first = next(i for i, cell in enumerate(nb.cells) if cell.cell_type == "code")
    code = nbformat.v4.new_code_cell(f'from course_lib import twists\n\ntwists("{drawn.code}")', id=CELL)
    nb.cells.insert(first + 1, code)
    return nbformat.writes(nb) + "\n"


def write(draws: Mapping[str, Draw], to: Path) -> int:
    """Write FOLDER/STUDENT/UNIT/UNIT.ipynb for each unit of each student's draw; return the number of files. Raises ValueError if
    the folder has something in it."""
    disk.require_new(to)
    count = 0
    for student, drawn in draws.items():
        for unit in drawn.units:
            path = to / student / unit / f"{unit}.ipynb"
            path.parent.mkdir(parents=True)
            path.write_text(notebook(unit, drawn), "utf-8")
            count += 1
    return count
