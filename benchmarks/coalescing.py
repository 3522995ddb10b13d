"""Unit 04's solutions against a copy of as many bytes, on a GPU: `python benchmarks/coalescing.py`.

Each row is one interleaved run: median of the ratios copy time / kernel time, and their median absolute deviation. The
table goes to benchmarks/results/coalescing.md.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.execution import timed  # noqa: E402
from course_lib.exercises.coalescing import EXERCISES  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

FLOOR = 0.88  # what the references must reach; a student's full bonus lies a tenth below


def row(exercise) -> tuple[str, bool]:
    """A line of the table, and whether the solution is right and reaches the floor."""
    speed = exercise.bonus[0]
    arguments = speed.case.draw(torch.Generator("cuda").manual_seed(4))
    function = published(exercise.id, on_the_cpu=False)
    right = not timed.difference(exercise, arguments, function(**arguments))
    nbytes = int(speed.needed(**arguments))
    found = bench.ratio(lambda: function(**arguments), bench.copy_of(nbytes))
    line = (
        f"| {exercise.entry} | {speed.case.name} | {nbytes / 1e6:.0f} | {found.own_ms:.4f} | {found.baseline_ms:.4f} "
        f"| {found.speedup:.3f} ± {found.spread:.3f} | {nbytes / found.own_ms / 1e9:.2f} | {'yes' if right else 'NO'} |"
    )
    return line, right and found.speedup >= FLOOR


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    lines, passed = [], True
    for exercise in EXERCISES.values():
        if exercise.bonus:
            line, good = row(exercise)
            lines.append(line)
            passed &= good
            torch.cuda.empty_cache()
    table = "\n".join(
        [
            f"# Unit 04 against a device-to-device copy, {torch.cuda.get_device_name()}",
            "",
            f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}, float32. `ratio` is copy "
            f"time / kernel time for the same bytes, median of interleaved pairs ± median absolute deviation; references "
            f"must reach {FLOOR}, a student's full bonus is at {EXERCISES['coalescing.transpose'].bonus[0].full}.",
            "",
            "| kernel | size | MB moved | kernel ms | copy ms | ratio | TB/s | right |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *lines,
            "",
        ]
    )
    (ROOT / "benchmarks" / "results").mkdir(exist_ok=True)
    (ROOT / "benchmarks" / "results" / "coalescing.md").write_text(table)
    print(table)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
