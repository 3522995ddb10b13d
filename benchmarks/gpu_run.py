"""Everything that needs a GPU, one step after another: `python benchmarks/gpu_run.py [STEP ...]`, all if none is named.

    tests                   tests/gpu
    latency, tiling, ...    each benchmark of this folder that measures a GPU, attention's part by part as attention-PART;
                            `python benchmarks/NAME.py` says more
    00_start_here, ...      each solution notebook, executed by `python -m grader build --again`: its outputs are this machine's
                            then, and its figures show what the benchmarks recorded

One table, last, and in benchmarks/results/gpu_run.md: what each step said, on which machine, when, in how many seconds. Steps that
were left out keep their last row. `--minutes 10` ends a step that takes longer. The exit status counts the steps that failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.exercises import UNITS  # noqa: E402
from tritontrace import gpu  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "gpu_run.md"
BENCHMARKS = [
    "right",
    "latency",
    "hopper_costs",
    "mystery_plot",
    "coalescing",
    "tiling",
    "matmul",
    "fusion",
    "fusion_peers",
    "recomputation",
    *(f"attention-{part}" for part in ("counters", "ladder", "forward", "backward", "lengths", "decode")),
    "model",
    "timing",
    "trace_vs_counters",
]
HEAD = "| step | outcome | seconds | machine | date |\n| --- | --- | --- | --- | --- |\n"


@dataclass
class Step:
    """name, and the command line of Python that does it, without the interpreter."""

    name: str
    command: list[str]

    def outcome(self, output: str) -> str:
        """The result of a run that went well, in a few words."""
        lines = [line.strip(" =") for line in output.splitlines() if line.strip()]
        if self.name == "tests":
            return re.sub(
                r" in [\d.]+s.*", "", next((line for line in reversed(lines) if " passed" in line), lines[-1])
            )
        if self.name in UNITS:
            return f"{points(ROOT / 'solutions' / self.name / f'{self.name}.ipynb')}"
        table = ROOT / "benchmarks" / "results" / f"{self.name.partition('-')[0]}.md"
        return f"[table]({table.name})" if table.exists() else "measured"


def steps() -> list[Step]:
    return [
        Step("tests", ["-m", "pytest", "tests/gpu"]),
        *[
            Step(name, [f"benchmarks/{program}.py", *part])
            for name in BENCHMARKS
            for program, *part in [name.split("-")]
        ],
        *[Step(unit, ["-m", "grader", "build", "--again", unit]) for unit in UNITS],
    ]


def points(path: Path) -> str:
    """Points that an executed notebook's checks gave, of how many."""
    import nbformat

    graded = [cell for cell in nbformat.read(path, 4).cells if cell.metadata.get("nbgrader", {}).get("grade")]
    given = sum(
        float(out.data["text/plain"])
        for cell in graded
        for out in cell.outputs
        if "data" in out and "execution_count" in out
    )
    return f"{given:g} of {sum(cell.metadata.nbgrader.points for cell in graded):g} points"


def run(step: Step, minutes: float) -> tuple[str, float]:
    """(what came out, seconds)."""
    print(f"\n--- {step.name}: python {' '.join(step.command)}", flush=True)
    started = time.perf_counter()
    try:
        done = subprocess.run(
            [sys.executable, *step.command],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60 * minutes,
        )
    except subprocess.TimeoutExpired:
        return f"**ended after {minutes:g} minutes**", time.perf_counter() - started
    print(done.stdout, end="")
    outcome = step.outcome(done.stdout) if done.returncode == 0 else f"**failed** ({done.returncode})"
    return outcome, time.perf_counter() - started


def rows() -> Iterator[tuple[str, str]]:
    """(step, its row) of the last table."""
    for line in RESULT.read_text().splitlines() if RESULT.exists() else ():
        if line.startswith("| ") and not line.startswith(("| step", "| ---")):
            yield line.split("|")[1].strip(), line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", metavar="STEP", choices=[[], *(step.name for step in steps())])
    parser.add_argument("--minutes", type=float, default=15.0, help="for each step")
    options = parser.parse_args()
    here = gpu.current()
    if here is None:
        print("There is no GPU here, and all of this measures one.")
        return 2
    table, failed = dict(rows()), 0
    for step in steps():
        if options.steps and step.name not in options.steps:
            continue
        outcome, seconds = run(step, options.minutes)
        failed += outcome.startswith("**")
        table[step.name] = f"| {step.name} | {outcome} | {seconds:.0f} | {here.name} | {date.today().isoformat()} |"
        order = [each.name for each in steps() if each.name in table]
        text = "# Everything that needs a GPU\n\n`python benchmarks/gpu_run.py`\n\n" + HEAD
        RESULT.write_text(text + "\n".join(table[name] for name in order) + "\n")  # now: a later step may be the last
    print("\n" + RESULT.read_text())
    return failed


if __name__ == "__main__":
    sys.exit(main())
