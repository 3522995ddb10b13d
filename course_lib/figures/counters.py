"""The trace's predictions next to what an NVIDIA GPU's own counters said: course_lib/hardware/measured/trace_vs_counters.json.

`python benchmarks/trace_vs_counters.py` measures it anew.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.hardware.measurements import measured
from course_lib.picture import BLUE, RED, Picture, on_white

TOLERANCE = 0.02

PANELS = (  # title, axis, [(quantity, label, marker, colour)]
    ("Sectors between L1 and L2", "sectors", [("load_sectors", "loads", "o", BLUE), ("store_sectors", "stores", "s", RED)]),
    ("Read from DRAM", "bytes", [("dram_read_bytes", "bytes", "o", BLUE)]),
)  # fmt: skip


def pairs(quantity: str) -> list[tuple[str, float, float]]:
    """(launch, predicted, counted) of each launch that has this quantity."""
    found = [
        (e["name"], e["predicted"][quantity], e["counted"][quantity]) for e in measured("trace_vs_counters")["launches"]
    ]
    return [(name, predicted, counted) for name, predicted, counted in found if predicted and counted]


@on_white
def predicted_against_counted() -> Figure:
    """Each point is one kernel: what the trace predicts without a GPU, and what the GPU counted."""
    figure = Picture(10, 5)
    for ax, (title, unit, quantities) in zip(figure.subplots(1, len(PANELS)), PANELS, strict=True):
        everything = [value for quantity, *_ in quantities for _, *both in pairs(quantity) for value in both]
        low, high = min(everything) / 2, max(everything) * 2
        ax.plot([low, high], [low, high], color="#999999", linewidth=1, zorder=0)
        for quantity, label, marker, colour in quantities:
            points = pairs(quantity)
            near = sum(abs(counted / predicted - 1) <= TOLERANCE for _, predicted, counted in points)
            ax.scatter(
                [predicted for _, predicted, _ in points],
                [counted for *_, counted in points],
                marker=marker,
                facecolor="none",
                edgecolor=colour,
                linewidth=1.5,
                label=f"{label}: {near} of {len(points)} within {TOLERANCE:.0%}",
            )
            for name, predicted, counted in points:
                if abs(counted / predicted - 1) > TOLERANCE:
                    above = counted > predicted
                    ax.annotate(
                        f"{name}: {counted / predicted:.2f}",
                        (predicted, counted),
                        xytext=(-14, 10) if above else (14, -14),
                        textcoords="offset points",
                        ha="right" if above else "left",
                        fontsize=8,
                        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
                        arrowprops={"arrowstyle": "-", "color": "#999999"},
                    )
        ax.set(xscale="log", yscale="log", xlim=(low / 60, high * 15), ylim=(low, high), title=title)
        ax.set(xlabel=f"predicted by the trace, {unit}", ylabel=f"counted by the GPU, {unit}")
        ax.legend(loc="upper left", fontsize=8, frameon=False)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    dots = pairs("dot_flops")
    found = measured("trace_vs_counters")
    exact = sum(predicted == counted for _, predicted, counted in dots)
    figure.caption(
        f"{len(found['launches'])} kernels on one {found['machine']}. On the line, prediction and counter agree. "
        f"The FLOPs of tensor cores, not drawn, are equal in {exact} of {len(dots)} kernels that use them."
    )
    return figure
