"""What only instructors have: sources are built into notebooks, and what students hand in is judged.

    build.py            solutions/NN_topic.py -> the instructor's and the student's notebook
    submission.py       a file as handed in -> course_lib.handin: the program to run for each exercise
    judge.py            secrets, references, criteria -> verdicts; zygote.py and timing.py run the code for it
    sandbox.py          what keeps that code to itself: bubblewrap, landlock.py, seccomp.py, limits
    doctor.py           what this machine offers for all that
    preprocessors.py    verdicts into nbgrader's chain; nbgrader_config.py switches it on
    classroom.py        a whole class

course_lib never imports this package, and this package never imports a solution.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from course_lib.exercise import Exercise

ROOT = Path(__file__).resolve().parent.parent


def exercises(unit: str) -> dict[str, Exercise]:
    """The exercises of a unit such as "04_memory_coalescing", by id. ValueError if there is no such unit."""
    from course_lib.exercises import UNITS

    if unit not in UNITS:
        raise ValueError(f"There is no unit {unit!r}. There are: {', '.join(UNITS)}.")
    return import_module(f"course_lib.exercises.{UNITS[unit]}").EXERCISES


def released(unit: str) -> Path:
    """The notebook as students got it."""
    return ROOT / "notebooks" / unit / f"{unit}.ipynb"


def home() -> Path:
    """The folder with submitted/, autograded/, feedback/, the gradebook and the secret: $GRADER_HOME, else grader/."""
    return Path(os.environ.get("GRADER_HOME", ROOT / "grader")).resolve()
