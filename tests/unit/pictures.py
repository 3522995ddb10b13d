"""Pictures of the units, each drawn once, and what is written in them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from course_lib import figures

UNITS = sorted(path.stem.removeprefix("test_figures_") for path in Path(__file__).parent.glob("test_figures_*.py"))


def listed(unit: str) -> dict[str, tuple[Any, ...]]:
    """Name -> arguments of each picture of a unit: PICTURES in its test."""
    return import_module(f"test_figures_{unit}").PICTURES


@cache
def drawn(unit: str, name: str) -> Figure:
    return getattr(getattr(figures, unit), name)(*listed(unit)[name])


def words(figure: Figure) -> str:
    """All that is written in a figure outside its ticks, in one line."""
    texts = [figure.get_supxlabel(), figure.get_suptitle()]
    texts += [text.get_text() for part in (figure, *figure.axes) for text in part.texts]
    texts += [text.get_text() for ax in figure.axes if ax.get_legend() for text in ax.get_legend().get_texts()]
    texts += [ax.get_title(where) for ax in figure.axes for where in ("left", "center", "right")]
    return " ".join(texts).replace("\n", " ")
