"""The course changes in mid-term: what is judged anew is said before, whose marks changed after, and published marks can stay."""

import csv
import json
import os
import re
import signal
import time

import pytest
from test_classroom import UNIT, Table, home  # noqa: F401
from test_disk import run

from grader.cohort import workers
from grader.gradebook import counts, late, results
from grader.gradebook.books import Books
from grader.judging import verdicts
from grader.lms import sheets
from grader.reporting import report

EXERCISE = "coalescing.transpose"


class Course:
    """Workers that give each exercise as many points as `points` says, and the code that they stand for."""

    def __init__(self, folder, patch):
        self.home, self.points, self.tables = folder, lambda student, exercise: 1.0, []
        self.on, self.card, self.workers = "a laptop", verdicts.NO_GPU, []
        patch.setenv("GRADER_HOME", str(folder))
        patch.setattr("grader.cohort.classroom.Local", self._table)
        patch.setattr("grader.cohort.classroom.ClassGrader.prove", lambda self, unit: None)
        self.change = lambda code: [
            patch.setattr(f"grader.{module}.code_version", lambda unit="": code)
            for module in ("judging.verdicts", "gradebook.books")
        ]
        self.change("first")

    def _table(self, count, **more):
        table = Table(lambda student, exercise, time: self.points(student, exercise))
        table.on, table.device, table.places = self.on, lambda mode: self.card, lambda mode: self.workers or [self.on]
        self.tables.append(table)
        return table

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


def test_changes_are_listed_though_the_run_that_made_them_was_stopped(course, monkeypatch):
    """Two runs are stopped, each after it has entered somebody: the third names everybody, and the log has each change once."""
    course.grade()
    course.change("second")
    course.points = lambda student, exercise: 0.5 if exercise == EXERCISE else 1.0
    before, enter = course.total("full-marks"), Books.enter

    def until_the_first_is_entered(books, *facts):
        if books.written:
            raise KeyboardInterrupt
        return enter(books, *facts)

    monkeypatch.setattr(Books, "enter", until_the_first_is_entered)
    for _ in range(2):
        code, said, _ = course.grade()
        assert code == 130 and "mark changed" not in said
    monkeypatch.setattr(Books, "enter", enter)
    code, said, _ = course.grade()
    assert code == 0
    everybody = sorted(entry.student for entry in results.gradebook(course.home, UNIT) if entry.score)
    assert sorted(re.findall(r"mark changed: ([\w-]+): transpose 1 -> 0.5", said)) == everybody
    rows = list(csv.DictReader((course.home / "reports" / f"{UNIT}_changes.csv").open()))
    totals = [(row["student"], row["before"], row["after"]) for row in rows if row["exercise"] == "total"]
    assert sorted(student for student, *_ in totals) == everybody
    assert ("full-marks", f"{before:g}", f"{before - 0.5:g}") in totals
    assert "mark changed" not in course.grade()[1]


def test_one_student_alone_is_refused_where_the_unit_has_changed_for_all(course):
    """An exercise more or less, or other points, reach everybody's marks and pages at once, or nobody's."""
    assert course.grade("--student", "full-marks")[0] == 0  # nobody else has been graded
    course.grade()
    marks = {entry.student: entry for entry in results.gradebook(course.home, UNIT)}
    run("counts", UNIT, "--more", EXERCISE)
    code, said, _ = course.grade("--student", "full-marks")
    assert code == 1 and "without --student first" in said and "mark changed" not in said
    run("counts", UNIT, "--path", EXERCISE)
    assert {entry.student: entry for entry in results.gradebook(course.home, UNIT)} == marks
    assert course.grade("--student", "full-marks")[0] == 0
    run("counts", UNIT, "--more", EXERCISE)
    assert course.grade()[0] == 0 and course.grade("--student", "full-marks")[0] == 0


def test_a_dry_run_says_that_the_maximum_changes_and_that_exported_marks_stand_in_the_way(course):
    course.grade()
    worth = counts.of(course.home, UNIT)
    run("counts", UNIT, "--more", EXERCISE)
    less = f"{worth.out_of - worth.worth(EXERCISE):g}"
    code, said, _ = course.grade("--dry-run")
    assert code == 0 and f"from {worth.out_of:g} to {less} points for everybody" in said and "--thaw" not in said
    run("counts", UNIT, "--path", EXERCISE)
    assert "points for everybody" not in course.grade("--dry-run")[1]
    run("export", UNIT, "canvas")
    run("counts", UNIT, "--more", EXERCISE)
    course.change("second")
    said = course.grade("--dry-run")[1]
    assert f"to {less} points for everybody" in said and "--thaw" in said
    assert course.grade()[0] == 1


def test_a_worker_that_ended_is_named_with_whose_work_it_had(course):
    deaths = iter([True])

    def points(student, exercise):
        if student == "full-marks" and next(deaths, False):
            raise workers.WorkerDied("killed")
        return 1.0

    course.points = points
    code, said, _ = course.grade()
    assert code == 0 and "full-marks: a worker ended" in said and "torch-call: a worker" not in said
    assert "a worker ended" not in course.grade()[1]


def test_a_job_that_is_ended_stops_as_one_that_a_person_stops(course, monkeypatch):
    """Slurm and systemd send SIGTERM."""
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Books, "enter", lambda books, *facts: os.kill(os.getpid(), signal.SIGTERM))
    try:
        code, said, _ = course.grade()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == 130 and "goes on from there" in said


def books_of(home):  # noqa: F811
    """All that a class keeps, but what judging and waiting leave in any case: verdicts by their keys, and the lock."""
    return {
        path.relative_to(home): path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and path.name != "lock" and path.parent.name != "verdicts"
    }


def test_a_dry_run_says_whose_marks_would_change_and_changes_none(course):
    """Points by hand, the cost of lateness and points that the unit has given up are in what it says, as the run to come has it."""
    course.grade()
    late.set_due(course.home, UNIT, "2026-11-19T12:00+00:00")
    late.set_rules(course.home, UNIT, percent=10)
    (course.home / "submitted" / "full-marks" / UNIT / "timestamp.txt").write_text("2026-11-19 20:00:00 UTC")
    course.grade()
    course.change("second")
    course.points = lambda student, exercise: 0.5 if (student, exercise) == ("full-marks", EXERCISE) else 1.0
    before = books_of(course.home)
    code, said, asked = course.grade("--dry-run")
    assert code == 0 and asked == {"blank", "full-marks", "torch-call"}
    would = re.findall(r"mark would change: ([\w-]+): (transpose 1 -> 0.5, total [\d.]+ -> [\d.]+)", said)
    assert [student for student, _ in would] == ["full-marks"] and "The mark of 1 student would change" in said
    assert books_of(course.home) == before and not list(course.home.glob(".dry_run*"))
    code, said, asked = course.grade()
    assert code == 0 and asked == set()  # what a dry run has judged is judged
    assert re.findall(r"mark changed: ([\w-]+): (transpose 1 -> 0.5, total [\d.]+ -> [\d.]+)", said) == would


def test_marks_that_were_exported_stay_though_the_course_changes(course):
    course.grade()
    assert run("export", UNIT, "canvas")[0] == 0
    before = {entry.student: entry for entry in results.gradebook(course.home, UNIT)}
    course.change("second")
    course.points = lambda student, exercise: 0.25
    code, said, asked = course.grade()
    assert code == 0 and asked == set() and "3 students stay" in said
    assert {entry.student: entry for entry in results.gradebook(course.home, UNIT)} == before

    code, said, asked = course.grade("--dry-run")  # what would be, if they did not
    assert code == 0 and len(asked) == 3 and said.count("mark would change") == 3

    path = course.home / "submitted" / "full-marks" / UNIT / f"{UNIT}.ipynb"
    notebook = json.loads(path.read_text())
    path.write_text(json.dumps(notebook | {"metadata": notebook["metadata"] | {"touched": time.time()}}))
    _, said, _ = course.grade()
    assert re.findall("mark changed: ([\\w-]+)", said) == ["full-marks"] and "2 students stay" in said

    run("counts", UNIT, "--drop", EXERCISE)  # reaches everybody's marks, or nobody's
    code, said, _ = course.grade()
    assert code == 1 and "Nothing was changed" in said
    assert {entry.student: entry.score for entry in results.gradebook(course.home, UNIT)}.keys() == before.keys()
    assert run("freeze", UNIT, "--thaw")[0] == 0
    code, said, _ = course.grade()
    assert code == 0 and "mark changed: torch-call" in said


def test_the_gradebook_of_before_an_upgrade_stays(course, monkeypatch):
    """One for each upgrade, made before the first change, though the first run was stopped; none where no code has changed."""
    course.grade()
    course.grade()
    assert not (course.home / "snapshots").exists()
    course.change("second")
    course.points = lambda student, exercise: 0.25
    total, enter = course.total("full-marks"), Books.enter
    for stop in (lambda *facts: enter(*facts) and os.kill(os.getpid(), signal.SIGINT), enter):
        monkeypatch.setattr(Books, "enter", stop)
        course.grade()
    (snapshot,) = (course.home / "snapshots").glob("*.db")
    assert snapshot.stat().st_mode & 0o077 == 0 and (course.home / "snapshots").stat().st_mode & 0o077 == 0
    assert course.total("full-marks") < total
    snapshot.replace(course.home / "gradebook.db")
    assert course.total("full-marks") == total


def test_a_regrade_on_another_card_says_before_whose_marks_can_change(course):
    """Judged on a laptop; then on a card: those are judged anew, and named before. Then everything is as it was."""
    course.grade("--student", "full-marks")
    course.on, course.card = "a server", "NVIDIA H200"
    code, said, asked = course.grade("--student", "torch-call")
    assert code == 0 and "Judged before" not in said  # nobody's marks that were there
    code, said, asked = course.grade("--student", "full-marks", "--student", "torch-call")
    before, _, table = said.partition("full-marks. They are judged anew, and marks can change")
    assert "Judged before on a laptop, and now on a server: " in before and "judged on" in table
    assert {student for student, _ in course.tables[-1].asked} == {"full-marks"}
    _, said, asked = course.grade()
    assert "Judged before" not in said and asked == {"blank"}


def test_a_class_on_several_machines_is_told_apart_in_table_and_report(course):
    course.grade("--student", "full-marks")
    course.on = "another laptop"  # of which no verdict depends: what was judged stays
    course.workers = ["another laptop", "another laptop", "a server"]
    code, said, asked = course.grade()
    assert "not alike: 2 on another laptop; 1 on a server" in said and "full-marks" not in asked
    assert "a judged on another laptop" in said and "b judged on a laptop" in said
    entries = {entry.student: entry.on for entry in results.gradebook(course.home, UNIT)}
    assert entries["full-marks"] == ("a laptop",) and entries["torch-call"] == ("another laptop",)
    assert results.places([entry for entry in results.gradebook(course.home, UNIT) if entry.student == "blank"]) == {}
    page = report.page(report.of_class(course.home, UNIT, published=lambda exercise: ""))
    assert "b a laptop" in page and "a another laptop" in page
    verdicts_of = {
        entry.student: results.verdicts(course.home, UNIT, entry.student)
        for entry in results.gradebook(course.home, UNIT)
    }
    header, *rows = sheets.by_criterion(UNIT, results.gradebook(course.home, UNIT), verdicts_of)
    on = {(row[0], row[header.index("on")]) for row in rows}
    assert {("full-marks", "a laptop"), ("torch-call", "another laptop")} <= on
