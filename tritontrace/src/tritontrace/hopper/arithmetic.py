"""Costs of arithmetic on blocks, on one SM: cycles of each pipe, as the machine code for Hopper has its instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import prod

from tritontrace.hopper.timeline import CHAINS, HALF, ISSUED, OWN, SPECIAL, Costs
from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize

COSTS = Costs()
EXPONENTIALS = re.compile(r"math\.(exp2?|log2?|sqrt|rsqrt|sin|cos|tanh|erf)$|arith\.divf$|tt\.precise_")
HALF_RATE = re.compile(r"arith\.(max|min|cmp|select|trunc|fpto|[su]ito|add[iu]|sub[iu]|and|or|xor|sh[lr])")
MOVES = (
    "arith.constant",
    "tt.splat",
    "tt.expand_dims",
    "tt.broadcast",
    "tt.make_range",
    "tt.reshape",
    "tt.trans",
    "tt.split",
)
SUMS = ("arith.addf", "arith.subf")
WARP = 32  # threads


def takes(
    op: ir.Operation, type_of: Callable[[str], ir.Type], only_user: ir.Operation | None, inside: Iterable[ir.Operation]
) -> Mapping[str, float]:
    """Return the cycles that an operation takes of each pipe; those of OWN if one warp did it all.

    only_user  of the result, if one operation alone uses it: a product that is only added to something is no instruction of its own
    inside     what a reduction does to combine two numbers
    """
    reduces = op.name == "tt.reduce"
    kinds = [type_of(op.operands[0])] if reduces else [kind for _, kind in op.results]
    result = max(kinds, key=lambda kind: prod(kind.shape), default=None)
    if result is None or not result.shape or op.name in MOVES:
        return {}
    if op.name == "arith.mulf" and only_user is not None and only_user.name in SUMS:
        return {}
    instructions = size = prod(result.shape)
    if op.name == "arith.truncf" and itemsize(result.element) == 2:
        instructions = size / 2  # each packs two numbers
    found = {ISSUED: instructions / COSTS.lanes}
    turns = 1.0  # of a warp for an instruction
    if EXPONENTIALS.match(op.name):
        found[SPECIAL] = size / COSTS.special
    if any(HALF_RATE.match(each.name) for each in (op, *inside)):
        found[HALF] = instructions / COSTS.half_rate
        turns = COSTS.lanes / COSTS.half_rate
    if reduces:
        turns = max(turns, COSTS.dependent / CHAINS)
    found[OWN] = turns * instructions / WARP
    return found


def only_users(blocks: list[ir.Block]) -> dict[str, ir.Operation]:
    """Map each value that one operation alone uses to that operation."""
    found: dict[str, list[ir.Operation]] = {}
    for op in ir.walk(blocks):
        for name in op.operands:
            found.setdefault(name, []).append(op)
    return {name: users[0] for name, users in found.items() if len(users) == 1}
