"""Checks and hints, from a student's own count to the page of the term: only what somebody shares, and never a mark."""

import json
import sys
from types import SimpleNamespace

import nbformat
import pytest

import course_lib
from course_lib import checking, logbook, metadata, render
from course_lib.exercises import find
from course_lib.metadata import SharedEffort
from grader.gradebook import counts
from grader.reporting import effort

UNIT = "04_memory_coalescing"
FIRST, SECOND, *_ = counts.of(None, UNIT).ids("path")


@pytest.fixture
def student(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "own" / "progress.json"))
    return tmp_path


def hand_in(home, student, *outputs, unit=UNIT):
    """Hand in a notebook with outputs of these metadata."""
    cells = [
        nbformat.v4.new_code_cell("effort()", outputs=[nbformat.v4.new_output("display_data", metadata=m)])
        for m in outputs
    ]
    path = home / "submitted" / student / unit / f"{unit}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def shared(checks, hints, unit=UNIT):
    said = {}
    metadata.write(said, SharedEffort(unit, checks, hints))
    return said


def test_checks_and_hints_are_counted_beside_the_points(student, monkeypatch, capsys):
    monkeypatch.setattr(
        checking,
        "verdict",
        lambda exercise, entry, seed, later=None: checking.criteria.refused(exercise, "no", "blank"),
    )
    for _ in range(3):
        course_lib.check(FIRST, None)
    course_lib.hint(FIRST)
    course_lib.hint("no.such")
    course_lib.hint(SECOND)
    assert logbook.effort(FIRST) == {"checks": 3, "hints": 1}
    assert logbook.effort(SECOND) == {"checks": 0, "hints": 1}
    for broken in ("[]", "{", json.dumps({FIRST: 3}), json.dumps({FIRST: {"checks": "3"}})):
        (student / "own" / "effort.json").write_text(broken)
        assert logbook.effort(FIRST) == {"checks": 0, "hints": 0}


def test_what_a_student_shows_is_what_the_class_reads(student, monkeypatch):
    """effort() in a notebook, whose file is handed in as it is."""
    logbook.record_effort(FIRST, "checks")
    logbook.record_effort(SECOND, "hints")
    logbook.record_effort("fusion.softmax", "checks")
    displayed = []
    monkeypatch.setattr(render.cells, "shell", lambda: True)
    fake = SimpleNamespace(
        display=lambda data, raw, metadata: displayed.append((data, metadata)), get_ipython=lambda: None
    )
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    course_lib.effort(UNIT)
    ((data, said),) = displayed
    assert FIRST in data["text/plain"] and "fusion" not in data["text/plain"]
    hand_in(student, "ada", said)
    assert effort.of_unit(student, UNIT) == {
        "ada": {FIRST: effort.CountedEffort(1, 0), SECOND: effort.CountedEffort(0, 1)}
    }


def test_who_shows_nothing_shares_nothing(student, capsys):
    logbook.record_effort(FIRST, "checks")
    hand_in(student, "ada")
    assert effort.of_unit(student, UNIT) == {}


def test_the_last_of_the_units_own_outputs_counts(student):
    hand_in(
        student,
        "ada",
        shared({FIRST: 1}, {}),
        shared({FIRST: 7}, {FIRST: 2}),
        shared({FIRST: 99}, {}, unit="05_tiling"),
    )
    assert effort.of_unit(student, UNIT)["ada"] == {FIRST: effort.CountedEffort(7, 2)}


@pytest.mark.parametrize(
    "checks",
    [
        {FIRST: "<b>7</b>"},
        {FIRST: -7},
        {FIRST: True},
        {FIRST: None},
        {FIRST: [1]},
        {FIRST: 1e308},
        {"<b>": 3, FIRST: {}},
    ],
)
def test_what_is_no_number_counts_nothing(student, checks):
    hand_in(student, "ada", shared(checks, {}))
    assert effort.of_unit(student, UNIT).get("ada", {}).keys() <= {FIRST}
    assert effort.total(effort.of_unit(student, UNIT)["ada"]) == effort.CountedEffort(0, 0)


def test_large_numbers_files_that_are_none_and_links_do_no_harm(student):
    path = hand_in(student, "ada", shared({FIRST: 10**30}, {}))
    assert effort.of_unit(student, UNIT)["ada"][FIRST].checks == effort.MOST
    for name, content in {
        "ben": b'{"checks" "hints"',
        "cyd": b'["checks", "hints"]',
        "dee": b'{"cells": ["checks", "hints"]}',
    }.items():
        hand_in(student, name).write_bytes(content)
    hand_in(student, "eve").unlink()
    (student / "submitted" / "eve" / UNIT / f"{UNIT}.ipynb").symlink_to(path)
    hand_in(student, "fay").write_text('{"cells": ' + "[" * 100_000 + '"checks" "hints"')
    assert effort.of_unit(student, UNIT).keys() == {"ada"}


def test_the_median_is_of_those_who_share_and_began(student):
    for name, checks in {"ada": 2, "ben": 4, "cyd": 30}.items():
        hand_in(student, name, shared({FIRST: checks}, {FIRST: 1}))
    hand_in(student, "dee", shared({SECOND: 5}, {}))
    efforts = effort.of_unit(student, UNIT)
    assert effort.median(efforts, FIRST) == effort.CountedEffort(4, 1)
    assert effort.median(efforts, SECOND) == effort.CountedEffort(5, 0)
    assert effort.median(efforts, find(FIRST).id + "x") is None
