"""Do trace and GPU agree? Variants of every kernel exercise, traced and compiled: `python benchmarks/gpu_agreement.py [--minutes 8]`.

Every variant that has no fault as traced (it stays in its tensors, races nowhere, comes to an end) runs compiled on the public cases,
on the inputs that were traced. The table in benchmarks/results/gpu_agreement.md says where both find it right, where both find it
wrong, and each disagreement. Variants with faults stay off the card: one that leaves its tensors can stop a GPU for everybody.

As many processes as there are cores, each with a share of the variants in random order, so that what is done when time is over is a
fair sample. One that a kernel ends, or holds for a minute, is replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.criteria.results import GradedTrial  # noqa: E402
from course_lib.evidence import Evidence  # noqa: E402
from course_lib.execution import gpu_process, observe, on_gpu, record_apart  # noqa: E402
from course_lib.exercise import Exercise, Trial  # noqa: E402
from course_lib.exercises import UNITS, find  # noqa: E402
from grader.audit import variants  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402
from tritontrace.replay import load  # noqa: E402
from tritontrace.replay.child import ChildLost  # noqa: E402

SEED, HOLDS = 20261129, 60  # seconds of one variant


def jobs() -> list[variants.Variant]:
    """The variants of all kernel exercises that this GPU can run, in an order that is random and the same everywhere. Without
    those that would fill this machine's disk or memory: nothing here holds them."""
    every = [v for unit in UNITS.values() for v in variants.of_unit(unit) if v.script != "cheats/ruinous"]
    chosen = [v for v in every if on_gpu.can_run(find(v.exercise))]
    random.Random(3).shuffle(chosen)
    return chosen


def compared(exercise: Exercise, variant: variants.Variant) -> dict[str, Any]:
    """traced, there: "right" or "wrong", and what else there is to say. why: of the first case on which they differ."""
    function = load(variant.cells(), exercise.entry, on_the_cpu=True)
    try:
        trials = observe(exercise, function, SEED, seconds=HOLDS, compile_seconds=1.0)
        if any(t.evidence.faults or t.evidence.hazards or t.evidence.error or t.evidence.refused for t in trials):
            return {"traced": "fault", "there": "not tried"}
        calls = [[t.case.arguments(SEED + call) for call in range(len(t.inputs))] for t in trials]
        logs = record_apart(exercise, function, calls, seconds=HOLDS)
    except (ChildLost, ValueError) as lost:
        return {"traced": "fault", "there": "not tried", "why": str(lost)[:120]}
    on_gpu.run(exercise, logs, trials, gpu_process.run_in_this_process)
    found = {"traced": "right", "there": "right"}
    for trial in trials:
        run = trial.evidence.on_gpu
        traced = GradedTrial.of(exercise, trial).difference
        if run is None or run.not_run:
            return found | {"there": "not run", "why": run.said if run else "stopped before"}
        if run.error:
            return found | {"there": "stopped", "why": f"{trial.case.name}: {run.said}"}
        there = difference(exercise, trial, run.outputs)
        if traced is not None:
            found["traced"] = "wrong"
        if there is not None:
            found["there"] = "wrong"
        if (traced is None) != (there is None) and "why" not in found:
            found["why"] = f"{trial.case.name}: {(traced or there).seen}"  # pyright: ignore[reportOptionalMemberAccess]
    return found


def difference(exercise: Exercise, trial: Trial, outputs: list[Any]) -> Any:
    """The finding on results of the GPU; None if they are right."""
    evidence = Evidence(trial.case.name, outputs=outputs, launches=trial.evidence.launches)
    return GradedTrial(trial.case, trial.inputs, evidence, exercise).difference


# ------------------------------------------------------------------------------------------------------- workers


def work(worker: int, workers: int, folder: Path) -> None:
    """Judge one share. A variant that ended this process stays unfinished in the file, and is told as lost by the next one."""
    path = folder / f"{worker}.jsonl"
    begun = {json.loads(line)["number"] for line in path.read_text().splitlines()} if path.exists() else set()
    for number, variant in enumerate(jobs()):
        if number % workers != worker or number in begun:
            continue
        row = {"number": number, "exercise": variant.exercise, "name": variant.name, "full": not variant.loses}
        tell(path, row)
        signal.alarm(HOLDS)
        try:
            found = compared(find(variant.exercise), variant)
        except Exception as error:
            found = {"traced": "?", "there": "not run", "why": f"{type(error).__name__}: {str(error)[:120]}"}
        signal.alarm(0)
        tell(path, row | found)
        if found["there"] == "stopped":
            sys.exit(3)  # no GPU work runs in this process any more


def tell(path: Path, row: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")


def run(folder: Path, minutes: float, workers: int) -> None:
    """Let workers work until all is done or time is over; one that ends early is replaced."""
    command = [sys.executable, __file__, "--worker"]
    deadline = time.monotonic() + 60 * minutes
    running = {w: subprocess.Popen([*command, f"{w}/{workers}", str(folder)]) for w in range(workers)}
    while running and time.monotonic() < deadline:
        time.sleep(0.5)
        for worker, process in [*running.items()]:
            if process.poll() == 0:
                running.pop(worker)
            elif process.poll() is not None:
                running[worker] = subprocess.Popen([*command, f"{worker}/{workers}", str(folder)])
    for process in running.values():
        process.kill()


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield what came of each variant that was begun and is not cut off by the end of time."""
    for path in sorted(folder.glob("*.jsonl")):
        told: dict[int, dict[str, Any]] = {}
        lines = path.read_text().splitlines(keepends=True)
        for line in lines[: None if lines[-1].endswith("\n") else -1]:  # time was over within the last one
            row = json.loads(line)
            told[row["number"]] = told.get(row["number"], {}) | row
        last = max(told, default=-1)
        for number, row in sorted(told.items()):
            if "traced" in row:
                yield row
            elif number != last:
                yield row | {"traced": "?", "there": "lost", "why": "it ended its process, or held it for a minute"}


def page(found: Sequence[dict[str, Any]], of: int) -> list[str]:
    """The lines of the table."""
    counted = Counter((row["traced"], row["there"]) for row in found)
    differ = [row for row in found if row["there"] not in ("not tried", row["traced"])]
    lines = [
        f"# Trace and {torch.cuda.get_device_name()}",
        "",
        f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}: {len(found)} of {of} variants of kernel "
        "exercises, on the public cases. Made by `python benchmarks/gpu_agreement.py`.",
        "",
        "| as traced | on the GPU | variants |",
        "| --- | --- | --- |",
        *[f"| {traced} | {there} | {n} |" for (traced, there), n in sorted(counted.items())],
        "",
        "Where they differ, or nothing is known:",
        "",
        "| exercise | variant | full marks | as traced | on the GPU | why |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(differ, key=lambda row: (row["there"], row["exercise"])):
        cells = [
            row["exercise"],
            row["name"],
            "yes" if row["full"] else "",
            row["traced"],
            row["there"],
            row.get("why", ""),
        ]
        lines.append(f"| {' | '.join(cell.replace('|', '/').replace(chr(10), ' ') for cell in cells)} |")
    return [*lines, ""]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--worker", nargs=2, metavar=("I/P", "FOLDER"), help="of its own: one of the processes")
    arguments = parser.parse_args()
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    if arguments.worker:
        worker, workers = map(int, arguments.worker[0].split("/"))
        torch.set_num_threads(1)
        work(worker, workers, Path(arguments.worker[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), arguments.minutes, len(os.sched_getaffinity(0)))
        found = [*rows(Path(folder))]
    text = "\n".join(page(found, len(jobs())))
    (ROOT / "benchmarks" / "results" / "gpu_agreement.md").write_text(text)
    print(text)
    return sum(row["full"] and (row["traced"], row["there"]) == ("right", "wrong") for row in found)


if __name__ == "__main__":
    sys.exit(main())
