"""Pictures of the units, each drawn once, and what is written in them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import Collection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from course_lib import figures
from tritontrace.colours import GREEN_INK, INK, RED_INK, THINNED
from tritontrace.picture import contrast

UNITS = sorted(path.stem.removeprefix("test_figures_") for path in Path(__file__).parent.glob("test_figures_*.py"))


def listed(unit: str) -> dict[str, tuple[Any, ...]]:
    """Name -> arguments of each picture of a unit: PICTURES in its test."""
    return import_module(f"test_figures_{unit}").PICTURES


@cache
def drawn(unit: str, name: str) -> Figure:
    return getattr(getattr(figures, unit), name)(*listed(unit)[name])


def as_shown(figure: Figure) -> str | bytes:
    """The part of a picture that a widget shows: `Explorer.shown`."""
    return next(iter(figure._repr_mimebundle_()[0].values()))


def words(figure: Figure) -> str:
    """All that is written in a figure outside its ticks, in one line."""
    texts = [figure.get_supxlabel(), figure.get_suptitle()]
    texts += [text.get_text() for part in (figure, *figure.axes) for text in part.texts]
    legends = [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]
    texts += [text.get_text() for legend in legends for text in legend.get_texts()]
    texts += [ax.get_title(where) for ax in figure.axes for where in ("left", "center", "right")]
    return " ".join(texts).replace("\n", " ")


def clipped(figure: Figure) -> float:
    """Inches that the figure reaches beyond its page."""
    FigureCanvasAgg(figure)
    figure.canvas.draw()
    drawn, page = figure.get_tightbbox(), figure.bbox_inches
    return float(max(page.x0 - drawn.x0, page.y0 - drawn.y0, drawn.x1 - page.x1, drawn.y1 - page.y1))


def faint(figure: Figure) -> list[str]:
    """A sentence for each text of a figure that does not stand out from what it is written on, unless it cannot be seen at all.
    The figure is spoilt."""
    FigureCanvasAgg(figure)
    inked = _pixels(figure)
    figure.set_layout_engine("none")
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    boxes = [text.get_window_extent() for text in texts]
    for text in texts:
        text.set_visible(False)
    bare = _pixels(figure)
    for text in texts:
        text.set_visible(True)
    found = []
    for text, box in zip(texts, boxes, strict=True):
        place = _place(bare, box)
        changed = np.abs(inked[place] - bare[place]).sum(-1) > 0.02
        if not changed.any():
            continue  # of a plot whose axes are off, say
        ground = np.median(bare[place][changed], axis=0)
        if text.get_bbox_patch():
            ground = np.array(to_rgba(text.get_bbox_patch().get_facecolor())[:3])
        *ink, opacity = to_rgba(text.get_color(), text.get_alpha())
        seen = contrast(opacity * np.array(ink) + (1 - opacity) * ground, ground)
        if seen < 4.5:
            found.append(f"{text.get_text()!r}: {seen:.1f} to 1")
    return found


def covering(figure: Figure) -> list[str]:
    """The words of each legend of a figure that lies over something else than one ground. The figure is spoilt."""
    FigureCanvasAgg(figure)
    figure.canvas.draw()
    figure.set_layout_engine("none")
    legends = [*figure.legends, *filter(None, (ax.get_legend() for ax in figure.axes))]
    boxes = [legend.get_window_extent() for legend in legends]
    for ax in figure.axes:
        ax.grid(False)
    for legend in legends:
        legend.set_visible(False)
    bare = _pixels(figure)
    return [
        ", ".join(text.get_text() for text in legend.get_texts())
        for legend, box in zip(legends, boxes, strict=True)
        if np.ptp(bare[_place(bare, box)], axis=(0, 1)).max() > 0.02
    ]


def _place(pixels: np.ndarray, box: Bbox) -> tuple[slice, slice]:
    """Rows and columns of a box."""
    high = len(pixels)
    return np.s_[max(int(high - box.y1), 0) : int(high - box.y0) + 1, max(int(box.x0), 0) : int(box.x1) + 1]


DARK_PAGE, LIGHT_INK = "#14181e", "#ced6dd"


def darken(figure: Figure) -> None:
    """Draw a figure's ink and white ground as a dark page would show its drawing: Picture._repr_html_."""
    for part in figure.findobj():
        if isinstance(part, Text):
            part.set_color(_on_dark(part.get_color(), text=True))
            if ground := part.get_bbox_patch():
                ground.set_facecolor(_on_dark(ground.get_facecolor()))
        elif isinstance(part, Line2D):
            part.set_color(_on_dark(part.get_color()))
        elif isinstance(part, Patch):
            part.set_facecolor(_on_dark(part.get_facecolor()))
            part.set_edgecolor(_on_dark(part.get_edgecolor()))
        elif isinstance(part, Collection):
            if part.get_array() is None:
                part.set_facecolor([_on_dark(colour) for colour in part.get_facecolor()])
            part.set_edgecolor([_on_dark(colour) for colour in part.get_edgecolor()])


def _on_dark(colour: Any, text: bool = False) -> Any:
    *_, opacity = to_rgba(colour)
    named = to_hex(colour)
    if named in (RED_INK.lower(), GREEN_INK.lower()):
        return _mixed(colour, 0.6, LIGHT_INK)
    if named == INK:
        return to_rgba(LIGHT_INK, opacity)
    if named in THINNED:
        whole, share = THINNED[named]
        return _mixed(whole, share, DARK_PAGE)
    return to_rgba(DARK_PAGE, opacity) if named == "#ffffff" and not text else to_rgba(colour)


def _mixed(colour: Any, share: float, other: str) -> tuple:
    return tuple(share * np.array(to_rgba(colour)) + (1 - share) * np.array(to_rgba(other)))


def _pixels(figure: Figure) -> np.ndarray:
    """(height, width, 3) from 0 to 1."""
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255
