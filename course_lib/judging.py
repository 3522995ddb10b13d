"""Evidence -> a verdict, in the notebook and in the grader alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from course_lib import criteria
from course_lib.catalogue import say
from course_lib.evidence import Timing
from course_lib.execution import gpu_lock, on_gpu, smallest, timed
from course_lib.exercise import Exercise, Trial, Verdict
from course_lib.exercises import wrong_formulas
from course_lib.exercises.remembered import within_a_verdict
from tritontrace.messages import message_of
from tritontrace.replay.child import ChildLost

Logs = Sequence[Mapping[str, Any]]
Look = Callable[[Mapping[str, Any]], Any]
Measure = Callable[[gpu_lock.Runner], Timing]
"""What measures the times of an answer in the process to which a runner takes its message: nothing of the student's runs."""


@dataclass(frozen=True)
class GPUPolicy:
    """How judging uses this machine's GPU. run: takes a message to the process that has it;  counts: whether a result that is
    wrong there is wrong, or is only shown;  later: takes what measures the times, which a verdict does not wait for then."""

    run: gpu_lock.Runner = gpu_lock.run
    counts: bool = True
    later: Callable[[Measure], None] | None = None


@within_a_verdict()
def judge(
    exercise: Exercise,
    trials: Sequence[Trial],
    seed: int,
    record: Callable[[list], Logs],
    logs: Logs | None = None,
    gpu: GPUPolicy | None = None,
    evaluate: wrong_formulas.Evaluate | None = None,
    look: Look | None = None,
) -> Verdict:
    """Judge the trials; return the verdict. Where a GPU runs the exercise, what earned points runs on it, too, and is timed.

    record: the calls of each case -> their logs. It raises ChildLost or ValueError, with a sentence, if it gets none.
    logs: those of the trials, if they are there;  gpu: None leaves it alone
    evaluate: see wrong_formulas.add; None asks for no formula
    look: what is asked of an answer (smallest.asked_of) -> what smallest.looked_for gave in another process; None looks for nothing
    """
    graded = [criteria.GradedTrial.of(exercise, trial) for trial in trials]
    traced = criteria.judge(exercise, graded)
    if evaluate and traced.points < exercise.points and wrong_formulas.add(exercise, graded, evaluate):
        # the graded ones keep the differences that they have found
        traced = criteria.judge(exercise, [replace(trial) for trial in graded])
    if look and traced.points < exercise.points and _add_smallest(exercise, trials, look):
        traced = criteria.judge(exercise, [replace(trial) for trial in graded])
    if not gpu or not traced.points or not on_gpu.can_run(exercise):
        return traced
    try:
        on_gpu.run(exercise, logs or record(_other_inputs(trials, seed)), trials, gpu.run)
    except (ChildLost, ValueError) as error:  # it was recorded once, and cannot be again: that is not the kernel's
        on_gpu.note(trials, "failed", message_of(error))
    untimed = criteria.judge(exercise, trials, gpu_counts=gpu.counts)
    if not untimed.points or not exercise.bonus:
        return untimed
    case = exercise.bonus[0].case
    kernels = {key for trial in trials for key in trial.evidence.kernels}
    try:
        (log,) = record([[case.arguments(seed)]])
    except (ChildLost, ValueError) as error:
        timing = timed.problem(exercise, say("criteria.speed.stopped", case=case.name, error=message_of(error)))
    else:
        measure = partial(timed.measure, exercise, log, seed, kernels)
        if gpu.later:
            gpu.later(measure)
            timing = timed.problem(exercise, say("criteria.speed.later"), by_machine=True)
        else:
            timing = measure(gpu.run)
    trials[0].evidence.timing = timing
    return criteria.judge(exercise, trials, gpu_counts=gpu.counts)


def _add_smallest(exercise: Exercise, trials: Sequence[Trial], look: Look) -> bool:
    """Add the smallest input that shows it to the first case in which a kernel reaches outside a tensor. Return whether there is one.

    It explains, and nobody loses a point by it. So whatever goes wrong on the way leaves a fault without it.
    """
    outside = next((t for t in trials if any(f.kind == "out of bounds" for f in t.evidence.faults)), None)
    asked = smallest.asked_of(exercise) if outside else None
    if outside is None or asked is None:
        return False
    try:
        tree = look(asked)
        outside.evidence.smallest = smallest.read(tree) if tree else None
    except (ChildLost, ValueError, KeyError, TypeError):
        return False
    return outside.evidence.smallest is not None


def _other_inputs(trials: Sequence[Trial], seed: int) -> list[list[dict[str, Any]]]:
    """Arguments to record each trial with: whoever records knows nothing of those that the kernels run on."""
    return [[trial.case.arguments(seed + call) for call in range(len(trial.inputs))] for trial in trials]
