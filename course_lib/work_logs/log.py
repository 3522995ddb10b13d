"""Rounds -> what each stated and what its trace says, on the first size of the exercise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import chdir
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import torch

from course_lib import content, logbook
from course_lib.catalogue import say
from course_lib.execution import timed
from course_lib.exercise import Exercise
from course_lib.exercises.rounds import OnOneSize, RoundsHeld, Task, counted, off, without_number
from course_lib.logbook import StatedRound
from course_lib.workloads.stated import MOST_ROUNDS, written
from tritontrace import KernelError, KernelFault, Trace, diff, trace
from tritontrace.replay import called

SEED = 0


@dataclass
class Round:
    """A round of a work log, with its traced counts.

    stated   formulas as they are now;  first  as they were when its version was first seen
    before   counts of the version before;  counts  of its own, None where nothing could be traced;  changed  from one to the other
    problem  what does not hold, "" if all does
    """

    change: str
    stated: dict[str, str]
    first: StatedRound
    problem: str
    before: dict[str, int]
    counts: dict[str, int] | None = None
    changed: Any = None  # what tritontrace.diff returns


@dataclass
class WorkLog:
    """All rounds of a work log on one size, with the counts of the first version."""

    size: OnOneSize
    rounds: list[Round] = field(default_factory=list)

    @property
    def held(self) -> int:
        return sum(not each.problem for each in self.rounds)


def task_of(exercise: Exercise) -> Task:
    """Return the Task of a work log's exercise."""
    return next(each.task for each in exercise.criteria if isinstance(each, RoundsHeld))


def arguments_of(exercise: Exercise) -> tuple[str, dict[str, Any]]:
    """Return (the first size's name, the arguments of a version on it)."""
    case = exercise.cases[0]
    return case.name.partition(", ")[2], without_number(case.arguments(SEED))


def of_rounds(exercise: Exercise, rounds: Callable[[], Any]) -> WorkLog:
    """Trace all versions, and return the WorkLog. Raises ValueError, with a message, if there are no rounds."""
    listed = rounds() if callable(rounds) else rounds
    if not isinstance(listed, (list, tuple)) or not all(isinstance(each, Mapping) for each in listed):
        raise ValueError(say("shown.work_log.no_rounds", name=exercise.entry))
    name, arguments = arguments_of(exercise)
    task = task_of(exercise)
    before, _ = _traced(task.first, arguments)
    log = WorkLog(OnOneSize(name, task.sizes(**arguments), {0: counted(before.launches)}))
    for number, (each, stated) in enumerate(zip(listed[:MOST_ROUNDS], written(listed), strict=True), 1):
        change, version = str(each.get("change", f"round {number}")), each.get("version")
        now = StatedRound(str(date.today()), stated, before=version is None, traced=version is not None)
        made = Round(
            change,
            stated,
            logbook.record_statement(exercise.id, change, now),
            say("shown.work_log.no_version"),
            counted(before.launches),
        )
        log.rounds.append(made)
        if version is None:
            continue
        try:
            seen, result = _traced(version, arguments)
        except (KernelError, KernelFault) as problem:
            made.problem = str(problem)
            continue
        except Exception as error:  # of the learner's own code
            made.problem = say("shown.work_log.raised", kind=type(error).__name__, error=str(error))
            continue
        with chdir(content.ROOT):  # lines of the first version are told from there
            made.changed = diff(before, seen)
        made.counts, before = counted(seen.launches), seen
        made.problem = _wrong(exercise, arguments, result)
        if not made.problem:
            log.size.counts[number] = made.counts
            made.problem = off(stated, number, [log.size])
    return log


def _traced(version: Callable[..., Any], arguments: dict[str, Any]) -> tuple[Trace, Any]:
    with trace() as seen:
        result = called(version, arguments)
    return seen, result


def _wrong(exercise: Exercise, arguments: dict[str, Any], result: Any) -> str:
    if not isinstance(result, torch.Tensor):
        return say("shown.work_log.no_tensor")
    difference = timed.difference(exercise, arguments | {"version": 1}, result)
    return say("shown.work_log.wrong", difference=difference) if difference else ""
