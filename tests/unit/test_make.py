"""`make lab` after the course has changed: the student's work stays as it is, and the new version is told of once."""

import subprocess
import sys

import pytest

import make

UNIT = "04_memory_coalescing"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one unit; what would be installed and started is not."""
    release(tmp_path, "as handed out")
    monkeypatch.setattr(make, "ROOT", tmp_path)
    monkeypatch.setattr(make, "setup", lambda *extras: None)
    monkeypatch.setattr(make, "call", lambda *command: 0)
    return tmp_path


def release(course, content):
    path = course / "notebooks" / UNIT / f"{UNIT}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def notebooks(course):
    return {path.name: path.read_text() for path in (course / "work" / UNIT).glob("*.ipynb")}


def test_the_first_time_copies(course, capsys):
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "as handed out"}
    assert capsys.readouterr().out == f"work/{UNIT}: new\n"


def test_an_update_keeps_the_work_and_puts_the_new_version_beside_it(course, capsys):
    make.lab()
    (course / "work" / UNIT / f"{UNIT}.ipynb").write_text("my work")
    capsys.readouterr()
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"} and capsys.readouterr().out == ""
    release(course, "mended")
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work", f"{UNIT}_2.ipynb": "mended"}
    said = capsys.readouterr().out
    assert f"the course has a newer version, {UNIT}_2.ipynb. Yours is untouched" in said
    (course / "work" / UNIT / f"{UNIT}_2.ipynb").write_text("my later work")
    make.lab()
    assert capsys.readouterr().out == ""
    release(course, "mended again")
    make.lab()
    assert notebooks(course) == {
        f"{UNIT}.ipynb": "my work",
        f"{UNIT}_2.ipynb": "my later work",
        f"{UNIT}_3.ipynb": "mended again",
    }


def test_work_from_before_versions_were_noted_stays(course, capsys):
    mine = course / "work" / UNIT
    mine.mkdir(parents=True)
    (mine / f"{UNIT}.ipynb").write_text("my work")
    make.lab()
    assert notebooks(course) == {f"{UNIT}.ipynb": "my work"} and capsys.readouterr().out == ""
    release(course, "mended")
    make.lab()
    assert f"{UNIT}_2.ipynb" in notebooks(course)


def test_make_needs_nothing_that_is_not_python_s_own():
    ran = subprocess.run([sys.executable, "-I", "-S", make.__file__, "help"], capture_output=True, text=True)
    assert ran.returncode == 0 and "lab " in ran.stdout
