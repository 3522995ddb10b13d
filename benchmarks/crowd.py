"""How long an honest class waits behind costly submissions, by `python benchmarks/crowd.py`.

Thirty students hand in the published solutions of unit 04, once alone and once behind everything that is known to make a
class stand still (tests/grader/test_hostile_crowd.py has the submissions). A wait is the time on the clock until the last
honest student has all verdicts; the goal is at most twice the wait alone. The table goes to benchmarks/results/crowd.md.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "grader")]

import test_hostile_crowd as crowd  # noqa: E402

import grader  # noqa: E402
from course_lib.exercises import find  # noqa: E402
from grader import published  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "crowd.md"
TURNS, GOAL = 3, 2.0
KERNEL = find("coalescing.row_copy").grade_id


def honest() -> dict:
    """The notebook of a student who has solved the whole unit."""
    exercises = grader.exercises(crowd.UNIT).values()
    return crowd.notebook(
        *[crowd.code(published.solution_cell(e.id), e.grade_id) for e in exercises if e not in crowd.QUICK]
    )


def wait(hostile: dict) -> float:
    """Seconds on the clock until all honest students have their verdicts."""
    with tempfile.TemporaryDirectory() as home:
        crowd.hand_in_all(Path(home), hostile, honest())
        return crowd.graded(Path(home))[1]


def main() -> None:
    names = [name for name in crowd.KERNELS for _ in range(4)][:10]
    kernels = {f"{name}-{n}": crowd.notebook(crowd.code(crowd.KERNELS[name], KERNEL)) for n, name in enumerate(names)}
    costly = crowd.READ | crowd.RUN | kernels
    waits = [(wait({}), wait(costly)) for _ in range(TURNS)]
    ratios = [behind / alone for alone, behind in waits]
    rows = "".join(
        f"| {alone:.1f} | {behind:.1f} | {ratio:.2f} |\n" for (alone, behind), ratio in zip(waits, ratios, strict=True)
    )
    RESULT.write_text(
        f"# What a costly submission costs the others\n\n{date.today()}, 2 workers. {crowd.HONEST} honest submissions of "
        f"{crowd.UNIT}, alone and behind {len(costly)} costly ones: seconds on the clock until the last honest student has "
        f"all verdicts. Behind them they wait {statistics.median(ratios):.2f} times as long in the median of {TURNS} turns "
        f"({min(ratios):.2f} to {max(ratios):.2f}; the goal is at most {GOAL:g}).\n\n"
        f"| alone, s | behind them, s | ratio |\n| --- | --- | --- |\n{rows}"
    )
    print(RESULT.read_text())


if __name__ == "__main__":
    main()
