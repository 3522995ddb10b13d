"""A unit's page for the site: cells that say what they are, and pictures that follow the page's theme."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from base64 import b64decode

from nbformat import v4

from course_lib.exercises import UNITS
from grader import exercises
from grader.building import covers, drawings, finish, lessons

PICTURE = "Picture: "


def output(**data):
    return v4.new_output("display_data", {kind.replace("_", "/", 1): value for kind, value in data.items()})


def test_cells_say_what_they_are_and_nothing_of_who_built_the_notebook():
    guess = v4.new_code_cell("# How many?\nguess_elements = ...")
    shown = v4.new_code_cell("figures.start.ladder()", outputs=[output(image_png="", text_plain=PICTURE)])
    mine = v4.new_code_cell("progress()", outputs=[output(text_html="<b>3 points</b>")])
    notebook = v4.new_notebook(cells=[guess, shown, mine])
    picture = '<svg id="new"></svg>'
    page, _ = lessons.page("00_start_here", notebook, str, {}, {(shown.source, PICTURE): picture})
    assert [cell.metadata["tags"] for cell in page.cells] == [["prediction"], ["demonstration"], ["demonstration"]]
    assert [[one.data for one in cell.outputs] for cell in page.cells] == [[], [{"text/html": picture}], []]


def test_a_picture_is_drawn_anew_if_it_is_the_same_picture():
    source = "figures.start.ladder()"
    words = repr(drawings.figures.start.ladder())
    drawn = drawings.drawing(f"# a comment\n{source}", words)
    assert drawn is not None and "<svg" in drawn
    assert drawings.drawing(source, f"{PICTURE}of an older version") is None
    assert drawings.drawing("figures.start.ladder(mine)", words) is None, "a name of another cell"
    assert drawings.drawing("import os; os.remove('x')", words) is None


def test_a_page_has_a_description_of_whole_words():
    page = f"<title>a</title></head><article><p>short</p><p>{'<b>word</b> ' * 80}</p></article>"
    said = finish.description(page)
    assert said.startswith("word word") and said.endswith("word …") and len(said) <= finish.SENTENCES + 2
    assert finish.description("<article><p>short</p></article>") == ""


def test_a_fold_of_the_menu_is_named(tmp_path):
    link, fold = '<a href="04.html">04 · Memory</a>', '<summary><span class="toctree-toggle"></span></summary>'
    page = finish.page(f"<title>a</title>{link}<details>{fold}</details>", tmp_path)
    assert '<summary aria-label="pages of 04 · Memory"><span' in page


def test_a_picture_keeps_its_place_until_it_is_loaded(tmp_path):
    size = (300).to_bytes(4, "big") + (150).to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + size)
    page = '<title>a</title><img alt="" src="a.png"/><img src="a.png" width="100"/><img src="data:image/png;base64,x"/>'
    assert finish.page(page, tmp_path).partition("\n\n")[0].splitlines()[-1].split("<img ")[1:] == [
        'loading="lazy" width="300" height="150" alt="" src="a.png"/>',
        'loading="lazy" height="50" src="a.png" width="100"/>',
        'src="data:image/png;base64,x"/>',
    ]


TEXT = "# 04 · Memory\n\n**After this** you can. You need 00 (a first kernel), 01 (strides, in 32 bits) and\n03 (bytes). No 99."
UNIT = "04_memory_coalescing"


def test_a_unit_begins_with_its_question_its_time_its_points_and_what_it_needs():
    known = exercises(UNIT)
    path = [exercise for exercise in known.values() if exercise.track == "path"]
    picture = '<svg id="best"></svg>'
    page = covers.covered(TEXT, UNIT, known.values(), picture)
    question = covers.COVERS[UNIT].question
    assert page.index("# 04") < page.index(question) < page.index(picture) < page.index("**After this**")
    assert (
        f"<dd>{len(path)}</dd>" in page
        and f"<dd>{sum(exercise.effort.minutes for exercise in path)} minutes</dd>" in page
    )
    assert [unit[:2] for unit in covers.needed(TEXT)] == ["00", "01", "03"]
    assert covers.needed("You need Python.") == []
    notebook = v4.new_notebook(cells=[v4.new_markdown_cell(TEXT)])
    covers.put(notebook, UNIT, known)
    card = notebook.cells[0].source
    assert (
        question in card
        and f"(attachment:{covers.FILE})" in card
        and "[03 Counting FLOPs](../03_counting_flops/" in card
    )
    assert covers.covered(card, UNIT, known.values(), picture) == page, "a page has one card"
    assert "You need" not in card + page and card.endswith("you can. No 99."), "the card says what is needed"


def test_a_card_keeps_its_picture_until_it_is_drawn_anew():
    old, new = (v4.new_notebook(cells=[v4.new_markdown_cell(TEXT)]) for _ in range(2))
    old.cells[0]["attachments"] = {covers.FILE: {"image/png": "AAAA"}}
    covers.attach(new, UNIT, old, anew=False)
    assert new.cells[0]["attachments"] == old.cells[0]["attachments"]
    covers.attach(new, UNIT, old, anew=True)
    assert b64decode(new.cells[0]["attachments"][covers.FILE]["image/png"]).startswith(b"\x89PNG")
    drawing = new.cells[0]["attachments"][covers.FILE]["image/svg+xml"]
    assert ET.fromstring(drawing).tag.endswith("svg") and "prefers-color-scheme: dark" in drawing


def test_every_unit_has_a_card_with_a_question():
    assert covers.COVERS.keys() == UNITS.keys()
    assert all(cover.question.endswith("?") for cover in covers.COVERS.values())


def test_bitmaps_of_a_notebook_are_drawn_anew_but_not_those_of_times_that_a_reader_guesses():
    def cell(source: str, name: str):
        shown = v4.new_output("display_data", {"image/png": "AAAA", "text/plain": PICTURE})
        return v4.new_code_cell(source, id=name, outputs=[shown])

    ladder, mine = cell("figures.start.ladder()", "code-1"), cell("figures.start.ladder(mine)", "code-2")
    timed = cell("figures.start.one_or_many(guess_elements)", "gpu-1")
    drawings.renew(v4.new_notebook(cells=[ladder, mine, timed]))
    assert [one.outputs[0].data["image/png"] == "AAAA" for one in (ladder, mine, timed)] == [False, True, True]
    assert ladder.outputs[0].data["text/plain"] == repr(drawings.figures.start.ladder())
    assert ladder.outputs[0].metadata["image/png"]["alt"] in ladder.outputs[0].data["text/plain"]
