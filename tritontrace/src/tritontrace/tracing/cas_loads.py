"""Loads that guess: their value goes nowhere but into an atomic_cas, which compares it with what is there by then.

    seen = tl.load(p)
    while not done:
        before = tl.atomic_cas(p, seen, seen * x)
        done, seen = before == seen, before

If another program comes between the two, the comparison fails and nothing has happened. So such a load is no race with atomics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tritontrace.tracing.unused import EFFECTS, TERMINATORS
from tritontrace.ttir import ir

COMPARISONS = {"arith.cmpi", "arith.cmpf"}


def guesses(function: ir.Function, module: ir.Module) -> set[str]:
    """Return the results of loads that only guess the value for an atomic_cas."""
    operations = list(ir.walk(function.blocks))
    swaps = [op for op in operations if op.name == "tt.atomic_cas"]
    if not swaps or len(function.blocks) > 1:
        return set()
    leads: dict[str, list[str]] = {}
    for source, target in _ways(operations):
        leads.setdefault(source, []).append(target)
    ends = {name for op in operations for name in _kept(op, module)}
    expected = {op.operands[1] for op in swaps}
    loads = (name for op in operations if op.name == "tt.load" for name, _ in op.results)
    return {load for load in loads if (reached := _reached(load, leads)) & expected and not reached & ends}


def _reached(value: str, leads: dict[str, list[str]]) -> set[str]:
    reached, waiting = {value}, [value]
    while waiting:
        more = set(leads.get(waiting.pop(), ())) - reached
        reached |= more
        waiting += more
    return reached


def _kept(op: ir.Operation, module: ir.Module) -> Iterable[str]:
    """The operands of an operation whose values last: they come into memory, choose an address, or are said."""
    if op.name == "tt.atomic_cas":
        return op.operands[:1]
    if op.name == "tt.call" and _is_pure(module[op.attributes["callee"]], module):
        return ()
    if op.name == "tt.return" or (op.name in EFFECTS and op.name != "scf.while"):
        return op.operands
    return ()


def _is_pure(function: ir.Function, module: ir.Module) -> bool:
    for op in ir.walk(function.blocks):
        if op.name == "tt.call":
            if not _is_pure(module[op.attributes["callee"]], module):
                return False
        elif op.name in EFFECTS and op.name != "scf.while":
            return False
    return True


def _ways(operations: list[ir.Operation]) -> Iterator[tuple[str, str]]:
    """(value, value that may come of it). What a comparison with the result of an atomic_cas tells is no longer a guess."""
    swapped = {name for op in operations if op.name == "tt.atomic_cas" for name, _ in op.results}
    for op in operations:
        results = [name for name, _ in op.results]
        if op.name == "tt.atomic_cas" or (op.name in COMPARISONS and not swapped.isdisjoint(op.operands)):
            continue
        if op.name in ("scf.for", "scf.while", "scf.if"):
            yield from _of_control(op, results)
        elif op.name not in TERMINATORS:
            yield from ((operand, result) for operand in op.operands for result in results)


def _of_control(op: ir.Operation, results: list[str]) -> Iterator[tuple[str, str]]:
    # a region that passes nothing on may be printed without its `scf.yield`: it ends with any operation then
    last = [block.operations[-1] for region in op.regions for block in region if block.operations]
    ends = [end.operands if end.name in TERMINATORS else [] for end in last]
    if op.name == "scf.if":
        for passed in ends:
            yield from zip(passed, results, strict=False)
        return
    arguments = [[name for name, _ in region[0].arguments] for region in op.regions]
    if op.name == "scf.for":
        carried, (passed,) = arguments[0][1:], ends
        yield from zip(op.operands[3:], carried, strict=True)
        yield from zip(op.operands[3:], results, strict=True)
        yield from zip(passed, carried, strict=True)
        yield from zip(passed, results, strict=True)
        return
    (before, after), (asked, passed) = arguments, ends
    yield from zip(op.operands, before, strict=True)
    yield from zip(asked[1:], after, strict=True)
    yield from zip(asked[1:], results, strict=True)
    yield from zip(passed, before, strict=True)
