"""Work that the grader could not judge gets no mark anywhere, rather than 0; people are told, and it is judged anew the
next time."""

import csv

import pytest
import toyclass
from nbgrader.api import Gradebook
from toy import UNIT
from typer.testing import CliRunner

from course_lib import criteria, render
from course_lib.exercises import find
from grader.__main__ import app
from grader.gradebook import results
from grader.judging import verdicts
from grader.judging.judge import GraderFailed, failed
from grader.lms import exports
from grader.reporting import report

REASON = "the grader failed (GraderFailed: the grading process was lost)"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """ada has full marks; ben's first exercise and all of cyd's could not be judged; dee has 0."""
    with pytest.MonkeyPatch.context() as patch:
        course = tmp_path_factory.mktemp("course")
        toyclass.toy.install(patch)
        lost = {id: failed(find(id), GraderFailed("the grading process was lost")) for id in toyclass.RIGHT}
        says = toyclass.SAYS | {"ben": toyclass.RIGHT | {"toy.double": lost["toy.double"]}, "cyd": lost}
        home = toyclass.make(patch, course, says=says)
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
            book.update_or_create_student("eve")  # only an extension
            book.update_or_create_submission(UNIT, "eve", extension=None)
        yield home


def test_it_is_no_verdict_and_is_not_kept(tmp_path):
    exercise = find("coalescing.transpose")
    lost = failed(exercise, GraderFailed("lost"))
    assert not lost.judged and criteria.refused(exercise, "no cell").judged
    verdicts.VerdictStore(tmp_path).put("key", lost)
    assert list(tmp_path.iterdir()) == []
    for shown in (render.text(lost), render.html(lost)):
        assert "? / 10" in shown and "0 / 10" not in shown
        assert "the grader failed (GraderFailed: lost)" in shown


def test_nbgraders_own_gradebook_holds_no_score(home):
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        found = {g.name: g for g in book.find_submission(UNIT, "ben").notebooks[0].grades}
        assert (found["toy-double-check"].auto_score, found["toy-double-check"].needs_manual_grade) == (None, True)
        assert (found["toy-root-check"].auto_score, found["toy-root-check"].needs_manual_grade) == (4, False)
        assert book.find_submission(UNIT, "ben").needs_manual_grade


def test_who_has_no_mark_is_in_the_table_with_question_marks(home):
    entries = {entry.student: entry for entry in results.gradebook(home, UNIT)}
    assert entries.keys() == {"ada", "ben", "cyd", "dee"}
    assert entries["ben"].scores == {"toy.double": None, "toy.root": 4} and entries["ben"].score is None
    assert entries["cyd"].score is None and entries["dee"].score == 0
    said = CliRunner().invoke(app, ["report", UNIT], env={"GRADER_HOME": str(home)}).output
    rows = {line.split()[1]: line.replace("│", " ").split()[1:] for line in said.splitlines() if "│ " in line}
    assert rows["ben"] == ["?", "4", "?"] and rows["cyd"] == ["?", "?", "?"] and rows["dee"] == ["0", "0", "0"]


def test_the_feedback_page_says_so(home):
    page = (home / "feedback" / "ben" / UNIT / f"{UNIT}.html").read_text()
    assert "ben: ? / 14 points" in page and "? / 10" in page and "4 / 4" in page and REASON in page
    assert "0 / 10" not in page and "not judged" in page


def test_exports_leave_it_out_and_say_who(home, tmp_path):
    for form in exports.FORMS:
        done = exports.export(home, UNIT, form)
        assert done.unmarked == ["ben", "cyd"]
    canvas = exports.export(home, UNIT, "canvas").rows
    assert [row[3] for row in canvas[2:]] == ["ada", "dee"]
    assert len(exports.export(home, UNIT, "moodle").rows) == 3
    assert not [row for row in exports.export(home, UNIT, "criteria").rows if row[0] == "cyd"]
    path = tmp_path / "marks.csv"
    said = CliRunner().invoke(app, ["export", UNIT, "--to", str(path)], env={"GRADER_HOME": str(home)}).output
    assert "ben has no mark, as not everything could be judged" in said
    rows = {row["student"]: row for row in csv.DictReader(path.open())}
    assert (rows["ben"]["toy.double"], rows["ben"]["toy.root"], rows["ben"]["score"]) == ("", "4", "")


def test_a_roster_keeps_what_the_lms_has(home, tmp_path):
    roster = tmp_path / "roster.csv"
    roster.write_text(
        "Identifier,Full name,Email address,ID number,Grade\nParticipant 1,Ben,,ben,7\nParticipant 2,Ada,,ada,7\n"
    )
    done = exports.export(home, UNIT, "moodle", roster=roster)
    assert [row[4] for row in done.rows[1:]] == ["7", 15.5] and done.absent == []
    roster.write_text("Student,ID,SIS Login ID\nBen,1,ben\nAda,2,ada\n")
    assert [row[0] for row in exports.export(home, UNIT, "canvas", roster=roster).rows[2:]] == ["Ada"]


def test_the_report_counts_it_in_no_mean_and_says_why(home):
    found = report.of_class(home, UNIT, published=lambda exercise: "")
    assert found.total.points == [15.5, 0]
    assert [d.points for d in found.distributions] == [[10, 0], [4, 4, 0]]
    assert {(f.student, f.exercise) for f in found.unjudged} == {
        ("ben", "toy.double"),
        ("cyd", "toy.double"),
        ("cyd", "toy.root"),
    }
    assert all(flag.sentence.startswith(REASON) for flag in found.unjudged) and not found.mistakes
    assert "?" in report.page(found)


def test_points_that_a_person_gives_are_a_mark(home, tmp_path_factory):
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        book.find_grade("toy-double-check", UNIT, UNIT, "ben").manual_score = 8
        book.db.commit()
        try:
            assert {e.student: e.score for e in results.gradebook(home, UNIT)}["ben"] == 12
        finally:
            book.find_grade("toy-double-check", UNIT, UNIT, "ben").manual_score = None
            book.db.commit()
