"""A graded class of the toy unit for what instructors get: the real nbgrader, a judge that says what a test wants."""

import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import toy
from test_preprocessors import cell_of, hand_in, nb_of
from toy import UNIT

from course_lib.exercise import ErrorMap, Finding, Verdict
from grader.building import build
from tritontrace.results import Cause

HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> {{ 1234*5678 }} =HYPERLINK(1)"


def verdict(name, points, out_of, *findings, **more):
    known = [replace(finding, key=finding.title) for finding in findings]
    return Verdict(f"toy.{name}", points, out_of, known, **more)


RIGHT = {
    "toy.double": verdict(
        "double", 10, 10, Finding("right on plain inputs", 10, 10, "passed", seen="right in 3 cases"), bonus=1.5
    ),
    "toy.root": verdict("root", 4, 4, Finding("right on plain inputs", 4, 4, "passed", seen="right in 3 cases")),
}
WRONG = RIGHT | {
    "toy.double": verdict(
        "double",
        6,
        10,
        Finding("runs", 0, 0, "passed", seen="", gate=True),
        Finding("right on plain inputs", 6, 6, "passed", seen="right in 3 cases"),
        Finding(
            "right on ragged inputs",
            0,
            4,
            "failed",
            "right",
            "12 of 99 differ",
            HOSTILE,
            on="130 x 33",
            error_map=ErrorMap([[0.5]], 3, 3, [0, 2, 0, 2]),
        ),
        printed=HOSTILE,
    )
}
BLANK = {
    "toy.double": verdict(
        "double",
        0,
        10,
        Finding(
            "runs",
            0,
            0,
            "failed",
            seen="double returns nothing yet (is a `return` missing?)",
            cause=Cause("blank"),
            gate=True,
        ),
    ),
    "toy.root": verdict(
        "root",
        0,
        4,
        Finding(
            "runs",
            0,
            0,
            "failed",
            seen="root returns nothing yet (is a `return` missing?)",
            cause=Cause("blank"),
            gate=True,
        ),
    ),
}
SAYS = {"ada": RIGHT, "ben": WRONG, "cyd": WRONG, "dee": BLANK}


def make(patch, folder, says=SAYS, source=None):
    """Builds the toy unit in `folder`, hands in and grades one notebook for each student; returns the grader's home.

    source    student -> what to write into the cell of toy.double

    nbgrader takes seconds for that: a class that was made before in this process is copied.
    """
    toy.install(patch)
    made = _made.get(key := repr((says, source)))
    if made is None:
        made = _made[key] = Path(tempfile.mkdtemp(dir=folder.parent))  # among pytest's own, which go with them
        _graded(patch, made, says, source or {})
    shutil.copytree(made, folder, dirs_exist_ok=True)
    _is_in(folder, patch)
    judged(patch, says)
    return folder / "class"


_made: dict[str, Path] = {}


def _graded(patch, folder, says, source):
    (folder / "solutions").mkdir()
    (folder / "solutions" / f"{UNIT}.py").write_text(toy.SOURCE)
    build.build(UNIT, execute=False, root=folder)
    for student in says:
        nb = nb_of(folder)
        if student in source:
            cell_of(nb, "toy-double")["source"] = source[student]
        hand_in(folder, student, json.loads(json.dumps(nb)))
    _is_in(folder, patch)
    judged(patch, says)
    outcomes = toy.grade_with_nbgrader(folder / "class", UNIT, root=folder)
    assert set(outcomes.values()) == {"ok"}, outcomes


def _is_in(folder, patch):
    """Makes this folder's class the one that the grader works on."""
    patch.setenv("GRADER_HOME", str(folder / "class"))
    patch.setattr("grader.released", lambda unit: folder / "notebooks" / unit / f"{unit}.ipynb")


def judged(patch, says):
    """Makes the judge say this from now on: student -> exercise -> verdict."""
    patch.setattr("grader.cohort.single.verdicts", lambda unit, student, path: says[student])
