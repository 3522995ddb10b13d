"""The pictures of unit 01: they exist, say what they show, and draw layouts that torch confirms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_rgba
from pictures import as_shown, words

from course_lib import figures

F = figures.strides

PICTURES = {
    "tensor_anatomy": (),
    "stride_explorer": ((6, 4), (1, 6), 0),
    "explore_strides": (),
    "views_of_one_storage": (),
    "flat_walks": (),
    "one_matrix_in_bytes": (),
}


@pytest.mark.parametrize("name", F.PRESETS)
def test_positions_are_where_torch_reads(name):
    shape, strides, offset = F.PRESETS[name]
    x = torch.arange(F.STORAGE)  # holds its own positions
    assert np.array_equal(F.positions(shape, strides, offset), x.as_strided(shape, strides, offset))


def test_presets_are_views_of_one_matrix_by_the_names_they_bear():
    x = torch.arange(F.STORAGE).reshape(4, 6)
    for name, (shape, strides, offset) in F.PRESETS.items():
        y = eval(name, {"x": x})
        assert (tuple(y.shape), y.stride(), y.storage_offset()) == (shape, strides, offset)


@pytest.mark.parametrize(
    "arguments, verdict",
    [
        (((4, 6), (6, 1), 0), "contiguous"),
        (((2, 6), (6, 1), 6), "contiguous"),  # an offset does not matter
        (((1, 6), (9, 1), 0), "contiguous"),  # nor does the stride of one row
        (((6, 4), (1, 6), 0), "not contiguous"),
        (((4, 6), (0, 1), 0), "not contiguous"),
        (((4, 6), (6, 1), 1), "torch refuses"),
    ],
)
def test_the_explorer_marks_contiguity(arguments, verdict):
    assert F.stride_explorer(*arguments).get_suptitle().endswith(f":  {verdict}")


def test_the_explorer_draws_each_element_and_says_what_is_read_twice():
    figure = F.stride_explorer((7, 6), (3, 1), 0)
    store, view, _ = figure.axes
    cells, elsewhere, inside, heads = (drawn.get_paths() for drawn in view.collections)
    assert [len(paths) for paths in (cells, elsewhere, inside, heads)] == [42, 0, 42, 7 + 6]
    assert np.ptp([inside[6].vertices - heads[3].vertices], axis=1).max() < 1e-9, "row 1 begins with a 3"
    assert [len(drawn.get_paths()) for drawn in store.collections] == [24, 24]
    assert sum(t.get_text() == "×2" for t in store.texts) == 18
    assert "18 numbers are read more than once" in figure.get_supxlabel()


def test_the_explorer_shows_what_lies_outside():
    figure = F.stride_explorer((4, 6), (6, 1), 5)
    assert "position 28 lies outside" in figure.get_supxlabel()
    assert "outside" in words(figure)


@pytest.mark.parametrize(
    "arguments, word", [(((0, 3), (1, 1)), "shape"), (((3, 40), (1, 1)), "shape"), (((2, 2), (-1, 1)), "negative")]
)
def test_the_explorer_names_a_wrong_argument(arguments, word):
    with pytest.raises(ValueError, match=word):
        F.stride_explorer(*arguments)


def test_the_widget_redraws_when_a_value_changes():
    pytest.importorskip("ipywidgets")
    widget = F.StrideExplorer()
    pictures = {widget.shown}
    widget.preset.value = "x.T"
    assert [s.value for s in widget.sliders] == [6, 4, 1, 6, 0]
    pictures.add(widget.shown)
    for slider, value in zip(widget.sliders, (5, 3, 2, 4, 1), strict=True):
        slider.value = value
        pictures.add(widget.shown)
    assert len(pictures) == 7
    assert widget.shown == as_shown(F.stride_explorer((5, 3), (2, 4), 1))


def test_reset_brings_the_chosen_view_back():
    pytest.importorskip("ipywidgets")
    widget = F.StrideExplorer()
    widget.preset.value = "x.T"
    chosen = widget.shown
    widget.offset.value = 3
    assert widget.shown != chosen
    widget.reset.click()
    assert [s.value for s in widget.sliders] == [6, 4, 1, 6, 0] and widget.shown == chosen


def test_every_position_of_the_sliders_draws():
    pytest.importorskip("ipywidgets")
    widget = F.StrideExplorer()
    for end in ("min", "max"):
        for slider in widget.sliders:
            slider.value = getattr(slider, end)
    assert "torch refuses" in words(widget.figure)


def test_walks_say_what_torch_says_of_view(picture):
    titles = [ax.get_title("left") for ax in picture("flat_walks").axes]
    assert ["refused" in title for title in titles] == [False, False, True, True]
    assert "stride 2" in titles[1]


def test_views_of_one_storage_colours_what_each_view_reads(picture):
    read = {"x.T": 24, "x[1:3]": 12, "x[:, 2:5]": 12, "x[::2, ::3]": 4, "x[1].expand(4, 6)": 6}
    for ax in picture("views_of_one_storage").axes:
        coloured = sum(
            tuple(colour) != to_rgba("white")
            for row in ax.collections
            if isinstance(row, PolyCollection)
            for colour in row.get_facecolor()
        )
        assert coloured == read.get(ax.get_title("left").splitlines()[0], 24)


def test_one_matrix_is_two_and_a_quarter_gib(picture):
    told = words(picture("one_matrix_in_bytes"))
    assert "604 million" in told and "2.25 GiB" in told and "1.12 GiB" in told
