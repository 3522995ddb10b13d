"""worklog("coalescing.transpose_log", transpose_log): rounds that make a wasteful kernel better, each stated before it is traced.

Without rounds it shows the version that the log begins with. With them it traces each version, and shows what was stated, what
happened, and which line changed it. Statements are kept in the logbook from when they were first seen: a statement that changes
after the trace is shown as what it is. Points are `check`'s, on sizes that nobody has seen.

log.py       rounds -> what was stated and what happened
page.py      that as text, and as a page with pictures
picture.py   the picture
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises import find
from course_lib.work_logs import log, page
from course_lib.workloads.stated import CALLED


def worklog(exercise_id: str, rounds: Callable[[], Any] | None = None) -> page.FirstVersion | page.Page | None:
    """Show the first version of a work log, or the traces of your rounds. It gives no points: `check` does."""
    try:
        exercise = exercise_of(exercise_id)
        if rounds is None or rounds is ...:
            return page.FirstVersion(exercise)
        return page.Page(exercise, log.of_rounds(exercise, rounds))
    except ValueError as error:
        print(error)
        return None


def exercise_of(exercise_id: str) -> Exercise:
    """Return the exercise of a work log. Raises ValueError, with a message, if it is not a work log."""
    exercise = find(exercise_id)
    if exercise.called != CALLED:
        raise ValueError(say("shown.work_log.none", exercise=exercise.id))
    return exercise
