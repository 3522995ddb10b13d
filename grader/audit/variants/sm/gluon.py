"""Layouts, banks, and copies by cp.async."""

from grader.audit.variants import kinds

wrong, honest = kinds("sm")

# keys of criteria
KERNEL, ORDER, PLAIN, RAGGED, TRAFFIC = (
    "triton_did_the_work",
    "in_every_order",
    "correct.plain",
    "correct.ragged",
    "traffic.performance",
)
ONCE, AGAIN, COLUMNS = "correct.once", "correct.again", "correct.columns"
CONFLICTS, SHARED, AHEAD = "no_conflicts.performance", "shared_bytes.performance", "overlapped.performance"
BY_CP_ASYNC = "uses.cp.async.performance"

HOLDER = [
    wrong("holder", "axes swapped", [ONCE, AGAIN, COLUMNS], ("fast, slow = order", "slow, fast = order")),
    wrong("holder", "rows first always", [COLUMNS], ("fast, slow = order", "fast, slow = 1, 0")),
    wrong("holder", "no repetitions", [AGAIN, COLUMNS], ("(again0 + repeated * again1)", "0")),
    wrong("holder", "repetitions before what lies together", [AGAIN, COLUMNS], ("r0 + size_per_thread[fast] * (r1 + size_per_thread[slow] * (again0 + repeated * again1))", "again0 + repeated * again1 + (r0 + size_per_thread[fast] * r1) * shape[0] * shape[1] // math.prod(size_per_thread + threads_per_warp + warps_per_cta)"), ("    fast, slow = order", "    import math\n\n    fast, slow = order")),
    wrong("holder", "repetitions along one axis", [AGAIN, COLUMNS], ("(again0 + repeated * again1)", "again0")),
    wrong("holder", "repetitions in the other order", [AGAIN, COLUMNS], ("(again0 + repeated * again1)", "(again1 + shape[slow] // (size_per_thread[slow] * threads_per_warp[slow] * warps_per_cta[slow]) * again0)")),
    wrong("holder", "warps before lanes", [ONCE, AGAIN, COLUMNS], ("size_per_thread[axis], threads_per_warp[axis], warps_per_cta[axis])", "size_per_thread[axis], warps_per_cta[axis], threads_per_warp[axis])"), ("(r0, lane0, warp0, again0), (r1, lane1, warp1, again1)", "(r0, warp0, lane0, again0), (r1, warp1, lane1, again1)")),
    wrong("holder", "no elements within a thread", [ONCE, AGAIN, COLUMNS], ("i, found = (row, col)[axis], []", "i, found = (row, col)[axis] // size_per_thread[axis] * size_per_thread[axis], []")),
    wrong("holder", "a thread's number in its program", [AGAIN, COLUMNS, ONCE], ("lane0 + threads_per_warp[fast] * lane1, register", "lane0 + threads_per_warp[fast] * lane1 + 32 * (warp0 + warps_per_cta[fast] * warp1), register")),
    wrong("holder", "lanes along the other axis", [ONCE, AGAIN, COLUMNS], ("lane0 + threads_per_warp[fast] * lane1", "lane1 + threads_per_warp[slow] * lane0")),
    wrong("holder", "warps along the other axis", [AGAIN, COLUMNS], ("warp0 + warps_per_cta[fast] * warp1", "warp1 + warps_per_cta[slow] * warp0")),
    wrong("holder", "lane and warp swapped", [ONCE, AGAIN, COLUMNS], ("return warp0 + warps_per_cta[fast] * warp1, lane0 + threads_per_warp[fast] * lane1,", "return lane0 + threads_per_warp[fast] * lane1, warp0 + warps_per_cta[fast] * warp1,")),
    honest("holder", "by divmod", ("            found.append(i % count)\n            i //= count\n", "            i, digit = divmod(i, count)\n            found.append(digit)\n")),
]  # fmt: skip

SWIZZLE, READ_BACK = (
    "gl.SwizzledSharedLayout(1, 1, 32, [1, 0])",
    "    barrier()\n    y = tile.permute((1, 0)).load(ROWS)\n",
)
READ = "gl.load(x_ptr + (row + rows)[:, None] * N + (col + cols)[None, :], mask=there, other=0.0)"
READ_DOWN = "gl.load(x_ptr + (row + cols)[None, :] * N + (col + rows)[:, None], mask=(row + cols < M)[None, :] & (col + rows < N)[:, None], other=0.0)"
WRITTEN = """    there = (col + rows < N)[:, None] & (row + cols < M)[None, :]
    gl.store(y_ptr + (col + rows)[:, None] * M + (row + cols)[None, :], y, mask=there)
"""
WRITTEN_DOWN = "    gl.store(y_ptr + (col + cols)[None, :] * M + (row + rows)[:, None], y, mask=there)\n"
BY_ALLOCATION = [
    (f"    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], {SWIZZLE})\n", ""),
    (
        "    tile.store(gl.load(",
        f"    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], {SWIZZLE}, gl.load(",
    ),
]
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
    wrong("shared_transpose", "global memory down its columns", [CONFLICTS], (READ, READ_DOWN), (READ_BACK, "    barrier()\n    y = tile.load(ROWS)\n"), (SWIZZLE, "gl.SwizzledSharedLayout(1, 1, 1, [1, 0])")),
    wrong("shared_transpose", "stored down columns", [CONFLICTS], (READ_BACK, "    barrier()\n    y = tile.load(ROWS)\n"), (WRITTEN, WRITTEN_DOWN)),
    honest("shared_transpose", "turned by the layout of lanes", ("    y = tile.permute((1, 0)).load(ROWS)\n    there = (col + rows < N)[:, None] & (row + cols < M)[None, :]\n", "    y = tile.load(DOWN)\n    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, DOWN)), gl.arange(0, 64, gl.SliceLayout(0, DOWN))\n    there = (row + rows < M)[:, None] & (col + cols < N)[None, :]\n"), ("(col + rows)[:, None] * M + (row + cols)[None, :]", "(col + cols)[None, :] * M + (row + rows)[:, None]"), ("    tile = gl.", "    DOWN: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])\n    tile = gl.")),
    wrong("shared_transpose", "a spare tile", [SHARED], ("    rows, cols = gl.arange", "    spare = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], " + SWIZZLE + ")\n    spare.store(gl.zeros([64, 64], gl.float32, ROWS))\n    rows, cols = gl.arange")),
    wrong("shared_transpose", "torch", [KERNEL], ("transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, num_warps=4)", "out.copy_(x.T)")),
    wrong("shared_transpose", "no swizzle, and stored by the allocation", [CONFLICTS], *BY_ALLOCATION, (SWIZZLE, "gl.SwizzledSharedLayout(1, 1, 1, [0, 1])")),
    honest("shared_transpose", "stored by the allocation", *BY_ALLOCATION),
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
    wrong("async_column_sum", "waits for one group too few", [ORDER], ("wait_group(STAGES - 2)", "wait_group(STAGES - 1)")),
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

VARIANTS = [*HOLDER, *TRANSPOSE, *ASYNC]
