"""Measure what importing costs, against `import torch`: `python benchmarks/imports.py`. Needs no GPU.

Each statement runs in fresh processes, in turn with `import torch`, RUNS times. Writes benchmarks/results/imports.md. The
promise is `import course_lib` in at most 1.5 times the time of `import torch`; it is kept by importing nothing, which
tests/unit/test_what_is_imported.py counts.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "imports.md"
RUNS = 5
STATEMENTS = {
    "import torch": "what all others are compared with",
    "import course_lib": "names load when they are first used",
    "from course_lib import check, hint, progress, trace": "Triton besides torch: paid once, before any fork",
    "from course_lib import check, figures, gpu, hint, progress, trace": "what a unit's first cell imports",
}


def seconds(statement: str) -> float:
    """Wall time of a fresh Python that runs it."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, cwd=ROOT)
    return time.perf_counter() - started


def main() -> None:
    for statement in STATEMENTS:
        seconds(statement)  # from here on the files are in memory
    runs = [{statement: seconds(statement) for statement in STATEMENTS} for _ in range(RUNS)]
    took = {statement: statistics.median(run[statement] for run in runs) for statement in STATEMENTS}
    lines = [
        "# What importing costs",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores; medians of {RUNS} "
        "fresh processes each, Python's own start included. `python benchmarks/imports.py`",
        "",
        "| | seconds | / torch | |",
        "| --- | --- | --- | --- |",
    ]
    for statement, why in STATEMENTS.items():
        lines.append(
            f"| `{statement}` | {took[statement]:.2f} | {took[statement] / took['import torch']:.2f} | {why} |"
        )
    RESULT.write_text("\n".join([*lines, ""]), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
