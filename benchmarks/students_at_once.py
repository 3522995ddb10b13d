"""Measure students at work at once on this machine, by `python benchmarks/students_at_once.py --students 8`.

Each student is a kernel as JupyterLab starts one: it imports the course, and does ten checks of unit 04 with the published answers.
All begin together, as in a lesson; --pause says how many seconds lie between two checks of a student. What is lost is a check
that gave no full points or no answer within ten minutes. The table goes to benchmarks/results/students_at_once.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grading import memory_of  # noqa: E402
from jupyter_client.manager import KernelManager  # noqa: E402

import grader  # noqa: E402
from grader import published  # noqa: E402

UNIT = "04_memory_coalescing"
CHECKS, PATIENCE = 10, 600
RESULT = ROOT / "benchmarks" / "results" / "students_at_once.md"


@dataclass
class Work:
    """Seconds of one student's first import and of each check, and what was lost of these."""

    importing: float = 0.0
    checks: list[float] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def student(pause: float) -> Work:
    """One student's lesson in a kernel of their own."""
    manager, work = KernelManager(), Work()
    manager.start_kernel(cwd=str(ROOT), env=os.environ | {"COURSE_PROGRESS": os.devnull})
    client = manager.blocking_client()
    client.start_channels()

    def run(code: str) -> tuple[float, str]:
        started, printed = time.monotonic(), []

        def heard(message: dict) -> None:
            printed.append(str(message["content"].get("data") or message["content"].get("text", "")))

        try:
            reply = client.execute_interactive(code, timeout=PATIENCE, output_hook=heard)
        except (TimeoutError, RuntimeError) as error:
            return time.monotonic() - started, f"lost: {error}"
        status = reply["content"]["status"]
        return time.monotonic() - started, "".join(printed) if status == "ok" else f"lost: {status}"

    try:
        client.wait_for_ready(timeout=PATIENCE)
        imports = "from course_lib import check, figures, gpu, hint, progress, trace\n"
        work.importing, _ = run(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{imports}")
        for exercise in list(grader.exercises(UNIT).values())[:CHECKS]:
            cells = published.answer(exercise.id, published.solution_cell(exercise.id))
            code = "\n".join(text for _, text in cells)
            seconds, said = run(f"{code}\ncheck({exercise.id!r}, {exercise.entry})")
            work.checks.append(seconds)
            if said.startswith("lost") or f"{exercise.points:g} / {exercise.points:g}" not in said:
                work.lost.append(exercise.id)
            time.sleep(pause)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    memory, over, started = [0.0], threading.Event(), time.monotonic()

    def watch() -> None:
        while not over.wait(1):
            memory.append(memory_of(os.getpid()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(options.students) as lesson:
        works = list(lesson.map(student, [options.pause] * options.students))
    over.set()
    watcher.join()
    checks = [seconds for work in works for seconds in work.checks]
    lost = [id for work in works for id in work.lost]
    load = os.getloadavg()[0]
    rows = {
        "all done after, s": f"{time.monotonic() - started:.0f}",
        "first import, s: median, slowest": f"{statistics.median(w.importing for w in works):.0f}, {max(w.importing for w in works):.0f}",
        "a check, s: median, slowest": f"{statistics.median(checks):.1f}, {max(checks):.1f}",
        "memory of all, this script included, GB": f"{max(memory) / 1024:.2f}",
        "checks lost": f"{len(lost)} of {len(checks)}" + (f": {', '.join(sorted(set(lost)))}" if lost else ""),
    }
    head = f"{date.today().isoformat()}, {options.students} students, {len(os.sched_getaffinity(0))} cores, load {load:.1f} at the end, "
    head += f"{CHECKS} checks each of {UNIT}, {options.pause:g} s between two."
    table = "\n".join(f"| {what} | {value} |" for what, value in rows.items())
    text = f"# Students at once\n\n{head}\n\n| | |\n| --- | --- |\n{table}\n"
    print(text)
    RESULT.write_text(text)


if __name__ == "__main__":
    main()
