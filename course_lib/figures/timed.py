"""Your kernels on your card: what your checks timed, and where they timed nothing, what is recorded."""

from __future__ import annotations

import os
from importlib import import_module

from matplotlib.figure import Figure

from course_lib import logbook
from course_lib.evidence import Timing
from course_lib.exercise import Exercise
from course_lib.hardware.measurements import measured, whose
from course_lib.render.cells import KEEP_VERDICTS
from tritontrace.colours import EDGE, IDLE, INK, LIBRARIES, OURS
from tritontrace.picture import SMALLEST, WIDTH, Picture, bare, on_white


@on_white
def on_your_card(unit: str) -> Figure:
    """The speed of each timed exercise of a unit, in shares of a copy's or a library's: yours as your last check measured it, and the
    published answer's as recorded."""
    exercises = [e for e in import_module(f"course_lib.exercises.{unit}").EXERCISES.values() if e.bonus]
    yours = {e.id: time for e in exercises if (time := _yours(e))}
    figure = Picture(WIDTH, 1.5 + 0.62 * len(exercises))
    ax = figure.subplots()
    shares = []
    for row, exercise in enumerate(exercises):
        shares += _row(ax, row, exercise, yours.get(exercise.id))
    ax.axvline(1, color=INK, linewidth=1)
    ax.annotate("as fast as that", (1, 1), (0, 3), ("data", "axes fraction"), "offset points", ha="center")
    ax.set_xlim(0, 1.1 * max(1.0, *shares))
    ax.set_ylim(len(exercises) - 0.4, -0.6)
    ax.set_yticks(range(len(exercises)), [e.entry for e in exercises])
    ax.set_xlabel("speed, as a share of that of what it is timed against")
    bare(ax)
    figure.caption(_in_words(yours))
    return figure


def _yours(exercise: Exercise) -> Timing | None:
    """The last time that a check measured here; none in what a build shows to everybody."""
    return None if os.environ.get(KEEP_VERDICTS) else logbook.time_of(exercise.id)


def _row(ax, row: int, exercise: Exercise, yours: Timing | None) -> list[float]:
    """Draw one exercise. Return the shares that were drawn."""
    published = measured("answers")["answers"][exercise.id]
    bonus = exercise.bonus[0]
    ax.barh(row, bonus.full - bonus.none, 0.4, bonus.none, color=IDLE, edgecolor=EDGE, linewidth=0.8)
    ax.plot(published["ratio"], row, "o", color=LIBRARIES, markerfacecolor="white", markersize=9, markeredgewidth=2)
    microseconds = published["microseconds"]
    if yours:
        ax.plot([0, yours.ratio], [row, row], color=OURS, linewidth=2)
        ax.plot(yours.ratio, row, "o", color=OURS, markersize=7)
        microseconds = yours.microseconds
    words = f"{microseconds:,.0f} µs, against {'a copy' if bonus.vs == 'copy' else bonus.vs}"
    ax.text(0.01, row - 0.36, words, transform=ax.get_yaxis_transform(), va="center", color=INK, fontsize=SMALLEST)
    return [published["ratio"], yours.ratio if yours else 0.0, bonus.full]


def _in_words(yours: dict[str, Timing]) -> str:
    recorded = f"Rings: the published answers, recorded on {whose('answers')}. Boxes: from where extra credit begins to where it ends."
    if not yours:
        return f"{recorded} With a GPU, your own kernels stand here as blue dots after their checks."
    cards = " and ".join(sorted({time.gpu for time in yours.values()}))
    return f"Blue: your kernels on {cards}, as your last checks timed them. {recorded}"
