"""The table in docs/instructors.md of what is kept of students: it names every place, and nothing of one is left who is deleted by it."""

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import toyclass
from toy import UNIT
from typer.testing import CliRunner

import grader
from grader.__main__ import app
from grader.gradebook import books, late, results
from grader.judging import submission
from grader.lms import enrolled, feedback_export
from grader.lms.rosters import Person
from grader.reporting import report

GONE, STAYS = "quinxy", "ben"
GUIDE = (grader.ROOT / "docs" / "instructors.md").read_text("utf-8").partition("## What is kept of students")[2]
TABLE = GUIDE.partition("\n\n| where ")[2].partition("\n\n")[0]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two students with all that a term writes of them: roster, marks, an extension, what the LMS calls them, report, exports."""
    with pytest.MonkeyPatch.context() as patch:
        home = toyclass.make(patch, tmp_path_factory.mktemp("course"), {GONE: toyclass.WRONG, STAYS: toyclass.WRONG})
        people = [
            Person(id=f"{who}-1", first=who.title(), email=f"{who}@example.org", login=who) for who in (GONE, STAYS)
        ]
        assert not enrolled.enrol(home, people, by_login=True).new
        late.set_due(home, UNIT, "2026-11-19T12:00+00:00")
        feedback_export.remember(home, UNIT, {who: f"{who}_1_2_toy" for who in (GONE, STAYS)})
        ledger = books.Books(home, UNIT, root=home.parent)
        for who in (GONE, STAYS):
            path = home / "submitted" / who / UNIT / f"{UNIT}.ipynb"
            read = submission.read(path, list(grader.exercises(UNIT).values()), grader.released(UNIT))
            assert ledger.enter(who, toyclass.WRONG, read) == "ok"
        for words in (["extend", UNIT, GONE, "--days", "2"], ["export", UNIT], ["export", UNIT, "feedback"]):
            done = CliRunner().invoke(app, words)
            assert done.exit_code == 0, (done.output, done.exception)
        shown = report.of_class(home, UNIT, published=lambda exercise: "")
        (home / "reports" / f"{UNIT}.html").write_text(report.page(shown), "utf-8")
        yield home


def named(home):
    """The first folder or file below the home, of each path whose name or content says who is to go."""
    found = set()
    for path in home.rglob("*"):
        said = str(path.relative_to(home)) + (path.read_text("utf-8", "replace") if path.is_file() else "")
        if GONE in said.casefold():
            found.add(path.relative_to(home).parts[0])
    return found


def test_the_table_names_each_place_that_speaks_of_a_student(home):
    places = set(re.findall(r"`([\w.]+?)/?`", "\n".join(line.split("|")[1] for line in TABLE.splitlines())))
    assert named(home) <= places
    assert {path.name for path in home.iterdir()} <= places


@pytest.mark.slow  # an nbgrader loads
def test_nothing_of_one_student_is_left_where_the_table_is_followed(home):
    (command,) = re.findall(r"`nbgrader (db student remove) STUDENT (--force)`", TABLE)
    (vacuum,) = re.findall(r"`sqlite3 gradebook.db (VACUUM)`", TABLE)
    assert {
        "submitted",
        "autograded",
        "feedback",
        "gradebook.db",
        "roster.json",
        "handed_in.json",
        "verdicts",
        "reports",
    } == named(home)
    for folder in ("submitted", "autograded", "feedback"):
        shutil.rmtree(home / folder / GONE)
    nbgrader = [Path(sys.executable).parent / "nbgrader", *command[0].split(), GONE, command[1]]
    done = subprocess.run(
        nbgrader, cwd=grader.ROOT / "grader", env=os.environ | {"GRADER_HOME": str(home)}, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    with contextlib.closing(sqlite3.connect(home / "gradebook.db")) as book:
        book.execute(vacuum)
    for name in ("roster.json", "handed_in.json"):
        kept = json.loads((home / name).read_text("utf-8"))
        for each in (kept, *(part for part in kept.values() if name == "handed_in.json")):
            each.pop(GONE, None)
        (home / name).write_text(json.dumps(kept))
    for folder in ("verdicts", "reports"):
        shutil.rmtree(home / folder)
    assert named(home) == set()
    assert [entry.student for entry in results.gradebook(home, UNIT)] == [STAYS]
    assert CliRunner().invoke(app, ["export", UNIT]).exit_code == 0 and named(home) == set()
