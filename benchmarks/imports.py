"""Measure what importing costs, against `import torch`: `python benchmarks/imports.py`. Needs no GPU.

Each statement runs in fresh processes, in turn with `import torch`, RUNS times: seconds of CPU until it is done, since other
processes slow a clock down more. Python's bytecode is there, as it is for a learner from the second time on. Writes
benchmarks/results/imports.md. The promise is a unit's first cell in at most 1.2 times the time of `import torch`; it is kept by
importing nothing that is not asked for, which tests/unit/test_what_is_imported.py counts.

"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "benchmarks" / "results" / "imports.md"
RUNS = 9
STATEMENTS = {
    "import torch": "what all others are compared with",
    "import course_lib": "names load when they are first used",
    "import torch, triton, triton.language": "Triton besides torch: what a notebook imports by itself",
    "from course_lib import check, hint, progress, trace": "paid once, before any fork",
    "from course_lib import check, figures, gpu, hint, progress, trace": "all that a unit without kernels imports",
    "import torch, triton, triton.language; from course_lib import attempt, bench, check, compile_for, figures, gpu, hint, profile, "
    "progress, trace; import course_lib.hardware.measurements": "a unit's first cell, of those that import most",
}


def bytecode_kept() -> dict[str, str]:
    """The environment of a Python that finds bytecode and writes what is missing, whatever this one does."""
    bytecode = {"PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bytecode")}
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | bytecode


def seconds(statement: str) -> float:
    """CPU time of a fresh Python until it has run it."""
    code = f"{statement}\nimport time; print(time.process_time())"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=bytecode_kept(), capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{statement!r} failed")
    return float(ran.stdout)


def main() -> None:
    for statement in STATEMENTS:
        seconds(statement)  # from here on the files are in memory
    runs = [{statement: seconds(statement) for statement in STATEMENTS} for _ in range(RUNS)]
    lines = [
        "# What importing costs",
        "",
        f"{date.today().isoformat()}, Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores; seconds of CPU of "
        f"{RUNS} fresh processes each, Python's own start included: medians, and the least and the most. "
        "`python benchmarks/imports.py`",
        "",
        "| | seconds | / torch | |",
        "| --- | --- | --- | --- |",
    ]
    for statement, why in STATEMENTS.items():
        took = [run[statement] for run in runs]
        ratio = statistics.median(run[statement] / run["import torch"] for run in runs)
        lines.append(
            f"| `{statement}` | {statistics.median(took):.2f} ({min(took):.2f} to {max(took):.2f}) | {ratio:.2f} | {why} |"
        )
    RESULT.write_text("\n".join([*lines, ""]), "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
