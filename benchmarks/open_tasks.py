"""Bytes, and on a GPU times, of the published answers to the open tasks: course_lib/hardware/measured/open_tasks.json.

    python benchmarks/open_tasks.py      counts bytes by traces, without a GPU; with one, times them too

tests/check/test_open_tasks.py counts one of them again.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib import open_tasks, render  # noqa: E402
from course_lib.exercise import Verdict  # noqa: E402
from course_lib.hardware import measurements  # noqa: E402
from course_lib.open_tasks import tasks  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402


def main() -> None:
    answers = {}
    for exercise_id, task in tasks.TASKS.items():
        spent = open_tasks.count(task, published(exercise_id, on_the_cpu=not bench.has_gpu()))
        if isinstance(spent, Verdict):
            raise SystemExit(render.text(spent))
        answers[exercise_id] = asdict(spent)
        print(exercise_id, spent)
    measurements.write("open_tasks", answers)


if __name__ == "__main__":
    main()
