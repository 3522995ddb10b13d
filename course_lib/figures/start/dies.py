"""How a CPU and a GPU spend their area, and where memory lies: schematic, not to scale."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tritontrace import gpu
from tritontrace.colours import ALUS, CONTROL, DRAM, IDLE, INK, SHARED
from tritontrace.picture import WIDTH, Picture, box, on_white


def _stage(ax: Axes, title: str) -> None:
    ax.set_xlim(-0.1, 10.1)
    ax.set_ylim(-0.1, 8.1)
    ax.set_xlabel("not to scale")
    ax.set_axis_off()
    ax.set_title(title)


@on_white
def two_dies() -> Figure:
    """Draw the area of a CPU beside that of a GPU."""
    figure = Picture(WIDTH, 3.9)
    left, right = figure.subplots(1, 2)
    _stage(left, "a CPU: a few cores, each in a hurry")
    for i, (x, y) in enumerate(((0, 5.7), (5.05, 5.7), (0, 3.3), (5.05, 3.3))):
        box(left, x, y, 2.4, 2.3, CONTROL, "control" if i < 2 else "")
        box(left, x + 2.4, y + 1.15, 2.55, 1.15, ALUS, "ALUs")
        box(left, x + 2.4, y, 2.55, 1.15, SHARED, "L1, L2")
    box(left, 0, 1.2, 10, 2.0, SHARED, "L3: a cache for all cores")
    box(left, 0, 0, 10, 1.1, DRAM, "DRAM, off the chip")
    _stage(right, "a GPU: many lanes, each in no hurry")
    for row in range(8):
        y = 2.75 + row * 0.65
        box(right, 0, y, 0.7, 0.6, CONTROL)
        box(right, 0.75, y, 0.9, 0.6, SHARED)
        for lane in range(16):
            box(right, 1.75 + lane * 0.515, y, 0.48, 0.6, ALUS)
    right.text(
        5.9,
        5.3,
        "ALUs and tensor cores",
        ha="center",
        va="center",
        color=INK,
        bbox={"facecolor": "white", "edgecolor": INK},
    )
    right.annotate("control", (0.35, 2.75), (0.1, 2.25), color=INK, arrowprops={"arrowstyle": "-", "color": INK})
    right.annotate("L1", (1.2, 2.75), (2.1, 2.25), color=INK, arrowprops={"arrowstyle": "-", "color": INK})
    box(right, 0, 1.2, 10, 0.9, SHARED, "L2: a cache for all SMs")
    box(right, 0, 0, 10, 1.1, DRAM, "DRAM, beside the chip")
    figure.caption(
        "Orange: control. Light blue: caches. Dark blue: units that compute. Green: memory. The CPU spends its area on finishing one "
        "thread quickly. The GPU spends its area on computing for many threads. Schematic, not to scale."
    )
    return figure


@on_white
def floor_plan() -> Figure:
    """Draw an H200's package from above: SMs around L2, and stacks of HBM at two sides."""
    card = gpu.datasheet("H200")
    figure = Picture(WIDTH, 4.2)
    ax = figure.subplots()
    _stage(ax, f"{card.name}: {card.sms} SMs and six stacks of HBM, wired together on a larger piece of silicon")
    box(ax, 0, 0, 10, 8, IDLE)
    for i in range(3):
        for x in (0.3, 8.2):
            box(ax, x, 0.35 + 2.5 * i, 1.5, 2.3, DRAM, "HBM\n8 or more\nlayers", 9)
    box(ax, 2.1, 0.35, 5.8, 7.3, "white")
    for row in range(12):
        if row in (5, 6):
            continue
        for column in range(12):
            box(ax, 2.25 + column * 0.463, 0.5 + row * 0.585, 0.4, 0.5, ALUS)
    box(ax, 2.25, 3.45, 5.5, 1.05, SHARED, f"L2, {card.l2_bytes >> 20} MiB" if card.l2_bytes else "L2")
    ax.text(
        5,
        6.9,
        "SMs, each with registers and L1",
        ha="center",
        va="center",
        color=INK,
        bbox={"facecolor": "white", "edgecolor": INK},
    )
    figure.caption(
        "A value in a register is a fraction of a millimetre away from the ALU that wants it. A value in L2 is some ten millimetres "
        "away, and a value in HBM lies on another chip. Schematic, not to scale."
    )
    return figure
