"""What holds for the pictures of every unit: each is listed in its unit's test, labelled, opaque and legible."""

from __future__ import annotations

import inspect

import pytest
from matplotlib import rc_context
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from pictures import UNITS, drawn, listed

from course_lib import figures

PICTURES = [(unit, name) for unit in UNITS for name in listed(unit)]
FLAT = ("bit_explorer", "bit_explorer_widget")  # bits in a row, and numbers on a line


@pytest.mark.parametrize("unit", UNITS)
def test_every_picture_is_listed(unit):
    F = getattr(figures, unit)
    public = {n for n, f in inspect.getmembers(F, inspect.isfunction) if f.__module__ == F.__name__ and n[0] != "_"}
    returns_figure = {n for n in public if "Figure" in str(inspect.signature(getattr(F, n)).return_annotation)}
    assert returns_figure == set(listed(unit))


@pytest.mark.parametrize(("unit", "name"), PICTURES)
def test_pictures_are_labelled_and_opaque(unit, name):
    figure = drawn(unit, name)
    assert isinstance(figure, Figure)
    assert figure.get_facecolor() == to_rgba("white")
    assert figure.get_supxlabel().endswith((".", "%")), "a sentence below says what to see"
    assert any(ax.get_xlabel() for ax in figure.axes)
    assert name in FLAT or any(ax.get_ylabel() or ax.get_yticklabels() for ax in figure.axes)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(("unit", "name"), PICTURES)
def test_pictures_stay_dark_on_white_in_a_dark_notebook(unit, name):
    dark = {"text.color": "white", "axes.labelcolor": "white", "xtick.color": "white", "axes.facecolor": "black"}
    with rc_context(dark):
        figure = getattr(getattr(figures, unit), name)(*listed(unit)[name])
    for ax in figure.axes:
        assert to_rgba(ax.xaxis.label.get_color()) == to_rgba("#222222")
        assert ax.get_facecolor() == to_rgba("white") or not ax.axison
