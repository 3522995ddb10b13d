"""Whether a kernel is sure to fit into a GPU's shared memory, without asking the compiler.

Of a kernel that is spared the end (lower.py), the compiler can say but one thing that another set of constants does not share:
that it needs too much shared memory. What it puts there is known: the blocks that a loop loads ahead, once for each stage, and
gives up before the next loop begins; the operands of products; and room to move one block from a layout to another.
`most_shared_bytes` adds these up, generously; the compiler took at most 0.36 of it for the published kernels of units 04, 05
and 09.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod

from triton.backends.nvidia.compiler import CUDAOptions

from tritontrace.compiled import lower
from tritontrace.gpu import SHARED_BYTES
from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.frontend import Front

LOOPS, NO_LOOP = {"scf.for", "scf.while"}, 0
SHAPING = {"num_warps", "num_stages"}  # options of which the sum knows
UNKNOWN = ("noinline = true", "tt.loop_unroll_factor", "cf.br", "cf.cond_br")  # what repeats loads, or hides them


def surely(front: Front, gpu: str) -> bool:
    """Whether the compiler certainly accepts the kernel for `gpu`, an architecture like "sm_80", by inspection of its TTIR."""
    _, limit = SHARED_BYTES[gpu]
    if not (front.options.keys() <= SHAPING and lower.available()) or any(word in front.text for word in UNKNOWN):
        return False
    capability = int(gpu.removeprefix("sm_"))
    return lower.spared(front.text, 32 * front.warps, capability) and most_shared_bytes(front) <= limit


def most_shared_bytes(front: Front) -> int:
    """Return an upper bound of the bytes of shared memory that a program needs."""
    found = list(_walk(front.module, front.entry, NO_LOOP))
    stages = [front.options.get("num_stages", CUDAOptions.num_stages)]
    stages += [op.attributes["tt.num_stages"] for op, _, _ in found if "tt.num_stages" in op.attributes]
    ahead = max(0, *stages) + 1  # on an sm_90 a product may still read the block before
    kept = moved = 0
    loaded = Counter({NO_LOOP: 0})  # by the outermost loop
    for op, types, loop in found:
        if op.name == "tt.load":
            loaded[loop] += max(_bytes(kind) for _, kind in op.results)
        elif op.name == "tt.dot":
            kept += sum(_bytes(types[name]) for name in op.operands[:2])
        moved = max([moved, *(_bytes(kind) for _, kind in op.results)])
    once = loaded.pop(NO_LOOP)
    return kept + once + ahead * max(loaded.values(), default=0) + 2 * moved  # rows are padded


def _walk(
    module: ir.Module, function: ir.Function, loop: int
) -> Iterator[tuple[ir.Operation, dict[str, ir.Type], int]]:
    """(operation, the types of its function's values, a number of the outermost loop around it) of all that a call does."""
    types = dict(function.arguments)

    def inside(blocks: list[ir.Block], loop: int) -> Iterator[tuple[ir.Operation, dict[str, ir.Type], int]]:
        for block in blocks:
            types.update(block.arguments)
            for op in block.operations:
                types.update(op.results)
                yield op, types, loop
                if op.name == "tt.call":
                    yield from _walk(module, module[op.attributes["callee"]], loop)
                for region in op.regions:
                    yield from inside(region, loop or (id(op) if op.name in LOOPS else NO_LOOP))

    return inside(function.blocks, loop)


def _bytes(kind: ir.Type) -> int:
    return prod(kind.shape) * (8 if kind.element == "ptr" else itemsize(kind.element)) if kind.shape else 0
