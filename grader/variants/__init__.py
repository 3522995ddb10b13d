"""Wrong, wasteful, cheating and honest-but-unusual solutions of each exercise, and what each must lose.

Most are one-line patches of the published solution; never shipped to students. Every unit has a module here with a list
VARIANTS.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import cache

from course_lib.exercises import UNITS


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
        return [("<imports>", IMPORTS), ("<solution>", source)]


IMPORTS = "import torch\nimport triton\nimport triton.language as tl\n"


@cache
def _unit_cells(unit: str) -> dict[str, str]:
    import jupytext

    from grader import ROOT

    notebook = jupytext.read(ROOT / "solutions" / f"{unit}.py", fmt="py:percent")
    return {c.metadata["exercise"]: c.source for c in notebook.cells if "exercise" in c.metadata}


def solution_cell(exercise_id: str) -> str:
    """The published solution: the source of its cell in solutions/."""
    unit = next(u for u, module in UNITS.items() if module == exercise_id.split(".")[0])
    return _unit_cells(unit)[exercise_id]


def of_unit(module: str) -> list[Variant]:
    return importlib.import_module(f"grader.variants.{module}").VARIANTS
