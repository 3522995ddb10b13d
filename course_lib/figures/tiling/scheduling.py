"""Tiles dealt out to SMs: what is wasted at the edges and in the last wave."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from course_lib.exercises.tiling.oracles import dealt
from course_lib.figures.tiling.recording import SIDES
from course_lib.figures.widgets import Sliders, explore, slider, stops
from tritontrace.colours import EDGE, FOUR, IDLE, INK, OURS, WASTE, sheer
from tritontrace.picture import WIDTH, Picture, bare, on_white
from tritontrace.words import plural


@on_white
def tile_quantization(sizes: tuple[int, int] = (256, 257), block: int = 128) -> Figure:
    """Tiles over a matrix that they cover exactly, and over one with one row and one column more."""
    figure = Picture(WIDTH, 3.9)
    ax, told, x = figure.subplots(), [], 0
    for size in sizes:
        tiles, _ = dealt(size, size, block, block, 1)
        side = round(tiles**0.5) * block
        ax.add_patch(Rectangle((x, 0), side, side, facecolor=WASTE, hatch="//", edgecolor=EDGE, linewidth=0))
        ax.add_patch(Rectangle((x, 0), size, size, facecolor=OURS, linewidth=0))
        for edge in range(0, side + 1, block):
            ax.plot([x, x + side], [edge, edge], [x + edge, x + edge], [0, side], color=INK, linewidth=0.8)
        used = size * size / side**2
        ax.text(x + side + 16, side / 2, f"{used:.0%}", fontsize=26, va="center")
        ax.text(x + side + 16, side / 2 + 44, f"of {tiles} tiles\nis used", va="top")
        ax.text(x, -12, f"{size} × {size}", fontsize=11)
        told.append(tiles)
        x += side + 190
    ax.set(xlim=(-6, x - 20), ylim=(3 * block + 8, -40), aspect="equal", yticks=[], xticks=[])
    ax.set(xlabel=f"tiles of {block} × {block}; blue: the matrix; hatched: computed for nothing", ylabel="rows")
    bare(ax, *ax.spines)
    figure.caption(
        f"With one more row and column the matrix takes {told[1]} tiles instead of {told[0]}, and {used:.0%} of "
        "them is used. Each costs as much as a full one, because a masked element of tl.dot takes as long as any other."
    )
    return figure


@on_white
def waves(m: int = 1793, n: int = 1793, bm: int = 256, bn: int = 128, sms: int = 108) -> Figure:
    """Tiles of an (m, n) result, and a row of SMs for each wave in which they run: filled where an SM has a tile."""
    if min(m, n, bm, bn, sms) < 1:
        raise ValueError(f"sizes are at least 1: got m = {m}, n = {n}, tiles {bm} x {bn}, {sms} SMs")
    tiles, count = dealt(m, n, bm, bn, sms)
    down, across = -(-m // bm), -(-n // bn)
    last = tiles - (count - 1) * sms
    figure = Picture(WIDTH, 4.4)
    grid, busy = figure.subplots(1, 2, width_ratios=[1, 1.35])
    of_last = np.arange(tiles).reshape(down, across) // sms == count - 1
    shades = ListedColormap([FOUR, OURS])
    grid.imshow(
        of_last,
        extent=(0, across * bn, down * bm, 0),
        aspect="auto",
        interpolation="nearest",
        cmap=shades,
        vmin=0,
        vmax=1,
    )
    for corner, wide, high in (((n, 0), across * bn - n, down * bm), ((0, m), n, down * bm - m)):
        grid.add_patch(Rectangle(corner, wide, high, facecolor="none", edgecolor=INK, hatch="////", linewidth=0))
    if tiles <= 4000:
        grid.vlines(np.arange(1, across) * bn, 0, down * bm, color="white", linewidth=0.5)
        grid.hlines(np.arange(1, down) * bm, 0, across * bn, color="white", linewidth=0.5)
    grid.set(xlabel="columns (hatched: beyond the matrix)", ylabel="rows")
    grid.set_title(f"{tiles} tiles of {bm} × {bn}")

    works = np.arange(count * sms).reshape(count, sms) < tiles
    looks = np.where(works, 1, 0) + (works & (np.arange(count) == count - 1)[:, None])
    shades = ListedColormap([sheer(IDLE), FOUR, OURS])
    busy.imshow(
        looks, extent=(0, sms, count + 0.5, 0.5), aspect="auto", interpolation="nearest", cmap=shades, vmin=0, vmax=2
    )
    if count <= 40:
        busy.hlines(np.arange(0.5, count + 1), 0, sms, color="white", linewidth=min(8, 60 / count))
    if count <= 12:
        busy.vlines(range(sms), 0.5, count + 0.5, color="white", linewidth=0.4)
    used = m * n / (count * sms * bm * bn)
    busy.set(xlabel=f"{sms} SMs (grey: without a tile)", ylabel="wave", ylim=(count + 0.5, 0.5), xlim=(0, sms))
    grid.locator_params(nbins=4)
    busy.yaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    busy.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    bare(busy, *busy.spines)
    one = plural(count, "wave")
    busy.set_title(f"{used:.0%} used, {one}", fontsize=15, fontweight="bold")
    figure.caption(
        f"{m} × {n}: {tiles} tiles in {one}. {last} of {sms} SMs work in the last wave (blue, where earlier ones are sky blue); "
        f"the result uses {used:.0%} of what all SMs could have computed in this time."
    )
    return figure


def explore_waves() -> Sliders | Figure:
    """The picture with sliders in a notebook; the picture alone elsewhere. The size is that of a square result."""

    def square(size: int = 1793, bm: int = 256, bn: int = 128, sms: int = 108) -> Figure:
        return waves(size, size, bm, bn, sms)

    return explore(
        square,
        telling=(1792, 1793, 4096, 4097),
        size=slider("N", 1, 8192),
        bm=stops("BLOCK_M", SIDES[2:]),
        bn=stops("BLOCK_N", SIDES[2:]),
        sms=stops("SMs", [40, 58, 108, 132, 148]),
    )
