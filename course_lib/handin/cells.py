"""A notebook's bytes -> its cells: kind, source, grade_id. Tags and foreign metadata are never looked at; outputs are dropped
as they are read, so that they may be large."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from course_lib.catalogue import say
from course_lib.exercises import ids
from tritontrace.messages import MessageError

MAX_FILE = 100_000_000  # bytes, outputs included
MAX_SOURCE = 500_000  # characters in all cells
MAX_LINES = 20_000  # in all cells; a semicolon counts as one
MAX_PARTS = 5_000_000  # lists and objects: a bracket of two bytes takes sixty in memory
MAX_CELLS = 2_000
CONFLICT = ("<<<<<<< ", ">>>>>>> ")  # git's markers, at the beginning of a line
DROPPED = {"outputs", "attachments"}  # of a notebook's objects, before the next one is read


class Problem(MessageError):
    """Raised with one sentence for the student: why there is nothing to run."""


@dataclass(frozen=True)
class Cell:
    """One cell of a notebook."""

    number: int  # counted from 1
    kind: Literal["code", "markdown", "raw"]
    source: str
    grade_id: str = ""


def small_enough(name: str, size: int) -> None:
    """Raise Problem if a notebook of `size` bytes is too large to be read."""
    if size > MAX_FILE:
        raise Problem(say("handin.notebook.large", name=name, size=size / 1e6, most=MAX_FILE // 1_000_000))


def parse(content: bytes, name: str) -> list[Cell]:
    """Parse the cells of a notebook of any version. Raises Problem if it is none, or too large; `name` is what the sentence calls it."""
    small_enough(name, len(content))
    if (parts := content.count(b"[") + content.count(b"{")) > MAX_PARTS:
        raise Problem(say("handin.notebook.lists", name=name, parts=parts, most=MAX_PARTS))
    try:
        # UTF-8, or what an editor on Windows made of it
        notebook = json.loads(content, object_pairs_hook=_without_outputs)
    except (ValueError, RecursionError) as error:
        for number, line in enumerate(content.split(b"\n"), 1):
            if line.startswith(tuple(marker.encode() for marker in CONFLICT)):
                why = say("handin.notebook.conflict", line=number)
                raise Problem(say("handin.notebook.none", name=name, why=why)) from None
        where = (
            say("handin.notebook.where", line=error.lineno)
            if isinstance(error, json.JSONDecodeError) and error.lineno > 1
            else ""
        )
        raise Problem(say("handin.notebook.no_json", name=name, where=where)) from None
    return _cells(notebook, name)


def _without_outputs(pairs: list[tuple[str, object]]) -> dict:
    return {name: value for name, value in pairs if name not in DROPPED}


def _cells(notebook: object, name: str) -> list[Cell]:
    notebook = _dict(notebook)
    found = notebook.get("cells")
    if not isinstance(found, list):  # nbformat 3
        found = [c for sheet in _list(notebook.get("worksheets")) for c in _list(_dict(sheet).get("cells"))]
    if not found:
        raise Problem(say("handin.notebook.no_cells", name=name))
    if len(found) > MAX_CELLS:
        raise Problem(say("handin.notebook.cells", name=name, cells=len(found), most=MAX_CELLS))
    cells = []
    for number, raw in enumerate(map(_dict, found), 1):
        kind = raw.get("cell_type")
        grade_id = _dict(_dict(raw.get("metadata")).get("nbgrader")).get("grade_id")
        cells.append(
            Cell(
                number=number,
                kind=kind if kind in ("code", "raw") else "markdown",
                source=_text(raw.get("source", raw.get("input"))),
                grade_id=ids.current_cell(grade_id) if isinstance(grade_id, str) else "",
            )
        )
    if (length := sum(len(cell.source) for cell in cells)) > MAX_SOURCE:
        raise Problem(say("handin.notebook.characters", name=name, characters=length, most=MAX_SOURCE))
    if (lines := sum(cell.source.count("\n") + cell.source.count(";") for cell in cells)) > MAX_LINES:
        raise Problem(say("handin.notebook.lines", name=name, lines=lines, most=MAX_LINES))
    return cells


def _dict(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list:
    return value if isinstance(value, list) else []


def _text(value: object) -> str:
    text = "".join(part for part in value if isinstance(part, str)) if isinstance(value, list) else value
    text = text if isinstance(text, str) else ""
    return text.encode("utf-8", "replace").decode()  # lone surrogates could be written to no file
