"""One notebook, judged without a class: for a student who asks, a cron job that answers, and each of `nbgrader autograde`."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

import grader
from course_lib import render
from course_lib.exercise import Verdict
from course_lib.exercises import UNITS, find
from course_lib.handin import files
from course_lib.version import VERSION
from grader import TEMPLATES
from grader.cohort import canary
from grader.gradebook import counts
from grader.gradebook.counts import ExerciseCounts
from grader.judging import excused, follow_through, submission
from grader.judging.judge import CpuBudget, Judge, judge_exercise
from tritontrace.replay import wire

_local = threading.local()  # a judge for each thread, and the units that it has proven it can judge


@dataclass(frozen=True)
class GradedNotebook:
    """One student's verdicts on a unit, and how its exercises count."""

    unit: str
    student: str
    verdicts: list[Verdict]
    counting: ExerciseCounts

    @property
    def points(self) -> float:
        """Return the points earned, with what counts of More, and without what could not be judged."""
        return self.counting.score({verdict.exercise: verdict.points for verdict in self.verdicts})

    @property
    def bonus(self) -> float:
        """Return the extra credit for speed."""
        return sum(v.bonus for v in self.verdicts if self.counting.ways[v.exercise] != "dropped")

    @property
    def judged(self) -> bool:
        return all(verdict.judged for verdict in self.verdicts)

    @property
    def mark(self) -> str:
        return f"{self.points:g}" if self.judged else "?"

    @property
    def out_of(self) -> float:
        return self.counting.out_of

    def text(self) -> str:
        total = f"{self.student}, {self.unit}: {self.mark} of {self.out_of:g} points"
        return "\n\n".join([*(render.text(verdict) for verdict in self.verdicts), total])

    def tree(self) -> dict:
        """Return plain data for a program: the same numbers and sentences; points are None if an exercise could not be judged."""
        numbers = {"points": self.points if self.judged else None, "out_of": self.out_of, "bonus": self.bonus}
        verdicts = [wire.to_tree(verdict) for verdict in self.verdicts]
        return {"unit": self.unit, "student": self.student, "version": VERSION, **numbers, "verdicts": verdicts}

    def html(self) -> str:
        """Render a page of its own, everything escaped."""
        environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
        return environment.get_template("single.html.j2").render(
            g=self, findings=map(render.html, self.verdicts), version=VERSION
        )


def unit_of(path: Path) -> str:
    """Return the unit that a notebook belongs to, by the ids of its cells. Raises submission.Problem if there is none."""
    unit = files.unit_of(submission.load(path))
    if not unit:
        raise submission.Problem(
            f"{path.name} has no exercise of any unit here: {', '.join(UNITS)}. Name it with --unit."
        )
    return unit


def grade(
    path: Path, student: str, *, unit: str = "", accept_risk: bool = False, counting: ExerciseCounts | None = None
) -> GradedNotebook:
    """Judge a notebook as the class's would be, after the unit's published solutions. Raises submission.Problem, ValueError,
    sandbox.NoSandbox or canary.Broken, with a message.

    counting   how exercises count; as the course says, if nobody says otherwise
    student    whose hidden inputs are drawn: the same name as in the class gives the same verdict
    """
    unit = unit or unit_of(path)
    grader.exercises(unit)
    submission.load(path)  # says what is wrong with the file as a whole
    judge = Judge(accept_risk=accept_risk)
    try:
        canary.prove(judge, unit)
        found = list(judge_submission(judge, unit, student, path).values())
        return GradedNotebook(unit, student, found, counting or counts.of(None, unit))
    finally:
        judge.close()


def verdicts(unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """Return the verdicts on one submitted notebook, from disk where they exist: nbgrader's autograde enters these, one notebook after the
    other. Raises canary.Broken if the published solutions do not earn everything."""
    if not hasattr(_local, "judge") or _local.judge.folder != grader.home():
        _local.judge, _local.proven = Judge(accept_risk=bool(os.environ.get("GRADER_ACCEPT_RISK"))), set()
    if unit not in _local.proven:
        canary.prove(_local.judge, unit)
        _local.proven.add(unit)
    return judge_submission(_local.judge, unit, student, path)


def judge_submission(judge: Judge, unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """Return a verdict for each exercise of the unit, whatever the notebook is like."""
    exercises = list(grader.exercises(unit).values())
    read = submission.read(path, exercises, grader.released(unit))
    budget = CpuBudget()
    own = {exercise.id: judge_exercise(judge, exercise, read, student, budget) for exercise in exercises}
    second = replace(read, answers=follow_through.answers(exercises, read, own))
    again = {id: judge_exercise(judge, find(id), second, student, budget) for id in second.answers}
    settled = follow_through.apply(exercises, read, own, again)
    return excused.apply(read, settled, counts.of(judge.folder, unit).in_the_maximum)
