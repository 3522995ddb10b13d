"""check("coalescing.transpose", transpose): observe, judge, show; here and now."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from typing import Any

from course_lib import criteria, judging, logbook, render, tracing
from course_lib.exercise import Exercise, Verdict
from course_lib.exercises import find
from course_lib.handin import literals, stale
from course_lib.observe import child, observe, record_apart, timed
from course_lib.render import Points, code, show
from course_lib.threads import one_thread

SECONDS = 20.0  # CPU time for everything a check runs: the longest one takes 5 on a quiet machine
COMPILE_SECONDS = 4.0  # on the clock: compilers are processes of their own
stale.watch()


@one_thread()
def verdict(exercise: Exercise, entry: Any, seed: int | None = None) -> Verdict:
    """The verdict on what the student's name stands for. Fresh inputs each time, unless a seed is given."""
    problem = _not_an_entry(exercise, entry)
    if problem:
        return criteria.refused(exercise, problem, "blank" if _is_blank(exercise, entry) else "refused")
    seed = secrets.randbits(31) if seed is None else seed
    try:
        trials = observe(exercise, entry, seed, seconds=SECONDS, compile_seconds=COMPILE_SECONDS)
    except child.ChildLost as lost:
        return criteria.refused(exercise, f"{exercise.entry} {lost}", lost.cause)
    except ValueError as error:
        return criteria.refused(exercise, str(error))

    def record(calls: list) -> list:
        return record_apart(exercise, entry, calls, seconds=SECONDS)

    return judging.judge(exercise, trials, seed, record)


_NOTHING: Any = object()  # no argument at all; None stands for an exercise that is not solved


def check(exercise_id: str = _NOTHING, entry: Any = _NOTHING) -> float:
    """Judge `entry` (your function, or your prediction) as the grader would; show the findings, return the points."""
    if entry is _NOTHING or (isinstance(entry, str) and not isinstance(exercise_id, str)):
        print(f"check takes the name of an exercise, then what you wrote for it: {_example(exercise_id, entry)}")
        return 0.0
    try:
        exercise = find(exercise_id)
    except ValueError as error:
        print(error)
        return 0.0
    if timed.can_time(exercise):
        print("Timed on the GPU, too: ten to twenty seconds.", flush=True)
    if older := stale.newer_version(exercise.entry):
        print(older, flush=True)
    computed = (
        literals.problem_of_cell(stale.last_cell(exercise.entry), exercise.entry) if exercise.kind == "values" else ""
    )
    found = criteria.refused(exercise, computed) if computed else verdict(exercise, entry)
    logbook.enter(found)
    return Points(found.points, render.text(found), render.html(found)).hand_over()


_hints_given: Counter[str] = Counter()


def hint(exercise_id: str = _NOTHING) -> None:
    """Print the next hint of an exercise, from a nudge to nearly the answer; the last one stays."""
    if exercise_id is _NOTHING:
        print('hint takes the name of an exercise, in quotes: hint("start.add_one")')
        return
    try:
        hints = find(exercise_id).hints
    except ValueError as error:
        print(error)
        return
    number = min(_hints_given[exercise_id], len(hints) - 1)
    _hints_given[exercise_id] += 1
    more = " (call again for a stronger one)" if number + 1 < len(hints) else ""
    said = f"Hint {number + 1} of {len(hints)}: {hints[number]}{more}"
    show(said, f"<div>{code(said)}</div>")


def _example(*arguments: Any) -> str:
    """The call of `check` that was meant by one with too few arguments, or with swapped ones."""
    try:
        exercise = find(next((a for a in arguments if isinstance(a, str)), ""))
    except ValueError:
        exercise = find("start.add_one")
    return f'check("{exercise.id}", {exercise.entry})'


def _is_blank(exercise: Exercise, entry: Any) -> bool:
    """Whether nothing is there to judge: no function, or a prediction in which nothing is written."""
    unfilled = exercise.kind == "values" and type(entry) is dict and entry
    return entry is None or entry is Ellipsis or (bool(unfilled) and all(value is Ellipsis for value in entry.values()))


def _not_an_entry(exercise: Exercise, entry: Any) -> str:
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        return "the variable TRITON_INTERPRET is set: unset it and restart the kernel; traces need plain kernels"
    if tracing.is_open():
        return "a trace is open: check outside of `with trace()`, since a check traces by itself"
    if _is_blank(exercise, entry):
        return f"`{exercise.entry}` is not {'filled in' if type(entry) is dict else 'solved'} yet"
    if exercise.kind == "values":
        return "" if type(entry) is dict else f"`{exercise.entry}` must be a dict, not {_a(entry)}"
    if type(entry).__name__ in ("JITFunction", "GluonJITFunction", "Autotuner", "Heuristics"):
        return f"this is the kernel; check the function that launches it: check({exercise.id!r}, {exercise.entry})"
    if not callable(entry):
        return f"`{exercise.entry}` must be a function, not {_a(entry)}"
    return ""


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
