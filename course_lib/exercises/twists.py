"""Twists: tasks that an exercise may ask of one student in place of its own, so that a classmate's answer is not the student's.

    code ──▶ (units with twists, the student's number) ──▶ one Twist for each exercise that has some ──▶ `asked`, an Exercise

A unit's twists stand beside its exercises, in twists.py of its package, as TWISTS: exercise -> those to draw from. Cases, criteria
and budgets are the exercise's, as far as a twist does not say otherwise; its published answer is right for none of them. A code is
no secret. It says what is asked, so that a notebook can: a grader computes the student's code, and reads none.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from course_lib.catalogue import say
from course_lib.exercises import UNITS, find

if TYPE_CHECKING:  # they bring torch, and a hub that computes a code does without
    from course_lib.criteria import GradedTrial
    from course_lib.exercise import Exercise, MistakeMatcher

TWISTED = ("coalescing", "tiling", "fusion", "recomputation", "flash", "flash_backward")
"""The modules of units that have twists."""

LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # five bits each; nobody takes one for another
UNIT_BITS, NUMBER_BITS = 15, 20
NUMBERS = 1 << NUMBER_BITS


@dataclass(frozen=True)
class Twist:
    """One task that replaces an exercise's own.

    key      its name, "times -2"; grader/audit/twisted.py has the published answer for it
    asks     a sentence on what is asked
    oracle   what is right, as an Exercise has it;  changes = other fields of the Exercise that differ
    """

    # trap: who is asked what is drawn by the keys: one that is renamed or added changes what some students are asked
    key: str
    asks: str
    oracle: Callable[..., Any]
    changes: Mapping[str, Any] = field(default_factory=dict)


@cache
def of_module(module: str) -> Mapping[str, Sequence[Twist]]:
    """Return the twists of each exercise in a unit's module, by exercise id."""
    return import_module(f"course_lib.exercises.{module}.twists").TWISTS if module in TWISTED else {}


def of(exercise_id: str) -> Sequence[Twist]:
    """Return the twists of an exercise; () for most."""
    return of_module(exercise_id.partition(".")[0]).get(exercise_id, ())


def units() -> list[str]:
    """List the folders of the units that have twists."""
    return [unit for unit, module in UNITS.items() if module in TWISTED]


def asked(exercise: Exercise, twist: Twist) -> Exercise:
    """Return the exercise as a twist changes it. Only its mistakes about right results remain; the others are about its own task."""
    from course_lib.exercises.misconceptions import Misconception

    others = [other for other in of(exercise.id) if other.key != twist.key]
    mistakes = [
        Misconception(exercise.oracle, say("criteria.twists.published")),
        *(Misconception(other.oracle, say("criteria.twists.another", twist=other.key)) for other in others),
        *(_of_right_results(each) for each in exercise.mistakes if not isinstance(each, Misconception)),
    ]
    return dataclasses.replace(
        exercise, oracle=twist.oracle, asks=twist.asks, twist=twist.key, mistakes=mistakes, **twist.changes
    )


def named(exercise_id: str, key: str) -> Exercise:
    """Return the exercise with the twist of that key; unchanged for "". Raises StopIteration if there is none."""
    exercise = find(exercise_id)
    return asked(exercise, next(twist for twist in of(exercise_id) if twist.key == key)) if key else exercise


def _of_right_results(mistake: MistakeMatcher) -> MistakeMatcher:
    """The mistake, silent where a result is wrong."""

    def look(trials: Sequence[GradedTrial]) -> str:
        return "" if any(trial.difference for trial in trials) else mistake(trials)

    return look


# ------------------------------------------------------------------------------------------------ who is asked what


@dataclass(frozen=True)
class Draw:
    """A parsed twist code: the units in which a class has twists, and the number by which one student's are drawn."""

    units: tuple[str, ...]
    number: int

    def twist(self, exercise_id: str) -> Twist | None:
        """Return the twist of an exercise for this student; None where its own task stays."""
        if exercise_id.partition(".")[0] not in {UNITS[unit] for unit in self.units}:
            return None
        return max(of(exercise_id), key=lambda twist: self._rank(exercise_id, twist), default=None)

    def _rank(self, exercise_id: str, twist: Twist) -> bytes:
        return hashlib.sha256(f"{self.number}\0{exercise_id}\0{twist.key}".encode()).digest()

    def asked(self, exercise: Exercise) -> Exercise:
        """Return the exercise as this student gets it."""
        twist = self.twist(exercise.id)
        return asked(exercise, twist) if twist else exercise

    def tasks(self, unit: str) -> dict[str, Twist]:
        """Map each exercise of a unit that has a twist for this student to it."""
        drawn = {exercise_id: self.twist(exercise_id) for exercise_id in of_module(UNITS[unit])}
        return {exercise_id: twist for exercise_id, twist in drawn.items() if twist}

    @property
    def code(self) -> str:
        """Return the code: eight letters and digits, the last of which reveals most typing errors."""
        bits = sum(1 << int(unit[:2]) for unit in self.units) << NUMBER_BITS | self.number
        letters = "".join(LETTERS[bits >> shift & 31] for shift in range(UNIT_BITS + NUMBER_BITS - 5, -1, -5))
        whole = letters + _check(letters)
        return f"{whole[:4]}-{whole[4:]}"


NOBODY = Draw((), 0)
"""Who is asked for no twist."""


def draw(of_units: Collection[str], number: int) -> Draw:
    """Make the Draw of a student with this number, of at most NUMBER_BITS bits, in a class with twists in these units."""
    return Draw(tuple(unit for unit in units() if unit in of_units), number % NUMBERS)


def read(code: str) -> Draw:
    """Parse a twist code as typed. Raises ValueError with a message if it is malformed."""
    letters = "".join(c for c in str(code).upper() if c not in "- ").translate(str.maketrans("OIL", "011"))
    if len(letters) != 8 or not set(letters) <= set(LETTERS) or _check(letters[:-1]) != letters[-1]:
        raise ValueError(
            f"{str(code)[:40]!r} is no code of a class: it has eight letters and digits, such as {EXAMPLE}."
        )
    bits = 0
    for letter in letters[:-1]:
        bits = bits << 5 | LETTERS.index(letter)
    there = [unit for unit in units() if bits >> NUMBER_BITS >> int(unit[:2]) & 1]
    return draw(there, bits % NUMBERS)


def _check(letters: str) -> str:
    return LETTERS[hashlib.sha256(letters.encode()).digest()[0] & 31]


EXAMPLE = Draw(("06_fusion",), 1234).code
