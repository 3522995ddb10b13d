"""Name the race: six broken rings, and two that are drawn by a number of the student's choice."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises.hopper.rings import MISTAKES, Ring, faults_of
from course_lib.exercises.naming import Names
from course_lib.words import as_written, is_answer

NAMES = {
    "A": "one under way",
    "B": "consumer's parity",
    "C": "fence above",
    "D": "waited for late",
    "E": "bytes of two",
    "F": "parity the other way",
}
RINGS = {letter: Ring(MISTAKES[name]) for letter, name in NAMES.items()}
DRAWN = ("G", "H")
FIRST = 3  # wrong answers that a verdict speaks of

CAUSES = {
    "read before it is there": say("hopper.name_races.read_early"),
    "overwritten while it is read": say("hopper.name_races.overwritten"),
    "wrong phase": say("hopper.name_races.phase"),
    "wrong number of bytes": say("hopper.name_races.bytes"),
    "too many arrivals": say("hopper.name_races.arrivals"),
    "two writes at once": say("hopper.name_races.two_writes"),
    "missing fence": say("hopper.name_races.fence"),
    "TMA store not waited for": say("hopper.name_races.store"),
    "deadlock": (say("hopper.name_races.deadlock")),
}
"""Each kind of mistake that a ring may show, and what would have to be so."""


PLACE = re.compile(r"`(produce|consume)`, line (\d+)")  # as a fault says it, by lines of the function


def drawn(number: int) -> dict[str, Ring]:
    """Draw the two rings of a student's number."""
    chance = random.Random(number)
    names = chance.sample(sorted(MISTAKES.keys() - set(NAMES.values())), len(DRAWN))
    return {
        letter: Ring(MISTAKES[name], stages=chance.choice((2, 3)), steps=chance.choice((5, 6, 7)))
        for letter, name in zip(DRAWN, names, strict=True)
    }


@dataclass
class NamesRaces(Names):
    """Criterion: the kind of each ring's mistake and a line that it is about, as the simulator finds them in some execution order.

    explanations   letter -> Ring;  causes  kind -> what would have to be so
    """

    explanations: Mapping[str, Any]

    title = say("hopper.name_races.title")
    missed = say("hopper.name_races.missed")

    def explained(self, exercise: Exercise, answers: Mapping[str, Any]) -> dict[str, str | None]:
        number = answers.get("number")
        more: Mapping[str, Ring | None] = drawn(number) if type(number) is int else dict.fromkeys(DRAWN)
        rings = {**self.explanations, **more}
        return {letter: ring and _sentence(ring, answers.get(letter)) for letter, ring in rings.items()}

    def told(self, found: Mapping[str, str | None], answers: Mapping[str, Any]) -> list[str]:
        """Return messages on the first wrong answers alone, while there are some: a simulator's sentence takes five lines."""
        wrong = [letter for letter, text in found.items() if text is None]
        if not wrong:
            return super().told(found, answers)
        first, others = wrong[:FIRST], wrong[FIRST:]
        no_number = answers.get("number") is not None and type(answers["number"]) is not int
        return [
            *([say("hopper.name_races.number")] if no_number else []),
            *super().told(dict.fromkeys(first), answers),
            *([say("hopper.name_races.others", letters=others)] if others else []),
            *([say("hopper.name_races.right", letters=right)] if (right := sorted(found.keys() - {*wrong})) else []),
        ]

    def not_it(self, picture: str, answers: Mapping[str, Any]) -> str:
        answer, number = answers.get(picture), answers.get("number")
        rings = {**self.explanations, **(drawn(number) if type(number) is int else {})}
        if picture not in rings:
            return say("hopper.name_races.number")
        if answer is None or not is_answer(answer):
            return say("criteria.pictures.no_answer")
        if not _is_pair(answer):
            return say("hopper.name_races.no_pair", got=as_written(answer)[:80])
        if answer[0] not in self.causes:
            return say("hopper.name_races.not_listed", got=repr(answer[0][:60]))
        if answer[0] in {fault.kind.value for fault, _ in faults_of(rings[picture])}:
            return say("hopper.name_races.other_line", kind=answer[0], line=answer[1])
        return say("criteria.pictures.not_that", cause=self.causes[answer[0]])


def _is_pair(answer: Any) -> bool:
    return isinstance(answer, (list, tuple)) and len(answer) == 2 and type(answer[0]) is str and type(answer[1]) is int


def _sentence(ring: Ring, answer: Any) -> str | None:
    """The simulator's sentence on a ring's mistake, if an answer names it, with lines as the picture numbers them."""
    if not _is_pair(answer):
        return None
    kind, line = answer
    for fault, lines in faults_of(ring):
        if fault.kind.value == kind and line in lines:
            return PLACE.sub(lambda found: f"line {ring.line_in(int(found[2]))}", fault.sentence)
    return None
