"""Whole submissions with known outcomes: the class of `make demo`, and of the suite.

A sample is made from the student's notebook as built, so that it never goes stale. Every unit has one solved and one blank
submission; a module here may add others in a list SAMPLES.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

import grader
from course_lib.exercises import UNITS, find
from grader.published import solution_cell


@dataclass(frozen=True)
class Sample:
    """One sample submission. `make` gets the student's notebook and returns what this student hands in.

    earns   exercise -> the points it earns, where these are not full marks
    """

    student: str
    about: str
    make: Callable[[NotebookNode], NotebookNode]
    earns: dict[str, float] = field(default_factory=dict)

    def expected(self, unit: str) -> dict[str, float]:
        """Return the points that it should earn, by exercise."""
        return {e.id: self.earns.get(e.id, e.points) for e in grader.exercises(unit).values()}


def of_unit(unit: str) -> list[Sample]:
    """List the samples of a unit: full marks, a blank one, and the unit's own."""
    full = Sample("full-marks", "the published solutions", solved)
    blank = Sample("blank", "handed in as handed out", lambda n: n, earns=dict.fromkeys(grader.exercises(unit), 0.0))
    module = f"grader.audit.samples.{UNITS[unit]}"
    return [full, blank, *(importlib.import_module(module).SAMPLES if importlib.util.find_spec(module) else [])]


def write(unit: str, release: Path, submitted: Path) -> list[Sample]:
    """Hand in every sample: submitted/<student>/<unit>/<unit>.ipynb. `release`: the student's notebook as built."""
    blank = nbformat.read(release, as_version=4)
    for sample in of_unit(unit):
        path = submitted / sample.student / unit / f"{unit}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(sample.make(copy.deepcopy(blank)), path)
    return of_unit(unit)


# ------------------------------------------------------------------------------------------- what students do


def cell_of(notebook: NotebookNode, exercise_id: str, check: bool = False) -> NotebookNode:
    """Return the cell of an exercise; with `check`, its check cell."""
    exercise = find(exercise_id)
    wanted = exercise.check_id if check else exercise.grade_id
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == wanted)


def solved(notebook: NotebookNode) -> NotebookNode:
    """Fill every exercise of the notebook with the published solution."""
    for unit in UNITS:
        for exercise in grader.exercises(unit).values():
            for cell in notebook.cells:
                if cell.metadata.get("nbgrader", {}).get("grade_id") == exercise.grade_id:
                    cell.source = solution_cell(exercise.id)
    return notebook


def solved_but(exercise_id: str, *patches: tuple[str, str], source: str = "") -> Callable[[NotebookNode], NotebookNode]:
    """Make a function that fills in the published solutions, one of them patched, or replaced by `source`."""

    def make(notebook: NotebookNode) -> NotebookNode:
        cell = cell_of(solved(notebook), exercise_id)
        cell.source = source or cell.source
        for old, new in patches:
            if old not in cell.source:
                raise ValueError(f"{exercise_id}: the solution does not contain {old!r}")
            cell.source = cell.source.replace(old, new)
        return notebook

    return make


def insert_before(notebook: NotebookNode, cell: NotebookNode, source: str) -> None:
    """Insert a code cell before another cell."""
    notebook.cells.insert(notebook.cells.index(cell), nbformat.v4.new_code_cell(source))
