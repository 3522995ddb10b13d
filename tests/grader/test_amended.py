"""A unit whose exercises change after somebody has handed it in."""

from dataclasses import replace

import pytest
import toy
import toyclass
from nbgrader.api import Gradebook
from test_disk import run
from toy import UNIT

from course_lib.exercises import ids
from grader.gradebook import converting
from grader.reporting import term


@pytest.mark.slow
def test_exercises_are_dropped_and_added_after_submissions(monkeypatch, tmp_path):
    """One that is wrong is taken out, and comes back: the other's points and marks by hand stay."""
    home = toyclass.make(monkeypatch, tmp_path)
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        book.find_grade("toy-root-check", UNIT, UNIT, "dee").manual_score = 3
        book.find_grade("toy-double-check", UNIT, UNIT, "ben").manual_score = 7
        book.db.commit()

    def scores():
        toyclass.judged(
            monkeypatch, {s: {e: v for e, v in said.items() if e in known} for s, said in toyclass.SAYS.items()}
        )
        assert set(toy.grade_with_nbgrader(home, UNIT, root=tmp_path).values()) == {"ok"}
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
            return {s.student.id: (s.score, s.max_score) for s in book.assignment_submissions(UNIT)}

    known = {"toy.double"}
    toy.build_as(tmp_path, monkeypatch, toy.ONE, toy.exercise("double", 10, bonus=2))
    assert converting.register(home, UNIT, root=tmp_path) == [
        f"{UNIT}: toy-root is dropped, and marks given by hand with it: dee."
    ]
    assert scores() == {"ada": (11.5, 10), "ben": (7, 10), "cyd": (6, 10), "dee": (0, 10)}

    known = {"toy.double", "toy.root"}
    toy.build_as(tmp_path, monkeypatch, toy.SOURCE)
    assert converting.register(home, UNIT, root=tmp_path) == [
        f"{UNIT}: toy-root is new; who handed in an older notebook has no answer to it, and is excused."
    ]
    assert scores() == {"ada": (15.5, 14), "ben": (11, 14), "cyd": (10, 14), "dee": (0, 14)}
    assert converting.register(home, UNIT, root=tmp_path) == []


@pytest.mark.parametrize("exported_before", [False, True])
def test_marks_leave_only_with_the_maximum_that_they_were_given_with(monkeypatch, tmp_path, exported_before):
    home = toyclass.make(monkeypatch, tmp_path)
    if exported_before:
        assert run("export", UNIT, "canvas")[0] == 0
    before = term.of_class(home)
    toy.install(monkeypatch, toy.exercise("double", 10, bonus=2), toy.exercise("root", 5))
    path = home / "reports" / f"{UNIT}_canvas.csv"
    path.unlink(missing_ok=True)
    for command in (["export", UNIT, "canvas"], ["export", UNIT], ["report", UNIT]):
        code, said = run(*command)
        assert code == 1 and "toy.root" in said and "14" in said and "15" in said
    assert not path.exists()
    now = term.of_class(home)
    assert [one.shares for one in now.standings] == [one.shares for one in before.standings]
    assert {
        unit: [(one.exercise, one.lost, one.students) for one in costly] for unit, costly in now.costly.items()
    } == {unit: [(one.exercise, one.lost, one.students) for one in costly] for unit, costly in before.costly.items()}


def test_a_renamed_exercise_keeps_its_marks(monkeypatch, tmp_path):
    """Marks by hand stay, too. (What is handed in with the old name is read as today's: tests/unit/test_ids.py.)"""
    home = toyclass.make(monkeypatch, tmp_path)
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        book.find_grade("toy-root-check", UNIT, UNIT, "dee").manual_score = 3
        book.db.commit()
        before = {s.student.id: s.score for s in book.assignment_submissions(UNIT)}
    monkeypatch.setattr(ids, "renamed", lambda: {"toy.root": "toy.square_root"})
    monkeypatch.setattr(ids, "_cells", lambda: {"toy-root": "toy-square_root"})
    renamed = replace(toy.exercise("root", 4), id="toy.square_root")
    toy.build_as(
        tmp_path,
        monkeypatch,
        toy.SOURCE.replace("toy.root", "toy.square_root"),
        toy.exercise("double", 10, bonus=2),
        renamed,
    )
    assert converting.register(home, UNIT, root=tmp_path) == []
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        assert book.find_grade("toy-square_root-check", UNIT, UNIT, "dee").manual_score == 3
        after = {s.student.id: s.score for s in book.assignment_submissions(UNIT)}
    assert after == before
