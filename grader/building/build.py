"""solutions/NN_topic.py -> solutions/NN_topic/NN_topic.ipynb (the instructor's) -> notebooks/NN_topic/NN_topic.ipynb.

The source is a jupytext percent script. Short cell keys become nbgrader's metadata, and points come from the exercise:

    # %% exercise="coalescing.transpose"     the cell to solve; solutions stand between ### BEGIN and ### END SOLUTION
    # %% check="coalescing.transpose"        the cell that holds the points
    # %% predict="coalescing.guess"          a cell to fill in, without points
    # {{exercise coalescing.transpose}}       in Markdown: the line that announces it (see announce.py)

The student's notebook is made by nbgrader's own generate_assignment.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment

from course_lib.exercise import Exercise
from grader import exercises
from grader.building.announce import AnnouncementError, Announcer
from grader.gradebook.converting import convert
from grader.gradebook.release import KERNELSPEC, LANGUAGE
from grader.nbgrader_config import config

KEYS = ("exercise", "check", "predict")


class BuildError(ValueError):
    """The source cannot be built. Says where: solutions/04_....py:120: ..."""


def build(unit: str, *, execute: bool, root: Path, out: Path | None = None) -> list[Path]:
    """Builds one unit of `root` into `out` (default: root) and returns what it wrote, instructor's notebook first.

    Without `execute`, outputs are kept from the notebook that is there if it ran the same code: prose may change.
    """
    source = root / "solutions" / f"{unit}.py"
    out = out or root
    instructors, students = out / "solutions" / unit / f"{unit}.ipynb", out / "notebooks" / unit / f"{unit}.ipynb"
    nb = instructors_notebook(source, unit)
    released = _students_notebook(nb, unit)
    if execute:
        run(nb, root)
    else:
        _keep_outputs(nb, root / "solutions" / unit / f"{unit}.ipynb")
    for path, text in ((instructors, _text(nb)), (students, released)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [instructors, students]


def check(unit: str, root: Path) -> list[str]:
    """Every difference between the committed notebooks and what the source builds to now, one sentence each."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            fresh = build(unit, execute=False, root=root, out=Path(scratch))
        except BuildError as error:
            return [str(error)]
        instructors, students = (root / path.relative_to(scratch) for path in fresh)
        found = _differences(students, fresh[1], root, outputs=True)
        found += _differences(instructors, fresh[0], root, outputs=False)
        made = _read(fresh[0])
    if instructors.exists():
        course = _read(instructors).metadata.get("course", {})
        name = instructors.relative_to(root)
        if course.get("code_hash") != made.metadata.course.code_hash:
            found.append(f"{name} is stale: it ran other code than that of solutions/{unit}.py.")
        elif "date" not in course:
            found.append(f"{name} was never executed.")
    return found


# --------------------------------------------------------------------------------------------- the instructor's


def instructors_notebook(source: Path, unit: str) -> NotebookNode:
    """The notebook with solutions, unexecuted. BuildError names the line of what is wrong."""
    text = source.read_text("utf-8")
    nb = jupytext.reads(text, fmt="py:percent")
    known = exercises(unit)
    lines = [i for i, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    lines = lines[len(lines) - len(nb.cells) :]
    _announce(nb, lines, unit, known, f"{source.parent.name}/{source.name}")
    seen: Counter[str] = Counter()
    keyed: set[tuple[str, str]] = set()
    for cell, line in zip(nb.cells, lines, strict=True):
        where = f"{source.parent.name}/{source.name}:{line}"
        cell.source = re.sub(r"[ \t]*# noqa\b.*", "", cell.source)  # for our linter, not for readers
        keys = [(key, cell.metadata[key]) for key in KEYS if key in cell.metadata]
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if not keys:
            kind = "md" if cell.cell_type == "markdown" else cell.cell_type
            digest = f"{kind}-{_hash(cell.source)[:10]}"
            seen[digest] += 1
            cell.id = digest if seen[digest] == 1 else f"{digest}-{seen[digest]}"
            continue
        if len(keys) > 1 or cell.cell_type != "code":
            raise BuildError(f"{where}: one of {', '.join(KEYS)} to a code cell.")
        (key, name), *_ = keys
        if (key, name) in keyed:
            raise BuildError(f'{where}: a second cell with {key}="{name}".')
        keyed.add((key, name))
        if key == "predict":
            cell.id = re.sub(r"\W", "-", name)
        elif name not in known:
            raise BuildError(f"{where}: {unit} has no exercise {name!r}. It has: {', '.join(known) or 'none'}.")
        else:
            _mark(cell, key, known[name], where)
    for name in known:
        for key in ("exercise", "check"):
            if (key, name) not in keyed:
                raise BuildError(f'{source.parent.name}/{source.name}: no cell with {key}="{name}".')
    code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    metadata = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE, "course": {"code_hash": _hash(code)}}
    return nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": nb.cells})


def _announce(nb: NotebookNode, lines: list[int], unit: str, known: Mapping[str, Exercise], name: str) -> None:
    """Fills in what the Markdown leaves to the exercises. `lines` are those of the cells' heads."""
    announcer = Announcer(unit, known)
    try:
        for cell, line in zip(nb.cells, lines, strict=True):
            if cell.cell_type == "markdown":
                cell.source = announcer.filled(cell.source, line + 1)
        announcer.finish()
    except AnnouncementError as error:
        raise BuildError(f"{name}:{error.line}: {error}") from None


def _mark(cell: NotebookNode, key: str, exercise: Exercise, where: str) -> None:
    """nbgrader's metadata for a solution cell or a check cell."""
    graded = key == "check"
    if graded and "check(" not in cell.source:
        raise BuildError(f'{where}: a check cell must call check("{exercise.id}", {exercise.entry}).')
    if not graded and not re.search(r"### BEGIN SOLUTION\n[\s\S]*### END SOLUTION", cell.source):
        raise BuildError(f"{where}: an exercise needs ### BEGIN SOLUTION and ### END SOLUTION.")
    cell.id = exercise.check_id if graded else exercise.grade_id
    cell.metadata["nbgrader"] = NotebookNode(
        grade=graded, solution=not graded, locked=graded, task=False, grade_id=cell.id, schema_version=3
    )
    if graded:
        cell.metadata.nbgrader["points"] = float(exercise.points)


def run(nb: NotebookNode, root: Path) -> None:
    """Executes in place, in an empty folder, and notes the machine (what it is, not which) and the date."""
    from nbclient import NotebookClient

    paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            nb, timeout=600, kernel_name="python3", record_timing=False, resources={"metadata": {"path": folder}}
        )
        own = {
            "PYTHONPATH": paths,
            "COURSE_PROGRESS": str(Path(folder) / ".progress.json"),
        }  # not that of whoever builds
        client.execute(env=os.environ | own)
    nb.metadata["language_info"] = NotebookNode(LANGUAGE)
    nb.metadata.course.update(machine=_machine(), date=date.today().isoformat())


def _machine() -> str:
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"CPU, {len(os.sched_getaffinity(0))} cores"


def _keep_outputs(nb: NotebookNode, executed: Path) -> None:
    """Takes over outputs, machine and date from a notebook that ran the same code."""
    if not executed.exists():
        return
    old = _read(executed)
    if old.metadata.get("course", {}).get("code_hash") != nb.metadata.course.code_hash:
        return
    cells = {cell.id: cell for cell in old.cells if cell.cell_type == "code"}
    for cell in nb.cells:
        if cell.cell_type == "code" and cell.id in cells:
            cell.outputs, cell.execution_count = cells[cell.id].outputs, cells[cell.id].execution_count
    nb.metadata.course = old.metadata.course
    if "widgets" in old.metadata:
        nb.metadata.widgets = old.metadata.widgets


# ------------------------------------------------------------------------------------------------- the student's


def _students_notebook(nb: NotebookNode, unit: str) -> str:
    """By nbgrader's generate_assignment, in a folder of its own and without a gradebook."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "solutions" / unit
        folder.mkdir(parents=True)
        (folder / f"{unit}.ipynb").write_text(_text(nb), "utf-8")
        settings = config(Path(scratch) / "grader", root=Path(scratch), GenerateAssignment={"no_database": True})
        settings.GenerateAssignment.preprocessors.remove("nbgrader.preprocessors.SaveCells")
        if problem := convert(GenerateAssignment, settings, unit):
            raise BuildError(f"solutions/{unit}.py: nbgrader cannot make the student's notebook: {problem}")
        made = _read(Path(scratch) / "notebooks" / unit / f"{unit}.ipynb")
    text = _text(made)
    if "SOLUTION" in text:
        raise BuildError(f"solutions/{unit}.py: a SOLUTION marker is left in the student's notebook.")
    return text


# ------------------------------------------------------------------------------------------------- comparing


def _differences(committed: Path, fresh: Path, root: Path, *, outputs: bool) -> list[str]:
    name = committed.relative_to(root)
    if not committed.exists():
        return [f"{name} is missing."]
    try:
        old, new = _read(committed), _read(fresh)
    except Exception as e:
        return [f"{name} cannot be read: {e}"]
    found = [
        f"{name}: the notebook's metadata differ in {key!r}."
        for key in (old.metadata.keys() | new.metadata.keys()) - {"course", "widgets"}
        if old.metadata.get(key) != new.metadata.get(key)
    ]
    old_cells, new_cells = ({cell.id: cell for cell in notebook.cells} for notebook in (old, new))
    if len(old_cells) < len(old.cells):
        found.append(f"{name}: several cells have the same id.")
    found += [f"{name}: cell {i!r} is not in the source." for i in old_cells.keys() - new_cells.keys()]
    found += [f"{name}: cell {i!r} of the source is missing." for i in new_cells.keys() - old_cells.keys()]
    for i in old_cells.keys() & new_cells.keys():
        one, other = old_cells[i], new_cells[i]
        ignored = set() if outputs else {"outputs", "execution_count"}
        for key in sorted((one.keys() | other.keys()) - ignored):
            if one.get(key) != other.get(key):
                found.append(f"{name}: cell {i!r} differs from its source in {key}.")
    if not found and [cell.id for cell in old.cells] != [cell.id for cell in new.cells]:
        found.append(f"{name}: the cells stand in another order than in the source.")
    return sorted(found)


def _read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def _text(nb: NotebookNode) -> str:
    nbformat.validate(nb)
    return nbformat.writes(nb) + "\n"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
