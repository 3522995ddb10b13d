"""The pages for self-study: all that they load is theirs, every link leads somewhere, solutions and hints are folded."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("sphinx_book_theme", reason="the extra `site` is not installed")

from course_lib.exercises import UNITS
from grader import exercises
from grader.building import origin, site


class Page(HTMLParser):
    """A page: its loads, its links, and the places in it that have names."""

    def __init__(self, path: Path):
        super().__init__()
        self.loads, self.links, self.ids, self.alts = [], [], set(), []
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if "id" in found:
            self.ids.add(found["id"])
        if tag in ("script", "img", "iframe", "source") and found.get("src"):
            self.loads.append(found["src"])
        if (
            tag == "link"
            and found.get("href")
            and found.get("rel") not in ("search", "next", "prev", "index", "genindex")
        ):
            self.loads.append(found["href"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(origin.SETTING, "https://github.com/ada/course")
        assert site.main(folder) == 0  # warnings are errors
    return folder / "html"


@pytest.fixture(scope="module")
def pages(html) -> dict[Path, Page]:
    return {path: Page(path) for path in html.rglob("*.html") if "_static" not in path.parts}


def elsewhere(address: str) -> bool:
    return re.match(r"(https?:)?//", address) is not None


def test_nothing_is_loaded_from_elsewhere(html, pages):
    assert len(pages) > 30
    assert {address for page in pages.values() for address in page.loads if elsewhere(address)} == set()
    styles = "".join(path.read_text("utf-8", errors="replace") for path in html.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import )['\"]?(?:https?:)?//[^)]*", styles) == []


def test_every_link_leads_somewhere(html, pages):
    broken = []
    for path, page in pages.items():
        for address in [*page.links, *page.loads]:
            if elsewhere(address) or address.startswith(("mailto:", "data:", "javascript:")):
                continue
            file, _, anchor = unquote(address.partition("?")[0]).partition("#")
            target = (path.parent / file).resolve() if file else path
            known = pages.get(target)
            if not target.exists() or (anchor and known and anchor not in known.ids):
                broken.append((str(path.relative_to(html)), address))
    assert broken == []


def test_every_unit_is_there_with_its_outputs(html):
    for unit in UNITS:
        text = (html / f"{unit}.html").read_text("utf-8")
        assert text.count("<img") >= 2, unit
        assert text.count("Show a solution of") >= len(exercises(unit)), unit
        assert "application/vnd.jupyter" not in text


def test_a_taste_shows_what_the_trace_says(html):
    text = (html / "taste.html").read_text("utf-8")
    assert "Author name not set" not in text
    assert "12.5%" in text and "out of bounds" in text and "verdict.png" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_unit_reads_well_and_loads_nothing_from_the_network(html, browser, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    try:
        page, asked, said = context.new_page(), [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((html / "04_memory_coalescing.html").as_uri())
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == [] and said == []
        folded = page.locator("details.hide").first
        assert folded.get_attribute("open") is None
        folded.locator("summary").click()
        assert folded.get_attribute("open") is not None
        assert page.locator("html").get_attribute("data-theme") == scheme
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        context.close()


def test_no_page_is_wider_than_a_telephone(html, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    wide = {}
    for path in sorted(html.rglob("*.html")):
        if "_static" not in path.parts:
            page.goto(path.as_uri())
            wide[path.stem] = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    page.close()
    assert {name: pixels for name, pixels in wide.items() if pixels > 0} == {}


def test_search_finds_a_word(html, browser):
    page = browser.new_page()
    page.goto((html / "search.html").as_uri() + "?q=coalescing")
    page.locator("ul.search li").first.wait_for()
    assert page.locator("ul.search li").count() > 1
    page.close()


def test_a_notebook_that_cannot_be_read_is_a_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "solutions" / "00_start_here").mkdir(parents=True)
    (tmp_path / "solutions" / "00_start_here" / "00_start_here.ipynb").write_text("<<<<<<< HEAD\n")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    assert site.main(tmp_path / "build") == 1
    assert "Build it anew: make build." in capsys.readouterr().err
