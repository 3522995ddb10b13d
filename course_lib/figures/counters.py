"""The trace's predictions next to what an NVIDIA GPU's own counters said: course_lib/hardware/measured/trace_vs_counters.json.

`python benchmarks/trace_vs_counters.py` measures it anew.
"""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from course_lib.hardware.measurements import measured
from tritontrace.colours import DRAM, EDGE, INK, READ, WRITTEN
from tritontrace.picture import WIDTH, Picture, bare, on_white

TOLERANCE = 0.02

NAMED = 3  # points that are furthest off

QUANTITIES = {  # quantity -> title, colour, marker
    "load_sectors": ("sectors loaded, L2 to L1", READ, "o"),
    "store_sectors": ("sectors stored, L1 to L2", WRITTEN, "s"),
    "dram_read_bytes": ("bytes read from DRAM", DRAM, "^"),
}


def pairs(quantity: str) -> list[tuple[str, float, float]]:
    """List (launch, predicted, counted) for each launch that has this quantity."""
    found = [
        (e["name"], e["predicted"][quantity], e["counted"][quantity]) for e in measured("trace_vs_counters")["launches"]
    ]
    return [(name, predicted, counted) for name, predicted, counted in found if predicted and counted]


@on_white
def predicted_against_counted() -> Figure:
    """Each point is one kernel: what the GPU counted, against what the trace predicts without a GPU. The furthest off are named."""
    figure = Picture(WIDTH, 5)
    ax = figure.subplots()
    for row, (quantity, (title, colour, marker)) in enumerate(QUANTITIES.items()):
        kernels = pairs(quantity)
        ax.plot(
            [p for _, p, _ in kernels],
            [c for *_, c in kernels],
            marker,
            color=colour,
            markersize=6,
            alpha=0.75,
            linewidth=0,
        )
        near = sum(abs(counted / predicted - 1) <= TOLERANCE for _, predicted, counted in kernels)
        place = dict(transform=ax.transAxes, va="center")
        ax.plot(0.5, 0.25 - 0.065 * row, marker, color=colour, markersize=7, transform=ax.transAxes)
        ax.text(0.525, 0.25 - 0.065 * row, f"{title}: {near} of {len(kernels)} within {TOLERANCE:.0%}", **place)
    everything = [(*pair, quantity) for quantity in QUANTITIES for pair in pairs(quantity)]
    for name, predicted, counted, _ in sorted(everything, key=lambda each: -abs(np.log(each[2] / each[1])))[:NAMED]:
        more = counted > predicted
        ax.annotate(
            f"{name}: {counted / predicted:.2f} times",
            (predicted, counted),
            (-14 if more else 14, 22 if more else -22),
            textcoords="offset points",
            ha="right" if more else "left",
            va="center",
            arrowprops={"arrowstyle": "-", "color": INK, "linewidth": 0.8},
        )
    low, high = (limit([min(p, c) if limit is min else max(p, c) for _, p, c, _ in everything]) for limit in (min, max))
    ax.plot([low, high], [low, high], color=EDGE, linewidth=1, zorder=0)
    ax.set(xscale="log", yscale="log", xlabel="predicted by the trace, without a GPU", ylabel="counted by the GPU")
    bare(ax)
    dots = pairs("dot_flops")
    found = measured("trace_vs_counters")
    exact = sum(predicted == counted for _, predicted, counted in dots)
    figure.caption(
        f"{len(found['launches'])} kernels on one {found['machine']}: on the line the prediction is exact. The FLOPs of tensor cores, not "
        f"drawn, are equal in {exact} of {len(dots)} kernels that use them."
    )
    return figure
