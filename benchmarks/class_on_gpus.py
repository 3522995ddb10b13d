"""How much sooner two GPUs are done with a class than one: `python benchmarks/class_on_gpus.py`, two to three minutes on two GPUs.

A class hands in the published answer to one kernel exercise, each student's text another one. It is judged as `grader autograde` judges
it, by as many workers on the first GPU and then on the first two. Who starts the workers is not in the times: a larger class pays that
once, too. The exit status says whether two GPUs took at most GOAL of the time of one, and each answer got the same verdict on both.

`--exercise coalescing.row_copy --students 6` judges answers that are timed, too. `--workers 4` is the default.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

GOAL = 0.55
ONE_CLASS = "ON_THESE_GPUS"  # is set in a process that judges on what it sees


def judged(exercise_id: str, students: int, workers: int) -> dict[str, object]:
    """Judge the class on the GPUs in sight. seconds, and what each answer got."""
    from course_lib.exercises import find
    from grader import exercises, published
    from grader.cohort.classroom import ClassGrader

    exercise = find(exercise_id)
    first = next(e for e in exercises(published.unit_of(exercise.id)).values() if e.kind != "kernel")
    *imports, (name, source) = published.answer(exercise.id, published.solution_cell(exercise.id))
    small = published.answer(first.id, published.solution_cell(first.id))
    with tempfile.TemporaryDirectory() as folder, ClassGrader(Path(folder), workers=workers, accept_risk=True) as room:

        def jobs(what, of, count):
            made = [room.jobs(f"s{n}", [room.answer(what, of(n), f"s{n}")]) for n in range(count)]
            return [replace(job, canary=None) for (job,) in made]

        list(room.judge(jobs(first, lambda n: small, workers)))  # torch is loaded in each
        class_ = jobs(exercise, lambda n: [*imports, (name, f"{source}\n# {n}")], students)
        before, results = time.perf_counter(), []
        for _, verdicts in room.judge(class_):
            results += [[v.points, v.bonus > 0, v.gpu] for v in verdicts.values()]
        return {"seconds": time.perf_counter() - before, "verdicts": sorted(results), "on": room.device}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercise", default="start.add_one")
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    options = parser.parse_args()
    if os.environ.get(ONE_CLASS):
        print(json.dumps(judged(options.exercise, options.students, options.workers)))
        return 0
    import torch

    if torch.cuda.device_count() < 2:
        print("This benchmark needs two NVIDIA GPUs.")
        return 2
    runs = []
    for gpus in ("0", "0,1"):
        seen = os.environ | {"CUDA_VISIBLE_DEVICES": gpus, ONE_CLASS: "1"}
        done = subprocess.run([sys.executable, __file__, *sys.argv[1:]], env=seen, stdout=subprocess.PIPE, check=True)
        runs.append(json.loads(done.stdout.splitlines()[-1]))
        print(f"GPUs {gpus}, {runs[-1]['on']}: {options.students} answers in {runs[-1]['seconds']:.1f} s", flush=True)
    one, two = runs
    share = two["seconds"] / one["seconds"]
    alike = one["verdicts"] == two["verdicts"] and all(gpu for *_, gpu in one["verdicts"])
    print(f"Two GPUs took {share:.2f} of the time of one (goal {GOAL}); verdicts alike: {'yes' if alike else 'no'}.")
    return 0 if share <= GOAL and alike else 1


if __name__ == "__main__":
    sys.exit(main())
