"""check("coalescing.transpose", transpose): observe, judge, show; here and now."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from course_lib import criteria, judging, logbook, render
from course_lib.catalogue import say
from course_lib.evidence import Evidence
from course_lib.execution import derived, exactly, gpu_lock, observe, on_gpu, progress, record_apart, smallest, timed
from course_lib.exercise import Exercise, Trial, Verdict
from course_lib.exercises import find, wrong_formulas
from course_lib.exercises.hints import hints_on
from course_lib.handin import literals, stale, twists
from course_lib.render import Points, afterwards, cells, code, show
from tritontrace import no_triton, tracing
from tritontrace.messages import message_of
from tritontrace.replay import child, wire
from tritontrace.threads import one_thread

SECONDS = 20.0  # CPU time for everything a check runs: the longest one takes 5 on a quiet machine
ARITHMETIC_SECONDS = 3.0  # instead, of a function that is given numbers alone: an endless loop is told of soon
COMPILE_SECONDS = 4.0  # on the clock, where a notebook shows below a verdict what the compiler says afterwards
stale.watch()
tracing.keep_it_light()


@one_thread()
def verdict(
    exercise: Exercise,
    entry: Any,
    seed: int | None = None,
    later: Callable[[judging.Measure], None] | None = None,
    compile_seconds: float = afterwards.SECONDS,
) -> Verdict:
    """Judge what the student's name stands for, on fresh inputs unless a seed is given, and return the Verdict. later: see GPUPolicy."""
    seed = secrets.randbits(31) if seed is None else seed
    trials = observed(exercise, entry, seed, compile_seconds)
    if isinstance(trials, Verdict):
        return trials

    def record(calls: list) -> list:
        return record_apart(exercise, entry, calls, seconds=_seconds(exercise, seed))

    try:
        with progress.told(lambda: say("shown.checking.compares")):
            return judging.judge(
                exercise,
                trials,
                seed,
                record,
                gpu=judging.GPUPolicy(later=later),
                evaluate=_evaluating(exercise, entry, seed),
                look=partial(smallest.looked_for_apart, entry),
            )
    except no_triton.TritonMissing as missing:  # an oracle traces
        return criteria.refused(exercise, str(missing))


@one_thread()
def observed(exercise: Exercise, entry: Any, seed: int, compile_seconds: float) -> list[Trial] | Verdict:
    """Return the trials of the student's function on all cases, or the verdict on why it did not run. compile_seconds: the compiler's
    limit."""
    problem = _not_an_entry(exercise, entry)
    if problem:
        return criteria.refused(exercise, problem, "blank" if _is_blank(exercise, entry) else "refused")
    try:
        return observe(exercise, entry, seed, seconds=_seconds(exercise, seed), compile_seconds=compile_seconds)
    except child.ChildLost as lost:
        return criteria.refused(
            exercise, say("criteria.entry.stopped", name=exercise.entry, what=lost.message), lost.cause
        )
    except (ValueError, no_triton.TritonMissing) as error:
        return criteria.refused(exercise, message_of(error))


def _evaluating(exercise: Exercise, entry: Any, seed: int) -> wrong_formulas.Evaluate:
    """Make what evaluates a case in which `entry` is wrong, recorded once more, in a child."""

    def evaluate(trial: Trial) -> Any:
        again = trial.case.arguments(derived(seed, "evaluate"))
        (log,) = record_apart(exercise, entry, [[again]], seconds=exactly.SECONDS)
        return exactly.evaluated_apart(log, trial.inputs[0], sorted(exercise.allows))

    return evaluate


def _seconds(exercise: Exercise, seed: int) -> float:
    """The time that a child may take."""
    return min(ARITHMETIC_SECONDS, SECONDS) if _is_arithmetic(exercise, seed) else SECONDS


def _is_arithmetic(exercise: Exercise, seed: int) -> bool:
    """Whether the exercise is a function from numbers to numbers."""
    return (
        exercise.kind == "formula"
        and not exercise.called
        and all(type(value) in (int, float) for case in exercise.cases for value in case.arguments(seed).values())
    )


_NOTHING: Any = object()  # no argument at all; None stands for an exercise that is not solved


def check(exercise_id: str = _NOTHING, entry: Any = _NOTHING) -> float:
    """Judge `entry` (your function, or your prediction) as the grader would; show the findings, return the points."""
    if entry is _NOTHING or (isinstance(entry, str) and not isinstance(exercise_id, str)):
        print(say("shown.check.arguments", example=_example(exercise_id, entry)))
        return 0.0
    try:
        exercise = twists.asked(find(exercise_id))
    except ValueError as error:
        print(error)
        return 0.0
    _timing.end()
    if on_gpu.can_run(exercise):
        gpu_lock.prepare()
    watched = bool(render.shell()) and progress.is_watched()
    if timed.can_time(exercise) and not watched:
        print(say("shown.afterwards.times_first"), flush=True)
    if older := stale.newer_version(exercise.entry):
        print(older, flush=True)
    computed = (
        literals.problem_of_cell(stale.last_cell(exercise.entry), exercise.entry) if exercise.kind == "values" else ""
    )
    seed = secrets.randbits(31)
    measures: list[judging.Measure] = []
    if computed:
        whole = criteria.refused(exercise, computed)
    elif watched:
        whole = verdict(exercise, entry, seed, measures.append, COMPILE_SECONDS)
    else:
        whole = verdict(exercise, entry, seed)
    found = whole.until_compiled() if watched else whole
    logbook.record_best(found)
    logbook.record_effort(exercise.id, "checks")
    tried = found.points < exercise.points and found.outcome not in ("not_begun", "waiting")
    _lost_again[exercise_id] = _lost_again[exercise_id] + 1 if tried else 0
    stuck = _lost_again[exercise_id] > 1 and _hints_given[exercise_id] < len(hints_on(exercise.id))
    # in words alone: the card has hints to click at
    how = say("criteria.entry.hint", exercise=exercise_id) if stuck else ""
    building = bool(os.environ.get(cells.KEEP_VERDICTS))
    after = logbook.next_after(exercise) if found.outcome == "right" and not building else ""
    tree = json.dumps(wire.to_tree(found)) if building else ""
    points = Points(found.points, render.text(found, after or how), render.html(found, after), tree).display_result()
    if found.waits:
        afterwards.go_on(whole, partial(_judged_with_patience, exercise, entry, seed), partial(_kept, exercise))
    for measure in measures:
        _show_times_below(exercise, found, measure)
    return points


_timing = gpu_lock.Interruptible()  # the last check's; the next one needs the GPU


def _show_times_below(exercise: Exercise, found: Verdict, measure: judging.Measure) -> None:
    """Measure while the notebook goes on, and keep what it earns."""
    global _timing
    _timing = run = gpu_lock.Interruptible()

    def work() -> afterwards.Shown:
        timing = measure(run)
        if run.ended:
            return afterwards.NOT_TIMED, code(afterwards.NOT_TIMED)
        findings = criteria.of_speed(exercise, [Trial(exercise.bonus[0].case, [], Evidence("", timing=timing))])
        logbook.record_best(replace(found, bonus=sum(finding.points for finding in findings), timing=timing))
        return afterwards.in_time(findings, timing.gpu)

    afterwards.below(say("shown.afterwards.times_follow"), work)


def _kept(exercise: Exercise, answered: Verdict) -> str:
    """Keep what an answer has earned once the compiler has ended, and say what comes next, if all is right."""
    logbook.record_best(answered)
    return logbook.next_after(exercise) if answered.points == answered.out_of and answered.outcome == "right" else ""


def _judged_with_patience(exercise: Exercise, entry: Any, seed: int) -> Verdict:
    """The verdict of the trace and of the compiler, which has a minute."""
    trials = observed(exercise, entry, seed, afterwards.SECONDS)
    return trials if isinstance(trials, Verdict) else criteria.judge(exercise, trials)


def _give_back(*_: Any) -> None:
    """Return to the system what this process has freed: inputs and results of a check are 20 to 60 MB, a drawing 10 to 20, and the heap
    would keep them."""
    with suppress(OSError, AttributeError):  # not every C library can
        ctypes.CDLL(None).malloc_trim(0)


def _give_back_after_each_cell() -> None:
    notebook = render.shell()
    if notebook is not None and _give_back not in notebook.events.callbacks["post_run_cell"]:
        notebook.events.register("post_run_cell", _give_back)


_give_back_after_each_cell()
_hints_given: Counter[str] = Counter()
_lost_again: Counter[str] = Counter()  # checks of an exercise in a row that gave less than all points


def hint(exercise_id: str = _NOTHING) -> None:
    """Print the next hint of an exercise, from a nudge to nearly the answer; the last one stays."""
    if exercise_id is _NOTHING:
        print(say("shown.hint.arguments"))
        return
    try:
        exercise = find(exercise_id)
    except ValueError as error:
        print(error)
        return
    hints = hints_on(exercise.id)
    logbook.record_effort(exercise.id, "hints")
    number = min(_hints_given[exercise_id], len(hints) - 1)
    _hints_given[exercise_id] += 1
    facts = {"number": number + 1, "hints": len(hints), "more": number + 1 < len(hints)}
    said = say("shown.hint.hint", **facts, hint=hints[number])
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
        return say("criteria.entry.interpreted")
    if tracing.is_open():
        return say("criteria.entry.in_a_trace")
    if _is_blank(exercise, entry):
        return say(f"criteria.entry.not_{'filled_in' if type(entry) is dict else 'solved'}", name=exercise.entry)
    if exercise.kind == "values":
        return "" if type(entry) is dict else say("criteria.entry.no_dict", name=exercise.entry, kind=_a(entry))
    if type(entry).__name__ in ("JITFunction", "GluonJITFunction", "Autotuner", "Heuristics"):
        return say("criteria.entry.kernel", exercise=repr(exercise.id), name=exercise.entry)
    if not callable(entry):
        return say("criteria.entry.no_function", name=exercise.entry, kind=_a(entry))
    return ""


def _a(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
