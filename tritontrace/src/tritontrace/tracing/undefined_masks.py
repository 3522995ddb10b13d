"""Comparisons that decide whether a lane stores, and that may compare what a masked load left out: a GPU may take either answer.

    x = tl.load(x_ptr + i, mask=i < n)            # lanes past n hold anything
    tl.store(out_ptr + i, x, mask=x < 5)          # and so may store past the end

The answer taken here is the one by which such a lane stores, so that what it may do is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from tritontrace.tracing.arithmetic import Arithmetic
from tritontrace.tracing.unused import TERMINATORS
from tritontrace.ttir import ir

COMPARISONS = {"arith.cmpi", "arith.cmpf"}
WAYS = {"arith.andi", "arith.ori", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape"}
MASKED = {"tt.store": 2, "tt.atomic_rmw": 2}  # the number of the operand that is the mask


def deciding(blocks: list[ir.Block]) -> dict[str, bool]:
    """Return the comparisons that decide a store's mask, each with the answer by which the lane stores, if one operand may be undefined.

    trap: a load's mask is none of them. What a lane loads in vain hurts nobody, and a GPU gives 0 where nothing was loaded.
    """
    operations = list(ir.walk(blocks))
    undefined = set(_left_out(operations))
    if not undefined:
        return {}
    true = {name for op in operations if op.name == "arith.constant" and _is_true(op) for name, _ in op.results}
    answers: dict[str, set[bool]] = {}  # of each value on the way, those by which a lane stores
    for op in reversed(operations):
        if op.name in MASKED and len(op.operands) > MASKED[op.name]:
            answers.setdefault(op.operands[MASKED[op.name]], set()).add(True)
        wanted = set[bool]().union(*(answers.get(name, set()) for name, _ in op.results))
        if op.name in WAYS:
            for name in op.operands:
                answers.setdefault(name, set()).update(wanted)
        elif op.name == "arith.xori" and not true.isdisjoint(op.operands):
            for name in set(op.operands) - true:
                answers.setdefault(name, set()).update(not answer for answer in wanted)
    return {
        name: next(iter(answers[name]))
        for op in operations
        if op.name in COMPARISONS and not undefined.isdisjoint(op.operands)
        for name, _ in op.results
        if len(answers.get(name, ())) == 1
    }


def _left_out(operations: list[ir.Operation]) -> Iterator[str]:
    """Values that may hold lanes of a masked load without `other`."""
    reached: set[str] = set()
    size = -1
    while size != len(reached):  # what a loop carries may come from its end
        size = len(reached)
        for op in operations:
            leaves_out = op.name == "tt.load" and len(op.operands) == 2
            if leaves_out or not reached.isdisjoint(op.operands):
                reached.update(name for name, _ in op.results)
            for region in op.regions:
                ends = [end for block in region for end in block.operations if end.name in TERMINATORS]
                if any(not reached.isdisjoint([*op.operands, *end.operands]) for end in ends):
                    reached.update(name for name, _ in op.results)
                    reached.update(name for block in region for name, _ in block.arguments)
    yield from reached


def _is_true(op: ir.Operation) -> bool:
    return op.results[0][1].element == "i1" and bool(op.attributes.get("value"))


def answered(
    compare: Callable[[np.ndarray, np.ndarray], np.ndarray], element: str, answer: bool, arithmetic: Arithmetic
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Make a comparison that gives this answer where an operand is undefined."""

    def with_answer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        undefined = arithmetic.is_poison(a, element) | arithmetic.is_poison(b, element)
        return np.where(undefined, answer, compare(a, b)) if undefined.any() else compare(a, b)

    return with_answer
