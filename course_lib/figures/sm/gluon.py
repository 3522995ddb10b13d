"""First steps in Gluon, in pictures: who holds what, and banks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.figures.widgets import Sliders, choice, explore, slider
from tritontrace.colours import FOUR, IDLE, INK, ONE, OURS, THREE, TWO, paler
from tritontrace.hopper import BANKS, WORD, held_by, offsets_in_shared
from tritontrace.picture import WIDTH, Picture, bare, box, boxes, on_white
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
    lane: int = 5,
) -> Figure:
    """A block, and the lane that holds each piece of it under a BlockedLayout. One lane of warp 0 is lit, with its registers."""
    from triton.experimental.gluon import language as gl

    parts = (size_per_thread, threads_per_warp, warps_per_cta, order)
    holders = held_by(gl.BlockedLayout(*map(list, parts)), list(shape))
    figure = Picture(WIDTH, 4.1)
    ax = figure.subplots()
    (rows, cols), (tall, wide) = shape, size_per_thread
    at = [(row, col) for row in range(0, rows, tall) for col in range(0, cols, wide)]
    colours = [paler(WARPS[holders[place][0] % len(WARPS)], 0.2) for place in at]
    boxes(ax, np.array(at)[:, ::-1], np.array([wide, tall]), facecolors=colours)
    pieces = []  # of the lit lane: registers
    for row, col in at:
        warp, holder, first = holders[row, col]
        _, _, last = holders[row + tall - 1, col + wide - 1]
        if (warp, holder) == (0, lane):
            pieces.append(f"r{first}" if first == last else f"r{first}-{last}")
            box(ax, col, row, wide, tall, OURS, pieces[-1] if wide > 2 else "")
    warps = max(warp for warp, _, _ in holders.values()) + 1
    for warp in range(warps):
        places = np.argwhere([[holders[r, c][0] == warp for c in range(cols)] for r in range(rows)])
        ax.text(cols + 0.4, places[:, 0].mean() + 0.5, f"warp {warp}", va="center", rotation=270)
    ax.set(
        xlim=(0, cols + 1.2), ylim=(rows, 0), aspect="equal", xlabel="column of the block", ylabel="row of the block"
    )
    registers = max(register for _, _, register in holders.values()) + 1
    ax.set_title(f"lane {lane} of warp 0 holds {plural(len(pieces), 'piece')} of the block, in {' and '.join(pieces)}")
    ax.set_xticks(range(0, cols + 1, 4))
    bare(ax, *ax.spines)
    figure.caption(
        f"A lane holds each framed piece of {tall} x {wide} elements; lane {lane}'s are lit. To cover the block, the layout is used "
        f"{plural(registers // (tall * wide), 'time')}: each lane has {plural(registers, 'register')} of it."
    )
    return figure


SIZES = {f"1 x {wide}": (1, wide) for wide in (2, 4, 8)}  # of two rows the block has too few


def explore_who_holds_what() -> Sliders | Figure:
    """The picture with controls for the lit lane and for what a lane takes in a notebook; the picture alone elsewhere."""
    return explore(
        lambda lane=5, size="1 x 4": who_holds_what(SIZES[size], lane=lane),
        play="lane",
        lane=slider("lane", 0, 31),
        size=choice("a lane takes", [*SIZES]),
    )


# ------------------------------------------------------------------------------------------------ banks


def places(padding: int = 0, swizzled: bool = False, rows: int = 32) -> np.ndarray:
    """Return the place in shared memory, in words, of each element of a tile of rows x 32 float32."""
    from triton.experimental.gluon import language as gl

    if padding:
        layout = gl.PaddedSharedLayout.with_identity_for([[BANKS, padding]], [rows, BANKS], [1, 0])
    else:
        layout = gl.SwizzledSharedLayout(1, 1, BANKS if swizzled else 1, [1, 0])
    return offsets_in_shared(layout, [rows, BANKS])


def passes_of_a_column(place: np.ndarray, column: int = 0) -> int:
    """Count the passes through shared memory of a warp whose lanes read one column, a word each."""
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
