"""Points and comments that an instructor gives in formgrader: part of the mark wherever it is shown, until a person takes
them back."""

import json
from dataclasses import replace

import pytest
import toyclass
from rich.console import Console
from test_late import course  # noqa: F401
from test_preprocessors import cell_of
from toy import UNIT
from typer.testing import CliRunner

import grader
from grader import nbgrader_config
from grader.__main__ import app
from grader.command_line import show_gradebook
from grader.gradebook import books, late, results
from grader.judging import submission
from grader.lms import feedback_export
from grader.reporting import report

DOUBLE, ROOT = "toy.double", "toy.root"


@pytest.fixture
def home(course, monkeypatch):  # noqa: F811
    """ada and ben, graded by autograde; a day of lateness costs 20 percent."""

    def config(home, **more):
        settings = nbgrader_config.config(home, **more)
        settings.ByTheDay.percent = 20
        return settings

    monkeypatch.setattr(books, "config", config)
    autograde(course / "class")
    return course / "class"


def autograde(home, **says):
    """Enters verdicts as autograde does, after the judge; student=verdicts, RIGHT if nothing is said."""
    ledger = books.Books(home, UNIT, root=home.parent)
    for student in ("ada", "ben"):
        path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        read = submission.read(path, list(grader.exercises(UNIT).values()), grader.released(UNIT))
        assert ledger.enter(student, says.get(student, toyclass.RIGHT), read) == "ok"


def give(home, exercise, points=None, comment=None, student="ada", **more):
    """Do what formgrader does when an instructor types points or a comment, or presses Resolve."""
    where, name = (UNIT, UNIT, student), exercise.replace(".", "-")
    with results.book(home) as book:
        grade = book.find_grade(f"{name}-check", *where)
        grade.manual_score, grade.needs_manual_grade = points, False
        if comment is not None:
            book.find_comment(name, *where).manual_comment = comment
        for key, value in more.items():
            setattr(grade, key, value)
        book.db.commit()


def answers_anew(home, source="def double(x): return x + x", student="ada"):
    path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    notebook = json.loads(path.read_text())
    cell_of(notebook, "toy-double")["source"] = source
    path.write_text(json.dumps(notebook))


def entry(home, student="ada"):
    return next(e for e in results.gradebook(home, UNIT) if e.student == student)


def page(home, student="ada"):
    return (home / "feedback" / student / UNIT / f"{UNIT}.html").read_text()


def said(home, capsys):
    show_gradebook(home, UNIT)
    return capsys.readouterr().out


def test_points_and_a_comment_reach_the_page_and_the_penalty_both_ways(home):
    (home / "submitted" / "ada" / UNIT / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    late.set_due(home, UNIT, "2026-11-19T12:00+00:00")  # a day
    autograde(home, ada=toyclass.WRONG)
    assert (entry(home).total, entry(home).penalty) == (10, 2)
    for points, total, penalty in ((0, 4, 0.8), (10, 14, 2.8), (None, 10, 2)):
        give(home, DOUBLE, points, "Looked at & settled.")
        autograde(home, ada=toyclass.WRONG)
        assert (entry(home).total, entry(home).penalty) == (total, penalty)
        assert f"ada: {total - penalty:g} / 14 points" in page(home) and "Looked at &amp; settled." in page(home)
        assert ("given by hand" in page(home)) == (points is not None)
    assert "given by hand" not in page(home, "ben")


def test_a_comment_alone_and_extra_credit_alone_reach_the_page_too(home):
    autograde(home)
    give(home, ROOT, comment="Elegant.")
    autograde(home)
    assert "Elegant." in page(home) and entry(home).by_hand.keys() == {ROOT}
    give(home, ROOT, extra_credit=0.5)
    autograde(home)
    assert entry(home).total == 16 and "ada: 16 / 14 points" in page(home)


def test_what_has_not_changed_is_not_written_anew(home):
    give(home, ROOT, 1, "No.")
    autograde(home)
    path = home / "feedback" / "ada" / UNIT / f"{UNIT}.html"
    written = path.stat().st_mtime_ns
    autograde(home)
    assert path.stat().st_mtime_ns == written


def test_points_stay_on_a_regrade_of_the_same_answer_and_nobody_need_look(home):
    give(home, DOUBLE, 7, "Half of it.")
    autograde(home)
    autograde(home, ada=toyclass.WRONG)  # the judge has changed its mind
    given = entry(home).by_hand[DOUBLE]
    assert (given.points, given.judged, given.comment, given.review) == (7, 6, "Half of it.", False)
    assert entry(home).scores[DOUBLE] == 7


def test_points_for_an_earlier_answer_stand_and_are_named_until_a_person_has_looked(home, capsys):
    give(home, DOUBLE, 7)
    answers_anew(home)
    autograde(home)
    assert entry(home).by_hand[DOUBLE].review and entry(home).scores[DOUBLE] == 7
    look = "to look at: ada: toy.double: the points by hand are for an earlier answer"
    assert look in said(home, capsys)
    autograde(home, ada=toyclass.WRONG)  # judged again, and still nobody has looked
    assert look in said(home, capsys)
    give(home, DOUBLE, 7)  # Resolve
    assert look not in said(home, capsys)
    autograde(home)
    assert look not in said(home, capsys) and entry(home).scores[DOUBLE] == 7
    give(home, DOUBLE, None)  # the field emptied: the judge's count
    autograde(home)
    assert entry(home).scores[DOUBLE] == 10 and "by hand" not in said(home, capsys)


def test_what_changed_elsewhere_in_the_notebook_is_no_other_answer(home):
    give(home, ROOT, 1)
    answers_anew(home)  # of the other exercise
    autograde(home)
    assert not entry(home).by_hand[ROOT].review


def test_where_there_is_nothing_to_judge_the_notebook_is_the_answer(home):
    answers_anew(home, "pass")
    autograde(home, ada=toyclass.BLANK)
    give(home, DOUBLE, 4, "It stood in the check.")
    autograde(home, ada=toyclass.WRONG)
    assert not entry(home).by_hand[DOUBLE].review
    answers_anew(home, "pass  # again")
    autograde(home)
    assert entry(home).by_hand[DOUBLE].review


def test_extra_credit_by_hand_stays_where_the_judge_gives_some(home):
    give(home, DOUBLE, extra_credit=2.0)
    answers_anew(home)
    autograde(home)
    assert entry(home).extra == {DOUBLE: 2.0}
    faster = toyclass.RIGHT | {DOUBLE: replace(toyclass.RIGHT[DOUBLE], bonus=0.5)}
    autograde(home, ada=faster, ben=faster)
    assert entry(home).extra == {DOUBLE: 2.0} and entry(home, "ben").extra == {DOUBLE: 0.5}


def test_table_report_and_exports_show_what_was_given_by_hand(home, capsys, tmp_path):
    give(home, DOUBLE, 7, "Half <of> it.")
    table = said(home, capsys)
    assert "7 +1.5*" in table and "* by hand: ada: toy.double: 7 points, 10 by the judge; a comment" in table
    assert "by hand since the last autograde: ada: feedback and penalty" in table
    ran = CliRunner().invoke(app, ["export", UNIT, "--to", str(tmp_path / "out.csv")])
    assert "by hand since the last autograde: ada" in ran.output
    feedback_export.remember(home, UNIT, {"ada": "ada_1_2_work"})
    ran = CliRunner().invoke(app, ["export", UNIT, "feedback", "--to", str(tmp_path / "out.zip")])
    assert "by hand since the last autograde: ada" in ran.output and ran.exit_code == 0
    found = report.of_class(home, UNIT, published=lambda exercise: "")
    assert found.behind == ["ada"] and "Half &lt;of&gt; it." in report.page(found)
    autograde(home)
    assert "since the last autograde" not in said(home, capsys)
    answers_anew(home)
    autograde(home)
    found = report.of_class(home, UNIT, published=lambda exercise: "")
    assert found.behind == [] and "The answer has changed since: to look at." in report.page(found)


def test_a_failed_entry_leaves_the_graded_notebook_that_the_points_are_for(home, monkeypatch):
    give(home, DOUBLE, 7)
    answers_anew(home)
    kept = {path: path.read_bytes() for path in home.glob(f"*/ada/{UNIT}/*") if path.parts[-4] != "submitted"}
    with monkeypatch.context() as patch:
        patch.setattr("grader.gradebook.marks.SaveExtras.preprocess", lambda *a: 1 / 0)
        ledger = books.Books(home, UNIT, root=home.parent)
        path = home / "submitted" / "ada" / UNIT / f"{UNIT}.ipynb"
        read = submission.read(path, list(grader.exercises(UNIT).values()), grader.released(UNIT))
        assert "division" in ledger.enter("ada", toyclass.RIGHT, read)
    assert kept and kept == {path: path.read_bytes() for path in kept}
    assert not list(home.glob(f"*/*/.{UNIT}.before"))
    autograde(home)
    assert entry(home).by_hand[DOUBLE].review


def test_what_a_killed_process_moved_aside_comes_back(home):
    give(home, DOUBLE, 7)
    graded = home / "autograded" / "ada" / UNIT
    graded.rename(graded.with_name(f".{UNIT}.before"))
    graded.mkdir()
    autograde(home)
    assert not entry(home).by_hand[DOUBLE].review and not list(home.glob(f"*/*/.{UNIT}.before"))


def test_a_table_that_is_too_wide_names_what_was_lost_and_keeps_whose(home, capsys, monkeypatch):
    """A unit of twenty exercises cut the students' names, and showed no number."""
    monkeypatch.setattr("grader.command_line.console", Console(width=36))
    autograde(home, ada=toyclass.WRONG)
    lines = said(home, capsys).splitlines()
    row = next(line for line in lines if " ada " in line)
    assert "1 -4" in row and "10" in row and "…" not in "".join(lines)
