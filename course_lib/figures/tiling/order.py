"""The order in which programs take tiles, and what it saves."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.figures.tiling.recording import GIB, MIB, whose
from course_lib.hardware.measurements import measured
from tritontrace.colours import EDGE, INK, LEFT, OTHERS, OURS, RESULT, RIGHT, THREE
from tritontrace.picture import WIDTH, Picture, bare, on_white
from tritontrace.tracing import MissCurve, grouped, hilbert, matmul_tiles, row_major

ORDERS = [
    ("row order", lambda m, n: row_major(m, n), OTHERS, "-"),
    ("grouped, 8 rows", lambda m, n: grouped(m, n, 8), OURS, "--"),
    ("Hilbert curve", lambda m, n: hilbert(m, n), THREE, "-."),
]


def bands(tiles: np.ndarray) -> list[int]:
    """Count the bands of a and those of b that tiles (n, 2) need."""
    return [len(np.unique(axis)) for axis in tiles.T]


@on_white
def orders(side: int = 16, at_once: int = 16) -> Figure:
    """Draw the way through side x side tiles in three orders, the first `at_once` tiles, and the bands of a and b that these
    need."""
    figure = Picture(WIDTH, 3.6)
    large = {}
    for ax, (name, order, _, _) in zip(figure.subplots(1, 3, sharey=True), ORDERS, strict=True):
        tiles = order(side, side)
        first = tiles[:at_once]
        for m, n in first:
            ax.add_patch(Rectangle((n, m), 1, 1, facecolor=RESULT, linewidth=0))
        for m in np.unique(first[:, 0]):
            ax.add_patch(Rectangle((-1.7, m), 1.2, 1, facecolor=LEFT, edgecolor=EDGE, linewidth=0.6))
        for n in np.unique(first[:, 1]):
            ax.add_patch(Rectangle((n, -1.7), 1, 1.2, facecolor=RIGHT, edgecolor=EDGE, linewidth=0.6))
        ax.add_patch(Rectangle((0, 0), side, side, facecolor="none", edgecolor=EDGE, linewidth=0.6))
        ax.plot(tiles[:, 1] + 0.5, tiles[:, 0] + 0.5, color=INK, linewidth=0.7)
        ax.plot(tiles[0, 1] + 0.5, tiles[0, 0] + 0.5, color=INK, marker="o", markersize=4)
        rows, columns = bands(first)
        large[name] = sum(bands(order(48, 48)[:132]))
        ax.set(xlim=(-1.9, side + 0.1), ylim=(side + 0.1, -1.9), aspect="equal", xticks=[], yticks=[])
        ax.set_title(f"{name}:\n{rows} + {columns} = {rows + columns} bands needed")
        ax.set_xlabel("columns of tiles, bands of b")
        bare(ax, *ax.spines)
    figure.axes[0].set_ylabel("rows of tiles, bands of a")
    figure.caption(
        f"Follow the line from the dot: this is the order in which {side * side} tiles of c are started. The first {at_once} run together "
        "(green), and need the marked bands of a (blue) and b (orange). A compact patch needs the fewest. On an H200, 132 "
        "tiles run together. Of 48 × 48 tiles, the first 132 need "
        f"{', '.join(f'{count} bands ({name})' for name, count in large.items())}."
    )
    return figure


@on_white
def order_traffic(side: int = 64, k: int = 32, at_once: int = 132) -> Figure:
    """Left: DRAM bytes of three orders in the L2 model, by size of the L2. Right: measured times on an H200."""
    figure = Picture(WIDTH, 3.9)
    model, timed = figure.subplots(1, 2, width_ratios=[1.4, 1])
    tile_bytes = 128 * 128 * 2
    sizes = np.geomspace(2 * MIB, 256 * MIB, 200)
    at_l2 = {}
    for name, order, colour, line in ORDERS:
        curve = MissCurve(matmul_tiles(order(side, side), k, at_once, tile_bytes))
        read = curve.read_bytes(sizes) / GIB
        model.plot(sizes / MIB, read, color=colour, linestyle=line, linewidth=2)
        above = name == "Hilbert curve"  # which lies close to the grouped order
        at = {"textcoords": "offset points", "va": "bottom" if above else "top"}
        model.annotate(name, (sizes[0] / MIB, read[0]), (0, 4 if above else -5), **at)
        at_l2[name] = curve.read_bytes(60 * MIB)
    model.axvline(60, color=INK, linestyle=":", linewidth=1)
    model.text(60, 0.02, "H200 ", transform=model.get_xaxis_transform(), ha="right")
    model.set(xscale="log", xlabel="size of the L2, MiB", ylabel="GiB read from DRAM", ylim=(0, None))
    model.set_xticks([2, 4, 8, 16, 32, 64, 128, 256], ["2", "4", "8", "16", "32", "64", "128", "256"])
    model.minorticks_off()
    model.set_title(f"the model: a and b of {side * 128} × {k * 128}\nand {k * 128} × {side * 128}")

    rows = measured("tiling")["orders"]
    names = sorted({row["n"] for row in rows})
    for i, (label, colour, marker) in enumerate((("grouped, 8", OURS, "o"), ("Hilbert", THREE, "s"))):
        own = [next(row for row in rows if row["n"] == n and row["order"] == label) for n in names]
        at = np.arange(len(names)) + 0.4 * i - 0.2
        values, spreads = [row["ratio"] for row in own], [row["spread"] for row in own]
        timed.errorbar(at, values, spreads, color=colour, marker=marker, linestyle="", capsize=3, label=label)
        for x, value, above in zip(at, values, spreads, strict=True):
            timed.annotate(
                f"{value:.2f}", (x, value + above), (0, 4), textcoords="offset points", ha="center", va="bottom"
            )
    timed.axhline(1, color=OTHERS, linewidth=2)
    timed.text(-0.45, 0.998, "row order", va="top")
    timed.set_xticks(range(len(names)), names)
    timed.set(xlabel="N, products of (N, N)", ylabel="speed, row order = 1", xlim=(-0.5, len(names) - 0.5))
    timed.set_ylim(0.95, 1.17)
    timed.legend(frameon=False, loc="upper left", ncols=2, columnspacing=1, handletextpad=0.3)
    timed.set_title(whose().replace(", ", ",\n"))
    for ax in (model, timed):
        ax.grid(alpha=0.3)
        bare(ax)
    share = at_l2["grouped, 8 rows"] / at_l2["row order"]
    figure.caption(
        f"Left: in the model, with the L2 of an H200, grouped order reads {share:.2f} times as many bytes as row order (tiles of "
        f"128 × 128, {at_once} at once). Right: the speed in each order, measured against row order in the same run. The line "
        "through a dot is the spread."
    )
    return figure
