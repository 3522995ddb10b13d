"""The matrix of scores that no kernel stores, as a square, and around it strips of the tensors that one program moves.

All of it lies in one axes: a picture with an axes for each strip takes half as long again to draw, and a slider waits for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from tritontrace.colours import IDLE, INK, LOADED, NOW, SHARED, paler
from tritontrace.picture import boxes, ink_on

Box = tuple[float, float, float, float]  # left, upper end, width, height
Walk = list[tuple[str, int, int]]  # (name, first row, end) of each load and store, in order

STRIP, GAP, WORD = 0.12, 0.05, 0.04  # of the square's side
ACROSS = ("above", "below")


class Scores:
    """queries and keys are the sides of the square. strips: those of each side, from the square outwards, by name."""

    def __init__(self, ax: Axes, queries: int, keys: int, strips: Mapping[str, Sequence[str]]):
        self.ax, self.queries, self.keys = ax, queries, keys
        self.strips = {name: (side, number) for side, names in strips.items() for number, name in enumerate(names)}
        self.lit: list[tuple[Box, str]] = []
        wide = {side: len(strips.get(side, ())) * (GAP + STRIP) for side in ("left", "right", "above", "below")}
        ax.axis("off")
        ax.set(aspect="equal", xlim=(-wide["left"] - 0.14, 1 + wide["right"] + 0.02))
        ax.set(ylim=(1 + wide["below"] + 0.11, -max(wide["above"], 0.1) - 0.02))
        boxes(ax, *_parts([(0, 0, 1, 1)]), facecolor=IDLE, edgecolor="none")
        boxes(ax, *_parts([self.rows(name) for name in self.strips]), facecolor="none", edgecolor=INK, linewidth=0.8)
        for name, (side, _) in self.strips.items():
            x, y, width, height = self.rows(name)
            if side in ACROSS:
                ax.text(-WORD, y + height / 2, name, ha="right", va="center_baseline", fontsize=10)
            else:
                ax.text(x + width / 2, -WORD, name, ha="center", va="baseline", fontsize=10)
        below, beside = 1 + wide["below"] + WORD, -wide["left"] - WORD
        for at, word, place in ((0.0, "0", "left"), (0.5, "key", "center"), (1.0, f"{keys}", "right")):
            ax.text(at, below, word, ha=place, va="top")
        for at, word, place in ((0.0, "0", "top"), (0.5, "query", "center"), (1.0, f"{queries}", "bottom")):
            ax.text(beside, at, word, ha="right", va=place, rotation=90 if word == "query" else 0)

    def rows(self, name: str, first: int = 0, end: int | None = None, share: float = 1.0) -> Box:
        """Return the place of some rows in a tensor's strip. share: of the strip's breadth, from its inner side."""
        side, number = self.strips[name]
        of = self.keys if side in ACROSS else self.queries
        begin, length = first / of, ((of if end is None else end) - first) / of
        near = GAP + number * (GAP + STRIP)
        across = 1 + near if side in ("below", "right") else -near - share * STRIP
        return (begin, across, length, share * STRIP) if side in ACROSS else (across, begin, share * STRIP, length)

    def tile(self, queries: tuple[int, int], keys: tuple[int, int]) -> Box:
        """Return the place of a tile of scores, by the first and the end of its queries and keys."""
        (top, bottom), (left, right) = queries, keys
        return left / self.keys, top / self.queries, (right - left) / self.keys, (bottom - top) / self.queries

    def light(self, where: Box, colour: str = LOADED, now: bool = False) -> None:
        """Fill a place; what is moved in this step is hatched."""
        self.lit.append((where, NOW if now else colour))

    def draw(self, walks: Mapping[int, Walk]) -> None:
        """Draw the tiles that programs compute, by their loads of q and k, then all that is lit, and the chip around the square."""
        tiles = []
        for walk in walks.values():
            queries, keys = ([(a, b) for name, a, b in walk if name == wanted] for wanted in "qk")
            tiles += [self.tile(*pair) for pair in itertools.product(queries, keys)]
        boxes(self.ax, *_parts(tiles), facecolor=paler(SHARED, 0.1))
        for hatch in ("", "//"):
            some = {where: colour for where, colour in self.lit if (colour == NOW) == bool(hatch)}
            boxes(self.ax, *_parts([*some]), facecolors=[*some.values()], edgecolor=INK, hatch=hatch)
        boxes(self.ax, *_parts([(0, 0, 1, 1)]), facecolor="none", edgecolor=SHARED, linewidth=2.5)
        self.ax.text(0.98, 0.03, "on the chip", ha="right", va="top", color=ink_on(IDLE))


def _parts(places: Sequence[Box]) -> tuple[np.ndarray, np.ndarray]:
    """Corners and sizes."""
    both = np.reshape(np.asarray(places, float), (-1, 4))
    return both[:, :2], both[:, 2:]
