"""reset("..."): an exercise as it was handed out, and what was there kept.

The saved file is changed, not the page that is open: a kernel cannot edit that, and a new cell below would leave the graded
one as it was. So the notebook has to be saved before, and reloaded after; both are asked for.
"""

from __future__ import annotations

import html
import os
import time
from itertools import count
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.sign import NotebookNotary

from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises import find, ids
from course_lib.handin import files
from course_lib.handin.cells import Problem
from course_lib.handin.validate import validated
from course_lib.render import code, show

FRESH = 60  # seconds since the notebook was saved: what was typed since would be lost when it is reloaded


def put_back(exercise: Exercise, path: Path) -> tuple[str, str]:
    """Reset an exercise's cells in the notebook at `path`. Return instructions for the student, and the exercise as it was handed out, for
    pasting ("" where nothing was to be changed). Raises Problem, with nothing changed, if that cannot be done."""
    stub, check = _handed_out(exercise, path)
    nb = _read(path)
    own = [cell for cell in nb.cells if _id(cell) == exercise.grade_id]
    if [(cell.cell_type, cell.source) for cell in own] == [("code", stub.source)]:
        return say("handin.reset.as_it_was", exercise=exercise.id), ""
    if (ago := time.time() - path.stat().st_mtime) > FRESH:
        raise Problem(say("handin.reset.unsaved", name=path.name, minutes=round(ago / 60)))
    trusted = NotebookNotary().check_signature(nb)
    kept = _keep(exercise, path, own) if own else None
    if (nb.nbformat, nb.nbformat_minor) < (4, 5):  # cells had no ids then
        del stub["id"], check["id"]
    place = nb.cells.index(own[0]) if own else _place(nb, exercise, check)
    nb.cells = [cell for cell in nb.cells if _id(cell) != exercise.grade_id]
    nb.cells.insert(place, stub)
    _write(nb, path, trusted)
    lines = [
        say("handin.reset.done", exercise=exercise.id, cell=place + 1, name=path.name),
        say("handin.reset.kept", file=str(kept)) if kept else say("handin.reset.nothing_to_keep"),
    ]
    if (left := next(line for line in validated(path).lines if line.exercise == exercise)).graded:
        lines.append(say("handin.reset.another_cell", name=exercise.entry, sentence=left.sentence))
    return "\n".join([*lines, say("handin.reset.reload")]), stub.source


def _handed_out(exercise: Exercise, path: Path) -> tuple[NotebookNode, NotebookNode]:
    """The exercise's stub and its check. Raises Problem if the notebook at `path` has no such exercise, or is what was handed out."""
    foreign = Problem(say("handin.reset.no_exercise", exercise=exercise.id, name=path.name))
    _, cells = files.read(path)
    if not (unit := files.unit_of(cells)):
        raise foreign
    release = files.released(unit)
    if release.resolve() == path.resolve():
        raise Problem(say("handin.reset.the_original", file=str(path)))
    if not release.is_file():
        raise Problem(say("handin.reset.no_original", file=str(release)))
    given = {_id(cell): cell for cell in _read(release).cells}
    if not {exercise.grade_id, exercise.check_id} <= given.keys():
        raise foreign
    return given[exercise.grade_id], given[exercise.check_id]


def _id(cell: NotebookNode) -> str:
    mark = cell.metadata.get("nbgrader")
    return ids.current_cell(str(mark.get("grade_id", ""))) if isinstance(mark, dict) else ""


def _place(nb: NotebookNode, exercise: Exercise, check: NotebookNode) -> int:
    """The place for a lost stub: before its check, which comes back at the end if it is lost as well."""
    for place, cell in enumerate(nb.cells):
        if _id(cell) == exercise.check_id:
            return place
    nb.cells.append(check)
    return len(nb.cells) - 1


def _keep(exercise: Exercise, path: Path, own: list[NotebookNode]) -> Path:
    """Write the sources into a new file of the folder kept/ next to the notebook, and return its path."""
    folder = path.with_name("kept")
    day = time.strftime("%Y-%m-%d %H:%M")
    text = "\n\n".join([f"# {exercise.id} of {path.name}, until {day}", *(cell.source for cell in own)])
    try:
        folder.mkdir(exist_ok=True)
        target = next(p for n in count(1) if not (p := folder / f"{exercise.id}.{n}.py").exists())
        target.write_text(f"{text}\n", "utf-8")
    except OSError as error:
        raise Problem(say("handin.reset.folder_refused", file=str(folder), why=error.strerror)) from None
    return target


def _read(path: Path) -> NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except Exception:  # whatever is wrong with it; no library's words say it better
        raise Problem(say("handin.reset.damaged", name=path.name)) from None


def _write(nb: NotebookNode, path: Path, trusted: bool) -> None:
    """Write the notebook whole or not at all. If Jupyter trusted it, it still does: else outputs of other cells would go dark."""
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        nbformat.write(nb, draft)
        draft.replace(path)
        if trusted:
            NotebookNotary().sign(nb)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise Problem(say("handin.reset.file_refused", file=str(path), why=error.strerror)) from None


def reset(exercise_id: str, notebook: str = "") -> None:
    """Reset an exercise to its state as handed out, and keep a copy of what was there. notebook: a file's name, where it is not clear."""
    try:
        said, stub = put_back(find(exercise_id), files.here(notebook))
        lines = "".join(f"<div>{code(line)}</div>" for line in said.split("\n"))
        or_paste = say("handin.reset.or_paste")
        paste = f"{or_paste}\n\n{stub}" if stub else ""
        show(
            f"{said}\n{paste}".rstrip(),
            lines + (f"<div>{or_paste}</div><pre>{html.escape(stub)}</pre>" if stub else ""),
        )
    except (Problem, ValueError) as problem:
        print(problem)
