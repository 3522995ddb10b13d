"""Measure the memory of grading a class, by `python benchmarks/class_memory.py --students 400 --workers 2`.

The synthetic class of grading.py is graded by the command that an instructor types. Each second the memory of all its
processes is read, what they share counted once; with it goes how many pages are written. The table takes its unit's place in
benchmarks/results/class_memory.md. It has the most that was seen until so many pages, and how much the second half of the
class added to that, for 100 submissions.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from grading import hand_in, memory_of, with_section  # noqa: E402

from course_lib.exercises import UNITS  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "class_memory.md"


def watched(home: Path, unit: str, workers: int) -> list[tuple[int, float]]:
    """(pages written, MB in memory) each second while the class in `home` is graded."""
    command = [sys.executable, "-m", "grader", "autograde", unit, "--workers", str(workers), "--accept-risk"]
    running = subprocess.Popen(
        command, cwd=ROOT, env=os.environ | {"GRADER_HOME": str(home)}, stdout=subprocess.DEVNULL
    )
    seen = []
    while running.poll() is None:
        pages = sum(1 for _ in home.glob(f"feedback/*/{unit}/{unit}.html"))
        seen.append((pages, memory_of(running.pid)))
        time.sleep(1)
    if running.returncode:
        raise SystemExit(f"autograde ended with {running.returncode}")
    return seen


def table(seen: list[tuple[int, float]], unit: str, students: int, workers: int) -> str:
    """The measurement as a section of a page."""
    marks = [count for count in (5, 20, 50, 100, 200, 400) if count < students] + [students]
    most = {count: max(megabytes for pages, megabytes in seen if pages <= count) for count in marks}
    half = max(megabytes for pages, megabytes in seen if pages <= students / 2)
    slope = (most[students] - half) / (students / 2) * 100
    head = f"{date.today().isoformat()}, {workers} workers, no GPU. MB of all processes together."
    lines = [f"## {unit}, {students} submissions", "", head, "", "| pages | most MB so far |", "| --- | --- |"]
    lines += [f"| {count} | {megabytes:,.0f} |" for count, megabytes in most.items()]
    return "\n".join([*lines, "", f"In the second half of the class, 100 submissions add {slope:.0f} MB to that."])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unit", default="04_memory_coalescing", choices=list(UNITS))
    parser.add_argument("--students", type=int, default=400)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        for student in hand_in(Path(folder) / "class", options.unit, options.students):
            shutil.copytree(Path(folder) / "class" / student, home / "submitted" / student)
        text = table(watched(home, options.unit, options.workers), options.unit, options.students, options.workers)
    print(text)
    RESULT.write_text(with_section(RESULT.read_text() if RESULT.exists() else "", text, "Memory of grading"))


if __name__ == "__main__":
    main()
