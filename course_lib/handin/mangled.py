"""Cells that are not what was meant: read as meant where that is plain, else named.

an answer cell that became Markdown or raw, or was split below a decorator    read, with a remark
a merge conflict's markers, `%%writefile`, an answer in a cell of another kind    named, with the line
an import of a file that was not handed in                                    named, with the line
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec

from course_lib.catalogue import say
from course_lib.handin.cells import CONFLICT, Cell
from course_lib.handin.statements import parsed

FENCE = re.compile(r"[ \t]*(```|~~~)\s*\w*\s*")
IN_PYTHON = ("time", "timeit", "capture", "prun")  # magics whose cell runs here


def as_code(cells: Sequence[Cell], answers: Mapping[str, str]) -> tuple[list[Cell], dict[int, str]]:
    """Turn answer cells that became Markdown or raw back into code. Return all cells, and the number of each changed one -> a remark.

    answers    grade_id -> the name that its cell defines
    """
    in_code = {cell.grade_id for cell in cells if cell.kind == "code"}
    remarks: dict[int, str] = {}

    def read(cell: Cell) -> Cell:
        entry = answers.get(cell.grade_id)
        if cell.kind == "code" or not entry or cell.grade_id in in_code or not _defines(cell, entry):
            return cell
        remarks[cell.number] = say("handin.answer.read_as_code", cell=cell.number, kind=_kind(cell))
        return replace(cell, kind="code", source=_without_fences(cell.source))

    return [read(cell) for cell in cells], remarks


def joined(cells: Sequence[Cell], broken: Mapping[int, str]) -> tuple[list[Cell], dict[int, str]]:
    """Join each cell that does not parse with the following cells of the same id, if they parse as one. Return all cells, and the number of
    each changed one -> a remark. broken: the numbers of the cells that do not parse."""
    remarks: dict[int, str] = {}
    done = list(cells)
    for at, cell in enumerate(done):
        if cell.number not in broken or cell.kind != "code":
            continue
        whole = cell.source
        for behind in range(at + 1, min(at + 4, len(done))):
            half = done[behind]
            if half.kind != "code" or half.grade_id != cell.grade_id:
                break
            whole += f"\n{half.source}"
            if _parses(whole):
                done[at] = replace(cell, source=whole)
                done[at + 1 : behind + 1] = [replace(other, source="") for other in done[at + 1 : behind + 1]]
                remarks[cell.number] = say("handin.answer.split_cell", first=cell.number, last=half.number)
                break
    return done, remarks


def conflict(source: str) -> str:
    """Return a message on the line with a merge's conflict marker, "" if there is none."""
    for number, line in enumerate(source.split("\n"), 1):
        if line.startswith(CONFLICT):
            return say("handin.answer.conflict", line=number, marker=line[:30])
    return ""


def elsewhere(cells: Sequence[Cell], entry: str, given: set[str]) -> str:
    """Return a message on a cell that defines the name but does not run, "" if there is none. given: sources as they were handed out."""
    defining = re.compile(rf"^[ \t]*(?:def|class)[ \t]+{re.escape(entry)}\b|^{re.escape(entry)}[ \t]*=", re.M)
    for cell in reversed(cells):
        if cell.source in given or not (match := defining.search(cell.source)):
            continue
        line = cell.source.count("\n", 0, match.end()) + 1
        facts = {"cell": cell.number, "name": entry, "line": line}
        if cell.kind != "code":
            return say("handin.answer.no_code", **facts, kind=_kind(cell))
        magic = re.match(r"\s*%%(\w+)", cell.source)
        if magic and magic[1] not in IN_PYTHON:
            return say("handin.answer.magic", **facts, magic=magic[1])
    return ""


def absent(node: ast.stmt) -> str:
    """Return the module that an import names and that is not installed, "" if there is none."""
    if isinstance(node, ast.ImportFrom):
        names = ["." * node.level + (node.module or "")]
    else:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    return next((name for name in names if not _is_here(name.partition(".")[0])), "")


@lru_cache(maxsize=256)
def _is_here(name: str) -> bool:
    try:
        return bool(name) and find_spec(name) is not None
    except (ImportError, ValueError):  # the latter of a module that was made by hand, and so is here
        return True


def _kind(cell: Cell) -> str:
    return "Markdown" if cell.kind == "markdown" else cell.kind


def _without_fences(source: str) -> str:
    """A cell's code without the lines by which Markdown marks it; the others stay where they are."""
    return "\n".join("" if FENCE.fullmatch(line) else line for line in source.split("\n"))


def _defines(cell: Cell, entry: str) -> bool:
    try:
        _, tree = parsed(_without_fences(cell.source))
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    targets = {
        target.id
        for s in tree.body
        if isinstance(s, ast.Assign)
        for target in s.targets
        if isinstance(target, ast.Name)
    }
    return entry in targets | {s.name for s in tree.body if isinstance(s, (ast.FunctionDef, ast.ClassDef))}


def _parses(source: str) -> bool:
    try:
        parsed(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True
