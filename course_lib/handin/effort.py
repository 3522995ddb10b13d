"""effort(): how many checks and hints a unit took. The numbers stand in the output of the cell, so whoever hands it in shares them."""

from __future__ import annotations

import html

from course_lib import logbook, metadata
from course_lib.catalogue import say
from course_lib.exercises import UNITS
from course_lib.handin import files
from course_lib.handin.cells import Problem
from course_lib.metadata import SharedEffort
from course_lib.render import show


def effort(unit: str = "") -> None:
    """Print how many checks and hints you have asked for in each exercise. unit: where the notebook does not tell."""
    try:
        unit = unit or logbook.unit_here() or files.unit_of(files.read(files.here())[1])
    except Problem:
        unit = ""
    if unit not in UNITS:
        print(say("handin.effort.which_unit", example=next(iter(UNITS))))
        return
    counted = {exercise.id: logbook.effort(exercise.id) for exercise in files.exercises(unit)}
    asked = {name: each for name, each in counted.items() if any(each.values())}
    shared = SharedEffort(unit, *({name: each[what] for name, each in asked.items()} for what in ("checks", "hints")))
    lines = [say("handin.effort.exercise", exercise=name, **each) for name, each in asked.items()]
    text = [say("handin.effort.unit", unit=unit, any=bool(lines)), *lines, say("handin.effort.shared")]
    of_output: dict = {}
    metadata.write(of_output, shared)
    show("\n".join(text), "".join(f"<div>{html.escape(line)}</div>" for line in text), metadata=of_output)
