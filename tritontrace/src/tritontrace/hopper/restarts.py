"""Loops that Triton compiles wrongly: it lets them begin each time where they began first."""

from __future__ import annotations

from tritontrace.hopper.shared_accesses import line_of
from tritontrace.ttir import ir
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.parse import parse


def restarts(front: Front) -> list[str]:
    """Return the lines of loops in helpers that begin at a number which the loop around them carries, as range(done, done + steps) does.

    Triton 3.6 and 3.7.1 begin each of them at the number's first value, every time.
    """
    helpers = (function for function in parse(front.text).values() if not function.public)
    loops = (loop for function in helpers for loop in _loops(function.blocks))
    return list(dict.fromkeys(line_of(front, inner.place) for loop in loops for inner in _within(loop)))


def _loops(blocks: list[ir.Block]) -> list[ir.Operation]:
    return [op for op in ir.walk(blocks) if op.name == "scf.for"]


def _within(loop: ir.Operation) -> list[ir.Operation]:
    body = loop.regions[0]
    carried = {name for name, _ in body[0].arguments[1:]}
    for op in ir.walk(body):  # what only renames or widens a number has one operand
        if len(op.operands) == 1 and not op.regions and not carried.isdisjoint(op.operands):
            carried.update(name for name, _ in op.results)
    return [inner for inner in _loops(body) if inner.operands[0] in carried]
