"""Prove the published kernels of units 04 to 10 right for all sizes, and refute the variants that reach outside a tensor.

    python benchmarks/proofs.py [UNIT ...]     units by module name: coalescing, tiling, fusion, ...; or exercises
    python benchmarks/proofs.py --variants     and each variant of theirs that a counterexample refutes

One example gives each function its shapes: the largest small case whose tensors are contiguous. The table goes to standard output.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402

from course_lib.exercise import Exercise  # noqa: E402
from grader.audit.variants import of_unit  # noqa: E402
from grader.published import answer, called, solution_cell  # noqa: E402
from tritontrace.proving import Proof, prove  # noqa: E402

UNITS = ["coalescing", "tiling", "fusion", "recomputation", "attention", "flash", "flash_backward"]
ELEMENTS = 100_000  # of all tensors of an example


def example(exercise: Exercise) -> dict[str, Any] | None:
    """The arguments of the largest case that is small enough, of those whose sizes differ most."""
    found = []
    for case in exercise.cases:
        arguments = case.arguments(0)
        tensors = [one for one in arguments.values() if isinstance(one, torch.Tensor)]
        elements = sum(one.numel() for one in tensors)
        sizes = {size for one in tensors for size in one.shape if size > 1}
        if tensors and elements <= ELEMENTS and all(one.is_contiguous() for one in tensors):
            found.append(((len(sizes), elements), arguments))
    return max(found, key=lambda one: one[0])[1] if found else None


def rows(exercise: Exercise, variants: bool) -> Iterator[str]:
    """A row for the published solution, and one for each variant that is refuted."""
    arguments = example(exercise)
    if arguments is None:
        return
    published = row(exercise, "published", answer(exercise.id, solution_cell(exercise.id)), arguments)
    if "ValueError" in published:  # it launches no kernel
        return
    yield published
    for variant in of_unit(exercise.id.split(".")[0]) if variants else ():
        if variant.exercise == exercise.id:
            found = row(exercise, variant.name, variant.cells(), arguments)
            if "counterexample" in found:
                yield found


def row(exercise: Exercise, name: str, cells: list[tuple[str, str]], arguments: dict[str, Any]) -> str:
    began = time.process_time()
    try:
        proof = prove(called(exercise, cells), **arguments)
    except Exception as error:  # of an answer that does not run
        return f"| {exercise.id} | {name} | does not run: {type(error).__name__} | | | |"
    seconds = time.process_time() - began
    longest = max(launch.seconds for launch in proof.launches)
    return f"| {exercise.id} | {name} | {proof.outcome} | {reason(proof)} | {len(proof.launches)} | {longest:.2f} | {seconds:.2f} |"


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
    parser.add_argument("--variants", action="store_true", help="and the variants that a counterexample refutes")
    options = parser.parse_args()
    print("| exercise | answer | outcome | because | launches | seconds of the longest | in all |")
    print("| --- | --- | --- | --- | ---: | ---: | ---: |")
    for unit in UNITS:
        for exercise in import_module(f"course_lib.exercises.{unit}").EXERCISES.values():
            if exercise.kind == "kernel" and {exercise.id, unit} & set(options.chosen):
                for line in rows(exercise, options.variants):
                    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
