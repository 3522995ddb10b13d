"""FlashAttention with products and softmax at the same time, in Gluon: one step beyond attention_ladder.py.

Triton 3.6 waits for a product where it is issued, however the loop is written. Gluon, the language below it, leaves
layouts, shared memory, barriers and waiting to the kernel. As in Shah et al., *FlashAttention-3*, 2024, a program has

    produce     one warp: TMA fetches 128 queries, then their keys and values, 128 by 128, into rings of shared memory
    consume     twice, a warpgroup (four warps, which issue a product together) for 64 of the queries

A consumer issues S = Q K^T of a tile and, right behind it, O += P V of the tile before. The softmax of S then runs while
the tensor cores do P V and the other consumer's products. Keys are walked from the last to the first: the first tile is
the one on the diagonal, the only one with a mask. There is a program for each SM, which takes 128 queries after 128: the
producer is ahead of the consumers. It needs Hopper (sm_90); importing this needs neither GPU nor Gluon.

Tried on an H100 and left out: consumers that take turns, as in the paper (0.98 to 1.01 of the speed of this), and at D 64 three or four
tiles in a ring (0.99 to 1.00, but 1.04 to 1.07 for causal walks over 4096 tokens).
"""

from __future__ import annotations

import torch
import triton.language as tl

try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma as mma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma_wait as mma_wait
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    jit = gluon.jit
except ImportError:  # an older Triton: this can be read, not run

    def jit(fn):
        return fn


LOG2_E, LN_2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
GROUP_M, BLOCK_N = tl.constexpr(64), tl.constexpr(128)  # queries of a consumer, keys of a tile
STAGES = tl.constexpr(2)  # tiles in a ring: k and v take 128 KiB of an SM's 227, q (two times) 64
REGISTERS = tl.constexpr(240)  # of a consumer's thread: S, O and P take 160; the producer gives up its own


@jit
def new_ring(desc, SIZE: gl.constexpr, READERS: gl.constexpr):
    """(tiles, barriers that open when a tile is full, barriers that open when all its readers are done)."""
    tiles = gl.allocate_shared_memory(desc.dtype, [SIZE] + desc.block_type.shape, desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SIZE, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [SIZE, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SIZE):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=READERS)
    return tiles, full, empty


@jit
def fetch(desc, row, ring, i):
    """The i-th tile of a ring, as soon as its place is free. A barrier's phase is the parity of how often it opened."""
    tiles, full, empty = ring
    SIZE: gl.constexpr = tiles.shape[0]
    mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)
    mbarrier.expect(full.index(i % SIZE), desc.block_type.nbytes)
    tma.async_copy_global_to_shared(desc, [row, 0], full.index(i % SIZE), tiles.index(i % SIZE))


@jit
def wait_full(ring, i, there=True):
    mbarrier.wait(ring[1].index(i % ring[0].shape[0]), i // ring[0].shape[0] & 1, pred=there)


@jit
def tile_of(ring, i):
    return ring[0].index(i % ring[0].shape[0])


@jit
def release(ring, i):
    mbarrier.arrive(ring[2].index(i % ring[0].shape[0]))


@jit
def softmax(s, m, scale):
    """(exponentials, the new maximum, alpha, which brings the old sums to it), in units of log2 as in the ladder."""
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    return gl.exp2(s * scale - m_new[:, None]), m_new, gl.exp2(m - m_new)


@jit
def walk(at, N, heads, CAUSAL: gl.constexpr):
    """(first row of the head, first query, tiles of keys, round) of a place in the queue of all tiles of queries."""
    n, per_head = gl.num_programs(0), N // (2 * GROUP_M)
    r = at // n
    if CAUSAL:  # all heads' longest walks first; every other round backwards, so that all programs get as much
        if r % 2 == 1 and (r + 1) * n <= heads * per_head:
            at = (2 * r + 1) * n - 1 - at
        head, tile = at % heads, per_head - 1 - at // heads
    else:  # head by head, whose keys stay in L2
        head, tile = at // per_head, at % per_head
    tiles = ((tile + 1) * (2 * GROUP_M) if CAUSAL else N) // BLOCK_N
    return head * N, head * N + tile * (2 * GROUP_M), tiles, r


@jit
def produce(q_desc, k_desc, v_desc, qs, ks, vs, N, heads, CAUSAL: gl.constexpr):
    done = 0
    for at in range(gl.program_id(0), heads * (N // (2 * GROUP_M)), gl.num_programs(0)):
        head_row, row, tiles, r = walk(at, N, heads, CAUSAL)
        fetch(q_desc, row, qs, 2 * r)
        fetch(q_desc, row + GROUP_M, qs, 2 * r + 1)
        for i in range(tiles + 1):  # in the order of use: a tile's values after the next tile's keys
            if i < tiles:
                fetch(k_desc, head_row + (tiles - 1 - i) * BLOCK_N, ks, done + i)
            if i > 0:
                fetch(v_desc, head_row + (tiles - i) * BLOCK_N, vs, done + i - 1)
        done += tiles


@jit
def consume(o_desc, lse_ptr, qs, ks, vs, scale, N, heads, GROUP: gl.constexpr, CAUSAL: gl.constexpr):
    """The first or the second 64 of the queries. `done` counts the tiles of keys that went before, as in produce."""
    # Who holds what: four warps of 16 rows each, as wgmma wants it. P is in S's registers, two numbers in each.
    D: gl.constexpr = o_desc.block_type.shape[1]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    O_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, O_LAYOUT, 2)
    none = gl.zeros((GROUP_M, BLOCK_N), gl.float32, S_LAYOUT)
    done = 0
    for at in range(gl.program_id(0), heads * (N // (2 * GROUP_M)), gl.num_programs(0)):
        head_row, row, tiles, r = walk(at, N, heads, CAUSAL)
        offs_m = row + GROUP * GROUP_M + gl.arange(0, GROUP_M, gl.SliceLayout(1, S_LAYOUT))
        acc = gl.zeros((GROUP_M, D), gl.float32, O_LAYOUT)
        m = gl.full((GROUP_M,), -float("inf"), gl.float32, gl.SliceLayout(1, S_LAYOUT))
        q = tile_of(qs, 2 * r + GROUP)
        wait_full(qs, 2 * r + GROUP)
        wait_full(ks, done)
        s = mma(q, tile_of(ks, done).permute((1, 0)), none, use_acc=False, is_async=True)
        if r > 0:  # the last o has left its q's place
            tma.store_wait(0)
            release(qs, 2 * r - 2 + GROUP)
        s = mma_wait(0, deps=[s])
        release(ks, done)
        if CAUSAL:
            offs_n = head_row + (tiles - 1) * BLOCK_N + gl.arange(0, BLOCK_N, gl.SliceLayout(0, S_LAYOUT))
            s = gl.where(offs_n[None, :] <= offs_m[:, None], s, -float("inf"))
        e, m, alpha = softmax(s, m, scale)
        l = gl.sum(e, 1)
        p = gl.convert_layout(e.to(q.dtype), P_LAYOUT)
        wait_full(ks, done + 1, tiles > 1)
        for i in range(done + 1, done + tiles):
            s = mma(q, tile_of(ks, i).permute((1, 0)), none, use_acc=False, is_async=True)
            wait_full(vs, i - 1)
            acc = mma(p, tile_of(vs, i - 1), acc, is_async=True)
            s = mma_wait(1, deps=[s])  # all products but the last one are done: S is there
            release(ks, i)
            e, m, alpha = softmax(s, m, scale)
            l = l * alpha + gl.sum(e, 1)
            # This wait stands here because it is a loop: ptxas would move the exponentials behind mma_wait, where no
            # product is left to run at the same time, but not after a branch.
            wait_full(ks, i + 1, i + 1 < done + tiles)
            acc = mma_wait(0, deps=[acc])
            release(vs, i - 1)
            p = gl.convert_layout(e.to(q.dtype), P_LAYOUT)
            acc = acc * gl.convert_layout(alpha, gl.SliceLayout(1, O_LAYOUT))[:, None]
        done += tiles
        wait_full(vs, done - 1)
        acc = mma(p, tile_of(vs, done - 1), acc, is_async=True)
        gl.store(lse_ptr + offs_m, (m + gl.log2(l)) * LN_2)
        acc = mma_wait(0, deps=[acc])
        release(vs, done - 1)
        q.store((acc / gl.convert_layout(l, gl.SliceLayout(1, O_LAYOUT))[:, None]).to(q.dtype))  # in q's place, for TMA
        fence_async_shared()
        tma.async_copy_shared_to_global(o_desc, [row + GROUP * GROUP_M, 0], q)
    tma.store_wait(0)


@jit
def overlapped(q_desc, k_desc, v_desc, o_desc, lse_ptr, scale, N, heads, CAUSAL: gl.constexpr):
    qs, ks, vs = new_ring(q_desc, 4, 1), new_ring(k_desc, STAGES, 2), new_ring(v_desc, STAGES, 2)
    scale = scale * LOG2_E
    gl.warp_specialize(
        [
            (consume, (o_desc, lse_ptr, qs, ks, vs, scale, N, heads, 0, CAUSAL)),
            (consume, (o_desc, lse_ptr, qs, ks, vs, scale, N, heads, 1, CAUSAL)),
            (produce, (q_desc, k_desc, v_desc, qs, ks, vs, N, heads, CAUSAL)),
        ],
        [4, 1],  # warps of the second consumer and of the producer; the first consumer is num_warps
        [REGISTERS, 24],
    )


def descriptors(q, k, v, o) -> list[TensorDescriptor]:
    """The four tensors (B, H, N, D) as TMA takes them: all rows of each below one another, and the tile of one copy."""
    m, n, D = GROUP_M.value, BLOCK_N.value, q.shape[-1]
    layout = gl.NVMMASharedLayout.get_default_for([m, D], gl.float16)  # bfloat16 is as wide
    shapes = zip((q, k, v, o), (m, n, n, m), strict=True)
    return [TensorDescriptor.from_tensor(x.view(-1, D), [rows, D], layout) for x, rows in shapes]


def launch(q, k, v, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse), as attention_ladder.launch: q, k, v (B, H, N, D), contiguous, N a multiple of 128, D 64 or 128."""
    B, H, N, D = q.shape
    o, lse = torch.empty_like(q), torch.empty(B, H, N, device=q.device)
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    programs = min(sms, B * H * N // (2 * GROUP_M.value))
    overlapped[(programs,)](*descriptors(q, k, v, o), lse, D**-0.5, N, B * H, CAUSAL=causal, num_warps=4)
    return o, lse
