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
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from course_lib.tracing import blocks, control, instructions
from course_lib.tracing.accesses import Accesses
from course_lib.tracing.apart import Registers, merged, selected
from course_lib.tracing.operations import NotHere, Undefined, lanewise
from course_lib.tracing.sites import Sites, is_library
from course_lib.tracing.sums import added, moved, whole
from course_lib.tracing.turns import Turns
from course_lib.tracing.unused import TERMINATORS, drop_unused, passed_on, reachable, uses_of
from course_lib.tracing.work import Work, cost_of
from course_lib.ttir import ir
from course_lib.ttir.elements import itemsize
from course_lib.ttir.frontend import Front
from course_lib.ttir.hints import Promises, promises
from course_lib.ttir.launching import FlopKind, Grid, KernelError, Site

Step = Callable[[Registers, Any], None]  # with Programs; in Gluon with a Partition

NOTHING_HERE = {"ttng.fence_async_shared"}  # orders what single instructions of a GPU do
BY_POINTERS = {"tt.load", "tt.store"}  # which may be sums, as what additions take; all others want every lane
MEETING = {"tt.dot", "tt.histogram", "tt.gather"}  # values go from lane to lane, and the compiler puts a barrier there


class Launched(NamedTuple):
    """Objects that all programs of a launch share."""

    grid: Grid
    memory: Accesses
    flops: Counter[FlopKind]
    watch: Callable[[str, Site, np.ndarray, np.ndarray], None]  # name, place, programs, values
    say: Callable[[str], None]
    turns: Turns  # where a program gives its turn away
    promises: Promises  # those that were not kept
    work: Work


@dataclass
class Programs:
    """The programs that run together. numbers: in start order, x fastest."""

    numbers: np.ndarray
    launched: Launched

    def __len__(self) -> int:
        return self.numbers.size

    @cached_property
    def index(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """tl.program_id(0), (1), (2): (programs,) each."""
        columns, rows, _ = self.launched.grid
        across = self.numbers % columns, self.numbers // columns % rows, self.numbers // (columns * rows)
        x, y, z = (axis.astype(np.int32) for axis in across)
        return x, y, z

    def some(self, which: np.ndarray) -> Programs:
        return Programs(self.numbers[which], self.launched)

    def many_of_the_first(self, count: int) -> Programs:
        """Prepare programs for a function that is called with the numbers of a block one by one, as if each were a
        program's. What it computes is not counted: the reduction that calls it is."""
        return Programs(np.repeat(self.numbers[:1], count), self.launched._replace(flops=Counter()))


# ------------------------------------------------------------------------------------------------- code


class Code:
    """A module as Python functions.

    largest   elements of its largest block: with it go the programs that run together
    waits     whether programs may ask one another, by atomics whose results they use, by volatile loads or in a
              `while`: then they take turns
    talks     whether it prints: then programs run one by one
    """

    def __init__(self, front: Front, watched: frozenset[str] = frozenset()):
        self.module, self.watched = front.module, watched
        self.sites = Sites(front.sources)
        operations = [op for function in self.module.values() for op in ir.walk(function.blocks)]
        shapes = [t.shape for op in operations for _, t in op.results if t.shape]
        self.largest = max((prod(shape) for shape in shapes), default=1)
        self.talks = any(op.name == "tt.print" for op in operations)
        for function in self.module.values():
            drop_unused(function)
        self.waits = self._may_ask()
        self._run = self.body(front.entry, ()).run

    def body(self, function: ir.Function, way: tuple[tuple[ir.Function, ir.Place], ...]) -> Body:
        """A function of the module, as it is called by way of these places."""
        return Body(self, function, way)

    def run(self, arguments: list, programs: Programs) -> None:
        """arguments: a value for each of the kernel's."""
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


def code_of(front: Front, watched: frozenset[str] = frozenset()) -> Code:
    """The code of a module, made once."""
    known = _codes.setdefault(front, {})
    if watched not in known:
        known[watched] = Code(front, watched)
    return known[watched]


_codes: weakref.WeakKeyDictionary[Front, dict[frozenset[str], Code]] = weakref.WeakKeyDictionary()


class Body:
    """A function of the module, as it is called from one place: its operations know the lines that led to them.

    way   the places of the calls, the kernel's own first
    """

    def __init__(self, code: Code, function: ir.Function, way: tuple[tuple[ir.Function, ir.Place], ...]):
        self.code, self.function, self.way = code, function, way
        self.size = 0
        self._types: dict[str, ir.Type] = {}
        self._sums: set[int] = set()  # registers that may hold one
        self._passed_on = passed_on(function.blocks)
        self.uses = set().union(*map(uses_of, function.blocks))
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
        """A register for a value."""
        scope[name] = self.size
        self._types[name] = kind
        self.size += 1
        return scope[name]

    def called(self, callee: ir.Function, place: ir.Place) -> Body:
        """A function that is called from a place in this one."""
        return self.code.body(callee, (*self.way, (self.function, place)))

    def type_of(self, name: str) -> ir.Type:
        return self._types[name]

    def cost_of(self, block: ir.Block) -> tuple[int, int]:
        """Count what the operations of a block cost: see work.py."""
        return cost_of(block.operations, self.type_of)

    def site(self, place: ir.Place) -> Site:
        return self.code.sites.site((*self.way, (self.function, place)))

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
        """A region of one block."""
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
            if (found := lanewise(op, kinds)) is not None:
                return self._lanewise(op, scope, operands, found)
            if (own := control.OPERATIONS.get(op.name) or instructions.OPERATIONS.get(op.name)) is not None:
                return own(self, op, scope, operands)
            if (make := blocks.OPERATIONS.get(op.name)) is not None:
                return self._whole_blocks(op, scope, operands, make(op, kinds))
            name = op.name.rpartition(".")[2]
            raise NotHere(
                f"Triton's `{name}` operation has no version that runs without a GPU; write the kernel without it"
            )
        except NotHere as lacking:
            if lacking.site is None:
                lacking.site = self.site(op.place)
            raise

    def _sum(self, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
        """An addition whose result may stay a sum, unless it is passed on to where another value may come instead."""
        (a, b), ((name, kind),) = operands, op.results
        out, stays = self.new(scope, name, kind), bool(kind.shape) and name not in self._passed_on
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
        out, function, flops = self.new(scope, name, kind), found.function, found.flops
        each = found.per_lane * prod(kind.shape)
        if len(operands) == 2 and flops is None:
            a, b = operands

            def step(registers: Registers, programs: Programs) -> None:
                registers[out] = function(registers[a], registers[b])

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

    def _whole_blocks(self, op: ir.Operation, scope: dict[str, int], operands: list[int], found: blocks.Whole) -> Step:
        outs = [self.new(scope, name, kind) for name, kind in op.results]
        function, flops, each = found.function, found.flops, found.operations
        meeting, site = op.name in MEETING, self.site(op.place)
        if len(outs) == 1 and flops is None and not meeting:
            (out,) = outs

            def step(registers: Registers, programs: Programs) -> None:
                registers[out] = function(*[registers[i] for i in operands])

        else:

            def step(registers: Registers, programs: Programs) -> None:
                try:
                    results = function(*[registers[i] for i in operands])
                except Undefined as problem:
                    raise KernelError(f"{site}: {problem}.") from None
                for out, value in zip(outs, results if len(outs) > 1 else (results,), strict=True):
                    registers[out] = value
                if meeting:
                    programs.launched.memory.barrier(programs.numbers)
                if flops is not None:
                    programs.launched.flops[flops] += each * len(programs)

        return step


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


@dataclass
class Region:
    """The body of a loop, a branch or a reduction. outside: registers that it reads and does not set."""

    arguments: list[int]
    steps: list[Step]
    values: list[int]
    outside: list[int]
    cost: tuple[int, int]

    def run(self, registers: Registers, programs: Programs, passed: Iterable = ()) -> list:
        for register, value in zip(self.arguments, passed, strict=True):
            registers[register] = value
        programs.launched.work.spend(self.cost, len(programs))
        for step in self.steps:
            step(registers, programs)
        return [registers[i] for i in self.values]
