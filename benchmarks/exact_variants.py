"""Compare every variant of the kernel exercises of units 04 to 10 with the published solution, without rounding.

    python benchmarks/exact_variants.py [UNIT ...]     units by module name: coalescing, tiling, fusion, ...; or exercises

An answer that loses no criterion of correctness and no gate is right; it should be equal. Each right one that differs, and each that
cannot be evaluated, stands with its reason in benchmarks/exact_reasons.toml; the command ends with 1 where one is missing, or is
there for nothing. Rows go to benchmarks/results/exact.json, for the units that were run, and all of them to benchmarks/results/exact.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import tomllib
from collections import Counter
from datetime import date
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy  # noqa: E402
import torch  # noqa: E402
import triton  # noqa: E402

from course_lib.exercise import Exercise  # noqa: E402
from grader.audit.variants import of_unit  # noqa: E402
from grader.published import answer, called, solution_cell  # noqa: E402
from tritontrace.exact import Reference, equivalent  # noqa: E402
from tritontrace.replay import child  # noqa: E402

UNITS = ["coalescing", "tiling", "fusion", "recomputation", "attention", "flash", "flash_backward"]
ROWS, PAGE, REASONS = (
    ROOT / "benchmarks" / name for name in ("results/exact.json", "results/exact.md", "exact_reasons.toml")
)
ELEMENTS = 100_000  # of all tensors of a case: in larger ones nothing else happens
SECONDS, MEMORY = 30, 4 << 30  # of CPU and bytes, for one variant
# Kinds of cheats that are about a formula. trap: others fork, kill every process or fill the disk, and nothing here holds them
HARMLESS = {"torch computes", "values on the host"}


def cases(exercise: Exercise) -> list[dict[str, Any]]:
    """Choose of each group of cases the largest one that is small enough; of ragged ones three; of performance none."""
    groups: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for case in exercise.cases:
        arguments = case.arguments(0)
        size = sum(x.numel() for x in arguments.values() if isinstance(x, torch.Tensor))
        if case.group != "performance" and size <= ELEMENTS:
            groups.setdefault(case.group, []).append((size, arguments))
    chosen = []
    for group, found in groups.items():
        found.sort(key=lambda pair: -pair[0])
        chosen += [arguments for _, arguments in found[: 3 if group == "ragged" else 1]]
    return chosen


def compare(exercise: Exercise, right_alone: bool = False) -> list[dict[str, Any]]:
    """A row for each variant of an exercise, or for each right one."""
    drawn = cases(exercise)
    reference = Reference(called(exercise, answer(exercise.id, solution_cell(exercise.id))))
    assert equivalent(
        reference.function, reference, drawn
    )  # runs it, before children are forked that know what it gave
    rows = []
    for variant in compared(exercise):
        row = {"exercise": exercise.id, "name": variant.name, "loses": list(variant.loses)}
        if right_alone and not right(row):
            continue
        try:  # in a child: some variants end their process
            found, _ = child.run(
                partial(outcome_of, exercise, variant, reference, drawn), seconds=SECONDS, memory=MEMORY
            )
        except child.ChildLost as error:
            late = error.kind == "timeout"
            found = {"says": str(error), "outcome": "not applicable" if late else "does not run", "seconds": 0.0}
        if not isinstance(found, dict) or found.keys() != {"says", "outcome", "seconds"}:  # some write it themselves
            found = {
                "says": "its child gave another answer than the comparison's",
                "outcome": "does not run",
                "seconds": 0.0,
            }
        rows.append(row | found)
    return rows


def compared(exercise: Exercise) -> list[Any]:
    """The variants of an exercise but those that attack whoever runs them."""
    mine = [variant for variant in of_unit(exercise.id.split(".")[0]) if variant.exercise == exercise.id]
    return [variant for variant in mine if set(variant.flags) <= HARMLESS]


def outcome_of(exercise: Exercise, variant: Any, reference: Reference, drawn: list[dict[str, Any]]) -> dict[str, Any]:
    """The outcome of a comparison: "says", "outcome", and "seconds" of CPU."""
    before = time.process_time()
    try:
        result = equivalent(called(exercise, variant.cells()), reference, drawn)
        found = {"says": "" if result else str(result), "outcome": result.outcome}
    except BaseException as error:
        found = {"says": f"{type(error).__name__}: {error}".splitlines()[0][:200], "outcome": "does not run"}
    return found | {"seconds": round(time.process_time() - before, 2)}


def _exercises() -> list[Exercise]:
    """The exercises with kernels."""
    found = (e for unit in UNITS for e in import_module(f"course_lib.exercises.{unit}").EXERCISES.values())
    return [e for e in found if e.kind == "kernel"]


def right(row: dict[str, Any]) -> bool:
    """Whether a variant loses no criterion of correctness, and no gate, behind which nothing is judged."""
    return not any(key.startswith("correct.") or key in {"runs"} | _gates() for key in row["loses"])


@cache
def _gates() -> frozenset[str]:
    return frozenset(gate.key for exercise in _exercises() for gate in exercise.gates)


OUTCOMES = ("equal", "different", "not applicable", "does not run")


def page(rows: list[dict[str, Any]], reasons: dict[str, str]) -> str:
    """The results page."""
    lines = [
        "# Variants of units 04 to 10, compared without rounding",
        "",
        f"{date.today()}, torch {torch.__version__}, Triton {triton.__version__}, numpy {numpy.__version__}, "
        "by `python benchmarks/exact_variants.py`. Each variant of an exercise with kernels against the published solution, "
        "on one case of each group, and three ragged ones, without those that attack whoever runs them, up to "
        f"{ELEMENTS:,} elements. Right: loses no criterion of correctness and no gate in the kill matrix, whatever else it loses.",
        "",
        "| exercise | right: equal | different | not applicable | does not run "
        "| wrong: equal | different | not applicable | does not run |",
        "| --- |" + " ---: |" * 8,
    ]
    missing = [e for e in _exercises() if e.id not in {row["exercise"] for row in rows}]
    if missing:
        lines[2] += f" **Not run yet: {', '.join(e.id for e in missing)}.**"
    counts = Counter((row["exercise"], right(row), row["outcome"]) for row in rows)
    for exercise in dict.fromkeys(row["exercise"] for row in rows):
        cells = [str(counts[exercise, good, outcome]) for good in (True, False) for outcome in OUTCOMES]
        lines.append(f"| {exercise} | {' | '.join(cells)} |")
    totals = [
        sum(n for (_, g, o), n in counts.items() if (g, o) == (good, outcome))
        for good in (True, False)
        for outcome in OUTCOMES
    ]
    lines.append(f"| all | {' | '.join(map(str, totals))} |")
    seconds = sorted(row["seconds"] for row in rows)
    if seconds:
        lines += [
            "",
            f"CPU seconds for one variant: median {seconds[len(seconds) // 2]:.2f}, at most {seconds[-1]:.1f}.",
        ]
    lines += ["", "## Right answers that are not equal", "", "| variant | outcome | why |", "| --- | --- | --- |"]
    for row in rows:
        if right(row) and row["outcome"] != "equal":
            lines.append(f"| {key(row)} | {row['outcome']} | {reasons.get(key(row), '**no reason yet**')} |")
    lines += [
        "",
        "## Wrong answers that are equal",
        "",
        "What they lose is not their formula: it is rounding, a gate that asks who computes it, or what no case here reaches.",
        "",
    ]
    lines += ["| variant | loses |", "| --- | --- |"]
    for row in rows:
        if not right(row) and row["outcome"] == "equal":
            lines.append(f"| {key(row)} | {', '.join(row['loses'])} |")
    return "\n".join(lines) + "\n"


def key(row: dict[str, Any]) -> str:
    return f"{row['exercise']}: {row['name']}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare variants with published solutions, without rounding.")
    parser.add_argument("chosen", nargs="*", default=UNITS, metavar="UNIT", help="or an exercise")
    parser.add_argument("--right", action="store_true", help="right variants alone")
    options = parser.parse_args()
    chosen = options.chosen
    for exercise in _exercises():
        if {exercise.id, exercise.id.split(".")[0]} & set(chosen):
            rows = compare(exercise, options.right)
            known = (
                [row for row in json.loads(ROWS.read_text()) if row["exercise"] != exercise.id] if ROWS.exists() else []
            )
            known = sorted(known + rows, key=lambda row: UNITS.index(row["exercise"].split(".")[0]))
            ROWS.write_text("[\n" + ",\n".join(map(json.dumps, known)) + "\n]\n")
    known = json.loads(ROWS.read_text())
    reasons = tomllib.loads(REASONS.read_text())["reasons"] if REASONS.exists() else {}
    PAGE.write_text(page(known, reasons))
    print(PAGE.read_text())
    unequal = {key(row) for row in known if right(row) and row["outcome"] != "equal"}
    for name in sorted(unequal - reasons.keys()):
        print(f"{REASONS.name} has no reason for {name}")
    for name in sorted(reasons.keys() - unequal):
        print(f"{REASONS.name} has a reason for {name}, which is equal, or is gone")
    return int(unequal != reasons.keys())


if __name__ == "__main__":
    sys.exit(main())
