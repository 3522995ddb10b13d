"""The student's files: which notebook this is, which unit it belongs to, and how that unit was handed out."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from course_lib import content
from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises import UNITS, ids
from course_lib.handin.cells import Cell, Problem, parse, small_enough


def here(name: str = "") -> Path:
    """Return the path of the notebook of that name, or of this kernel's. Raises Problem if there is none, or several may be meant.

    JupyterLab says which notebook it started the kernel for; elsewhere it is the one in this folder that is named after
    the folder, or the only one.
    """
    folder = Path.cwd()
    found = sorted(folder.glob("*.ipynb"))
    there = {"any": bool(found), "notebooks": [path.name for path in found]}
    if name:
        path = Path(str(name)).absolute()
        if not path.is_file():
            raise Problem(say("handin.notebook.no_such", name=str(name), **there))
        return path
    session = Path(os.environ.get("JPY_SESSION_NAME", ""))
    if session.suffix == ".ipynb" and session.is_file():
        return session
    named = [path for path in found if path.stem == folder.name] or found
    if len(named) != 1:
        raise Problem(say("handin.notebook.which", **there))
    return named[0]


def read(path: Path) -> tuple[bytes, list[Cell]]:
    """Read a saved notebook: its bytes and its cells. Raises Problem if it cannot be read."""
    try:
        small_enough(path.name, path.stat().st_size)
        content = path.read_bytes()
    except OSError as error:
        raise Problem(say("handin.notebook.unreadable", name=path.name, why=error.strerror)) from None
    return content, parse(content, path.name)


def exercises(unit: str) -> list[Exercise]:
    """List the exercises of a unit such as "04_memory_coalescing", in order."""
    return list(import_module(f"course_lib.exercises.{UNITS[unit]}").EXERCISES.values())


def unit_of(cells: Iterable[Cell]) -> str:
    """Return the unit that most cells belong to, by their ids or by the checks that they call; "" if none does."""
    cells = list(cells)
    marked = {cell.grade_id for cell in cells}
    called = {
        ids.current(name)
        for cell in cells
        if cell.kind == "code"
        for name in re.findall(r'\bcheck\("([\w.]+)"', cell.source)
    }
    found = Counter({unit: sum(e.grade_id in marked or e.id in called for e in exercises(unit)) for unit in UNITS})
    unit, count = found.most_common(1)[0]
    return unit if count else ""


def released(unit: str) -> Path:
    """Return the path of the unit's notebook as it was handed out; it need not exist."""
    return content.ROOT / "notebooks" / unit / f"{unit}.ipynb"
