"""Ids of exercises are frozen: logbooks, notebooks that were handed out, and gradebooks survive an update of the course."""

import json
import tomllib
from pathlib import Path

import nbformat
import pytest

from course_lib import hint, logbook, progress
from course_lib.exercises import UNITS, find, ids
from course_lib.handin import answer, cells, files
from course_lib.logbook import Attempt

FROZEN = tomllib.loads((Path(__file__).resolve().parents[1] / "ids.toml").read_text("utf-8"))
TODAY = {
    exercise.id: [exercise.entry, exercise.points]
    for exercises in map(files.exercises, UNITS)
    for exercise in exercises
}


def complaints(frozen, today, renamed):
    """Say what a change of ids, names or points must bring with it."""
    for id in frozen.keys() - today.keys():
        yield (
            f'{id} is gone, and whoever solved it would lose it. If it was renamed, add `"{id}" = "its id of today"` to '
            "course_lib/exercises/renamed.toml, and move its line in tests/ids.toml. If it is dropped, say so in CHANGELOG.md, and delete "
            "that line."
        )
    for id in today.keys() - frozen.keys():
        yield f'{id} is new. From its first release on its id stays: add `"{id}" = {json.dumps(today[id])}` to tests/ids.toml.'
    for id in today.keys() & frozen.keys():
        (entry, points), (was, earlier) = today[id], frozen[id]
        if entry != was:
            yield f"{id} asks for `{entry}`, and notebooks that were handed out define `{was}`. Let it keep that name."
        if points != earlier:
            yield f"{id} has {points:g} points, and had {earlier:g}. Say so in CHANGELOG.md, and change its line in tests/ids.toml."
    for old, new in renamed.items():
        if old in today:
            yield f"{old} of course_lib/exercises/renamed.toml is an exercise. No id comes back with another meaning."
        if new not in today:
            yield f"{old} became {new} by course_lib/exercises/renamed.toml, and that is no exercise."


def test_ids_names_and_points_are_those_of_the_release():
    assert list(complaints(FROZEN, TODAY, ids.renamed())) == []


@pytest.mark.parametrize(
    "frozen, today, renamed, file",
    [
        ({"a.b": ["b", 1]}, {}, {}, "renamed.toml"),
        ({}, {"a.b": ["b", 1]}, {}, "tests/ids.toml"),
        ({"a.b": ["b", 1]}, {"a.b": ["c", 1]}, {}, "keep that name"),
        ({"a.b": ["b", 1]}, {"a.b": ["b", 2]}, {}, "CHANGELOG.md"),
        ({"a.b": ["b", 1]}, {"a.b": ["b", 1]}, {"a.b": "a.b"}, "another meaning"),
        ({"a.b": ["b", 1]}, {"a.b": ["b", 1]}, {"a.c": "a.d"}, "no exercise"),
    ],
)
def test_each_change_is_told_with_what_to_do(frozen, today, renamed, file):
    (said,) = complaints(frozen, today, renamed)
    assert file in said


@pytest.fixture
def book(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))
    return tmp_path


@pytest.mark.parametrize("old, new", ids.renamed().items())
def test_an_old_id_is_todays_everywhere(old, new, capsys):
    exercise = find(new)
    assert find(old) is exercise
    cell = exercise.grade_id, exercise.check_id
    assert tuple(ids.current_cell(old.replace(".", "-") + end) for end in ("", ids.CHECK)) == cell
    hint(old)
    assert "no exercise" not in capsys.readouterr().out


def test_progress_of_an_earlier_release_is_shown(book):
    """Points that unit 11 gave when it had 24 exercises are there, and a check that was made since counts as well."""
    (book / "progress.json").write_text(
        json.dumps(
            {"model.mended": 8.0, "hopper.power": 2.0, "hopper.holder extra": 1.5, "sm.power": 1.0, "start.gone": 3.0}
        )
    )
    units = {row[0]: row for row in progress().rows()}
    assert units["12_serving_a_model"][3] == find("serving.mended").points
    assert logbook.best()["sm.power"] == 2.0 and logbook.best()["sm.holder extra"] == 1.5
    logbook._write(
        book / "attempts.json", {"model.paged_decode": [{"date": "", "bytes": 9, "programs": 32, "launches": 1}]}
    )
    assert logbook.attempts("serving.paged_decode") == [Attempt("", 9, 32, 1)]


def as_of_before(unit):
    """The solved notebook with the ids of an earlier release, and how many it has of those."""
    nb = nbformat.read(files.content.ROOT / "solutions" / unit / f"{unit}.ipynb", 4)
    earlier, count = {new: old for old, new in ids.renamed().items()}, 0
    for exercise in files.exercises(unit):
        old = earlier.get(exercise.id, exercise.id)
        count += old != exercise.id
        for cell in nb.cells:
            marked = cell.metadata.get("nbgrader", {})
            if marked.get("grade_id") in (exercise.grade_id, exercise.check_id):
                marked["grade_id"] = marked["grade_id"].replace(exercise.grade_id, old.replace(".", "-"))
                cell.source = cell.source.replace(f'"{exercise.id}"', f'"{old}"')
    return nbformat.writes(nb).encode(), count


@pytest.mark.parametrize("unit", ["12_serving_a_model", "13_inside_an_sm"])
def test_a_notebook_of_an_earlier_release_is_read_as_one_of_this(unit):
    content, count = as_of_before(unit)
    read, given = cells.parse(content, unit), cells.parse(files.released(unit).read_bytes(), unit)
    assert count > 5 and files.unit_of(read) == unit
    notebook = answer.Notebook(read, files.exercises(unit), given)
    for exercise in notebook.exercises:
        assert notebook.solution(exercise).grade_id == exercise.grade_id and notebook.answer(exercise).own
        assert notebook.check_cell_warnings(exercise) == []


def test_the_unit_of_old_checks_without_metadata_is_known():
    content, _ = as_of_before("13_inside_an_sm")
    bare = [cells.Cell(cell.number, cell.kind, cell.source) for cell in cells.parse(content, "")]
    assert files.unit_of(bare) == "13_inside_an_sm"
