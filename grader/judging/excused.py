"""Exercises that were never handed out to a student, who got an earlier release of the notebook, and has no answer to them.

Each earns the share of its points that the student earned of the rest, so that it changes no percentage, whatever the LMS's maximum is.
"""

from __future__ import annotations

from collections.abc import Mapping

from course_lib.exercise import Finding, Verdict
from grader.catalogue import say
from grader.judging.submission import Submission
from tritontrace.results import Cause


def apply(read: Submission, verdicts: Mapping[str, Verdict], worth: Mapping[str, float]) -> dict[str, Verdict]:
    """Replace the verdicts on exercises that were not handed out to the student. worth: exercise -> points in the maximum, 0 for More."""
    handed_out = [id for id in verdicts if id not in read.excused]
    most = sum(worth[id] for id in handed_out)
    share = sum(verdicts[id].points for id in handed_out if worth[id]) / most if most else 0.0
    return {id: _excused(v, share * worth[id]) if id in read.excused else v for id, v in verdicts.items()}


def _excused(verdict: Verdict, points: float) -> Verdict:
    points, cause = round(points, 2), Cause("not_handed_out")
    title, seen = say("judging.excused.title"), say("judging.excused.seen")
    finding = Finding(title, points, verdict.out_of, "passed", seen=seen, cause=cause, key="handed_out")
    return Verdict(verdict.exercise, points, verdict.out_of, [finding])
