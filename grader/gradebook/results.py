"""Results of grading a unit: the numbers of nbgrader's gradebook, and with them what the judge found and flagged."""

from __future__ import annotations

import contextlib
import json
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook, InvalidEntry, MissingEntry

from course_lib import metadata
from course_lib.exercise import Exercise, Verdict
from course_lib.metadata import GradedOutput
from grader import disk
from grader.gradebook import counts
from grader.nbgrader_config import scripts_on_path
from tritontrace.replay import wire


class NotGraded(ValueError):
    """Raised, with a message to the instructor, where nobody has been graded."""


@dataclass(frozen=True)
class ByHand:
    """The contents of formgrader's fields for one exercise; None in untouched ones.

    points    in place of the judge's;  judged = the judge's
    extra     extra credit, which the judge writes there for an exercise that has some
    review    points are for another answer than the one that is there now, and nobody has looked at it since
    """

    points: float | None
    comment: str | None
    extra: float | None
    judged: float | None
    review: bool

    @property
    def given(self) -> bool:
        return self.points is not None or bool(self.comment)


@dataclass(frozen=True)
class Entry:
    """One student's row of the gradebook. Points that an instructor gave by hand are in it.

    by_hand     exercise -> what it was given by hand, of those that were given something
    scores      exercise that counts -> points, None where nothing has been graded: "?", and never 0
    extra       exercise -> extra credit, which `total` includes: for speed, and what counts of the points of More
    penalty     for being late;  score = total - penalty, never below 0; None while points of an exercise are unknown
    hours_late  after the due date and any extension; 0 where no time of handing in is known
    on          the machines on which the exercises that count were judged;  gpus = those on which their kernels ran
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
    by_hand: dict[str, ByHand] = field(default_factory=dict)
    on: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()

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


@contextlib.contextmanager
def book(home: Path) -> Iterator[Any]:
    """Open nbgrader's Gradebook of `home`, created if there is none. Raises disk.WriteRefused where the disk is full."""
    scripts_on_path()
    home.mkdir(parents=True, exist_ok=True)
    try:
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as found:
            yield found
    except InvalidEntry as error:
        if refusal := disk.refusal(error):
            raise disk.WriteRefused(refusal) from None
        raise


def gradebook(home: Path, unit: str) -> list[Entry]:
    """Return the entries of everybody who has been graded in this unit, by id. Raises NotGraded if nobody has."""
    counting = counts.of(home, unit)
    entries = []
    if (home / "gradebook.db").exists():
        with book(home) as found, contextlib.suppress(MissingEntry):
            entries = [
                _entry(submitted, counting, verdicts(home, unit, submitted.student.id))
                for submitted in found.find_assignment(unit).submissions
            ]
    entries = [e for e in entries if _graded(home, unit, e.student).exists()]  # not: only an extension
    if not entries:
        raise NotGraded(f"{unit} has not been graded yet: run `python -m grader autograde {unit}`.")
    return sorted(entries, key=lambda entry: entry.student)


def entry(home: Path, unit: str, student: str) -> Entry:
    """Return the entry of one student, who has been graded."""
    with book(home) as opened:
        return _entry(opened.find_submission(unit, student), counts.of(home, unit), verdicts(home, unit, student))


def _entry(submitted, counting: counts.ExerciseCounts, judged: Mapping[str, Verdict]) -> Entry:
    student, exercises = submitted.student, counting.exercises
    grades = {grade.name: grade for notebook in submitted.notebooks for grade in notebook.grades}
    own = {e.id: grades.get(e.check_id) for e in exercises.values()}

    counting_verdicts = [v for id, v in judged.items() if counting.ways.get(id, "dropped") != "dropped"]

    def points(id: str) -> float | None:
        if own[id] is None or counting.ways[id] == "path" or own[id].manual_score is not None:
            return _points(own[id])
        verdict = judged.get(id)  # in the gradebook nothing but its extra credit is seen of it
        return verdict.points if verdict and verdict.judged else None

    return Entry(
        student=student.id,
        first_name=student.first_name or "",
        last_name=student.last_name or "",
        email=student.email or "",
        lms_id=student.lms_user_id or "",
        scores={id: points(id) for id in own if counting.ways[id] != "dropped"},
        extra={id: grade.extra_credit for id, grade in own.items() if grade is not None and grade.extra_credit},
        total=submitted.score,
        penalty=submitted.late_submission_penalty or 0.0,
        hours_late=submitted.total_seconds_late / 3600,
        by_hand={id: fields for id, fields in by_hand(submitted, exercises.values()).items() if fields.given},
        on=tuple(sorted({v.on for v in counting_verdicts if v.on})),
        gpus=tuple(sorted({v.gpu for v in counting_verdicts if v.gpu})),
    )


def places(entries: Iterable[Entry]) -> dict[tuple[str, ...], str]:
    """Map each machine that judged somebody to a letter, the commonest first; {} if everybody was judged on the same."""
    common = Counter(entry.on for entry in entries if entry.on)
    if len(common) < 2:
        return {}
    return {on: string.ascii_lowercase[number % 26] for number, (on, _) in enumerate(common.most_common())}


def _points(grade) -> float | None:
    if grade is None:
        return None
    return grade.manual_score if grade.manual_score is not None else grade.auto_score


def by_hand(submitted, exercises: Iterable[Exercise]) -> dict[str, ByHand]:
    """Map each exercise to the contents of formgrader's fields in a submission (nbgrader's SubmittedAssignment)."""
    grades = {grade.name: grade for notebook in submitted.notebooks for grade in notebook.grades}
    comments = {
        comment.name: comment.manual_comment for notebook in submitted.notebooks for comment in notebook.comments
    }
    return {
        e.id: ByHand(
            points=grade.manual_score,
            comment=comments.get(e.grade_id),
            extra=grade.extra_credit,
            judged=grade.auto_score,
            review=grade.manual_score is not None and grade.needs_manual_grade,
        )
        for e in exercises
        if (grade := grades.get(e.check_id))
    }


def entered(home: Path, unit: str, student: str) -> dict[str, Any]:
    """Read the facts from which a submission's entry was made, as grader.gradebook.books saved them; {} if it has not been entered."""
    try:
        return dict(json.loads(entered_path(home, unit, student).read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def entered_path(home: Path, unit: str, student: str) -> Path:
    """Return the file with the facts from which a submission's entry was made."""
    return home / "verdicts" / "entered" / unit / student


def behind(home: Path, unit: str, entries: Iterable[Entry]) -> list[str]:
    """List students who were given something by hand since the last autograde: feedback page and penalty do not include it yet."""
    students = []
    for entry in entries:
        known = entered(home, unit, entry.student)
        now = {id: (fields.points, fields.comment or None) for id, fields in entry.by_hand.items()}
        then = {id: (points, comment or None) for id, (points, comment, _) in known.get("by_hand", {}).items()}
        if known and now != {id: given for id, given in then.items() if given != (None, None)}:
            students.append(entry.student)
    return students


def _graded(home: Path, unit: str, student: str) -> Path:
    return home / "autograded" / student / unit / f"{unit}.ipynb"


def verdicts(home: Path, unit: str, student: str) -> dict[str, Verdict]:
    """Map each exercise to the verdict behind its points, as the graded notebook has it; without those that have none."""
    found = map(verdict, _graded_outputs(home, unit, student))
    return {each.exercise: each for each in found}


def verdict(graded: GradedOutput) -> Verdict:
    """Read the verdict in an output of a graded notebook."""
    empty = wire.to_tree(Verdict("", 0.0, 0.0, []))  # an earlier version's verdicts have fewer fields
    return wire.from_tree(Verdict, empty | graded.verdict)


def answers(home: Path, unit: str, student: str) -> dict[str, str]:
    """Map each exercise to the hash of the answer that the graded notebook has a verdict on."""
    return {graded.verdict["exercise"]: graded.answer for graded in _graded_outputs(home, unit, student)}


def extras(home: Path, unit: str, student: str) -> dict[str, float]:
    """Map each exercise to the extra credit that was entered with the graded notebook."""
    return {graded.verdict["exercise"]: graded.extra for graded in _graded_outputs(home, unit, student)}


def _graded_outputs(home: Path, unit: str, student: str) -> Iterator[GradedOutput]:
    """Yield what the graded notebook holds for programs with each verdict that it shows."""
    try:
        cells = json.loads(_graded(home, unit, student).read_text())["cells"]
    except (OSError, ValueError):
        return
    for output in (output for cell in cells for output in cell.get("outputs", ())):
        if graded := metadata.read(output.get("metadata", {}), GradedOutput):
            yield graded
