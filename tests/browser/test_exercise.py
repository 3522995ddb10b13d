"""A student solves an exercise in the browser: wrongly, with hints, rightly, and sees the progress."""

from __future__ import annotations

import re

import pytest
from contrast import faint
from lab import DARK, LIGHT
from playwright.sync_api import expect

import grader
from course_lib.exercises import find, titles
from course_lib.exercises.hints import hints_on
from grader.published import solution_cell

UNIT = "00_start_here"
EXERCISE = find("start.add_one")
HINTS = hints_on(EXERCISE.id)
PATH = [exercise for exercise in grader.exercises(UNIT).values() if exercise.track == "path"]
POINTS, MINUTES = [exercise.points for exercise in PATH], sum(exercise.effort.minutes for exercise in PATH)
RIGHT = solution_cell(EXERCISE.id)
WRONG = RIGHT.replace("triton.cdiv(n, BLOCK)", "n // BLOCK")
WRONG_POINTS = 2  # the grid ends early where blocks do not divide n


@pytest.fixture(scope="module")
def notebook(opened):
    with opened(UNIT) as notebook:
        notebook.run(notebook.find(r"(?m).*^from course_lib import .*")[0])
        yield notebook


@pytest.fixture
def verdict(notebook):
    """source -> what the check below the exercise shows of it."""

    def verdict(source):
        notebook.write(*notebook.find(r"@triton.jit\ndef add_one_kernel.*"), source)
        notebook.page.keyboard.press("Shift+Enter")
        return notebook.run(*notebook.find(re.escape(f'check("{EXERCISE.id}", add_one)'))).locator(".jp-RenderedHTML")

    return verdict


@pytest.fixture
def progress(notebook):
    """Look up the unit in what progress() shows: how many points are earned, and how many minutes are left."""

    def progress(minutes, points):
        row = notebook.run(notebook.find(r"progress\(\)")[0]).locator("tr", has_text=titles.of(UNIT))
        expect(row.get_by_role("cell").nth(2)).to_have_text(f"{minutes}")
        expect(row).to_contain_text(f"{points:g} of {sum(POINTS):g}")

    return progress


def test_nothing_of_nbgrader_s_asks_to_be_pressed(notebook):
    """nbgrader's Validate is not validate(), and its menus are an instructor's."""
    page = notebook.page
    expect(page.get_by_role("toolbar", name="main area toolbar")).to_contain_text("Markdown")
    for name in ("Validate", "Nbgrader", "Create Assignment"):
        assert not page.get_by_text(name, exact=True).count() and not page.get_by_title(name).count(), name


def test_opening_a_notebook_changes_nothing_in_it(opened):
    """Else closing it asks whether to save what nobody has typed."""
    with opened("01_tensors_and_strides") as fresh:
        fresh.page.wait_for_timeout(3000)  # the kernel says which Python it is, some time after it has started
        assert not fresh.page.evaluate("jupyterapp.shell.currentWidget.context.model.dirty")


def test_the_terminal_frightens_nobody(notebook, lab):
    """Kernels are encrypted, so that none warns that it is not; and that a notebook is not trusted yet is nothing to read."""
    said = lab.log.read_text()
    assert "http://" in said and not any(word in said for word in ("WARN", "[W ", "susceptible", "not trusted")), said


def test_what_is_not_begun_is_grey_and_one_output(notebook):
    notebook.run(notebook.find(r"def num_programs.*")[0])
    cell = notebook.run(*notebook.find(re.escape('check("start.num_programs", num_programs)')))
    expect(cell.locator(".jp-RenderedHTML")).to_contain_text("not begun")
    expect(cell.get_by_text("✗")).to_have_count(0)
    expect(cell.locator(".jp-OutputArea-output")).to_have_count(1)  # no number below the verdict


def test_wrongly_with_hints_then_rightly(verdict, notebook, progress):
    assert WRONG != RIGHT
    progress(MINUTES, 0)

    wrong = verdict(WRONG)
    expect(wrong).to_contain_text(f"{WRONG_POINTS} / {EXERCISE.points}")
    expect(wrong).to_contain_text("Does the grid round up?")
    expect(wrong).to_contain_text("partly right")
    expect(wrong.get_by_title("failed", exact=True)).to_have_count(2)
    first = HINTS[0].partition("`")[0]
    expect(wrong.get_by_text(first).first).to_be_hidden()  # behind a click
    wrong.locator("summary").first.click()
    expect(wrong.get_by_text(first).first).to_be_visible()
    progress(MINUTES, WRONG_POINTS)

    notebook.write(notebook.find(r"# hint\(.*\)")[0], f'hint("{EXERCISE.id}")')
    for number, hint in enumerate(HINTS, 1):
        notebook.page.keyboard.press("Control+Enter")
        expect(notebook.page.locator(".jp-Notebook-cell.jp-mod-active")).to_contain_text(
            f"Hint {number} of 3: {hint.replace('`', '')}"
        )

    right = verdict(RIGHT)
    expect(right).to_contain_text("Next in this unit: ")
    expect(right).to_contain_text(f"{EXERCISE.points} / {EXERCISE.points}")
    expect(right.get_by_title("failed", exact=True)).to_have_count(0)
    progress(MINUTES - EXERCISE.effort.minutes, EXERCISE.points)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_verdicts_and_progress_are_legible(verdict, notebook, progress, theme):
    notebook.theme(theme)
    for source in (WRONG, RIGHT):
        assert not faint(verdict(source))
    progress(MINUTES - EXERCISE.effort.minutes, EXERCISE.points)
    assert not faint(notebook.page.locator(".jp-Notebook-cell.jp-mod-active .jp-RenderedHTML"))
