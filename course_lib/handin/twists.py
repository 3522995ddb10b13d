"""twists("K7F3-Q2MD"): tasks of one's own, where a class asks for them.

A class gives each student a code, which says what is asked of whom (course_lib/exercises/twists.py). It is asked for once, and kept
beside the student's progress; a hub gives it by the variable COURSE_TWISTS. Checks follow it. The grader does not read it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from course_lib import content, logbook
from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises import twists as drawing
from course_lib.exercises import unit_of
from course_lib.exercises.twists import Draw
from course_lib.render import CELL, code, show

VARIABLE = "COURSE_TWISTS"
CLASS = content.ROOT / "notebooks" / "twists.json"
"""The units with twists, {"units": [...]}, in a copy that `grader release` made for a class that has some."""


def kept() -> Draw | None:
    """Return the student's draw of twists, from the code that the hub or the student gave; None without one."""
    try:
        return drawing.read(os.environ.get(VARIABLE) or _file().read_text())
    except (OSError, ValueError):
        return None


def asked(exercise: Exercise) -> Exercise:
    """Return the exercise with this student's twist. Raises ValueError where the class needs a code that is missing."""
    drawn, unit = kept(), unit_of(exercise.id)
    if drawing.of(exercise.id) and unit in _units_of_class() and (drawn is None or unit not in drawn.units):
        raise ValueError(say("handin.twists.no_code_for", exercise=exercise.id))
    return drawn.asked(exercise) if drawn else exercise


def twists(code_of_class: str = "") -> None:
    """Print which of your exercises have a twist, and its task. code_of_class: the code that your class gave you; it is saved."""
    try:
        drawn = drawing.read(code_of_class) if code_of_class else kept()
    except ValueError as error:
        print(error)
        return
    if drawn is None:
        print(say("handin.twists.no_code", example=drawing.EXAMPLE))
        return
    if code_of_class:
        _keep(drawn)
    here = [unit for unit in drawn.units if unit == logbook.unit_here()]
    tasks = [
        (exercise_id, twist.asks) for unit in here or drawn.units for exercise_id, twist in drawn.tasks(unit).items()
    ]
    rows = "".join(
        f'<tr><th scope="row" style="{CELL}font-weight:normal">{code(f"`{name}`")}</th><td style="{CELL}">{code(asks)}</td></tr>'
        for name, asks in tasks
    )
    head = say("handin.twists.tasks", code=drawn.code)
    lines = [head, *(f"{name}: {asks}" for name, asks in tasks)]
    show("\n".join(lines), f"<div>{code(head)}</div><table>{rows}</table>")


def _file() -> Path:
    return logbook.path().with_name("code.txt")


def _keep(drawn: Draw) -> None:
    """Keep the code. Where nothing can be written, the kernel knows it as long as it lives."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(drawn.code)
    except OSError:
        os.environ[VARIABLE] = drawn.code


def _units_of_class() -> list[str]:
    try:
        return list(json.loads(CLASS.read_text())["units"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
