"""progress(): the best of every check, kept whatever happens to notebooks; a check never fails for it."""

import json
import os
from pathlib import Path

import pytest

from course_lib import check, logbook, progress
from course_lib.criteria import refused
from course_lib.exercise import Verdict
from course_lib.exercises import UNITS, find, titles

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "deep" / "progress.json"))
    return tmp_path


def entered(exercise, points):
    logbook.record_best(Verdict(exercise, points, 10, []))


def test_the_best_points_stay():
    for points in (2.0, 5.5, 1.0):
        entered("coalescing.transpose", points)
    entered("coalescing.row_copy", 1.0)
    assert logbook.best() == {"coalescing.transpose": 5.5, "coalescing.row_copy": 1.0}


def test_a_device_is_not_replaced_and_keeps_nothing(tmp_path, monkeypatch):
    (tmp_path / "null").symlink_to(os.devnull)
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "null"))
    entered("coalescing.transpose", 2.0)
    assert logbook.best() == {} and [file.is_symlink() for file in tmp_path.iterdir()] == [True]


def test_a_check_is_kept_and_shown(capsys):
    points = check("start.num_programs", lambda n, block: -(-n // block))
    capsys.readouterr()
    exercise = find("start.num_programs")
    assert points == exercise.points == logbook.best()[exercise.id]
    entered("start.add_one", path := find("start.add_one").points)
    (unit, done, count, got, out_of, said), *others = progress().rows()
    assert (unit, done, got) == (next(iter(UNITS)), 1, path) and count > 1 and out_of > got, "the path's alone"
    assert f"{points:g} of " in said, "More beside it"
    assert all(row[1] == row[3] == 0 for row in others)


def test_nothing_yet_and_everything():
    path = [exercise for unit in progress().units for exercise in progress().on_path(unit)]
    hours = sum(exercise.effort.minutes for exercise in path) / 60
    assert (
        progress().total.split()[:3] == ["0", "of", f"{sum(e.points for e in path):g}"]
        and f" {hours:.0f} hours" in progress().total
    )
    first = next(iter(progress().units.values()))[0]
    assert (
        progress().next
        == f'Next: "{titles.title(first.id)}" in {titles.of(next(iter(UNITS)))}, about {first.effort.minutes} minutes.'
    )
    for exercises in progress().units.values():
        for exercise in exercises:
            entered(exercise.id, exercise.points + 3)  # the exercise was worth more once
    assert progress().next == "All of the main path is done."
    assert not any(map(progress().minutes_left, progress().units)) and "left" not in progress().total
    assert all((done, points) == (count, out_of) for _, done, count, points, out_of, _ in progress().rows())


def test_in_a_unit_its_own_next_exercise_is_told_first(monkeypatch):
    unit = "04_memory_coalescing"
    monkeypatch.setenv("JPY_SESSION_NAME", f"/home/me/work/{unit}/{unit}_2.ipynb")
    exercises = progress().units[unit]
    assert progress().next.startswith(f'Next in this unit: "{titles.title(exercises[0].id)}", about ')
    assert repr(progress()).startswith("Next in this unit: ") and progress()._repr_html_().startswith(
        "<p><b>Next in this"
    )
    for exercise in exercises:
        entered(exercise.id, exercise.points)
    following = list(progress().units)[5]
    first = progress().units[following][0]
    told = f'"{titles.title(first.id)}" in {titles.of(following)}, about {first.effort.minutes} minutes.'
    assert progress().next == f"All of {titles.of(unit)} is done. Next: {told}"
    monkeypatch.setenv("JPY_SESSION_NAME", "")
    assert progress().next.startswith("Next: ")


def test_one_goes_on_with_the_furthest_unit():
    """Whoever left a point behind in the first unit is not sent back to it."""
    assert progress().unit == next(iter(UNITS))
    entered("start.num_programs", 0.5)
    entered("coalescing.transpose", 3.0)
    assert progress().unit == "04_memory_coalescing" and "04 · Memory coalescing" in progress().next
    for exercise in progress().units[list(UNITS)[-1]]:
        entered(exercise.id, exercise.points)
    assert progress().unit == next(iter(UNITS)), "what was left behind, at last"


@pytest.mark.parametrize("unit", UNITS)
def test_every_unit_imports_and_shows_progress(unit):
    cells = json.loads((ROOT / "notebooks" / unit / f"{unit}.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert any("progress()" in cell.splitlines() for cell in code)
    assert any("progress" in cell for cell in code[:3] if "import" in cell)


def test_extra_credit_is_told_beside_the_points_and_is_none_of_them():
    exercise = find("coalescing.transpose")
    for bonus in (1.5, 2.0, 0.0):
        logbook.record_best(Verdict(exercise.id, 5.0, 10, [], bonus=bonus))
    row = next(row for row in progress().rows() if row[0] == "04_memory_coalescing")
    of_more = sum(e.points for e in progress().units["04_memory_coalescing"] if e.track == "more")
    assert row[3] == 5.0 and row[5] == f", 0 of {of_more:g} in More and 2 extra"
    assert sum(line.endswith(" and 2 extra") for line in repr(progress()).splitlines()) == 1
    assert progress()._repr_html_().count("2 extra") == 1


def test_points_on_the_way_are_told():
    first = next(iter(progress().units.values()))[0]
    entered(first.id, 0.5)
    assert f"0.5 of {first.points:g} points so far" in repr(progress())


def test_the_page_has_a_row_for_each_unit_and_says_what_is_next():
    page = progress()._repr_html_()
    assert all(unit in page for unit in UNITS) and "Next: " in page and page.count("<meter") == len(UNITS)
    assert "></td>" not in page.replace("></meter></td>", ""), "no cell is empty"


@pytest.mark.parametrize("content", ["", "[1]", '{"a": "b"}', "\x00", '{"a": {}}'])
def test_a_damaged_file_is_no_progress(home, content):
    logbook.path().parent.mkdir()
    logbook.path().write_text(content)
    assert logbook.best() == {}
    entered("coalescing.transpose", 2.0)
    assert logbook.best() == {"coalescing.transpose": 2.0}


def test_where_nothing_can_be_written_a_check_works(home):
    (home / "deep").write_text("a file where the folder should be")
    entered("coalescing.transpose", 2.0)
    assert logbook.best() == {}


def test_a_refused_check_is_no_progress():
    logbook.record_best(refused(find("coalescing.transpose"), "why"))
    assert logbook.best() == {} and not logbook.path().exists()


def test_where_it_is_kept(monkeypatch, home):
    monkeypatch.delenv("COURSE_PROGRESS")
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    assert logbook.path() == home / "strides-to-flashattention" / "progress.json"
    assert logbook.whereabouts().startswith(f"Kept in {logbook.path()}: they are yours")
    monkeypatch.setenv("XDG_DATA_HOME", "")
    for shown in (repr(progress()), progress()._repr_html_()):
        assert "Kept in ~/.local/share/strides-to-flashattention/progress.json: they are yours" in shown
