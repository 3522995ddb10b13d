"""Measure what a check costs: CPU seconds of `check(...)` for each published solution, by `python benchmarks/checks.py`.

With `--wrong`, for the wrong answers of the kill matrix as well: a wrong kernel may do far more than a right one, and who waits
for its verdict should not wait long. (Not for its cheats: a check has no sandbox, and one of them is a fork bomb.)

Seconds of CPU, over the notebook's process and the children that it forks, of the second of two checks: the first one of a
process loads the compiler. The table goes to benchmarks/results/checks.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Iterator
from datetime import date
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib import checking, compiled  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from course_lib.exercises import UNITS  # noqa: E402
from course_lib.observe import cpu_seconds  # noqa: E402
from course_lib.observe.record import load  # noqa: E402
from grader.audit import variants  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "checks.md"
MEDIAN, MOST = 1.0, 3.0  # seconds that a check may take


def exercises() -> Iterator[Exercise]:
    for unit in UNITS.values():
        yield from import_module(f"course_lib.exercises.{unit}").EXERCISES.values()


def seconds(exercise: Exercise, entry: object) -> float:
    started = cpu_seconds()
    checking.verdict(exercise, entry, seed=1)
    return cpu_seconds() - started


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--wrong", action="store_true", help="also each wrong answer of the kill matrix")
    options.add_argument("--exercise", default="", help="only those whose names begin so")
    chosen = options.parse_args()
    compiled.warm_up()
    rows, all_wrong = [], []
    for exercise in exercises():
        if not exercise.id.startswith(chosen.exercise):
            continue
        entry = variants.published(exercise.id)
        solved, wrong, slowest = seconds(exercise, entry), 0.0, ""
        unit = variants.of_unit(exercise.id.partition(".")[0]) if chosen.wrong else []
        for variant in (v for v in unit if v.exercise == exercise.id and v.loses and not v.script):
            try:
                answer = load(variant.cells(), exercise.entry)
            except ValueError:
                continue  # it cannot even be loaded
            took = seconds(exercise, answer)
            all_wrong.append(took)
            if took > wrong:
                wrong, slowest = took, variant.name
        rows.append((exercise.id, solved, wrong, slowest))
        print(f"{exercise.id:<45} {solved:6.2f} {wrong:6.2f} {slowest}", flush=True)
    if chosen.exercise:
        return
    times = [solved for _, solved, _, _ in rows]
    report = [
        "# What a check costs",
        "",
        f"{date.today().isoformat()}, {os.cpu_count()} CPU cores. Seconds of CPU of one check on a machine without a GPU; the "
        f"goal is {MEDIAN:g} in the median and {MOST:g} at most. Published solutions: median {statistics.median(times):.2f}, at most "
        f"{max(times):.2f}." + _of_the_wrong(all_wrong),
        "",
        "| exercise | published solution | slowest wrong answer | which one |",
        "| --- | --- | --- | --- |",
        *(f"| {name} | {solved:.2f} | {wrong or 0:.2f} | {slowest} |" for name, solved, wrong, slowest in rows),
    ]
    RESULT.write_text("\n".join(report) + "\n")
    print("\n".join(report[2:3]))


def _of_the_wrong(times: list[float]) -> str:
    if not times:
        return ""
    return f" Wrong answers ({len(times)}): median {statistics.median(times):.2f}, at most {max(times):.2f}."


if __name__ == "__main__":
    main()
