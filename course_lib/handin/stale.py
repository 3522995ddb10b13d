"""Stale definitions: after a cell that failed, Python still knows the version before it. A check then says which one it judges."""

from __future__ import annotations

import ast
import re
import sys
import traceback
from typing import Any

from course_lib.catalogue import say

_stopped: dict[int, tuple[str, int]] = {}  # number of a cell -> the error at which it stopped, and its line there


def watch() -> None:
    """Record from now on which cells of this notebook stop at an error; do nothing outside of a notebook."""
    shell = _shell()
    if shell is not None and _remember not in shell.events.callbacks["post_run_cell"]:
        _stopped.clear()
        shell.events.register("post_run_cell", _remember)


def newer_version(name: str) -> str:
    """Return a message if the last run cell that defines `name` stopped before its definition, so that an older one is in use; else ""."""
    number, cell = _last(name)
    if not number:
        return ""
    try:
        statements = ast.parse(_shell().transform_cell(cell)).body
    except SyntaxError as error:
        return say("handin.stale.syntax_error", name=name, line=error.lineno)
    if number not in _stopped:
        return ""
    error, line = _stopped[number]
    undone = {made for s in statements if s.end_lineno >= line for made in _defined(s)}
    if not undone:
        return ""
    return say("handin.stale.stopped", name=name, line=line, error=error, undone=name in undone)


def last_cell(name: str) -> str:
    """Return the source of the cell that was run last to define `name`; "" outside of a notebook, or if there is none."""
    return _last(name)[1]


def _last(name: str) -> tuple[int, str]:
    """The number and the source of that cell; (0, "") if there is none."""
    history = getattr(_shell(), "history_manager", None)
    cells = history.input_hist_raw if history else []  # as typed; `In` holds a cell under a magic as one call
    for number in range(len(cells) - 1, 0, -1):
        if re.search(rf"^(def|class) +{name}\b|^{name} *=[^=]", cells[number], re.M):
            return number, cells[number]
    return 0, ""


def _shell() -> Any:
    """IPython's shell, where this is a notebook: then IPython is loaded."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def _remember(result: Any) -> None:
    error = result.error_in_exec
    if error is None or result.execution_count is None:
        return
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    if lines:
        _stopped[result.execution_count] = type(error).__name__, lines[0] or 0


def _defined(statement: ast.stmt) -> set[str]:
    """The function, class or variables that a statement gives a name."""
    match statement:
        case ast.FunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Assign():
            return {target.id for target in statement.targets if isinstance(target, ast.Name)}
    return set()
