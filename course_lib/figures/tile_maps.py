"""Tiles of a mask, as 08_attention_by_tiles and 09_flash_attention_forward draw them: full, masked or skipped."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from tritontrace.colours import CLEAR, IDLE, INK, ONE, TWO
from tritontrace.picture import boxes

MOST_HATCHED = 400  # tiles; among more of them a hatch could not be seen


def tile_kinds(mask: np.ndarray, bm: int, bn: int) -> np.ndarray:
    """Return (query tiles, key tiles) of 0 skipped, 1 masked, 2 full. A tile with columns beyond the last key is masked."""
    kinds = np.zeros((-(-mask.shape[0] // bm), -(-mask.shape[1] // bn)), dtype=int)
    for i, j in np.ndindex(kinds.shape):
        part = mask[i * bm : (i + 1) * bm, j * bn : (j + 1) * bn]
        kinds[i, j] = 2 if part.all() and part.shape[1] == bn else int(part.any())
    return kinds


def draw_tiles(ax: Axes, kinds: np.ndarray, bm: int, bn: int) -> None:
    """Draw the tiles in units of queries and keys."""
    rows, columns = kinds.shape
    whole = (0, columns * bn, rows * bm, 0)
    ax.imshow(kinds, cmap=ListedColormap([CLEAR, TWO, ONE]), vmin=0, vmax=2, extent=whole, aspect="auto")
    small = kinds.size > MOST_HATCHED
    for kind, edge, hatch in ((0, IDLE, ""), (2, INK, ""), (1, INK, "" if small else "//")):
        corners = np.argwhere(kinds == kind)[:, ::-1] * (bn, bm)
        style = dict(facecolor="none", edgecolor=edge, hatch=hatch, linewidth=0.3 if small else 0.8)
        boxes(ax, corners, (bn, bm), **style)
    ax.set(xlim=whole[:2], ylim=whole[2:], xlabel="key")


def tile_labels(full: str, masked: str, skipped: str) -> list[Patch]:
    """Make what a legend shows of the three kinds, with these words."""
    return [
        Patch(color=ONE, label=full),
        Patch(facecolor=TWO, hatch="//", edgecolor=INK, label=masked),
        Patch(facecolor="white", edgecolor=IDLE, label=skipped),
    ]
