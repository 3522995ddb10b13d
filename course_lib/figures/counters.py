"""The trace's predictions next to what an NVIDIA GPU's own counters said: course_lib/hardware/measured/trace_vs_counters.json.

`python benchmarks/trace_vs_counters.py` measures it anew.
"""

from __future__ import annotations

from matplotlib.figure import Figure

from course_lib.hardware.measurements import measured
from tritontrace.colours import DRAM, EDGE, IDLE, INK, READ, WRITTEN
from tritontrace.picture import WIDTH, Picture, bare, on_white

TOLERANCE = 0.02

SHOWN = 0.1  # of a ratio around 1; what is further off is named at the edge

QUANTITIES = {  # quantity -> title, colour
    "load_sectors": ("sectors loaded, L2 to L1", READ),
    "store_sectors": ("sectors stored, L1 to L2", WRITTEN),
    "dram_read_bytes": ("bytes read from DRAM", DRAM),
}


def pairs(quantity: str) -> list[tuple[str, float, float]]:
    """(launch, predicted, counted) of each launch that has this quantity."""
    found = [
        (e["name"], e["predicted"][quantity], e["counted"][quantity]) for e in measured("trace_vs_counters")["launches"]
    ]
    return [(name, predicted, counted) for name, predicted, counted in found if predicted and counted]


@on_white
def predicted_against_counted() -> Figure:
    """Each point is one kernel: what the GPU counted, over what the trace predicts without a GPU; sorted."""
    figure = Picture(WIDTH, 4.6)
    for ax, (quantity, (title, colour)) in zip(figure.subplots(1, len(QUANTITIES)), QUANTITIES.items(), strict=True):
        ratios = sorted((counted / predicted, name) for name, predicted, counted in pairs(quantity))
        near = sum(abs(ratio - 1) <= TOLERANCE for ratio, _ in ratios)
        ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color=IDLE, zorder=0)
        ax.axvline(1, color=EDGE, linewidth=0.8, zorder=1)
        for place, (ratio, _) in enumerate(ratios):
            shown = min(max(ratio, 1 - SHOWN), 1 + SHOWN)
            marker = "o" if shown == ratio else "<" if ratio < 1 else ">"
            looks = dict(color=colour, markeredgecolor=INK, markeredgewidth=0.5, clip_on=False)
            ax.plot(shown, place, marker=marker, markersize=6, **looks)
        below = [f"{name}: {ratio:.2f}" for ratio, name in ratios if ratio < 1 - SHOWN]
        above = [f"{name}: {ratio:.2f}" for ratio, name in ratios if ratio > 1 + SHOWN]
        ax.text(1 - SHOWN, -1, "\n".join(below), ha="left", va="top")
        ax.text(1 + SHOWN, len(ratios), "\n".join(above), ha="right", va="bottom")
        ax.set(xlim=(1 - SHOWN, 1 + SHOWN), ylim=(-4, len(ratios) + 3), yticks=[])
        ax.set_xticks([0.9, 1, 1.1])
        ax.set_title(f"{title}\n{near} of {len(ratios)} within {TOLERANCE:.0%}")
        ax.set_xlabel("counted / predicted", fontsize=10)
        bare(ax, "top", "right", "left")
    figure.axes[0].set_ylabel("kernels, sorted", fontsize=10)
    dots = pairs("dot_flops")
    found = measured("trace_vs_counters")
    exact = sum(predicted == counted for _, predicted, counted in dots)
    figure.caption(
        f"{len(found['launches'])} kernels on one {found['machine']}. Grey: within {TOLERANCE:.0%}. A triangle is "
        f"off the scale. The FLOPs of tensor cores, not drawn, are equal in {exact} of {len(dots)} kernels that use them."
    )
    return figure
