"""A unit's page for the site: cells that say what they are, and pictures that follow the page's theme."""

from __future__ import annotations

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


def test_a_picture_keeps_its_place_until_it_is_loaded(tmp_path):
    size = (300).to_bytes(4, "big") + (150).to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + size)
    page = '<title>a</title><img alt="" src="a.png"/><img src="a.png" width="100"/><img src="data:image/png;base64,x"/>'
    assert finish.page(page, tmp_path).partition("\n\n")[0].splitlines()[-1].split("<img ")[1:] == [
        'loading="lazy" width="300" height="150" alt="" src="a.png"/>',
        'loading="lazy" height="50" src="a.png" width="100"/>',
        'src="data:image/png;base64,x"/>',
    ]


def test_a_unit_begins_with_its_time_its_points_and_what_it_needs():
    text = "# 04 · Memory\n\n**After this** you can. You need 00 (a first kernel), 01 (strides, in 32 bits) and\n03 (bytes). No 99."
    picture = '<svg id="best"></svg>'
    page = covers.covered(text, exercises("04_memory_coalescing").values(), picture)
    assert page.index("# 04") < page.index(picture) < page.index("**After this**")
    path = [exercise for exercise in exercises("04_memory_coalescing").values() if exercise.track == "path"]
    assert f"<dd>{len(path)}, {sum(exercise.minutes for exercise in path)} minutes</dd>" in page
    assert [link.partition(">")[2][:2] for link in covers.needed(text)] == ["00", "01", "03"]
    assert covers.needed("You need Python.") == []


def test_every_unit_has_a_picture_to_begin_with():
    assert covers.BEST.keys() == UNITS.keys()
