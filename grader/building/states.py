"""A widget on a page without a kernel: all states of some of its controls, drawn ahead, and a slider for each of them.

The page holds the state that the notebook begins with. The others are in a script of their own, which templates/site/course.js loads
when a slider is first touched. Its drawings share most of their lines, so it holds each line once.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from math import prod
from typing import Any

import IPython

from course_lib import figures
from course_lib.figures.widgets import Explorer
from tritontrace.picture import STILL

CALL = re.compile(r"\bfigures\.((?:\w+\.)+)(explore_\w+)\(\)")
FOLDER = "states"  # of the scripts, below the site's style
MOST = 256  # states of a widget
ON_PAGE: dict[str, dict[str, Sequence[Any] | None]] = {  # widget -> controls, and their values where not all are drawn
    "start.explore_hiding_latency": {"warps": None, "wait": (100, 200, 400, 600, 800)},
    "strides.explore_strides": {"view": None},
    "flops.explore_roofline": {"m": None, "k": None},
    "coalescing.explore_lanes_over_memory": {
        "stride": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
        "offset": (0, 1, 4, 8, 16),
        "dtype": None,
    },
    "tiling.explore_tile_sizes": {"BLOCK_M": None, "BLOCK_N": None},
    "tiling.explore_waves": {
        "N": (*range(256, 1793, 256), 1793, *range(2048, 4097, 256), 4097, *range(4352, 8193, 512)),
        "SMs": None,
    },
    "recomputation.explore_checkpoints": {"segments": None},
    "attention.explore_online_softmax": {"order": None, "tiles seen": None},
    "attention.explore_causal_map": {"query tile": None, "key tile": None},
    "flash_backward.explore_backward_walk": {"program": None, "step": None},
    "training.explore_memory": {"batch": None, "context": None},
    "sm.explore_occupancy": {"registers": range(16, 256, 8), "warps": None},
    "sm.explore_who_holds_what": {"lane": None, "a lane takes": None},
    "hopper.explore_pipeline": {"slots": None, "latency": None},
}


@dataclass(frozen=True)
class Moving:
    """A widget on a page that moves without a kernel.
    name    of the widget, and of the script
    page    the controls and the first state, as HTML
    script  the text of the script with all states
    """

    name: str
    page: str
    script: str


def moving(source: str) -> Moving | None:
    """Return the widget that a cell makes, None if it makes none or one without a slider or a list. Raises ValueError where ON_PAGE names a
    control that the widget does not have."""
    called = CALL.search(source)
    if not called:
        return None
    rooms, name = called.groups()
    room = figures
    for each in filter(None, rooms.split(".")):
        room = getattr(room, each)
    with as_in_a_live_notebook():
        explorer = getattr(room, name)()
        settings = _settings(f"{rooms}{name}", explorer) if isinstance(explorer, Explorer) else {}
        if not settings:
            return None
        begins = [values.index(control.value) for control, values in settings.items()]
        first = str(explorer.shown)
        number: dict[str, int] = {}
        frames = _frames(explorer, [*settings.items()], number)
    name = f"{rooms}{name}"
    drawn = json.dumps({"lines": [*number], "frames": frames}, separators=(",", ":"))
    return Moving(name, _page(name, explorer, settings, begins, first), f'course.states("{name}",{drawn});\n')


def _page(name: str, explorer: Explorer, settings: dict[Any, list], begins: list[int], first: str) -> str:
    plays, telling = getattr(explorer, "play", None), getattr(explorer, "telling", ())
    sliders = []
    for (control, values), begin in zip(settings.items(), begins, strict=True):
        word = escape(control.description or control.tooltip or "setting")
        spoken = escape("|".join(map(_words, values)))
        played = " data-plays" if control is plays else ""
        now = escape(_words(values[begin]))
        sliders.append(
            f'<label>{word} <input type="range" min="0" max="{len(values) - 1}" value="{begin}" aria-label="{word}" '
            f'autocomplete="off" data-values="{spoken}"{played}> <span class="value" aria-hidden="true">{now}</span></label>'
        )
    control, values = next(iter(settings.items()))
    buttons = ['<button type="button" class="play">▶ play</button>'] * (plays in settings)
    buttons += [
        f'<button type="button" data-to="{values.index(value)}">{escape(control.description)} {_words(value)}</button>'
        for value in telling
        if value in values
    ]
    file = f"_static/{FOLDER}/{name}.js"
    return (
        f'<div class="states" data-name="{name}" data-file="{file}"><div class="controls">{"".join([*sliders, *buttons])}</div>'
        f'<div class="state">{first}</div></div>'
    )


def _frames(explorer: Explorer, settings: Sequence[tuple[Any, list]], number: dict[str, int]) -> list:
    """A list for the values of each control in turn, as far as those before it allow; innermost the numbers of a picture's lines.
    number: line -> its number, to which new ones are added."""
    if not settings:
        return [number.setdefault(line, len(number)) for line in str(explorer.shown).splitlines()]
    (control, values), *others = settings
    frames = []
    for value in values:
        control.value = value
        if control.value != value:
            break  # beyond the end that an earlier one sets
        frames.append(_frames(explorer, others, number))
    return frames


def _settings(name: str, explorer: Explorer) -> dict[Any, list]:
    """The controls that a page has, and their values: where ON_PAGE names none, the one or two with most values."""
    every = {control: values for control in _leaves(explorer.controls) if len(values := _values(control)) > 1}
    if name in ON_PAGE:
        by_name = {control.description: control for control in every}
        if missing := ON_PAGE[name].keys() - by_name.keys():
            raise ValueError(f"{name} has no control {', '.join(missing)}. It has: {', '.join(by_name)}.")
        asked = {by_name[word]: list(values or every[by_name[word]]) for word, values in ON_PAGE[name].items()}
        for control, values in asked.items():
            if control.value not in values:
                control.value = values[len(values) // 2]
        return asked
    longest = sorted(every, key=lambda control: -len(every[control]))[:2]
    while longest and prod(len(every[control]) for control in longest) > MOST:
        longest.pop()
    return {control: values for control, values in every.items() if control in longest}


@contextmanager
def as_in_a_live_notebook() -> Iterator[None]:
    """Enable widgets and vector drawings inside the block, as in a notebook with a live kernel."""
    ipython: Any = IPython
    shell, still = ipython.get_ipython, os.environ.pop(STILL, None)
    ipython.get_ipython = object
    try:
        yield
    finally:
        ipython.get_ipython = shell
        if still is not None:
            os.environ[STILL] = still


def _leaves(control: Any) -> Iterator[Any]:
    """The controls inside a box."""
    children = getattr(control, "children", ())
    for child in children:
        yield from _leaves(child)
    if not children:
        yield control


def _values(control: Any) -> list[Any]:
    """All values that a slider or a list can have; [] for another control, and for the buttons that play."""
    if hasattr(control, "options"):
        return [option[1] if isinstance(option, tuple) else option for option in control.options]
    if type(control).__name__ == "Play" or not all(hasattr(control, name) for name in ("min", "max", "step")):
        return []
    return list(range(control.min, control.max + 1, control.step or 1)) if isinstance(control.value, int) else []


def _words(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
