"""mbarriers, TMA, wgmma, one at a time. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

# keys of criteria
RUNS, KERNEL, ORDER, PLAIN = "runs", "triton_did_the_work", "in_every_order", "correct.plain"
RAGGED, STRIDED, TRAFFIC = "correct.ragged", "correct.strided", "traffic.performance"
ONCE, COLUMNS, TWO, OTHER = "correct.once", "correct.columns", "correct.two", "correct.other"
SHARED, AHEAD, BY_WGMMA = "shared_bytes.performance", "overlapped.performance", "uses.wgmma.performance"
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

PHASE = [
    wrong("phase_of", "parity of the tile", [TWO, OTHER], ("i // SIZE & 1, (i", "i & 1, (i")),
    wrong("phase_of", "reader and writer swapped", [TWO, OTHER], ("i // SIZE & 1, (i // SIZE + 1) & 1", "(i // SIZE + 1) & 1, i // SIZE & 1")),
    wrong("phase_of", "one parity for both", [TWO, OTHER], ("(i // SIZE + 1) & 1", "i // SIZE & 1")),
    wrong("phase_of", "numbers of phases", [TWO, OTHER], ("i // SIZE & 1, (i // SIZE + 1) & 1", "i // SIZE, i // SIZE + 1")),
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
    wrong("ring_column_sum", "the reader does not wait", [ORDER], (FULL, "")),
    wrong("ring_column_sum", "the fetcher does not wait", [ORDER], (EMPTY, "")),
    wrong("ring_column_sum", "never released", [ORDER], (RELEASE, "")),
    wrong("ring_column_sum", "released before it is read", [ORDER], (ADD + RELEASE, RELEASE + ADD)),
    wrong("ring_column_sum", "the parity flips with each tile", [ORDER], ("i // SIZE & 1)\n        acc", "i & 1)\n        acc")),
    wrong("ring_column_sum", "the parity never flips", [ORDER], ("i // SIZE & 1)\n        acc", "0)\n        acc")),
    wrong("ring_column_sum", "the fetcher's parity is the reader's", [ORDER], ("(i // SIZE + 1) & 1", "i // SIZE & 1")),
    wrong("ring_column_sum", "no bytes expected", [ORDER], (RING_EXPECT, "")),
    wrong("ring_column_sum", "bytes of the tensor's rows alone", [ORDER], (RING_EXPECT, RING_EXPECT.replace("nbytes", "nbytes // 2"))),
    wrong("ring_column_sum", "empty wants two arrivals", [ORDER], ("empty = new_barriers(SIZE, 1)", "empty = new_barriers(SIZE, 2)")),
    wrong("ring_column_sum", "empty wants an arrival of each thread", [ORDER], ("empty = new_barriers(SIZE, 1)", "empty = new_barriers(SIZE, 128)")),
    wrong("ring_column_sum", "a ring of 1", [AHEAD], ("SIZE=2", "SIZE=1")),
    wrong("ring_column_sum", "a ring of 8", [SHARED], ("SIZE=2", "SIZE=8")),
    wrong("ring_column_sum", "the last tile left out", [PLAIN], ("steps = gl.cdiv(M, 64)", "steps = gl.cdiv(M, 64) - 1")),
    wrong("ring_column_sum", "no mask at the end", [RAGGED, TMA_IN, AHEAD, SHARED, TRAFFIC], (", mask=cols < N", ""), tells="kernel `add_up`, line 20"),
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
    wrong("wgmma_matmul", "bytes of one operand", [ORDER], (BOTH, "a_desc.block_type.nbytes")),
    wrong("wgmma_matmul", "no bytes expected", [ORDER], ("        mbarrier.expect(come.index(0), " + BOTH + ")\n", "")),
    wrong("wgmma_matmul", "starts anew each time", [PLAIN], ("mma(a, b, acc, is_async=True)", "mma(a, b, acc, use_acc=False, is_async=True)")),
    wrong("wgmma_matmul", "K rounded down", [RAGGED, TMA_IN, BY_WGMMA, TRAFFIC], ("gl.cdiv(K, 64)", "K // 64")),
    wrong("wgmma_matmul", "coordinates of tiles", [PLAIN], ("[row, i * 64]", "[row, i]"), ("[i * 64, col]", "[i, col]")),
    wrong("wgmma_matmul", "b's coordinates swapped", [PLAIN], ("[i * 64, col]", "[col, i * 64]")),
    wrong("wgmma_matmul", "b transposed", [PLAIN], ("mma(a, b, acc", "mma(a, b.permute((1, 0)), acc")),
    wrong("wgmma_matmul", "torch multiplies", [KERNEL], ("wgmma_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a_desc, b_desc, out, M, N, K, num_warps=4)", "out.copy_(a.float() @ b.float())")),
    wrong("wgmma_matmul", "accumulates in float16", [PLAIN], ("gl.zeros((64, 64), gl.float32, ACC)", "gl.zeros((64, 64), gl.float16, ACC)")),
    honest("wgmma_matmul", "waits at once", (MMA + MMA_WAIT, "        acc = mma(a, b, acc)\n")),
    honest("wgmma_matmul", "a barrier for each operand", ("come = new_barriers(1, 1)", "come = new_barriers(2, 1)"), ("        mbarrier.expect(come.index(0), " + BOTH + ")\n", "        mbarrier.expect(come.index(0), a_desc.block_type.nbytes)\n        mbarrier.expect(come.index(1), b_desc.block_type.nbytes)\n"), ("[i * 64, col], come.index(0)", "[i * 64, col], come.index(1)"), (COME, COME + COME.replace("index(0)", "index(1)"))),
]  # fmt: skip

VARIANTS = [*TMA_COPY, *PHASE, *RING, *WGMMA]
