"""FlashAttention's backward pass with products and exponentials at the same time, in Gluon: one step beyond unit 10's kernels.

Unit 10 makes dK, dV in one walk and dQ in another, seven products in all. Here are five, as in Dao, *FlashAttention-2*, 2023,
algorithm 2: a program owns 128 keys and walks over the queries, 64 (D 128) or 128 (D 64) in a step,

    produce     one warp: TMA fetches k and v once; q, do and their lse and delta step after step, into a ring in shared memory
    consume     twice, a warpgroup (four warps, which issue a product together) for 64 of the keys; dk and dv stay in registers
    add         one warp: TMA adds the dQ that consumers leave to a sum in float32

Other programs add to the same rows in any order: **dq differs in its last bits from run to run**. dk and dv do not, and unit 10's
gradients do not either. With `deterministic=True` dq does not differ: each tile of queries has a lock, and programs add in a fixed
order. It needs Hopper (sm_90); importing this needs neither GPU nor Gluon.

What it took. Each step was measured on an H100 in one run with cuDNN; a number is the share of cuDNN's speed, 4096 tokens:

                          D 128: full, causal   D 64: full, causal
1  five products                  0.86   0.74          0.81   0.72   two consumers, which wait for one another's dS in each step
2  registers' order               0.92   0.69          0.86   0.64   dQ leaves as registers hold it: 16 bytes per thread, no bank
                                                                     conflict, and TMA adds whole kilobytes instead of rows
3  a program for each tile        0.98   0.99          0.94   1.04   the GPU hands them out, head by head, longest walks first:
                                                                     L2 holds what is read and added. Addresses are computed in
                                                                     the loop (`same`), so that no register is spilled
4  taking turns                   1.03   1.04          1.06   1.10   dQ is made a step later; so one consumer may be half a step
                                                                     behind the other, and is made to: its exponentials run while
                                                                     the tensor cores do the other one's products
5  P stays in float32             1.00   1.09          1.18   1.23   dS needs it: fewer instructions, and fewer roundings
6  a warp that adds               1.09   1.13          1.18   1.24   consumers no longer wait until TMA has read the dQ before
7  walks that go round, and no barrier that another one implies      (with 6)

Steps 6 and 7 were found with Nsight Compute, D 128, 16,384 tokens, full. The tensor cores were busy in 59 % of all cycles before step
4, in 68 % before step 6, and in 75 % after step 7 (causal: 73 and 75 %). For each instruction issued, warps stood at barriers for 5.6
cycles before and for 3.7 after: each step waited until the dQ of the step before had left, and a consumer's four warps for the one that
waits. Stores to shared memory met 14 million bank conflicts with what TMA read, and 0.6 million since. Full walks suffered most, at 0.95
of cuDNN and 0.83 of FlashAttention-4; they reach 1.11 and 0.95 now. The warp alone brought 13 % there, going round 2 % (all programs of
a head add to the same rows at the same time without it), and both 16 %.

What did not help, D 128, 16,384 tokens, full, of cuDNN (1.11 with what stands here): dQ added from registers, red.global.add.v4.f32
(0.97); a third tile in the ring (1.04); a second place for each dQ on its way out (0.95: one place makes the consumers take turns, with
two they drift into step); the order of FlashAttention-4, S and dP at once and dQ in the same step (1.11); S of the next step before dS of
this one (ptxas then waits after each product).

A barrier that nobody uses is a trap. Consumers do not take turns at D 128, full, and Triton gave the memory of the two barriers for turns
to the outbox, as it may once a value is not used any more. PTX wants `mbarrier.inval` first, and means it: when the GPU changed to another
process and back, both barriers stood where the first 16 bytes of a dQ had been. Alone on the GPU the kernel was right; with eight
processes at a time each of 582 runs was wrong, and none of 1,621 since there are no such barriers. (Nor with them, once invalidated: none
of 759.) tests/research/test_backward_in_any_order.py looks where barriers lie.

A fixed order costs 9 to 17 % at D 128 and 1 to 7 % at D 64 (benchmarks/results/attention_backward_h100.md). Walks are laid out so that
the order is the one in which programs come to a tile by themselves: `rank`. Where causal walks began with the longest, as they do without
it, each tile's order was a chain of waits, and the pass took almost twice as long.
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
def place(N, together, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr, DETERMINISTIC: gl.constexpr):
    """(first key, first query, steps, step of the walk to begin with, spacing) of a program: head by head.

    Causal walks begin on the diagonal, the longest first. Full ones begin `spacing` steps apart and go round, so that those that
    run together never add to the same rows at once. `rank` needs the shortest first.
    """
    n = N // BLOCK_N
    head, j = gl.program_id(0) // n, gl.program_id(0) % n
    if CAUSAL:
        if DETERMINISTIC:
            j = n - 1 - j
        keys = head * N + j * BLOCK_N  # all heads' rows lie below one another
        return keys, keys, (n - j) * (BLOCK_N // BLOCK_M), 0, BLOCK_N // BLOCK_M
    else:
        steps = N // BLOCK_M
        spacing = steps // together
        return head * N + j * BLOCK_N, head * N, steps, j % together * spacing, spacing


@jit
def tile_of(i, first, steps, start, BLOCK_M: gl.constexpr):
    """Return which tile of all queries the i-th step takes."""
    i += start
    return first // BLOCK_M + gl.where(i >= steps, i - steps, i)


@jit
def rank(i, keys, N, together, spacing, CAUSAL: gl.constexpr):
    """Return how many programs add to the rows of the i-th step before this one does: those that come there earlier by themselves.

    None waits for one that may not be running: all of the `together` before, and of its own those that are ahead.
    """
    if CAUSAL:
        return i // spacing
    else:
        return keys % N // BLOCK_N // together * together + i // spacing


@jit
def produce(
    q_desc, k_desc, v_desc, do_desc, stats_desc, kv, ring, N, together,
    CAUSAL: gl.constexpr, DETERMINISTIC: gl.constexpr,
):  # fmt: skip
    ks, vs, kv_full = kv
    qs, dos, stats, full, empty = ring
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[0]
    BYTES: gl.constexpr = q_desc.block_type.nbytes + do_desc.block_type.nbytes + stats_desc.block_type.nbytes
    keys, first, steps, start, _ = place(N, together, BLOCK_M, CAUSAL, DETERMINISTIC)
    mbarrier.expect(kv_full, 2 * (k_desc.block_type.nbytes + v_desc.block_type.nbytes))
    for g in gl.static_range(2):
        tma.async_copy_global_to_shared(k_desc, [keys + g * GROUP_N, 0], kv_full, ks.index(g))
        tma.async_copy_global_to_shared(v_desc, [keys + g * GROUP_N, 0], kv_full, vs.index(g))
    for i in range(steps):
        slot, tile = i % STAGES, tile_of(i, first, steps, start, BLOCK_M)
        mbarrier.wait(empty.index(slot), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(slot), BYTES)
        tma.async_copy_global_to_shared(q_desc, [tile * BLOCK_M, 0], full.index(slot), qs.index(slot))
        tma.async_copy_global_to_shared(stats_desc, [tile * 2, 0], full.index(slot), stats.index(slot))
        tma.async_copy_global_to_shared(do_desc, [tile * BLOCK_M, 0], full.index(slot), dos.index(slot))


@jit
def as_registers_hold(x):
    """(64, 64) in the order of a warpgroup's registers: four numbers of a thread lie side by side, then the next thread's."""
    # row: 4 warps, 2 halves, 8 lanes; column: 8 parts, 4 lanes, 2 numbers
    return x.reshape((4, 2, 8, 8, 4, 2)).permute((3, 0, 2, 4, 1, 5)).reshape((16, 256))


@jit
def issue_dq(i, ks, exchange, GROUP: gl.constexpr):
    """dQ = dS K of the i-th step, of all keys, as soon as both consumers have stored their dS: a half of it for each consumer."""
    ds, ds_full = exchange[
        :2
    ]  # tiles, open when both have stored; the rest: open when both have read k, whose turn it is
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
def display_result(dq, i, outbox, GROUP: gl.constexpr):
    """Leave the i-th step's dQ to `add`."""
    places, full, empty = outbox
    mbarrier.wait(empty.index(GROUP), (i + 1) & 1)
    places.index(GROUP).store(as_registers_hold(dq))
    fence_async_shared()
    mbarrier.arrive(full.index(GROUP))


@jit
def acquire(lock):
    """Read a lock, before what follows."""
    code: gl.constexpr = "ld.acquire.gpu.global.b32 $0, [$1];"
    return gl.inline_asm_elementwise(code, "=r,l", [lock.to(gl.int64)], dtype=gl.int32, is_pure=False, pack=1)


@jit
def release(lock):
    """Add 1 to a lock, by one thread, when all that this warp's TMA has added is there."""
    code: gl.constexpr = """{
        .reg .pred first; .reg .b32 lane;
        cp.async.bulk.wait_group 0;
        bar.warp.sync 0xffffffff;
        mov.u32 lane, %laneid;
        setp.eq.u32 first, lane, 0;
        @first red.release.gpu.global.add.s32 [$1], 1;
        mov.b32 $0, 0;
    }"""
    gl.inline_asm_elementwise(code, "=r,l", [lock.to(gl.int64)], dtype=gl.int32, is_pure=False, pack=1)


@jit
def add(dq_desc, outbox, locks, N, together, BLOCK_M: gl.constexpr, CAUSAL: gl.constexpr, DETERMINISTIC: gl.constexpr):
    """Add each step's dQ to the sum, by TMA, which no consumer waits for. A tile's lock counts the programs that have added."""
    places, full, empty = outbox
    keys, first, steps, start, spacing = place(N, together, BLOCK_M, CAUSAL, DETERMINISTIC)
    for i in range(steps):
        tile = tile_of(i, first, steps, start, BLOCK_M)
        if DETERMINISTIC:
            while acquire(locks + tile) != rank(i, keys, N, together, spacing, CAUSAL):
                pass
        for g in gl.static_range(2):
            mbarrier.wait(full.index(g), i & 1)
            tma_add(dq_desc, [tile * 32 + g * 16, 0], places.index(g))
            tma.store_wait(1)  # the other consumer's, which went before, has left its place
            mbarrier.arrive(empty.index(1 - g), pred=i + g > 0)
        if DETERMINISTIC:
            release(locks + tile)
    tma.store_wait(0)


@jit
def same(x, i):
    """x. The compiler does not know, so it computes addresses in the loop; else it would prepare them all, and spill them."""
    return x + (i >> 30)


@jit
def step(
    s, dk, dv, i, steps, scale, kv, ring, exchange, outbox,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, FIRST: gl.constexpr,
):  # fmt: skip
    """One tile of queries, whose s is there. dQ is that of the step before: no consumer waits for the other one's dS at once."""
    ks, vs, _ = kv
    qs, dos, stats, full, empty = ring
    ds, ds_full = exchange[:2]
    BLOCK_M: gl.constexpr = qs.shape[1]
    TURNS: gl.constexpr = len(exchange) == 4
    S_LAYOUT: gl.constexpr = s.type.layout
    P_LAYOUT: gl.constexpr = gl.DotOperandLayout(0, dk.type.layout, 2)
    none = gl.zeros((GROUP_N, BLOCK_M), gl.float32, S_LAYOUT)
    slot = i % STAGES
    q, do, stat = qs.index(slot), dos.index(slot), stats.index(slot)
    if CAUSAL:  # noqa: SIM102, since one of them is known to the compiler
        if i < BLOCK_N // BLOCK_M:  # on the diagonal: keys and queries are counted from the first key
            key = GROUP * GROUP_N + gl.arange(0, GROUP_N, gl.SliceLayout(1, S_LAYOUT))
            query = i * BLOCK_M + gl.arange(0, BLOCK_M, gl.SliceLayout(0, S_LAYOUT))
            s = gl.where(key[:, None] <= query[None, :], s, -float("inf"))
    if TURNS and GROUP == 1:  # half a step behind
        mbarrier.wait(exchange[3].index(slot), i // STAGES & 1)
    p = gl.exp2(s * scale - stat.slice(0, 1).load(S_LAYOUT))
    dv = mma(gl.convert_layout(p.to(q.dtype), P_LAYOUT), do, dv, is_async=True)
    if TURNS and GROUP == 0:
        mbarrier.arrive(exchange[3].index(slot))
    if not FIRST:
        dq = issue_dq(i - 1, ks, exchange, GROUP)
        dq, dv = mma_wait(0, deps=[dq, dv])
    dp = mma(vs.index(same(GROUP, i)), do.permute((1, 0)), none, use_acc=False, is_async=True)
    if not FIRST:
        display_result(dq, i - 1, outbox, GROUP)
    if FIRST:
        dp, dv = mma_wait(0, deps=[dp, dv])
    else:
        dp = mma_wait(0, deps=[dp])
    d = (p * (dp - stat.slice(1, 1).load(S_LAYOUT))).to(q.dtype)
    # What was there has been read: the other consumer stored its next dS, which this one has waited for, after that.
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
    dk_desc, dv_desc, kv, ring, exchange, outbox, softmax_scale, N, together,
    GROUP: gl.constexpr, CAUSAL: gl.constexpr, DETERMINISTIC: gl.constexpr,
):  # fmt: skip
    ks, vs, kv_full = kv
    qs, full = ring[0], ring[3]
    BLOCK_M: gl.constexpr = qs.shape[1]
    D: gl.constexpr = qs.shape[2]
    S_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_M, 16])
    DKV_LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    scale = softmax_scale * LOG2_E
    k, v = ks.index(GROUP), vs.index(GROUP)
    keys, _, steps, _, _ = place(N, together, BLOCK_M, CAUSAL, DETERMINISTIC)
    dk = gl.zeros((GROUP_N, D), gl.float32, DKV_LAYOUT)
    dv = gl.zeros((GROUP_N, D), gl.float32, DKV_LAYOUT)
    s = gl.zeros((GROUP_N, BLOCK_M), gl.float32, S_LAYOUT)
    mbarrier.wait(kv_full, 0)
    mbarrier.wait(full.index(0), 0)
    s = mma(k, qs.index(0).permute((1, 0)), s, use_acc=False)
    s, dk, dv = step(s, dk, dv, 0, steps, scale, kv, ring, exchange, outbox, GROUP, CAUSAL, True)
    for i in range(1, steps):
        s, dk, dv = step(s, dk, dv, i, steps, scale, kv, ring, exchange, outbox, GROUP, CAUSAL, False)
    dq = mma_wait(0, deps=[issue_dq(steps - 1, ks, exchange, GROUP)])
    mbarrier.arrive(exchange[2])
    display_result(dq, steps - 1, outbox, GROUP)
    v.store(dv.to(v.dtype))
    mbarrier.wait(exchange[2], 0)  # both are done with k
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
def backward(
    q_desc, k_desc, v_desc, do_desc, stats_desc, dq_desc, dk_desc, dv_desc, locks, scale, N, together,
    CAUSAL: gl.constexpr, DETERMINISTIC: gl.constexpr,
):  # fmt: skip
    BLOCK_M: gl.constexpr = q_desc.block_type.shape[0]
    DS_LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([GROUP_N, BLOCK_M], q_desc.dtype)
    ds = gl.allocate_shared_memory(q_desc.dtype, [2 * STAGES, GROUP_N, BLOCK_M], DS_LAYOUT)
    kv = (new_tiles(k_desc, 2), new_tiles(v_desc, 2), new_barriers(1, 1).index(0))
    ring = (
        new_tiles(q_desc, STAGES), new_tiles(do_desc, STAGES), new_tiles(stats_desc, STAGES),
        new_barriers(STAGES, 1), new_barriers(STAGES, 2),
    )  # fmt: skip
    D: gl.constexpr = q_desc.block_type.shape[1]
    exchange = (ds, new_barriers(STAGES, 2), new_barriers(1, 2).index(0))
    if (
        CAUSAL or D == 64
    ):  # turns; else they cost 2 %, since the outbox makes consumers take turns, too. None is left unused: see above
        exchange += (new_barriers(STAGES, 1),)
    outbox = (new_tiles(dq_desc, 2), new_barriers(2, 1), new_barriers(2, 1))
    gl.warp_specialize(
        [
            (consume, (dk_desc, dv_desc, kv, ring, exchange, outbox, scale, N, together, 0, CAUSAL, DETERMINISTIC)),
            (consume, (dk_desc, dv_desc, kv, ring, exchange, outbox, scale, N, together, 1, CAUSAL, DETERMINISTIC)),
            (produce, (q_desc, k_desc, v_desc, do_desc, stats_desc, kv, ring, N, together, CAUSAL, DETERMINISTIC)),
            (add, (dq_desc, outbox, locks, N, together, BLOCK_M, CAUSAL, DETERMINISTIC)),
        ],
        [4, 1, 1],  # warps of the second consumer, of produce and of add; the first consumer is num_warps
        [REGISTERS, 24, 24],
    )


@triton.jit
def prepare(o_ptr, do_ptr, lse_ptr, stats_ptr, dq_ptr, locks, D: tl.constexpr, BLOCK_M: tl.constexpr):
    """Prepare each tile of queries: lse in units of log2, delta = rowsum(o * do), zeros for dq, and an open lock."""
    tile = tl.program_id(0).to(tl.int64)
    rows = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    at = rows[:, None] * D + tl.arange(0, D)[None, :]
    delta = tl.sum(tl.load(o_ptr + at).to(tl.float32) * tl.load(do_ptr + at).to(tl.float32), axis=1)
    place = stats_ptr + tile * 2 * BLOCK_M + tl.arange(0, BLOCK_M)
    tl.store(place, tl.load(lse_ptr + rows) * LOG2_E)
    tl.store(place + BLOCK_M, delta)
    tl.store(dq_ptr + at, tl.zeros((BLOCK_M, D), tl.float32))
    tl.store(locks + tile, 0)


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


def at_once(programs: int, sms: int) -> int:
    """Return how many programs of a head may wait for one another: a divisor of all of them, since all of these must be running."""
    return max(n for n in range(1, min(programs, sms) + 1) if programs % n == 0)


def launch(q, k, v, o, lse, do, causal: bool, deterministic: bool = False):
    """(dq, dk, dv) of contiguous (B, H, N, D), N a multiple of 128, D 64 or 128."""
    B, H, N, D = q.shape
    rows, m = B * H * N, block_m(D)
    stats = torch.empty(rows // m * 2, m, device=q.device)
    dq_sum = torch.empty(rows, D, device=q.device)
    locks = torch.empty(rows // m, dtype=torch.int32, device=q.device)
    dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
    prepare[(rows // m,)](o, do, lse, stats, dq_sum, locks, D=D, BLOCK_M=m, num_warps=8)
    together = at_once(N // BLOCK_N.value, torch.cuda.get_device_properties(q.device).multi_processor_count)
    values = (*descriptors(q, k, v, do, stats, dq_sum, dk, dv), locks, D**-0.5, N, together)
    backward[(rows // BLOCK_N.value,)](*values, CAUSAL=causal, DETERMINISTIC=deterministic, num_warps=4)
    finish[(rows * D // 4096,)](dq_sum, dq, D**-0.5, D=D)
    return dq, dk, dv
