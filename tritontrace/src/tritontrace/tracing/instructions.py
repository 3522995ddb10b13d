"""Operations that know which program runs, reach memory, or say something. evaluate.py runs them; `OPERATIONS` has all.

Each is made from (body, op, scope): the function that it stands in, the operation, and the registers of the values so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tritontrace.messages import MessageError, say
from tritontrace.tracing import blocks
from tritontrace.tracing.accesses import Instruction
from tritontrace.tracing.divergence import Registers
from tritontrace.tracing.program import Body, Programs, Step
from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.launching import KernelError, Op


def _constant(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    """A constant, or the 0 that stands where a value does not matter (ub.poison)."""
    ((name, kind),) = op.results
    out, value = body.new(scope, name, kind), body.code.arithmetic.constant(op.attributes.get("value", 0), kind)

    def step(registers: Registers, programs: Programs) -> None:
        registers[out] = value

    return step


def _program_id(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    ((name, kind),) = op.results
    out, axis = body.new(scope, name, kind), op.attributes["axis"]

    def step(registers: Registers, programs: Programs) -> None:
        registers[out] = programs.index[axis]

    return step


def _num_programs(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    ((name, kind),) = op.results
    out, axis = body.new(scope, name, kind), op.attributes["axis"]

    def step(registers: Registers, programs: Programs) -> None:
        registers[out] = np.array([programs.launched.grid[axis]], np.int32)

    return step


# ------------------------------------------------------------------------------------------------- memory


def _instruction(body: Body, op: ir.Operation, what: Op, kind: ir.Type) -> Instruction:
    asks = what == "atomic" and any(name in body.flow.used for name, _ in op.results)
    volatile = bool(op.attributes.get("isVolatile")) or any(name in body.flow.guesses for name, _ in op.results)
    described = op.name.startswith("tt.descriptor_")
    by_all = what == "load" and not kind.shape and any(name in body.flow.for_all for name, _ in op.results)
    again = what == "atomic" and any(name in body.flow.repeated for name, _ in op.results)
    unread = what == "load" and not any(name in body.flow.read for name, _ in op.results)
    return Instruction(
        what, body.site(op.place), kind.pointee, kind.shape, described, volatile, asks, by_all, again, unread
    )


def _make_block_pointer(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    ((name, kind),) = op.results
    out, rank = body.new(scope, name, kind), len(kind.shape)

    def step(registers: Registers, programs: Programs) -> None:
        base, *rest = (registers[i] for i in operands)
        sizes, strides, offsets = (tuple(rest[rank * i : rank * (i + 1)]) for i in range(3))
        registers[out] = blocks.Descriptor(base, sizes, strides, offsets=offsets)

    return step


def _advance(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    ((name, kind),) = op.results
    out = body.new(scope, name, kind)

    def step(registers: Registers, programs: Programs) -> None:
        pointer, *by = (registers[i] for i in operands)
        registers[out] = pointer.advanced(by)

    return step


def _load_block(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    """A load by a block pointer. Beyond edges that are not checked it reads what is there."""
    pointed = body.type_of(op.operands[0])
    ((name, kind),) = op.results
    at, out = _instruction(body, op, "load", pointed), body.new(scope, name, kind)
    size, checked = itemsize(pointed.pointee), op.attributes.get("boundaryCheck") or ()
    padding = {1: 0.0, 2: float("nan")}.get(op.attributes.get("padding", 0))
    other = None if padding is None else body.code.arithmetic.constant(padding, ir.Type(pointed.pointee, pointed.shape))

    def step(registers: Registers, programs: Programs) -> None:
        (pointer,) = (registers[i] for i in operands)
        pointers, mask = pointer.pointers(pointed.shape, pointer.offsets, size, checked)
        registers[out] = programs.launched.memory.load(at, programs.numbers, pointers, mask, other)

    return step


def _store_block(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    pointed = body.type_of(op.operands[0])
    at, size = _instruction(body, op, "store", pointed), itemsize(pointed.pointee)
    checked = op.attributes.get("boundaryCheck") or ()

    def step(registers: Registers, programs: Programs) -> None:
        pointer, values = (registers[i] for i in operands)
        pointers, mask = pointer.pointers(pointed.shape, pointer.offsets, size, checked)
        programs.launched.memory.store(at, programs.numbers, pointers, values, mask)

    return step


def _load(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    ((name, kind),) = op.results
    pointer = body.type_of(op.operands[0])
    if pointer.element == "block_ptr":
        return _load_block(body, op, scope, operands)
    at, out = _instruction(body, op, "load", pointer), body.new(scope, name, kind)

    def step(registers: Registers, programs: Programs) -> None:
        registers[out] = programs.launched.memory.load(at, programs.numbers, *[registers[i] for i in operands])

    return step


def _store(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    pointer = body.type_of(op.operands[0])
    if pointer.element == "block_ptr":
        return _store_block(body, op, scope, operands)
    at = _instruction(body, op, "store", pointer)

    def step(registers: Registers, programs: Programs) -> None:
        programs.launched.memory.store(at, programs.numbers, *[registers[i] for i in operands])

    return step


def _atomic(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    at = _instruction(body, op, "atomic", body.type_of(op.operands[0]))
    kind, sem, reach = op.attributes.get("kind", "cas"), op.attributes["sem"], op.attributes["scope"]
    out = body.new(scope, *op.results[0]) if op.results else None
    waits = body.code.waits

    def step(registers: Registers, programs: Programs) -> None:
        pointers, *rest = (registers[i] for i in operands)
        if waits:
            programs.launched.turns.wait(at.site, int(programs.numbers[0]))
        update = programs.launched.memory.update
        if kind == "cas":
            expected, value = rest
            old = update(at, programs.numbers, kind, sem, pointers, value, None, expected, scope=reach)
        else:
            old = update(at, programs.numbers, kind, sem, pointers, *rest, scope=reach)
        if out is not None:
            registers[out] = old

    return step


DESCRIPTOR_ALIGNMENT = 16  # bytes; CUDA driver API, cuTensorMapEncodeTiled


def _make_descriptor(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    ((name, kind),) = op.results
    out, rank = body.new(scope, name, kind), (len(operands) - 1) // 2
    padding, site, size = blocks.padding_of(op), body.site(op.place), itemsize(kind.pointee)

    def step(registers: Registers, programs: Programs) -> None:
        base, *rest = (registers[i] for i in operands)
        for address, what in ((base, "base"), *((stride * size, "row") for stride in rest[rank:-1])):
            if (askew := address % DESCRIPTOR_ALIGNMENT).any():
                facts = {"site": str(site), "step": DESCRIPTOR_ALIGNMENT, "beside": int(askew.max())}
                raise KernelError(say(f"launch.run.descriptor_{what}", **facts))
        registers[out] = blocks.Descriptor(base, tuple(rest[:rank]), tuple(rest[rank:]), padding)

    return step


def _descriptor_load(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    described = body.type_of(op.operands[0])
    ((name, kind),) = op.results
    at, out = _instruction(body, op, "load", described), body.new(scope, name, kind)
    size, constant = itemsize(described.pointee), body.code.arithmetic.constant

    def step(registers: Registers, programs: Programs) -> None:
        descriptor, *where = (registers[i] for i in operands)
        pointers, mask = descriptor.pointers(described.shape, where, size)
        other = constant(descriptor.padding, ir.Type(described.pointee, described.shape))
        values = programs.launched.memory.load(at, programs.numbers, pointers, mask, other)
        registers[out] = np.broadcast_to(values, (len(values), *described.shape)).reshape(-1, *kind.shape)

    return step


def _descriptor_store(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    described, stored = (body.type_of(name) for name in (op.operands[0], op.operands[-1]))
    at, size = _instruction(body, op, "store", described), itemsize(described.pointee)

    def step(registers: Registers, programs: Programs) -> None:
        descriptor, *where, values = (registers[i] for i in operands)
        pointers, mask = descriptor.pointers(described.shape, where, size)
        values = np.broadcast_to(values, (len(values), *stored.shape)).reshape(-1, *described.shape)
        programs.launched.memory.store(at, programs.numbers, pointers, values, mask)

    return step


def _descriptor_update(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    described = body.type_of(op.operands[0])
    at, size = _instruction(body, op, "atomic", described), itemsize(described.pointee)
    kind = op.attributes["kind"]
    if kind == "add" and described.pointee.startswith(("f", "bf")):
        kind = "fadd"

    def step(registers: Registers, programs: Programs) -> None:
        descriptor, *where, values = (registers[i] for i in operands)
        pointers, mask = descriptor.pointers(described.shape, where, size)
        programs.launched.memory.update(at, programs.numbers, kind, "relaxed", pointers, values, mask)

    return step


def _descriptor_gather(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    described = body.type_of(op.operands[0])
    ((name, kind),) = op.results
    at = Instruction("load", body.site(op.place), described.pointee, kind.shape, described=True)
    out, size, constant = body.new(scope, name, kind), itemsize(described.pointee), body.code.arithmetic.constant

    def step(registers: Registers, programs: Programs) -> None:
        descriptor, rows, column = (registers[i] for i in operands)
        pointers, mask = descriptor.rows(kind.shape, rows, column, size)
        other = constant(descriptor.padding, ir.Type(described.pointee, kind.shape))
        registers[out] = programs.launched.memory.load(at, programs.numbers, pointers, mask, other)

    return step


def _descriptor_scatter(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    described, stored = (body.type_of(name) for name in (op.operands[0], op.operands[-1]))
    at = Instruction("store", body.site(op.place), described.pointee, stored.shape, described=True)
    size = itemsize(described.pointee)

    def step(registers: Registers, programs: Programs) -> None:
        descriptor, rows, column, values = (registers[i] for i in operands)
        pointers, mask = descriptor.rows(stored.shape, rows, column, size)
        programs.launched.memory.store(at, programs.numbers, pointers, values, mask)

    return step


def _barrier(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    def step(registers: Registers, programs: Programs) -> None:
        programs.launched.memory.barrier(programs.numbers)

    return step


def _assume(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    """Make a step that does nothing; evaluate.py looks whether the assumption holds."""
    return lambda registers, programs: None


# ------------------------------------------------------------------------------------------------- words


def _print(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    prefix = op.attributes.get("prefix", "").strip().removesuffix(":").strip()
    shapes = [body.type_of(name).shape for name in op.operands]

    def step(registers: Registers, programs: Programs) -> None:
        for row, place in enumerate(zip(*programs.index, strict=True)):
            values = [
                np.broadcast_to(registers[i], (len(registers[i]), *shape))[min(row, len(registers[i]) - 1)]
                for i, shape in zip(operands, shapes, strict=True)
            ]
            index = ", ".join(str(int(axis)) for axis in place)
            said = " ".join(str(value if value.ndim else value.reshape(1)) for value in values)
            programs.launched.say(f"({index}) {prefix}: {said}" if values else f"({index}) {prefix}")

    return step


def _assert(body: Body, op: ir.Operation, scope: dict[str, int], operands: list[int]) -> Step:
    site, message = body.site(op.place), op.attributes.get("message", "")

    def step(registers: Registers, programs: Programs) -> None:
        held = registers[operands[0]]
        bad = ~held.reshape(len(held), -1).all(1)
        if bad.any():
            number = int(
                np.broadcast_to(programs.numbers, (len(programs),))[int(np.argmax(bad)) if len(bad) > 1 else 0]
            )
            raise AssertionFailed(say("launch.run.assertion", site=str(site), program=number, text=message))

    return step


class AssertionFailed(MessageError):
    """Raised, with a message, for a tl.device_assert that fails."""


OPERATIONS: dict[str, Callable[[Body, ir.Operation, dict[str, int], list[int]], Step]] = {
    "arith.constant": _constant,
    "ub.poison": _constant,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.load": _load,
    "tt.store": _store,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.make_tensor_ptr": _make_block_pointer,
    "tt.advance": _advance,
    "tt.make_tensor_descriptor": _make_descriptor,
    "tt.descriptor_load": _descriptor_load,
    "tt.descriptor_store": _descriptor_store,
    "tt.descriptor_reduce": _descriptor_update,
    "tt.descriptor_gather": _descriptor_gather,
    "tt.descriptor_scatter": _descriptor_scatter,
    "gpu.barrier": _barrier,
    "ttg.barrier": _barrier,
    "tt.debug_barrier": _barrier,
    "llvm.intr.assume": _assume,
    "tt.print": _print,
    "tt.assert": _assert,
}
