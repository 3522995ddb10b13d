"""Unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

# keys of criteria
RUNS, KERNEL, ORDER, PLAIN, COMPILES = "runs", "triton_did_the_work", "in_every_order", "correct.plain", "compiles"
RAGGED, STRIDED, TRAFFIC = "correct.ragged", "correct.strided", "traffic.performance"
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

VARIANTS = TMA_COPY
