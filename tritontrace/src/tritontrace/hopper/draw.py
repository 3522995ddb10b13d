"""The picture of a timeline: a row for the copies, one for each partition, one for the tensor cores."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from tritontrace.colours import EDGE, FOUR, IDLE, ONE, THREE, TWO, paler
from tritontrace.hopper.outcome import Outcome
from tritontrace.hopper.timeline import COMPUTES, COPIES, TENSOR_CORES, Bar
from tritontrace.messages import say
from tritontrace.picture import WIDTH, Picture, bare, on_white

ROW_INCHES = 0.42
KINDS = {
    "copies": TWO,
    "products": ONE,
    "arithmetic": THREE,
    "shared memory, barriers, fences": FOUR,
    "waits": IDLE,
    "waits for a product": paler(EDGE, 0.75),
}


def _kind(bar: Bar) -> str:
    if bar.row == COPIES:
        return "copies"
    if bar.row == TENSOR_CORES:
        return "products"
    if bar.what == COMPUTES:
        return "arithmetic"
    if bar.what == "wgmma":
        return "waits for a product"
    waits = bar.what.startswith("wait for ") or bar.what in ("TMA store", "cp.async")
    return "waits" if waits else "shared memory, barriers, fences"


def rows_of(bars: Sequence[Bar]) -> list[str]:
    """List the rows of these bars, from the top.

    >>> rows_of([Bar("fetch", 0, 10, "copy"), Bar(TENSOR_CORES, 10, 20, "product")])
    ['copies', 'fetch', 'tensor cores']
    """
    return [COPIES, *sorted({bar.row for bar in bars} - {COPIES, TENSOR_CORES}), TENSOR_CORES]


def busy(bars: Sequence[Bar]) -> float:
    """Return the share of the time in which tensor cores are busy.

    >>> busy([Bar(TENSOR_CORES, 0, 50, "product"), Bar("fetch", 50, 100, "copy")])
    0.5
    """
    end = max((bar.end for bar in bars), default=1)
    return sum(bar.end - bar.start for bar in bars if bar.row == TENSOR_CORES) / end


def draw_bars(ax: Axes, bars: Sequence[Bar]) -> list[str]:
    """Draw bars of one program, and return the kinds among them.

    >>> from matplotlib.figure import Figure
    >>> draw_bars(Figure().subplots(), [Bar(TENSOR_CORES, 10, 20, "product")])
    ['products']
    """
    rows = rows_of(bars)
    for kind, colour in KINDS.items():
        for i, row in enumerate(rows):
            mine = [(bar.start, bar.end - bar.start) for bar in bars if bar.row == row and _kind(bar) == kind]
            apart = {"edgecolors": "white" if row in (COPIES, TENSOR_CORES) else EDGE, "linewidth": 0.8}
            ax.broken_barh(mine, (i - 0.36, 0.72), facecolors=colour, **apart)
    ax.set_yticks(range(len(rows)), rows)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0, max((bar.end for bar in bars), default=1))
    bare(ax)
    return [kind for kind in KINDS if any(_kind(bar) == kind for bar in bars)]


def legend(ax: Axes, kinds: Sequence[str]) -> None:
    """Draw the legend of these kinds above a plot.

    >>> from matplotlib.figure import Figure
    >>> legend(Figure().subplots(), ["copies", "products"])
    """
    ax.legend(
        handles=[Patch(color=KINDS[kind], label=kind) for kind in kinds],
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=4 if len(kinds) <= 4 else 3, frameon=False,
        columnspacing=1.2, handlelength=1.2, borderaxespad=0.2,
    )  # fmt: skip


@on_white
def timeline(report: Outcome, program: int = 0) -> Picture:
    """Draw the timeline of one program. Raises ValueError if the report has none."""
    found = next((run.timeline for run in report.runs if run.timeline), None)
    if found is None:
        raise ValueError(say("asked.simulation.no_timeline"))
    if not 0 <= program < len(found.programs):
        raise ValueError(say("asked.simulation.no_program", program=program, count=len(found.programs)))
    bars = found.programs[program]
    picture = Picture(WIDTH, 1.6 + ROW_INCHES * len(rows_of(bars)))
    ax = picture.subplots()
    legend(ax, draw_bars(ax, bars))
    ax.set_xlabel("cycles of one SM, by the model")
    picture.caption(
        f"Tensor cores are busy {100 * busy(bars):.0f} % of the time. Look for gaps in their row, and for who waits below which "
        "copies: what runs at the same time stands one above the other."
    )
    return picture
