"""Verdicts of a unit's wrong and unusual answers on narrow screens: nothing of them is hidden at the right."""

import tempfile

import pytest
from sampling import sampled

from course_lib import render
from grader.audit import kill_matrix, variants

PAGE = "<!doctype html><meta charset=utf-8><body style='font: 14px sans-serif; margin: 8px'>"


@pytest.fixture(scope="module")
def page_of_verdicts():
    rows = kill_matrix.run(sampled(variants.of_unit("coalescing")))
    with tempfile.NamedTemporaryFile("w", suffix=".html") as file:
        file.write(PAGE + "\n".join(f"<section>{render.html(row.verdict)}</section>" for row in rows))
        file.flush()
        yield file.name, [f"{row.variant.exercise}: {row.variant.name}" for row in rows]


@pytest.mark.parametrize("width", [320, 640])
def test_no_verdict_is_wider_than_the_screen(page_of_verdicts, browser, width):
    path, names = page_of_verdicts
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(f"file://{path}")
    for _ in range(2):  # as they come, and with all folds open
        wide = page.evaluate(
            "[...document.querySelectorAll('section')].map(s => Math.max(...[s, ...s.querySelectorAll('div, table')]"
            ".map(e => e.scrollWidth - e.clientWidth * (e.clientWidth > 0))))"
        )
        assert [(name, over) for name, over in zip(names, wide, strict=True) if over > 0] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    page.close()
