"""The picture of an open task: your attempts, the published answer, and the bytes of the task itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib.catalogue import say
from course_lib.hardware.measurements import measured
from course_lib.logbook import Attempt
from course_lib.open_tasks.tasks import OpenTask
from tritontrace.colours import EDGE, INK, OTHERS, OURS
from tritontrace.picture import WIDTH, Picture, bare, on_white


@on_white
def attempts(task: OpenTask, made: Sequence[Attempt]) -> Figure:
    """Draw the bytes of each attempt, and on a GPU the time of those that were timed on the card of the last one."""
    published = measured("open_tasks")[task.exercise.id]
    card = made[-1].gpu
    timed = [(number, each.ms) for number, each in enumerate(made, 1) if each.ms and each.gpu == card]
    figure = Picture(WIDTH, 3.2 if timed else 2.8)
    axes = figure.subplots(1, 2 if timed else 1, squeeze=False)[0]
    least = (task.least_bytes / 1e6, "each byte once")
    _curve(
        axes[0],
        [(number, each.bytes / 1e6) for number, each in enumerate(made, 1)],
        [(published["bytes"] / 1e6, "published"), least],
    )
    axes[0].set_ylabel("MB moved")
    if timed:
        _curve(axes[1], timed, [(published["ms"], "published")] if published["gpu"] == card else [])
        axes[1].set_ylabel("milliseconds")
    figure.caption(_in_words(task, made, published))
    return figure


def _curve(ax: Axes, points: Sequence[tuple[int, float]], lines: Sequence[tuple[float, str]]) -> None:
    """Attempts as dots, the best so far as steps, and what they are compared with as lines."""
    numbers, values = zip(*points, strict=True)
    best = [min(values[: i + 1]) for i in range(len(values))]
    ax.step(numbers, best, where="post", color=OURS, linewidth=1.2)
    ax.plot(numbers, values, "o", color=OURS)
    for (value, name), colour, style in zip(lines, (OTHERS, EDGE), ("--", ":"), strict=False):
        ax.axhline(value, color=colour, linestyle=style)
        ax.annotate(name, (1, value), (0, 2), ("axes fraction", "data"), "offset points", ha="right", color=INK)
    ax.set_ylim(0, 1.15 * max(*values, *(value for value, _ in lines)))
    ax.set_xlim(0.5, max(numbers) + 0.5)
    ax.set_xticks([numbers[0], numbers[-1]] if len(numbers) > 1 else numbers)
    ax.set_xlabel("attempt")
    bare(ax)


def _in_words(task: OpenTask, made: Sequence[Attempt], published: dict[str, Any]) -> str:
    last, best = made[-1], min(made, key=lambda each: each.bytes)
    against = last.bytes / published["bytes"]
    counts = {"launches": last.launches, "programs": last.programs, "share": against}
    bytes_of = {"moved": last.bytes / 1e6, "best": best.bytes / 1e6, "least": task.least_bytes / 1e6}
    sentence = say("shown.open_task.attempt", case=task.case.name, number=len(made), **counts, **bytes_of)
    on_this = [each.ms for each in made if each.gpu == last.gpu]
    timed = {"ms": last.ms, "gpu": last.gpu, "best": min(on_this)}
    return f"{sentence} {say('shown.open_task.time', case=task.timed.name, **timed)}" if last.ms else sentence
