"""A reader without a mouse: a check, its hint and a widget, by keys alone."""

from __future__ import annotations

import pytest

from grader.published import solution_cell

UNIT = "00_start_here"
WRONG = solution_cell("start.add_one").replace("triton.cdiv(n, BLOCK)", "n // BLOCK")
FOCUS = "() => document.activeElement.matches('.jp-mod-active SELECTOR, .jp-mod-selected SELECTOR')"


@pytest.fixture(scope="module")
def notebook(opened):
    with opened(UNIT) as notebook:
        notebook.run(notebook.find(r"(?m).*^from course_lib import .*")[0])
        yield notebook


def run_by_key(notebook, pattern: str):
    """Run the cell by Ctrl+Enter, which keeps it active."""
    (index,) = notebook.find(pattern)
    cell = notebook.show(index)
    notebook.page.keyboard.press("Control+Enter")
    return cell


def tab_to(notebook, selector: str) -> None:
    """Press Tab until a part of the active cell that matches has the focus."""
    reached = FOCUS.replace("SELECTOR", selector)
    for _ in range(80):
        notebook.page.keyboard.press("Tab")
        if notebook.page.evaluate(reached):
            return
    raise AssertionError(f"Tab never reaches {selector}")


def test_a_widget_moves(notebook):
    cell = run_by_key(notebook, r"figures\.start\.explore_programs_over_elements\(\)")
    caption = cell.locator("figcaption")
    caption.wait_for()
    before = caption.inner_text()
    tab_to(notebook, "[role=slider]")
    notebook.page.keyboard.press("ArrowRight")
    notebook.page.wait_for_function(
        "before => document.querySelector('.jp-mod-active figcaption').innerText !== before", arg=before
    )


def test_a_check_and_its_hint(notebook):
    keys = notebook.page.keyboard
    notebook.show(*notebook.find(r"@triton.jit\ndef add_one_kernel.*")).focus()
    keys.press("Enter")  # into the cell
    notebook.page.wait_for_function("document.activeElement.matches('.jp-mod-active .cm-content')")
    keys.press("Control+A")
    keys.insert_text(WRONG)
    keys.press("Control+Enter")
    keys.press("Escape")
    cell = run_by_key(notebook, r"check\(\"start.add_one\", add_one\)")
    hint = cell.locator("details", has_text="hint").first
    hint.wait_for(timeout=120_000)
    tab_to(notebook, "summary")
    notebook.page.keyboard.press("Enter")
    assert cell.locator("details[open]").count() == 1
