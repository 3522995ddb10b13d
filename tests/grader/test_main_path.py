"""Each notebook is its main path from the first cell to *What you now know*; More stands behind it, and nothing above needs it."""

# trap: path first, then `## More`: whoever skips More must miss nothing

import re
import sys
from functools import cache

import nbformat
import pytest

import grader
from course_lib.exercises import BEYOND, UNITS
from course_lib.handin.cells import Cell
from course_lib.handin.statements import statements
from grader.building import build

KNOWN = "## What you now know"
ORDERED = [unit for unit in UNITS if unit not in BEYOND]
WITH_MORE = [unit for unit in UNITS if any(e.track == "more" for e in grader.exercises(unit).values())]


@cache
def notebook(unit):
    return build.instructors_notebook(grader.ROOT / "solutions" / f"{unit}.py", unit)


@cache
def parts(unit):
    """The cells of the path, and those of More: from its heading to *Further reading*."""
    cells = notebook(unit).cells
    starts = [i for i, cell in enumerate(cells) if re.search("^## More$", cell.source, re.M)]
    assert len(starts) == 1, "one place where More begins"
    return cells[: starts[0]], cells[starts[0] :]


def solved_in(unit, cells):
    ids = {e.grade_id: id for id, e in grader.exercises(unit).items()}
    return [ids[cell.id] for cell in cells if cell.id in ids]


@pytest.mark.parametrize("unit", WITH_MORE)
def test_the_path_comes_first_and_ends_with_what_you_now_know(unit):
    path, more = parts(unit)
    exercises = grader.exercises(unit).values()
    assert sorted(solved_in(unit, path)) == sorted(e.id for e in exercises if e.track == "path")
    assert sorted(solved_in(unit, more)) == sorted(e.id for e in exercises if e.track == "more")
    after = path[next(i for i, cell in enumerate(path) if KNOWN in cell.source) :]
    assert not solved_in(unit, after)


@pytest.mark.parametrize("unit", WITH_MORE)
def test_exercises_have_the_order_of_the_notebook(unit):
    assert list(grader.exercises(unit)) == solved_in(unit, notebook(unit).cells)


@pytest.mark.parametrize("unit", WITH_MORE)
def test_no_cell_of_the_path_needs_one_of_more(unit):
    """Names keep the path apart: whoever skips More can run every cell of the path, and nothing there reads a name that only More binds."""
    path, _ = parts(unit)
    own = [cell for cell in path if cell.cell_type == "code"]
    everything = [cell for cell in notebook(unit).cells if cell.cell_type == "code"]
    bound = {name for cell in own for name in names(cell)[0]}
    later = {name for cell in everything[len(own) :] for name in names(cell)[0]} - bound
    for cell in own:
        assert not later & names(cell)[1], f"{cell.id} reads {later & names(cell)[1]}"


@pytest.mark.parametrize("unit", WITH_MORE)
def test_every_name_is_bound_above_its_use(unit):
    """The order of cells was changed by hand: no cell reads a name that only a later one binds."""
    cells = [cell for cell in notebook(unit).cells if cell.cell_type == "code"]
    for place, cell in enumerate(cells):
        later = {name for other in cells[place + 1 :] for name in names(other)[0]}
        above = {name for other in cells[: place + 1] for name in names(other)[0]}
        assert not names(cell)[1] & (later - above), f"{cell.id} reads {names(cell)[1] & (later - above)}"


@pytest.mark.parametrize("unit", WITH_MORE)
def test_the_text_of_the_path_names_no_exercise_of_more(unit):
    path, _ = parts(unit)
    more = [e for e in grader.exercises(unit).values() if e.track == "more"]
    for cell in path:
        if cell.cell_type == "markdown":
            told = [e.id for e in more if re.search(rf"`({re.escape(e.id)}|{e.entry})\b", cell.source)]
            assert not told, f"{cell.source[:80]!r} names {told}"


@pytest.mark.parametrize("unit", UNITS)
def test_points_follow_minutes(unit):
    """Within a factor of two of the unit's own rate, so that no exercise is worth twice its time, or half."""
    exercises = grader.exercises(unit).values()
    path = [e for e in exercises if e.track == "path"]
    rate = sum(e.points for e in path) / sum(e.effort.minutes for e in path)
    odd = {
        e.id: round(e.points / e.effort.minutes / rate, 2)
        for e in exercises
        if not 0.5 <= e.points / e.effort.minutes / rate <= 2
    }
    assert not odd


def test_the_path_takes_no_more_time_than_the_course_says():
    minutes = {
        unit: sum(e.effort.minutes for e in grader.exercises(unit).values() if e.track == "path") for unit in ORDERED
    }
    assert max(minutes.values()) <= 180, minutes  # 05: its matmul alone takes a reader an hour and a half
    assert sum(minutes.values()) <= 20 * 60, minutes


@pytest.mark.parametrize("unit", [unit for unit in ORDERED if unit[:2] in {"04", "05", "06", "07", "09", "10"}])
def test_the_first_kernel_of_a_unit_is_given_but_for_some_lines(unit):
    """Before one is written from nothing: its stub has lines of the kernel, and a gap."""
    student = nbformat.read(grader.ROOT / "notebooks" / unit / f"{unit}.ipynb", 4).cells
    first = next(cell.source for cell in student if cell.id in grade_ids(unit) and "@triton.jit" in cell.source)
    assert "...  # your code here" in first
    assert [line for line in first.splitlines() if re.match(r"    .*\btl\.(arange|load|store)\(", line)]


def grade_ids(unit):
    return {exercise.grade_id for exercise in grader.exercises(unit).values()}


def names(cell):
    """The names that a cell binds, and those that it reads."""
    return names_in(cell.source)


@cache
def names_in(source):
    bound, read = set(), set()
    for statement in statements(Cell(0, "code", source), sys.maxsize):
        bound |= set(statement.binds)
        read |= set(statement.reads)
    return bound, read
