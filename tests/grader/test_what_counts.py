"""Exercises count as the class says: the maximum is the path's, More makes up for what was lost there, and an instructor may differ."""

import json

import pytest
import toy
import toyclass
from nbgrader.api import Gradebook
from toy import UNIT
from typer.testing import CliRunner

from grader.__main__ import app
from grader.gradebook import counts, results
from grader.gradebook.books import Books
from grader.judging import submission
from grader.lms import exports
from grader.packing.rules import rules_of
from grader.reporting import report


@pytest.fixture
def home(monkeypatch, tmp_path):
    """A class graded as the course says: both exercises of the toy unit are on the path."""
    return toyclass.make(monkeypatch, tmp_path)


def graded_again(home):
    """nbgrader by itself, and then our own way, which must change nothing."""
    toy.grade_with_nbgrader(home, UNIT, root=home.parent)
    alone = scores(home)
    books = Books(home, UNIT, root=home.parent)
    for student, verdicts in toyclass.SAYS.items():
        path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        assert books.enter(student, verdicts, submission.read(path, list(toy_exercises().values()), None)) == "ok"
    assert scores(home) == alone
    return alone


def toy_exercises():
    import grader

    return grader.exercises(UNIT)


def scores(home):
    """Student -> (nbgrader's score, its maximum)."""
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        return {s.student.id: (s.score, s.max_score) for s in book.find_assignment(UNIT).submissions}


def test_more_makes_up_for_what_the_path_lost_and_goes_no_further(home):
    assert scores(home)["ada"] == (15.5, 14)  # 10 and 4, and 1.5 for speed
    counts.set_rules(home, UNIT, {"more": ["toy.root"]})
    assert graded_again(home) == {"ada": (11.5, 10), "ben": (10, 10), "cyd": (10, 10), "dee": (0, 10)}
    ada, ben, *_ = results.gradebook(home, UNIT)
    assert ben.scores == {"toy.double": 6, "toy.root": 4} and ben.extra == {"toy.root": 4}
    assert ada.scores == {"toy.double": 10, "toy.root": 4} and ada.extra == {"toy.double": 1.5}


@pytest.mark.slow
def test_an_instructor_lets_it_go_above_or_drops_an_exercise(home):
    counts.set_rules(home, UNIT, {"more": ["toy.root"]}, above=True)
    assert graded_again(home)["ada"] == (15.5, 10)
    counts.set_rules(home, UNIT, {"dropped": ["toy.double"], "path": ["toy.root"]})
    assert graded_again(home) == {"ada": (4, 4), "ben": (4, 4), "cyd": (4, 4), "dee": (0, 4)}
    assert results.gradebook(home, UNIT)[0].scores == {"toy.root": 4}
    counts.set_rules(home, UNIT, {"path": ["toy.double"]}, above=False)
    assert graded_again(home)["ada"] == (15.5, 14), "as it was"


def test_points_by_hand_on_the_path_leave_less_room_for_more(home):
    counts.set_rules(home, UNIT, {"more": ["toy.root"]})
    with results.book(home) as book:
        book.find_grade("toy-double-check", UNIT, UNIT, "ben").manual_score = 9
        book.find_grade("toy-root-check", UNIT, UNIT, "cyd").extra_credit = 0.5  # a person's, which stays
        book.find_grade("toy-root-check", UNIT, UNIT, "ada").manual_score = 2  # so it counts, and nothing beside it
        book.db.commit()
    books = Books(home, UNIT, root=home.parent)
    for student in ("ben", "cyd", "ada"):
        path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
        books.enter(student, toyclass.WRONG, submission.read(path, list(toy_exercises().values()), None))
    assert scores(home) | {"dee": None} == {"ada": (8, 10), "ben": (10, 10), "cyd": (6.5, 10), "dee": None}


def test_exports_report_and_packs_say_which_maximum_they_use(home):
    counts.set_rules(home, UNIT, {"more": ["toy.root"]})
    toy.grade_with_nbgrader(home, UNIT, root=home.parent)
    header, ada, *_ = exports.export(home, UNIT, "exercises").rows
    assert header[4:9] == ["toy.double", "more toy.root", "extra", "penalty", "score"]
    assert dict(zip(header, ada, strict=True))["out_of"] == 10
    assert exports.export(home, UNIT, "canvas").rows[1][-1] == 10
    assert {row[4] for row in exports.export(home, UNIT, "moodle").rows[1:]} == {10}
    assert report.of_class(home, UNIT, published=lambda id: "").total.out_of == 10
    assert counts.made(UNIT, rules_of(home, UNIT).counts).out_of == 10
    told = CliRunner().invoke(app, ["export", UNIT])
    assert "maximum is 10 points" in told.output and "another 4 can be earned" in told.output


def test_what_cannot_be_is_one_sentence(home):
    for ways in ({"more": ["toy.rot"]}, {"more": ["toy.root"], "path": ["toy.root"]}, {"dropped": toy_exercises()}):
        with pytest.raises(ValueError, match=r"has no exercise|in two ways|Nothing would be left"):
            counts.set_rules(home, UNIT, ways)
    assert not (home / "counts.json").exists()
    told = CliRunner().invoke(app, ["counts", UNIT, "--more", "toy.root"])
    assert told.exit_code == 0 and json.loads((home / "counts.json").read_text())[UNIT]["exercises"] == {
        "toy.root": "more"
    }


def test_more_counts_in_order_until_the_maximum_is_reached(monkeypatch):
    toy.install(monkeypatch, toy.exercise("a", 10), toy.exercise("b", 4), toy.exercise("c", 3))
    found = counts.made(UNIT, {"exercises": {"toy.b": "more", "toy.c": "more"}})
    assert (found.out_of, found.more) == (10, 7)
    earned: dict[str, float | None] = {"toy.a": 5, "toy.b": 4, "toy.c": 3}
    assert found.extra(earned) == {"toy.b": 4, "toy.c": 1} and found.score(earned) == 10
    assert found.score({**earned, "toy.a": None}) == 7
