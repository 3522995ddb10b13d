"""A unit whose exercises change in mid-term: nbgrader adds and removes no cell of a notebook that somebody has handed in.

Here the gradebook gets the new exercises, and loses those that are gone, for every submission at once. A submission that lacks a
new exercise has no answer to it; what was earned by a dropped one is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbgrader import utils
from nbgrader.api import Comment, Grade, Gradebook, MissingEntry

from course_lib.exercises import ids
from grader import exercises
from grader.gradebook import counts
from grader.nbgrader_config import ROOT


def amend(home: Path, unit: str, *, root: Path = ROOT) -> list[str]:
    """Update the gradebook of `home` to the cells of the unit's source, if there are submissions of it.

    Return sentences that say what has changed, including the marks by hand that went with a dropped exercise.
    """
    if not (home / "gradebook.db").is_file():
        return []
    source = nbformat.read(root / "solutions" / unit / f"{unit}.ipynb", as_version=4)
    cells = {c.metadata.nbgrader["grade_id"]: c for c in source.cells if "nbgrader" in c.metadata}
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as gradebook:
        try:
            notebook = gradebook.find_notebook(unit, unit)
        except MissingEntry:
            return []
        if not notebook.submissions:
            return []
        _rename(gradebook, notebook)
        dropped = _drop(gradebook, notebook, set(cells))
        added = _add(gradebook, notebook, unit, cells)
        gradebook.db.commit()
    said = [
        f"{unit}: {_cell(name)} is new; who handed in an older notebook has no answer to it, and is excused."
        for name in added
    ]
    for name, by_hand in dropped.items():
        marks = f", and marks given by hand with it: {', '.join(by_hand)}" if by_hand else ""
        said.append(f"{unit}: {_cell(name)} is dropped{marks}.")
    return said


def worth_in_the_book(home: Path, unit: str) -> dict[str, float]:
    """Map each exercise to its points of the maximum that the gradebook's marks belong to; {} where nothing has been graded."""
    if not (home / "gradebook.db").is_file():
        return {}
    known = {exercise.check_id: id for id, exercise in exercises(unit).items()}
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as gradebook:
        try:
            cells = gradebook.find_notebook(unit, unit).grade_cells
        except MissingEntry:
            return {}
        names = {ids.current_cell(cell.name): cell.max_score for cell in cells}
    return {known.get(name, _cell(name)): points for name, points in names.items()}


def changed(home: Path, unit: str) -> list[str]:
    """List exercises that the gradebook lacks or has for other points than the unit, and those that the unit lacks: the next autograde
    changes that for all."""
    before, now = worth_in_the_book(home, unit), counts.of(home, unit).in_the_maximum
    return sorted(id for id in before.keys() | now.keys() if before.get(id) != now.get(id)) if before else []


def is_due(home: Path, unit: str) -> bool:
    """Whether the next autograde changes the gradebook's exercises or their points, for all."""
    return bool(changed(home, unit))


def require_current(home: Path, unit: str) -> None:
    """Raise ValueError, with a sentence, where marks in the gradebook belong to another maximum than the unit's."""
    if ids := changed(home, unit):
        raise ValueError(
            f"{unit} was graded with other points for {', '.join(ids)}, or without it: its marks belong to a maximum of "
            f"{sum(worth_in_the_book(home, unit).values()):g}, and it has {counts.of(home, unit).out_of:g} now. Run "
            f"`python -m grader autograde {unit}` first."
        )


def _cell(check: str) -> str:
    return check.removesuffix("-check")


def _rename(gradebook: Gradebook, notebook) -> None:
    """Give cells the names of this release, so that an exercise that was renamed keeps its marks."""
    for cells in (notebook.grade_cells, notebook.solution_cells, notebook.source_cells):
        names = {cell.name for cell in cells}
        for cell in cells:
            if (name := ids.current_cell(cell.name)) not in names:
                cell.name = name
    gradebook.db.flush()


def _drop(gradebook: Gradebook, notebook, wanted: set[str]) -> dict[str, list[str]]:
    """Take out cells that the unit no longer has. Return checks -> the students who had marks by hand there."""
    dropped = {}
    for cell in [c for c in (*notebook.grade_cells, *notebook.solution_cells) if c.name not in wanted]:
        if cell.type == "GradeCell":
            grades = gradebook.db.query(Grade).filter(Grade.cell_id == cell.id).all()
            by_hand = [grade.assignment.student.id for grade in grades if grade.manual_score is not None]
            dropped[cell.name] = sorted(by_hand)
        for kind in (Grade, Comment):
            for entry in gradebook.db.query(kind).filter(kind.cell_id == cell.id).all():
                gradebook.db.delete(entry)
        gradebook.db.flush()
        gradebook.db.delete(cell)
    for cell in [c for c in notebook.source_cells if c.name not in wanted]:
        gradebook.db.delete(cell)
    gradebook.db.flush()
    return dropped


def _add(gradebook: Any, notebook, unit: str, cells: dict) -> list[str]:
    """Puts new cells in, as nbgrader's SaveCells would, and for each submission what add_submission would: the checks."""
    names = {kind: {c.name for c in getattr(notebook, f"{kind}_cells")} for kind in ("grade", "solution", "source")}
    added = []
    for name, cell in cells.items():
        if utils.is_grade(cell) and name not in names["grade"]:
            points = float(cell.metadata.nbgrader["points"])
            new = gradebook.add_grade_cell(name, unit, unit, max_score=points, cell_type=cell.cell_type)
            for submitted in notebook.submissions:
                gradebook.db.add(Grade(cell_id=new.id, notebook=submitted))
            added.append(name)
        if utils.is_solution(cell) and name not in names["solution"]:
            new = gradebook.add_solution_cell(name, unit, unit)
            for submitted in notebook.submissions:
                gradebook.db.add(Comment(cell_id=new.id, notebook=submitted))
        judged = utils.is_grade(cell) or utils.is_solution(cell) or utils.is_locked(cell)
        if judged and name not in names["source"]:
            gradebook.add_source_cell(name, unit, unit, cell_type=cell.cell_type)
    return added
