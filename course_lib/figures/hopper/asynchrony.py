"""A ring of buffers, round by round."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.exercises.hopper.asynchrony import turns
from course_lib.figures.widgets import Sliders, explore, slider
from tritontrace.colours import FOUR, INK, TWO
from tritontrace.picture import WIDTH, Picture, bare, ink_on, on_white
from tritontrace.words import plural

# ------------------------------------------------------------------------------------------------ a ring


@on_white
def ring(tile: int = 5, size: int = 3) -> Figure:
    """Sixteen tiles in the slots of a ring, round by round, and what reader and writer wait for at one of them."""
    tiles = 16
    if not 0 <= tile < tiles or not 1 <= size <= 4:
        raise ValueError(f"tile {tile} of a ring of {size}: there are tiles 0 to {tiles - 1}, and rings of 1 to 4.")
    figure = Picture(WIDTH, 2.2 + 0.42 * size)
    ax = figure.subplots()
    for i in range(tiles):
        slot, full, _ = turns(i, size)
        colour = FOUR if full == 0 else TWO
        chosen = i == tile
        slot_box = Rectangle(
            (i, slot), 1, 1, facecolor=colour, edgecolor=INK if chosen else "white", linewidth=2.5 if chosen else 1
        )
        slot_box.set_zorder(3 if chosen else 1)
        ax.add_patch(slot_box)
        ax.text(
            i + 0.5,
            slot + 0.36,
            str(i),
            ha="center",
            va="center",
            fontsize=10,
            fontweight="bold",
            color=ink_on(colour),
            zorder=4,
        )
        ax.text(i + 0.5, slot + 0.74, full, ha="center", va="center", color=ink_on(colour), zorder=4)
    for first in range(size, tiles, size):
        ax.axvline(first, color=INK, linewidth=0.8, linestyle=":")
    slot, full, empty = turns(tile, size)
    ax.set(xlim=(0, tiles), ylim=(size, 0), xlabel="tile, in order of arrival; dotted: the ring has gone round")
    ax.set_yticks(np.arange(size) + 0.5, [f"slot {s}" for s in range(size)])
    ax.set_xticks([])
    ax.tick_params(length=0)
    bare(ax, "top", "right", "left", "bottom")
    ax.set_title(f"{plural(size, 'slot')}; bold: the tile; below: the parity for which its reader waits at full[slot]")
    before = tile // size
    free = (
        "it has never opened, and a wait for parity 1 passes then"
        if before == 0
        else f"it has opened {plural(before, 'time')}"
    )
    figure.caption(
        f"Tile {tile} is number {before + 1} in slot {slot}. Its reader waits for phase {before} of full[{slot}], which has parity {full}. "
        f"Its writer waits for parity {empty} of empty[{slot}]: {free}."
    )
    return figure


def explore_ring() -> Sliders | Figure:
    """The ring with sliders for the tile and the number of slots in a notebook, the picture alone elsewhere."""
    return explore(ring, play="tile", tile=slider("tile", 0, 15), size=slider("slots", 1, 4))
