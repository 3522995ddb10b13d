"""Gluon's instructions on tiles, barriers, copies and products. Each is a function of (body, op, spot): the function that the
operation stands in, the operation and its line; it makes what takes the values of operands and returns that of the result."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Protocol

import numpy as np

from tritontrace.hopper import upkeep
from tritontrace.hopper.barriers import Barrier
from tritontrace.hopper.faults import Kind, Spot, mistake
from tritontrace.hopper.memory import Outside, View, unknown
from tritontrace.hopper.timeline import Costs
from tritontrace.hopper.values import Partition, Pending, arrived, memory_of, number
from tritontrace.messages import say
from tritontrace.tracing.accesses import Instruction
from tritontrace.tracing.blocks import MMA_K
from tritontrace.tracing.operations import NotHere, constant, rounded
from tritontrace.ttir import ir, numerics
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.launching import Site

Act = Callable[[Partition, list], Any]

WARPGROUP = 4  # warps, of a wgmma
TF32 = 0  # as the front end writes a product's inputPrecision
COSTS = Costs()


class ModuleCode(Protocol):
    """Interface of a module's code that an instruction may use: evaluate.Code. gates: one for each instruction that uses a barrier."""

    gates: set[object]


class Body(Protocol):
    """Interface of a function that an instruction may use: evaluate.Body. depth: calls away from the kernel."""

    @property
    def code(self) -> ModuleCode: ...

    @property
    def depth(self) -> int: ...

    def type_of(self, name: str) -> ir.Type: ...

    def site(self, place: ir.Place) -> Site: ...


# ----------------------------------------------------------------------------------------------------- tiles


def _local_alloc(body: Body, op: ir.Operation, spot: Spot) -> Act:
    kind, site = memory_of(op.results[0][1]), object()

    def act(programs: Partition, values: list) -> View:
        view = programs.machine.shared.allocate(kind.shape, kind.element, op.place.name, body.depth, spot, site)
        if values:
            _stored(programs, view, values[0], spot)
        return view

    return act


def _local_dealloc(body: Body, op: ir.Operation, spot: Spot) -> Act:
    return lambda programs, values: programs.machine.shared.free(values[0])


def _index(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> View:
        view, i = values[0], number(values[1])
        if not 0 <= i < len(view.array):
            who = programs.agent.name
            why = say("hopper.use.index", who=who, spot=str(spot), buffer=view.name, index=i, count=len(view.array))
            facts = {"second": spot, "buffer": view.name, "who": programs.agent.name}
            return Outside(view.allocation, f"{view.index}[{i}]", mistake(Kind.INDEX, why, **facts))
        return view.part(view.array[i], f"[{i}]")

    return act


def _subslice(body: Body, op: ir.Operation, spot: Spot) -> Act:
    shape = memory_of(op.results[0][1]).shape
    offsets = op.attributes.get("literals") or op.attributes.get("offsets")
    if offsets is None:
        raise NotHere(say("launch.lacking.place_of_a_part"), body.site(op.place))
    cut = tuple(slice(first, first + n) for first, n in zip(offsets, shape, strict=True))
    index = "[" + ", ".join(f"{c.start}:{c.stop}" for c in cut) + "]"
    return lambda programs, values: values[0].part(values[0].array[cut], index)


def _trans(body: Body, op: ir.Operation, spot: Spot) -> Act:
    order = op.attributes["order"]
    return lambda programs, values: values[0].part(values[0].array.transpose(order))


def _reshape(body: Body, op: ir.Operation, spot: Spot) -> Act:
    shape, site = memory_of(op.results[0][1]).shape, body.site(op.place)

    def act(programs: Partition, values: list) -> View:
        array = values[0].array.reshape(shape)
        if not np.shares_memory(array, values[0].array):
            raise NotHere(say("launch.lacking.reshape"), site)
        return values[0].part(array)

    return act


def _local_store(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        value, view = values
        programs.machine.event(programs.agent)
        _stored(programs, view, arrived(value, programs, spot), spot)

    return act


def _stored(programs: Partition, view: View, value: np.ndarray, spot: Spot) -> None:
    programs.machine.access(programs.agent, view, "store", spot, write=True, generic=True)
    view.array[...] = arrived(value, programs, spot)[0]
    programs.machine.order.spend(programs.agent, view.bytes / COSTS.shared_bytes, "shared memory")


def _local_load(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> np.ndarray:
        (view,) = values[:1]
        programs.machine.event(programs.agent)
        programs.machine.access(programs.agent, view, "load", spot, write=False, generic=True)
        programs.machine.reads(view.bytes)
        programs.machine.order.spend(programs.agent, view.bytes / COSTS.shared_bytes, "shared memory")
        return view.array[None].copy()

    return act


def _same(body: Body, op: ir.Operation, spot: Spot) -> Act:
    """A change of layout: who holds the numbers is not simulated."""
    return lambda programs, values: arrived(values[0], programs, spot)


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
        if (stands := programs.machine.barriers.get(view.ends[0])) is not None:
            raise upkeep.made_again(view, stands.made, spot)
        programs.machine.barriers[view.ends[0]] = Barrier(view.name, count, count, spot)
        programs.machine.counts.barriers += 1
        upkeep.touched(programs.machine, view, stand=1, made=spot)

    return act


def _inval_barrier(body: Body, op: ir.Operation, spot: Spot) -> Act:
    def act(programs: Partition, values: list) -> None:
        programs.machine.barrier(values[0], spot)
        del programs.machine.barriers[values[0].ends[0]]
        upkeep.touched(programs.machine, values[0], stand=-1)

    return act


def _of_barrier(make: Callable[[Body, ir.Operation, Spot], Act]) -> Callable[[Body, ir.Operation, Spot], Act]:
    """The same instruction, noted as one that uses a barrier, whether its predicate lets it or not."""

    def noted(body: Body, op: ir.Operation, spot: Spot) -> Act:
        act, gate = make(body, op, spot), object()
        body.code.gates.add(gate)

        def used(programs: Partition, values: list) -> Any:
            programs.machine.gates.add(gate)
            for view in values:
                if isinstance(view, View) and view.allocation.barriers is not None and not isinstance(view, Outside):
                    upkeep.touched(programs.machine, view, used=True)
            return act(programs, values)

        return used

    return noted


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
            programs.machine.wait(programs.agent, programs.machine.barrier(view, spot), number(parity), spot)
            programs.machine.order.spend(programs.agent, COSTS.wait, "look at a barrier")

    return act


# ----------------------------------------------------------------------------------------------------- copies


def _tma_load(body: Body, op: ir.Operation, spot: Spot) -> Act:
    described = body.type_of(op.operands[0])
    at = Instruction("load", body.site(op.place), described.pointee, described.shape, described=True)
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
            machine.counts.tma_read += size * _lanes(mask, described.shape)
            other = constant(descriptor.padding, ir.Type(described.pointee, described.shape))
            loaded = programs.launched.memory.load(at, programs.numbers, pointers, mask, other)
            view.array[...] = loaded[0]

        flight = machine.flight(agent, "TMA load", spot, op, do)
        flight.barrier, flight.bytes, flight.phase = barrier, view.bytes, barrier.completed
        flight.fetches = True
        machine.access(agent, view, flight.what, spot, write=True, generic=False, flight=flight)
        unknown(view)
        barrier.copies.add(flight.id)
        machine.counts.tma_loads += 1
        machine.counts.bytes_to_shared += view.bytes
        machine.issue(flight, machine.loads)

    return act


def _lanes(mask: np.ndarray | None, shape: tuple[int, ...]) -> int:
    """How many elements of a block a mask lets through."""
    return prod(shape) if mask is None else int(np.broadcast_to(mask[0], shape).sum())


def _sorted(rest: list) -> tuple[View, View, np.ndarray]:
    """(tile, barrier, predicate) of a TMA load: the barrier is the one that is 64 bits long."""
    views, (pred,) = [v for v in rest if isinstance(v, View)], [v for v in rest if not isinstance(v, View)]
    gates = [v for v in views if v.allocation.element == "i64" and (isinstance(v, Outside) or v.array.size == 1)]
    return next(view for view in views if view is not gates[-1]), gates[-1], pred


def _same_shape(view: View, shape: tuple[int, ...], spot: Spot) -> None:
    if view.array.shape != tuple(shape):
        raise mistake(
            Kind.SHAPES,
            say(
                "hopper.use.shapes", block=tuple(shape), buffer=view.name, shape=tuple(view.array.shape), spot=str(spot)
            ),
            second=spot,
            buffer=view.name,
        )


def _tma_store(body: Body, op: ir.Operation, spot: Spot) -> Act:
    """TMA out of shared memory: a copy, or an update of what is there."""
    described = body.type_of(op.operands[0])
    kind, size = op.attributes.get("kind"), itemsize(described.pointee)
    at = Instruction("atomic" if kind else "store", body.site(op.place), described.pointee, described.shape, True)
    if kind == "add" and described.pointee.startswith(("f", "bf")):
        kind = "fadd"

    def act(programs: Partition, values: list) -> None:
        descriptor, *where, view = values
        machine, agent = programs.machine, programs.agent
        machine.event(agent)
        _same_shape(view, described.shape, spot)

        def do() -> None:
            pointers, mask = descriptor.pointers(described.shape, where, size)
            machine.counts.tma_written += size * _lanes(mask, described.shape)
            memory, values = programs.launched.memory, view.array[None]
            if kind:
                memory.update(at, programs.numbers, kind, "relaxed", pointers, values, mask)
            else:
                memory.store(at, programs.numbers, pointers, values, mask)

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
        programs.machine.finish(programs.agent, programs.agent.stores, spot, pendings)

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
            machine.counts.async_read += itemsize(pointer.pointee) * _lanes(mask, pointer.shape)
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
            machine.finish(agent, agent.groups.pop(0), spot)
        for flight in (flight for group in agent.groups for flight in group):
            flight.spared = spot

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
                say("hopper.use.warpgroup", who=agent.name, warps=agent.warps, spot=str(spot), multiple=WARPGROUP),
                second=spot,
                who=agent.name,
            )
        if not isinstance(a, View):
            a = arrived(a, programs, spot)
        if not (type(acc) is Pending and acc.flight.issuer is agent):
            acc = arrived(acc, programs, spot)
        shape = a.array.shape if isinstance(a, View) else a.shape[1:]
        element = b.allocation.element

        def do() -> None:
            left, right = (x.array[None] if isinstance(x, View) else x for x in (a, b))
            before = acc.value if isinstance(acc, Pending) else acc
            assert before is not None  # products come one after another
            start = before if keep else np.zeros((1, *result.shape), before.dtype)
            found.value = _product(
                left, right, np.broadcast_to(start, (1, *result.shape)), element, result.element, tf32
            )

        flight = machine.flight(agent, "wgmma", spot, op, do)
        found = Pending(flight)
        for view in (a, b):
            if isinstance(view, View):
                machine.access(agent, view, "wgmma", spot, write=False, generic=False, flight=flight)
        M, N = result.shape
        product_shape = M, N, shape[-1]
        flight.cycles = prod(product_shape) * itemsize(element) / 2 / COSTS.multiply_adds
        machine.multiplies(flight, product_shape)
        machine.counts.wgmma += 1
        machine.counts.multiply_adds += prod(product_shape)
        machine.issue(flight, agent.products)
        machine.order.spend(agent, COSTS.product_issue, "issue")
        if not waits:
            return found
        machine.finish(agent, agent.products, spot)
        assert found.value is not None
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
        programs.machine.finish(programs.agent, programs.agent.products, spot, pendings)
        found = [v.value if type(v) is Pending and v.flight.joined else v for v in values]
        return found if len(found) > 1 else found[0]

    return act


INSTRUCTIONS: dict[str, Callable[[Body, ir.Operation, Spot], Act]] = {
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
    "ttng.barrier_expect": _of_barrier(_expect),
    "ttng.arrive_barrier": _of_barrier(_arrive),
    "ttng.wait_barrier": _of_barrier(_wait),
    "ttng.async_tma_copy_global_to_local": _of_barrier(_tma_load),
    "ttng.async_tma_copy_local_to_global": _tma_store,
    "ttng.async_tma_reduce": _tma_store,
    "ttng.async_tma_store_wait": _store_wait,
    "ttg.async_copy_global_to_local": _async_copy,
    "ttg.async_commit_group": _commit_group,
    "ttg.async_wait": _wait_group,
    "ttng.warp_group_dot": _warp_group_dot,
    "ttng.warp_group_dot_wait": _dot_wait,
}
