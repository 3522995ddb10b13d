"""Feedback pages as a phone, or a pane beside another page, shows them: no finding is cut off at the edge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from axe import serious

from grader import ROOT
from grader.reporting import report

UNIT = "04_memory_coalescing"
CUT = "[...document.querySelectorAll('section, body')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A sample class, judged: right, wrong, wasteful, blank, refused."""
    folder = tmp_path_factory.mktemp("class")
    demo = [sys.executable, "-m", "grader", "demo", UNIT, "--folder", str(folder)]
    subprocess.run(demo, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return folder / "grader"


@pytest.fixture(scope="module")
def feedback(home) -> list[Path]:
    return sorted(home.glob(f"feedback/*/{UNIT}/{UNIT}.html"))


@pytest.fixture(scope="module")
def class_report(home) -> Path:
    return report.write(home, UNIT)


@pytest.mark.parametrize("width", [320, 390, 640, 800, 1200])
def test_no_section_is_wider_than_the_page(feedback, clean, width):
    cut = {}
    with clean() as page:
        page.set_viewport_size({"width": width, "height": 900})
        for path in feedback:
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('section details').forEach(each => each.open = true)")
            if found := page.evaluate(CUT):
                cut[path.parts[-3]] = found
    assert len(feedback) > 4 and cut == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_feedback(feedback, browser, scheme):
    context = browser.new_context(color_scheme=scheme)
    page, barriers = context.new_page(), {}
    for path in feedback:
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        if found := serious(page):
            barriers[path.parts[-3]] = found
    context.close()
    assert barriers == {}


@pytest.mark.parametrize("width", [320, 390, 768, 1400])
def test_the_report_fits_any_width(class_report, clean, width):
    with clean() as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(class_report.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        name = page.locator(".grid tbody tr").last.locator("th")
        page.evaluate("document.querySelector('.scroll:has(.grid)').scrollLeft = 200")
        assert name.bounding_box()["x"] >= 0, "who it is stays beside the points"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_the_report(class_report, browser, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto(class_report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
    assert serious(page) == {}
    context.close()


def test_the_line_that_lost_points_is_lit_in_the_code(feedback, clean):
    with clean() as page:
        page.goto(next(path for path in feedback if path.parts[-3] == "strided-access").as_uri())
        lit = page.locator(".lit")
        assert lit.count() == 1 and "tl.store(" in lit.inner_text() and lit.is_visible()
