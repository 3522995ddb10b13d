"""The result of a recorded call where nothing is rounded, evaluated in a child that knows no exercise."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from tritontrace.replay import Tape, child

SECONDS = 1.5  # of CPU, which a wrong answer may cost more for it


def repeated(log: Mapping[str, Any], allows: Collection[str]) -> Callable[..., Any]:
    """Make a function of a call's arguments that repeats the recorded operations of the first call."""

    def again(**arguments: Any) -> Any:
        tape = Tape(log, allows=allows, language="Triton")
        tape.bind(0, arguments)
        return tape.run(0)

    return again


def evaluated(log: Mapping[str, Any], arguments: dict[str, Any], allows: Collection[str]) -> Any:
    """Return the result of the first recorded call in exact arithmetic, as a tree; None where that has no meaning."""
    from tritontrace import exact

    try:
        return exact.evaluated(repeated(log, allows), arguments)
    except Exception:
        return None


def evaluated_apart(log: Mapping[str, Any], arguments: dict[str, Any], allows: Collection[str]) -> Any:
    """Run `evaluated` in a child process. Raises ChildLost if that takes too long."""
    return child.run(partial(evaluated, log, arguments, allows), seconds=SECONDS)[0]
