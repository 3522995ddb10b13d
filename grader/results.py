"""What grading a unit has left: the numbers of nbgrader's gradebook, and beside them what the judge found and flagged."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

import grader
from course_lib.exercise import Exercise, Verdict
from course_lib.observe import wire
from grader import similar, submission
from grader.bounded import TooMuch, bounded
from grader.nbgrader_config import scripts_on_path
from grader.preprocessors import VERDICT


class NotGraded(ValueError):
    """One sentence to the instructor."""


@dataclass(frozen=True)
class Entry:
    """One student's line of the gradebook. Points that an instructor gave by hand are in it.

    scores      exercise -> points, None where nothing has been graded: "?", and never 0;  extra = extra credit, which `total` includes
    penalty     for being late;  score = total - penalty, never below 0; None while points of an exercise are unknown
    hours_late  after the due date and any extension; 0 where no time of handing in is known
    """

    student: str
    first_name: str
    last_name: str
    email: str
    lms_id: str
    scores: dict[str, float | None]
    extra: dict[str, float]
    total: float
    penalty: float
    hours_late: float = 0.0

    @property
    def score(self) -> float | None:
        return max(0.0, self.total - self.penalty) if self.marked else None

    @property
    def marked(self) -> bool:
        """Whether each exercise has its points."""
        return None not in self.scores.values()

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.first_name, self.last_name))) or self.student


def book(home: Path) -> Gradebook:
    """nbgrader's gradebook of `home`, made if there is none. Use as a context manager."""
    scripts_on_path()
    home.mkdir(parents=True, exist_ok=True)
    return Gradebook(f"sqlite:///{home / 'gradebook.db'}")


def gradebook(home: Path, unit: str) -> list[Entry]:
    """Everybody who has been graded in this unit, by id. NotGraded if nobody has."""
    exercises = grader.exercises(unit)
    entries = []
    if (home / "gradebook.db").exists():
        with book(home) as found, contextlib.suppress(MissingEntry):
            entries = [_entry(s, exercises) for s in found.find_assignment(unit).submissions]
    entries = [e for e in entries if _graded(home, unit, e.student).exists()]  # not: only an extension
    if not entries:
        raise NotGraded(f"{unit} has not been graded yet: run `python -m grader autograde {unit}`.")
    return sorted(entries, key=lambda entry: entry.student)


def _entry(submitted, exercises: dict[str, Exercise]) -> Entry:
    student = submitted.student
    grades = {grade.name: grade for notebook in submitted.notebooks for grade in notebook.grades}
    own = {e.id: grades.get(e.check_id) for e in exercises.values()}
    return Entry(
        student=student.id,
        first_name=student.first_name or "",
        last_name=student.last_name or "",
        email=student.email or "",
        lms_id=student.lms_user_id or "",
        scores={id: _points(grade) for id, grade in own.items()},
        extra={id: grade.extra_credit for id, grade in own.items() if grade is not None and grade.extra_credit},
        total=submitted.score,
        penalty=submitted.late_submission_penalty or 0.0,
        hours_late=submitted.total_seconds_late / 3600,
    )


def _points(grade) -> float | None:
    if grade is None:
        return None
    return grade.manual_score if grade.manual_score is not None else grade.auto_score


def _graded(home: Path, unit: str, student: str) -> Path:
    return home / "autograded" / student / unit / f"{unit}.ipynb"


def verdicts(home: Path, unit: str, student: str) -> dict[str, Verdict]:
    """Exercise -> the verdict behind its points, as it stands in the graded notebook; without those that have none."""
    found = {}
    try:
        cells = json.loads(_graded(home, unit, student).read_text())["cells"]
    except (OSError, ValueError):
        return {}
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        if tree := output.get("metadata", {}).get(VERDICT):
            verdict = wire.from_tree(Verdict, tree)
            found[verdict.exercise] = verdict
    return found


@dataclass(frozen=True)
class StudentFlag:
    """Something for a person to look at; it has taken no point."""

    student: str
    exercise: str  # "" if it is about the notebook
    sentence: str


@dataclass(frozen=True)
class Handin:
    """What one student handed in: the source of each exercise as it was judged, its tokens, and what is odd about it."""

    sources: dict[str, str]
    tokens: dict[str, tuple[str, ...]]
    flags: list[StudentFlag]
    problem: str = ""  # why the file could not be read


def handin(path: Path, unit: str, student: str) -> Handin:
    """Reads a submitted notebook, in a child; runs nothing."""
    exercises = list(grader.exercises(unit).values())
    given = submission.given_cells(grader.released(unit))

    def work() -> list:
        read = submission.read_here(path, exercises, given)
        sources = {e.id: read.solution(e).source for e in exercises if e.id in read.homes}
        return [sources, {id: similar.tokens(source) for id, source in sources.items()}, read.flags, read.problem]

    try:
        sources, tokens, flags, problem = bounded(work)
    except TooMuch as reason:
        problem = f"{path.name} {reason}."
        return Handin({}, {}, [StudentFlag(student, "", problem)], problem)
    tokens = {id: tuple(read) for id, read in tokens.items()}
    return Handin(sources, tokens, [StudentFlag(student, *flag) for flag in flags], problem)
