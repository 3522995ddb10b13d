"""Additions of the course to JupyterLab: a card at the beginning, edges, and the contents where the list of files is."""

from __future__ import annotations

import io
import re

from lab import DARK, LIGHT, Notebook
from PIL import Image
from playwright.sync_api import expect

from grader.building import covers

UNIT = "00_start_here"
EDGE = "cell => getComputedStyle(cell).borderLeft"


def test_the_first_screen_is_a_card_and_the_contents(opened):
    with opened(UNIT) as notebook:
        first = notebook.page.locator(".jp-MarkdownCell").first
        expect(first).to_contain_text(covers.COVERS[UNIT].question)
        picture = first.locator("img")
        expect(picture).to_be_visible()
        assert picture.evaluate("image => image.naturalWidth") > 600
        expect(first).to_contain_text("points: ")
        expect(notebook.page.locator("#table-of-contents")).to_be_visible()


def test_the_card_s_picture_is_a_drawing_that_follows_the_theme(opened):
    with opened(UNIT) as notebook:
        picture = notebook.page.locator(".jp-MarkdownCell").first.locator("img")
        expect(picture).to_have_attribute("src", re.compile("^data:image/svg"))
        grounds = []
        for theme in (LIGHT, DARK):
            notebook.theme(theme)
            with Image.open(io.BytesIO(picture.screenshot())) as shot:
                grounds.append(shot.convert("L").getpixel((2, 2)))
        assert grounds[0] > 240 > 40 > grounds[1], "no white card in a dark room"


def test_a_narrow_window_has_the_notebook_alone(lab, browser):
    page = browser.new_page(viewport={"width": 700, "height": 900})
    notebook = Notebook(lab, page, f"{UNIT}/{UNIT}.ipynb")
    expect(page.locator("#table-of-contents")).to_be_hidden()
    wide = page.locator(".jp-MarkdownCell").first.evaluate(
        "cell => [cell.scrollWidth - cell.clientWidth, cell.clientWidth]"
    )
    assert wide[0] <= 0 and wide[1] > 500
    notebook.close()
    page.close()


def test_cells_have_an_edge_that_says_what_one_does_there(opened):
    with opened(UNIT) as notebook:
        kinds = {}
        for pattern in (
            r"(?s).*def add_one.*",
            r"check\(.start.add_one.*",
            r"(?s).*guess_elements = \.\.\.",
            r"figures\.start\.ladder\(\)",
        ):
            cell = notebook.show(notebook.find(pattern)[0])
            kinds[cell.get_attribute("data-course")] = cell.evaluate(EDGE)
        assert list(kinds) == ["exercise", "check", "prediction", "demonstration"]
        assert kinds["exercise"] == kinds["check"] and len(set(kinds.values())) == 3
