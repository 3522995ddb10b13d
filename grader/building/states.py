"""A widget on a page: a row of pictures, each of another setting of the control that has most settings."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from typing import Any

import IPython

from course_lib import figures
from course_lib.figures.widgets import Explorer
from tritontrace.picture import STILL

CALL = re.compile(r"\bfigures\.((?:\w+\.)+)(explore_\w+)\(\)")
PICTURES = 4
FIGURE = (
    '<figure style="flex: 1 1 20rem; margin: 0"><img style="max-width: 100%" alt="{words}" src="data:image/png;base64,{picture}">'
    "<figcaption>{words}</figcaption></figure>"
)


@cache  # units may show the same one
def row_of(source: str) -> str:
    """The row, as HTML, of the widget that a cell makes; "" if it makes none, or one whose controls are no sliders or lists."""
    called = CALL.search(source)
    if not called:
        return ""
    pictures = [
        FIGURE.format(words=escape(words), picture=base64.b64encode(png).decode())
        for words, png in states(*called.groups())
    ]
    return f'<div style="display: flex; flex-wrap: wrap; gap: 1rem">{"".join(pictures)}</div>' if pictures else ""


def states(rooms: str, name: str) -> Iterator[tuple[str, bytes]]:
    """(the setting in words, the picture as PNG) of figures.ROOMS.NAME() at four settings, from the first to the last."""
    room = figures
    for each in filter(None, rooms.split(".")):
        room = getattr(room, each)
    with _as_in_a_notebook():
        explorer = getattr(room, name)()
        if not isinstance(explorer, Explorer):
            return
        settings = {control: found for control in _leaves(explorer.controls) if len(found := _settings(control)) > 1}
        if not settings:
            return
        control = max(settings, key=lambda control: len(settings[control]))
        for value in _spread(settings[control]):
            control.value = value
            drawn: Any = explorer.figure  # a new one for each value
            yield f"{control.description or control.tooltip or 'setting'}: {_said(value)}", drawn._repr_png_()


@contextmanager
def _as_in_a_notebook() -> Iterator[None]:
    """Let widgets be made as in a notebook whose pictures are kept, which is where they are made at all."""
    ipython: Any = IPython
    found, kept = ipython.get_ipython, os.environ.get(STILL)
    ipython.get_ipython, os.environ[STILL] = object, "1"
    try:
        yield
    finally:
        ipython.get_ipython = found
        os.environ.pop(STILL)
        if kept is not None:
            os.environ[STILL] = kept


def _leaves(control: Any) -> Iterator[Any]:
    """The controls inside a box, but for the buttons that play."""
    children = getattr(control, "children", ())
    for child in children:
        yield from _leaves(child)
    if not children and type(control).__name__ != "Play":
        yield control


def _settings(control: Any) -> list[Any]:
    """All values that a slider or a list can have; [] for another control."""
    if hasattr(control, "options"):
        return [option[1] if isinstance(option, tuple) else option for option in control.options]
    if all(hasattr(control, name) for name in ("min", "max", "step")) and isinstance(control.value, int):
        return list(range(control.min, control.max + 1, control.step or 1))
    return []


def _spread(values: list[Any]) -> list[Any]:
    if len(values) <= PICTURES:
        return values
    return [values[round(i * (len(values) - 1) / (PICTURES - 1))] for i in range(PICTURES)]


def _said(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
