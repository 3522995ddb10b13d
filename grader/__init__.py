"""What only instructors have: sources are built into notebooks, and what students hand in is judged.

A verdict
    submission.py       a file as handed in -> course_lib.handin: the program to run for each exercise
    bounded.py          the child with limits that reads it, and the pages made of it
    given.py            code that an exercise gives, put in place
    judge.py            secrets, references, criteria -> verdicts; runs no student code
    hidden/             cases that students never see
    untold.py           what a verdict may say of them
    carried.py          what was lost by an earlier exercise's mistake, given back
    zygote.py           forks the children that run it
    timing.py           the child that times it, on a GPU
    sandbox.py          what keeps it to itself: bubblewrap, limits, and the next two
    landlock.py         files that a child may see
    seccomp.py          system calls that a child may make
    verdicts.py         verdicts on disk, each under a hash of all that it depends on
    doctor.py           what this machine offers for all that

A class
    __main__.py         the commands
    rosters.py          class lists from an LMS
    enrolled.py         who is in the class
    imports.py          submissions from an LMS
    exchange.py         submissions through nbgrader's exchange
    classroom.py        a whole class
    canary.py           the published solutions, judged first
    workers.py          who judges it: processes, or a cluster
    single.py           one notebook, without a class
    books.py            nbgrader's gradebook, graded notebooks, feedback
    amended.py          exercises that a unit gains or loses after submissions
    regrade.py          what is judged anew, and whose marks changed
    frozen.py           units whose marks stay as they are
    disk.py             what a full or read-only disk refuses
    lock.py             one autograde at a time
    preprocessors.py    verdicts into nbgrader's chain
    pages.py            what students wrote, as HTML
    nbgrader_config.py  switches that on
    late.py             due dates and extensions
    flags.py            what a person should look at
    similar.py          sources that look alike
    results.py          what grading a unit has left
    report.py           the class report
    exports.py          marks as CSV
    scale.py            what a point is worth in a column of another maximum
    handback.py         feedback as Canvas and Moodle take it back
    templates/          pages of feedback and reports

The course
    build.py            solutions/NN_topic.py -> the instructor's and the student's notebook
    index.py            docs/solutions.md
    variants/           other answers, wrong or odd, and what each must lose
    kill_matrix.py      whether they do
    mutations.py        small changes of kernels: those that cost nothing are explained in survivors.toml
    samples/            the sample class

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
