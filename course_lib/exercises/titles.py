"""Titles of exercises, as the notebooks that are handed out head them: people read these, code and commands know ids."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import NamedTuple

from course_lib import content
from course_lib.exercises import UNITS

EXERCISE, MORE = "Exercise: ", "More"
HEADING = re.compile(r"^## +(.+)$", re.MULTILINE)


class Heading(NamedTuple):
    """Titles above an exercise's cell. title: its own; section: that of the text which it builds on, "" if there is none."""

    title: str
    section: str


def title(exercise_id: str) -> str:
    """Return the title of an exercise, such as "copy rows"; its id where no notebook has a heading for it."""
    return _heading(exercise_id).title


def section(exercise_id: str) -> str:
    """Return the title of the section to read again where an exercise went wrong; "" if there is none."""
    return _heading(exercise_id).section


def _heading(exercise_id: str) -> Heading:
    room = exercise_id.partition(".")[0]
    unit = next((unit for unit, module in UNITS.items() if module == room), "")
    return of_unit(unit).get(re.sub(r"\W", "-", exercise_id), Heading(exercise_id, ""))


@cache
def of_unit(unit: str) -> dict[str, Heading]:
    """Map the grade_id of each exercise's cell in a unit to its Heading."""
    path = content.ROOT / "notebooks" / unit / f"{unit}.ipynb"
    if not path.is_file():
        return {}
    found, heads = {}, Heading("", "")
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "markdown":
            for head in HEADING.findall("".join(cell["source"])):
                plain = re.sub(r"[`*]", "", head).strip()
                exercise = plain.startswith(EXERCISE)
                section = heads.section if exercise else "" if plain == MORE else plain
                heads = Heading(plain.removeprefix(EXERCISE), section)
        elif (meta := cell["metadata"].get("nbgrader", {})).get("solution"):
            found[meta["grade_id"]] = heads
    return found


@cache
def of(unit: str) -> str:
    """Return the title of a unit's notebook: "04 · Memory coalescing"; the folder's name where there is none."""
    path = content.ROOT / "notebooks" / unit / f"{unit}.ipynb"
    first = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"]) if path.is_file() else ""
    return first.partition("\n")[0].removeprefix("# ") if first.startswith("# ") else unit
