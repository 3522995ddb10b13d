"""The canary: before anything that was handed in, the published solutions are judged, by the same workers in the same sandbox.

Where one of them does not earn all its points something is wrong with the environment, or with the course, and what would be
said of students is worth nothing. So nothing else is judged then. Each worker judges one kernel before its first job, in
every run; a whole unit is judged when code or environment are new, as its verdicts are kept like all others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import grader
from course_lib import criteria
from course_lib.exercise import Exercise, Verdict
from course_lib.exercises import unit_of
from grader import published
from grader.judging.judge import GraderFailed, Judge, JudgedAnswer
from grader.judging.secret import seed_of
from grader.judging.verdicts import VerdictStore, device, key_of
from tritontrace.messages import message_of

REFERENCE = ""  # whose hidden inputs are drawn: no student bears this name
Cells = Sequence[tuple[str, str]]


class Broken(RuntimeError):
    """Raised, with instructions, where published solutions do not earn full points."""


def references(unit: str) -> list[tuple[Exercise, Cells]]:
    """List the exercises of a unit, each with the published answer."""
    cells = published.solution_cells(unit)
    return [(e, published.answer(e.id, cells[e.id])) for e in grader.exercises(unit).values() if e.id in cells]


def first(unit: str) -> tuple[Exercise, Cells] | None:
    """Return the exercise that each worker judges first, and its published answer: a kernel, if there is one, since that needs
    everything."""
    found = references(unit)
    return next((one for one in found if one[0].kind == "kernel"), found[0] if found else None)


def full(verdict: Verdict | None) -> bool:
    """Whether a verdict gives full points."""
    return verdict is not None and verdict.judged and verdict.points >= verdict.out_of


def require(found: Iterable[Verdict]) -> None:
    """Raise Broken if one of the verdicts on published solutions is not full marks."""
    for verdict in found:
        if not full(verdict):
            unit = unit_of(verdict.exercise)
            reason = next(
                (f.seen for f in verdict.findings if not f.bonus and (f.lost or not verdict.judged)),
                "no reason is known",
            )
            earns = f"earns {verdict.points:g} of {verdict.out_of:g} points" if verdict.judged else "cannot be judged"
            raise Broken(
                f"On {os.uname().nodename} the published solution of {verdict.exercise} {earns}, so nothing was judged: {reason}. "
                f"Mend this machine's Python environment, or what was changed in the course, until `python -m grader doctor {unit}` "
                "finds nothing, and run the same command again."
            )


def judge_references(judge: Judge, answers: Sequence[JudgedAnswer]) -> list[Verdict]:
    """Judge published answers and return the verdicts. Raises Broken if one is not full marks."""
    try:
        found = judge.judge_all(answers)
    except GraderFailed as error:
        found = [criteria.unjudged(exercise, message_of(error)) for exercise, *_ in answers]
    require(found)
    return found


def prove(judge: Judge, unit: str) -> None:
    """Judge a unit's published solutions with this judge: a kernel, and all that are not known to earn full points. Raises Broken if it
    cannot."""
    store, always = VerdictStore(judge.folder / "verdicts"), first(unit)
    wanted = {}
    for exercise, cells in references(unit):
        answer = exercise, cells, seed_of(judge.secret, REFERENCE, exercise.id)
        key = key_of(*answer, device(judge.gpu))
        if (always and exercise is always[0]) or not full(store.get(key)):
            wanted[key] = answer
    for key, verdict in zip(wanted, judge_references(judge, list(wanted.values())), strict=True):
        store.put(key, verdict)
