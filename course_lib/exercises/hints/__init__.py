"""Hints: a page for each unit, UNIT.md. They are text, and no verdict depends on them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent


def hints_on(exercise_id: str) -> list[str]:
    """Return the hints on an exercise, from a nudge to nearly the answer; [] where there is no heading of its name."""
    unit, _, name = exercise_id.partition(".")
    return in_unit(unit).get(name, [])


@cache
def in_unit(unit: str) -> dict[str, list[str]]:
    """Read a unit's hints: exercise -> the numbered list below its heading. unit: a module's name."""
    file = FOLDER / f"{unit}.md"
    sections = re.split(r"^## ", file.read_text("utf-8") if file.exists() else "", flags=re.M)[1:]
    hints = {}
    for section in sections:
        heading, _, items = section.partition("\n")
        listed = [" ".join(item.split()) for item in re.split(r"^\d\. ", items, flags=re.M)[1:]]
        hints |= dict.fromkeys(heading.split(", "), listed)
    return hints
