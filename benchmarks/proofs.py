"""Prove the published kernels of units 04 to 10 right for all sizes, and refute the variants that reach outside a tensor.

    python benchmarks/proofs.py [UNIT ...]     units by module name: coalescing, tiling, fusion, ...; or exercises
    python benchmarks/proofs.py --variants     the variants that a check sees outside a tensor, and the input that a verdict names

One example gives each function its shapes, and the cases say which sizes the exercise asks about (course_lib/execution/asked_sizes.py).
The table goes to standard output.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib import checking  # noqa: E402
from course_lib.execution import asked_sizes, cpu_seconds, smallest  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from grader.audit.variants import of_unit  # noqa: E402
from grader.published import answer, called, solution_cell  # noqa: E402
from tritontrace.proving import Proof, prove  # noqa: E402
from tritontrace.replay import child, load  # noqa: E402

PATIENT = 20.0  # seconds for a variant, on a busy machine; a verdict has smallest.SECONDS
UNITS = ["coalescing", "tiling", "fusion", "recomputation", "attention", "flash", "flash_backward"]


def rows(exercise: Exercise, variants: bool) -> Iterator[str]:
    """A row for the published solution, or one for each variant that a check sees outside a tensor."""
    arguments = asked_sizes.example(exercise.cases)
    if arguments is None:
        return
    if not variants:
        published = row(exercise, answer(exercise.id, solution_cell(exercise.id)), arguments)
        if "ValueError" not in published:  # it launches a kernel
            yield published
        return
    for variant in of_unit(exercise.id.split(".")[0]):
        ends = "runs" in variant.loses  # before a kernel is judged
        if variant.exercise == exercise.id and not ends and (line := refuted(exercise, variant.name, variant.cells())):
            yield line


def refuted(exercise: Exercise, name: str, cells: list[tuple[str, str]]) -> str:
    """The row of a variant: what a verdict tells of it; "" of one that reaches outside of nothing."""
    try:
        entry = load(cells, exercise.entry, on_the_cpu=True)
        trials = checking.observed(exercise, entry, 1, checking.COMPILE_SECONDS)
        if not isinstance(trials, list) or not any(
            f.kind == "out of bounds" for t in trials for f in t.evidence.faults
        ):
            return ""
        asked = smallest.asked_of(exercise)
        began = cpu_seconds()
        look = partial(smallest.looked_for, entry, **asked) if asked else None
        tree = child.run(look, seconds=PATIENT)[0] if look else None
    except Exception as error:  # of an answer that does not run
        return f"| {exercise.id} | {name} | {type(error).__name__} | | |"
    line, shapes = (tree["line"], ", ".join(f"{n} {tuple(shape)}" for n, shape in tree["shapes"])) if tree else ("", "")
    return f"| {exercise.id} | {name} | {line} | {shapes} | {cpu_seconds() - began:.2f} |"


def row(exercise: Exercise, cells: list[tuple[str, str]], arguments: dict[str, Any]) -> str:
    began = time.process_time()
    try:
        sizes = asked_sizes.asked(exercise.cases, arguments)
        proof = prove(asked_sizes.within(sizes, called(exercise, cells)), **arguments)
    except Exception as error:  # of an answer that does not run
        return f"| {exercise.id} | does not run: {type(error).__name__} | | | |"
    seconds = time.process_time() - began
    longest = max(launch.seconds for launch in proof.launches)
    return (
        f"| {exercise.id} | {proof.outcome} | {reason(proof)} | {len(proof.launches)} | {longest:.2f} | {seconds:.2f} |"
    )


def reason(proof: Proof) -> str:
    """The smallest counterexample, or the first thing that stands in the way of a proof."""
    claims = [claim for launch in proof.launches for claim in launch.claims if claim.outcome != "proved"]
    refuted = sorted((c for c in claims if c.fault), key=lambda claim: sum(claim.sizes.values()))
    if refuted:
        sizes = ", ".join(f"{name} = {number}" for name, number in refuted[0].sizes.items())
        return f"line {refuted[0].site.line}: {sizes}"
    return claims[0].because.replace("|", "\\|") if claims else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Prove the published kernels right for all sizes.")
    parser.add_argument("chosen", nargs="*", default=UNITS, metavar="UNIT", help="or an exercise")
    parser.add_argument(
        "--variants", action="store_true", help="instead, the variants that a check sees outside a tensor"
    )
    options = parser.parse_args()
    published = (
        "| exercise | outcome | because | launches | seconds of the longest | in all |",
        "| --- | --- | --- | ---: | ---: | ---: |",
    )
    wrong = "| exercise | variant | line | input that shows it | seconds |", "| --- | --- | ---: | --- | ---: |"
    print(*(wrong if options.variants else published), sep="\n")
    for unit in UNITS:
        for exercise in import_module(f"course_lib.exercises.{unit}").EXERCISES.values():
            if exercise.kind == "kernel" and {exercise.id, unit} & set(options.chosen):
                for line in rows(exercise, options.variants):
                    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
