"""Unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

# keys of criteria
RUNS, KERNEL, ORDER, PLAIN, COMPILES = "runs", "triton_did_the_work", "in_every_order", "correct.plain", "compiles"
RAGGED, STRIDED, TRAFFIC = "correct.ragged", "correct.strided", "traffic.performance"
ONCE, AGAIN, COLUMNS, TWO, OTHER = ("correct.once", "correct.again", "correct.columns", "correct.two", "correct.other")
CONFLICTS, SHARED, AHEAD = "no_conflicts.performance", "shared_bytes.performance", "overlapped.performance"
BY_CP_ASYNC, BY_WGMMA = "uses.cp.async.performance", "uses.wgmma.performance"
TMA_IN, TMA_OUT = "uses.TMA load.performance", "uses.TMA store.performance"

WAIT = "    mbarrier.wait(come.index(0), 0)\n"
EXPECT = "    mbarrier.expect(come.index(0), x_desc.block_type.nbytes)\n"
LOAD = "    tma_load(x_desc, [row, col], come.index(0), tile)\n"
STORE, STORED = "    tma_store(y_desc, [row, col], tile)\n", "    store_wait(0)\n"
BY_THREADS = """    SQUARE: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    y = tile.load(SQUARE)
    rows, cols = row + gl.arange(0, 64, gl.SliceLayout(1, SQUARE)), col + gl.arange(0, 64, gl.SliceLayout(0, SQUARE))
    gl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=(rows[:, None] < M) & (cols[None, :] < N))
"""
IN_TRITON = """@triton.jit
def tma_copy_kernel(x_ptr, y_ptr, M, N, stride, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y_ptr + row * N + cols, tl.load(x_ptr + row * stride + cols, mask=cols < N), mask=cols < N)


def tma_copy(x):
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    tma_copy_kernel[(M,)](x, out, M, N, x.stride(0), BLOCK=1024)
    return out
"""
HOST, LAUNCH = "tma_copy_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))]", "(x_desc, y_desc, num_warps=4)"
TMA_COPY = [
    wrong("tma_copy", "not waited for", [ORDER], (WAIT, "")),
    wrong("tma_copy", "the wrong phase", [ORDER], (WAIT, WAIT.replace(", 0)", ", 1)"))),
    wrong("tma_copy", "no bytes expected", [ORDER], (EXPECT, "")),
    wrong("tma_copy", "half the bytes expected", [ORDER], ("block_type.nbytes", "block_type.nbytes // 2")),
    wrong("tma_copy", "twice the bytes expected", [ORDER], ("block_type.nbytes", "block_type.nbytes * 2")),
    wrong("tma_copy", "the store not waited for", [ORDER], (STORED, "")),
    wrong("tma_copy", "the load is never made", [ORDER], (LOAD, "")),
    wrong("tma_copy", "rows and columns swapped", [PLAIN], (STORE, STORE.replace("[row, col]", "[col, row]"))),
    wrong("tma_copy", "too few programs", [RAGGED, STRIDED, TMA_IN, TMA_OUT, TRAFFIC], ("triton.cdiv(M, 64), triton.cdiv(N, 64)", "max(1, M // 64), max(1, N // 64)")),
    wrong("tma_copy", "takes x for contiguous", [STRIDED], ("(t, [64, 64], layout) for t in (x, out)", "(t.as_strided((M, N), (N, 1)), [64, 64], layout) for t in (x, out)")),
    wrong("tma_copy", "threads store", [TMA_OUT], (STORE + STORED, BY_THREADS), ("(x_desc, y_desc):", "(x_desc, y_ptr, M, N):"), (LAUNCH, LAUNCH.replace("y_desc", "out, M, N"))),
    wrong("tma_copy", "in Triton", [KERNEL], source=IN_TRITON),
    wrong("tma_copy", "torch copies", [KERNEL], (HOST + LAUNCH, "out.copy_(x)")),
    wrong("tma_copy", "torch copies, a kernel for show", [KERNEL], (HOST, "out.copy_(x)\n    " + HOST)),
    wrong("tma_copy", "each tile twice", [TRAFFIC], (LOAD + WAIT, LOAD + WAIT + EXPECT + LOAD + WAIT.replace(", 0)", ", 1)"))),
    honest("tma_copy", "tiles of 32 x 64", ("[64, 64], gl.float16", "[32, 64], gl.float16"), ("(t, [64, 64], layout)", "(t, [32, 64], layout)"), ("triton.cdiv(M, 64)", "triton.cdiv(M, 32)")),
]  # fmt: skip

HOLDER = [
    wrong("holder", "axes swapped", [ONCE, AGAIN, COLUMNS], ("fast, slow = order", "slow, fast = order"), says="order[0] is the axis"),
    wrong("holder", "rows first always", [COLUMNS], ("fast, slow = order", "fast, slow = 1, 0")),
    wrong("holder", "no repetitions", [AGAIN, COLUMNS], ("(again0 + repeated * again1)", "0"), says="in further registers"),
    wrong("holder", "repetitions before what lies together", [AGAIN, COLUMNS], ("r0 + size_per_thread[fast] * (r1 + size_per_thread[slow] * (again0 + repeated * again1))", "again0 + repeated * again1 + (r0 + size_per_thread[fast] * r1) * shape[0] * shape[1] // math.prod(size_per_thread + threads_per_warp + warps_per_cta)"), ("    fast, slow = order", "    import math\n\n    fast, slow = order"), says="numbered the other way"),
    wrong("holder", "repetitions along one axis", [AGAIN, COLUMNS], ("(again0 + repeated * again1)", "again0")),
    wrong("holder", "repetitions in the other order", [AGAIN, COLUMNS], ("(again0 + repeated * again1)", "(again1 + shape[slow] // (size_per_thread[slow] * threads_per_warp[slow] * warps_per_cta[slow]) * again0)")),
    wrong("holder", "warps before lanes", [ONCE, AGAIN, COLUMNS], ("size_per_thread[axis], threads_per_warp[axis], warps_per_cta[axis])", "size_per_thread[axis], warps_per_cta[axis], threads_per_warp[axis])"), ("(r0, lane0, warp0, again0), (r1, lane1, warp1, again1)", "(r0, warp0, lane0, again0), (r1, warp1, lane1, again1)")),
    wrong("holder", "no elements within a thread", [ONCE, AGAIN, COLUMNS], ("i, found = (row, col)[axis], []", "i, found = (row, col)[axis] // size_per_thread[axis] * size_per_thread[axis], []")),
    wrong("holder", "a thread's number in its program", [AGAIN, COLUMNS, ONCE], ("lane0 + threads_per_warp[fast] * lane1, register", "lane0 + threads_per_warp[fast] * lane1 + 32 * (warp0 + warps_per_cta[fast] * warp1), register")),
    honest("holder", "by divmod", ("            found.append(i % count)\n            i //= count\n", "            i, digit = divmod(i, count)\n            found.append(digit)\n")),
]  # fmt: skip

SWIZZLE, READ_BACK = (
    "gl.SwizzledSharedLayout(1, 1, 32, [1, 0])",
    "    barrier()\n    y = tile.permute((1, 0)).load(ROWS)\n",
)
TRANSPOSE = [
    wrong("shared_transpose", "the tile is never written", [ORDER], ("tile.store(gl.load(x_ptr + (row + rows)[:, None] * N + (col + cols)[None, :], mask=there, other=0.0))", "gl.load(x_ptr + (row + rows)[:, None] * N + (col + cols)[None, :], mask=there, other=0.0)")),
    wrong("shared_transpose", "no swizzle", [CONFLICTS], (SWIZZLE, "gl.SwizzledSharedLayout(1, 1, 1, [1, 0])")),
    wrong("shared_transpose", "a swizzle of 8 rows", [CONFLICTS], (SWIZZLE, "gl.SwizzledSharedLayout(1, 1, 8, [1, 0])")),
    wrong("shared_transpose", "the phase changes every 2 rows", [CONFLICTS], (SWIZZLE, "gl.SwizzledSharedLayout(1, 2, 32, [1, 0])")),
    wrong("shared_transpose", "groups of 4", [CONFLICTS], (SWIZZLE, "gl.SwizzledSharedLayout(4, 1, 32, [1, 0])")),
    wrong("shared_transpose", "TMA's swizzle", [CONFLICTS], (SWIZZLE, "gl.NVMMASharedLayout(128, 32)")),
    wrong("shared_transpose", "tiles stay where they were", [PLAIN], ("    there = (col + rows < N)[:, None] & (row + cols < M)[None, :]\n    gl.store(y_ptr + (col + rows)[:, None] * M + (row + cols)[None, :], y, mask=there)", "    gl.store(y_ptr + (row + rows)[:, None] * M + (col + cols)[None, :], y, mask=(row + rows < N)[:, None] & (col + cols < M)[None, :])")),
    wrong("shared_transpose", "not turned round", [PLAIN], ("tile.permute((1, 0)).load", "tile.load")),
    wrong("shared_transpose", "no mask", [RAGGED, CONFLICTS, SHARED, TRAFFIC], ("mask=there, other=0.0", "")),
    wrong("shared_transpose", "the mask of the input for the output", [RAGGED, CONFLICTS, SHARED, TRAFFIC], ("    there = (col + rows < N)[:, None] & (row + cols < M)[None, :]\n", "")),
    wrong("shared_transpose", "without shared memory", [CONFLICTS], ("    tile.store(gl.load(x_ptr + (row + rows)[:, None] * N + (col + cols)[None, :], mask=there, other=0.0))\n" + READ_BACK, "    turned = (row + cols < M)[None, :] & (col + rows < N)[:, None]\n    y = gl.load(x_ptr + (row + cols)[None, :] * N + (col + rows)[:, None], mask=turned, other=0.0)\n"), ("    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], " + SWIZZLE + ")\n", "")),
    wrong("shared_transpose", "a spare tile", [SHARED], ("    rows, cols = gl.arange", "    spare = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], " + SWIZZLE + ")\n    spare.store(gl.zeros([64, 64], gl.float32, ROWS))\n    rows, cols = gl.arange")),
    wrong("shared_transpose", "torch", [KERNEL], ("transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, num_warps=4)", "out.copy_(x.T)")),
    honest("shared_transpose", "padded", (SWIZZLE, "gl.PaddedSharedLayout.with_identity_for([[64, 1]], [64, 64], [1, 0])")),
    honest("shared_transpose", "8 warps", ("[4, 1], [1, 0]", "[8, 1], [1, 0]"), ("num_warps=4", "num_warps=8")),
]  # fmt: skip

START, GROUP, NEXT = (
    "        start_copy(x_ptr, tiles, i + STAGES - 1, M, N, steps, BLOCK, STAGES, ROWS)\n",
    "        wait_group(STAGES - 2)\n",
    "        acc += tiles.index(i % STAGES).load(ROWS)\n",
)
ASYNC_LOOP = GROUP + "        barrier()\n" + START + NEXT
ASYNC = [
    wrong("async_column_sum", "a copy for show ahead of each tile", [AHEAD], (ASYNC_LOOP, "        start_copy(x_ptr, tiles, i, M, N, steps, BLOCK, STAGES, ROWS)\n        there = gl.zeros((BLOCK, BLOCK), gl.int32, ROWS) == 1\n        rows, cols = gl.arange(0, BLOCK, gl.SliceLayout(1, ROWS)), gl.arange(0, BLOCK, gl.SliceLayout(0, ROWS))\n        copy_async(shown, x_ptr + rows[:, None] * N + cols[None, :], mask=there)\n        commit_group()\n        wait_group(1)\n        barrier()\n" + NEXT + "        wait_group(0)\n        barrier()\n"), ("    for i in gl.static_range(STAGES - 1):\n        start_copy(x_ptr, tiles, i, M, N, steps, BLOCK, STAGES, ROWS)\n", "    shown = gl.allocate_shared_memory(gl.float32, [BLOCK, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))\n")),
    wrong("async_column_sum", "all of it twice", [TRAFFIC], ("    return out", "    async_kernel[(triton.cdiv(N, 32),)](x, out, M, N, BLOCK=32, STAGES=3, num_warps=4)\n    return out")),
    wrong("async_column_sum", "no wait", [ORDER], (GROUP, "")),
    wrong("async_column_sum", "waits for one group too few", [ORDER], ("wait_group(STAGES - 2)", "wait_group(STAGES - 1)"), says="has not yet come"),
    wrong("async_column_sum", "started before the place is free", [ORDER], ("i + STAGES - 1, M", "i + STAGES, M"), ("static_range(STAGES - 1)", "static_range(STAGES)"), ("wait_group(STAGES - 2)", "wait_group(STAGES - 1)")),
    wrong("async_column_sum", "commits with copies alone", [ORDER], ("    commit_group()", "        commit_group()")),
    wrong("async_column_sum", "never commits", [ORDER], ("    commit_group()\n", "")),
    wrong("async_column_sum", "waits for all", [AHEAD], ("wait_group(STAGES - 2)", "wait_group(0)"), (START + NEXT, NEXT + "        barrier()\n" + START)),
    wrong("async_column_sum", "one after the other", [AHEAD], (ASYNC_LOOP, START.replace("i + STAGES - 1", "i") + "        wait_group(0)\n        barrier()\n" + NEXT + "        barrier()\n"), ("    for i in gl.static_range(STAGES - 1):\n        start_copy(x_ptr, tiles, i, M, N, steps, BLOCK, STAGES, ROWS)\n", "")),
    wrong("async_column_sum", "by plain loads", [BY_CP_ASYNC, AHEAD], (GROUP + "        barrier()\n" + START + NEXT, "        rows = i * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, ROWS))\n        cols = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, ROWS))\n        acc += gl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=(rows < M)[:, None] & (cols < N)[None, :], other=0.0)\n"), ("    for i in gl.static_range(STAGES - 1):\n        start_copy(x_ptr, tiles, i, M, N, steps, BLOCK, STAGES, ROWS)\n", "")),
    wrong("async_column_sum", "rows without a mask", [RAGGED, BY_CP_ASYNC, AHEAD, SHARED, TRAFFIC], ("(rows < M)[:, None] & (cols < N)[None, :]", "(cols < N)[None, :] & (rows >= 0)[:, None]")),
    wrong("async_column_sum", "the last tile left out", [PLAIN], ("steps = gl.cdiv(M, BLOCK)", "steps = (M - 1) // BLOCK")),
    wrong("async_column_sum", "a ring of 32", [SHARED], ("STAGES=3", "STAGES=32")),
    wrong("async_column_sum", "torch adds up", [KERNEL], ("    out = torch.empty(N, dtype=torch.float32, device=x.device)\n    async_kernel[(triton.cdiv(N, 32),)](x, out, M, N, BLOCK=32, STAGES=3, num_warps=4)\n", "    out = x.sum(0)\n")),
    honest("async_column_sum", "a ring of 8", ("STAGES=3", "STAGES=8")),
    honest("async_column_sum", "loads first, then starts the next", (START + NEXT, NEXT + START)),
]  # fmt: skip

PHASE = [
    wrong("phase_of", "parity of the tile", [TWO, OTHER], ("i // SIZE & 1, (i", "i & 1, (i"), says="flips when the ring"),
    wrong("phase_of", "reader and writer swapped", [TWO, OTHER], ("i // SIZE & 1, (i // SIZE + 1) & 1", "(i // SIZE + 1) & 1, i // SIZE & 1"), says="swapped"),
    wrong("phase_of", "one parity for both", [TWO, OTHER], ("(i // SIZE + 1) & 1", "i // SIZE & 1"), says="another phase than the reader"),
    wrong("phase_of", "numbers of phases", [TWO, OTHER], ("i // SIZE & 1, (i // SIZE + 1) & 1", "i // SIZE, i // SIZE + 1"), says="one bit"),
    wrong("phase_of", "rings of 2 alone", [OTHER], ("i // SIZE & 1, (i // SIZE + 1) & 1", "i // 2 & 1, (i // 2 + 1) & 1")),
    wrong("phase_of", "slots by quotient", [TWO, OTHER], ("return i % SIZE", "return i // SIZE")),
    honest("phase_of", "by remainders", ("i // SIZE & 1, (i // SIZE + 1) & 1", "i % (2 * SIZE) // SIZE, 1 - i % (2 * SIZE) // SIZE")),
]  # fmt: skip

FULL, EMPTY = (
    "        mbarrier.wait(full.index(i % SIZE), i // SIZE & 1)\n",
    "        mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)\n",
)
RELEASE = "        mbarrier.arrive(empty.index(i % SIZE))\n"
ADD = "        acc += tiles.index(i % SIZE).load(ROWS).to(gl.float32)\n"
RING_EXPECT = "        mbarrier.expect(full.index(i % SIZE), x_desc.block_type.nbytes)\n"
RING = [
    wrong("ring_column_sum", "all of it twice", [TRAFFIC], ("    return out", "    ring_kernel[(triton.cdiv(N, 64),)](x_desc, out, M, N, SIZE=2, num_warps=4)\n    return out")),
    wrong("ring_column_sum", "the reader does not wait", [ORDER], (FULL, ""), says="has not yet come"),
    wrong("ring_column_sum", "the fetcher does not wait", [ORDER], (EMPTY, "")),
    wrong("ring_column_sum", "never released", [ORDER], (RELEASE, ""), says="Everybody waits"),
    wrong("ring_column_sum", "released before it is read", [ORDER], (ADD + RELEASE, RELEASE + ADD)),
    wrong("ring_column_sum", "the parity flips with each tile", [ORDER], ("i // SIZE & 1)\n        acc", "i & 1)\n        acc")),
    wrong("ring_column_sum", "the parity never flips", [ORDER], ("i // SIZE & 1)\n        acc", "0)\n        acc")),
    wrong("ring_column_sum", "the fetcher's parity is the reader's", [ORDER], ("(i // SIZE + 1) & 1", "i // SIZE & 1")),
    wrong("ring_column_sum", "no bytes expected", [ORDER], (RING_EXPECT, "")),
    wrong("ring_column_sum", "bytes of the tensor's rows alone", [ORDER], (RING_EXPECT, RING_EXPECT.replace("nbytes", "nbytes // 2"))),
    wrong("ring_column_sum", "empty wants two arrivals", [ORDER], ("empty = new_barriers(SIZE, 1)", "empty = new_barriers(SIZE, 2)")),
    wrong("ring_column_sum", "empty wants an arrival of each thread", [ORDER], ("empty = new_barriers(SIZE, 1)", "empty = new_barriers(SIZE, 128)"), says="an arrive is one"),
    wrong("ring_column_sum", "a ring of 1", [AHEAD], ("SIZE=2", "SIZE=1")),
    wrong("ring_column_sum", "a ring of 8", [SHARED], ("SIZE=2", "SIZE=8")),
    wrong("ring_column_sum", "the last tile left out", [PLAIN], ("steps = gl.cdiv(M, 64)", "steps = gl.cdiv(M, 64) - 1")),
    wrong("ring_column_sum", "no mask at the end", [RAGGED, TMA_IN, AHEAD, SHARED, TRAFFIC], (", mask=cols < N", "")),
    wrong("ring_column_sum", "in Triton", [KERNEL], source="@triton.jit\ndef k(x_ptr, y_ptr, M, N, s, B: tl.constexpr):\n    c = tl.program_id(0) * B + tl.arange(0, B)\n    acc = tl.zeros((B,), tl.float32)\n    for i in range(M):\n        acc += tl.load(x_ptr + i * s + c, mask=c < N, other=0.0)\n    tl.store(y_ptr + c, acc, mask=c < N)\n\n\ndef ring_column_sum(x):\n    M, N = x.shape\n    out = torch.empty(N, dtype=torch.float32, device=x.device)\n    k[(triton.cdiv(N, 64),)](x, out, M, N, x.stride(0), B=64)\n    return out\n"),
    honest("ring_column_sum", "a ring of 4", ("SIZE=2", "SIZE=4")),
    honest("ring_column_sum", "sums of each tile first", ("acc += tiles.index(i % SIZE).load(ROWS).to(gl.float32)", "part = tiles.index(i % SIZE).load(ROWS)\n        acc += part.to(gl.float32) * 1.0")),
]  # fmt: skip

MMA, MMA_WAIT = "        acc = mma(a, b, acc, is_async=True)\n", "        acc = mma_wait(0, deps=[acc])\n"
COME = "        mbarrier.wait(come.index(0), i & 1)\n"
BOTH = "a_desc.block_type.nbytes + b_desc.block_type.nbytes"
WGMMA = [
    wrong("wgmma_matmul", "all of it twice", [TRAFFIC], ("    return out", "    wgmma_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a_desc, b_desc, out, M, N, K, num_warps=4)\n    return out")),
    wrong("wgmma_matmul", "the product is not waited for", [ORDER], (MMA_WAIT, "        acc = mma_wait(1, deps=[acc])\n")),
    wrong("wgmma_matmul", "the copies are not waited for", [ORDER], (COME, "")),
    wrong("wgmma_matmul", "parity 0 always", [ORDER], ("i & 1", "0")),
    wrong("wgmma_matmul", "bytes of one operand", [ORDER], (BOTH, "a_desc.block_type.nbytes"), says="exactly the expected bytes"),
    wrong("wgmma_matmul", "no bytes expected", [ORDER], ("        mbarrier.expect(come.index(0), " + BOTH + ")\n", "")),
    wrong("wgmma_matmul", "starts anew each time", [PLAIN], ("mma(a, b, acc, is_async=True)", "mma(a, b, acc, use_acc=False, is_async=True)")),
    wrong("wgmma_matmul", "K rounded down", [RAGGED, TMA_IN, BY_WGMMA, TRAFFIC], ("gl.cdiv(K, 64)", "K // 64")),
    wrong("wgmma_matmul", "b transposed", [PLAIN], ("mma(a, b, acc", "mma(a, b.permute((1, 0)), acc")),
    wrong("wgmma_matmul", "torch multiplies", [KERNEL], ("wgmma_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a_desc, b_desc, out, M, N, K, num_warps=4)", "out.copy_(a.float() @ b.float())")),
    wrong("wgmma_matmul", "accumulates in float16", [PLAIN], ("gl.zeros((64, 64), gl.float32, ACC)", "gl.zeros((64, 64), gl.float16, ACC)")),
    honest("wgmma_matmul", "waits at once", (MMA + MMA_WAIT, "        acc = mma(a, b, acc)\n")),
    honest("wgmma_matmul", "a barrier for each operand", ("come = new_barriers(1, 1)", "come = new_barriers(2, 1)"), ("        mbarrier.expect(come.index(0), " + BOTH + ")\n", "        mbarrier.expect(come.index(0), a_desc.block_type.nbytes)\n        mbarrier.expect(come.index(1), b_desc.block_type.nbytes)\n"), ("[i * 64, col], come.index(0)", "[i * 64, col], come.index(1)"), (COME, COME + COME.replace("index(0)", "index(1)"))),
]  # fmt: skip

VARIANTS = [*TMA_COPY, *HOLDER, *TRANSPOSE, *ASYNC, *PHASE, *RING, *WGMMA]
