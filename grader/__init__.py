"""The instructors' part: sources are built into notebooks, and what students hand in is judged.

    __main__.py          `python -m grader`: all commands in one
    commands/            what `python -m grader` does, by what it is about
    command_line.py      the arguments and options of commands, and how they print
    child/               the processes that run student code, and what holds them
    judging/             an answer -> its verdict
    cohort/              a class: who judges what it hands in
    gradebook/           verdicts in nbgrader, late days, its exchange
    lms/                 class lists, submissions, marks and feedback: to and from an LMS
    reporting/           the class report
    packing/             packs for other graders
    audit/               other answers, and whether they lose what they should
    building/            sources -> notebooks
    published.py         the published solutions, as programs
    disk.py              what a full or read-only disk refuses
    doctor.py            what this machine offers for all that
    nbgrader_config.py   switches nbgrader's part on; nbgrader reads it in the folder of a class
    catalogue/           the sentences of grading that a student reads
    templates/           pages of feedback and reports

course_lib never imports this package, and this package never imports a solution.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import tritontrace
from course_lib import content

if TYPE_CHECKING:
    from course_lib.exercise import Exercise

# With it, jsonschema, and so nbformat, builds a parser for addresses when it is loaded, which takes a second. No schema of
# notebooks asks for one, and without the package jsonschema takes every address for a good one.
cast("dict[str, Any]", sys.modules).setdefault("rfc3987_syntax", None)

ROOT = Path(__file__).resolve().parent.parent
ENGINE = Path(tritontrace.__file__).resolve().parents[1]  # the folder with the library that traces kernels
TEMPLATES = ROOT / "grader" / "templates"
GPUMode = Literal["none", "shown", "counts"]
"""What a class does with a GPU: nothing; kernels run there, too, and what is wrong there is shown; or it is wrong."""


def sources(package: Path) -> list[Path]:
    """List the files that decide what a package does and says: its code, its catalogue of sentences, and its exercises' data."""
    return sorted([*package.rglob("*.py"), *package.glob("catalogue/*.toml"), *package.glob("exercises/**/*.toml")])


def exercises(unit: str) -> dict[str, Exercise]:
    """Return the exercises of a unit such as "04_memory_coalescing", by id. Raises ValueError if there is no such unit."""
    from course_lib.exercises import UNITS

    if unit not in UNITS:
        raise ValueError(f"There is no unit {unit!r}. There are: {', '.join(UNITS)}.")
    return import_module(f"course_lib.exercises.{UNITS[unit]}").EXERCISES


def released(unit: str) -> Path:
    """Return the path of the notebook as students got it."""
    return content.ROOT / "notebooks" / unit / f"{unit}.ipynb"


def home() -> Path:
    """Return the folder with submitted/, autograded/, feedback/, the gradebook and the secret: $GRADER_HOME, else the clone's grader/."""
    return Path(os.environ.get("GRADER_HOME", content.OWN / "grader")).resolve()
