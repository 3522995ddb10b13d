"""Wrong, wasteful, cheating and honest-but-unusual solutions of each exercise, and what each must lose.

Most are one-line patches of the published solution; never shipped to students. Every unit has a module here with a list
VARIANTS.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from functools import cache

from course_lib.exercises import UNITS
from grader import ROOT, exercises


@dataclass(frozen=True)
class Variant:
    """One way to answer an exercise other than the published one.

    loses     titles of the gates or criteria that must fail, all of them and no others; () for full marks
    patches   (old, new) replacements in the source of the solution's cell, each of which must apply; or
    source    a whole cell
    """

    exercise: str
    name: str
    loses: tuple[str, ...]
    patches: tuple[tuple[str, str], ...] = ()
    source: str = ""

    def cells(self) -> list[tuple[str, str]]:
        """The program to judge: imports, then the cell. ValueError if a patch does not apply."""
        source = self.source or solution_cell(self.exercise)
        for old, new in self.patches:
            if old not in source:
                raise ValueError(f"{self.exercise}, {self.name}: the solution does not contain {old!r}")
            source = source.replace(old, new)
        return program(self.exercise, source)


IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


def program(exercise_id: str, source: str) -> list[tuple[str, str]]:
    """Cells that define the exercise by `source`: imports first, and the published solutions of exercises that it calls."""
    unit = _unit_of(exercise_id)
    called = [e for e in exercises(unit).values() if e.id != exercise_id and re.search(rf"\b{e.entry}\(", source)]
    return [
        ("<imports>", IMPORTS),
        *((f"<{e.entry}>", solution_cell(e.id)) for e in called),
        ("<solution>", source),
    ]


def _unit_of(exercise_id: str) -> str:
    return next(unit for unit, module in UNITS.items() if module == exercise_id.split(".")[0])


@cache
def _unit_cells(unit: str) -> dict[str, str]:
    """Exercise -> source of its cell in solutions/. A cell ends where the next `# %%` begins."""
    text = (ROOT / "solutions" / f"{unit}.py").read_text()
    cells = re.findall(r'^# %% exercise="([^"]+)".*\n((?:(?!# %%).*\n)*)', text, re.M)
    return {exercise: source.strip() + "\n" for exercise, source in cells}


def solution_cell(exercise_id: str) -> str:
    """The published solution: the source of its cell in solutions/."""
    return _unit_cells(_unit_of(exercise_id))[exercise_id]


def of_unit(module: str) -> list[Variant]:
    return importlib.import_module(f"grader.variants.{module}").VARIANTS
