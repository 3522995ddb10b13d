"""The smallest input for which a kernel of an answer reaches outside a tensor, of those of one way through its host code: its addresses
are looked at for all sizes at once.

It explains, and nobody loses a point by it. What is found is told only if the answer, called with just such an input, does it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import torch

from course_lib.evidence import SmallestFault
from course_lib.execution import asked_sizes, relays
from course_lib.execution.calls import CALLS
from course_lib.exercise import Exercise
from tritontrace.replay import child, record, replay

SECONDS = 1.5  # of CPU, which a wrong answer may cost more for it
NAME = r"\w{1,60}(\[\d{1,3}\])*"
Tree = Mapping[str, Any]


def asked_of(exercise: Exercise) -> dict[str, Any] | None:
    """Return the arguments of `looked_for` for an exercise, as plain data; None for an exercise where no search is made."""
    if exercise.kind != "kernel" or exercise.language != "Triton" or exercise.called in (*relays.RELAYS, *relays.ONCE):
        return None
    arguments = asked_sizes.example(exercise.cases)
    if arguments is None:
        return None
    sizes = asked_sizes.asked(exercise.cases, arguments)
    mine = [size for axis, size in asked_sizes.sizes(arguments).items() if [*axis] in sizes["fixed"]]
    ragged = max([mine, *sizes["values"]], key=lambda values: sum(map(asked_sizes.is_ragged, values)))
    sizes["values"] = [mine] if ragged == mine else [mine, ragged]  # a wide head may hide that its columns have no mask
    return {"arguments": arguments, "sizes": sizes, "called": exercise.called, "allows": sorted(exercise.allows)}


def looked_for(
    entry: Any, arguments: dict[str, Any], sizes: asked_sizes.AskedSizes, called: str, allows: Collection[str]
) -> Tree | None:
    """Search for the smallest input with which a kernel reaches outside a tensor, and the line that does; None if none is found. arguments:
    an example, from which the search starts."""
    try:
        from tritontrace.proving import counterexample

        function = asked_sizes.within(sizes, lambda **given: CALLS[called](entry, given, lambda what="": 0))
        claim = counterexample(function, **arguments)
        if claim is None or claim.fault is None:
            return None
        small = _shaped(arguments, claim.shapes)
        seen = replay(record(entry, [small], CALLS[called]), [small], case="", allows=allows)
    except Exception:  # of z3, which is missing, of the engine, of the answer
        return None
    fault = next(
        (f for f in seen.faults if f.kind == "out of bounds" and f.cause.where == claim.fault.cause.where), None
    )
    shapes = [[name, [*value.shape]] for name, value in small.items() if isinstance(value, torch.Tensor)]
    return {"shapes": shapes, "line": fault.line, "tensor": fault.tensor, "op": claim.op} if fault else None


def looked_for_apart(entry: Any, asked: Mapping[str, Any]) -> Tree | None:
    """Run `looked_for` in a child process. Raises ChildLost if that takes too long."""
    return child.run(partial(looked_for, entry, **asked), seconds=SECONDS)[0]


def read(tree: Any) -> SmallestFault:
    """Parse the tree that `looked_for` returned. Raises ValueError, KeyError or TypeError if it is malformed."""
    shapes = [(str(name), tuple(map(int, shape))) for name, shape in tree["shapes"]]
    fault = SmallestFault(shapes, int(tree["line"]), str(tree["tensor"]), str(tree["op"]))
    names = [fault.tensor, *(name for name, _ in shapes)]
    if fault.op not in ("load", "store", "atomic") or not all(re.fullmatch(NAME, name) for name in names):
        raise ValueError("no fault")
    return fault


def _shaped(arguments: Mapping[str, Any], shapes: list[tuple[int, ...]]) -> dict[str, Any]:
    """The arguments with their numbers in tensors of these shapes; whole numbers are 0, which every index may be."""
    from tritontrace.proving import filled

    tensors = {name: value for name, value in arguments.items() if isinstance(value, torch.Tensor)}
    numbers = {n: value if value.is_floating_point() else torch.zeros_like(value) for n, value in tensors.items()}
    small = {name: filled(numbers[name], shape) for name, shape in zip(tensors, shapes, strict=True)}
    return {**arguments, **small}
