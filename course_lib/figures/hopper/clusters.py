"""A cluster of programs: what each SM fetches from L2, alone and with multicast."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from tritontrace.colours import FOUR, INK, TWO
from tritontrace.picture import WIDTH, Picture, bare, box, on_white

ROWS, COLUMNS, DEPTH, ITEMSIZE = 128, 256, 64, 2  # of a program's tile of c, and of a step along K
A_KIB, B_KIB = ROWS * DEPTH * ITEMSIZE / 1024, COLUMNS * DEPTH * ITEMSIZE / 1024


def kib_of_a_step(programs: int, multicast: bool) -> float:
    """Return the KiB that leave L2 for a step of programs whose tiles of c lie one below the other."""
    return programs * A_KIB + (1 if multicast else programs) * B_KIB


@on_white
def clusters(programs: int = 2) -> Figure:
    """Draw two ways to bring the same tile of b to several SMs: each fetches it, or one load writes it to all."""
    if not 2 <= programs <= 4:
        raise ValueError(f"programs is {programs}; the picture has room for 2 to 4.")
    picture = Picture(WIDTH, 4.3)
    for ax, multicast in zip(picture.subplots(1, 2), (False, True), strict=True):
        _draw(ax, programs, multicast)
        kib = kib_of_a_step(programs, multicast)
        ax.set_title("one cluster, b by multicast" if multicast else "each for itself")
        ax.set_xlabel(f"{kib:.0f} KiB leave L2 in a step", fontsize=10)
    alone, together = (kib_of_a_step(programs, multicast) for multicast in (False, True))
    picture.caption(
        f"A step of products of {ROWS} x {COLUMNS} by {DEPTH}, on {programs} SMs whose tiles of c lie one below the other. They need "
        f"different tiles of a ({A_KIB:.0f} KiB) and the same tile of b ({B_KIB:.0f} KiB). With multicast L2 delivers "
        f"{together / alone:.0%} of the bytes, and each shared memory receives as many as before."
    )
    return picture


def _draw(ax: Axes, programs: int, multicast: bool) -> None:
    box(ax, 0, 0, programs, 0.5, "white", "L2")
    for sm in range(programs):
        box(ax, sm + 0.06, 1.7, 0.88, 1.5, "white")
        ax.text(sm + 0.5, 3.05, f"SM {sm}", ha="center", va="center", color=INK)
        box(ax, sm + 0.12, 1.85, 0.36, 0.9, FOUR, f"a{sm}")
        box(ax, sm + 0.52, 1.85, 0.36, 0.9, TWO, "b")
        _arrow(ax, (sm + 0.3, 0.5), (sm + 0.3, 1.85), FOUR)
        _arrow(ax, (0.7 if multicast else sm + 0.7, 0.5), (sm + 0.7, 1.85), TWO)
    if multicast:
        ax.add_patch(Rectangle((0.02, 1.62), programs - 0.04, 1.66, fill=False, edgecolor=INK, linestyle="--"))
    ax.set(xlim=(-0.03, programs + 0.03), ylim=(-0.1, 3.4), xticks=[], yticks=[])
    bare(ax, "top", "right", "left", "bottom")


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 2})
