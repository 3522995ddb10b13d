"""The course changes in mid-term: what is judged anew is said before, whose marks changed after, and published marks can stay."""

import json
import time

import pytest
from test_classroom import UNIT, Table, home  # noqa: F401
from test_disk import run

from grader.gradebook import results

EXERCISE = "coalescing.transpose"


class Course:
    """Workers that give each exercise as many points as `points` says, and the code that they stand for."""

    def __init__(self, folder, patch):
        self.home, self.points, self.tables = folder, lambda student, exercise: 1.0, []
        patch.setenv("GRADER_HOME", str(folder))
        patch.setattr("grader.cohort.classroom.Local", self._table)
        patch.setattr("grader.cohort.classroom.ClassGrader.prove", lambda self, unit: None)
        self.change = lambda code: [
            patch.setattr(f"grader.{module}.code_version", lambda unit="": code)
            for module in ("judging.verdicts", "gradebook.books")
        ]
        self.change("first")

    def _table(self, count, **more):
        self.tables.append(Table(lambda student, exercise, time: self.points(student, exercise)))
        return self.tables[-1]

    def grade(self, *words):
        code, said = run("autograde", UNIT, "--workers", 1, "--accept-risk", *words)
        return code, said, {student for student, _ in self.tables[-1].asked}

    def total(self, student):
        return next(e.score for e in results.gradebook(self.home, UNIT) if e.student == student)


@pytest.fixture
def course(home, monkeypatch):  # noqa: F811
    return Course(home, monkeypatch)


def test_what_changed_code_does_to_marks_is_said_before_and_after(course):
    code, said, _ = course.grade()
    assert code == 0 and "judged anew" not in said and "mark changed" not in said
    before = course.total("full-marks")
    course.change("second")
    course.points = lambda student, exercise: 0.5 if (student, exercise) == ("full-marks", EXERCISE) else 1.0
    code, said, asked = course.grade()
    assert code == 0 and asked == {"blank", "full-marks", "torch-call"}
    assert "has changed since 3 of 3 submissions were judged" in said
    line = f"mark changed: full-marks: transpose 1 -> 0.5, total {before:g} -> {before - 0.5:g}"
    assert line in said and said.count("mark changed") == 1
    _, said, asked = course.grade()
    assert asked == set() and "judged anew" not in said and "mark changed" not in said


def test_frozen_marks_stay_and_who_comes_late_is_judged(course):
    late = course.home / "submitted" / "torch-call" / UNIT
    late.rename(course.home / "aside")
    course.grade()
    assert run("freeze", UNIT)[0] == 0
    course.change("second")
    course.points = lambda student, exercise: 0.25
    (course.home / "aside").rename(late)
    before = course.total("full-marks")
    code, said, asked = course.grade()
    assert code == 0 and asked == {"torch-call"} and course.total("full-marks") == before
    assert "frozen" in said and "2 students stay" in said and "judged anew" not in said
    assert course.total("torch-call") < before

    path = course.home / "submitted" / "full-marks" / UNIT / f"{UNIT}.ipynb"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"touched": time.time()}))
    _, said, asked = course.grade()
    assert asked == set() and "full-marks has handed in again since" in said
    _, said, asked = course.grade("--student", "full-marks")
    assert asked == {"full-marks"} and "mark changed: full-marks" in said

    assert run("freeze", UNIT, "--thaw")[0] == 0
    _, said, _ = course.grade()
    assert "frozen since" not in said


def test_one_student_alone(course):
    code, said, asked = course.grade("--student", "full-marks")
    assert code == 0 and asked == {"full-marks"}
    assert [entry.student for entry in results.gradebook(course.home, UNIT)] == ["full-marks"]
    code, said, _ = course.grade("--student", "nobody")
    assert code == 1 and "nobody: no submission" in said
