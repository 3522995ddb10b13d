"""Right kernels in Gluon, small enough to be run in many orders. Tests run them, and copies of them with a mistake.

copied         TMA in, TMA out: one warp fetches, four copy, through rings of shared memory
by_cp_async    a product fed by cp.async       by_tma  by TMA, one partition
specialised    by TMA, with a partition that fetches and two that multiply
turned         a tile turned round through shared memory, by the threads of one partition
relayed        three partitions that pass a block on
guarded        two partitions read what a third writes, over and over
"""

from tritontrace.hopper.language import (
    TensorDescriptor,
    barrier,
    commit_group,
    copy_async,
    fence_async_shared,
    gl,
    gluon,
    mbarrier,
    mma,
    mma_wait,
    new_barriers,
    store_wait,
    tma_load,
    tma_store,
    wait_group,
)

jit = gluon.jit
TILE, STAGES = gl.constexpr(64), gl.constexpr(2)
LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
SQUARE = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))
ACC = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))


def tiles_of(x, rows=64, cols=64):
    """Make what TMA needs to know of a matrix and its tiles."""
    dtype = {2: gl.float16, 4: gl.float32}[x.element_size()]
    return TensorDescriptor.from_tensor(x, [rows, cols], gl.NVMMASharedLayout.get_default_for([rows, cols], dtype))


# ------------------------------------------------------------------------------------------------- copied


@jit
def fetch_tiles(x_desc, tiles, full, empty, COUNT: gl.constexpr):
    for i in range(COUNT):
        mbarrier.wait(empty.index(i % STAGES), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(i % STAGES), x_desc.block_type.nbytes)
        tma_load(x_desc, [i * TILE, 0], full.index(i % STAGES), tiles.index(i % STAGES))


@jit
def double_tiles(y_desc, tiles, out, full, empty, COUNT: gl.constexpr):
    for i in range(COUNT):
        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)
        x = tiles.index(i % STAGES).load(SQUARE)
        mbarrier.arrive(empty.index(i % STAGES))
        store_wait(0)
        out.store(x + x)
        fence_async_shared()
        tma_store(y_desc, [i * TILE, 0], out)
    store_wait(0)


@jit
def copied(x_desc, y_desc, COUNT: gl.constexpr):
    tiles = gl.allocate_shared_memory(x_desc.dtype, [STAGES, TILE, TILE], x_desc.layout)
    out = gl.allocate_shared_memory(y_desc.dtype, [TILE, TILE], y_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 1)
    gl.warp_specialize(
        [(double_tiles, (y_desc, tiles, out, full, empty, COUNT)), (fetch_tiles, (x_desc, tiles, full, empty, COUNT))],
        [1],
        [24],
    )


# ------------------------------------------------------------------------------------------------- products


@jit
def start_copies(a_ptr, b_ptr, a_tiles, b_tiles, i, K, N, STEPS: gl.constexpr):
    """Begin to fetch the i-th tiles of both, if there are any. The group is made in any case, so that groups can be counted."""
    rows = gl.arange(0, TILE, gl.SliceLayout(1, SQUARE))
    cols = gl.arange(0, TILE, gl.SliceLayout(0, SQUARE))
    if i < STEPS:
        copy_async(a_tiles.index(i % 3), a_ptr + rows[:, None] * K + (i * TILE + cols)[None, :])
        copy_async(b_tiles.index(i % 3), b_ptr + (i * TILE + rows)[:, None] * N + cols[None, :])
    commit_group()


@jit
def by_cp_async(a_ptr, b_ptr, c_ptr, K, N, STEPS: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    a_tiles = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [3, TILE, TILE], LAYOUT)
    b_tiles = gl.allocate_shared_memory(b_ptr.dtype.element_ty, [3, TILE, TILE], LAYOUT)
    acc = gl.zeros((TILE, TILE), gl.float32, ACC)
    start_copies(a_ptr, b_ptr, a_tiles, b_tiles, 0, K, N, STEPS)
    start_copies(a_ptr, b_ptr, a_tiles, b_tiles, 1, K, N, STEPS)
    for i in range(STEPS):
        wait_group(1)
        fence_async_shared()
        barrier()
        acc = mma(a_tiles.index(i % 3), b_tiles.index(i % 3), acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
        start_copies(a_ptr, b_ptr, a_tiles, b_tiles, i + 2, K, N, STEPS)
    rows = gl.arange(0, TILE, gl.SliceLayout(1, ACC))
    cols = gl.arange(0, TILE, gl.SliceLayout(0, ACC))
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


@jit
def start_tma(a_desc, b_desc, a_tiles, b_tiles, full, i, STEPS: gl.constexpr):
    there = i < STEPS
    mbarrier.expect(full.index(i % 3), a_desc.block_type.nbytes + b_desc.block_type.nbytes, pred=there)
    tma_load(a_desc, [0, i * TILE], full.index(i % 3), a_tiles.index(i % 3), pred=there)
    tma_load(b_desc, [i * TILE, 0], full.index(i % 3), b_tiles.index(i % 3), pred=there)


@jit
def by_tma(a_desc, b_desc, c_ptr, N, STEPS: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [3, TILE, TILE], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [3, TILE, TILE], b_desc.layout)
    full = new_barriers(3, 1)
    acc = gl.zeros((TILE, TILE), gl.float32, ACC)
    start_tma(a_desc, b_desc, a_tiles, b_tiles, full, 0, STEPS)
    start_tma(a_desc, b_desc, a_tiles, b_tiles, full, 1, STEPS)
    for i in range(STEPS):
        mbarrier.wait(full.index(i % 3), i // 3 & 1)
        acc = mma(a_tiles.index(i % 3), b_tiles.index(i % 3), acc, is_async=True)
        acc = mma_wait(1, deps=[acc])
        start_tma(a_desc, b_desc, a_tiles, b_tiles, full, i + 2, STEPS)
    acc = mma_wait(0, deps=[acc])
    rows = gl.arange(0, TILE, gl.SliceLayout(1, ACC))
    cols = gl.arange(0, TILE, gl.SliceLayout(0, ACC))
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


@jit
def fetch_operands(a_desc, b_desc, ring, STEPS: gl.constexpr):
    a_tiles, b_tiles, full, empty = ring
    for i in range(STEPS):
        mbarrier.wait(empty.index(i % STAGES), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(i % STAGES), 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [0, i * TILE], full.index(i % STAGES), a_tiles.index(2 * (i % STAGES)))
        tma_load(a_desc, [TILE, i * TILE], full.index(i % STAGES), a_tiles.index(2 * (i % STAGES) + 1))
        tma_load(b_desc, [i * TILE, 0], full.index(i % STAGES), b_tiles.index(i % STAGES))


@jit
def multiply(c_ptr, ring, N, STEPS: gl.constexpr, HALF: gl.constexpr):
    a_tiles, b_tiles, full, empty = ring
    acc = gl.zeros((TILE, TILE), gl.float32, ACC)
    for i in range(STEPS):
        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)
        a, b = a_tiles.index(2 * (i % STAGES) + HALF), b_tiles.index(i % STAGES)
        acc = mma(a, b, acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index(i % STAGES))
    rows = HALF * TILE + gl.arange(0, TILE, gl.SliceLayout(1, ACC))
    cols = gl.arange(0, TILE, gl.SliceLayout(0, ACC))
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], acc)


@jit
def specialised(a_desc, b_desc, c_ptr, N, STEPS: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES, TILE, TILE], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, TILE, TILE], b_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 2)
    ring = (a_tiles, b_tiles, full, empty)
    gl.warp_specialize(
        [
            (multiply, (c_ptr, ring, N, STEPS, 0)),
            (multiply, (c_ptr, ring, N, STEPS, 1)),
            (fetch_operands, (a_desc, b_desc, ring, STEPS)),
        ],
        [4, 1],
        [200, 24],
    )


# ------------------------------------------------------------------------------------------------- threads


@jit
def turned(x_ptr, y_ptr):
    COLUMNS: gl.constexpr = gl.BlockedLayout([8, 1], [8, 4], [1, 4], [0, 1])
    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [TILE, TILE], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    rows = gl.arange(0, TILE, gl.SliceLayout(1, SQUARE))
    cols = gl.arange(0, TILE, gl.SliceLayout(0, SQUARE))
    offs = rows[:, None] * TILE + cols[None, :]
    tile.store(gl.load(x_ptr + offs))
    barrier()
    x = tile.permute((1, 0)).load(COLUMNS)
    gl.store(y_ptr + offs, gl.convert_layout(x, SQUARE))


@jit
def write_first(tile, bars, n):
    tile.store(gl.arange(0, 128, LINE) + n)
    mbarrier.arrive(bars.index(0))


@jit
def pass_on(tile, bars):
    mbarrier.wait(bars.index(0), 0)
    x = tile.load(LINE)
    tile.store(x * 2)
    mbarrier.arrive(bars.index(1))


@jit
def write_out(y_ptr, tile, bars):
    mbarrier.wait(bars.index(1), 0)
    gl.store(y_ptr + gl.arange(0, 128, LINE), tile.load(LINE))


@jit
def relayed(y_ptr, n):
    tile = gl.allocate_shared_memory(gl.int32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    bars = new_barriers(2, 1)
    gl.warp_specialize(
        [(write_first, (tile, bars, n)), (pass_on, (tile, bars)), (write_out, (y_ptr, tile, bars))], [4, 4], [32, 32]
    )


@jit
def write_turns(tile, full, left, right, TURNS: gl.constexpr):
    for i in range(TURNS):
        mbarrier.wait(left.index(0), (i + 1) & 1)
        mbarrier.wait(right.index(0), (i + 1) & 1)
        tile.store(gl.arange(0, 128, LINE) + i)
        mbarrier.arrive(full.index(0))


@jit
def read_turns(y_ptr, tile, full, mine, TURNS: gl.constexpr, SIDE: gl.constexpr):
    acc = gl.zeros((128,), gl.int32, LINE)
    for i in range(TURNS):
        mbarrier.wait(full.index(0), i & 1)
        acc += tile.load(LINE)
        mbarrier.arrive(mine.index(0))
    gl.store(y_ptr + SIDE * 128 + gl.arange(0, 128, LINE), acc)


@jit
def guarded(y_ptr, TURNS: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.int32, [128], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    full = new_barriers(1, 1)
    left = new_barriers(1, 1)
    right = new_barriers(1, 1)
    gl.warp_specialize(
        [
            (write_turns, (tile, full, left, right, TURNS)),
            (read_turns, (y_ptr, tile, full, left, TURNS, 0)),
            (read_turns, (y_ptr, tile, full, right, TURNS, 1)),
        ],
        [4, 4],
        [32, 32],
    )
