"""A product at cuBLAS's speed, in Gluon: three steps beyond unit 05's kernel.

1  persistent         a program for each SM, which takes tile after tile: what fetches is ahead, into the next tile already
2  specialised warps  one warp fetches by TMA into a ring of tiles in shared memory; two warpgroups multiply, 64 x 256 each, and
                      neither waits for the other: while one stores, the other one's products run
3  stores by TMA      results leave through shared memory, while the next tile's products begin

Either operand may be transposed: TMA fetches the tile as it lies, and the tensor cores read it either way. TMA wants rows that begin
at multiples of 16 bytes: a matrix whose rows do not is copied into one whose rows do, which costs as much as reading it twice, and
saves most of the time of a product of such rows. It needs Hopper (sm_90); importing this needs neither GPU nor Gluon.
"""

from __future__ import annotations

import torch
import triton
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


BLOCK_M, BLOCK_N, BLOCK_K = tl.constexpr(128), tl.constexpr(256), tl.constexpr(64)
ROWS = tl.constexpr(64)  # of a tile, which one warpgroup multiplies
HALF = tl.constexpr(128)  # columns of a tile, stored at once
STAGES = tl.constexpr(4)  # tiles of a and b in a ring: they take 192 KiB of an SM's 227, what is stored 32
GROUP = tl.constexpr(8)  # rows of tiles that are walked together
REGISTERS = tl.constexpr(232)  # of a consumer's thread: the sums take 128; the producer gives up its own


@jit
def tile_at(at, M, N):
    """(first row, first column) of a tile, in unit 05's grouped order."""
    cols = gl.cdiv(N, BLOCK_N)
    first = at // (GROUP * cols) * GROUP
    height = gl.minimum(gl.cdiv(M, BLOCK_M) - first, GROUP)
    inside = at % (GROUP * cols)
    return (first + inside % height) * BLOCK_M, inside // height * BLOCK_N


@jit
def produce(a_desc, b_desc, ring, M, N, K, A_T: gl.constexpr, B_T: gl.constexpr):
    as_, bs, full, empty = ring
    done = 0
    for at in range(gl.program_id(0), gl.cdiv(M, BLOCK_M) * gl.cdiv(N, BLOCK_N), gl.num_programs(0)):
        row, col = tile_at(at, M, N)
        for k in range(0, K, BLOCK_K):
            s = done % STAGES
            mbarrier.wait(empty.index(s), (done // STAGES + 1) & 1)
            mbarrier.expect(full.index(s), 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            for g in gl.static_range(2):
                rows = row + g * ROWS
                a_at = [k, rows] if A_T else [rows, k]
                tma.async_copy_global_to_shared(a_desc, a_at, full.index(s), as_.index(2 * s + g))
            tma.async_copy_global_to_shared(b_desc, [col, k] if B_T else [k, col], full.index(s), bs.index(s))
            done += 1


@jit
def multiply(ring, i, acc, WARPGROUP: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr):
    """Issue the i-th product of tiles, as soon as they are there. A barrier's phase is the parity of how often it opened."""
    as_, bs, full, _ = ring
    a, b = as_.index(i % STAGES * 2 + WARPGROUP), bs.index(i % STAGES)
    if A_T:
        a = a.permute((1, 0))
    if B_T:
        b = b.permute((1, 0))
    mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)
    return mma(a, b, acc, is_async=True)


@jit
def consume(c_desc, places, ring, M, N, K, WARPGROUP: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr):
    """The first or the second 64 rows of each tile. `done` counts the products that went before, as in produce."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, 16])
    empty, place = ring[3], places.index(WARPGROUP)
    steps, done = gl.cdiv(K, BLOCK_K), 0
    for at in range(gl.program_id(0), gl.cdiv(M, BLOCK_M) * gl.cdiv(N, BLOCK_N), gl.num_programs(0)):
        row, col = tile_at(at, M, N)
        acc = multiply(ring, done, gl.zeros((ROWS, BLOCK_N), gl.float32, LAYOUT), WARPGROUP, A_T, B_T)
        acc = mma_wait(1, deps=[acc])  # none: one may be under way
        for i in range(done + 1, done + steps):
            acc = multiply(ring, i, acc, WARPGROUP, A_T, B_T)
            acc = mma_wait(1, deps=[acc])  # all but the last one are done
            mbarrier.arrive(empty.index((i - 1) % STAGES))
        acc = mma_wait(0, deps=[acc])
        done += steps
        mbarrier.arrive(empty.index((done - 1) % STAGES))
        left, right = acc.to(c_desc.dtype).reshape((ROWS, 2, HALF)).permute((0, 2, 1)).split()
        row += WARPGROUP * ROWS
        store(c_desc, place, row, col, left)
        store(c_desc, place, row, col + HALF, right)
    tma.store_wait(0)


@jit
def store(c_desc, place, row, col, values):
    tma.store_wait(0)  # what was there has left
    place.store(values)
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [row, col], place)


@jit
def persistent(a_desc, b_desc, c_desc, M, N, K, A_T: gl.constexpr, B_T: gl.constexpr):
    as_ = gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES] + a_desc.block_type.shape, a_desc.layout)
    bs = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)
    places = gl.allocate_shared_memory(c_desc.dtype, [2] + c_desc.block_type.shape, c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    ring = (as_, bs, full, empty)
    gl.warp_specialize(
        [
            (consume, (c_desc, places, ring, M, N, K, 0, A_T, B_T)),
            (consume, (c_desc, places, ring, M, N, K, 1, A_T, B_T)),
            (produce, (a_desc, b_desc, ring, M, N, K, A_T, B_T)),
        ],
        [4, 1],  # warps of the second consumer and of the producer; the first consumer is num_warps
        [REGISTERS, 24],
    )


def aligned(x: torch.Tensor) -> bool:
    """Return whether TMA can fetch it: rows without gaps, apart from one another, that begin at multiples of 16 bytes."""
    apart = x.stride(0) >= x.shape[1] and x.stride(0) * x.element_size() % 16 == 0
    return x.stride(1) == 1 and apart and x.data_ptr() % 16 == 0


def room(rows: int, cols: int, like: torch.Tensor) -> torch.Tensor:
    """Return an empty matrix whose rows begin at multiples of 16 bytes."""
    each = 16 // like.element_size()
    return torch.empty(rows, triton.cdiv(cols, each) * each, dtype=like.dtype, device=like.device)[:, :cols]


def as_it_lies(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return a matrix that TMA can fetch, and whether it is x transposed. It is x itself, or else a copy of it."""
    if aligned(x):
        return x, False
    if aligned(x.T):
        return x.T, True
    return room(*x.shape, like=x).copy_(x), False


def descriptors(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, a_t: bool, b_t: bool) -> list[TensorDescriptor]:
    """Return what TMA needs to know of each, and of its tiles. bfloat16 is as wide as float16."""
    m, n, k = ROWS.value, BLOCK_N.value, BLOCK_K.value
    blocks = ([k, m] if a_t else [m, k], [n, k] if b_t else [k, n], [m, HALF.value])
    layouts = [gl.NVMMASharedLayout.get_default_for(block, gl.float16) for block in blocks]
    return [TensorDescriptor.from_tensor(*each) for each in zip((a, b, c), blocks, layouts, strict=True)]


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return (M, K) @ (K, N), contiguous, of two matrices of 16-bit numbers with any strides."""
    (M, K), N = a.shape, b.shape[1]
    (a, a_t), (b, b_t), c = as_it_lies(a), as_it_lies(b), room(M, N, like=a)
    tiles = triton.cdiv(M, BLOCK_M.value) * triton.cdiv(N, BLOCK_N.value)
    programs = min(torch.cuda.get_device_properties(a.device).multi_processor_count, tiles)
    persistent[(programs,)](*descriptors(a, b, c, a_t, b_t), M, N, K, A_T=a_t, B_T=b_t, num_warps=4)
    return c.contiguous()
