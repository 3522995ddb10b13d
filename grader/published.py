"""The published solutions as the grader reads them, by the text of solutions/: their cells, and programs that run one.

Nothing is imported from there. Workers judge these programs before anything that is handed in, and where a mistake is to cost
once alone, their functions take the place of a student's.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from course_lib import content
from course_lib.exercise import Exercise
from course_lib.exercises import unit_of
from grader import exercises

IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


def answer(exercise_id: str, source: str) -> list[tuple[str, str]]:
    """Return the cells that define the exercise by `source`: imports first, and the published solutions of exercises that it calls, or of
    whose helpers it calls one."""
    unit = unit_of(exercise_id)
    calls = set(re.findall(r"\b(\w+)\(", source)) - _defined(source)
    others = [e for e in exercises(unit).values() if e.id != exercise_id]
    called = [e for e in others if calls & {e.entry, *_defined(solution_cells(unit).get(e.id, ""))}]
    return [
        ("<imports>", IMPORTS + _more_imports(unit)),
        *((f"<{e.entry}>", solution_cell(e.id)) for e in called),
        ("<solution>", source),
    ]


def _defined(source: str) -> set[str]:
    """The functions that a cell defines."""
    return set(re.findall(r"^def (\w+)\(", source, re.M))


@cache
def _more_imports(unit: str) -> str:
    """Imports that the unit's notebook adds to the common ones: of Python's own modules, of other libraries such as einops, and of
    the names of Gluon."""
    source = content.ROOT / "solutions" / f"{unit}.py"
    text = source.read_text() if source.exists() else ""  # the suite's toy units have none
    gluon = re.findall(r"^from tritontrace\.hopper\.language import (?:\((?:.*\n)+?\)|[^(\n]*)\n", text, re.M)[:1]
    # as far as the first cell goes: demonstrations have imports of their own
    text = text.partition("\nfrom course_lib import ")[0]
    return "".join(gluon) + "".join(
        re.findall(
            r"^(?:from (?!course_lib|tritontrace)\w+ import .*|import (?!torch|triton)\w+(?: as \w+)?)\n", text, re.M
        )
    )


@cache
def solution_cells(unit: str) -> dict[str, str]:
    """Return the source of each exercise's cell in a unit's published solutions. A cell ends where the next `# %%` begins."""
    source = content.ROOT / "solutions" / f"{unit}.py"
    text = source.read_text() if source.exists() else ""  # the suite's toy units have none
    cells = re.findall(r'^# %% exercise="([^"]+)".*\n((?:(?!# %%).*\n)*)', text, re.M)
    return {exercise: source.strip() + "\n" for exercise, source in cells}


def solution_cell(exercise_id: str) -> str:
    """Return the source of an exercise's published solution."""
    return solution_cells(unit_of(exercise_id))[exercise_id]


def published(exercise_id: str, name: str = "", *, on_the_cpu: bool = True) -> Any:
    """Load the object that the published solution defines as `name`; without a name, the exercise's entry."""
    from tritontrace.replay import load  # brings torch and Triton

    entry = name or exercises(unit_of(exercise_id))[exercise_id].entry
    return load(answer(exercise_id, solution_cell(exercise_id)), entry, on_the_cpu=on_the_cpu)


def called(exercise: Exercise, cells: list[tuple[str, str]]) -> Callable[..., Any]:
    """Load the function that the cells of an answer define, wrapped to be called as a check calls it."""
    from course_lib.execution.calls import CALLS
    from tritontrace.replay import load

    function = load(cells, exercise.entry, on_the_cpu=True)
    return lambda **arguments: CALLS[exercise.called](function, arguments, lambda what="": 0)
