"""One notebook, judged without a class: for a student who asks, or a cron job that answers. No gradebook is touched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

import grader
from course_lib import render
from course_lib.exercise import Verdict
from course_lib.exercises import UNITS
from course_lib.handin import files
from course_lib.observe import wire
from course_lib.version import VERSION
from grader import TEMPLATES
from grader.judging import submission


@dataclass(frozen=True)
class Graded:
    """One student's verdicts on a unit."""

    unit: str
    student: str
    verdicts: list[Verdict]

    @property
    def points(self) -> float:
        """The points earned, without what could not be judged."""
        return sum(verdict.points for verdict in self.verdicts)

    @property
    def judged(self) -> bool:
        return all(verdict.judged for verdict in self.verdicts)

    @property
    def mark(self) -> str:
        return f"{self.points:g}" if self.judged else "?"

    @property
    def out_of(self) -> float:
        return sum(verdict.out_of for verdict in self.verdicts)

    def text(self) -> str:
        total = f"{self.student}, {self.unit}: {self.mark} of {self.out_of:g} points"
        return "\n\n".join([*(render.text(verdict) for verdict in self.verdicts), total])

    def tree(self) -> dict:
        """Plain data for a program: the same numbers and sentences; points are None if an exercise could not be judged."""
        numbers = {
            "points": self.points if self.judged else None,
            "out_of": self.out_of,
            "bonus": sum(v.bonus for v in self.verdicts),
        }
        verdicts = [wire.to_tree(verdict) for verdict in self.verdicts]
        return {"unit": self.unit, "student": self.student, "version": VERSION, **numbers, "verdicts": verdicts}

    def html(self) -> str:
        """A page of its own, everything escaped."""
        environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True)
        return environment.get_template("single.html.j2").render(
            g=self, findings=map(render.html, self.verdicts), version=VERSION
        )


def unit_of(path: Path) -> str:
    """The unit that a notebook belongs to, by the ids of its cells. Raises submission.Problem if it is none of ours."""
    unit = files.unit_of(submission.load(path))
    if not unit:
        raise submission.Problem(
            f"{path.name} has no exercise of any unit here: {', '.join(UNITS)}. Name it with --unit."
        )
    return unit


def grade(path: Path, student: str, *, unit: str = "", accept_risk: bool = False) -> Graded:
    """Judges a notebook as the class's would be, after the unit's published solutions. submission.Problem, ValueError,
    sandbox.NoSandbox or canary.Broken, with a sentence.

    student    whose hidden inputs are drawn: the same name as in the class gives the same verdict
    """
    from grader.classes import canary
    from grader.judging import judge

    unit = unit or unit_of(path)
    grader.exercises(unit)
    submission.load(path)  # says what is wrong with the file as a whole
    bench = judge.Judge(accept_risk=accept_risk)
    try:
        canary.prove(bench, unit)
        return Graded(unit, student, list(judge.judge_submission(bench, unit, student, path).values()))
    finally:
        bench.close()
