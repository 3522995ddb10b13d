"""Feedback pages as a phone, or a pane beside another page, shows them: no finding is cut off at the edge."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from axe import serious

from grader import ROOT

UNIT = "04_memory_coalescing"
CUT = "[...document.querySelectorAll('section, body')].filter(e => e.scrollWidth > e.clientWidth).map(e => e.id)"


@pytest.fixture(scope="module")
def feedback(tmp_path_factory) -> list[Path]:
    """The feedback pages of a sample class: right, wrong, wasteful, blank, refused."""
    folder = tmp_path_factory.mktemp("class")
    demo = [sys.executable, "-m", "grader", "demo", UNIT, "--folder", str(folder)]
    subprocess.run(demo, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob(f"grader/feedback/*/{UNIT}/{UNIT}.html"))


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
