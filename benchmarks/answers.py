"""Each published kernel on a GPU: is it right there, and how fast? `python benchmarks/answers.py [EXERCISE ...]`, all if none is named.

Right or wrong on the public cases, as a check finds it; those with a speed case are timed against its baseline, as a check does. The
numbers go to course_lib/hardware/measured/answers.json, from which a verdict on a machine without a GPU says what the published
answer reached, and the table to benchmarks/results/answers.md; those that were left out keep theirs. About six minutes on an H200. The
exit status counts the answers that are not right.
"""

from __future__ import annotations

import sys
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib import judging  # noqa: E402
from course_lib.execution import gpu_process, observe, on_gpu, record_all  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from course_lib.exercises import UNITS  # noqa: E402
from course_lib.hardware import measurements  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace import gpu  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

SEED = 20261129


def measured(exercise: Exercise) -> dict[str, Any]:
    """Judge the published answer, and return what its verdict says of the GPU."""
    function = published(exercise.id)
    trials = observe(exercise, function, SEED, seconds=600, compile_seconds=60)

    def record(calls: list) -> list:
        return record_all(function, calls, called=exercise.called)

    verdict = judging.judge(exercise, trials, SEED, record, gpu=judging.GPUPolicy(gpu_process.run_in_this_process))
    found = next((f for f in verdict.findings if f.key == "right_on_gpu"), None)
    status = found.status if found else "not run"
    row: dict[str, Any] = {"right": status == "passed", "cases": sum(bool(t.evidence.on_gpu) for t in trials)}
    if status != "passed":
        row["said"] = found.seen if found else status
    if timing := trials[0].evidence.timing:
        row |= {"case": timing.case, "against": timing.baseline, "ratio": timing.ratio, "spread": timing.spread}
        row |= {"microseconds": timing.microseconds} | ({"problem": timing.problem} if timing.problem else {})
    return row


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    """The rows of the page."""
    rows = ["| exercise | right there | microseconds | against | ratio |", "| --- | --- | --- | --- | --- |"]
    for name, row in found.items():
        right = f"{row['cases']} cases" if row["right"] else f"**{row['said']}**"
        timed = ["", "", ""]
        if "against" in row:
            timed = [f"{row['microseconds']:,.1f}", f"{row['against']}, {row['case']}"]
            timed.append(row.get("problem") or f"{row['ratio']:.2f} ± {row['spread']:.2f}")
        rows.append(f"| {name} | {right} | {' | '.join(timed)} |")
    return rows


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    known = measurements.measured("answers")["answers"] if measurements.path("answers").exists() else {}
    found = {}
    for unit in UNITS.values():
        for exercise in import_module(f"course_lib.exercises.{unit}").EXERCISES.values():
            if on_gpu.can_run(exercise) and (not sys.argv[1:] or exercise.id in sys.argv[1:]):
                found[exercise.id] = measured(exercise)
                print(exercise.id, found[exercise.id], flush=True)
    card = gpu.current()
    head = {"machine": card.name if card else torch.cuda.get_device_name(), "date": date.today().isoformat()}
    recorded = measurements.write(
        "answers", head | {"torch": torch.__version__, "triton": triton.__version__} | {"answers": known | found}
    )
    page = [
        f"# The published kernels on {torch.cuda.get_device_name()}",
        "",
        f"{head['date']}, torch {torch.__version__}, triton {triton.__version__}. `ratio` is baseline time / kernel time, in one "
        "interleaved run, with its spread. Made by `python benchmarks/answers.py`.",
        "",
        *table(recorded["answers"]),
        "",
    ]
    (ROOT / "benchmarks" / "results" / "answers.md").write_text("\n".join(page))
    return sum(not row["right"] for row in found.values())


if __name__ == "__main__":
    sys.exit(main())
