"""Kernels with one mistake each: what is replaced in the text of a right one, and the names that the mistake may be given.

`ATTENTION`'s are made by hand. `PUBLIC`'s follow the tests of Triton's concurrency sanitizer (python/test/gluon/test_consan.py,
"ConSan" below), CUTracer's race tests (facebookexperimental/CUTracer, pull request 106), and reports against CUTLASS, TileLang,
FlashAttention, vLLM, mKernel, in these kernels' own words.
"""

from __future__ import annotations

from dataclasses import dataclass

from tritontrace.hopper import Kind

Edit = tuple[str, str]


@dataclass(frozen=True)
class Wrong:
    """kernel: in runs.RIGHT; kinds: names that it may get; source: who had the mistake first."""

    kernel: str
    edits: tuple[Edit, ...]
    kinds: set[Kind]
    source: str = ""


def wrong(kernel: str, *parts, source: str = "") -> Wrong:
    edits = tuple(part for part in parts if isinstance(part, tuple))
    return Wrong(kernel, edits, {part for part in parts if isinstance(part, Kind)}, source)


K = Kind
A = "attention_overlapped"
RELEASE_K = "            release(ks, i)\n"
DONE_V = "            acc = mma_wait(0, deps=[acc])\n            release(vs, i - 1)\n"
PARITY = "i // ring[0].shape[0] & 1, pred"
WAIT_S = "            s = mma_wait(1, deps=[s])  # all products but the last one are done: S is there\n"
EXPECT = "    mbarrier.expect(full.index(i % SIZE), desc.block_type.nbytes)\n"
FORK, PRODUCER = "    gl.warp_specialize(", "(produce, (q_desc, k_desc, v_desc, qs, ks, vs, N, heads, CAUSAL))"
STORED = "            tma.store_wait(0)\n            release(qs"
FENCE = "        fence_async_shared()\n"
MY_Q = "        q = tile_of(qs, 2 * r + GROUP)\n"
BLOCK = "    b = gl.arange(0, 128, gl.BlockedLayout([1], [32], [4], [0]))\n"

HEAD = "qs, ks, vs, N, heads, CAUSAL: gl.constexpr):\n    done = 0"
NEXT = "\n\n@jit\ndef consume"

ATTENTION = {
    "keys are not released": wrong(A, (RELEASE_K, ""), K.DEADLOCK),
    "values are not released": wrong(A, (DONE_V, DONE_V.partition("\n")[0] + "\n"), K.DEADLOCK),
    "q is not released": wrong(A, ("            release(qs, 2 * r - 2 + GROUP)\n", ""), K.DEADLOCK),
    "values are not waited for": wrong(A, ("            wait_full(vs, i - 1)\n", ""), K.READ_EARLY),
    "the first keys are not waited for": wrong(A, ("        wait_full(ks, done)\n", ""), K.READ_EARLY),
    "q is not waited for": wrong(A, ("        wait_full(qs, 2 * r + GROUP)\n", ""), K.READ_EARLY),
    "the next keys are not waited for": wrong(
        A, ("            wait_full(ks, i + 1, i + 1 < done + tiles)\n", ""), K.READ_EARLY, K.PHASE, K.OVERWRITTEN
    ),
    "the consumer's parity is the other one": wrong(A, (PARITY, "(i // ring[0].shape[0] + 1) & 1, pred"), K.PHASE),
    "the producer's parity is the other one": wrong(A, ("(i // SIZE + 1) & 1", "i // SIZE & 1"), K.DEADLOCK),
    "the parity never flips": wrong(A, (PARITY, "0, pred"), K.PHASE),
    "the parity flips with each tile": wrong(A, (PARITY, "i & 1, pred"), K.PHASE),
    "the producer does not wait": wrong(
        A, ("    mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)\n", ""), K.ARRIVALS, K.TWO_WRITES
    ),
    "keys are released before they are read": wrong(A, (WAIT_S + RELEASE_K, RELEASE_K + WAIT_S), K.OVERWRITTEN),
    "values are released before they are read": wrong(
        A, (DONE_V, "\n".join(reversed(DONE_V.split("\n")[:2])) + "\n"), K.OVERWRITTEN
    ),
    "no fence": wrong(A, (FENCE, ""), K.FENCE),
    "the fence comes before the store": wrong(
        A, (FENCE, ""), ("        q.store(", FENCE + "        q.store("), K.FENCE
    ),
    "the place of q is used while o is stored from it": wrong(A, (STORED, "            release(qs"), K.OVERWRITTEN),
    "one store may be under way when its place is used": wrong(
        A, (STORED, STORED.replace("wait(0", "wait(1")), K.OVERWRITTEN
    ),
    "the last store is not waited for": wrong(A, ("    tma.store_wait(0)\n\n\n", "\n\n"), K.STORE),
    "a ring of 2 for q": wrong(A, ("new_ring(q_desc, 4, 1)", "new_ring(q_desc, 2, 1)"), K.DEADLOCK),
    "no bytes are expected": wrong(A, (EXPECT, ""), K.NO_EXPECT),
    "half of the bytes are expected": wrong(A, (EXPECT, EXPECT.replace("nbytes", "nbytes // 2")), K.BYTES),
    "twice the bytes are expected": wrong(A, (EXPECT, EXPECT.replace("nbytes", "nbytes * 2")), K.BYTES),
    "one reader is counted": wrong(A, ("new_ring(k_desc, STAGES, 2)", "new_ring(k_desc, STAGES, 1)"), K.OVERWRITTEN),
    "three readers are counted": wrong(A, ("new_ring(k_desc, STAGES, 2)", "new_ring(k_desc, STAGES, 3)"), K.DEADLOCK),
    "acc is used while its product may be under way": wrong(
        A, (DONE_V, DONE_V.replace("wait(0", "wait(1")), K.ACCUMULATOR
    ),
    "s is used while its product may be under way": wrong(
        A, (WAIT_S, WAIT_S.replace("wait(1", "wait(2")), K.ACCUMULATOR
    ),
    "keys are released twice": wrong(A, (RELEASE_K, 2 * RELEASE_K), K.DEADLOCK),
    "the producer forgets the rounds": wrong(A, ("        done += tiles\n" + NEXT, NEXT), K.DEADLOCK),
    "o goes to the other consumer's place": wrong(
        A,
        (MY_Q, MY_Q + MY_Q.replace("q =", "other =").replace("+ GROUP", "+ 1 - GROUP")),
        ("        q.store(", "        other.store("),
        K.OVERWRITTEN,
    ),
    "half of the barriers are not initialised": wrong(
        A, ("        mbarrier.init(empty.index(i), count=READERS)\n", ""), K.NO_BARRIER
    ),
    "the producer uses a block of its parent": wrong(
        A,
        (FORK, BLOCK + FORK),
        (PRODUCER, PRODUCER.replace("CAUSAL", "CAUSAL, b")),
        (HEAD, HEAD.replace("constexpr)", "constexpr, b)").replace("= 0", "= gl.sum(b, 0) * 0")),
        K.REGISTERS,
    ),
}

FULL = "        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)\n"
LOADED = "        x = tiles.index"
TILES = FULL + LOADED
DRAINED = "        store_wait(0)\n        out.store(x + x)\n"
PRODUCED = "        acc = mma(a, b, acc, is_async=True)\n        acc = mma_wait(0, deps=[acc])\n"
RELEASED = "        mbarrier.arrive(empty.index(i % STAGES))\n    rows"
OPERANDS = FULL + "        a, b = a_tiles.index(2 * (i % STAGES) + HALF), b_tiles.index(i % STAGES)\n"
EMPTY = "        mbarrier.wait(empty.index(i % STAGES), (i // STAGES + 1) & 1)\n        mbarrier.expect(full.index(i % STAGES), x_desc"
RING_OF_3 = "        mbarrier.wait(full.index(i % 3), i // 3 & 1)\n"
LEFT, RIGHT = (f"        mbarrier.wait({side}.index(0), (i + 1) & 1)\n" for side in ("left", "right"))
STORE_A = "    tma_load(a_desc, [0, i * TILE], full.index(i % 3), a_tiles.index(i % 3), pred=there)\n"
BOTH = "    mbarrier.expect(full.index(i % 3), a_desc.block_type.nbytes + b_desc.block_type.nbytes, pred=there)\n"

START = "start_copies(a_ptr, b_ptr, a_tiles, b_tiles, {}, K, N, STEPS)\n"
WRITTEN, ARRIVED = "    tile.store(gl.arange(0, 128, LINE) + n)\n", "    mbarrier.arrive(bars.index(0))\n"
TWO_RINGS = "full = new_barriers(STAGES, 1)\n    empty = new_barriers(STAGES, 1)"
LEAVES = "        tma_store(y_desc, [i * TILE, 0], out)\n"
FETCH_B = "        tma_load(b_desc, [i * TILE, 0], full.index(i % STAGES), b_tiles.index(i % STAGES))\n"
B_TILES = "[3, TILE, TILE], b_desc.layout)\n    full = new_barriers(3, 1)"
IN_TURN_1 = DRAINED.replace("        store", "        if i == 1:\n            store", 1)
FOR_A = BOTH.replace(" + b_desc.block_type.nbytes", "")
FOR_B = BOTH.replace("a_desc.block_type.nbytes + ", "")
UNWAITED = PRODUCED.split("\n")[0] + "\n"
RELEASED_EARLY = UNWAITED + RELEASED.replace("    rows", PRODUCED.removeprefix(UNWAITED) + "    rows")

PUBLIC = {
    "a copied tile is read without a wait": wrong("copied", (TILES, LOADED), K.READ_EARLY, source="ConSan, async_tma"),
    "another copy's barrier is waited for": wrong(
        "by_tma",
        (RING_OF_3, RING_OF_3.replace("(i % 3), i", "((i + 1) % 3), (i + 1)")),
        K.READ_EARLY,
        K.PHASE,
        source="ConSan, tma_interleave",
    ),
    "one group of copies too many may be under way": wrong(
        "by_cp_async", ("wait_group(1)", "wait_group(2)"), K.READ_EARLY, source="ConSan, async_copy"
    ),
    "copies are not committed": wrong(
        "by_cp_async", ("    commit_group()\n\n", "\n"), K.READ_EARLY, source="ConSan, async_copy"
    ),
    "a tile is overwritten while it is stored": wrong(
        "copied", (DRAINED, "        out.store(x + x)\n"), K.OVERWRITTEN, source="ConSan, tma_store"
    ),
    "an operand is overwritten while it is multiplied": wrong(
        "by_tma", ("mma_wait(1, deps=[acc])", "mma_wait(2, deps=[acc])"), K.OVERWRITTEN, source="ConSan, warpgroup_mma"
    ),
    "the last product is not waited for": wrong(
        "by_tma",
        ("    acc = mma_wait(0, deps=[acc])\n    rows", "    rows"),
        K.ACCUMULATOR,
        source="ConSan, warpgroup_mma2",
    ),
    "a partition reads before another has written": wrong(
        "relayed",
        ("    mbarrier.wait(bars.index(0), 0)\n", ""),
        K.READ_EARLY,
        K.TWO_WRITES,
        K.OVERWRITTEN,
        source="ConSan, ws_store_wait_load",
    ),
    "a partition waits for the writer before the last one": wrong(
        "relayed",
        ("    mbarrier.wait(bars.index(1), 0)\n", "    mbarrier.wait(bars.index(0), 0)\n"),
        K.READ_EARLY,
        K.OVERWRITTEN,
        source="ConSan, ws_load_ordering",
    ),
    "the writer waits for one of two readers": wrong(
        "guarded", (RIGHT, ""), K.OVERWRITTEN, source="ConSan, ws_two_loads_two_bars"
    ),
    "the writer waits for no reader": wrong(
        "guarded",
        (LEFT + RIGHT, ""),
        K.OVERWRITTEN,
        K.DEADLOCK,
        K.ARRIVALS,
        K.READ_EARLY,
        source="ConSan, ws_two_loads_one_bar",
    ),
    "two partitions wait for one another": wrong(
        "relayed",
        (WRITTEN, "    mbarrier.wait(bars.index(1), 0)\n" + WRITTEN),
        K.DEADLOCK,
        source="ConSan, deadlock_two_partitions",
    ),
    "somebody arrives twice": wrong(
        "relayed", (ARRIVED, 2 * ARRIVED), K.DEADLOCK, source="ConSan, deadlock_overarrival"
    ),
    "more arrive at once than a phase wants": wrong(
        "relayed", (ARRIVED, ARRIVED.replace("))", "), count=2)")), K.ARRIVALS, source="ConSan, barrier_underflow"
    ),
    "one arrival too few": wrong(
        "relayed", ("new_barriers(2, 1)", "new_barriers(2, 2)"), K.DEADLOCK, source="ConSan, deadlock_underarrival"
    ),
    "two readers wait for different phases": wrong(
        "guarded",
        ("full.index(0), i & 1", "full.index(0), (i + SIDE) & 1"),
        K.PHASE,
        K.READ_EARLY,
        source="ConSan, deadlock_different_phases",
    ),
    "a tile is released while it is multiplied": wrong(
        "specialised", (PRODUCED + RELEASED, RELEASED_EARLY), K.OVERWRITTEN, source="ConSan, ws_wgmma_wait_visibility"
    ),
    "the wait comes behind the product": wrong(
        "specialised",
        (OPERANDS, OPERANDS.removeprefix(FULL)),
        (PRODUCED, PRODUCED.replace("\n", "\n" + FULL, 1)),
        K.READ_EARLY,
        source="CUTracer, late barrier wait",
    ),
    "nobody waits for the operands": wrong(
        "specialised", (OPERANDS, OPERANDS.removeprefix(FULL)), K.READ_EARLY, source="CUTracer, missing wait"
    ),
    "the bytes come, and an arrival is missing": wrong(
        "copied", (TWO_RINGS, TWO_RINGS.replace("1", "2", 1)), K.DEADLOCK, source="TileLang, issue 2566"
    ),
    "an operand of two readers is overwritten after the first": wrong(
        "specialised",
        ("empty = new_barriers(STAGES, 2)", "empty = new_barriers(STAGES, 1)"),
        K.OVERWRITTEN,
        source="TileLang, issue 2613",
    ),
    "a place is drained in one turn alone": wrong(
        "copied", (DRAINED, IN_TURN_1), K.OVERWRITTEN, source="mKernel, pull request 18"
    ),
    "a copy is taken out, and its bytes are still expected": wrong(
        "specialised", (FETCH_B, ""), K.BYTES, K.READ_EARLY, source="CUTLASS, issue 1748"
    ),
    "the consumers release nothing": wrong(
        "specialised", (RELEASED, "    rows"), K.DEADLOCK, source="CUTLASS, issue 1438"
    ),
    "who has nothing to do does not arrive": wrong(
        "specialised",
        (RELEASED, RELEASED.replace("        mb", "        if HALF == 0:\n            mb", 1)),
        K.DEADLOCK,
        source="vLLM, pull request 26026",
    ),
    "the first tile is not waited for": wrong(
        "copied", (TILES, TILES.replace("& 1)", "& 1, pred=i > 0)")), K.READ_EARLY, source="FlashAttention, issue 1319"
    ),
    "the producer begins with the consumers' parity": wrong(
        "copied",
        (EMPTY, EMPTY.replace("(i // STAGES + 1) & 1", "i // STAGES & 1")),
        K.DEADLOCK,
        source="CUTLASS, make_producer_start_state",
    ),
    "the parity follows the turns, not the ring": wrong(
        "copied",
        (TILES, TILES.replace("i // STAGES & 1", "i & 1")),
        K.PHASE,
        K.DEADLOCK,
        source="ConSan, multibuffered",
    ),
    "tensor cores read what cp.async wrote without a fence": wrong(
        "by_cp_async",
        ("        fence_async_shared()\n        barrier()\n", "        barrier()\n"),
        K.FENCE,
        source="PTX, proxies",
    ),
    "TMA stores what threads wrote without a fence": wrong(
        "copied",
        ("        fence_async_shared()\n        tma_store", "        tma_store"),
        K.FENCE,
        source="PTX, proxies",
    ),
    "tiles are fetched beyond the end": wrong(
        "by_tma", ("there = i < STEPS", "there = i < STEPS + 2"), K.LOAD, source="CUTLASS, producer_tail"
    ),
    "bytes are expected once for each copy": wrong(
        "by_tma", (BOTH, FOR_A), (STORE_A, STORE_A + FOR_B), K.ARRIVALS, source="CUTLASS, pull request 3314"
    ),
    "bytes of one copy of two are expected": wrong("by_tma", (BOTH, FOR_A), K.BYTES, source="a reader of unit 12"),
    "the ring is larger than shared memory": wrong(
        "by_tma", (B_TILES, B_TILES.replace("3", "32", 1)), K.SHARED, source="CUTLASS, StageCountAutoCarveout"
    ),
    "a barrier beyond the ring": wrong(
        "by_tma", (RING_OF_3, RING_OF_3.replace("i % 3", "i")), K.INDEX, source="ConSan, bounds"
    ),
    "a tile goes to the next one's place": wrong(
        "copied",
        ("full.index(i % STAGES), tiles.index(i % STAGES))", "full.index(i % STAGES), tiles.index((i + 1) % STAGES))"),
        K.READ_EARLY,
        K.TWO_WRITES,
        K.OVERWRITTEN,
        source="ConSan, multibuffered",
    ),
    "the program ends while it stores": wrong(
        "copied", (LEAVES + "    store_wait(0)\n", LEAVES), K.STORE, source="ConSan, tma_store"
    ),
}

OURS = {
    "a group of copies begins before its place is read": wrong(
        "by_cp_async",
        ("1, K, N, STEPS)\n", f"1, K, N, STEPS)\n    {START.format('2')}"),
        ("wait_group(1)\n        fence", f"wait_group(1)\n        {START.format('i + 3')}        fence"),
        (f"        {START.format('i + 2')}", ""),
        K.OVERWRITTEN,
    )
}

MISTAKES = ATTENTION | PUBLIC | OURS
