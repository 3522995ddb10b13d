"""Gluon's operations as Python functions for one program, beside those that tracing/ has for Triton's.

    code = Code(front)                         once for each module
    code.run_block(values, programs, machine)  one program, on a machine

A tile is a memory.View; a product that may be under way is Pending until somebody has waited for it. All else is as in
tracing/evaluate.py, whose functions compute what is the same in both languages.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Any

from tritontrace.hopper import arithmetic
from tritontrace.hopper.faults import Kind, Spot, mistake
from tritontrace.hopper.instructions import INSTRUCTIONS, Act
from tritontrace.hopper.machine import Machine
from tritontrace.hopper.memory import View
from tritontrace.hopper.values import MEMDESC, Partition, Pending, arrived, memory_of
from tritontrace.messages import say
from tritontrace.tracing import control, evaluate
from tritontrace.tracing.divergence import Registers
from tritontrace.tracing.operations import NotHere
from tritontrace.tracing.program import Programs, Step
from tritontrace.tracing.work import MEMORY, OPERATION
from tritontrace.ttir import ir
from tritontrace.ttir.frontend import Front
from tritontrace.ttir.launching import Site


class Code(evaluate.Code):
    """A module of Gluon IR compiled to Python functions. Each program runs on a Machine of its own."""

    def __init__(self, front: Front):
        self.name, self.warps = front.kernel.fn.__name__, front.warps
        self.gates: set[object] = set()  # one for each instruction that uses a barrier
        super().__init__(front)
        self.talks = True

    def body(self, function: ir.Function, way: tuple[tuple[ir.Function, ir.Place], ...]) -> Body:
        return Body(self, function, way)

    def run_block(self, values: list, programs: Programs, machine: Machine) -> None:
        machine.run(
            self.name,
            self.warps,
            lambda agent: self.run(values, Partition(programs.numbers, programs.launched, machine, agent)),
        )


def code_of(front: Front) -> Code:
    """Return the Code of a module, cached."""
    if front not in _codes:
        _codes[front] = Code(front)
    return _codes[front]


_codes: weakref.WeakKeyDictionary[Front, Code] = weakref.WeakKeyDictionary()


class Body(evaluate.Body):
    """A function of the module, as called from one place."""

    code: Code

    @cached_property
    def _only_users(self) -> dict[str, ir.Operation]:
        return arithmetic.only_users(self.function.blocks)

    def _inside(self, op: ir.Operation) -> Iterator[ir.Operation]:
        """The operations of its regions, and of the functions called there."""
        for inner in (inner for region in op.regions for inner in ir.walk(region)):
            yield inner
            if inner.name == "tt.call":
                yield from ir.walk(self.code.module[inner.attributes["callee"]].blocks)

    def spot(self, place: ir.Place) -> Spot:
        """Return the source line of this operation, and of the calls that led to it."""
        found = None
        for name, line, source in self.code.sites.frames((*self.way, (self.function, place))):
            found = Spot(name, line, source.partition("  #")[0], found)
        at = super().site(place)
        return found or Spot(at.kernel, at.line, at.source)

    def site(self, place: ir.Place) -> Site:
        """Return the same as a Site. In a partition its own line counts, since the kernel's is but the `def`."""
        frames = self.code.sites.frames((*self.way, (self.function, place)))
        return super().site(place) if not frames or frames[0][0] == self.code.name else Site(*frames[-1])

    @property
    def depth(self) -> int:
        """Return how many calls of @triton.jit functions lie between the kernel and this function."""
        return len(self.way)

    def cost_of(self, block: ir.Block) -> tuple[int, int]:
        """Return the cost of a block, with what the simulator does for each Gluon instruction."""
        once, each = super().cost_of(block)
        return once + sum(self._effort(op) for op in block.operations if op.name in INSTRUCTIONS), each

    def _effort(self, op: ir.Operation) -> int:
        if op.name == "ttng.warp_group_dot":
            a, b = (prod(self._shape(name)) for name in op.operands[:2])
            return MEMORY * OPERATION + a * b // prod(self.type_of(op.operands[2]).shape)
        elements = max((prod(self._shape(name)) for name in op.operands), default=0)
        return MEMORY * (OPERATION + elements) if "copy_" in op.name else 4 * OPERATION

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of a block, a tile or what a descriptor describes."""
        kind = self.type_of(name)
        return memory_of(kind).shape if MEMDESC.match(kind.element) else kind.shape

    def _step(self, op: ir.Operation, scope: dict[str, int]) -> Step | None:
        if (make := OPERATIONS.get(op.name)) is None:
            if op.name.startswith(("ttg.", "ttng.", "gluon.", "nvg.")) and op.name != "ttg.barrier":
                name = op.name.rpartition(".")[2]
                raise NotHere(say("launch.lacking.gluon", operation=name), self.site(op.place))
            return self._looked_at(op, super()._step(op, scope), scope)
        operands = [scope[name] for name in op.operands]
        if not self._sums.isdisjoint(operands):
            return self._on_wholes(op, scope)
        return make(self, op, scope, operands)

    def _looked_at(self, op: ir.Operation, step: Step | None, scope: Mapping[str, int]) -> Step | None:
        """Extend a step that computes on blocks: no operand may be under way, and the work is counted."""
        blocks = [name for name in op.operands if self.type_of(name).shape]
        shape = max((kind.shape for _, kind in op.results), key=prod, default=())
        if step is None or (op.regions and op.name != "tt.reduce") or op.name == "tt.call" or not (blocks or shape):
            return step
        registers_of = [scope[name] for name in blocks]
        spot = self.spot(op.place)
        user = self._only_users.get(op.results[0][0]) if op.results else None
        takes = arithmetic.takes(op, self.type_of, user, self._inside(op))
        reduces = op.name == "tt.reduce"

        def looked_at(registers: Registers, programs: Partition) -> None:
            for i in registers_of:
                if type(registers[i]) is Pending:
                    registers[i] = arrived(registers[i], programs, spot)
            if takes and type(programs) is Partition:
                programs.machine.computes(programs.agent, takes, reduces)
            step(registers, programs)

        return looked_at


Make = Callable[[Body, ir.Operation, dict[str, int], list[int]], Step]


def _acting(act: Callable[[Body, ir.Operation, Spot], Act]) -> Make:
    """Make the steps of operations from a function that takes the values of operands and returns that of the result, if any."""

    def make(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
        outs = [body.new(scope, name, kind) for name, kind in op.results]
        do = act(body, op, body.spot(op.place))

        def step(registers: Registers, programs: Partition) -> None:
            result = do(programs, [registers[i] for i in operands])
            for out, value in zip(outs, result if len(outs) > 1 else (result,), strict=False):
                registers[out] = value

        return step

    return make


# ----------------------------------------------------------------------------------------------------- partitions


def _warp_specialize(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    own, *others = op.regions
    names = _names(body, op.regions)
    default = body.region(own, scope)
    workers = [body.region(region, scope) for region in others]
    warps, spot = op.attributes["num_warps"], body.spot(op.place)
    outs = [body.new(scope, name, kind) for name, kind in op.results]
    foreign = _blocks_passed(body, op, names, spot)

    def step(registers: Registers, programs: Partition) -> None:
        machine, parent = programs.machine, programs.agent
        if foreign is not None:
            raise foreign
        machine.event(parent)
        machine.shared.partitions += 1
        passed = [registers[i] for i in operands]
        started = [
            machine.fork(
                parent,
                name,
                count,
                lambda agent, region=region: region.run(
                    registers, Partition(programs.numbers, programs.launched, machine, agent), passed
                ),
            )
            for name, count, region in zip(names[1:], warps, workers, strict=True)
        ]
        before, parent.name = parent.name, names[0]
        values = default.run(registers, programs)
        machine.meet(parent, started, spot)
        machine.shared.partitions -= 1
        parent.name = before
        for out, value in zip(outs, values, strict=True):
            registers[out] = value

    return step


def _names(body: Body, regions: tuple[list[ir.Block], ...]) -> list[str]:
    """Names of partitions: as the functions that they run, with a number if two run the same."""
    names = []
    for region in regions:
        call = next((op for op in ir.walk(region) if op.name == "tt.call"), None)
        names.append(body.code.sites.called(body.code.module[call.attributes["callee"]]) if call else "partition")
    return [f"{name}#{names[:i].count(name)}" if names.count(name) > 1 else name for i, name in enumerate(names)]


def _blocks_passed(body: Body, op: ir.Operation, names: list[str], spot: Spot) -> Exception | None:
    """The mistake of a partition that is passed numbers in the registers of another one, if there is one."""
    for name, region in zip(names[1:], op.regions[1:], strict=True):
        used = {operand for inner in ir.walk(region) for operand in inner.operands}
        for argument, kind in region[0].arguments:
            if kind.shape and argument in used and kind.element != "desc":
                return mistake(
                    Kind.REGISTERS,
                    say("hopper.use.registers", who=name, shape=list(kind.shape), spot=str(spot)),
                    second=spot,
                    who=name,
                )
    return None


def _call(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    """A call. Shared memory gets the names of the variables that hold it: what a function made as `full` and the caller calls `ks`
    is `ks.full`."""
    callee = body.code.module[op.attributes["callee"]]
    step = control.OPERATIONS["tt.call"](body, op, scope, operands)
    outs = [scope[name] for name, _ in op.results]
    known = {name for name, _ in callee.arguments}
    parameters = [_parameter(name, known) for name, _ in callee.arguments]

    def named(registers: Registers, programs: Partition) -> None:
        for register, name in zip(operands, parameters, strict=True):
            _called(registers[register], name, body.depth)
        step(registers, programs)
        for register in outs:
            _called(registers[register], op.place.name, body.depth, alone=len(outs) == 1)

    return named


def _parameter(name: str, known: set[str]) -> str:
    """The parameter of an argument: a tuple's parts are %ks, %ks_0, %ks_1."""
    stem = re.sub(r"_\d+$", "", name)
    return (stem if stem in known else name)[1:]


def _called(value: Any, name: str, depth: int, alone: bool = False) -> None:
    """Name shared memory that a function has made after the variable that its caller holds it by; `alone` if it is nothing else."""
    if isinstance(value, View) and name and value.allocation.depth > depth:
        made = value.allocation
        made.name, made.depth = (name if alone else f"{name}.{made.name}"), depth


OPERATIONS: dict[str, Make] = {
    "tt.call": _call,
    "ttg.warp_specialize": _warp_specialize,
    **{name: _acting(act) for name, act in INSTRUCTIONS.items()},
}
