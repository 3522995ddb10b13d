"""solutions/NN_topic.py -> solutions/NN_topic/NN_topic.ipynb (the instructor's) -> notebooks/NN_topic/NN_topic.ipynb.

The source is a jupytext percent script. Short cell keys become nbgrader's metadata, and points come from the exercise:

    # %% exercise="coalescing.transpose"     the cell to solve; solutions stand between ### BEGIN and ### END SOLUTION
    # %% check="coalescing.transpose"        the cell that holds the points
    # %% predict="coalescing.guess"          a cell to fill in, without points
    # %% gpu="coalescing.speeds"             a cell that shows on a GPU what it cannot show without one
    # %% given="coalescing.break_transpose"  empty: it becomes the kernels that the exercise asks about
    # {{exercise coalescing.transpose}}       in Markdown: the line that announces it (see announce.py)

The student's notebook is made by nbgrader's own generate_assignment.
"""

# trap: a cell whose output needs a GPU is `# %% gpu="..."`, or the check of an exercise with `bonus`: a build without
# one leaves its output, and names the cell while its code is newer

from __future__ import annotations

import hashlib
import inspect
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode
from nbgrader.converters import GenerateAssignment

from course_lib import metadata
from course_lib.exercise import Exercise
from course_lib.exercises.breaking import Kills
from course_lib.metadata import CellRun
from grader import exercises
from grader.building import covers, drawings, outputs
from grader.building.announce import MARKER, AnnouncementError, Announcer
from grader.gradebook.converting import convert
from grader.gradebook.release import KERNELSPEC, LANGUAGE
from grader.nbgrader_config import config

KEYS = ("exercise", "check", "predict", "gpu")
SET_UP = re.compile(r"(import|from) \w+")  # so begins a cell that nobody has to read: it is folded
ON_GPU = "gpu-"  # so begin the ids of cells that need one


class BuildError(ValueError):
    """Raised for a source that cannot be built. The message says where: solutions/04_....py:120: ..."""


def build(
    unit: str, *, execute: bool, root: Path, out: Path | None = None, again: bool = False, pictures: bool = False
) -> list[Path]:
    """Builds one unit of `root` into `out` (default: root) and returns what it wrote, instructor's notebook first.

    Outputs that hold are kept from the notebook that is there. `execute` makes the others here; with `again`, all. `pictures` draws anew
    those that take no run.
    """
    source = root / "solutions" / f"{unit}.py"
    out = out or root
    executed, instructors = _instructors(unit, root), _instructors(unit, out)
    students = out / "notebooks" / unit / f"{unit}.ipynb"
    nb, old = instructors_notebook(source, unit), None
    if executed.exists():
        try:
            old = _read(executed)
        except Exception as e:
            raise BuildError(
                f"{executed.relative_to(root)} cannot be read: {e}. Take the committed one back, or delete it."
            ) from None
    if unit in covers.COVERS:
        covers.attach(nb, unit, old, pictures)
    released = _students_notebook(nb, unit)
    if old:
        outputs.keep(nb, old, need_gpu(nb, unit))
    if execute:
        try:
            outputs.renew(nb, root, need_gpu(nb, unit), again=again)
        except outputs.Failed as failed:
            raise BuildError(f"{_places(nb, unit, root, [failed.cell])} fails: {failed}") from None
    outputs.redraw(nb, unit)
    if pictures:
        drawings.renew(nb)
    for path, text in ((instructors, _text(nb)), (students, released)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return [instructors, students]


def check(unit: str, root: Path) -> list[str]:
    """List every difference between the committed notebooks and what the source builds to now, one sentence each."""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            fresh = build(unit, execute=False, root=root, out=Path(scratch))
        except BuildError as error:
            return [str(error)]
        instructors, students = (root / path.relative_to(scratch) for path in fresh)
        found = _differences(students, fresh[1], root, outputs=True)
        found += _differences(instructors, fresh[0], root, outputs=False)
        return found + missing(unit, root, Path(scratch))


def missing(unit: str, root: Path, out: Path | None = None) -> list[str]:
    """List a message if cells of the instructor's notebook, as it was built last, have no output of their code."""
    nb = _read(_instructors(unit, out or root))
    due = outputs.due(nb, need_gpu(nb, unit))
    where = _places(nb, unit, root, due.missing)
    return [f"{where}: no output of this code yet. `grader build {unit}` makes it."] if due.missing else []


def waiting(unit: str, root: Path) -> list[str]:
    """List a message if cells of the instructor's notebook, as it was built last, need a run on a GPU."""
    nb = _read(_instructors(unit, root))
    due, cells = outputs.due(nb, need_gpu(nb, unit)), {cell.id: cell for cell in nb.cells}
    gpus = " and ".join(
        sorted({ran.gpu for name in due.older if (ran := metadata.read(cells[name].metadata, CellRun))})
    )
    said = {f"output of {gpus}, by older code": due.older, "output of a machine without a GPU": due.without}
    return [
        f"{_places(nb, unit, root, which)}: {what}. `grader build {unit}` on a GPU makes it anew."
        for what, which in said.items()
        if which
    ]


def _instructors(unit: str, folder: Path) -> Path:
    return folder / "solutions" / unit / f"{unit}.ipynb"


def need_gpu(nb: NotebookNode, unit: str) -> set[str]:
    """Return the ids of the cells that need a GPU: those that the source marks, and the checks with extra credit on a GPU."""
    marked = {cell.id for cell in nb.cells if cell.id.startswith(ON_GPU)}
    return marked | {exercise.check_id for exercise in exercises(unit).values() if exercise.bonus}


def _places(nb: NotebookNode, unit: str, root: Path, ids: Collection[str]) -> str:
    """solutions/05_tiling.py:120, 348: where the source has these cells."""
    text = (root / "solutions" / f"{unit}.py").read_text("utf-8")
    lines = [str(line) for cell, line in zip(nb.cells, _lines(text, nb), strict=True) if cell.id in ids]
    return f"solutions/{unit}.py:{', '.join(lines)}"


def _lines(text: str, nb: NotebookNode) -> list[int]:
    """The line of the source at which each cell begins."""
    lines = [i for i, line in enumerate(text.splitlines(), 1) if line.startswith("# %%")]
    return lines[len(lines) - len(nb.cells) :]


# --------------------------------------------------------------------------------------------- the instructor's


def instructors_notebook(source: Path, unit: str) -> NotebookNode:
    """Build the notebook with solutions, unexecuted. Raises BuildError with the line of what is wrong."""
    text = source.read_text("utf-8")
    nb = jupytext.reads(text, fmt="py:percent")
    known = exercises(unit)
    lines = _lines(text, nb)
    _announce(nb, lines, unit, known, f"{source.parent.name}/{source.name}")
    if unit in covers.COVERS:
        covers.put(nb, unit, known)
    seen: Counter[str] = Counter()
    keyed: set[tuple[str, str]] = set()
    for cell, line in zip(nb.cells, lines, strict=True):
        where = f"{source.parent.name}/{source.name}:{line}"
        if "given" in cell.metadata:
            cell.source = _given(cell, known, where)
        cell.source = re.sub(
            r"[ \t]*# (noqa\b.*|fmt: skip|pyright: ignore.*)", "", cell.source
        )  # for our tools, not for readers
        keys = [(key, cell.metadata[key]) for key in KEYS if key in cell.metadata]
        cell.metadata = NotebookNode()
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
        if cell.cell_type == "code" and SET_UP.match(cell.source):
            cell.metadata["jupyter"] = NotebookNode(source_hidden=True)
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
        elif key == "gpu":
            cell.id = ON_GPU + re.sub(r"\W", "-", name)
        elif name not in known:
            raise BuildError(f"{where}: {unit} has no exercise {name!r}. It has: {', '.join(known) or 'none'}.")
        else:
            _mark(cell, key, known[name], where)
    for name in known:
        for key in ("exercise", "check"):
            if (key, name) not in keyed:
                raise BuildError(f'{source.parent.name}/{source.name}: no cell with {key}="{name}".')
    kernel = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE}
    whole: Any = nbformat.from_dict({"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": nb.cells})
    return whole


def _given(cell: NotebookNode, known: Mapping[str, Exercise], where: str) -> str:
    """The kernels that an exercise asks about, or wants broken, which stand there and nowhere else."""
    exercise = known.get(cell.metadata["given"])
    kernels = [inspect.getsource(kernel.fn) for kernel in exercise.kernels] if exercise else []
    kernels += [each.given.text for each in (exercise.criteria if exercise else ()) if isinstance(each, Kills)]
    if not kernels or cell.source:
        raise BuildError(f"{where}: an empty cell, and the name of an exercise that asks about kernels.")
    return "\n\n\n".join(text.strip() for text in kernels)


def _announce(nb: NotebookNode, lines: list[int], unit: str, known: Mapping[str, Exercise], name: str) -> None:
    """Fills in what the Markdown leaves to the exercises. `lines` are those of the cells' heads."""
    announcer = Announcer(unit, known)
    try:
        for cell, line in zip(nb.cells, lines, strict=True):
            if cell.cell_type == "markdown":
                cell.source = announcer.filled(cell.source, line + 1)
            elif marker := MARKER.search(cell.source):
                at = line + 1 + cell.source.count("\n", 0, marker.start())
                raise AnnouncementError(at, f"{marker[0]} stands in a code cell; only Markdown is filled in.")
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
        cell.metadata.nbgrader["points"] = float(exercise.points if exercise.track == "path" else 0)  # see counts.py


# ------------------------------------------------------------------------------------------------- the student's


def _students_notebook(nb: NotebookNode, unit: str) -> str:
    """Make the students' notebook with nbgrader's generate_assignment, in a folder of its own and without a gradebook."""
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
        for key in (old.metadata.keys() | new.metadata.keys()) - {"widgets"}
        if old.metadata.get(key) != new.metadata.get(key)
    ]
    for cell in [*old.cells, *new.cells]:
        metadata.drop(cell.metadata)  # belongs to the output
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
