"""Evidence -> a verdict, in the notebook and in the grader alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from course_lib import criteria
from course_lib.exercise import Exercise, Trial, Verdict
from course_lib.observe import timed
from course_lib.observe.child import ChildLost


def judge(
    exercise: Exercise,
    trials: Sequence[Trial],
    seed: int,
    record: Callable[[list], list],
    run: timed.Runner = timed.run_apart,
) -> Verdict:
    """The verdict on the trials. If points were earned and there is a GPU that runs it, its speed case is timed, too.

    record: the calls of each case -> their logs. It raises ChildLost or ValueError, with a sentence, if it gets none.
    """
    found = criteria.judge(exercise, trials)
    if not (found.points and timed.can_time(exercise)):
        return found
    case = exercise.bonus[0].case
    try:
        (log,) = record([[case.arguments(seed)]])
        timing = timed.measure(exercise, log, seed, {key for trial in trials for key in trial.evidence.kernels}, run)
    except (ChildLost, ValueError) as error:
        timing = timed.problem(exercise, f"not measured: on {case.name} the function {error}")
    trials[0].evidence.timing = timing
    return criteria.judge(exercise, trials)
