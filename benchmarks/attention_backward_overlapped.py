"""FlashAttention's backward pass with products and exponentials at the same time, in Gluon: one step beyond unit 10's kernels.

Unit 10 makes dK, dV in one walk and dQ in another, seven products in all. Here are five, as in Dao, *FlashAttention-2*, 2023,
algorithm 2: a program owns 128 keys and walks over the queries, 64 (D 128) or 128 (D 64) in a step,

    produce     one warp: TMA fetches k and v once; q, do and their lse and delta step after step, into a ring in shared memory
    consume     twice, a warpgroup (four warps, which issue a product together) for 64 of the keys; dk and dv stay in registers

and adds its dQ to a sum in float32. Other programs add to the same rows in any order: **dq differs in its last bits from run to
run**. dk and dv do not, and unit 10's gradients do not either. It needs Hopper (sm_90); importing this needs neither GPU nor Gluon.

What it took. Each step was measured on an H100 in one run with cuDNN; a number is the share of cuDNN's speed, 4096 tokens:

                          D 128: full, causal   D 64: full, causal
1  as above                       0.86   0.74          0.81   0.72   two consumers, which wait for one another's dS in each step
2  registers' order               0.92   0.69          0.86   0.64   dQ leaves as registers hold it: 16 bytes a thread, no bank
                                                                     conflict, and TMA adds whole kilobytes instead of rows
3  a program for each tile        0.98   0.99          0.94   1.04   the GPU hands them out, head by head, longest walks first:
                                                                     L2 holds what is read and added. Addresses are computed in
                                                                     the loop (`same`), so that no register is spilled
4  taking turns                   1.03   1.04          1.06   1.10   dQ is made a step later; so one consumer may be half a step
                                                                     behind the other, and is made to: its exponentials run while
                                                                     the tensor cores do the other one's products
5  P stays in float32             1.00   1.09          1.18   1.23   dS needs it: fewer instructions, and fewer roundings

Before step 4 the tensor cores were busy in 59 % (D 128) and 44 % (D 64) of all cycles, by Nsight Compute, in step 3 as in step 2.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from attention_overlapped import LOG2_E, REGISTERS, jit

try:
    from triton._C.libtriton import ir
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language._core import builtin
    from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma as mma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma_wait as mma_wait
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    @builtin
    def tma_add(desc, coord, tile, _semantic=None):
        """Add a tile of shared memory to global memory, by TMA. Gluon has no name for it yet; its compiler does."""
        where = _semantic._convert_to_ir_values(coord, require_i64=False)
        _semantic.builder.create_async_tma_reduce(ir.DESCRIPTOR_REDUCE_KIND.ADD, desc.handle, where, tile.handle)

except ImportError:  # an older Triton: this can be read, not run
    pass


BLOCK_N, GROUP_N = tl.constexpr(128), tl.constexpr(64)  # keys of a program, keys of a consumer
STAGES = tl.constexpr(2)  # tiles of q and do in a ring, and of ds


@jit
def place(N, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """(first key, first query, steps) of a program: head by head, and in each of them the longest walk first."""
    keys = gl.program_id(0) * BLOCK_N  # all heads' rows lie below one another
    end = (keys // N + 1) * N
    first = keys if CAUSAL else end - N
    return keys, first, (end - first) // BLOCK_M


@jit
def produce(q_desc, k_desc, v_desc, do_desc, stats_desc, kv, ring, N, CAUSAL: gl.constexpr):
    ks, vs, kv_full = kv
    qs, dos, stats, full, empty = ring
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[0]
    BYTES: gl.constexpr = q_desc.block_type.nbytes + do_desc.block_type.nbytes + stats_desc.block_type.nbytes
    keys, first, steps = place(N, BLOCK_M, CAUSAL)
    mbarrier.expect(kv_full, 2 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    for g in gl.static_range(2):
        tma.async_copy_global_to_shared(k_desc, [keys + g * GROUP_N, 0], kv_full, ks.index(g))
        tma.async_copy_global_to_shared(v_desc, [keys + g * GROUP_N, 0], kv_full, vs.index(g))
    for i in range(steps):
        slot, row = i % STAGES, first + i * BLOCK_M
        mbarrier.wait(empty.index(slot), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(slot), BYTES)
        tma.async_copy_global_to_shared(q_desc, [row, 0], full.index(slot), qs.index(slot))
        tma.async_copy_global_to_shared(stats_desc, [row // BLOCK_M * 2, 0], full.index(slot), stats.index(slot))
        tma.async_copy_global_to_shared(do_desc, [row, 0], full.index(slot), dos.index(slot))


@jit
def as_registers_hold(x):
    """(64, 64) in the order of a warpgroup's registers: four numbers of a thread lie side by side, then the next thread's."""
    # row: 4 warps, 2 halves, 8 lanes; column: 8 parts, 4 lanes, 2 numbers
    return x.reshape((4, 2, 8, 8, 4, 2)).permute((3, 0, 2, 4, 1, 5)).reshape((16, 256))


@jit
def issue_dq(i, ks, exchange, GROUP: gl.constexpr):
    """dQ = dS K of the i-th step, of all keys, as soon as both consumers have stored their dS: a half of it for each consumer."""
    ds, ds_full, _, _ = exchange  # tiles, open when both have stored, when both have read; whose turn it is
    DQ_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    dq = gl.zeros((64, 64), gl.float32, DQ_LAYOUT)
    mbarrier.wait(ds_full.index(i % STAGES), i // STAGES & 1)
    for g in gl.static_range(2):
        a, b = ds.index(i % STAGES * 2 + g).permute((1, 0)), ks.index(same(g, i))
        if ks.shape[2] == 64:
            a = a.slice(GROUP * 64, 64, 0)
        else:
            b = b.slice(GROUP * 64, 64, 1)
        dq = mma(a, b, dq, use_acc=g > 0, is_async=True)
    return dq


@jit
def add_dq(dq, i, tile, dq_desc, dq_place, exchange):
    """Add the i-th step's dQ to the sum, by TMA: the consumer goes on meanwhile."""
    mbarrier.arrive(exchange[2].index(i % STAGES))  # its dS has been read
    tma.store_wait(0)  # what was there has left
    dq_place.store(as_registers_hold(dq))
    fence_async_shared()
    tma_add(dq_desc, [tile * 16, 0], dq_place)


@jit
def same(x, i):
    """x. The compiler does not know, so it computes addresses in the loop; else it would prepare them all, and spill them."""
    return x + (i >> 30)


@jit
def step(
    s, dk, dv, i, steps, first, keys, scale, kv, ring, exchange, dq_desc, dq_place,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """One tile of queries, whose s is there. dQ is that of the step before: no consumer waits for the other one's dS at once."""
    ks, vs, _ = kv
    qs, dos, stats, full, empty = ring
    ds, ds_full, ds_empty, turns = exchange
    BLOCK_M: gl.constexpr = qs.shape[1]
    S_LAYOUT: gl.constexpr = s.type.layout
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, dk.type.layout, 2)
    none = gl.zeros((GROUP_N, BLOCK_M), gl.float32, S_LAYOUT)
    slot = i % STAGES
    q, do, stat = qs.index(slot), dos.index(slot), stats.index(slot)
    if CAUSAL:  # noqa: SIM102, since one of them is known to the compiler
        if i < BLOCK_N // BLOCK_M:  # on the diagonal
            key = keys + GROUP * GROUP_N + gl.arange(0, GROUP_N, gl.SliceLayout(1, S_LAYOUT))
            query = first + i * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(0, S_LAYOUT))
            s = gl.where(key[:, None] <= query[None, :], s, -float("inf"))
    if GROUP == 1:  # half a step behind
        mbarrier.wait(turns.index(slot), i // STAGES & 1)
    p = gl.exp2(s * scale - stat.slice(0, 1).load(S_LAYOUT))
    dv = mma(gl.convert_layout(p.to(q.dtype), P_LAYOUT), do, dv, is_async=True)
    if GROUP == 0:
        mbarrier.arrive(turns.index(slot))
    if not FIRST:
        dq = issue_dq(i - 1, ks, exchange, GROUP)
        dq, dv = mma_wait(0, deps=[dq, dv])
    dp = mma(vs.index(same(GROUP, i)), do.permute((1, 0)), none, use_acc=False, is_async=True)
    if not FIRST:
        add_dq(dq, i - 1, first // BLOCK_M * 2 + (i - 1) * 2 + GROUP, dq_desc, dq_place, exchange)
    mbarrier.wait(ds_empty.index(slot), (i // STAGES + 1) & 1)
    if FIRST:
        dp, dv = mma_wait(0, deps=[dp, dv])
    else:
        dp = mma_wait(0, deps=[dp])
    d = (p * (dp - stat.slice(1, 1).load(S_LAYOUT))).to(q.dtype)
    ds.index(slot * 2 + GROUP).store(d)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(slot))
    dk = mma(gl.convert_layout(d, P_LAYOUT), q, dk, is_async=True)
    j = gl.minimum(i + 1, steps - 1)  # the last product is not needed: a branch around it would cost registers
    mbarrier.wait(full.index(j % STAGES), j // STAGES & 1)
    s = mma(ks.index(same(GROUP, i)), qs.index(j % STAGES).permute((1, 0)), none, use_acc=False, is_async=True)
    s, dk = mma_wait(0, deps=[s, dk])
    mbarrier.arrive(empty.index(slot))
    return s, dk, dv


@jit
def consume(
    dq_desc,
    dk_desc,
    dv_desc,
    kv,
    ring,
    exchange,
    dq_places,
    softmax_scale,
    N,
    GROUP: gl.constexpr,
    CAUSAL: gl.constexpr,
):
    ks, vs, kv_full = kv
    qs, full = ring[0], ring[3]
    BLOCK_M: gl.constexpr = qs.shape[1]
    D: gl.constexpr = qs.shape[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    DKV_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    scale = softmax_scale * LOG2_E
    k, v, dq_place = ks.index(GROUP), vs.index(GROUP), dq_places.index(GROUP)
    keys, first, steps = place(N, BLOCK_M, CAUSAL)
    dk = gl.zeros((GROUP_N, D), gl.float32, DKV_LAYOUT)
    dv = gl.zeros((GROUP_N, D), gl.float32, DKV_LAYOUT)
    s = gl.zeros((GROUP_N, BLOCK_M), gl.float32, S_LAYOUT)
    mbarrier.wait(kv_full, 0)
    mbarrier.wait(full.index(0), 0)
    s = mma(k, qs.index(0).permute((1, 0)), s, use_acc=False)
    s, dk, dv = step(
        s, dk, dv, 0, steps, first, keys, scale, kv, ring, exchange, dq_desc, dq_place, GROUP, CAUSAL, True
    )
    for i in range(1, steps):
        s, dk, dv = step(
            s, dk, dv, i, steps, first, keys, scale, kv, ring, exchange, dq_desc, dq_place, GROUP, CAUSAL, False
        )
    dq = mma_wait(0, deps=[issue_dq(steps - 1, ks, exchange, GROUP)])
    add_dq(dq, steps - 1, first // BLOCK_M * 2 + (steps - 1) * 2 + GROUP, dq_desc, dq_place, exchange)
    v.store(dv.to(v.dtype))
    mbarrier.wait(exchange[2].index((steps - 1) % STAGES), (steps - 1) // STAGES & 1)  # both are done with k
    k.store((dk * softmax_scale).to(k.dtype))
    fence_async_shared()
    tma.async_copy_shared_to_global(dv_desc, [keys + GROUP * GROUP_N, 0], v)
    tma.async_copy_shared_to_global(dk_desc, [keys + GROUP * GROUP_N, 0], k)
    tma.store_wait(0)


@jit
def new_barriers(N: gl.constexpr, COUNT: gl.constexpr):
    barriers = gl.allocate_shared_memory(gl.int64, [N, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(N):
        mbarrier.init(barriers.index(i), count=COUNT)
    return barriers


@jit
def new_tiles(desc, N: gl.constexpr):
    return gl.allocate_shared_memory(desc.dtype, [N] + desc.block_type.shape, desc.layout)


@jit
def backward(q_desc, k_desc, v_desc, do_desc, stats_desc, dq_desc, dk_desc, dv_desc, scale, N, CAUSAL: gl.constexpr):
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[0]
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([GROUP_N, BLOCK_M], q_desc.dtype)
    ds = gl.allocate_shared_memory(q_desc.dtype, [2 * STAGES, GROUP_N, BLOCK_M], DS_LAYOUT)
    kv = (new_tiles(k_desc, 2), new_tiles(v_desc, 2), new_barriers(1, 1).index(0))
    ring = (
        new_tiles(q_desc, STAGES), new_tiles(do_desc, STAGES), new_tiles(stats_desc, STAGES),
        new_barriers(STAGES, 1), new_barriers(STAGES, 2),
    )  # fmt: skip
    exchange = (ds, new_barriers(STAGES, 2), new_barriers(STAGES, 2), new_barriers(STAGES, 1))
    dq_places = new_tiles(dq_desc, 2)
    gl.warp_specialize(
        [
            (consume, (dq_desc, dk_desc, dv_desc, kv, ring, exchange, dq_places, scale, N, 0, CAUSAL)),
            (consume, (dq_desc, dk_desc, dv_desc, kv, ring, exchange, dq_places, scale, N, 1, CAUSAL)),
            (produce, (q_desc, k_desc, v_desc, do_desc, stats_desc, kv, ring, N, CAUSAL)),
        ],
        [4, 1],  # warps of the second consumer and of the producer; the first consumer is num_warps
        [REGISTERS, 24],
    )


@triton.jit
def prepare(o_ptr, do_ptr, lse_ptr, stats_ptr, dq_ptr, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """Prepare each tile of queries: lse in units of log2, delta = rowsum(o * do), and zeros for dq."""
    tile = tl.program_id(0).to(tl.int64)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    delta = tl.sum(tl.load(o_ptr + at).to(tl.float32) * tl.load(do_ptr + at).to(tl.float32), axis=1)
    place = stats_ptr + tile * 2 * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(place, tl.load(lse_ptr + rows) * LOG2_E)
    tl.store(place + BLOCK_M, delta)
    tl.store(dq_ptr + at, tl.zeros((BLOCK_M, D), tl.float32))


@triton.jit
def finish(sum_ptr, dq_ptr, scale, D: tl.constexpr):
    """dq of a tile of 64 x 64, from a sum in the order of `as_registers_hold`."""
    tile = tl.program_id(0).to(tl.int64)
    x = tl.load(sum_ptr + tile * 4096 + tl.arange(0, 4096)) * scale
    x = x.reshape(8, 4, 8, 4, 2, 2).permute(1, 4, 2, 0, 3, 5).reshape(64, 64)
    rows = tile // (D // 64) * 64 + tl.arange(0, 64)
    cols = tile % (D // 64) * 64 + tl.arange(0, 64)
    tl.store(dq_ptr + rows[:, None] * D + cols[None, :], x.to(dq_ptr.dtype.element_ty))


def block_m(D: int) -> int:
    """Queries of a step: as many as registers and shared memory hold."""
    return 128 if D == 64 else 64


def descriptors(q, k, v, do, stats, dq_sum, dk, dv) -> list[TensorDescriptor]:
    """The tensors as TMA takes them, and the tile of one copy: all rows of (B, H, N, D) below one another. bfloat16 is as wide
    as float16."""
    D, m, n = q.shape[-1], block_m(q.shape[-1]), GROUP_N.value

    def rows(x, count):
        return TensorDescriptor.from_tensor(
            x.view(-1, D), [count, D], gl.NVMMASharedLayout.get_default_for([count, D], gl.float16)
        )

    plain = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    numbers = TensorDescriptor.from_tensor(stats, [2, m], plain)
    total = TensorDescriptor.from_tensor(dq_sum.view(-1, 256), [16, 256], plain)
    return [rows(q, m), rows(k, n), rows(v, n), rows(do, m), numbers, total, rows(dk, n), rows(dv, n)]


def launch(q, k, v, o, lse, do, causal: bool):
    """(dq, dk, dv) of contiguous (B, H, N, D), N a multiple of 128, D 64 or 128."""
    B, H, N, D = q.shape
    rows, m = B * H * N, block_m(D)
    stats = torch.empty(rows // m * 2, m, device=q.device)
    dq_sum = torch.empty(rows, D, device=q.device)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    prepare[(rows // m,)](o, do, lse, stats, dq_sum, D=D, BLOCK_M=m, num_warps=8)
    values = descriptors(q, k, v, do, stats, dq_sum, dk, dv)
    backward[(rows // BLOCK_N.value,)](*values, D**-0.5, N, CAUSAL=causal, num_warps=4)
    finish[(rows * D // 4096,)](dq_sum, dq, D**-0.5, D=D)
    return dq, dk, dv
