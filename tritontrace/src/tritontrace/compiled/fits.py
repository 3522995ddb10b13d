"""Whether a kernel is sure to fit into a GPU's shared memory, without asking the compiler.

Of a kernel that is spared the end (lower.py), the compiler can say but one thing that another set of constants does not share:
that it needs too much shared memory. What it puts there is known: the blocks that a loop loads ahead, once for each stage, the
operands of products, and room to move one block from a layout to another. `most_shared_bytes` adds these up, generously; the
compiler took at most 0.36 of it for the published kernels of units 04, 05 and 09.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from triton.backends.nvidia.compiler import CUDAOptions

from tritontrace.compiled import lower
from tritontrace.gpu import SHARED_BYTES
from tritontrace.ttir import ir
from tritontrace.ttir.elements import itemsize
from tritontrace.ttir.frontend import Front

LOOPS = {"scf.for", "scf.while"}
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
    found = list(_walk(front.module, front.entry, False))
    stages = [front.options.get("num_stages", CUDAOptions.num_stages)]
    stages += [op.attributes["tt.num_stages"] for op, _, _ in found if "tt.num_stages" in op.attributes]
    ahead = max(0, *stages) + 1  # on an sm_90 a product may still read the block before
    kept = moved = 0
    for op, types, in_a_loop in found:
        if op.name == "tt.load":
            kept += (ahead if in_a_loop else 1) * max(_bytes(kind) for _, kind in op.results)
        elif op.name == "tt.dot":
            kept += sum(_bytes(types[name]) for name in op.operands[:2])
        moved = max([moved, *(_bytes(kind) for _, kind in op.results)])
    return kept + 2 * moved  # rows are padded


def _walk(
    module: ir.Module, function: ir.Function, in_a_loop: bool
) -> Iterator[tuple[ir.Operation, dict[str, ir.Type], bool]]:
    """(operation, the types of its function's values, whether a loop is around it) of all that a call does."""
    types = dict(function.arguments)

    def inside(blocks: list[ir.Block], in_a_loop: bool) -> Iterator[tuple[ir.Operation, dict[str, ir.Type], bool]]:
        for block in blocks:
            types.update(block.arguments)
            for op in block.operations:
                types.update(op.results)
                yield op, types, in_a_loop
                if op.name == "tt.call":
                    yield from _walk(module, module[op.attributes["callee"]], in_a_loop)
                for region in op.regions:
                    yield from inside(region, in_a_loop or op.name in LOOPS)

    return inside(function.blocks, in_a_loop)


def _bytes(kind: ir.Type) -> int:
    return prod(kind.shape) * (8 if kind.element == "ptr" else itemsize(kind.element)) if kind.shape else 0
