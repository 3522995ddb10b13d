"""FlashAttention's backward pass with its five products side by side, in Gluon."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from attention_overlapped import LOG2_E, REGISTERS, jit, walk

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


BLOCK_N, GROUP_N = tl.constexpr(128), tl.constexpr(64)  # keys of a program at a time, keys of a consumer
STAGES = tl.constexpr(2)


@jit
def produce(q_desc, k_desc, v_desc, do_desc, stats_desc, kv, ring, N, heads, CAUSAL: gl.constexpr):
    ks, vs, kv_full, kv_empty = kv
    qs, dos, stats, full, empty = ring
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[0]
    done = 0
    for at in range(gl.program_id(0), heads * (N // BLOCK_N), gl.num_programs(0)):
        head_row, keys, first, steps, r = place(at, N, heads, BLOCK_M, CAUSAL)
        mbarrier.wait(kv_empty, (r + 1) & 1)
        mbarrier.expect(kv_full, 2 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
        for g in gl.static_range(2):
            tma.async_copy_global_to_shared(k_desc, [keys + g * GROUP_N, 0], kv_full, ks.index(g))
            tma.async_copy_global_to_shared(v_desc, [keys + g * GROUP_N, 0], kv_full, vs.index(g))
        for i in range(done, done + steps):
            s = i % STAGES
            row = first + (i - done) * BLOCK_M
            mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)
            mbarrier.expect(
                full.index(s), q_desc.block_type.nbytes + do_desc.block_type.nbytes + stats_desc.block_type.nbytes
            )
            tma.async_copy_global_to_shared(q_desc, [row, 0], full.index(s), qs.index(s))
            tma.async_copy_global_to_shared(stats_desc, [row // BLOCK_M * 2, 0], full.index(s), stats.index(s))
            tma.async_copy_global_to_shared(do_desc, [row, 0], full.index(s), dos.index(s))
        done += steps


@jit
def place(at, N, heads, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr):
    """(first row of the head, first key, first query, steps, round) of a place in the queue of all tiles of keys."""
    head_row, keys, _, r = walk(at, N, heads, CAUSAL)
    first = head_row
    if CAUSAL:  # the first keys have the most queries
        keys = head_row + (N - BLOCK_N) - (keys - head_row)
        first = keys
    return head_row, keys, first, (head_row + N - first) // BLOCK_M, r


@jit
def as_registers_hold(x):
    """(64, 64) in the order of a warpgroup's registers: four numbers of a thread lie side by side, then the next thread's."""
    # row: 4 warps, 2 halves, 8 lanes; column: 8 parts, 4 lanes, 2 numbers
    return x.reshape((4, 2, 8, 8, 4, 2)).permute((3, 0, 2, 4, 1, 5)).reshape((16, 256))


@jit
def step(
    s, dk, dv, i, row, key_rows, cols, diagonal, scale, k, v, ks, ring, exchange, dq_desc, dq_place,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, MORE: gl.constexpr,
):  # fmt: skip
    """One tile of queries. s is under way when it begins; the next one's is when it ends."""
    qs, dos, stats, full, empty = ring
    ds_tiles, ds_full, ds_empty = exchange
    S_LAYOUT: gl.constexpr = cols.type.layout.parent
    BLOCK_M: gl.constexpr = qs.shape[1]
    D: gl.constexpr = qs.shape[2]
    DKV_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, DKV_LAYOUT, 2)
    DQ_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    slot = i % STAGES
    q, do, stat = qs.index(slot), dos.index(slot), stats.index(slot)
    none = gl.zeros((GROUP_N, BLOCK_M), gl.float32, S_LAYOUT)
    dp = mma(v, do.permute((1, 0)), none, use_acc=False, is_async=True)
    lse = stat.slice(0, 1).load(S_LAYOUT)
    if CAUSAL:
        if diagonal:
            s = gl.where(key_rows[:, None] <= row + cols[None, :], s, -float("inf"))
    p = gl.exp2(s * scale - lse)
    p16 = p.to(q.dtype)
    dv = mma(gl.convert_layout(p16, P_LAYOUT), do, dv, is_async=True)
    mbarrier.wait(ds_empty.index(i % DS_STAGES), (i // DS_STAGES + 1) & 1)
    dp = mma_wait(1, deps=[dp])
    delta = stat.slice(1, 1).load(S_LAYOUT)
    ds16 = (p16.to(gl.float32) * (dp - delta)).to(q.dtype)
    ds_tiles.index(i % DS_STAGES * 2 + GROUP).store(ds16)
    fence_async_shared()
    mbarrier.arrive(ds_full.index(i % DS_STAGES))
    dk = mma(gl.convert_layout(ds16, P_LAYOUT), q, dk, is_async=True)
    mbarrier.wait(ds_full.index(i % DS_STAGES), i // DS_STAGES & 1)
    dq = gl.zeros((64, 64), gl.float32, DQ_LAYOUT)
    for g in gl.static_range(2):
        a, b = ds_tiles.index(i % DS_STAGES * 2 + g).permute((1, 0)), ks.index(g)
        if D == 64:
            a = a.slice(GROUP * 64, 64, 0)
        else:
            b = b.slice(GROUP * 64, 64, 1)
        dq = mma(a, b, dq, use_acc=g > 0, is_async=True)
    dk, dv = mma_wait(1, deps=[dk, dv])
    if MORE:
        mbarrier.wait(full.index((i + 1) % STAGES), (i + 1) // STAGES & 1)
        s = mma(k, qs.index((i + 1) % STAGES).permute((1, 0)), none, use_acc=False, is_async=True)
        dq = mma_wait(1, deps=[dq])
    else:
        dq = mma_wait(0, deps=[dq])
    mbarrier.arrive(empty.index(slot))
    mbarrier.arrive(ds_empty.index(i % DS_STAGES))
    tma.store_wait(0)
    dq_place.store(as_registers_hold(dq))
    fence_async_shared()
    tma_add(dq_desc, [(row // BLOCK_M * 2 + GROUP) * 16, 0], dq_place)
    if MORE:
        s = mma_wait(0, deps=[s])
    return s, dk, dv


DS_STAGES = tl.constexpr(2)


@jit
def consume(
    dq_desc, dk_desc, dv_desc, kv, ring, exchange, dq_places, softmax_scale, N, heads,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr,
):  # fmt: skip
    ks, vs, kv_full, kv_empty = kv
    qs, dos, stats, full, empty = ring
    BLOCK_M: gl.constexpr = qs.shape[1]
    D: gl.constexpr = qs.shape[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    DKV_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    scale = softmax_scale * LOG2_E
    none = gl.zeros((GROUP_N, BLOCK_M), gl.float32, S_LAYOUT)
    k, v, dq_place = ks.index(GROUP), vs.index(GROUP), dq_places.index(GROUP)
    cols = gl.arange(0, BLOCK_M, gl.SliceLayout(0, S_LAYOUT))
    done = 0
    for at in range(gl.program_id(0), heads * (N // BLOCK_N), gl.num_programs(0)):
        head_row, keys, first, steps, r = place(at, N, heads, BLOCK_M, CAUSAL)
        key_rows = keys + GROUP * GROUP_N + gl.arange(0, GROUP_N, gl.SliceLayout(1, S_LAYOUT))
        dk = gl.zeros((GROUP_N, D), gl.float32, DKV_LAYOUT)
        dv = gl.zeros((GROUP_N, D), gl.float32, DKV_LAYOUT)
        mbarrier.wait(kv_full, r & 1)
        mbarrier.wait(full.index(done % STAGES), done // STAGES & 1)
        s = mma(k, qs.index(done % STAGES).permute((1, 0)), none, use_acc=False, is_async=True)
        s = mma_wait(0, deps=[s])
        for i in range(done, done + steps - 1):
            diagonal = i - done < BLOCK_N // BLOCK_M
            s, dk, dv = step(
                s, dk, dv, i, first + (i - done) * BLOCK_M, key_rows, cols, diagonal, scale, k, v, ks, ring, exchange,
                dq_desc, dq_place, GROUP, CAUSAL, True,
            )  # fmt: skip
        i = done + steps - 1
        s, dk, dv = step(
            s, dk, dv, i, first + (steps - 1) * BLOCK_M, key_rows, cols, steps - 1 < BLOCK_N // BLOCK_M, scale, k, v,
            ks, ring, exchange, dq_desc, dq_place, GROUP, CAUSAL, False,
        )  # fmt: skip
        done += steps
        v.store(dv.to(v.dtype))
        mbarrier.wait(exchange[2].index(i % DS_STAGES), i // DS_STAGES & 1)  # both are done with k
        k.store((dk * softmax_scale).to(k.dtype))
        fence_async_shared()
        tma.async_copy_shared_to_global(dv_desc, [keys + GROUP * GROUP_N, 0], v)
        tma.async_copy_shared_to_global(dk_desc, [keys + GROUP * GROUP_N, 0], k)
        tma.store_wait(0)
        mbarrier.arrive(kv_empty)


@jit
def backward(
    q_desc, k_desc, v_desc, do_desc, stats_desc, dq_desc, dk_desc, dv_desc, scale, N, heads, CAUSAL: gl.constexpr
):
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[0]
    DS_ROW: gl.constexpr = gl.NVMMASharedLayout.get_default_for([GROUP_N, BLOCK_M], q_desc.dtype)
    ks = gl.allocate_shared_memory(k_desc.dtype, [2] + k_desc.block_type.shape, k_desc.layout)
    vs = gl.allocate_shared_memory(v_desc.dtype, [2] + v_desc.block_type.shape, v_desc.layout)
    qs = gl.allocate_shared_memory(q_desc.dtype, [STAGES] + q_desc.block_type.shape, q_desc.layout)
    dos = gl.allocate_shared_memory(do_desc.dtype, [STAGES] + do_desc.block_type.shape, do_desc.layout)
    stats = gl.allocate_shared_memory(gl.float32, [STAGES] + stats_desc.block_type.shape, stats_desc.layout)
    ds_tiles = gl.allocate_shared_memory(q_desc.dtype, [2 * DS_STAGES, GROUP_N, BLOCK_M], DS_ROW)
    dq_places = gl.allocate_shared_memory(gl.float32, [2] + dq_desc.block_type.shape, dq_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    ds_full = gl.allocate_shared_memory(gl.int64, [DS_STAGES, 1], mbarrier.MBarrierLayout())
    ds_empty = gl.allocate_shared_memory(gl.int64, [DS_STAGES, 1], mbarrier.MBarrierLayout())
    kv_full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    kv_empty = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    for i in gl.static_range(DS_STAGES):
        mbarrier.init(ds_full.index(i), count=2)
        mbarrier.init(ds_empty.index(i), count=2)
    mbarrier.init(kv_full, count=1)
    mbarrier.init(kv_empty, count=2)
    kv, ring, exchange = (ks, vs, kv_full, kv_empty), (qs, dos, stats, full, empty), (ds_tiles, ds_full, ds_empty)
    gl.warp_specialize(
        [
            (consume, (dq_desc, dk_desc, dv_desc, kv, ring, exchange, dq_places, scale, N, heads, 0, CAUSAL)),
            (consume, (dq_desc, dk_desc, dv_desc, kv, ring, exchange, dq_places, scale, N, heads, 1, CAUSAL)),
            (produce, (q_desc, k_desc, v_desc, do_desc, stats_desc, kv, ring, N, heads, CAUSAL)),
        ],
        [4, 1],
        [REGISTERS, 24],
    )


@triton.jit
def prepare(o_ptr, do_ptr, lse_ptr, stats_ptr, dq_ptr, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """For each tile of queries lse in units of log2, and delta = rowsum(o * do); and dq begins as zeros."""
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
    return 128 if D == 64 else 64


def descriptors(q, k, v, do, stats, dq_sum, dk, dv) -> list:
    D, m, n = q.shape[-1], block_m(q.shape[-1]), GROUP_N.value
    half = lambda rows: gl.NVMMASharedLayout.get_default_for([rows, D], gl.float16)  # noqa: E731
    tensors = [(q, m), (k, n), (v, n), (do, m), (dk, n), (dv, n)]
    q_, k_, v_, do_, dk_, dv_ = (TensorDescriptor.from_tensor(x.view(-1, D), [rows, D], half(rows)) for x, rows in tensors)
    plain = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=2)
    stats_ = TensorDescriptor.from_tensor(stats, [2, m], plain)
    dq_ = TensorDescriptor.from_tensor(dq_sum.view(-1, 256), [16, 256], plain)
    return [q_, k_, v_, do_, stats_, dq_, dk_, dv_]


def launch(q, k, v, o, lse, do, causal: bool):
    """(dq, dk, dv) of contiguous (B, H, N, D), N a multiple of 128, D 64 or 128."""
    B, H, N, D = q.shape
    rows, m = B * H * N, block_m(D)
    stats = torch.empty(rows // m * 2, m, device=q.device)
    dq_sum = torch.empty(rows, D, device=q.device)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    prepare[(rows // m,)](o, do, lse, stats, dq_sum, D=D, BLOCK_M=m, num_warps=8)
    sms = torch.cuda.get_device_properties(q.device).multi_processor_count
    programs = min(sms, rows // BLOCK_N.value)
    backward[(programs,)](*descriptors(q, k, v, do, stats, dq_sum, dk, dv), D**-0.5, N, B * H, CAUSAL=causal, num_warps=4)
    finish[(rows * D // 4096,)](dq_sum, dq, D**-0.5, D=D)
    return dq, dk, dv
