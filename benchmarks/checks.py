"""Measure what a check costs: CPU seconds of `check(...)` for each published solution, by `python benchmarks/checks.py`.

With `--wrong`, for the wrong answers of the kill matrix as well: a wrong kernel may do far more than a right one, and who waits
for its verdict should not wait long. (Not for its cheats: a check has no sandbox, and one of them is a fork bomb.)

Seconds of CPU, over the notebook's process and the children that it forks, and of wall time, which only a machine that does nothing
else tells: the table says how much else it did. It goes to benchmarks/results/checks.md. The compiler is loaded before.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib import checking  # noqa: E402
from course_lib.execution import cpu_seconds  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from course_lib.exercises import UNITS  # noqa: E402
from grader.audit import variants  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace import compiled  # noqa: E402
from tritontrace.replay import load  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "checks.md"
MEDIAN, MOST = 1.0, 3.0  # seconds that a check may take, of CPU and of wall time


def exercises() -> Iterator[Exercise]:
    for unit in UNITS.values():
        yield from import_module(f"course_lib.exercises.{unit}").EXERCISES.values()


class Seconds(NamedTuple):
    cpu: float
    wall: float


def seconds(exercise: Exercise, entry: object) -> Seconds:
    cpu, wall = cpu_seconds(), time.perf_counter()
    checking.verdict(exercise, entry, seed=1)
    return Seconds(cpu_seconds() - cpu, time.perf_counter() - wall)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wrong", action="store_true", help="also each wrong answer of the kill matrix")
    options.add_argument("--exercise", default="", help="only those whose names begin so")
    chosen = options.parse_args()
    load_before = os.getloadavg()[0]
    compiled.warm_up()
    rows, all_wrong = [], []
    for exercise in exercises():
        if not exercise.id.startswith(chosen.exercise):
            continue
        entry = published(exercise.id)
        solved, wrong, slowest = seconds(exercise, entry), 0.0, ""
        unit = variants.of_unit(exercise.id.partition(".")[0]) if chosen.wrong else []
        for variant in (v for v in unit if v.exercise == exercise.id and v.loses and not v.script):
            try:
                answer = load(variant.cells(), exercise.entry)
            except ValueError:
                continue  # it cannot even be loaded
            took = seconds(exercise, answer).cpu
            all_wrong.append(took)
            if took > wrong:
                wrong, slowest = took, variant.name
        rows.append((exercise.id, solved, wrong, slowest))
        print(f"{exercise.id:<45} {solved.cpu:6.2f} {solved.wall:6.2f} {wrong:6.2f} {slowest}", flush=True)
    if chosen.exercise:
        return
    times, walls = zip(*(solved for _, solved, _, _ in rows), strict=True)
    report = [
        "# What a check costs",
        "",
        f"{date.today().isoformat()}, {os.cpu_count()} CPU cores with a load of {load_before:.1f} at the start. Seconds of one check on a "
        f"machine without a GPU; the goal is {MEDIAN:g} in the median and {MOST:g} at most. Published solutions: CPU, median "
        f"{statistics.median(times):.2f}, at most {max(times):.2f}; wall time, median {statistics.median(walls):.2f}, at most "
        f"{max(walls):.2f}, above {MOST:g} in {sum(wall > MOST for wall in walls)} of {len(walls)}."
        + _of_the_wrong(all_wrong),
        "",
        "| exercise | published solution: CPU | wall | slowest wrong answer: CPU | which one |",
        "| --- | ---: | ---: | ---: | --- |",
        *(
            f"| {name} | {cpu:.2f} | {wall:.2f} | {wrong:.2f} | {slowest} |"
            for name, (cpu, wall), wrong, slowest in rows
        ),
    ]
    RESULT.write_text("\n".join(report) + "\n")
    print("\n".join(report[2:3]))


def _of_the_wrong(times: list[float]) -> str:
    if not times:
        return ""
    return f" Wrong answers ({len(times)}), CPU: median {statistics.median(times):.2f}, at most {max(times):.2f}."


if __name__ == "__main__":
    main()
