"""A unit of two exercises, small enough to build and grade in a test."""

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from nbgrader.converters import Autograde, GenerateFeedback

import course_lib.exercises
from course_lib.exercise import Criterion, Effort, Exercise, Finding, Verdict
from grader import nbgrader_config
from grader.building import build
from grader.gradebook import converting
from grader.judging import submission

UNIT = "90_toy"

SOURCE = '''\
# %% [markdown]
# # 90 · Toy
# If $a < b$ then `a < b`.

# %%
import math

from course_lib import check  # noqa: F401

# %% predict="toy.guess"
guess = ...

# %% exercise="toy.double"
def double(x):
    """2 x"""
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION

# %% check="toy.double"
check("toy.double", double)

# %% [markdown]
# More.

# %% exercise="toy.root"
def root(x):
    ### BEGIN SOLUTION
    return math.sqrt(x)
    ### END SOLUTION

# %% check="toy.root"
check("toy.root", root)
'''
ONE = SOURCE[: SOURCE.index("# %% [markdown]\n# More")]  # double alone


@dataclass
class Worth(Criterion):
    """A criterion that is worth points and judges nothing."""

    points: float
    title: str = "worth"


def exercise(name: str, points: float, bonus: float = 0) -> Exercise:
    return Exercise(
        id=f"toy.{name}",
        signature=f"{name}(x)",
        effort=Effort(minutes=1, lines=1, difficulty=1),
        cases=(),
        oracle=lambda x: x,
        kind="formula",
        criteria=[Worth(points)],
        bonus=[Worth(bonus)] if bonus else [],
    )


def install(monkeypatch, *exercises: Exercise) -> list[Exercise]:
    """Makes the toy a unit of course_lib for the length of a test."""
    exercises = exercises or (exercise("double", 10, bonus=2), exercise("root", 4))
    module = ModuleType("course_lib.exercises.toy")
    module.EXERCISES = {e.id: e for e in exercises}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(course_lib.exercises.UNITS, UNIT, "toy")
    return list(exercises)


def verdict(name: str, points: float, out_of: float, **more) -> Verdict:
    finding = Finding(
        "right on plain sizes",
        points,
        out_of,
        "passed" if points == out_of else "failed",
        "2.0",
        "1.0",
        "Is 2 missing?",
    )
    return Verdict(f"toy.{name}", points, out_of, [finding], **more)


def grade_with_nbgrader(home, unit, students=None, *, root):
    """The plain `nbgrader autograde` and `nbgrader generate_feedback`, which know no verdicts: student -> "ok", or a sentence."""
    home = Path(home).resolve()
    everybody = sorted(folder.parent.name for folder in (home / "submitted").glob(f"*/{unit}"))
    converting.register(home, unit, root=root)
    settings = nbgrader_config.config(home, root=root)

    def grade(student):
        if problem := submission.misnamed(student):  # as `grader autograde` has it, which hands no such name on
            return problem
        steps = (converting.convert(converter, settings, unit, student) for converter in (Autograde, GenerateFeedback))
        return next(filter(None, steps), "ok")

    return {student: grade(student) for student in students or everybody}


def build_as(folder, monkeypatch, source: str, *exercises: Exercise) -> None:
    """Makes this source the toy unit in `folder`, with these exercises."""
    install(monkeypatch, *exercises)
    (folder / "solutions").mkdir(exist_ok=True)
    (folder / "solutions" / f"{UNIT}.py").write_text(source)
    build.build(UNIT, execute=False, root=folder)
