"""First steps in Gluon, in pictures: who holds what, and banks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tritontrace.colours import FOUR, IDLE, INK, ONE, THREE, TWO
from tritontrace.hopper import BANKS, WORD, held_by, offsets_in_shared
from tritontrace.picture import WIDTH, Picture, bare, box, on_white
from tritontrace.words import plural

WARPS = (FOUR, TWO, THREE, ONE)

# ------------------------------------------------------------------------------------------------ who holds what


@on_white
def who_holds_what(
    size_per_thread: Sequence[int] = (1, 4),
    threads_per_warp: Sequence[int] = (8, 4),
    warps_per_cta: Sequence[int] = (2, 1),
    order: Sequence[int] = (1, 0),
    shape: Sequence[int] = (16, 32),
) -> Figure:
    """A block, and for each element the warp, the lane and the register that hold it under a BlockedLayout."""
    from triton.experimental.gluon import language as gl

    parts = (size_per_thread, threads_per_warp, warps_per_cta, order)
    holders = held_by(gl.BlockedLayout(*map(list, parts)), list(shape))
    figure = Picture(WIDTH, 4.7)
    ax = figure.subplots()
    (rows, cols), (tall, wide) = shape, size_per_thread
    for row in range(0, rows, tall):
        for col in range(0, cols, wide):
            warp, lane, first = holders[row, col]
            colour = WARPS[warp % len(WARPS)]
            _, _, last = holders[row + tall - 1, col + wide - 1]
            registers = f"r{first}" if first == last else f"r{first}-{last}"
            between = ": " if wide > 2 else "\n" if tall > 1 else None  # where the registers have room
            box(ax, col, row, wide, tall, colour, lane if between is None else f"{lane}{between}{registers}")
    ax.set(xlim=(0, cols), ylim=(rows, 0), aspect="equal", xlabel="column of the block", ylabel="row of the block")
    warps = max(warp for warp, _, _ in holders.values()) + 1
    names = ", ".join(f"warp {warp}" for warp in range(warps))
    ax.set_title(f"lane, and registers r, of each piece; colours from the top: {names}")
    bare(ax, "top", "right", "left", "bottom")
    registers = max(register for _, _, register in holders.values()) + 1
    repeats = registers // (tall * wide)
    figure.caption(
        f"Each framed piece of {tall} x {wide} elements lies in the registers of one lane. To cover the block, the layout is used "
        f"{plural(repeats, 'time')}: each lane has {plural(registers, 'register')} of it."
    )
    return figure


# ------------------------------------------------------------------------------------------------ banks


def places(padding: int = 0, swizzled: bool = False, rows: int = 32) -> np.ndarray:
    """The place in shared memory, in words, of each element of a tile of rows x 32 float32."""
    from triton.experimental.gluon import language as gl

    if padding:
        layout = gl.PaddedSharedLayout.with_identity_for([[BANKS, padding]], [rows, BANKS], [1, 0])
    else:
        layout = gl.SwizzledSharedLayout(1, 1, BANKS if swizzled else 1, [1, 0])
    return offsets_in_shared(layout, [rows, BANKS])


def passes_of_a_column(place: np.ndarray, column: int = 0) -> int:
    """How often shared memory is passed by a warp whose lanes read one column, a word each."""
    return int(np.bincount(place[:, column] % BANKS).max())


@on_white
def banks(column: int = 5) -> Figure:
    """A column of a tile of 32 x 32 floats as it lies in shared memory: unswizzled, padded, swizzled."""
    if not 0 <= column < BANKS:
        raise ValueError(f"column is {column}; a tile has columns 0 to {BANKS - 1}.")
    kinds = {"unswizzled": places(), "padded by a word": places(padding=1), "swizzled": places(swizzled=True)}
    figure = Picture(WIDTH, 3.4)
    for ax, (name, place) in zip(figure.subplots(1, 3), kinds.items(), strict=True):
        grid = np.zeros((int(place.max()) // BANKS + 1, BANKS))
        grid.flat[place.ravel()] = 1
        grid.flat[place[:, column]] = 2
        for line, bank in np.argwhere(grid > 0):
            colour = TWO if grid[line, bank] == 2 else IDLE
            ax.add_patch(Rectangle((bank, line), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.3))
            if grid[line, bank] == 2:
                ax.plot(bank + 0.5, line + 0.5, marker="o", markersize=2, color=INK)
        ax.set(xlim=(0, BANKS), ylim=(34, 0), aspect="equal", xlabel="bank", xticks=[0, 8, 16, 24, 32])
        passes = passes_of_a_column(place, column)
        ax.set_title(f"{name}: {plural(passes, 'pass', 'passes')}")
        bare(ax)
    figure.axes[0].set_ylabel(f"line of {BANKS * WORD} bytes")
    figure.caption(
        f"The 32 elements of column {column} are marked. A pass reads one word from each bank: a column that lies in one bank takes 32 "
        "passes, and a column that lies in 32 banks takes one."
    )
    return figure
