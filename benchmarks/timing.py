"""How repeatable the grader's timings are, on a GPU: `python benchmarks/timing.py [UNIT ...]`, unit 04 if none.

Each published solution with a bonus is timed as the grader times it, RUNS times: other inputs and another sandboxed process each
time, some seconds each. The table goes to benchmarks/results/timing.md; a quiet GPU keeps every `range` below 5 %.
"""

from __future__ import annotations

import statistics
import sys
from datetime import date
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import grader  # noqa: E402
from course_lib.execution import record_all, timed  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from grader.child import gpu_child, sandbox  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

RUNS, RANGE = 4, 0.05


def ratios(exercise: Exercise) -> list[float]:
    """RUNS ratios of one solution. RuntimeError with the sentence if one was not measured."""
    function = published(exercise.id)
    found = []
    for seed in range(RUNS):
        (log,) = record_all(function, [[exercise.bonus[0].case.arguments(seed)]])
        took = timed.measure(exercise, log, seed, log["kernels"], gpu_child.run)
        if took.problem:
            raise RuntimeError(f"{exercise.id}: {took.problem}")
        found.append(took.ratio)
    return found


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    lines, steady = [], True
    for unit in sys.argv[1:] or ["04_memory_coalescing"]:
        for exercise in grader.exercises(unit).values():
            if exercise.bonus:
                found = ratios(exercise)
                middle = statistics.median(found)
                spread = (max(found) - min(found)) / middle
                steady &= spread <= RANGE
                each = ", ".join(f"{value:.3f}" for value in found)
                lines.append(f"| {exercise.id} | {exercise.bonus[0].vs} | {middle:.3f} | {each} | {spread:.1%} |")
                print(lines[-1], flush=True)
    table = "\n".join(
        [
            f"# The grader's timings, {RUNS} times each, {torch.cuda.get_device_name()}",
            "",
            f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}, sandbox: {sandbox.level()}. "
            "`ratio` is baseline time / kernel time; `range` is (largest - smallest) / median.",
            "",
            "| exercise | against | ratio | each run | range |",
            "| --- | --- | --- | --- | --- |",
            *lines,
            "",
        ]
    )
    (ROOT / "benchmarks" / "results" / "timing.md").write_text(table)
    print(table)
    return 0 if steady else 1


if __name__ == "__main__":
    sys.exit(main())
