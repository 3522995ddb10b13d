"""Due dates, extensions, penalties for lateness, and grading again: nbgrader's own means, the release untouched."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest
import toy
import toyclass
from nbformat import v4
from nbgrader.preprocessors import AssignLatePenalties
from toy import UNIT
from typer.testing import CliRunner

from course_lib.exercises import find
from grader import ROOT, exercises, nbgrader_config
from grader.__main__ import app
from grader.command_line import show_gradebook
from grader.gradebook import late, results
from grader.gradebook.late import ByTheDay
from grader.published import IMPORTS, solution_cell


@pytest.mark.parametrize(
    "percent, at_most, hours, taken",
    [
        (10, 100, 0.1, None),  # within the grace
        (10, 100, 1, 5.0),
        (10, 100, 24, 5.0),
        (10, 100, 25, 10.0),
        (10, 30, 24 * 9, 15.0),
        (0, 100, 240, None),
    ],
)
def test_a_share_of_the_points_earned_for_each_day_begun(percent, at_most, hours, taken):
    plugin = ByTheDay(percent=percent, at_most=at_most)
    assert plugin.late_submission_penalty("ada", 50.0, hours * 3600) == taken


def test_a_unit_and_a_class_have_rules_of_their_own(tmp_path):
    late.set_rules(tmp_path, "05_tiling", percent=10.0)
    late.set_rules(tmp_path, "05_tiling", at_most=15.0, grace_minutes=None)
    assert late.rules_of(tmp_path, "05_tiling") == {"percent": 10.0, "at_most": 15.0}

    def taken(home, unit):
        parent = AssignLatePenalties()
        parent.db_url, parent.assignment_id = f"sqlite:///{home / 'gradebook.db'}", unit
        return ByTheDay(parent=parent, percent=1).late_submission_penalty("ada", 100.0, 3 * 24 * 3600)

    assert taken(tmp_path, "05_tiling") == 15.0
    assert taken(tmp_path, "06_fusion") == taken(tmp_path / "other", "05_tiling") == 3.0


@pytest.fixture
def course(tmp_path, monkeypatch):
    toyclass.make(monkeypatch, tmp_path, says={"ada": toyclass.RIGHT, "ben": toyclass.RIGHT})
    return tmp_path


def grade(course, monkeypatch):
    """Grades again with 20 percent a day: student -> (total, penalty, score)."""

    configured = nbgrader_config.config

    def config(home, **more):
        settings = configured(home, **more)
        settings.ByTheDay.percent = 20
        return settings

    monkeypatch.setattr(nbgrader_config, "config", config)
    outcomes = toy.grade_with_nbgrader(course / "class", UNIT, root=course)
    assert set(outcomes.values()) == {"ok"}, outcomes
    return {e.student: (e.total, e.penalty, e.score) for e in results.gradebook(course / "class", UNIT)}


def test_a_new_rule_of_the_unit_reaches_marks_that_were_entered(course, monkeypatch):
    home = course / "class"
    late.set_due(home, UNIT, "2026-01-01T12:00+00:00")
    (home / "submitted" / "ada" / UNIT / "timestamp.txt").write_text("2026-01-02 11:00:00 UTC")
    total, penalty, _ = grade(course, monkeypatch)["ada"]
    assert penalty == pytest.approx(0.2 * total)
    assert (
        CliRunner()
        .invoke(app, ["due", UNIT, "2026-01-01T12:00+00:00", "--percent", "50"], env={"GRADER_HOME": str(home)})
        .exit_code
        == 0
    )
    assert grade(course, monkeypatch)["ada"][1] == pytest.approx(0.5 * total)


def test_lateness_costs_what_the_configuration_says_and_an_extension_gives_it_back(course, monkeypatch):
    home = course / "class"
    for student in ("ada", "ben"):
        (home / "submitted" / student / UNIT / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    due = late.set_due(home, UNIT, "2026-11-19T00:00+01:00")
    assert f"{due:%Y-%m-%d %H:%M}" == "2026-11-18 23:00"
    until = late.extend(home, UNIT, "ben", days=3)
    assert f"{until:%Y-%m-%d %H:%M}" == "2026-11-21 23:00"
    assert grade(course, monkeypatch) == {"ada": (15.5, 6.2, 9.3), "ben": (15.5, 0.0, 15.5)}
    page = (home / "feedback" / "ada" / UNIT / f"{UNIT}.html").read_text()
    assert "after a penalty of 6.2 for being late" in page and "ada: 9.3 / 14 points" in page
    late.extend(home, UNIT, "ben", days=0)
    assert grade(course, monkeypatch)["ben"] == (15.5, 6.2, 9.3)


def test_who_is_late_is_named_also_where_it_costs_nothing(course, monkeypatch, capsys):
    home = course / "class"
    (home / "submitted" / "ada" / UNIT / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    late.set_due(home, UNIT, "2026-11-19T00:00+01:00")
    toy.grade_with_nbgrader(home, UNIT, root=course)
    show_gradebook(home, UNIT)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("late:")]
    assert said == ["late: ada, by 35.0 hours; it cost nothing (c.ByTheDay in grader/nbgrader_config.py)"]
    grade(course, monkeypatch)
    show_gradebook(home, UNIT)
    assert "late: ada, by 35.0 hours\n" in capsys.readouterr().out


def test_who_has_an_extension_and_nothing_handed_in_is_not_in_the_gradebook(course):
    late.set_due(course / "class", UNIT, "2026-11-19")
    late.extend(course / "class", UNIT, "zoe", days=1)
    assert [e.student for e in results.gradebook(course / "class", UNIT)] == ["ada", "ben"]


def test_an_extension_for_somebody_unheard_of_is_given_and_doubted(course, monkeypatch):
    home = course / "class"
    late.set_due(home, UNIT, "2026-11-19")
    (home / "submitted" / "doejane_1234").mkdir()  # imported, and not graded yet

    def said(student, days):
        return CliRunner().invoke(app, ["extend", UNIT, student, "--days", days]).output.splitlines()

    assert len(said("ada", "2")) == len(said("doejane_1234", "2")) == 1
    due, doubt = said("DoeJane", "2")
    assert due.startswith(f"DoeJane: {UNIT} is due on 2026-11-2")
    assert doubt == (
        "The class has no DoeJane yet (the nearest name is doejane_1234): if that is a slip, take it back with --days 0."
    )
    assert said("xyzzy", "2")[1] == "The class has no xyzzy yet: if that is a slip, take it back with --days 0."
    assert len(said("qwert", "0")) == 1  # taken back


def test_a_date_for_submissions_that_say_no_time_is_doubted(course):
    """Nobody would ever be late by it."""
    said = [CliRunner().invoke(app, ["due", UNIT, "2026-11-19"]).output]
    (course / "class" / "submitted" / "ada" / UNIT / "timestamp.txt").write_text("2026-11-19 20:00:00 UTC")
    said += [CliRunner().invoke(app, ["due", UNIT, "2026-11-19"]).output]
    assert [lines.count("\n") for lines in said] == [2, 1]


def test_what_is_no_date_or_no_unit_is_a_sentence(tmp_path):
    with pytest.raises(ValueError, match=r"'next week' is not a date. Write one such as 2026-11-30T23:59"):
        late.set_due(tmp_path, UNIT, "next week")
    with pytest.raises(ValueError, match="not in the gradebook yet"):
        late.extend(tmp_path, UNIT, "ada", 1)


def test_what_was_given_by_hand_stays_when_the_class_is_graded_again(course, monkeypatch):
    where = UNIT, UNIT, "ada"
    with results.book(course / "class") as book:
        book.find_grade("toy-root-check", *where).manual_score = 2.5
        book.find_comment("toy-root", *where).manual_comment = "See me."
        book.db.commit()
    assert grade(course, monkeypatch)["ada"] == (14.0, 0.0, 14.0)  # 10, 2.5, and 1.5 of extra credit
    page = (course / "class" / "feedback" / "ada" / UNIT / f"{UNIT}.html").read_text()
    assert "See me." in page and "2.5 / 4" in page


@pytest.mark.slow
def test_a_changed_hidden_case_judges_its_unit_anew_and_no_other_without_a_new_release(tmp_path):
    """The real commands in a copy of the course: a hidden case that no answer can pass stops its unit; one that has changed judges
    it anew."""
    copy = tmp_path / "course"
    for room in ("course_lib", "grader", "solutions", "notebooks"):
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", *OF_A_CLASS))
    changed, other = "04_memory_coalescing", "01_tensors_and_strides"
    hand_in(copy / "class", changed, "coalescing.padded_stride", "coalescing.divergence_passes")
    hand_in(copy / "class", other, "strides.row_major_strides")
    releases = {path: path.read_bytes() for path in (copy / "notebooks").rglob("*.ipynb")}
    hidden = copy / "grader" / "judging" / "hidden" / "coalescing.py"
    right = hidden.read_text()
    before = graded(copy, changed, other)
    judged = set((copy / "class" / "verdicts").glob("*.json"))
    assert before["coalescing.padded_stride"] == 4 and before["strides.row_major_strides"] > 0
    page = (copy / "class" / "feedback" / "ada" / other / f"{other}.html").stat().st_mtime_ns

    assert right.count("n=N, itemsize=itemsize") == 1
    hidden.write_text(right.replace("n=N, itemsize=itemsize", "n=N, itemsize=0"))
    stopped = autograde(copy, changed)
    said = " ".join(stopped.stdout.split())
    assert stopped.returncode == 1 and "the published solution of coalescing.padded_stride earns 0 of 4 points" in said
    assert {e.scores["coalescing.padded_stride"] for e in results.gradebook(copy / "class", changed)} == {4}

    hidden.write_text(right + "\nANOTHER = True\n")  # a comment alone would judge nothing anew
    assert graded(copy, changed, other) == before
    kept = len(set((copy / "class" / "verdicts").glob("*.json")) - judged)
    assert kept >= 2 + len(exercises(changed))  # ada's, and the published ones
    assert page == (copy / "class" / "feedback" / "ada" / other / f"{other}.html").stat().st_mtime_ns
    assert releases == {path: path.read_bytes() for path in (copy / "notebooks").rglob("*.ipynb")}


OF_A_CLASS = ("submitted", "autograded", "feedback", "registered", "reports", "verdicts", "gradebook.db*", "secret")


def hand_in(home, unit, *exercises):
    """ada hands in the published solutions of some exercises."""
    cells = [v4.new_code_cell(IMPORTS)] + [
        v4.new_code_cell(solution_cell(id), metadata={"nbgrader": {"grade_id": find(id).grade_id}}) for id in exercises
    ]
    path = home / "submitted" / "ada" / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(v4.new_notebook(cells=cells), path)


GRADE = """
import sys
from pathlib import Path
from grader.commands.judging import grade
for unit in sys.argv[2:]:
    grade(Path(sys.argv[1]), unit, workers=1, accept_risk=True, root=Path.cwd())
"""


def autograde(course, *units):
    """The command, in a process of its own."""
    command = [sys.executable, "-c", GRADE, course / "class", *units]
    there = os.environ | {"GRADER_HOME": str(course / "class"), "PYTHONPATH": str(course)}
    return subprocess.run(command, cwd=course, env=there, capture_output=True, text=True)


def graded(course, *units):
    """Exercise -> ada's points, after an autograde."""
    done = autograde(course, *units)
    assert done.returncode == 0, done.stdout + done.stderr
    entries = [entry for unit in units for entry in results.gradebook(course / "class", unit)]
    return {id: points for entry in entries for id, points in entry.scores.items()}
