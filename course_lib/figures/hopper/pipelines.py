"""Pipelines: who waits for whom, by the model of a loop and by the simulator."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.exercises.hopper.races import RINGS, drawn
from course_lib.exercises.hopper.rings import Ring
from course_lib.figures.widgets import Sliders, explore, slider
from tritontrace.hopper import ROW_INCHES, Bar, Costs, busy, draw_bars, legend, rows_of, schedule, simulate
from tritontrace.picture import WIDTH, Picture, on_white
from tritontrace.tracing import KernelError, KernelFault

WAYS = {
    "one slot: fetch, wait, multiply": {"stages": 1},
    "two slots: the next tile comes while this one is multiplied": {"stages": 2},
    "three slots": {"stages": 3},
    "a producer, two consumers that share the tile of b, three slots": {
        "stages": 3,
        "consumers": 2,
        "specialised": True,
    },
}
MODEL = "cycles of one SM, by the model"


@on_white
def pipelines() -> Figure:
    """Draw four ways to run the same loop, one below the other, on one axis of cycles."""
    loops = {title: schedule(steps=6, **way) for title, way in WAYS.items()}
    end = max(bar.end for bars in loops.values() for bar in bars)
    heights = [len(rows_of(bars)) + 1.7 for bars in loops.values()]
    picture = Picture(WIDTH, 1.6 + 0.3 * sum(heights))
    axes = picture.subplots(len(loops), 1, sharex=True, height_ratios=heights)
    for ax, (title, bars) in zip(axes, loops.items(), strict=True):
        kinds = draw_bars(ax, bars)
        last = max(bar.end for bar in bars)
        ax.set_title(f"{title}:\n{last:,.0f} cycles, tensor cores busy {100 * busy(bars):.0f} %")
        ax.set_xlim(0, 1.02 * end)
    axes[-1].set_xlabel(MODEL)
    _key(axes[-1], kinds)
    picture.caption(
        "Six steps of a product, each of 64 x 256 by 64 for every consumer. Look at the row of the tensor cores. What is above each of "
        "its gaps? The last loop multiplies twice as much."
    )
    return picture


def _key(ax: Axes, kinds: list[str]) -> None:
    """Say below a plot which colour is which kind."""
    legend(ax, kinds)
    ax.get_legend().set_loc("upper right")
    ax.get_legend().set_bbox_to_anchor((1.0, -0.4))


@on_white
def pipeline(stages: int = 2, latency: int = 700, consumers: int = 1) -> Figure:
    """Draw one loop: slots in the ring, cycles until a copy that begins has come, consumers."""
    costs = Costs(copy_latency=latency)
    return _loop(schedule(stages, consumers, specialised=consumers > 1, costs=costs), stages)


def _loop(bars: list[Bar], stages: int) -> Figure:
    picture = Picture(WIDTH, 1.7 + ROW_INCHES * len(rows_of(bars)))
    ax = picture.subplots()
    legend(ax, draw_bars(ax, bars))
    ax.set_xlabel(MODEL)
    slots = "1 slot" if stages == 1 else f"{stages} slots"
    picture.caption(
        f"With {slots} tensor cores are busy {100 * busy(bars):.0f} % of the time. A tile has come when the latency has passed after the "
        "bar of its copy. See what the first gap waits for, and whether copies follow one another without a gap. If they do, more slots "
        "do not help."
    )
    return picture


@on_white
def timeline_of(launch: Callable[..., Any] | None = None, *arguments: Any) -> Figure:
    """Draw what is busy when a function launches its kernel; without one that does, what the model says of a ring of two."""
    report = None
    try:
        report = simulate(launch, *arguments, orders=("timed",)) if launch else None
    except (KernelError, KernelFault) as error:
        return _instead(f"Your kernel does not run: {error}")
    if report is None or not any(run.timeline.programs for run in report.runs):
        return _instead("Nothing is launched yet, so this is the model's loop with two slots.")
    picture = report.timeline()
    if report.fault:
        picture.caption(f"Your kernel gets this far. {report.fault.kind.value}: see what check() says.")
    return picture


def _instead(sentence: str) -> Figure:
    picture = pipeline()
    picture.caption(sentence)
    return picture


def explore_pipeline() -> Sliders | Figure:
    """Places, latency and consumers of a loop, each with a slider."""
    return explore(
        pipeline,
        play="stages",
        stages=slider("slots", 1, 4),
        latency=slider("latency", 100, 2000, 100),
        consumers=slider("consumers", 1, 2),
    )


class Listings:
    """Listings side by side, each with a picture below it, as HTML: they can be copied, searched and read aloud."""

    def __init__(self, parts: Sequence[tuple[str, Sequence[str], Picture | None]], caption: str):
        self.parts, self.caption = parts, caption  # title, lines, picture

    def __repr__(self) -> str:
        listings = ("\n".join([title, *_numbered(lines)]) for title, lines, _ in self.parts)
        return "\n\n".join([*listings, self.caption])

    def _repr_html_(self) -> str:
        side_by_side = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));gap:8px 24px"
        return (
            f'<div style="{side_by_side}">{"".join(map(_listing, self.parts))}</div><p>{html.escape(self.caption)}</p>'
        )


def _numbered(lines: Sequence[str]) -> list[str]:
    return [f"{n:2}  {line}" for n, line in enumerate(lines, 1)]


def _listing(part: tuple[str, Sequence[str], Picture | None]) -> str:
    title, lines, picture = part
    code = html.escape("\n".join(_numbered(lines)))
    scrolls = f'tabindex="0" role="region" aria-label="{html.escape(title)}"'  # by keyboard, too
    shown = picture.html() if picture else "<p>The mistake shows before anything takes time.</p>"
    return (
        f'<section style="min-width:0"><strong>{html.escape(title)}</strong>'
        f'<pre {scrolls} style="overflow-x:auto;font-size:12px;line-height:1.35">{code}</pre>{shown}</section>'
    )


def six_races() -> Listings:
    """The six broken rings: their text with numbers of lines, and what is busy until the mistake shows."""
    return _rings(RINGS, "Six rings, each with one mistake.")


def two_races(number: int = 1) -> Listings:
    """The two broken rings of a number."""
    return _rings(drawn(number), f"The two rings of number {number}, each with one mistake.")


def _rings(rings: Mapping[str, Ring], caption: str) -> Listings:
    return Listings(
        [
            (f"ring {letter}: {ring.stages} slots, {ring.steps} steps", ring.lines, _busy(ring))
            for letter, ring in rings.items()
        ],
        f"{caption} Below each is what was busy: copies (orange), products (blue), waits (grey), barriers and shared memory (sky blue). "
        "Go through the first turns of both partitions, and ask at each line what may still be under way.",
    )


@on_white
def _busy(ring: Ring) -> Picture | None:
    """Draw what is busy until the mistake shows; None if nothing takes time before."""
    bars = ring.run(("timed",)).runs[0].timeline.bars
    if not bars:
        return None
    picture = Picture(4.8, 1.7)
    ax = picture.subplots()
    draw_bars(ax, bars)
    ax.set_xlabel(f"{MODEL}, until the mistake shows")
    return picture
