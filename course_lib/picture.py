"""A matplotlib figure that notebooks show once, with or without pyplot, and that stays legible on a dark page."""

from __future__ import annotations

import io
import textwrap

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

INK = "#222222"  # text on the white page that every picture brings along

# Okabe and Ito's colours, told apart by colour-blind eyes; none means anything alone
BLUE, ORANGE, GREEN, RED, SKY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9"
GREY = "#D9D9D9"
RED_INK, GREEN_INK = "#B34E00", "#007A59"  # for text on white, where RED and GREEN are too faint

MARGIN = 0.08  # inches around each plot
LETTERS_PER_INCH = 13  # of a caption


def contrast(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How well two colours, (..., 3) of sRGB from 0 to 1 each, stand out from each other: (...), from 1 to 21. WCAG 2 asks 4.5
    of text (*Web Content Accessibility Guidelines*, 1.4.3)."""

    def luminance(colour: np.ndarray) -> np.ndarray:
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        return linear @ np.array([0.2126, 0.7152, 0.0722])

    a, b = luminance(np.asarray(one)) + 0.05, luminance(np.asarray(other)) + 0.05
    return np.maximum(a, b) / np.minimum(a, b)


def ink_on(ground) -> str:
    """Dark or white, for text on a ground of this colour: what stands out more."""
    return max((INK, "white"), key=lambda ink: contrast(to_rgb(ink), to_rgb(ground)))


def on_white(draw):
    """Decorates a function that draws a Picture: ink is dark, whatever style the notebook has chosen for its own plots."""
    ink = ["text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor", "xtick.color", "ytick.color"]
    return rc_context({**dict.fromkeys(ink, INK), "axes.facecolor": "white", "legend.facecolor": "white"})(draw)


def bare(ax: Axes, *sides: str) -> None:
    """Hides these sides of the frame; the upper and the right one if none is named."""
    for side in sides or ("top", "right"):
        ax.spines[side].set_visible(False)


class Picture(Figure):
    """width, height in inches."""

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), facecolor="white", layout="constrained", dpi=100)
        self.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", facecolor="white")
        return buffer.getvalue()

    def __repr__(self) -> str:
        """Describe the picture in words, for a terminal and for whoever cannot see it."""
        titles = [ax.get_title(where) for ax in self.axes for where in ("left", "center")]
        return f"Picture: {'. '.join(filter(None, [*titles, self.get_supxlabel()]))}".replace("\n", " ")

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict, dict]:
        """Give a notebook the picture and, as its alternative text, what it shows."""
        return {"image/png": self._repr_png_(), "text/plain": repr(self)}, {"image/png": {"alt": repr(self)}}

    def caption(self, sentence: str) -> None:
        """A sentence or two below the picture that say what to see."""
        lines = textwrap.wrap(sentence, int(LETTERS_PER_INCH * self.get_figwidth()))
        self.supxlabel("\n".join(lines), fontsize=10, color=INK)
