"""Gluon's operations as Python functions for one program, beside those that tracing/ has for Triton's.

    code = Code(front)                         once for each module
    code.run_block(values, programs, machine)  one program, on a machine

A tile is a memory.View; a product that may be under way is Pending until somebody has waited for it. All else is as in
tracing/evaluate.py, whose functions compute what is the same in both languages.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from course_lib.hopper.barriers import Barrier
from course_lib.hopper.faults import Kind, Spot, mistake
from course_lib.hopper.machine import Agent, Flight, Machine
from course_lib.hopper.memory import View, unknown
from course_lib.hopper.timeline import Costs
from course_lib.tracing import control, evaluate
from course_lib.tracing.accesses import Instruction
from course_lib.tracing.apart import Registers
from course_lib.tracing.blocks import MMA_K
from course_lib.tracing.evaluate import Launched, Programs, Step
from course_lib.tracing.operations import NotHere, constant, rounded
from course_lib.tracing.sums import whole
from course_lib.ttir import ir, numerics
from course_lib.ttir.elements import itemsize
from course_lib.ttir.frontend import Front
from course_lib.ttir.printed import type_of

MEMDESC = re.compile(r"!ttg\.memdesc<([^,]*), ")
WARPGROUP = 4  # warps, of a wgmma
TF32 = 0  # as the front end writes a product's inputPrecision
COSTS = Costs()
SPECIAL = re.compile(r"math\.(exp2?|log2?|sqrt|rsqrt|sin|cos|tanh|erf)$|arith\.divf$|tt\.precise_")
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


class Partition(Programs):
    """One program, as one of its partitions runs it."""

    def __init__(self, numbers: np.ndarray, launched: Launched, machine: Machine, agent: Agent):
        super().__init__(numbers, launched)
        self.machine, self.agent = machine, agent


@dataclass(eq=False)
class Pending:
    """The result of a product. value: (1, M, N), once `flight` is done."""

    flight: Flight
    value: np.ndarray | None = None


class Code(evaluate.Code):
    """A module of Gluon's as Python functions. Its programs run one by one, each on a machine of its own."""

    def __init__(self, front: Front):
        self.name, self.warps = front.kernel.fn.__name__, front.warps
        super().__init__(front)
        self.talks, self.waits = True, False

    def body(self, function: ir.Function, way: tuple[tuple[ir.Function, ir.Place], ...]) -> Body:
        return Body(self, function, way)

    def run_block(self, values: list, programs: Programs, machine: Machine) -> None:
        machine.run(
            self.name,
            self.warps,
            lambda agent: self.run(values, Partition(programs.numbers, programs.launched, machine, agent)),
        )


def code_of(front: Front) -> Code:
    """The code of a module, made once."""
    if front not in _codes:
        _codes[front] = Code(front)
    return _codes[front]


_codes: weakref.WeakKeyDictionary[Front, Code] = weakref.WeakKeyDictionary()


class Body(evaluate.Body):
    """A function as it is called from one place."""

    def spot(self, place: ir.Place) -> Spot:
        """The line of the student's in which this operation stands, and the one that called its function."""
        found = None
        for name, line, source in self.code.sites.frames((*self.way, (self.function, place))):
            if line > 1:  # where a partition begins, no line is said
                found = Spot(name, line, source.partition("  #")[0], found)
        return found or Spot(self.code.name, 1, f"def {self.code.name}")

    @property
    def depth(self) -> int:
        """How many calls it is away from the kernel."""
        return len(self.way)

    def _step(self, op: ir.Operation, scope: dict[str, int]) -> Step | None:
        if (make := OPERATIONS.get(op.name)) is None:
            if op.name.startswith(("ttg.", "ttng.", "gluon.", "nvg.")) and op.name != "ttg.barrier":
                raise NotHere(self._unknown(op))
            return self._looked_at(op, super()._step(op, scope), scope)
        operands = [scope[name] for name in op.operands]
        if not self._sums.isdisjoint(operands):
            return self._on_wholes(op, scope)
        return make(self, op, scope, operands)

    def _unknown(self, op: ir.Operation) -> str:
        site = self.site(op.place)
        name = op.name.rpartition(".")[2]
        return f"{site}: Gluon's `{name}` is not simulated; run this kernel on a GPU, or write it without"

    def _looked_at(self, op: ir.Operation, step: Step | None, scope: Mapping[str, int]) -> Step | None:
        """Extend a step that computes on blocks: no operand may be under way, and the work is counted."""
        blocks = [name for name in op.operands if self.type_of(name).shape]
        shape = max((kind.shape for _, kind in op.results), key=prod, default=())
        if step is None or (op.regions and op.name != "tt.reduce") or op.name == "tt.call" or not (blocks or shape):
            return step
        registers_of = [scope[name] for name in blocks]
        spot = self.spot(op.place)
        size = prod(self.type_of(blocks[0]).shape) if op.name == "tt.reduce" else prod(shape)
        pipe = "special" if SPECIAL.match(op.name) else "lanes"
        cycles = 0.0 if op.name in MOVES or not shape else size / (COSTS.special if pipe == "special" else COSTS.lanes)

        def looked_at(registers: Registers, programs: Partition) -> None:
            for i in registers_of:
                if type(registers[i]) is Pending:
                    registers[i] = _arrived(registers[i], programs, spot)
            if cycles and type(programs) is Partition:
                programs.machine.order.computes(programs.agent, pipe, cycles)
            step(registers, programs)

        return looked_at


def _arrived(value: Any, programs: Partition, spot: Spot) -> Any:
    """The numbers of a product that somebody has waited for. Raises Mistake if nobody has."""
    if type(value) is not Pending:
        return whole(value)
    if not value.flight.joined:
        raise mistake(
            Kind.ACCUMULATOR,
            f"{programs.agent.name} uses in {spot} the result of the wgmma that it issued in {value.flight.spot}, which may be under "
            "way still: no warpgroup_mma_wait has waited for it.",
            second=spot,
            first=value.flight.spot,
            who=programs.agent.name,
        )
    return value.value


def _memory_of(kind: ir.Type) -> ir.Type:
    """Shape and element of "!ttg.memdesc<2x64x64xf16, ...>"."""
    return type_of(f"tensor<{MEMDESC.match(kind.element)[1]}>")


Make = Callable[[Body, ir.Operation, dict[str, int], list[int]], Step]
Act = Callable[[Partition, list], Any]


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


def _number(value: np.ndarray) -> int:
    return int(value.reshape(-1)[0])


# ----------------------------------------------------------------------------------------------------- tiles


def _local_alloc(body: Body, op: ir.Operation, spot: Spot) -> Act:
    kind = _memory_of(op.results[0][1])

    def act(programs: Partition, values: list) -> View:
        view = programs.machine.shared.allocate(kind.shape, kind.element, op.place.name, body.depth, spot)
        if values:
            _stored(programs, view, values[0], spot)
        return view

    return act


def _local_dealloc(body: Body, op: ir.Operation, spot: Spot) -> Act:
    return lambda programs, values: programs.machine.shared.free(values[0])


def _index(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> View:
        view, i = values[0], _number(values[1])
        if not 0 <= i < len(view.array):
            raise mistake(
                Kind.INDEX,
                f"{programs.agent.name} asks in {spot} for `{view.name}[{i}]`, and there are {len(view.array)}.",
                second=spot,
                buffer=view.name,
                who=programs.agent.name,
            )
        return view.part(view.array[i], f"[{i}]")

    return act


def _subslice(body: Body, op: ir.Operation, spot: Spot) -> Act:
    shape = _memory_of(op.results[0][1]).shape
    offsets = op.attributes.get("literals") or op.attributes.get("offsets")
    if offsets is None:
        raise NotHere("a part of a tile whose place is not known is not simulated")
    cut = tuple(slice(first, first + n) for first, n in zip(offsets, shape, strict=True))
    index = "[" + ", ".join(f"{c.start}:{c.stop}" for c in cut) + "]"
    return lambda programs, values: values[0].part(values[0].array[cut], index)


def _trans(body: Body, op: ir.Operation, spot: Spot) -> Act:
    order = op.attributes["order"]
    return lambda programs, values: values[0].part(values[0].array.transpose(order))


def _reshape(body: Body, op: ir.Operation, spot: Spot) -> Act:
    shape = _memory_of(op.results[0][1]).shape

    def act(programs: Partition, values: list) -> View:
        array = values[0].array.reshape(shape)
        if not np.shares_memory(array, values[0].array):
            raise NotHere(f"{spot}: this reshape of a tile is not simulated")
        return values[0].part(array)

    return act


def _local_store(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        value, view = values
        programs.machine.event(programs.agent)
        _stored(programs, view, _arrived(value, programs, spot), spot)

    return act


def _stored(programs: Partition, view: View, value: np.ndarray, spot: Spot) -> None:
    programs.machine.access(programs.agent, view, "store", spot, write=True, generic=True)
    view.array[...] = _arrived(value, programs, spot)[0]
    programs.machine.order.spend(programs.agent, view.bytes / COSTS.shared_bytes, "shared memory")


def _local_load(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> np.ndarray:
        (view,) = values[:1]
        programs.machine.event(programs.agent)
        programs.machine.access(programs.agent, view, "load", spot, write=False, generic=True)
        programs.machine.order.spend(programs.agent, view.bytes / COSTS.shared_bytes, "shared memory")
        return view.array[None].copy()

    return act


def _same(body: Body, op: ir.Operation, spot: Spot) -> Act:
    """A change of layout: who holds the numbers is not simulated."""
    return lambda programs, values: _arrived(values[0], programs, spot)


def _fence(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        machine, agent = programs.machine, programs.agent
        machine.event(agent)
        machine.shared.fence(agent, agent.tick())
        machine.counts.fences += 1
        machine.order.spend(agent, COSTS.fence, "fence")

    return act


# ----------------------------------------------------------------------------------------------------- barriers


def _init_barrier(body: Body, op: ir.Operation, spot: Spot) -> Act:
    count = op.attributes["count"]

    def act(programs: Partition, values: list) -> None:
        (view,) = values
        programs.machine.event(programs.agent)
        programs.machine.barriers[view.ends[0]] = Barrier(view.name, count, count)
        programs.machine.counts.barriers += 1

    return act


def _inval_barrier(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        programs.machine.barrier(values[0], spot)
        del programs.machine.barriers[values[0].ends[0]]

    return act


def _expect(body: Body, op: ir.Operation, spot: Spot) -> Act:
    size = op.attributes["size"]

    def act(programs: Partition, values: list) -> None:
        view, pred = values
        if pred.all():
            programs.machine.event(programs.agent)
            barrier = programs.machine.barrier(view, spot)
            barrier.bytes += size
            programs.machine.arrive(programs.agent, barrier, spot)

    return act


def _arrive(body: Body, op: ir.Operation, spot: Spot) -> Act:
    count = op.attributes["count"]

    def act(programs: Partition, values: list) -> None:
        view, *pred = values
        if all(p.all() for p in pred):
            programs.machine.event(programs.agent)
            programs.machine.arrive(programs.agent, programs.machine.barrier(view, spot), spot, count)
            programs.machine.order.spend(programs.agent, COSTS.arrive, "arrive")

    return act


def _wait(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        view, parity, *rest = values
        if not rest or isinstance(rest[0], View) or rest[0].all():
            programs.machine.event(programs.agent)
            programs.machine.wait(programs.agent, programs.machine.barrier(view, spot), _number(parity), spot)
            programs.machine.order.spend(programs.agent, COSTS.wait, "look at a barrier")

    return act


# ----------------------------------------------------------------------------------------------------- copies


def _tma_load(body: Body, op: ir.Operation, spot: Spot) -> Act:
    described = body.type_of(op.operands[0])
    at = Instruction("load", body.site(op.place), described.pointee, described.shape)
    size, rank = itemsize(described.pointee), len(described.shape)

    def act(programs: Partition, values: list) -> None:
        descriptor, where, rest = values[0], values[1 : 1 + rank], values[1 + rank :]
        view, gate, pred = _sorted(rest)
        if not pred.all():
            return
        machine, agent = programs.machine, programs.agent
        machine.event(agent)
        barrier = machine.barrier(gate, spot)
        _same_shape(view, described.shape, spot)

        def do() -> None:
            pointers, mask = descriptor.pointers(described.shape, where, size)
            other = constant(descriptor.padding, ir.Type(described.pointee, described.shape))
            loaded = programs.launched.memory.load(at, programs.numbers, pointers, mask, other)
            view.array[...] = loaded[0]

        flight = machine.flight(agent, "TMA load", spot, op, do)
        flight.barrier, flight.bytes, flight.phase = barrier, view.bytes, barrier.completed
        flight.fetches = True
        machine.access(agent, view, flight.what, spot, write=True, generic=False, flight=flight)
        unknown(view)
        barrier.copies.append(flight)
        machine.counts.tma_loads += 1
        machine.counts.bytes_to_shared += view.bytes
        machine.issue(flight, machine.loads)

    return act


def _sorted(rest: list) -> tuple[View, View, np.ndarray]:
    """(tile, barrier, predicate) of a TMA load: the barrier is the one that is 64 bits long."""
    views, (pred,) = [v for v in rest if isinstance(v, View)], [v for v in rest if not isinstance(v, View)]
    gates = [view for view in views if view.allocation.element == "i64" and view.array.size == 1]
    return next(view for view in views if view is not gates[-1]), gates[-1], pred


def _same_shape(view: View, shape: tuple[int, ...], spot: Spot) -> None:
    if view.array.shape != tuple(shape):
        raise mistake(
            Kind.SHAPES,
            f"the descriptor's block is {tuple(shape)} and `{view.name}` is {view.array.shape}, in {spot}.",
            second=spot,
            buffer=view.name,
        )


def _tma_store(body: Body, op: ir.Operation, spot: Spot) -> Act:
    described = body.type_of(op.operands[0])
    at = Instruction("store", body.site(op.place), described.pointee, described.shape)
    size = itemsize(described.pointee)

    def act(programs: Partition, values: list) -> None:
        descriptor, *where, view = values
        machine, agent = programs.machine, programs.agent
        machine.event(agent)
        _same_shape(view, described.shape, spot)

        def do() -> None:
            pointers, mask = descriptor.pointers(described.shape, where, size)
            programs.launched.memory.store(at, programs.numbers, pointers, view.array[None], mask)

        flight = machine.flight(agent, "TMA store", spot, op, do)
        flight.bytes = view.bytes
        machine.access(agent, view, flight.what, spot, write=False, generic=False, flight=flight)
        machine.counts.tma_stores += 1
        machine.counts.bytes_from_shared += view.bytes
        machine.issue(flight, agent.stores)

    return act


def _store_wait(body: Body, op: ir.Operation, spot: Spot) -> Act:
    pendings = op.attributes["pendings"]

    def act(programs: Partition, values: list) -> None:
        programs.machine.event(programs.agent)
        programs.machine.finish(programs.agent, programs.agent.stores, pendings)

    return act


def _async_copy(body: Body, op: ir.Operation, spot: Spot) -> Act:
    """cp.async: threads fetch by pointers, and it is theirs: what it has written, tensor cores see after a fence."""
    pointer = body.type_of(op.operands[0])
    at = Instruction("load", body.site(op.place), pointer.pointee, pointer.shape)
    zero = constant(0, ir.Type(pointer.pointee, pointer.shape))

    def act(programs: Partition, values: list) -> None:
        pointers, view, *rest = values
        mask, other = (*rest, None, None)[:2]
        machine, agent = programs.machine, programs.agent
        machine.event(agent)

        def do() -> None:
            filling = () if mask is None else (mask, zero if other is None else other)
            view.array[...] = programs.launched.memory.load(at, programs.numbers, pointers, *filling)[0]

        flight = machine.flight(agent, "cp.async", spot, op, do)
        flight.bytes, flight.fetches = view.bytes, True
        machine.access(agent, view, flight.what, spot, write=True, generic=True, flight=flight)
        unknown(view)
        machine.counts.async_copies += 1
        machine.counts.bytes_to_shared += view.bytes
        machine.issue(flight, agent.copies)

    return act


def _commit_group(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        agent = programs.agent
        agent.groups.append(agent.copies)
        agent.copies = []

    return act


def _wait_group(body: Body, op: ir.Operation, spot: Spot) -> Act:
    outstanding = op.attributes["num"]

    def act(programs: Partition, values: list) -> None:
        machine, agent = programs.machine, programs.agent
        machine.event(agent)
        while len(agent.groups) > outstanding:
            machine.finish(agent, agent.groups.pop(0))

    return act


# ----------------------------------------------------------------------------------------------------- products


def _warp_group_dot(body: Body, op: ir.Operation, spot: Spot) -> Act:
    ((_, result),) = op.results
    waits, tf32 = not op.attributes.get("isAsync"), op.attributes.get("inputPrecision", TF32) == TF32

    def act(programs: Partition, values: list) -> Pending | np.ndarray:
        a, b, acc, *rest = values
        keep = all(flag.all() for flag in rest[:1])
        machine, agent = programs.machine, programs.agent
        machine.event(agent)
        if agent.warps % WARPGROUP:
            raise mistake(
                Kind.WARPGROUP,
                f"{agent.name} has {agent.warps} warps, and the wgmma in {spot} takes {WARPGROUP} or a multiple of it.",
                second=spot,
                who=agent.name,
            )
        if not isinstance(a, View):
            a = _arrived(a, programs, spot)
        if not (type(acc) is Pending and acc.flight.issuer is agent):
            acc = _arrived(acc, programs, spot)
        shape = a.array.shape if isinstance(a, View) else a.shape[1:]
        element = b.allocation.element
        found = Pending(None)

        def do() -> None:
            left, right = (x.array[None] if isinstance(x, View) else x for x in (a, b))
            before = acc.value if type(acc) is Pending else acc
            start = before if keep else np.zeros((1, *result.shape), before.dtype)
            found.value = _product(
                left, right, np.broadcast_to(start, (1, *result.shape)), element, result.element, tf32
            )

        flight = found.flight = machine.flight(agent, "wgmma", spot, op, do)
        for view in (a, b):
            if isinstance(view, View):
                machine.access(agent, view, "wgmma", spot, write=False, generic=False, flight=flight)
        product_shape = (*result.shape, shape[-1])
        flight.cycles = prod(product_shape) * itemsize(element) / 2 / COSTS.multiply_adds
        machine.multiplies(agent, spot, product_shape)
        machine.counts.wgmma += 1
        machine.issue(flight, agent.products)
        machine.order.spend(agent, COSTS.product_issue, "issue")
        if not waits:
            return found
        machine.finish(agent, agent.products)
        return found.value

    return act


def _product(a: np.ndarray, b: np.ndarray, acc: np.ndarray, element: str, result: str, tf32: bool) -> np.ndarray:
    """(1, M, N) = a @ b + acc, as tensor cores compute it."""
    if element == "f32" and tf32:
        a, b = numerics.tf32(np.ascontiguousarray(a)), numerics.tf32(np.ascontiguousarray(b))
    step = MMA_K if result == "f16" else a.shape[-1]
    for k in range(0, a.shape[-1], step):
        acc = rounded(numerics.dot(a[..., k : k + step], b[..., k : k + step, :], acc), result)
    return acc


def _dot_wait(body: Body, op: ir.Operation, spot: Spot) -> Act:
    pendings = op.attributes["pendings"]

    def act(programs: Partition, values: list) -> Any:
        programs.machine.event(programs.agent)
        programs.machine.finish(programs.agent, programs.agent.products, pendings)
        found = [v.value if type(v) is Pending and v.flight.joined else v for v in values]
        return found if len(found) > 1 else found[0]

    return act


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
                    f"{name} is passed a block of {' x '.join(map(str, kind.shape))} numbers in {spot}. They are in the registers of the "
                    "warps that computed them, which no other warp can read: pass them through shared memory.",
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
    **{
        name: _acting(act)
        for name, act in {
            "ttg.local_alloc": _local_alloc,
            "ttg.local_dealloc": _local_dealloc,
            "ttg.local_load": _local_load,
            "ttg.local_store": _local_store,
            "ttg.memdesc_index": _index,
            "ttg.memdesc_subslice": _subslice,
            "ttg.memdesc_trans": _trans,
            "ttg.memdesc_reshape": _reshape,
            "ttg.convert_layout": _same,
            "gluon.set_auto_layout": _same,
            "ttng.fence_async_shared": _fence,
            "ttng.init_barrier": _init_barrier,
            "ttng.inval_barrier": _inval_barrier,
            "ttng.barrier_expect": _expect,
            "ttng.arrive_barrier": _arrive,
            "ttng.wait_barrier": _wait,
            "ttng.async_tma_copy_global_to_local": _tma_load,
            "ttng.async_tma_copy_local_to_global": _tma_store,
            "ttng.async_tma_store_wait": _store_wait,
            "ttg.async_copy_global_to_local": _async_copy,
            "ttg.async_commit_group": _commit_group,
            "ttg.async_wait": _wait_group,
            "ttng.warp_group_dot": _warp_group_dot,
            "ttng.warp_group_dot_wait": _dot_wait,
        }.items()
    },
}
