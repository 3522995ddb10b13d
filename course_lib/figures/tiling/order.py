"""The order in which programs take tiles, and what it saves."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from course_lib.figures.tiling.recording import GIB, MIB, whose
from course_lib.hardware.measurements import measured
from course_lib.picture import INK, OTHERS, OURS, THREE, Picture, bare, on_white
from course_lib.tracing.cache import MissCurve, grouped, hilbert, matmul_tiles, row_major

ORDERS = [
    ("row order", lambda m, n: row_major(m, n), OTHERS, "-"),
    ("grouped, 8 rows", lambda m, n: grouped(m, n, 8), OURS, "--"),
    ("Hilbert's curve", lambda m, n: hilbert(m, n), THREE, "-."),
]


@on_white
def orders(side: int = 48, at_once: int = 132) -> Figure:
    """Draw when each tile of a side x side grid starts, in three orders; the first `at_once` programs are hatched."""
    figure = Picture(9.5, 4)
    for ax, (name, order, _, _) in zip(figure.subplots(1, 3), ORDERS, strict=True):
        tiles = order(side, side)
        starts = np.empty((side, side), int)
        starts[tiles[:, 0], tiles[:, 1]] = np.arange(side * side)
        image = ax.imshow(starts, cmap="cividis", extent=(0, side, side, 0))
        first = tiles[:at_once]
        for m, n in first:
            ax.add_patch(Rectangle((n, m), 1, 1, facecolor="white", edgecolor=INK, hatch="xx", linewidth=0.2))
        rows, columns = (len(np.unique(first[:, axis])) for axis in (0, 1))
        ax.set(xlabel="column of tiles (a band of b)", ylabel="row of tiles (a band of a)")
        ax.set_title(f"{name}:\n{rows} + {columns} = {rows + columns} bands wanted", fontsize=11, loc="left")
    figure.colorbar(image, ax=figure.axes, shrink=0.7, label="start number")
    figure.caption(
        f"The {at_once} hatched tiles run together in the first wave. In each order they need another number of bands of a and b. "
        "A compact patch needs the fewest."
    )
    return figure


@on_white
def order_traffic(side: int = 64, k: int = 32, at_once: int = 132) -> Figure:
    """Left: DRAM bytes of three orders in the L2 model, by size of the L2. Right: measured times on an H200."""
    figure = Picture(9.5, 4.3)
    model, timed = figure.subplots(1, 2, width_ratios=[1.5, 1])
    tile_bytes = 128 * 128 * 2
    sizes = np.geomspace(2 * MIB, 256 * MIB, 200)
    at_l2 = {}
    for name, order, colour, line in ORDERS:
        curve = MissCurve(matmul_tiles(order(side, side), k, at_once, tile_bytes))
        model.plot(sizes / MIB, curve.read_bytes(sizes) / GIB, color=colour, linestyle=line, linewidth=2, label=name)
        at_l2[name] = curve.read_bytes(60 * MIB)
    model.axvline(60, color=INK, linestyle=":", linewidth=1)
    model.text(60, 0.02, " H200", transform=model.get_xaxis_transform(), fontsize=9)
    model.set(xscale="log", xlabel="size of the L2, MiB", ylabel="GiB read from DRAM", ylim=(0, None))
    model.set_xticks([2, 4, 8, 16, 32, 64, 128, 256], ["2", "4", "8", "16", "32", "64", "128", "256"])
    model.minorticks_off()
    model.legend(fontsize=9, frameon=False)
    model.set_title(
        f"the model: a and b of {side * 128} × {k * 128} and {k * 128} × {side * 128}", fontsize=10, loc="left"
    )

    rows = measured("tiling")["orders"]
    names = sorted({row["n"] for row in rows})
    for i, (label, colour, hatch) in enumerate((("grouped, 8", OURS, "//"), ("Hilbert", THREE, ".."))):
        own = [next(row for row in rows if row["n"] == n and row["order"] == label) for n in names]
        values, spreads = [row["ratio"] for row in own], [row["spread"] for row in own]
        bars = timed.bar(
            np.arange(len(names)) + 0.4 * i - 0.2,
            values,
            0.38,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            label=label,
            yerr=spreads,
            ecolor=INK,
            capsize=3,
        )
        timed.bar_label(
            bars, [f"{v:.2f}\n± {s:.2f}" for v, s in zip(values, spreads, strict=True)], fontsize=8, padding=2
        )
    timed.axhline(1, color=OTHERS, linewidth=2)
    timed.set_xticks(range(len(names)), names)
    top = 1.4 * max(row["ratio"] for row in rows)
    timed.set(xlabel="N, products of (N, N)", ylabel="speed, row order = 1", ylim=(0, top))
    timed.legend(fontsize=9, frameon=False, loc="upper left", ncols=2)
    timed.set_title(whose(), fontsize=10, loc="left")
    for ax in (model, timed):
        ax.grid(alpha=0.3)
        bare(ax)
    share = at_l2["grouped, 8 rows"] / at_l2["row order"]
    figure.caption(
        f"Left: with the L2 of an H200, grouped order reads {share:.2f} of row order's bytes in the model (tiles of 128 × 128, "
        f"{at_once} at "
        "once). Right: the speed in each order. Each bar was timed against row order in the same run (± its spread)."
    )
    return figure
