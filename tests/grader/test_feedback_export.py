"""Feedback as a zip that the LMS takes back, read as Canvas and as Moodle read it."""

import io
import re
import zipfile

import pytest
from toy import UNIT, install
from typer.testing import CliRunner

from grader.__main__ import app
from grader.lms import feedback_export, imports

NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def canvas_reads(name):
    """(the student's id, the file's), as infer_comment_context_from_filename of Canvas's app/models/assignment.rb finds them."""
    parts = name.split("_")
    if parts[-1].startswith("link") or name.startswith("._"):
        return None  # a link that was handed in; what macOS leaves in zips
    numbers = [part for part in parts if re.fullmatch("[0-9]+", part)]
    return tuple(numbers[:2])


def moodle_reads(name):
    """(participant, the page's name), as is_valid_filename_for_import of Moodle's mod/assign/feedback/file/importziplib.php finds
    them in a file without a folder; since 4.1 four parts are enough."""
    parts = name.split("_", 4)
    if name[0] in ".~" or len(parts) < 5 or not parts[1].isdigit() or parts[2:4] != ["assignsubmission", "file"]:
        return None
    return parts[1], parts[4]


@pytest.fixture
def home(tmp_path, monkeypatch):
    install(monkeypatch)
    monkeypatch.setenv("GRADER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def graded(home, source, files):
    """The students whose files an LMS has exported, each with a feedback page."""
    for name in files:
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(NOTEBOOK)
    done = imports.collect(source, UNIT, home)
    for student in done.students:
        page = home / "feedback" / student / UNIT / f"{UNIT}.html"
        page.parent.mkdir(parents=True)
        page.write_text(f"page of {student}")
    return done.students


def pages(packed):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def test_canvas_finds_each_students_file(home, tmp_path):
    files = [f"doejane_1001_501_{UNIT}.ipynb", f"zoë_LATE_1002_502_{UNIT}-1.ipynb", "bob_1003_503_a_link.ipynb.txt"]
    graded(home, tmp_path / "export", files)
    packed, without = feedback_export.pack(home, UNIT)
    found = {canvas_reads(name): text for name, text in pages(packed).items()}
    assert found.keys() == {("1001", "501"), ("1002", "502"), ("1003", "503")} and without == []
    assert found["1001", "501"] == "page of doejane_1001" and all(name.endswith(".html") for name in pages(packed))


@pytest.mark.parametrize("by", ["file/", "file_/", "file_"])
def test_moodle_finds_each_students_file(home, tmp_path, by):
    graded(
        home, tmp_path / "export", [f"{name}_assignsubmission_{by}b_c.ipynb" for name in ("Émile van Ö_98", "~neo_99")]
    )
    packed, _ = feedback_export.pack(home, UNIT)
    assert {moodle_reads(name) for name in pages(packed)} == {("98", "b_c_feedback.html"), ("99", "b_c_feedback.html")}


def test_a_later_export_is_the_one_that_counts(home, tmp_path):
    graded(home, tmp_path / "first", ["doejane_1001_501_a.ipynb"])
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "doejane_1001_777_a.ipynb").write_text(NOTEBOOK)
    imports.collect(tmp_path / "second", UNIT, home)
    (name,) = pages(feedback_export.pack(home, UNIT)[0])
    assert canvas_reads(name) == ("1001", "777")


def test_who_came_another_way_is_named(home, tmp_path):
    graded(home, tmp_path / "export", ["doejane_1001_501_a.ipynb", "ada/work.ipynb"])
    done = CliRunner().invoke(app, ["export", UNIT, "feedback"])
    assert done.exit_code == 0 and "ada" in done.output and "doejane" not in done.output.split("reports")[0]
    assert list(pages((home / "reports" / f"{UNIT}_feedback.zip").read_bytes())) == ["doejane_1001_501_a_feedback.html"]


def test_where_there_is_nothing_to_hand_back_a_sentence_says_why(home, tmp_path):
    done = CliRunner().invoke(app, ["export", UNIT, "feedback"])
    assert done.exit_code == 1 and "has no feedback pages yet" in done.output
    graded(home, tmp_path / "export", ["ada/work.ipynb"])
    done = CliRunner().invoke(app, ["export", UNIT, "feedback"])
    assert done.exit_code == 1 and "Import its export once more" in done.output
