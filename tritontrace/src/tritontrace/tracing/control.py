"""Calls, branches, loops and reductions: operations that run other operations. evaluate.py runs them; `OPERATIONS` has all.

Where a condition or a number of turns differs between programs, they part ways, and are put together again after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tritontrace.messages import say
from tritontrace.tracing import blocks
from tritontrace.tracing.divergence import Registers, merged, selected, taken
from tritontrace.tracing.program import Body, Programs, Region, Step
from tritontrace.tracing.work import MANY_TURNS, TooSlow
from tritontrace.ttir import ir
from tritontrace.ttir.launching import KernelError


def _call(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    callee = body.code.module[op.attributes["callee"]]
    run = body.called(callee, op.place).run
    outs = [body.new(scope, name, kind) for name, kind in op.results]

    def step(registers: Registers, programs: Programs) -> None:
        values = run([registers[i] for i in operands], programs)
        for out, value in zip(outs, values, strict=True):
            registers[out] = value

    return step


def _if(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    condition = operands[0]
    # a branch in which nothing is done has no operations, and there may be no second one
    regions = [body.region(region, scope) if region and region[0].operations else None for region in op.regions]
    yes, no = (*regions, None)[:2]
    outs = [body.new(scope, name, kind) for name, kind in op.results]

    def step(registers: Registers, programs: Programs) -> None:
        which = registers[condition]
        always = bool(which.all())
        if always or not which.any():
            branch = yes if always else no
            if branch is not None:
                for out, value in zip(outs, branch.run(registers, programs), strict=True):
                    registers[out] = value
            return
        parts = []
        for mine, branch in ((which, yes), (~which, no)):
            if branch is not None:
                values = branch.run(selected(registers, branch.outside, mine), programs.some(mine))
                parts.append((mine, values))
        for i, out in enumerate(outs):
            registers[out] = merged(len(programs), [(mine, values[i]) for mine, values in parts])

    return step


def _for(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    loop = body.region(op.regions[0], scope)
    first, last, by, *starts = operands
    outs = [body.new(scope, name, kind) for name, kind in op.results]
    site = body.site(op.place)

    def step(registers: Registers, programs: Programs) -> None:
        lower, upper, stride = registers[first], registers[last], registers[by]
        if (stride <= 0).any():
            raise KernelError(say("launch.run.step", site=str(site), step=int(stride.min())))
        carried = [registers[i] for i in starts]
        trips = np.maximum(0, -(-(upper.astype(np.int64) - lower) // stride))
        if (trips == trips[0]).all():
            turn = lower
            for _ in range(int(trips[0])):
                carried = loop.run(registers, programs, (turn, *carried))
                turn = turn + stride
        else:
            carried = apart(registers, programs, lower, stride, trips, carried)
        for out, value in zip(outs, carried, strict=True):
            registers[out] = value

    def apart(registers, programs, turn, stride, trips, carried) -> list:
        """Run the loop for all programs together as long as all go on; then without those that are done."""
        count = len(programs)
        trips = np.broadcast_to(trips, (count,))
        alive, done, mine, here = np.arange(count), [], registers, programs
        for number in range(int(trips.max()) + 1):
            going = trips[alive] > number
            if not going.all():
                done.append((alive[~going], [taken(value, ~going) for value in carried]))
                alive, carried = alive[going], [taken(value, going) for value in carried]
                turn, stride = taken(turn, going), taken(stride, going)
                if not alive.size:
                    break
                mine, here = selected(mine, loop.outside, going), here.some(going)
            carried = loop.run(mine, here, (turn, *carried))
            turn = turn + stride
        return [merged(count, [(which, values[k]) for which, values in done]) for k in range(len(carried))]

    return step


def _while(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    before, after = (body.region(region, scope) for region in op.regions)
    outside = sorted({*before.outside, *after.outside})
    outs = [body.new(scope, name, kind) for name, kind in op.results]
    site, waits = body.site(op.place), body.code.waits

    def run(region: Region, turn: int, mine: Registers, here: Programs, passed: Sequence) -> list:
        try:
            return region.run(mine, here, passed)
        except TooSlow:
            if turn < MANY_TURNS:
                raise
            raise TooSlow(say("launch.work.endless", site=str(site), turns=turn)) from None

    def step(registers: Registers, programs: Programs) -> None:
        count, carried = len(programs), [registers[i] for i in operands]
        alive, done, mine, here = np.arange(count), [], registers, programs
        for turn in itertools.count():
            condition, *values = run(before, turn, mine, here, carried)
            going = np.broadcast_to(condition, (len(here),))
            if not going.all():
                done.append((alive[~going], [taken(value, ~going) for value in values]))
                alive = alive[going]
                if not alive.size:
                    if waits:
                        here.launched.turns.left(site, int(here.numbers[0]))
                    break
                values = [taken(value, going) for value in values]
                mine, here = selected(mine, outside, going), here.some(going)
            if waits:
                state = b"".join(value.tobytes() for value in values if isinstance(value, np.ndarray))
                here.launched.turns.look(site, int(here.numbers[0]), state)
            carried = run(after, turn, mine, here, values)
        for k, out in enumerate(outs):
            registers[out] = merged(count, [(which, values[k]) for which, values in done])

    return step


def _reduce(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    return _folded(body, op, scope, operands, blocks.reduction, body.code.arithmetic.reductions)


def _scan(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    return _folded(body, op, scope, operands, blocks.scan, body.code.arithmetic.scans)


def _folded(
    body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int], fold: Callable, folds: Mapping
) -> Step:
    """tl.reduce and tl.associative_scan: `fold` of blocks.py, with a function of the kernel's; folds: of single operations."""
    kinds = [body.type_of(name) for name in op.operands]
    region = body.region(op.regions[0], scope)
    only = _only_operation(op.regions[0][0], body.code.module)
    whole = fold(op, kinds, folds.get(only.name) if only else None)
    outs = [body.new(scope, name, kind) for name, kind in op.results]
    flops = body.counted(op.place, whole.flops)
    half = len(region.arguments) // 2

    def step(registers: Registers, programs: Programs) -> None:
        def combine(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> list[np.ndarray]:
            """left, right: (programs, elements, ...), of which each is a number to the function: to it they are programs."""
            flat = [value.reshape(-1) for value in (*left, *right)]
            mine: Registers = [None] * len(registers)
            for i in region.outside:
                value = registers[i]
                mine[i] = value if len(value) == 1 else np.repeat(value, flat[0].size // len(value))
            everyone = programs.many_of_the_first(flat[0].size)
            results = region.run(mine, everyone, flat)
            return [
                np.broadcast_to(value, flat[0].shape).reshape(like.shape)
                for value, like in zip(results, left[:half], strict=True)
            ]

        results = whole.function(combine, *[registers[i] for i in operands])
        programs.launched.memory.meet(programs.numbers)
        for out, value in zip(outs, results, strict=True):
            registers[out] = value
        if flops is not None:
            programs.launched.flops[flops] += whole.operations * len(programs)

    return step


def _only_operation(block: ir.Block, module: ir.Module) -> ir.Operation | None:
    """The single operation that a region of two arguments consists of, if it does; also behind calls of functions with one operation."""
    names = [name for name, _ in block.arguments]
    while len(block.operations) == 2 and len(names) == 2:
        op, end = block.operations
        if list(op.operands) not in (names, names[::-1]) or list(end.operands) != [name for name, _ in op.results]:
            return None
        if op.name != "tt.call":
            return op
        if list(op.operands) != names:
            return None
        block = module[op.attributes["callee"]].blocks[0]
        names = [name for name, _ in module[op.attributes["callee"]].arguments]
        if len(module[op.attributes["callee"]].blocks) > 1:
            return None
    return None


OPERATIONS: dict[str, Callable[[Body, ir.Operation, dict[str, int], list[int]], Step]] = {
    "tt.call": _call,
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "tt.reduce": _reduce,
    "tt.scan": _scan,
}
