"""The verdict that one sees first, in the README's picture and on the site's first page: a transpose that is right, and wasteful."""

from __future__ import annotations

from course_lib import checking, render
from course_lib.exercises import find
from grader.audit.samples.coalescing import ONE_ROW_A_PROGRAM, TRANSPOSE
from grader.published import answer
from tritontrace.replay.recording import load


def verdict() -> str:
    """What `check` shows of it, as HTML."""
    exercise = find(TRANSPOSE)
    wasteful = load(answer(exercise.id, ONE_ROW_A_PROGRAM), exercise.entry)
    return render.html(checking.verdict(exercise, wasteful, seed=0))
