"""The pictures of unit 04: they exist, say what they show, and draw numbers that a hand count confirms."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pictures import as_shown, words

from course_lib import figures

F = figures.coalescing

PICTURES = {
    "rows_against_columns": (),
    "memory_anatomy": (),
    "name_lanes": (),
    "lanes_over_memory": (4, 1, "float16"),
    "explore_lanes_over_memory": (),
    "sectors_against_stride": ((1, 4, 16),),
    "divergence_timeline": ([True] * 32 + [False, True] * 8,),
    "padding_drift": (),
    "tile_footprints": (),
}


@pytest.mark.parametrize(
    "arguments, sectors, useful",
    [
        ((1, 0, "float32"), 4, 128),
        ((1, 1, "float32"), 5, 128),  # bytes 4 to 131
        ((2, 0, "float32"), 8, 128),
        ((8, 0, "float32"), 32, 128),
        ((32, 31, "float32"), 32, 128),
        ((1, 0, "float16"), 2, 64),
        ((3, 0, "int8"), 3, 32),  # bytes 0 to 93
        ((0, 9, "float32"), 1, 4),  # all lanes want one element
    ],
)
def test_lanes_over_memory_counts_like_a_hand(arguments, sectors, useful):
    figure = F.lanes_over_memory(*arguments)
    text = figure.get_supxlabel()
    assert text.startswith(f"{sectors} sectors") and f"{useful} wanted" in text
    page = figure.axes[0].images[0].get_array()
    assert (page == 2).sum() == useful
    assert (page > 0).sum() == 32 * sectors


@pytest.mark.parametrize("arguments, word", [((1, 0, "float8"), "float8"), ((1, -1), "offset -1")])
def test_lanes_over_memory_names_a_wrong_argument(arguments, word):
    with pytest.raises(ValueError, match=word):
        F.lanes_over_memory(*arguments)


@pytest.mark.parametrize("arguments, lines", [((1,), 4), ((2,), 4), ((5,), 5), ((8, 1), 8), ((32, 31), 32)])
def test_lanes_over_memory_shows_the_lines_it_needs(arguments, lines):
    ax = F.lanes_over_memory(*arguments).axes[0]
    assert ax.get_ylim() == (lines, 0)
    assert ax.get_yticklabels()[-1].get_text() == str(128 * lines)


def test_the_widgets_fallback_begins_at_stride_2(picture):
    assert "8 sectors" in words(picture("explore_lanes_over_memory"))


def test_the_widget_begins_at_stride_2(notebook):
    assert F.explore_lanes_over_memory().named["stride"].value == 2


def test_the_widget_redraws_when_a_value_changes(notebook):
    widget = F.explore_lanes_over_memory()
    pictures = {widget.shown}
    for name, value in (("stride", 8), ("offset", 3), ("dtype", "float16")):
        widget.named[name].value = value
        pictures.add(widget.shown)
    assert len(pictures) == 4
    assert widget.shown == as_shown(F.lanes_over_memory(8, 3, "float16"))


def test_traced_numbers_equal_hand_counts():
    assert [F.strided_sectors(s) for s in (1, 2, 8, 32)] == [512, 1024, 4096, 4096]  # 4096 floats
    assert F.strided_sectors(4, "float16") == 4096 * 8 // 32
    assert F.copy_sectors("rows", 64) == (64 * 8, 64 * 8)
    assert F.copy_sectors("columns", 64) == (64 * 64, 64 * 64)
    assert F.tile_sectors(1000, 8) == 128
    assert F.tile_sectors(1001, 8) == 16 * (1 + 7 * 2)  # one row in eight starts a sector
    assert F.tile_sectors(1008, 8) == 128


def test_rows_against_columns_shows_the_guess_and_the_ratio(picture):
    assert "no guess yet" in words(picture("rows_against_columns"))
    told = words(F.rows_against_columns(3))
    assert "you guessed 3 times" in told and "columns / rows = 8.0" in told
    for no_number in ("about 100", None):
        assert "no guess yet" in words(F.rows_against_columns(no_number))


def test_rows_against_columns_writes_all_ticks_alike(picture):
    figure = picture("rows_against_columns")
    figure.draw_without_rendering()
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1,000,000" in ticks and not any("e" in tick for tick in ticks)


def test_divergence_timeline_has_a_row_for_each_pass(picture):
    labels = [label.get_text() for label in picture("divergence_timeline").axes[0].get_yticklabels()]
    assert labels == ["warp 0, pass 1", "warp 1, pass 2", "warp 1, pass 3"]
    assert "2 warps, 3 passes" in words(picture("divergence_timeline"))


def test_tile_footprints_count_sectors(picture):
    row, square = picture("tile_footprints").axes
    assert [[int(n) for n in re.findall(r"\d+", ax.get_title("left"))] for ax in (row, square)] == [[8, 64], [8, 8]]
    assert [ax.get_xlabel() for ax in (row, square)] == ["12.5% useful", "100% useful"]
    assert [len(ax.patches) for ax in (row, square)] == [F.WINDOW, 8], "each touched sector that is seen is a box"


def test_padding_drift_names_its_bars_by_the_same_words_as_its_markers(picture):
    left, right = ([t.get_text() for t in ax.get_legend().get_texts()] for ax in picture("padding_drift").axes)
    assert left == right and len(left) == 3


def test_figures_are_imported_when_asked_for():
    code = "import sys; from course_lib import figures; assert 'matplotlib' not in sys.modules; print(dir(figures))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "coalescing" in done.stdout, done.stderr
    with pytest.raises(AttributeError, match="coalescing"):
        _ = figures.nothing_of_the_kind
