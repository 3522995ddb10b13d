"""How a CPU and a GPU spend their area, and where memory lies: schematic, not to scale. Both pictures draw the same chip."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tritontrace import gpu
from tritontrace.colours import ALUS, CONTROL, DRAM, IDLE, INK, L2, REGISTERS, SHARED
from tritontrace.picture import WIDTH, Picture, box, boxes, on_white

ROWS, COLUMNS = 12, 11  # of an H200's SMs, as they are drawn
PARTS = (  # of an SM: name, colour, and its place in a square
    ("control", CONTROL, (0.0, 0.62, 0.3, 0.38)),
    ("registers", REGISTERS, (0.3, 0.62, 0.7, 0.38)),
    ("ALUs, tensor cores", ALUS, (0.0, 0.22, 1.0, 0.4)),
    ("shared memory, L1", SHARED, (0.0, 0.0, 1.0, 0.22)),
)


def _stage(ax: Axes, title: str, wide: float = 10) -> None:
    ax.set(xlim=(-0.1, wide + 0.1), ylim=(-0.1, 8.1), xlabel="not to scale")
    ax.set_axis_off()
    ax.set_title(title)


def _chip(ax: Axes, x: float, y: float, wide: float, high: float) -> tuple[float, float, float, float]:
    """Draw rows of SMs above and below the L2, in a box of this size; the place of the SM at the upper right."""
    pitch, band = wide / COLUMNS, high / (ROWS + 2)
    corners = [
        (x + column * pitch, y + (row + 2 * (row >= ROWS // 2)) * band)
        for row in range(ROWS)
        for column in range(COLUMNS)
    ]
    for _, colour, (across, up, width, height) in PARTS:
        size = np.array([0.84 * pitch, 0.84 * band])
        boxes(ax, np.array(corners) + size * (across, up), size * (width, height), facecolor=colour, linewidth=0)
    box(ax, x, y + (ROWS / 2 + 0.1) * band, wide - 0.16 * pitch, 1.64 * band, L2, "L2: a cache for all SMs")
    return *corners[-1], 0.84 * pitch, 0.84 * band


@on_white
def two_dies() -> Figure:
    """Draw the area of a CPU beside that of a GPU."""
    figure = Picture(WIDTH, 3.9)
    cpu, chip = figure.subplots(1, 2)
    _stage(cpu, "a CPU: a few cores, each in a hurry")
    for x, y in ((0, 5.7), (5.05, 5.7), (0, 3.3), (5.05, 3.3)):
        box(cpu, x, y, 2.4, 2.3, CONTROL, "control")
        box(cpu, x + 2.4, y + 1.15, 2.55, 1.15, ALUS, "ALUs")
        box(cpu, x + 2.4, y, 2.55, 1.15, SHARED, "L1, L2")
    box(cpu, 0, 1.2, 10, 2.0, L2, "L3: a cache for all cores")
    box(cpu, 0, 0, 10, 1.1, DRAM, "DRAM, off the chip")
    card = gpu.datasheet("H200")
    _stage(chip, f"a GPU: {card.sms} SMs, each in no hurry")
    _chip(chip, 0, 1.25, 10.15, 6.75)
    box(chip, 0, 0, 10, 1.1, DRAM, "DRAM, beside the chip")
    figure.caption(
        "Orange: control. Blue: units that compute. Purple: registers. Sky blue: caches, of which L2 and L3 are for the whole chip. Green: "
        "memory. The CPU spends its area on finishing one thread quickly. The GPU spends its area on computing for many threads. "
        "Schematic, not to scale."
    )
    return figure


@on_white
def floor_plan() -> Figure:
    """Draw an H200's package from above, SMs around L2 and stacks of HBM at two sides, and one SM enlarged."""
    card = gpu.datasheet("H200")
    figure = Picture(WIDTH, 4.2)
    ax = figure.subplots()
    _stage(ax, f"{card.name}: {card.sms} SMs and six stacks of HBM, wired together on a larger piece of silicon", 14)
    box(ax, 0, 0, 9.6, 8, IDLE)
    for i in range(3):
        for x in (0.2, 7.9):
            box(ax, x, 0.35 + 2.5 * i, 1.5, 2.3, DRAM, "HBM\n8 or more\nlayers")
    box(ax, 1.9, 0.35, 5.8, 7.3, "white")
    x, y, wide, high = _chip(ax, 2.08, 0.5, 5.5, 7.0)
    side, start, low = 3.4, 10.5, 3.4
    box(ax, x - 0.06, y - 0.06, wide + 0.12, high + 0.12, "none")
    ax.plot([x + wide + 0.06, start], [y + high / 2, low + side], color=INK, linewidth=0.8)
    for name, colour, (at, up, width, height) in PARTS:
        box(
            ax,
            start + at * side,
            low + up * side,
            width * side,
            height * side,
            colour,
            name.replace(", ", ",\n") if width == 1 else name,
        )
    ax.text(start, low - 0.25, "one SM, enlarged", color=INK, va="top", fontsize=10)
    ax.text(
        start,
        low - 0.85,
        "to a register: a fraction\nof a millimetre; to L2:\nsome ten millimetres; to\nHBM: another chip",
        color=INK,
        va="top",
    )
    figure.caption(
        "A value in a register is a fraction of a millimetre away from the ALU that wants it. A value in L2 is some ten millimetres "
        "away, and a value in HBM lies on another chip. Schematic, not to scale."
    )
    return figure
