"""A module of the compiler front end, run for many programs at once.

    code = Code(front)                                 once for each module: a Python function for each operation
    code.run(arguments, Programs(...))                 for each batch of programs

A value is a numpy array (programs, *block): the first axis is 1 while all programs agree, and an axis of the block is 1 until
its copies are needed, so that splat and broadcast cost nothing; or it is a sum of such arrays (sums.py), where nothing that
was done with it has needed every lane. operations.py says how numbers are held. Where a condition or
a number of turns differs between programs, they are split, and put together again after it.

operations.py has what is computed lane by lane, blocks.py the operations on whole blocks, instructions.py those on memory.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tritontrace.messages import say
from tritontrace.tracing import blocks, control, instructions
from tritontrace.tracing.arithmetic import FLOATS, Arithmetic
from tritontrace.tracing.dataflow import Dataflow, dataflow
from tritontrace.tracing.divergence import Registers, merged, selected
from tritontrace.tracing.operations import NotHere, Undefined
from tritontrace.tracing.program import FlopKey, Programs, Region, Step
from tritontrace.tracing.sites import Sites, is_library
from tritontrace.tracing.sums import added, moved, whole
from tritontrace.tracing.undefined_masks import answered
from tritontrace.tracing.unused import TERMINATORS, drop_unused, reachable, uses_of
from tritontrace.tracing.work import cost_of
from tritontrace.tracing.wraps import wraps
from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.hints import promises
from tritontrace.ttir.launching import FlopKind, KernelError, Site

# trap: a value is never changed in place: operations may return their operand, and axes may be spread views

NOTHING_HERE = {"ttng.fence_async_shared"}  # orders what single instructions of a GPU do
BY_POINTERS = {"tt.load", "tt.store"}  # which may be sums, as what additions take; all others want every lane
MEETING = {"tt.dot", "tt.histogram", "tt.gather"}  # values go from lane to lane, and the compiler puts a barrier there


# ------------------------------------------------------------------------------------------------- code


class Code:
    """A TTIR module compiled to Python functions.

    largest   elements of its largest block: with it go the programs that run together
    waits     whether programs may ask one another, by atomics whose results they use, by volatile loads or in a
              `while`: then they take turns
    talks     whether it prints: then programs run one by one
    """

    def __init__(self, front: Front, watched: frozenset[str] = frozenset(), arithmetic: Arithmetic = FLOATS):
        self.module, self.watched, self.arithmetic = front.module, watched, arithmetic
        self.sites = Sites(front.sources)
        self.tf32: list[Site] = []  # products of float32 as TF32
        operations = [op for function in self.module.values() for op in ir.walk(function.blocks)]
        shapes = [t.shape for op in operations for _, t in op.results if t.shape]
        self.largest = max((prod(shape) for shape in shapes), default=1)
        self.talks = any(op.name == "tt.print" for op in operations)
        for function in self.module.values():
            drop_unused(function)
        self._flows: dict[str, Dataflow] = {}
        self.waits = self._may_ask()
        self._run = self.body(front.entry, ()).run

    def body(self, function: ir.Function, way: tuple[tuple[ir.Function, ir.Place], ...]) -> Body:
        """Return a function of the module, as it is called by way of these places."""
        return Body(self, function, way)

    def flow(self, function: ir.Function) -> Dataflow:
        """Return the ways that values of a function of the module go, found once."""
        if function.name not in self._flows:
            self._flows[function.name] = dataflow(function, self.module, self.flow)
        return self._flows[function.name]

    def run(self, arguments: list, programs: Programs) -> None:
        """Evaluate the kernel for a batch of programs. arguments: a value for each of the kernel's parameters."""
        self._run(arguments, programs)

    def _may_ask(self) -> bool:
        """Whether programs can learn of one another without a race."""
        shared = False  # whether there are atomics, whose values a volatile load can see
        volatile = False
        for function in self.module.values():
            uses = set().union(*map(uses_of, function.blocks))
            for op in ir.walk(function.blocks):
                if op.name.startswith("tt.atomic"):
                    shared = True
                    if any(name in uses for name, _ in op.results):
                        return True
                volatile = volatile or bool(op.attributes.get("isVolatile"))
                if op.name == "scf.while" and self._asks_memory(op):
                    return True
        return shared and volatile

    def _asks_memory(self, loop: ir.Operation) -> bool:
        """Whether what a `while` waits for can come from another program."""
        waiting, called = [op for region in loop.regions for op in ir.walk(region)], set()
        while waiting:
            op = waiting.pop()
            if op.name.startswith("tt.atomic") or op.attributes.get("isVolatile"):
                return True
            if op.name == "tt.call" and (callee := op.attributes["callee"]) not in called:
                called.add(callee)
                waiting += ir.walk(self.module[callee].blocks)
        return False


def code_of(front: Front, watched: frozenset[str] = frozenset(), arithmetic: Arithmetic = FLOATS) -> Code:
    """Return the Code of a module, cached."""
    known = _codes.setdefault(front, {})
    if (watched, arithmetic) not in known:
        known[watched, arithmetic] = Code(front, watched, arithmetic)
    return known[watched, arithmetic]


_codes: weakref.WeakKeyDictionary[Front, dict[tuple[frozenset[str], Arithmetic], Code]] = weakref.WeakKeyDictionary()


class Body:
    """A function of the module, as it is called from one place: its operations know the lines that led to them.

    way   the places of the calls, the kernel's own first
    """

    def __init__(self, code: Code, function: ir.Function, way: tuple[tuple[ir.Function, ir.Place], ...]):
        self.code, self.function, self.way = code, function, way
        self.size = 0
        self._types: dict[str, ir.Type] = {}
        self._sums: set[int] = set()  # registers that may hold one
        self._sites: dict[int, Site] = {}  # by the line
        self.flow = code.flow(function)
        scope: dict[str, int] = {}
        self._arguments = [self.new(scope, name, kind) for name, kind in function.arguments]
        reached = reachable(function.blocks)
        for block in reached:
            for name, kind in block.arguments if block is not function.blocks[0] else ():
                self.new(scope, name, kind)
        self._blocks = {}
        for block in reached:
            passed = [scope[name] for name, _ in block.arguments]
            steps, end = self._compiled(block, scope)
            self._blocks[block.label] = passed, steps, end, self.cost_of(block)
        self._first = function.blocks[0].label

    def new(self, scope: dict[str, int], name: str, kind: ir.Type) -> int:
        """Allocate a register for a value, and return its number."""
        scope[name] = self.size
        self._types[name] = kind
        self.size += 1
        return scope[name]

    def called(self, callee: ir.Function, place: ir.Place) -> Body:
        """Return a function that is called from a place in this one."""
        return self.code.body(callee, (*self.way, (self.function, place)))

    def type_of(self, name: str) -> ir.Type:
        return self._types[name]

    def cost_of(self, block: ir.Block) -> tuple[int, int]:
        """Return what the operations of a block cost: see work.py."""
        return cost_of(block.operations, self.type_of)

    def site(self, place: ir.Place) -> Site:
        if place.line not in self._sites:
            self._sites[place.line] = self.code.sites.site((*self.way, (self.function, place)))
        return self._sites[place.line]

    def counted(self, place: ir.Place, kind: FlopKind | None) -> FlopKey | None:
        """Return the key under which floating-point operations of a kind are counted there; None if they are none."""
        site = self.site(place)
        return (site.kernel, site.line, site.source, kind) if kind else None

    # ------------------------------------------------------------------------------------------------- running

    def run(self, values: Sequence, programs: Programs) -> list:
        """Run the function for `programs` and return its results."""
        registers = [None] * self.size
        for register, value in zip(self._arguments, values, strict=True):
            registers[register] = value
        return self._from(self._first, registers, programs)

    def _from(self, label: str, registers: Registers, programs: Programs) -> list:
        while True:
            _, steps, end, cost = self._blocks[label]
            programs.launched.work.spend(cost, len(programs))
            for step in steps:
                step(registers, programs)
            if not end.targets:
                return [registers[i] for i in end.values]
            if end.condition is None:
                label = self._jump(end.targets[0], registers)
                continue
            condition = registers[end.condition]
            if condition.all() or not condition.any():
                label = self._jump(end.targets[0 if condition.all() else 1], registers)
                continue
            parts = []
            for which, target in ((condition, end.targets[0]), (~condition, end.targets[1])):
                mine = selected(registers, range(len(registers)), which)
                parts.append((which, self._from(self._jump(target, mine), mine, programs.some(which))))
            return [merged(len(programs), [(w, values[i]) for w, values in parts]) for i in range(len(parts[0][1]))]

    def _jump(self, target: tuple[str, list[int]], registers: Registers) -> str:
        label, passed = target
        values = [registers[i] for i in passed]
        for register, value in zip(self._blocks[label][0], values, strict=True):
            registers[register] = value
        return label

    # ------------------------------------------------------------------------------------------------- compiling

    def _compiled(self, block: ir.Block, scope: dict[str, int]) -> tuple[list[Step], _End]:
        """The steps of a block, and what comes after them."""
        steps: list[Step] = []
        for op, following in zip(block.operations, [*block.operations[1:], None], strict=True):
            if op.name in TERMINATORS:
                if op.successors:
                    condition = scope[op.operands[0]] if op.operands else None
                    return steps, _End([], condition, [(l, [scope[v] for v in vs]) for l, vs in op.successors])
                return steps, _End([scope[name] for name in op.operands])
            step = self._step(op, scope)
            if step is not None:
                step = self._promised(op, step, scope)
                steps.append(self._watched(op, step, scope) if _gives_a_value(op, following) else step)
        return steps, _End([])

    def region(self, region: list[ir.Block], scope: Mapping[str, int]) -> Region:
        """Compile a region of one block."""
        inner = dict(scope)
        (block,) = region
        arguments = [self.new(inner, name, kind) for name, kind in block.arguments]
        steps, end = self._compiled(block, inner)
        outside = sorted({scope[name] for name in uses_of(block) if name in scope})
        return Region(arguments, steps, end.values, outside, self.cost_of(block))

    def _watched(self, op: ir.Operation, step: Step, scope: Mapping[str, int]) -> Step:
        """Extend a step so that it shows its result where somebody wants to see the variable."""
        if op.place.name not in self.code.watched or is_library(self.function) or not op.results:
            return step
        name, site, result = op.place.name, self.site(op.place), scope[op.results[0][0]]
        shape = op.results[0][1].shape

        def shown(registers: Registers, programs: Programs) -> None:
            step(registers, programs)
            value = whole(registers[result])
            if isinstance(value, np.ndarray):
                programs.launched.watch(name, site, programs.numbers, np.broadcast_to(value, (len(programs), *shape)))

        return shown

    def _promised(self, op: ir.Operation, step: Step, scope: Mapping[str, int]) -> Step:
        """Extend a step so that what the kernel promises of its result is checked after it."""
        found = [(promise, scope[promise.value]) for promise in promises(self.function, op, self.site(op.place))]
        if not found:
            return step

        def looked_at(registers: Registers, programs: Programs) -> None:
            step(registers, programs)
            for promise, register in found:
                programs.launched.promises.look(promise, whole(registers[register]), programs.numbers)

        return looked_at

    def _step(self, op: ir.Operation, scope: dict[str, int]) -> Step | None:
        """Make a function that does the operation; None if the operation does nothing here. Raises NotHere, with the
        line, if the operation is not known."""
        if op.name in NOTHING_HERE:
            return None
        kinds = [self._types[name] for name in op.operands]
        operands = [scope[name] for name in op.operands]
        if op.name == "tt.addptr" or (op.name == "arith.addi" and kinds[0].shape and kinds[0].element != "i1"):
            return self._sum(op, scope, operands)
        if not self._sums.isdisjoint(operands[op.name in BY_POINTERS :]):
            return self._on_wholes(op, scope)
        try:
            if (found := self.code.arithmetic.lanewise(op, kinds)) is not None:
                return self._lanewise(op, scope, operands, found)
            if (own := control.OPERATIONS.get(op.name) or instructions.OPERATIONS.get(op.name)) is not None:
                return own(self, op, scope, operands)
            if (make := self.code.arithmetic.blocks.get(op.name)) is not None:
                return self._whole_blocks(op, scope, operands, make(op, kinds))
            name = op.name.rpartition(".")[2]
            raise NotHere(say("launch.lacking.operation", operation=name))
        except NotHere as lacking:
            if lacking.site is None:
                lacking.site = self.site(op.place)
            raise

    def _sum(self, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
        """An addition whose result may stay a sum, unless it is passed on to where another value may come instead."""
        (a, b), ((name, kind),) = operands, op.results
        out, stays = self.new(scope, name, kind), bool(kind.shape) and name not in self.flow.passed_on
        size = itemsize(kind.pointee) if op.name == "tt.addptr" else 0
        if stays:
            self._sums.add(out)

        def step(registers: Registers, programs: Programs) -> None:
            value = moved(registers[a], registers[b], size) if size else added(registers[a], registers[b])
            registers[out] = value if stays else whole(value)

        return step

    def _on_wholes(self, op: ir.Operation, scope: dict[str, int]) -> Step | None:
        """Make the step of an operation that first adds up the sums among its operands, in registers of their own."""
        apart = dict(scope)
        wanted = [n for n in op.operands[op.name in BY_POINTERS :] if scope[n] in self._sums]
        pairs = [(scope[n], self.new(apart, n, self._types[n])) for n in dict.fromkeys(wanted)]
        inner = self._step(op, apart)
        scope.update({name: apart[name] for name, _ in op.results if name in apart})
        if inner is None:
            return None

        def step(registers: Registers, programs: Programs) -> None:
            for sum_of, register in pairs:
                registers[register] = whole(registers[sum_of])
            inner(registers, programs)

        return step

    def _lanewise(self, op: ir.Operation, scope: dict[str, int], operands: list[int], found: Any) -> Step:
        ((name, kind),) = op.results
        out, function, each = self.new(scope, name, kind), found.function, found.per_lane * prod(kind.shape)
        if name in self.flow.deciding:
            element = self._types[op.operands[0]].element
            function = answered(function, element, self.flow.deciding[name], self.code.arithmetic)
        flops: Any = self.counted(op.place, found.flops)
        if len(operands) == 2 and flops is None:
            a, b = operands

            def step(registers: Registers, programs: Programs) -> None:
                registers[out] = function(registers[a], registers[b])

            if op.name == "arith.muli" and kind.element == "i32" and name in self.flow.on_the_way:
                return self._told_if_it_wraps(op, step, a, b)
        elif len(operands) == 2:
            a, b = operands

            def step(registers: Registers, programs: Programs) -> None:
                registers[out] = function(registers[a], registers[b])
                programs.launched.flops[flops] += each * len(programs)

        else:

            def step(registers: Registers, programs: Programs) -> None:
                registers[out] = function(*[registers[i] for i in operands])
                if flops is not None:
                    programs.launched.flops[flops] += each * len(programs)

        return step

    def _told_if_it_wraps(self, op: ir.Operation, step: Step, a: int, b: int) -> Step:
        """Extend a product on the way to an address so that it is noted if it wraps around."""
        site = self.site(op.place)

        def looked_at(registers: Registers, programs: Programs) -> None:
            wrapped = wraps(registers[a], registers[b])
            if wrapped is not None:
                programs.launched.memory.wrapped.setdefault(site, int(programs.numbers[np.argmax(wrapped)]))
            step(registers, programs)

        return looked_at

    def _whole_blocks(self, op: ir.Operation, scope: dict[str, int], operands: list[int], found: blocks.Whole) -> Step:
        outs = [self.new(scope, name, kind) for name, kind in op.results]
        function, each = found.function, found.operations
        meeting, site = op.name in MEETING, self.site(op.place)
        flops = self.counted(op.place, found.flops)
        if is_tf32(op, self.type_of):
            self.code.tf32.append(site)
        if len(outs) == 1 and flops is None and not meeting:
            (out,) = outs

            def step(registers: Registers, programs: Programs) -> None:
                registers[out] = function(*[registers[i] for i in operands])

        else:

            def step(registers: Registers, programs: Programs) -> None:
                try:
                    results = function(*[registers[i] for i in operands])
                except Undefined as problem:
                    raise KernelError(say("launch.run.undefined", site=str(site), problem=problem.message)) from None
                for out, value in zip(outs, results if len(outs) > 1 else (results,), strict=True):
                    registers[out] = value
                if meeting:
                    programs.launched.memory.meet(programs.numbers)
                if flops is not None:
                    programs.launched.flops[flops] += each * len(programs)

        return step


def is_tf32(op: ir.Operation, type_of: Callable[[str], ir.Type]) -> bool:
    """Whether an operation multiplies blocks of float32 as TF32."""
    return (
        op.name == "tt.dot"
        and op.attributes.get("inputPrecision") == "tf32"
        and type_of(op.operands[0]).element == "f32"
    )


def _gives_a_value(op: ir.Operation, following: ir.Operation | None) -> bool:
    """Whether a variable gets its value by this operation: the last one of an assignment, all of which bear its name."""
    if following is None or not op.place.name or op.name.startswith("scf."):
        return False
    return (following.place.name, following.place.line) != (op.place.name, op.place.line)


class _End(NamedTuple):
    """The end of a block: the values that are returned, or the blocks that may come next, each with the values passed to it."""

    values: list[int]
    condition: int | None = None
    targets: Sequence[tuple[str, list[int]]] = ()
