"""Measure what a widget takes to answer a control that moves: `python benchmarks/drags.py [NAME ...]`. Needs no GPU.

Each control of each `explore_...` moves to another value and back, RUNS times; what counts is the CPU time from the new value to the
picture as a live notebook gets it. Writes benchmarks/results/drags.md; with names, prints those alone. The promise is GOAL.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell

from course_lib import figures
from course_lib.exercises import UNITS

RESULT = Path(__file__).resolve().parent / "results" / "drags.md"
RUNS = 5
GOAL = 100  # milliseconds of CPU


def widgets() -> Iterator[tuple[str, Any]]:
    """Name and widget of each unit's `explore_...` functions."""
    for unit, module in UNITS.items():
        drawn = getattr(figures, module)
        for name in dir(drawn):
            if name.startswith("explore_"):
                yield f"{unit[:2]} {name}", getattr(drawn, name)()


def movable(box: Any) -> Iterator[Any]:
    """The controls in a box that have a value, without players."""
    for control in getattr(box, "children", (box,)):
        if getattr(control, "children", ()):
            yield from movable(control)
        elif hasattr(control, "value") and type(control).__name__ not in ("Play", "HTML", "Label", "HTMLMath"):
            yield control


def another(control: Any) -> Any:
    """A value next to the control's own."""
    value = control.value
    if hasattr(control, "options"):
        values = [option[1] if isinstance(option, tuple) else option for option in control.options]
        return values[(values.index(value) + 1) % len(values)]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        step = getattr(control, "step", 1) or 1
        return value - step if value + step > getattr(control, "max", float("inf")) else value + step
    return value


def milliseconds(widget: Any) -> dict[str, float]:
    """Control -> the median of CPU milliseconds for an answer."""
    found = {}
    for number, control in enumerate(movable(widget.controls)):
        there, back = another(control), control.value
        if there == back:
            continue
        took = []
        for _ in range(RUNS):
            for value in (there, back):
                started = time.process_time()
                control.value = value
                took.append(1000 * (time.process_time() - started))
        found[control.description or f"control {number}"] = statistics.median(took)
    return found


def main(wanted: list[str]) -> None:
    torch.set_num_threads(1)
    InteractiveShell.instance()  # a live notebook, as far as figures look
    lines = [
        "# What a drag costs",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {platform.machine()}, {len(os.sched_getaffinity(0))} cores "
        f"with a load of {os.getloadavg()[0]:.1f} at the start, which makes CPU time longer, too; "
        f"medians of {2 * RUNS} moves, CPU milliseconds from the new value to the picture. The goal is {GOAL}. `python "
        "benchmarks/drags.py`",
        "",
        "| widget | slowest control | | all controls |",
        "| --- | --- | ---: | --- |",
    ]
    for name, widget in widgets():
        if wanted and not any(word in name for word in wanted):
            continue
        took = milliseconds(widget)
        slowest = max(took, key=took.__getitem__)
        every = ", ".join(f"{control} {ms:.0f}" for control, ms in took.items())
        lines.append(f"| {name} | {slowest} | {took[slowest]:.0f} | {every} |")
        print(lines[-1], flush=True)
    if not wanted:
        RESULT.write_text("\n".join([*lines, ""]), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
