"""Uses of values in a module, and what is never needed: blocks that nothing leads to, operations whose result nobody uses.

The compiler drops these, too. What reaches memory stays, even a load whose value nobody uses: it is what the kernel says.
"""

from __future__ import annotations

from collections.abc import Callable

from tritontrace.ttir import ir

# trap: an operation whose value nobody uses is dropped, unless it reaches memory, as the compiler does; a load that
# nobody uses stays

# trap: a new operation with effects must be named in TERMINATORS or EFFECTS, or it is taken for dead code
TERMINATORS = {
    "tt.return", "scf.yield", "scf.condition", "cf.br", "cf.cond_br", "tt.reduce.return", "tt.scan.return",
    "tt.map_elementwise.return", "ub.unreachable", "ttg.warp_yield", "ttg.warp_return",
}  # fmt: skip
# trap: Gluon's operations stand here as well: a wait that is taken for dead code is a race
EFFECTS = {
    "tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.print", "tt.assert", "tt.call", "tt.descriptor_load",
    "tt.descriptor_store", "tt.descriptor_gather", "tt.descriptor_scatter", "tt.descriptor_reduce", "scf.while",
    "gpu.barrier", "ttg.barrier", "tt.debug_barrier", "llvm.intr.assume",
    # Gluon's, which hopper/ runs
    "ttg.local_alloc", "ttg.local_dealloc", "ttg.local_load", "ttg.local_store", "ttg.warp_specialize", "ttg.async_commit_group",
    "ttg.async_copy_global_to_local", "ttg.async_wait", "ttng.async_copy_mbarrier_arrive", "ttng.async_tma_copy_global_to_local",
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_reduce", "ttng.async_tma_store_wait", "ttng.arrive_barrier",
    "ttng.barrier_expect", "ttng.fence_async_shared", "ttng.init_barrier", "ttng.inval_barrier", "ttng.wait_barrier",
    "ttng.warp_group_dot", "ttng.warp_group_dot_wait",
}  # fmt: skip


BY_ONE_THREAD = {"tt.store", "tt.atomic_rmw", "tt.atomic_cas"}  # where they concern one element


def uses_of(block: ir.Block) -> set[str]:
    """Return the names of the values that a block uses, its regions included."""
    uses: set[str] = set()
    for op in ir.walk([block]):
        uses.update(op.operands)
        for _, passed in op.successors:
            uses.update(passed)
    return uses


def read(function: ir.Function, module: ir.Module, read_in: Callable[[ir.Function], set[str]]) -> set[str]:
    """Names of the values of a function that something comes of: not those that go nowhere but to functions which do not read them.

    read_in: the same of a function that it calls
    """
    names: set[str] = set()
    for op in reversed(list(ir.walk(function.blocks))):
        if op.name == "tt.call":
            callee = module[op.attributes["callee"]]
            reads = read_in(callee)
            names.update(value for value, (name, _) in zip(op.operands, callee.arguments, strict=True) if name in reads)
        elif op.regions or _has_effect(op) or any(name in names for name, _ in op.results):
            names.update(op.operands)
            names.update(name for _, passed in op.successors for name in passed)
    return names


def passed_on(blocks: list[ir.Block]) -> set[str]:
    """Return the names of values that operations pass to block arguments: results of a region, arguments of a loop, call or branch."""
    passed: set[str] = set()
    for op in ir.walk(blocks):
        if op.name in TERMINATORS or op.name == "tt.call" or op.regions:
            passed.update(op.operands)
        passed.update(name for _, names in op.successors for name in names)
    return passed


def for_all(blocks: list[ir.Block]) -> set[str]:
    """Return the names of the values that all threads need: all but scalars which lead, by way of other scalars, only into stores and
    atomics of one element. One thread alone does these."""
    operations = list(ir.walk(blocks))
    of_blocks = {name for op in operations for name, kind in op.results if kind.shape}
    needed: set[str] = set()
    for op in reversed(operations):
        if op.name in BY_ONE_THREAD and of_blocks.isdisjoint(op.operands):
            continue
        known = op.results and not op.regions and op.name not in TERMINATORS and op.name != "tt.call"
        if not known or any(kind.shape or name in needed for name, kind in op.results):
            needed.update(op.operands)
    return needed


def repeated(blocks: list[ir.Block]) -> set[str]:
    """Return the names of the values that are computed in a loop."""
    loops = (op for op in ir.walk(blocks) if op.name in ("scf.for", "scf.while"))
    return {name for loop in loops for region in loop.regions for op in ir.walk(region) for name, _ in op.results}


def reachable(found: list[ir.Block]) -> list[ir.Block]:
    """Return the blocks that can be reached from the first one."""
    by_label, waiting, seen = {block.label: block for block in found}, [found[0].label], {}
    while waiting:
        label = waiting.pop(0)
        if label not in seen:
            seen[label] = by_label[label]
            waiting += [next_one for op in by_label[label].operations for next_one, _ in op.successors]
    return list(seen.values())


def _has_effect(op: ir.Operation) -> bool:
    if op.name in EFFECTS or op.name in TERMINATORS:
        return True
    if op.name == "tt.elementwise_inline_asm" and not op.attributes.get("pure"):
        return True
    inner = [o for region in op.regions for o in ir.walk(region) if o.name not in TERMINATORS]
    return any(o.name in EFFECTS for o in inner)


def drop_unused(function: ir.Function) -> None:
    """Remove the operations whose results are unused (dead code elimination)."""
    blocks_of = reachable(function.blocks)
    elsewhere = {id(b): set().union(*[uses_of(o) for o in blocks_of if o is not b]) for b in blocks_of}
    for block in blocks_of:
        _keep_used(block, elsewhere[id(block)])
    function.blocks[:] = blocks_of


def _keep_used(block: ir.Block, used: set[str]) -> None:
    kept = []
    for op in reversed(block.operations):
        if _has_effect(op) or any(name in used for name, _ in op.results):
            kept.append(op)
            for region in op.regions:
                for inner in region:
                    _keep_used(inner, set(used))
                    used |= uses_of(inner)
            used.update(op.operands)
            for _, passed in op.successors:
                used.update(passed)
    block.operations[:] = kept[::-1]
