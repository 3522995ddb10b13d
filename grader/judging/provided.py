"""Code that an exercise gives, put in place: what is judged through it is judged through the course's, whatever the cell says.

`with_provided` puts it behind the student's answer; `problem` looks into the logs that come of it, where an answer that has changed
Python around it shows.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from triton.runtime.jit import JITFunction

import grader
from course_lib.exercise import Exercise
from course_lib.exercises import find, unit_of
from grader.catalogue import say
from grader.judging import submission
from tritontrace.replay import BUILTINS, describe, load

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


def with_provided(exercise: Exercise, cells: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return an answer's cells, with the exercise's given definitions in place of the student's copies. Each stays at the line where the
    student's cell has it, since a message may name a line."""
    if not exercise.given:
        return cells
    where, lines = _first_lines(cells[-1][1]), []
    for name, text in sorted(definitions(exercise.id).items(), key=lambda item: where.get(item[0], math.inf)):
        lines += [""] * (where.get(name, 0) - 1 - len(lines)) + text.splitlines()
    return [*cells, ("<given imports>", IMPORTS), ("<given>", "\n".join([*lines, ""]))]


def _first_lines(cell: str) -> dict[str, int]:
    """The line in which each function of a cell begins, its decorators included; none of a cell that Python cannot read."""
    try:
        functions = [node for node in ast.parse(cell).body if isinstance(node, ast.FunctionDef)]
    except (SyntaxError, ValueError):
        return {}
    return {f.name: min([f.lineno, *(d.lineno for d in f.decorator_list)]) for f in functions}


def source(exercise_id: str) -> str:
    """Return the source of all definitions that the exercise gives."""
    return IMPORTS + "".join(f"\n\n{text}\n" for text in definitions(exercise_id).values())


@functools.cache
def definitions(exercise_id: str) -> dict[str, str]:
    """Return the definitions of the names that the exercise gives, as the notebook was handed out. Raises KeyError if one is missing."""
    exercise = find(exercise_id)
    unit = unit_of(exercise.id)
    released = submission.read(grader.released(unit), [exercise])
    text = next(cell.source for cell in released.cells if cell.grade_id == exercise.grade_id)
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found[node.name] = "\n".join(lines[first - 1 : node.end_lineno])
    return {name: found[name] for name in exercise.given}


def problem(exercise: Exercise, logs: Sequence[Mapping[str, Any]]) -> str:
    """Return a message if another kernel was launched than the exercise gives, else "". Raises KeyError or TypeError if a log is bad."""
    if not exercise.given:
        return ""
    own = _descriptions(exercise.id)
    for log in logs:
        for key in (event["launch"] for call in log["calls"] for event in call["events"] if "launch" in event):
            if _without_the_students(log["kernels"][key]) not in own:
                return say("judging.answer.other_kernel")
    return ""


@functools.cache
def _descriptions(exercise_id: str) -> list[dict[str, Any]]:
    """Descriptions of the kernels that the exercise gives, each without the kernels that it calls."""
    exercise = find(exercise_id)
    tree = ast.parse(source(exercise_id))
    missing = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    missing -= {*exercise.given, *BUILTINS}
    stubs = "".join(f"@triton.jit\ndef {name}(x):\n    return x\n\n\n" for name in sorted(missing))
    cells = [
        ("<imports>", IMPORTS),
        (f"<what {exercise_id} asks for>", stubs),
        (f"<{exercise_id}>", source(exercise_id)),
    ]
    scope = load(cells, exercise.entry).__globals__
    table: dict[str, Any] = {}
    given = [scope[name] for name in exercise.given if isinstance(scope[name], JITFunction)]
    return [_without_the_students(table[describe(kernel, table)]) for kernel in given]


def _without_the_students(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A description, wherever the kernel stands; of a name that stands for a kernel it says that alone."""
    names = {name: "a kernel" if set(value) == {"kernel"} else value for name, value in entry["names"].items()}
    return {**entry, "names": names, "line": 0}
