"""A disk that is full or read-only, two at a time on one home, a home that is not there yet, Ctrl-C: a sentence, and nothing
is lost."""

import errno
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import toy
import toyclass
from nbgrader.converters import GenerateAssignment
from sqlalchemy import event
from sqlalchemy.engine import Engine
from test_classroom import UNIT as REAL
from test_classroom import Table, home  # noqa: F401
from toy import UNIT
from typer.testing import CliRunner

import grader
from grader import disk
from grader.__main__ import app
from grader.building import build
from grader.child import zygote
from grader.cohort import frozen, lock
from grader.gradebook import books, converting, late, marks
from grader.judging import verdicts
from grader.lms import enrolled
from grader.nbgrader_config import config
from grader.reporting import report
from tritontrace.replay import wire


@pytest.fixture
def graded(tmp_path, monkeypatch):
    return toyclass.make(monkeypatch, tmp_path, says={"ada": toyclass.RIGHT})


def files(folder):
    """All files but the lock, with their content."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def refuse(monkeypatch, number, until=lambda path: True):
    """Make the disk take half of a file from now on, and refuse with this error of the system."""
    write_bytes = Path.write_bytes

    def half(path, content):
        if until(path):
            write_bytes(path, content[: len(content) // 2])
            raise OSError(number, os.strerror(number), str(path))
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", half)


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, " ".join(done.output.split())


FULL = "No space left on device"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_files_are_written_all_of_them_or_none(tmp_path, monkeypatch, number):
    first, second = tmp_path / "first", tmp_path / "deeper" / "second"
    disk.write({first: b"1111", second: b"1111"})
    refuse(monkeypatch, number, until=lambda path: path.parent.name == "deeper")
    with pytest.raises(OSError, match=os.strerror(number)):
        disk.write({first: b"2222", second: b"2222"})
    assert files(tmp_path) == {first: b"1111", second: b"1111"}


def test_a_name_as_long_as_names_can_be_is_written(tmp_path):
    disk.write({tmp_path / ("x" * 255): b"1"})


@pytest.mark.parametrize("words", [["export", UNIT], ["export", UNIT, "criteria"], ["report", UNIT]])
def test_an_export_or_a_report_that_finds_no_room_leaves_the_one_before(graded, monkeypatch, words):
    monkeypatch.setattr(report, "of_class", partial(report.of_class, published=lambda exercise: ""))
    assert run(*words)[0] == 0
    before = files(graded)
    refuse(monkeypatch, errno.ENOSPC)
    code, said = run(*words)
    assert code == 1 and "Stopped, because something cannot be read or written: No space left on device" in said
    assert "run the same command again" in said and files(graded) == before


def test_an_import_that_finds_no_room_leaves_notebook_and_time_as_they_were(graded, monkeypatch, tmp_path):
    export = tmp_path / "export" / "ada"
    export.mkdir(parents=True)
    (export / "mine.ipynb").write_text("{}")
    (export / "timestamp.txt").write_text("2026-11-20 10:00:00 UTC")
    assert run("import", UNIT, export.parent)[0] == 0
    before = files(graded)
    (export / "mine.ipynb").write_text("{ }")
    (export / "timestamp.txt").write_text("2026-11-21 10:00:00 UTC")
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC)
        code, said = run("import", UNIT, export.parent)
    assert code == 1 and FULL in said and files(graded) == before
    assert run("import", UNIT, export.parent)[0] == 0 and files(graded) != before


@pytest.fixture
def read_only(monkeypatch):
    """Makes sqlite refuse to write, as on such a disk."""

    @event.listens_for(Engine, "connect")
    def forbid(connection, record):
        connection.execute("PRAGMA query_only = ON")

    yield
    event.remove(Engine, "connect", forbid)


@pytest.mark.parametrize("words", [["due", UNIT, "2026-11-30"], ["extend", UNIT, "ada", "--days", "2"]])
def test_a_date_that_cannot_be_written_is_a_sentence(graded, read_only, words):
    before = files(graded)
    code, said = run(*words)
    assert code == 1 and "attempt to write a readonly database (gradebook.db)" in said and files(graded) == before


def test_what_is_no_refusal_of_the_disk_is_none():
    assert disk.refusal(FileNotFoundError(errno.ENOENT, "No such file or directory", "x")) == ""
    assert disk.refusal(ValueError("No space left on device")) == ""
    assert disk.refusal(PermissionError(errno.EACCES, "Permission denied", "x"), disk.EVERYTHING) == ""
    locked = sqlite3.OperationalError("database is locked")
    locked.sqlite_errorcode = sqlite3.SQLITE_BUSY
    assert disk.refusal(locked) == ""


def test_a_verdict_that_finds_no_room_leaves_no_draft(tmp_path, monkeypatch):
    refuse(monkeypatch, errno.ENOSPC)
    with pytest.raises(OSError, match=FULL):
        verdicts.VerdictStore(tmp_path).put("a", toy.verdict("double", 1, 2))
    assert files(tmp_path) == {}


@pytest.fixture
def command(home, monkeypatch):  # noqa: F811
    """Runs the command autograde on three submissions, with workers that judge nothing: (exit code, output)."""
    monkeypatch.setenv("GRADER_HOME", str(home))
    monkeypatch.setattr("grader.cohort.classroom.Local", lambda count, **more: Table())
    monkeypatch.setattr("grader.cohort.classroom.ClassGrader.prove", lambda self, unit: None)
    return lambda: run("autograde", REAL, "--workers", 1, "--accept-risk")


def test_autograde_on_a_full_disk_stops_in_a_sentence_and_goes_on_when_there_is_room(home, command, monkeypatch):  # noqa: F811
    with monkeypatch.context() as patch:
        refuse(patch, errno.ENOSPC, until=lambda path: len(list((home / "verdicts").glob("*.json"))) > 12)
        code, said = command()
    assert code == 1 and FULL in said and "Traceback" not in said
    assert not list(home.rglob(".draft.*")) and len(list((home / "verdicts").glob("*.json"))) == 13
    assert command()[0] == 0


def test_a_disk_that_is_full_when_marks_are_entered_stops_the_class_once(home, command, monkeypatch):  # noqa: F811
    assert command()[0] == 0
    before = files(home)
    entered = []

    def full(self, nb, resources):
        entered.append(resources["nbgrader"]["student"])
        raise OSError(errno.ENOSPC, FULL)

    with monkeypatch.context() as patch:
        patch.setattr(books, "_version", lambda: "another")
        patch.setattr(marks.SaveExtras, "preprocess", full)
        code, said = command()
    assert code == 1 and FULL in said and len(entered) == 1
    written = ("gradebook.db", f"{REAL}.before.json")  # the latter says what the marks were, until they have been shown
    after = files(home)
    for of in (before, after):
        for path in [path for path in of if "registered" in path.parts or path.name in written]:
            del of[path]
    assert after == before


def test_what_was_not_entered_is_an_exit_code_and_stops_nobody(home, command, monkeypatch):  # noqa: F811
    save = marks.SaveExtras.preprocess

    def fail(self, nb, resources):
        if resources["nbgrader"]["student"] == "blank":
            raise PermissionError(errno.EACCES, "Permission denied", "one file")
        return save(self, nb, resources)

    with monkeypatch.context() as patch:
        patch.setattr(marks.SaveExtras, "preprocess", fail)
        code, said = command()
    assert code == 1 and "blank: not entered: PermissionError" in said and "full-marks" in said
    assert command()[0] == 0
    (home / "submitted" / "blank" / REAL / f"{REAL}.ipynb").rename(home / "submitted" / "blank" / REAL / "my.ipynb")
    assert command()[0] == 1


# ------------------------------------------------------------------------------------------------ one at a time


def test_a_second_autograde_says_that_it_waits_and_waits(home, command):  # noqa: F811
    waits = threading.Event()
    with lock.locked(home, waits.set):
        assert not waits.is_set()
        second = threading.Thread(target=lambda: lock.locked(home, waits.set).__enter__(), daemon=True)
        second.start()
        assert waits.wait(60) and second.is_alive()
    second.join(60)
    assert not second.is_alive()


HOLD = """
import sys
from pathlib import Path
from grader.cohort.lock import locked
with locked(Path(sys.argv[1]), print):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_autograde_waits_for_another_and_a_process_that_died_holds_nothing(home, command):  # noqa: F811
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=grader.ROOT
    )
    assert holder.stdout.readline() == b"held\n"
    killer = threading.Timer(1.0, holder.kill)
    killer.start()
    code, said = command()
    holder.wait()
    assert code == 0 and f"Another autograde is at work in {home}: waiting for it." in said
    assert "waiting" not in command()[1]


# ------------------------------------------------------------------------------------------------ a new home


def test_the_exchange_s_recipe_makes_a_new_home_and_keeps_the_notebook(tmp_path, monkeypatch):
    toy.install(monkeypatch)
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / f"{UNIT}.py").write_text(toy.SOURCE)
    build.build(UNIT, execute=False, root=tmp_path)
    settings = config(tmp_path / "new" / "home", root=tmp_path)  # nbgrader generate_assignment UNIT --force
    assert converting.convert(GenerateAssignment, settings, UNIT) == ""
    assert (tmp_path / "new" / "home" / "gradebook.db").exists()
    assert (tmp_path / "notebooks" / UNIT / f"{UNIT}.ipynb").exists()


# ------------------------------------------------------------------------------------------------ Ctrl-C

ANSWERS = """
from tritontrace import compiled
from grader.child import sandbox, zygote
sandbox.become_nobody = compiled.warm_up = lambda: None
zygote.answer = lambda order, parts: ({}, bytes(1 << 20))
zygote.main()
"""


def test_a_zygote_whose_judge_was_stopped_ends_without_a_word():
    process = subprocess.Popen(
        [sys.executable, "-c", ANSWERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=grader.ROOT,
    )
    process.stdout.close()  # as the kernel does for a worker that is killed
    with suppress(BrokenPipeError):
        zygote.send(process.stdin, wire.pack({}), b"")
    assert process.stderr.read() == b"" and process.wait(60) == 0


@pytest.mark.parametrize(
    "kept, reading",
    [
        ("late.json", partial(late.rules_of, unit=UNIT)),
        ("frozen.json", partial(frozen.since, unit=UNIT)),
        ("roster.json", enrolled.members),
    ],
)
@pytest.mark.parametrize("text, why", [('{"90_toy": {', "is no JSON any more"), ("[1]", "holds no JSON object")])
def test_a_file_that_was_broken_by_hand_is_named(tmp_path, kept, reading, text, why):
    """The commands put this clause into their one sentence (see `refusal`), and write nothing over the file."""
    assert not reading(tmp_path)
    (tmp_path / kept).write_text(text)
    with pytest.raises(disk.WriteRefused, match=f"{kept} {why}") as raised:
        reading(tmp_path)
    assert disk.refusal(raised.value) and (tmp_path / kept).read_text() == text


def test_a_command_says_so_in_one_sentence(graded):
    (graded / "frozen.json").write_text("{")
    code, said = run("freeze", UNIT)
    assert (
        code == 1 and said.startswith("Stopped, because something cannot be read or written") and "frozen.json" in said
    )
