"""The books in one session: what nbgrader's own commands write, at once or not at all."""

import subprocess
import sys
from collections import Counter

import pytest
import toy
import toyclass
from nbgrader import dbutil
from nbgrader.api import Gradebook
from sqlalchemy import event
from sqlalchemy.engine import Engine
from toy import UNIT

import grader
from grader.gradebook import books, converting, late, marks, results
from grader.judging import submission

SAYS = {"ada": toyclass.RIGHT, "ben": toyclass.WRONG}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Two students, graded by nbgrader's own commands."""
    return toyclass.make(monkeypatch, tmp_path, SAYS)


def enter(ledger, student, says=None):
    home = ledger.home
    path = home / "submitted" / student / UNIT / f"{UNIT}.ipynb"
    read = submission.read(path, list(grader.exercises(UNIT).values()), grader.released(UNIT))
    return ledger.enter(student, says or SAYS[student], read)


def written(home):
    """Everything that is written of a class's marks: files with their permissions, and the gradebook's numbers."""
    files = {
        path: (path.read_bytes(), path.stat().st_mode)
        for step in ("autograded", "feedback")
        for path in (home / step).rglob("*")
        if path.is_file()
    }
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        numbers = {
            (grade.student.id, grade.name): (grade.auto_score, grade.extra_credit, grade.needs_manual_grade)
            for submitted in book.assignment_submissions(UNIT)
            for grade in submitted.notebooks[0].grades
        }
    return files, numbers, results.gradebook(home, UNIT)


def test_the_books_hold_what_nbgrader_s_own_commands_write(home):
    (home / "submitted" / "ada" / UNIT / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    late.set_rules(home, UNIT, percent=10.0)
    late.set_due(home, UNIT, "2026-11-19T12:00+00:00")
    assert set(toy.grade_with_nbgrader(home, UNIT, root=home.parent).values()) == {"ok"}
    by_nbgrader = written(home)
    assert by_nbgrader[2][0].penalty > 0 and len(by_nbgrader[0]) == 2 * 2 + 2
    (home / "gradebook.db").unlink()
    late.set_due(home, UNIT, "2026-11-19T12:00+00:00")
    for path in by_nbgrader[0]:
        path.unlink()
    ledger = books.Books(home, UNIT, root=home.parent)
    assert {enter(ledger, student) for student in SAYS} == {"ok"}
    assert written(home) == by_nbgrader


def test_an_entry_is_two_commits_of_one_gradebook(home, monkeypatch):
    """nbgrader opens it a dozen times for each submission, and commits forty times."""
    ledger, seen = books.Books(home, UNIT, root=home.parent), Counter()
    opened = Gradebook.__init__
    monkeypatch.setattr(Gradebook, "__init__", lambda *a, **k: seen.update(["opened"]) or opened(*a, **k))
    event.listen(Engine, "commit", count := lambda connection: seen.update(["committed"]))
    try:
        assert enter(ledger, "ada") == "ok"
    finally:
        event.remove(Engine, "commit", count)
    assert seen == {"committed": 2}  # the marks; the page, which changes nothing


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_what_stops_in_the_middle_leaves_all_as_it_was(home, monkeypatch, error):
    before, ledger = written(home), books.Books(home, UNIT, root=home.parent)

    def stop(self, nb, resources):
        raise error("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(marks.SaveExtras, "preprocess", stop)  # after the scores
        if error is KeyboardInterrupt:
            with pytest.raises(KeyboardInterrupt):
                enter(ledger, "ada", toyclass.BLANK)
        else:
            assert enter(ledger, "ada", toyclass.BLANK) == "RuntimeError: stopped"
    assert written(home) == before
    assert enter(ledger, "ada", toyclass.BLANK) == "ok" and written(home) != before


def test_who_writes_in_between_loses_nothing_and_is_not_kept_waiting(home):
    """formgrader has the gradebook open while a class is entered."""
    ledger = books.Books(home, UNIT, root=home.parent)
    for student in ("ada", "ben"):
        assert enter(ledger, student) == "ok"
        with results.book(home) as book:
            book.find_grade("toy-root-check", UNIT, UNIT, student).manual_score = 1.0
            book.db.commit()
    assert enter(ledger, "ada", toyclass.WRONG) == "ok"
    assert [entry.scores["toy.root"] for entry in results.gradebook(home, UNIT)] == [1.0, 1.0]


def test_a_time_that_is_none_is_named(home):
    path = home / "submitted" / "ada" / UNIT / "timestamp.txt"
    path.write_text("yesterday")
    said = enter(books.Books(home, UNIT, root=home.parent), "ada")
    assert said == f"{path} holds no time: write one such as 2026-11-20 10:00:00 UTC, or remove the file."


def test_what_an_entry_depends_on_is_source_not_what_python_made_of_it(tmp_path, monkeypatch):
    def version():
        books._version.cache_clear()
        return books._version()

    room = tmp_path / "grader" / "gradebook"
    (room / "__pycache__").mkdir(parents=True)
    (tmp_path / "grader" / "templates").mkdir()
    for name in ("__init__.py", "marks.py", "__pycache__/marks.cpython-311.pyc", "../templates/page.html.j2"):
        (room / name).write_text("1")
    monkeypatch.setattr(books, "ROOT", tmp_path)
    before = version()
    (room / "__pycache__" / "marks.cpython-311.pyc").write_text("2")
    assert version() == before
    (room / "marks.py").write_text("2")
    after = version()
    (room / "../templates/page.html.j2").write_text("2")
    assert len({before, after, version()}) == 3
    monkeypatch.undo()
    books._version.cache_clear()


def test_a_new_gradebook_notes_the_version_of_its_tables_that_nbgrader_would_note():
    with dbutil._temp_alembic_ini("sqlite://") as settings:
        command = [sys.executable, "-m", "alembic", "-c", settings, "heads"]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert converting.schema() == told.split()[0]
