"""The twists of a class: in which units students are asked for tasks of their own, and what each is asked.

    twists.json in the class's folder: the units      secret + the student's id in the class ──▶ number ──▶ Draw

Nothing that a notebook, a kernel or an environment says of its student is read: whose submission it is says the class.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Collection
from pathlib import Path

from course_lib.exercises import twists
from course_lib.exercises.twists import NOBODY, NUMBERS, Draw
from grader import disk
from grader.judging.secret import course_secret

FILE = "twists.json"


def units(folder: Path) -> tuple[str, ...]:
    """Return the units with twists in the class whose state lies in `folder`; () by default."""
    return tuple(disk.read(folder / FILE).get("units", ()))


def switch(folder: Path, of: Collection[str]) -> tuple[str, ...]:
    """Enable twists in these units, and in no others. Raises ValueError for a unit that has none."""
    for unit in of:
        if unit not in twists.units():
            raise ValueError(f"{unit} has no twists. These units have: {', '.join(twists.units())}.")
    chosen = [unit for unit in twists.units() if unit in of]
    disk.write({folder / FILE: json.dumps({"units": chosen}).encode()})
    return tuple(chosen)


def draw(secret: bytes, of: Collection[str], student: str) -> Draw:
    """Draw a student's twists, by the id that the class knows; none for the id "", under which published answers are judged."""
    if not student or not of:
        return NOBODY
    digest = hmac.digest(secret, f"twists\0{student}".encode(), "sha256")
    return twists.draw(of, int.from_bytes(digest[:8], "big") % NUMBERS)


def of_student(folder: Path, student: str) -> Draw:
    """Draw a student's twists in the class whose state lies in `folder`."""
    of = units(folder)
    return draw(course_secret(folder), of, student) if of else NOBODY
