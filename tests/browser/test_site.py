"""The pages for self-study: all that they load is theirs, every link leads somewhere, solutions and hints are folded, and widgets,
predictions and a count of sectors work without a kernel."""

from __future__ import annotations

import io
import itertools
import re
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from axe import serious
from PIL import Image

pytest.importorskip("sphinx_book_theme", reason="the extra `site` is not installed")

from course_lib import figures
from course_lib.exercises import UNITS
from course_lib.exercises.coalescing import sectors_touched
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


def of_unit(html: Path, unit: str) -> list[Path]:
    """The pages of a unit, in order."""
    return [html / f"{unit}.html", *sorted(html.glob(f"{unit}-*.html"))]


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


def test_the_first_page_leads_to_reading_tasting_and_starting(html, pages):
    first = pages[html / "index.html"].links
    assert all(f"{name}.html" in first for name in ("00_start_here", "taste", "installing"))
    assert "7 / 10" in (html / "index.html").read_text("utf-8"), "the verdict is text, which a phone can wrap"
    assert "<strong>Read it</strong>" not in (html / "index.html").read_text("utf-8"), "a link"


def test_every_unit_is_there_with_its_outputs(html):
    for unit in UNITS:
        text = "".join(path.read_text("utf-8") for path in of_unit(html, unit))
        assert text.count("<img") + text.count("<svg role") >= 4, unit
        assert text.count("Show a solution of") >= len(exercises(unit)), unit
        assert "application/vnd.jupyter" not in text


def test_a_taste_shows_what_the_trace_says(html):
    text = (html / "taste.html").read_text("utf-8")
    assert "Author name not set" not in text
    assert "12.5%" in text and "out of bounds" in text and "verdict.png" in text


@pytest.mark.parametrize("ink, page_s, darkest, lightest", [("#222", "#fff", 240, 255), ("#e0e0e0", "#111", 0, 40)])
def test_a_picture_s_ground_follows_the_letters_of_a_page_that_names_no_colour(browser, ink, page_s, darkest, lightest):
    """A mail, another lab: its letters are light or dark, and no variable says what they lie on."""
    page = browser.new_page()
    page.set_content(f'<body style="color:{ink};background:{page_s}">{figures.dtypes.loss_scaling().html()}')
    with Image.open(io.BytesIO(page.locator("svg").screenshot())) as shot:
        assert darkest <= shot.convert("L").getpixel((2, 2)) <= lightest
    page.close()


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


@contextmanager
def opened(browser, path, width=1280):
    """A page of the site in a fresh browser, whose errors fail the test."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "name",
    ["index", "taste", "04_memory_coalescing", "13_inside_an_sm", "14_hopper_by_hand-2", "instructors", "search"],
)
def test_axe_finds_nothing_serious(html, browser, name, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.goto((html / f"{name}.html").as_uri())
    assert serious(page) == {}
    context.close()


HEAVIEST, WITH_PICTURES = (
    800_000,
    1_000_000,
)  # bytes that a page is, with all that it loads, before its pictures | in its file


@pytest.mark.parametrize("name", ["index", *UNITS])
def test_a_page_is_light_before_its_pictures(html, name):
    for path in of_unit(html, name):
        text = path.read_text("utf-8")
        loads = [each for each in Page(path).loads if each.partition("?")[0].endswith((".css", ".js"))]
        files = {html / unquote(each.partition("?")[0]) for each in loads}
        words = re.sub(r'<svg.*?</svg>|data:image/[^"]*', "", text, flags=re.DOTALL)
        styles = sum(file.stat().st_size for file in files if "searchindex" not in file.name)
        assert len(words.encode()) + styles < HEAVIEST and path.stat().st_size < WITH_PICTURES, path.name
        assert "Toggle hidden content" not in text and 'name="description"' in text and 'property="og:image"' in text
        assert len(re.findall("<h1", text.partition("<article")[2].partition("</article>")[0])) == 1, path.name


def test_every_icon_is_drawn(html, pages):
    """The theme's own icons are left out; one that course.css does not draw would be a square."""
    drawn = set(re.findall(r"\.(fa-[\w-]+) \{ --icon", (html / "_static" / "course.css").read_text("utf-8")))
    used = {icon for path in pages for icon in re.findall(r"\b(fa-[\w-]+)", path.read_text("utf-8"))}
    assert used - drawn - {"fa-solid", "fa-brands", "fa-regular", "fa-fw", "fa-lg", "fa-2x"} == set()


def test_pictures_load_when_they_are_near_and_keep_their_place(html):
    for unit in UNITS:
        text = "".join(path.read_text("utf-8") for path in of_unit(html, unit))
        pictures = re.findall(r"<img [^>]*_images[^>]*>", text)
        assert all('loading="lazy"' in tag and "height=" in tag for tag in pictures), unit


def test_a_widget_moves_by_keyboard_and_loads_its_states_then(html, browser):
    with opened(browser, html / "00_start_here.html") as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        box = page.locator(".states").first
        slider = box.get_by_role("slider", name="n", exact=True)
        before = box.locator("svg").first.get_attribute("aria-label")
        assert not any("states" in url for url in asked)
        slider.focus()
        slider.press("ArrowRight")
        page.wait_for_function(
            "before => !document.querySelector('.states svg').ariaLabel.includes(before)", arg=before
        )
        assert [url.rpartition("/")[2] for url in asked if "states" in url] == [
            "start.explore_programs_over_elements.js"
        ]
        assert slider.get_attribute("aria-valuetext") == box.locator(".value").first.inner_text() == "11"
        assert "11 elements" in box.locator("figcaption").inner_text()
        other = box.get_by_role("slider", name="BLOCK")
        other.press("End")
        page.wait_for_function("document.querySelector('.states figcaption').innerText.includes('32')")


def test_a_prediction_takes_an_answer_before_it_shows_the_output(html, browser):
    with opened(browser, html / "00_start_here.html") as page:
        cell = page.locator(".tag_prediction").first
        output = page.locator(".tag_prediction + .cell .cell_output").first
        assert output.is_hidden()
        cell.get_by_role("button", name="Show what happens").click()
        assert output.is_hidden(), "nothing was answered"
        cell.get_by_role("textbox").fill("5000")
        cell.get_by_role("textbox").press("Enter")
        assert output.is_visible() and "5000" in cell.inner_text()
        page.reload()
        assert output.is_visible() and "5000" in cell.inner_text()


def test_the_menu_says_how_far_a_unit_was_read(html, browser):
    first, *others = of_unit(html, "00_start_here")
    with opened(browser, html / "04_memory_coalescing.html") as page:
        for path in (first, *others):
            page.goto(path.as_uri())
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
            page.wait_for_function("document.querySelector('.bd-docs-nav .current .read')?.textContent")
        page.goto((html / "04_memory_coalescing.html").as_uri())
        assert "✓" in page.locator(".bd-docs-nav a[href='00_start_here.html']").first.inner_text()


def test_an_address_of_a_unit_s_one_page_leads_to_where_the_heading_stands_now(html, browser):
    unit = "14_hopper_by_hand"
    first, second, *_ = of_unit(html, unit)
    anchor = re.findall(r'<section id="([^"]+)"', second.read_text("utf-8"))[1]
    with opened(browser, html / "index.html") as page:
        page.goto(f"{first.as_uri()}#{anchor}")
        page.wait_for_url(f"**/{second.name}#{anchor}")


def test_next_leads_through_a_unit(html, browser):
    pages = of_unit(html, "14_hopper_by_hand")
    with opened(browser, pages[0]) as page:
        for path in pages[1:]:
            page.locator("a.right-next").click()
            page.wait_for_url(f"**/{path.name}")


def test_code_is_copied(html, browser):
    with opened(browser, html / "04_memory_coalescing.html") as page:
        page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
        button = page.get_by_role("button", name="Copy").first
        code = button.evaluate("e => e.parentElement.querySelector('pre').innerText")
        button.click()  # whose name changes then
        assert code and page.evaluate("window.copied") == code


def test_sectors_are_counted_in_the_page_as_by_the_course(html, browser):
    cases = list(itertools.product(range(1, 33), range(0, 32, 5), (1, 2, 4, 8)))
    expected = [
        sectors_touched.oracle([size * (offset + stride * lane) for lane in range(32)], size)
        for stride, offset, size in cases
    ]
    with opened(browser, html / "index.html") as page:
        count = "cases => cases.map(([stride, offset, size]) => sectorsTouched(stride, offset, size).sectors.size)"
        assert page.evaluate(count, cases) == expected
        box = page.locator(".sectors")
        box.get_by_role("button", name="8", exact=True).click()
        assert (
            "32 sectors" in box.get_by_role("status").inner_text()
            and "12.5 %" in box.get_by_role("status").inner_text()
        )
        box.get_by_role("slider", name="stride").press("Home")
        assert "4 sectors" in box.get_by_role("status").inner_text()


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
    assert '[role="main"]' not in (html / "_static" / "searchtools.js").read_text("utf-8"), (
        "excerpts of what is written alone"
    )


def test_a_notebook_that_cannot_be_read_is_a_sentence(tmp_path, monkeypatch, capsys):
    (tmp_path / "solutions" / "00_start_here").mkdir(parents=True)
    (tmp_path / "solutions" / "00_start_here" / "00_start_here.ipynb").write_text("<<<<<<< HEAD\n")
    monkeypatch.setattr(site.lessons, "ROOT", tmp_path)
    assert site.main(tmp_path / "build") == 1
    assert "Build it anew: make build." in capsys.readouterr().err
