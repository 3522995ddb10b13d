"""A persistent product of matrices in Gluon: a warp fetches by TMA, two warpgroups multiply, and the last tile may be shared.

A text for tests, never imported: mistakes.py replaces parts of it. It is a copy of research/matmul_persistent.py
that stays as it is when that one is tuned.
"""

from __future__ import annotations

from functools import cache

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
    all_here = getattr(gl, "thread_barrier", None) or gl.barrier  # its name in Triton 3.6 and since 3.7
except ImportError:  # an older Triton: this can be read, not run

    def jit(fn):
        return fn


BLOCK_M, BLOCK_N = tl.constexpr(128), tl.constexpr(256)
K_BYTES = tl.constexpr(128)  # of a tile of a or b along K: 64 numbers of 16 bits, or 128 of 8
ROWS = tl.constexpr(64)  # of a tile, which one warpgroup multiplies
HALF = tl.constexpr(128)  # columns of a tile, stored at once
STAGES = tl.constexpr(4)  # tiles of a and b in a ring: they take 192 KiB of an SM's 227, what is stored 32
FEWEST = 32  # steps of a tile that two programs share: to hand its sums over takes as long as 6
GROUP = tl.constexpr(12)  # rows of tiles that are walked together
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
def works(M, N, sums):
    """(this program's first work, the end, the step between two): works are tiles, and a helper's first one lies before tile 0. So
    its half's sums are there long before the other half begins, and nobody waits for a program that waits."""
    shared, p, programs = sums[2], gl.program_id(0), gl.num_programs(0)
    if shared is not None:
        p = gl.where((p >= shared) & (p < 2 * shared), p - programs, p)
    return p, gl.cdiv(M, BLOCK_M) * gl.cdiv(N, BLOCK_N), programs


@jit
def part(at, tiles, K, BLOCK_K: gl.constexpr, sums):
    """(tile, where its K begins, where it ends) of a work."""
    tile, first, end, shared = at, 0, K, sums[2]
    if shared is not None:
        half = gl.cdiv(K, BLOCK_K) // 2 * BLOCK_K
        tile = gl.where(at < 0, at + gl.num_programs(0) + tiles - 2 * shared, at)
        first = gl.where(at < 0, half, 0)
        end = gl.where((at >= 0) & (at >= tiles - shared), half, K)
    return tile, first, end


@jit
def slot(i):
    """(place in the ring, parity of the rounds before it) of the i-th step. STAGES is a power of two: `%` takes more instructions."""
    return i & (STAGES - 1), (i & STAGES) // STAGES


@jit
def produce(a_desc, b_desc, sums, ring, M, N, K, BLOCK_K: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr):
    as_, bs, full, empty, _ = ring
    done, back = 0, 0
    begin, tiles, programs = works(M, N, sums)
    row, col = tile_at(part(begin, tiles, K, BLOCK_K, sums)[0], M, N)
    for at in range(begin, tiles, programs):
        _tile, first, end = part(at, tiles, K, BLOCK_K, sums)
        steps = gl.cdiv(end - first, BLOCK_K)
        k = first + back * (steps - 1) * BLOCK_K
        k_step = BLOCK_K - 2 * back * BLOCK_K
        next_row, next_col = row, col
        for i in range(steps):
            s, parity = slot(done)
            mbarrier.wait(empty.index(s), parity ^ 1)
            mbarrier.expect(full.index(s), 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            for g in gl.static_range(2):
                rows = row + g * ROWS
                a_at = [k, rows] if A_T else [rows, k]
                tma.async_copy_global_to_shared(a_desc, a_at, full.index(s), as_.index(2 * s + g))
            tma.async_copy_global_to_shared(b_desc, [col, k] if B_T else [k, col], full.index(s), bs.index(s))
            done += 1
            k += k_step
            if i == 0:  # and not between two tiles, where divisions would hold a fetch up
                next_row, next_col = tile_at(part(at + programs, tiles, K, BLOCK_K, sums)[0], M, N)
        row, col, back = next_row, next_col, 1 - back


@jit
def multiply(ring, i, acc, more, WARPGROUP: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr):
    """Issue the i-th product of tiles, as soon as they are there. A barrier's phase is the parity of how often it opened."""
    as_, bs, full, _, _ = ring
    s, parity = slot(i)
    a, b = as_.index(2 * s + WARPGROUP), bs.index(s)
    if A_T:
        a = a.permute((1, 0))
    if B_T:
        b = b.permute((1, 0))
    mbarrier.wait(full.index(s), parity)
    return mma(a, b, acc, use_acc=more, is_async=True)


@jit
def consume(
    c_desc, sums, places, ring, scales, M, N, K,
    BLOCK_K: gl.constexpr, WARPGROUP: gl.constexpr, A_T: gl.constexpr, B_T: gl.constexpr, SCALED: gl.constexpr,
):  # fmt: skip
    """The first or the second 64 rows of each tile, which has three steps at least. `done` counts the steps before, as in produce."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_N, BLOCK_K // 4])
    empty, begun, place = ring[3], ring[4], places.index(WARPGROUP)
    done = 0
    none = gl.zeros((ROWS, BLOCK_N), gl.float32, LAYOUT)
    left, right = none.to(c_desc.dtype).reshape((ROWS, 2, HALF)).permute((0, 2, 1)).split()
    row, col = M, 0  # where they belong, beyond the matrix for now: TMA stores nothing there
    begin, tiles, programs = works(M, N, sums)
    if WARPGROUP == 1:
        mbarrier.wait(begun, 0, pred=gl.cdiv(K, BLOCK_K) > 1)
    for at in range(begin, tiles, programs):
        tile, first, end = part(at, tiles, K, BLOCK_K, sums)
        steps = gl.cdiv(end - first, BLOCK_K)
        if sums[2] is None:
            acc = multiply(ring, done, none, False, WARPGROUP, A_T, B_T)
        else:
            acc = none
            if end < K:
                acc = handed_over(acc, sums, tile, WARPGROUP)
            acc = multiply(ring, done, acc, end < K, WARPGROUP, A_T, B_T)
        acc = mma_wait(1, deps=[acc])  # none: one may be under way
        for i in range(done + 1, done + steps):
            acc = multiply(ring, i, acc, True, WARPGROUP, A_T, B_T)
            acc = mma_wait(1, deps=[acc])  # all but the last one are done
            mbarrier.arrive(empty.index(slot(i - 1)[0]))
            if i == done + 1:  # what is left of the tile before, beneath this one's products
                store(c_desc, place, row, col, left)
            if i == done + 2:
                store(c_desc, place, row, col + HALF, right)
                row, col = tile_at(tile, M, N)
                row += WARPGROUP * ROWS
            if WARPGROUP == 0:
                mbarrier.arrive(begun, pred=i == 1)
        acc = mma_wait(0, deps=[acc])
        done += steps
        mbarrier.arrive(empty.index(slot(done - 1)[0]))
        left, right = acc.reshape((ROWS, 2, HALF)).permute((0, 2, 1)).split()
        left = scaled(left, scales, row, col, M, N, SCALED).to(c_desc.dtype)
        right = scaled(right, scales, row, col + HALF, M, N, SCALED).to(c_desc.dtype)
        if sums[2] is not None:
            helps = at < 0
            if helps:
                hand_over(acc, sums, tile, WARPGROUP)
                row = M  # nothing is left
    store(c_desc, place, row, col, left)
    store(c_desc, place, row, col + HALF, right)
    tma.store_wait(0)


@jit
def sums_at(like, sums, tile, WARPGROUP: gl.constexpr):
    """(where the sums of half a tile are, what says that they are there), for the rows of one warpgroup."""
    place = tile % gl.num_programs(0) * 2 + WARPGROUP
    rows = gl.arange(0, ROWS, gl.SliceLayout(1, like.type.layout))
    cols = gl.arange(0, BLOCK_N, gl.SliceLayout(0, like.type.layout))
    return sums[0] + place * (ROWS * BLOCK_N) + rows[:, None] * BLOCK_N + cols[None, :], sums[1] + place


@jit
def hand_over(acc, sums, tile, WARPGROUP: gl.constexpr):
    """Leave the sums of the second half of a tile's K to the program that has the first."""
    here, there = sums_at(acc, sums, tile, WARPGROUP)
    gl.store(here, acc)
    all_here()
    gl.atomic_xchg(there, 1, sem="release")


@jit
def handed_over(like, sums, tile, WARPGROUP: gl.constexpr):
    """The sums that another program hands over, in the layout of `like`, once they are there."""
    here, there = sums_at(like, sums, tile, WARPGROUP)
    while gl.atomic_add(there, 0, sem="acquire") == 0:
        pass
    acc = gl.load(here)
    all_here()
    gl.atomic_xchg(there, 0, sem="relaxed")  # for the next launch
    return acc


@jit
def scaled(x, scales, row, col, M, N, SCALED: gl.constexpr):
    """x, each row and each column times its scale."""
    if SCALED:
        rows = row + gl.arange(0, ROWS, gl.SliceLayout(1, x.type.layout))
        cols = col + gl.arange(0, HALF, gl.SliceLayout(0, x.type.layout))
        x *= gl.load(scales[0] + rows, rows < M)[:, None] * gl.load(scales[1] + cols, cols < N)[None, :]
    return x


@jit
def store(c_desc, place, row, col, values):
    tma.store_wait(0)  # what was there has left
    place.store(values)
    fence_async_shared()
    tma.async_copy_shared_to_global(c_desc, [row, col], place)


@jit
def persistent(
    a_desc, b_desc, c_desc, sums, there, shared, a_scales, b_scales, M, N, K,
    A_T: gl.constexpr, B_T: gl.constexpr, SCALED: gl.constexpr,
):  # fmt: skip
    BLOCK_K: gl.constexpr = a_desc.block_type.shape[0 if A_T else 1]
    as_ = gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES] + a_desc.block_type.shape, a_desc.layout)
    bs = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)
    places = gl.allocate_shared_memory(c_desc.dtype, [2] + c_desc.block_type.shape, c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=2)
    begun = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(begun, count=1)
    ring, scales, sums = (as_, bs, full, empty, begun), (a_scales, b_scales), (sums, there, shared)
    gl.warp_specialize(
        [
            (consume, (c_desc, sums, places, ring, scales, M, N, K, BLOCK_K, 0, A_T, B_T, SCALED)),
            (consume, (c_desc, sums, places, ring, scales, M, N, K, BLOCK_K, 1, A_T, B_T, SCALED)),
            (produce, (a_desc, b_desc, sums, ring, M, N, K, BLOCK_K, A_T, B_T)),
        ],
        [4, 1],  # warps of the second consumer and of the producer; the first consumer is num_warps
        [REGISTERS, 24],
    )


@triton.jit
def copy_rows(x_ptr, y_ptr, rows, cols, wide, x_row, y_row, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Copy (rows, cols) to rows of `wide` numbers. One side may be aligned, the other is not: each has lanes side by side, the
    aligned one with 16 bytes each, since Triton sees that its rows and `wide` are multiples of 16."""
    offs_m = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    offs_n = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    x = tl.load(x_ptr + offs_m * x_row + offs_n, (offs_m < rows) & (offs_n < cols))
    tl.store(y_ptr + offs_m * y_row + offs_n, x, (offs_m < rows) & (offs_n < wide))


def copied(x: torch.Tensor, y: torch.Tensor, wide: int) -> torch.Tensor:
    """Copy the rows of x to those of y, `wide` numbers in each. Returns y."""
    grid = (triton.cdiv(x.shape[0], 2), triton.cdiv(wide, 1024))
    copy_rows[grid](x, y, *x.shape, wide, x.stride(0), y.stride(0), ROWS=2, COLS=1024, num_warps=4)
    return y


def aligned(x: torch.Tensor) -> bool:
    """Return whether TMA can fetch it: rows without gaps, apart from one another, that begin at multiples of 16 bytes."""
    apart = x.stride(0) >= x.shape[1] and x.stride(0) * x.element_size() % 16 == 0
    return x.stride(1) == 1 and apart and x.data_ptr() % 16 == 0


def room(rows: int, cols: int, like: torch.Tensor) -> torch.Tensor:
    """Return an empty matrix whose rows begin at multiples of 64 numbers: at a line of 128 bytes, if they have 16 bits."""
    return torch.empty(rows, triton.cdiv(cols, 64) * 64, dtype=like.dtype, device=like.device)[:, :cols]


def aligned_copy(x: torch.Tensor) -> torch.Tensor:
    """Return a copy of a matrix that TMA can fetch."""
    y = room(*x.shape, like=x)
    return copied(x, y, y.stride(0)) if x.is_cuda and x.stride(1) == 1 else y.copy_(x)


def as_it_lies(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return a matrix that TMA can fetch, and whether it is x transposed. It is x itself, or else a copy of it."""
    if aligned(x):
        return x, False
    if aligned(x.T):
        return x.T, True
    return (aligned_copy(x.T), True) if x.stride(0) == 1 else (aligned_copy(x), False)


def descriptors(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, a_t: bool, b_t: bool) -> list[TensorDescriptor]:
    """Return what TMA needs to know of each, and of its tiles. bfloat16 is as wide as float16."""
    m, n, k = ROWS.value, BLOCK_N.value, K_BYTES.value // a.element_size()
    blocks = ([k, m] if a_t else [m, k], [n, k] if b_t else [k, n], [m, HALF.value])
    types = [gl.float16 if x.element_size() == 2 else gl.float8e4nv for x in (a, b, c)]
    layouts = [gl.NVMMASharedLayout.get_default_for(*each) for each in zip(blocks, types, strict=True)]
    return [TensorDescriptor.from_tensor(*each) for each in zip((a, b, c), blocks, layouts, strict=True)]


@cache
def workspace(device: torch.device, stream: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return room for the sums of half a tile for every other SM, and whether they are there: 0, as a launch leaves it for its
    stream's next one."""
    pieces = torch.cuda.get_device_properties(device).multi_processor_count // 2
    sums = torch.empty(pieces, BLOCK_M.value, BLOCK_N.value, device=device)
    return sums, torch.zeros(2 * pieces, dtype=torch.int32, device=device)


def launch(
    a, b, c, a_t: bool, b_t: bool, a_scales: torch.Tensor | None = None, b_scales: torch.Tensor | None = None
) -> None:
    """Fill c with a @ b, both as `as_it_lies` gives them."""
    (M, N), K = c.shape, a.shape[0 if a_t else 1]
    tiles = triton.cdiv(M, BLOCK_M.value) * triton.cdiv(N, BLOCK_N.value)
    programs = min(torch.cuda.get_device_properties(a.device).multi_processor_count, tiles)
    left, sums = tiles % programs, (None, None, None)
    shared = left if 2 * left <= programs and FEWEST * K_BYTES.value // a.element_size() <= K else 0
    if shared:
        sums = (*workspace(a.device, torch.cuda.current_stream(a.device).cuda_stream), shared)
    K = max(K, 2 * K_BYTES.value // a.element_size() + 1)  # three steps at least: beyond a matrix TMA fetches zeros
    values = (*descriptors(a, b, c, a_t, b_t), *sums, a_scales, b_scales, M, N, K)
    persistent[(programs,)](*values, A_T=a_t, B_T=b_t, SCALED=a_scales is not None, num_warps=4)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return (M, K) @ (K, N), contiguous, of two matrices of 16-bit numbers with any strides."""
    M, N = a.shape[0], b.shape[1]
    (a, a_t), (b, b_t), c = as_it_lies(a), as_it_lies(b), room(M, N, like=a)
    launch(a, b, c, a_t, b_t)
    return c if c.is_contiguous() else copied(c, c.new_empty(M, N), N)


def scaled_product(a: torch.Tensor, b: torch.Tensor, a_scales: torch.Tensor, b_scales: torch.Tensor) -> torch.Tensor:
    """Return (M, K) @ (K, N) in bfloat16 of float8_e4m3fn numbers, each row of a and each column of b times its scale in float32.

    Rows of a and columns of b must be such that TMA can fetch them, as torch._scaled_mm wants it, too. The tensor cores add numbers
    of 8 bits with about 14 bits, as with `use_fast_accum=True` there.
    """
    c = torch.empty(a.shape[0], b.shape[1], dtype=torch.bfloat16, device=a.device)
    launch(a, b.T, c, False, True, a_scales, b_scales)
    return c
