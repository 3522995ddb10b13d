"""FlashAttention whose consumers take turns and whose walks are handed out, in Gluon: one step beyond attention_overlapped.py.

Products and softmax run at the same time there, too, but the tensor cores still wait. At D 64 the exponentials of a tile take as long as
its two products; causal walks over 1024 tokens read so much that the GPU waits for memory. As in Shah et al., *FlashAttention-3*, 2024,
three consumers share a tile of keys at D 64, and consumers take turns. It needs Hopper (sm_90); importing this needs neither GPU nor Gluon.

What it took. Each step was measured on an H100 in one run with attention_overlapped.py; a number is the ratio of speeds:

                           D 64: full   causal              D 128: full  causal
                           4096  16384  1024  4096  16384   4096  16384  1024  4096  16384
1  three consumers         1.18   1.27  1.07  1.19   1.14                                    at D 64
2  walks, head by head                                      0.99   0.98  1.59  1.07   1.00   so that what they read stays in L2
3  sums of threads                                          1.02   1.02  1.60  1.09   1.03   added up when a walk is over
4  two chains, turns       1.18   1.25  1.10  1.35   1.16   1.03   1.02  1.64  1.10   1.03   `larger`, `turn`; 2 and 3 at D 64
5  walks handed out        1.21   1.27  1.29  1.34   1.21   1.04   1.05  1.65  1.12   1.07   by a counter; a third tile at D 64
6  P V awaited early       1.26   1.34  1.31  1.36   1.25   1.05   1.06  1.65  1.18   1.08   before the exponentials
7  last round shared                                        1.06   1.09                      as Stream-K does it; step 6 had 1.07 that day

From 4096 tokens on this is 0.98 to 1.06 of FlashAttention-4, and at 1024 tokens 0.97 to 1.11 of cuDNN
(benchmarks/results/attention_forward_h100.md, which also has counters of step 5).

Step 7. 16,384 tokens in 16 full heads of 128 are 2048 walks of 128 tiles: 15.5 rounds of an H100's 132 programs, which took the time of
16. The tiles of the last 68 walks are dealt out evenly instead, 66 for each program, which has the end of one walk and the beginning of the
next, or a part of one. It does these parts before all else, each as if it was a walk: its o and lse go to rows behind those of all
others. Whole walks come from the counter, as before, so nobody waits. In the end `merge` takes the mean of each walk's parts, weighted by
their lse, in one order; results are the same twice. What this costs: a second launch (6 to 10 us with parts in float32, which are twice
as large), 7 MB, and parts of o that are rounded to 16 bits, so that 3 % of the rows are rounded twice. Causal walks are even as they are,
and at D 64 only 0.7 % of the rounds are idle.

Saved are 3 % of the steps, not of the time: an early form needed 3.7 % fewer clocks and 2.3 % less time, since the chip, at its power
limit, lowered the clock (1.67 GHz, of at most 1.98). And it paid only together with another change: q goes to registers when a walk begins,
not to the tensor cores from shared memory in each tile. Of step 6's speed, D 128, full, at 4096 and 16,384 tokens: both, 1.01 and 1.02 to
1.03; shared, q from shared memory, 0.99 and 1.01; q in registers, nothing shared, 1.00 and 1.00, and 0.98 for causal walks. Why the
two together bring more than each is not known.

The order of instructions decides as much as the steps of the kernel do; `nvdisasm` shows it. A unit takes an exponential of a warp every
eight cycles, and FlashAttention-4's loop has seven other instructions between two of them: sums, O brought to the new maximum, P
rounded. Step 5 waited for P V behind all exponentials, so that the last two came after them. Step 6 waits before: other consumers have
products for the tensor cores. `pin` has both rows of a thread compared and alpha known first; without it 0.96 to 0.99 of the speed at
D 64, and 0.99 to 1.00 at D 128.

Tried and left out, of attention_overlapped.py's speed, 16,384 tokens, full; in brackets what was there before. Exponentials by a polynomial
of degree 3 on FMA units, D 64, three consumers: an eighth of them 1.20 (1.27), a quarter of them 0.97 (1.18). No unit is saturated. S of
the next tile before the softmax of this one, D 64: ptxas then waits after each product. Barriers on which each thread arrives for itself,
cp.async.mbarrier.arrive, so that warps meet three times less for each tile: 1.27 (1.27) at D 64, 1.03 (1.04) at D 128. The old sums brought
to the new maximum after the next S is issued: 1.26 (1.27), 1.03 (1.04). No turns: 1.28 (1.27), and 1.27 (1.30) at 1024 tokens, causal.
Comparisons as a tree, D 64: 1.06 (1.24), since ptxas puts one row's behind the other's exponentials. A causal consumer without the half of
its first tile that is masked, D 128: 1.07 (1.07). The longest walk together with the shortest, so that all programs have as much to do
without a counter: 1.16 (1.20), causal, D 64. The next walk asked for when this one is over, not two tiles before: 0.98 (1.02) at 1024
tokens, D 128.

Tried on step 5, of FlashAttention-4's speed at 16,384 tokens, D 64 full and D 128 full (0.96 and 0.96 before, in that run): S of the next
walk issued together with the last P V of this one, 0.93 and 0.95, and a tenth at D 128, 1024 tokens, causal. The same with O
rescaled only where a maximum grows by more than 8 (branch of a warp, as FlashAttention-4 does on Blackwell), 0.99 and 0.98; without the
former 0.84 and 0.95. Half of the exponentials before the wait, on step 6: 0.99 and 0.99 (1.01 and 0.98). Two consumers at D 64, 1024
tokens, causal: 0.92 of cuDNN (0.95).

Tried for step 7, of step 6's speed, D 128, full, at 4096 and 16,384 tokens, with q in shared memory. Parts of O in float32, which `merge`
reads: 0.99 and 1.00. The last part of a walk to arrive merges them, without a second launch: 0.98 and 1.00 to 1.01; the same with a loop
of their own for parts: 0.98 and 1.00. Parts after whole walks: 0.99 and 1.00, and 1.00 and 1.01 if the last one merges. No parts, and 128
programs, which have 16 walks each: 1.00 and 0.99 to 1.00. A last round shared at 1024 tokens, which saves 4 tiles: 0.94 to 0.96. D 64,
16,384 tokens, shared: 0.96 to 0.98. Code moved by 1 to 64 instructions: within 0.003.

Not done, since it was found last: if the producer tells all consumers row, first query and tiles of a walk, which they compute anew here,
causal walks have 1.01 to 1.02 of this speed at D 128, at any length, and at D 64 with 1024 tokens (4096: 1.00; 16,384: 0.99). Full ones
have 0.97 then at D 64, and 0.99 at D 128 where they share.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl
from attention_overlapped import (
    BLOCK_N,
    GROUP_M,
    LN_2,
    LOG2_E,
    REGISTERS,
    descriptors,
    fetch,
    jit,
    new_ring,
    release,
    tile_of,
    wait_full,
)

try:
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma as mma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma_wait as mma_wait

    ONE_NUMBER = tl.constexpr(gl.BlockedLayout([1], [32], [1], [0]))
except ImportError:  # an older Triton: this can be read, not run
    pass

AHEAD = tl.constexpr(2)  # tiles before the end of a walk, when the next one is asked for
FIRST_TURN = tl.constexpr(8)  # PTX has 16 barriers for warps; Triton takes the first ones
FEWEST_SAVED = 12  # tiles of a program's time that a shared last round must save: parts, and merging them, take as long as about 10
MERGED = 16  # rows of shared walks that a program merges
FEWEST_SHARED = 4  # tiles of a program's share: less is not worth a part of its own
L2_BYTES = 16 << 20  # of keys and values that walks of a time should read: a third of an H100's L2


@jit
def turn(ACTION: gl.constexpr, GROUP: gl.constexpr):
    """`sync`: wait until it is a consumer's turn. `arrive`: give it the turn. A barrier of PTX, 128 threads on each side."""
    code: gl.constexpr = f"bar.{ACTION} {FIRST_TURN + GROUP}, 256; mov.b32 $0, 0;"
    gl.inline_asm_elementwise(code, "=r,r", [0], dtype=gl.int32, is_pure=False, pack=1)


@jit
def pin():
    """An event for profilers, one instruction: ptxas moved nothing past it, unlike past a barrier, a fence or a branch."""
    gl.inline_asm_elementwise("pmevent 0; mov.b32 $0, 0;", "=r,r", [0], dtype=gl.int32, is_pure=False, pack=1)


@jit
def larger(s, m, scale):
    """Return the new maximum of each row; the largest of a row is found by two chains of comparisons."""
    largest = gl.max(gl.max(s.reshape((GROUP_M, 2, BLOCK_N // 2)), 1), 1)
    return gl.maximum(m, gl.convert_layout(largest, m.type.layout, assert_trivial=True) * scale)


@jit
def sums_of_threads(e):
    """(64, 128) -> (64, 4): four threads hold a row, and each adds what it has. No number leaves its thread."""
    e = gl.sum(e.reshape((GROUP_M, 2, 2, 2, 2, 4, 2)), 6)
    for _ in gl.static_range(4):
        e = gl.sum(e, 1)
    return e


@jit
def times_rows(x, rows):
    """Multiply each row of x by a number."""
    return x * gl.convert_layout(rows, gl.SliceLayout(1, x.type.layout))[:, None]


@jit
def walk(at, N, together, C: gl.constexpr, CAUSAL: gl.constexpr):
    """(first row of the head, first query in it, tiles of keys) of a place in the queue of all walks.

    Head by head; causal ones the longest first, of as many heads as go `together`. Their queries are counted from the last one,
    so that the walk with too few of them, whose first query is negative, is a short one.
    """
    QUERIES: gl.constexpr = C * GROUP_M
    per_head = (N + QUERIES - 1) // QUERIES
    if CAUSAL:
        i = at % (together * per_head)
        head, later = at // (together * per_head) * together + i % together, i // together
        first = N - (later + 1) * QUERIES
        return head * N, first, (first + QUERIES + BLOCK_N - 1) // BLOCK_N
    else:
        return at // per_head * N, at % per_head * QUERIES, N // BLOCK_N


@jit
def walks(N, heads, C: gl.constexpr):
    return heads * ((N + C * GROUP_M - 1) // (C * GROUP_M))


@jit
def keys_of(i, tiles, C: gl.constexpr, CAUSAL: gl.constexpr):
    """Return which tile of keys is the i-th: first those on the diagonal, one or two, then from the first key on, as other programs
    do at the same time."""
    if CAUSAL:
        DIAGONAL: gl.constexpr = C - 1
        return gl.where(i < DIAGONAL, tiles - 1 - i, i - DIAGONAL)
    else:
        return i


@jit
def share(p, tiles, shared, sharers):
    """(first, end) of what program p has of the shared walks' tiles of keys, which lie one after another: as many as any other."""
    return p * (shared * tiles) // sharers, (p + 1) * (shared * tiles) // sharers


@jit
def begin_and_end(sizes, C: gl.constexpr):
    """(where a program begins, the end) in the queue of whole walks. The parts of shared walks are a program's first works, its last
    one `p - programs`, and, if its share lies in two walks, `p - 2 * programs` before."""
    N, heads, _, shared, sharers = sizes
    p, programs, end = gl.program_id(0), gl.num_programs(0), walks(N, heads, C)
    if shared is not None:
        first, last = share(p, N // BLOCK_N, shared, sharers)
        parts = gl.where(first // (N // BLOCK_N) < (last - 1) // (N // BLOCK_N), 2, 1)
        p = gl.where(p < sharers, p - parts * programs, p)
        end -= shared
    return p, end


@jit
def work(at, end, sizes, C: gl.constexpr, CAUSAL: gl.constexpr):
    """(first row of the head, first query in it, first tile of keys, tiles of keys, first row of o) of a walk, or of a part of one,
    whose o has a place behind all others."""
    N, heads, together, shared, sharers = sizes
    if shared is None:
        head_row, first, tiles = walk(at, N, together, C, CAUSAL)
        return head_row, first, 0, tiles, head_row + first
    else:
        p, programs, all_tiles = gl.program_id(0), gl.num_programs(0), N // BLOCK_N
        start, stop = share(p, all_tiles, shared, sharers)
        which = (stop - 1) // all_tiles - gl.where(at < -programs, 1, 0)  # of the shared walks
        start, stop = gl.maximum(start - which * all_tiles, 0), gl.minimum(stop - which * all_tiles, all_tiles)
        head_row, first, _ = walk(gl.where(at < 0, end + which, at), N, together, C, CAUSAL)
        row = gl.where(at < 0, heads * N + (p + which) * (C * GROUP_M), head_row + first)
        return head_row, first, gl.where(at < 0, start, 0), gl.where(at < 0, stop - start, all_tiles), row


@jit
def after(at, counter, shared):
    """Return what a program does next: after its parts the walk that has its number, then what the counter says."""
    if shared is None:
        return gl.num_programs(0) + gl.atomic_add(counter, 1)
    else:
        if at >= 0:
            at = gl.atomic_add(counter, 1)
        return at + gl.num_programs(0)


@jit
def announce(at, tiles, qs, seats, r, C: gl.constexpr):
    """Leave the r-th walk to the consumers: its place in the queue or, where walks are shared, its first row of o and how many tiles it
    has. The one before the last is forgotten: all its queries' places are free."""
    places, lengths, full = seats
    for g in gl.static_range(C):
        mbarrier.wait(qs[2].index((C * r + g) % (2 * C)), (r // 2 + 1) & 1)
    places.index(r % 2).store(gl.full((1,), at, gl.int32, ONE_NUMBER))
    if lengths is not None:
        lengths.index(r % 2).store(gl.full((1,), tiles, gl.int32, ONE_NUMBER))
    mbarrier.arrive(full.index(r % 2))


@jit
def seat(seats, r):
    places, lengths, full = seats
    mbarrier.wait(full.index(r % 2), r // 2 & 1)
    if lengths is None:
        return number(places.index(r % 2)), 0
    else:
        return number(places.index(r % 2)), number(lengths.index(r % 2))


@jit
def number(place):
    return gl.max(place.load(gl.BlockedLayout([1], [32], [4], [0])), 0)


@jit
def produce(q_desc, k_desc, v_desc, rings, counter, sizes, C: gl.constexpr, CAUSAL: gl.constexpr):
    qs, ks, vs, seats = rings
    shared = sizes[3]
    done, r = 0, 0
    at, end = begin_and_end(sizes, C)
    while at < end:
        head_row, first, start, tiles, row = work(at, end, sizes, C, CAUSAL)
        announce(at if shared is None else row, tiles, qs, seats, r, C)
        for g in gl.static_range(C):
            fetch(q_desc, head_row + first + g * GROUP_M, qs, C * r + g)
        for i in range(tiles + 1):  # in the order of use: a tile's values after the next tile's keys
            if i < tiles:
                fetch(k_desc, head_row + (start + keys_of(i, tiles, C, CAUSAL)) * BLOCK_N, ks, done + i)
            if i > 0:
                fetch(v_desc, head_row + (start + keys_of(i - 1, tiles, C, CAUSAL)) * BLOCK_N, vs, done + i - 1)
            if i == gl.maximum(tiles - AHEAD, 0):
                at = after(at, counter, shared)
        done += tiles
        r += 1
    announce(at if shared is None else -1, 0, qs, seats, r, C)  # there is none left


@jit
def give_back(qs, r, C: gl.constexpr, GROUP: gl.constexpr):
    """Give the place of the queries before back, as soon as their o has left it."""
    if r > 0:
        tma.store_wait(0)
        release(qs, C * (r - 1) + GROUP)


@jit
def consume(o_desc, lse_ptr, rings, scale, sizes, GROUP: gl.constexpr, C: gl.constexpr, CAUSAL: gl.constexpr):
    """64 of the queries. `done` counts the tiles of keys that went before, as in produce."""
    qs, ks, vs, seats = rings
    N, heads, together, shared, _ = sizes
    D: gl.constexpr = o_desc.block_type.shape[1]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    ROWS: gl.constexpr = gl.SliceLayout(1, S_LAYOUT)
    NEXT: gl.constexpr = (GROUP + 1) % C
    none = gl.zeros((GROUP_M, BLOCK_N), gl.float32, S_LAYOUT)
    if NEXT == 0:
        turn("arrive", 0)
    done, r = 0, 0
    at, tiles = seat(seats, 0)
    while at < walks(N, heads, C) if shared is None else at >= 0:
        if shared is None:
            head_row, first, tiles = walk(at, N, together, C, CAUSAL)
        else:
            head_row, first = at, 0
        row = first + GROUP * GROUP_M
        q = tile_of(qs, C * r + GROUP)
        wait_full(qs, C * r + GROUP)
        skip = 0  # tiles that none of these queries sees, the first ones; all of them where there are no queries
        if C == 3:
            if CAUSAL:
                skip = tiles - (gl.maximum(row + GROUP_M, 0) + BLOCK_N - 1) // BLOCK_N
            elif row >= N:
                skip = tiles
            for i in range(done, done + skip):
                if (i > done) | (skip < tiles):  # a walk has a turn less than tiles, for all consumers
                    turn("sync", GROUP)
                    turn("arrive", NEXT)
                wait_full(ks, i)
                release(ks, i)
                wait_full(vs, i)
                release(vs, i)
        if skip == tiles:
            give_back(qs, r, C, GROUP)
        else:
            start = done + skip
            acc = gl.zeros((GROUP_M, D), gl.float32, O_LAYOUT)
            m = gl.full((GROUP_M,), -float("inf"), gl.float32, ROWS)
            wait_full(ks, start)
            q_here = q if shared is None else q.load(gl.DotOperandLayout(0, S_LAYOUT, 2))  # in registers: see step 7
            s = mma(q_here, tile_of(ks, start).permute((1, 0)), none, use_acc=False, is_async=True)
            give_back(qs, r, C, GROUP)
            s = mma_wait(0, deps=[s])
            release(ks, start)
            if CAUSAL:
                offs_m = row % BLOCK_N + gl.arange(0, GROUP_M, ROWS)
                offs_n = gl.arange(0, BLOCK_N, gl.SliceLayout(0, S_LAYOUT))
                s = gl.where(offs_n[None, :] <= offs_m[:, None], s, -float("inf"))
            m = larger(s, m, scale)
            e = gl.exp2(s * scale - m[:, None])
            l = sums_of_threads(e)
            p = gl.convert_layout(e.to(q.dtype), P_LAYOUT)
            for i in range(start + 1, done + tiles):
                wait_full(ks, i)
                turn("sync", GROUP)
                s = mma(q_here, tile_of(ks, i).permute((1, 0)), none, use_acc=False, is_async=True)
                wait_full(vs, i - 1)
                acc = mma(p, tile_of(vs, i - 1), acc, is_async=True)
                turn("arrive", NEXT)
                s = mma_wait(1, deps=[s])  # all products but the last one are done: S is there
                release(ks, i)
                m_old, m = m, larger(s, m, scale)
                alpha = gl.exp2(m_old - m)
                pin()  # from here on ptxas puts the rest between the exponentials
                acc = mma_wait(0, deps=[acc])
                release(vs, i - 1)
                acc = times_rows(acc, alpha)
                e = gl.exp2(s * scale - m[:, None])
                l = times_rows(l, alpha) + sums_of_threads(e)
                p = gl.convert_layout(e.to(q.dtype), P_LAYOUT)
            last = done + tiles - 1
            wait_full(vs, last)
            acc = mma(p, tile_of(vs, last), acc, is_async=True)
            l = gl.convert_layout(gl.sum(l, 1), ROWS)
            gl.store(lse_ptr + (head_row + row) + gl.arange(0, GROUP_M, ROWS), (m + gl.log2(l)) * LN_2)
            acc = mma_wait(0, deps=[acc])
            release(vs, last)
            q.store((acc / gl.convert_layout(l, gl.SliceLayout(1, O_LAYOUT))[:, None]).to(q.dtype))
            fence_async_shared()
            tma.async_copy_shared_to_global(o_desc, [head_row + row, 0], q)
        done += tiles
        r += 1
        at, tiles = seat(seats, r)
    tma.store_wait(0)


@jit
def in_turns(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, counter, scale, N, heads, together, shared, sharers,
    C: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    STAGES: gl.constexpr = C  # tiles in a ring: as many as shared memory holds, and three are enough
    qs, ks, vs = new_ring(q_desc, 2 * C, 1), new_ring(k_desc, STAGES, C), new_ring(v_desc, STAGES, C)
    seated = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(seated.index(i), count=1)
    places, lengths = gl.allocate_shared_memory(gl.int32, [2, 1], mbarrier.MBarrierLayout()), None
    if shared is not None:
        lengths = gl.allocate_shared_memory(gl.int32, [2, 1], mbarrier.MBarrierLayout())
    seats, sizes = (places, lengths, seated), (N, heads, together, shared, sharers)
    rings, scale = (qs, ks, vs, seats), scale * LOG2_E
    # warps and registers of all but the first consumer, which has num_warps and what is left of 512 registers
    if C == 2:
        gl.warp_specialize(
            [
                (consume, (o_desc, lse_ptr, rings, scale, sizes, 0, C, CAUSAL)),
                (consume, (o_desc, lse_ptr, rings, scale, sizes, 1, C, CAUSAL)),
                (produce, (q_desc, k_desc, v_desc, rings, counter, sizes, C, CAUSAL)),
            ],
            [4, 1],
            [REGISTERS, 24],
        )
    else:
        gl.warp_specialize(
            [
                (consume, (o_desc, lse_ptr, rings, scale, sizes, 0, C, CAUSAL)),
                (consume, (o_desc, lse_ptr, rings, scale, sizes, 1, C, CAUSAL)),
                (consume, (o_desc, lse_ptr, rings, scale, sizes, 2, C, CAUSAL)),
                (produce, (q_desc, k_desc, v_desc, rings, counter, sizes, C, CAUSAL)),
            ],
            [4, 4, 1],
            [160, 160, 24],
        )


def consumers(D: int) -> int:
    """Return how many consumers registers allow: S, O and P of a thread take 128 at D 64, and 160 at D 128."""
    return 3 if D == 64 else 2


@triton.jit
def merge(
    o_ptr, lse_ptr, first_walk, shared, sharers, rows, N, D: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr
):
    """Some rows of a shared walk: the mean of its parts' o, which begin at row `rows`, in one order, weighted by their lse."""
    which, tiles = tl.program_id(0), N // BLOCK_N
    own = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    # the programs that have its first and its last tile
    first = ((which * tiles + 1) * sharers - 1) // (shared * tiles)
    last = ((which + 1) * tiles * sharers - 1) // (shared * tiles)
    m = tl.full((ROWS,), -float("inf"), tl.float32)
    l = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for p in range(first, last + 1):
        at = rows + (p + which) * QUERIES + own
        o = tl.load(o_ptr + at.to(tl.int64)[:, None] * D + dims[None, :]).to(tl.float32)
        lse = tl.load(lse_ptr + at)
        m_old, m = m, tl.maximum(m, lse)
        alpha, weight = tl.exp(m_old - m), tl.exp(lse - m)
        acc = acc * alpha[:, None] + o * weight[:, None]
        l = l * alpha + weight
    at = (first_walk + which) * QUERIES + own
    tl.store(o_ptr + at.to(tl.int64)[:, None] * D + dims[None, :], (acc / l[:, None]).to(o_ptr.dtype.element_ty))
    tl.store(lse_ptr + at, m + tl.log(l))


def sharing(walks: int, tiles: int, programs: int) -> tuple[int, int] | tuple[None, None]:
    """Return how many walks the last round has, and how many programs share them; None, None if that does not pay."""
    left = walks % programs
    if left == 0 or tiles < FEWEST_SAVED:
        return None, None
    sharers = min(programs, left * tiles // FEWEST_SHARED)
    saved = tiles - triton.cdiv(left * tiles, sharers)
    return (left, sharers) if saved >= FEWEST_SAVED else (None, None)


@cache
def heads_together(heads: int, nbytes: int) -> int:
    """Return how many heads, of as many bytes of keys and values each, causal walks of a time belong to: a divisor of all heads."""
    return max(n for n in range(1, heads + 1) if heads % n == 0 and (n == 1 or n * nbytes <= L2_BYTES))


def launch(q, k, v, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse), as attention_overlapped.launch: q, k, v (B, H, N, D), contiguous, N a multiple of 128, D 64 or 128."""
    B, H, N, D = q.shape
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    C, heads = consumers(D), B * H
    queries = C * GROUP_M.value
    all_walks, rows = heads * triton.cdiv(N, queries), heads * N
    shared, sharers = sharing(all_walks, N // BLOCK_N.value, sms) if C == 2 and not causal else (None, None)
    parts = 0 if shared is None else shared + sharers - 1  # at most: each takes as many rows of o as a walk
    o, lse = q.new_empty(rows + parts * queries, D), torch.empty(rows + parts * queries, device=q.device)
    counter = torch.zeros(1, dtype=torch.int32, device=q.device)
    together = heads_together(heads, (k[0, 0].nbytes + v[0, 0].nbytes))
    values = (*descriptors(q, k, v, o), lse, counter, D**-0.5, N, heads, together, shared, sharers)
    in_turns[(sms if parts else min(sms, all_walks),)](*values, C=C, CAUSAL=causal, num_warps=4)
    if parts:
        given = (o, lse, all_walks - shared, shared, sharers, rows, N)
        merge[(shared, queries // MERGED)](*given, D=D, QUERIES=queries, ROWS=MERGED, num_warps=4)
    return o[:rows].view(q.shape), lse[:rows].view(B, H, N)
