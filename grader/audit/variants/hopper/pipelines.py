"""Pipelined and specialised products and attention, races to be named. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("hopper")

# keys of criteria
KERNEL, ORDER, PLAIN, COMPILES = "triton_did_the_work", "in_every_order", "correct.plain", "compiles"
SHORT, LONG, UNEVEN, LARGE = "correct.short", "correct.long", "correct.uneven", "correct.large"
TMA_IN, TMA_OUT, WGMMA = "uses.TMA load.performance", "uses.TMA store.performance", "uses.wgmma.performance"
OVERLAPPED, SPECIALISED, TRAFFIC = "overlapped.performance", "specialised.performance", "traffic.performance"
PERSISTENT, STORES = "persistent.performance", "beside_stores.performance"
AHEAD, BESIDE, NO_MORE = "ahead.performance", "beside_products.performance", "no_more_products.performance"
TRUTHS, NUMBERS, RACES = "truths.plain", "numbers.plain", "names_races.plain"

# ----------------------------------------------------------------------------------------------------- pipelined

P_WAIT = "        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)\n"
P_PRODUCT = "        acc = mma(a_tiles.index(i % STAGES), b_tiles.index(i % STAGES), acc, is_async=True)\n"
P_DONE = "        acc = mma_wait(1, deps=[acc])  # product i - 1 has ended: its slot is free\n"
P_NEXT = "        start_step(a_desc, b_desc, ring, i + STAGES - 1, steps)\n"
P_FIRST = "    for i in gl.static_range(STAGES - 1):\n        start_step(a_desc, b_desc, ring, i, steps)\n"
BY_THREADS = """@gluon.jit
def pipelined_kernel(a_ptr, b_ptr, c_ptr, N, K):
    SQUARE: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    TILE: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a_tile = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [64, 64], TILE)
    b_tile = gl.allocate_shared_memory(a_ptr.dtype.element_ty, [64, 64], TILE)
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, SQUARE)), gl.arange(0, 64, gl.SliceLayout(0, SQUARE))
    acc = gl.zeros((64, 64), gl.float32, LAYOUT)
    for i in range(K // 64):
        a_tile.store(gl.load(a_ptr + (gl.program_id(0) * 64 + rows)[:, None] * K + (i * 64 + cols)[None, :]))
        b_tile.store(gl.load(b_ptr + (i * 64 + rows)[:, None] * N + (gl.program_id(1) * 64 + cols)[None, :]))
        fence_async_shared()
        acc = mma(a_tile, b_tile, acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
    offs_m = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
    offs_n = gl.program_id(1) * 64 + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))
    gl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


def pipelined_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    pipelined_kernel[(M // 64, N // 64)](a, b, c, N, K, num_warps=4)
    return c
"""
OUTER = """@gluon.jit
def outer_kernel(a_ptr, b_ptr, c_ptr, N, K):
    SQUARE: gl.constexpr = gl.BlockedLayout([4, 4], [2, 16], [4, 1], [1, 0])
    rows = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(1, SQUARE))
    cols = gl.program_id(1) * 64 + gl.arange(0, 64, gl.SliceLayout(0, SQUARE))
    acc = gl.zeros((64, 64), gl.float32, SQUARE)
    for k in range(K):
        a, b = gl.load(a_ptr + rows * K + k).to(gl.float32), gl.load(b_ptr + k * N + cols).to(gl.float32)
        acc += a[:, None] * b[None, :]
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty))


def {name}(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    outer_kernel[(M // 64, N // 64)](a, b, c, N, K, num_warps=4)
    return c
"""
IN_TRITON = """@triton.jit
def in_triton_kernel(a_ptr, b_ptr, c_ptr, N, K):
    rows, cols, inner = tl.program_id(0) * 64 + tl.arange(0, 64), tl.program_id(1) * 64 + tl.arange(0, 64), tl.arange(0, 64)
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 64):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        acc = tl.dot(a, tl.load(b_ptr + (k + inner)[:, None] * N + cols[None, :]), acc)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], acc.to(c_ptr.dtype.element_ty))


def pipelined_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    in_triton_kernel[(M // 64, N // 64)](a, b, c, N, K)
    return c
"""
P_SPARE = (
    "    spare = gl.allocate_shared_memory(a_desc.dtype, [64, 64], a_desc.layout)\n    gone = new_barriers(1, 1)\n"
)
P_SHOW = """        mbarrier.expect(gone.index(0), a_desc.block_type.nbytes)
        tma_load(a_desc, [0, 0], gone.index(0), spare)
"""
PIPELINED = [
    wrong("pipelined_matmul", "one after the other", [OVERLAPPED], (P_FIRST, ""), (P_WAIT, P_NEXT.replace("i + STAGES - 1", "i") + P_WAIT), (P_DONE + P_NEXT, P_DONE.replace("wait(1", "wait(0"))),
    wrong("pipelined_matmul", "fetches a stage too far ahead", [ORDER], ("i + STAGES - 1, steps", "i + STAGES, steps"), ("gl.static_range(STAGES - 1)", "gl.static_range(STAGES)")),
    wrong("pipelined_matmul", "two products may be under way", [ORDER], ("mma_wait(1", "mma_wait(2")),
    wrong("pipelined_matmul", "the last product is not waited for", [ORDER], ("    acc = mma_wait(0, deps=[acc])\n    store", "    store")),
    wrong("pipelined_matmul", "tiles are not waited for", [ORDER], (P_WAIT, "")),
    wrong("pipelined_matmul", "the parity of the turn", [ORDER], ("i // STAGES & 1", "i & 1")),
    wrong("pipelined_matmul", "always parity 0", [ORDER], ("i // STAGES & 1)", "0)")),
    wrong("pipelined_matmul", "fetches beyond the end", [ORDER], ("i % STAGES, i < steps", "i % STAGES, i < steps + 2")),
    wrong("pipelined_matmul", "bytes of a alone", [ORDER], ("a_desc.block_type.nbytes + b_desc.block_type.nbytes, pred", "a_desc.block_type.nbytes, pred")),
    wrong("pipelined_matmul", "two steps at least", [SHORT], ("c, N, K, STAGES=3", "c, N, K if K >= 128 else 0, STAGES=3")),
    wrong("pipelined_matmul", "a copy for show", [OVERLAPPED, TRAFFIC], (P_FIRST, P_SPARE), (P_WAIT, P_NEXT.replace("i + STAGES - 1", "i") + P_WAIT + P_SHOW), (P_DONE + P_NEXT, P_DONE.replace("wait(1", "wait(0") + "        mbarrier.wait(gone.index(0), i & 1)\n")),
    wrong("pipelined_matmul", "by threads", [TMA_IN, OVERLAPPED], source=BY_THREADS),
    wrong("pipelined_matmul", "outer products", [TMA_IN, WGMMA, OVERLAPPED], source=OUTER.replace("{name}", "pipelined_matmul")),
    wrong("pipelined_matmul", "in Triton", [KERNEL], source=IN_TRITON),
    wrong("pipelined_matmul", "torch multiplies", [KERNEL], ("    pipelined_kernel[", "    return a @ b\n    pipelined_kernel[")),
    wrong("pipelined_matmul", "the last step is missing", [PLAIN], ("steps = K // 64", "steps = (K - 1) // 64")),
    honest("pipelined_matmul", "two slots", ("STAGES=3", "STAGES=2")),
    honest("pipelined_matmul", "four slots", ("STAGES=3", "STAGES=4")),
    honest("pipelined_matmul", "fetches before it multiplies", (P_PRODUCT + P_DONE + P_NEXT, P_NEXT + P_PRODUCT + P_DONE.replace("wait(1", "wait(0"))),
]  # fmt: skip

# ----------------------------------------------------------------------------------------------------- specialised

W_EMPTY = "        mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)\n"
W_FULL = "        mbarrier.wait(full.index(s), i // STAGES & 1)\n"
W_PRODUCT = "        acc = mma(a_tiles.index(2 * s + HALF), b_tiles.index(s), acc, is_async=True)\n"
W_DONE, W_RELEASED = "        acc = mma_wait(0, deps=[acc])\n", "        mbarrier.arrive(empty.index(s))\n"
W_EACH = """        mbarrier.expect(full.index(s), 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
"""
W_LAST = "        tma_load(b_desc, [i * 64, column], full.index(s), b_tiles.index(s))\n"
TWICE = """        if HALF == 0:
            acc = mma(a_tiles.index(2 * s), b_tiles.index(s), acc, is_async=True)
            other = mma(a_tiles.index(2 * s + 1), b_tiles.index(s), other, is_async=True)
            acc, other = mma_wait(0, deps=[acc, other])
"""
IN_ONE = """def tiles_of(x):
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    return TensorDescriptor.from_tensor(x, [64, 64], layout)


@gluon.jit
def in_one_kernel(a_desc, b_desc, c_ptr, N, K):
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a_tile = gl.allocate_shared_memory(a_desc.dtype, [64, 64], a_desc.layout)
    b_tile = gl.allocate_shared_memory(b_desc.dtype, [64, 64], b_desc.layout)
    full = new_barriers(1, 1)
    acc = gl.zeros((64, 64), gl.float32, LAYOUT)
    for i in range(K // 64):
        mbarrier.expect(full.index(0), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [gl.program_id(0) * 64, i * 64], full.index(0), a_tile)
        tma_load(b_desc, [i * 64, gl.program_id(1) * 64], full.index(0), b_tile)
        mbarrier.wait(full.index(0), i & 1)
        acc = mma(a_tile, b_tile, acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
    offs_m = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
    offs_n = gl.program_id(1) * 64 + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))
    gl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


def warp_specialised_matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    in_one_kernel[(M // 64, N // 64)](tiles_of(a), tiles_of(b), c, N, K, num_warps=4)
    return c
"""
SPECIALISED_VARIANTS = [
    wrong("warp_specialised_matmul", "released before the product has ended", [ORDER], (W_DONE + W_RELEASED, W_RELEASED + W_DONE)),
    wrong("warp_specialised_matmul", "a product may be under way at the release", [ORDER], (W_DONE, W_DONE.replace("wait(0", "wait(1"))),
    wrong("warp_specialised_matmul", "nothing is released", [ORDER], (W_RELEASED, "")),
    wrong("warp_specialised_matmul", "one reader is counted", [ORDER], ("new_barriers(STAGES, 2)", "new_barriers(STAGES, 1)")),
    wrong("warp_specialised_matmul", "the bytes of one tile are not expected", [ORDER], (" + b_desc.block_type.nbytes", "")),
    wrong("warp_specialised_matmul", "three readers are counted", [ORDER], ("new_barriers(STAGES, 2)", "new_barriers(STAGES, 3)")),
    wrong("warp_specialised_matmul", "one consumer releases", [ORDER], (W_RELEASED, W_RELEASED.replace("        mb", "        if HALF == 0:\n            mb"))),
    wrong("warp_specialised_matmul", "the producer begins with parity 0", [ORDER], ("(i // STAGES + 1) & 1", "i // STAGES & 1")),
    wrong("warp_specialised_matmul", "the producer does not wait", [ORDER], (W_EMPTY, "")),
    wrong("warp_specialised_matmul", "tiles are not waited for", [ORDER], (W_FULL, "")),
    wrong("warp_specialised_matmul", "the parity flips once", [ORDER], ("full.index(s), i // STAGES & 1", "full.index(s), gl.minimum(i // STAGES, 1) & 1")),
    wrong("warp_specialised_matmul", "ten steps at most", [LONG], ("c, N, K, STAGES=3", "c, N, min(K, 640), STAGES=3")),
    wrong("warp_specialised_matmul", "the half of the other", [PLAIN], ("index(2 * s + HALF)", "index(2 * s + 1 - HALF)")),
    wrong("warp_specialised_matmul", "outer products", [WGMMA, SPECIALISED, TRAFFIC], source=OUTER.replace("{name}", "warp_specialised_matmul")),
    wrong("warp_specialised_matmul", "torch multiplies", [KERNEL], ("    specialised_kernel[", "    return a @ b\n    specialised_kernel[")),
    wrong("warp_specialised_matmul", "short K is left out", [SHORT], ("c, N, K, STAGES=3", "c, N, K if K >= 128 else 0, STAGES=3")),
    wrong("warp_specialised_matmul", "all in one partition", [SPECIALISED, TRAFFIC], source=IN_ONE),
    wrong("warp_specialised_matmul", "one consumer does it all", [SPECIALISED], ("    for i in range(steps):\n        s = i % STAGES\n        mbarrier.wait(full", "    other = gl.zeros((64, 64), gl.float32, LAYOUT)\n    for i in range(steps):\n        s = i % STAGES\n        mbarrier.wait(full"), (W_PRODUCT + W_DONE, TWICE), ("    store_tile(c_ptr, acc, gl.program_id(0) * 128 + HALF * 64, gl.program_id(1) * 64, N)\n", "    if HALF == 0:\n        store_tile(c_ptr, acc, gl.program_id(0) * 128, gl.program_id(1) * 64, N)\n        store_tile(c_ptr, other, gl.program_id(0) * 128 + 64, gl.program_id(1) * 64, N)\n")),
    wrong("warp_specialised_matmul", "b twice into one slot", [ORDER], (W_EACH, W_EACH.replace("+ b_desc", "+ 2 * b_desc")), (W_LAST, 2 * W_LAST)),
    wrong("warp_specialised_matmul", "a tile of b for each", [TRAFFIC], (W_EACH, W_EACH.replace("+ b_desc", "+ 2 * b_desc")), (W_LAST, W_LAST.replace("index(s))\n", "index(2 * s))\n") + W_LAST.replace("index(s))\n", "index(2 * s + 1))\n")), ("b_tiles.index(s), acc", "b_tiles.index(2 * s + HALF), acc"), ("b_tiles.shape[0]", "b_tiles.shape[0] // 2"), ("b_desc.dtype, [STAGES, 64", "b_desc.dtype, [2 * STAGES, 64"), tells="tma_load(b_desc"),
    honest("warp_specialised_matmul", "two slots", ("STAGES=3", "STAGES=2")),
    honest("warp_specialised_matmul", "b is fetched first", (W_LAST, ""), (W_EACH, W_EACH + W_LAST)),
]  # fmt: skip

# ----------------------------------------------------------------------------------------------------- persistent

T_STORE = "        tma_store(c_desc, [at // columns * 64, at % columns * 64], out)\n"
T_STORED = "        store_wait(0)  # the last tile has left its slot\n"
T_FENCE = "        fence_async_shared()\n"
T_DONE, T_RELEASED = "            acc = mma_wait(0, deps=[acc])\n", "            mbarrier.arrive(empty.index(s))\n"
T_BY_THREADS = """        offs_m = at // columns * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
        offs_n = at % columns * 64 + gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))
        gl.store(c_ptr + offs_m[:, None] * (columns * 64) + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))
"""
PERSISTENT_VARIANTS = [
    wrong("persistent_matmul", "each store is waited for at once", [STORES], (T_STORE, T_STORE + "        store_wait(0)\n")),
    wrong("persistent_matmul", "the slot is written while it is stored", [ORDER], (T_STORED, "")),
    wrong("persistent_matmul", "the last store is not waited for", [ORDER], (T_STORE + "    store_wait(0)\n", T_STORE)),
    wrong("persistent_matmul", "no fence", [ORDER], (T_FENCE, "")),
    wrong("persistent_matmul", "the producer begins anew with each tile", [ORDER], ("            tma_load(b_desc, [k * 64, at % columns * 64], full.index(s), b_tiles.index(s))\n        done += steps\n", "            tma_load(b_desc, [k * 64, at % columns * 64], full.index(s), b_tiles.index(s))\n")),
    wrong("persistent_matmul", "both begin anew with each tile", [ORDER], ("        done += steps\n", "")),
    wrong("persistent_matmul", "released before the product has ended", [ORDER], (T_DONE + T_RELEASED, T_RELEASED + T_DONE)),
    wrong("persistent_matmul", "a program for each tile", [PERSISTENT, STORES], ("persistent_kernel[(programs,)]", "persistent_kernel[(M // 64 * (N // 64),)]")),
    wrong("persistent_matmul", "one program", [PERSISTENT], ("persistent_kernel[(programs,)]", "persistent_kernel[(1,)]")),
    wrong("persistent_matmul", "one program does it all", [PERSISTENT], ("range(gl.program_id(0), tiles, gl.num_programs(0))", "range(gl.program_id(0) * tiles, tiles, 1)")),
    wrong("persistent_matmul", "whole rounds alone", [UNEVEN], ("N // 64, M // 64 * (N // 64), K // 64", "N // 64, max(programs, M // 64 * (N // 64) // programs * programs), K // 64")),
    wrong("persistent_matmul", "threads store", [TMA_OUT, STORES], (T_STORED + "        out.store(acc.to(c_desc.dtype))\n" + T_FENCE + T_STORE, T_BY_THREADS), ("(consume_tiles, (c_desc, out,", "(consume_tiles, (c_ptr, out,"), ("def consume_tiles(c_desc,", "def consume_tiles(c_ptr,"), ("def persistent_kernel(a_desc, b_desc, c_desc,", "def persistent_kernel(a_desc, b_desc, c_desc, c_ptr,"), ("a_desc, b_desc, c_desc, N // 64,", "a_desc, b_desc, c_desc, c, N // 64,")),
    wrong("persistent_matmul", "torch multiplies", [KERNEL], ("    persistent_kernel[", "    return a @ b\n    persistent_kernel[")),
    wrong("persistent_matmul", "rows for columns", [PLAIN], ("[at // columns * 64, at % columns * 64], out)", "[at % columns * 64, at // columns * 64], out)")),
    honest("persistent_matmul", "four slots", ("STAGES=3", "STAGES=4")),
    honest("persistent_matmul", "two slots for results", ("[64, 64], c_desc.layout", "[2, 64, 64], c_desc.layout"), (T_STORED, "        store_wait(1)\n        mine = out.index(at // gl.num_programs(0) % 2)\n"), ("        out.store(acc", "        mine.store(acc"), (T_STORE, T_STORE.replace(", out)", ", mine)"))),
]  # fmt: skip

# ----------------------------------------------------------------------------------------------------- attention

A_SCORES = "        s = issue_scores(q, ks, i)\n"
A_VALUES = "        acc = issue_values(p, vs, i - 1, acc)\n"
A_WAIT_S = "        s = mma_wait(1, deps=[s])  # all but the newest product: that of acc runs on\n"
A_RELEASE_K, A_RELEASE_V = "        release(ks, i)\n", "        release(vs, i - 1)\n"
A_SOFTMAX = "        e, m, l, alpha = softmax_step(s, m, l, scale)\n"
A_WAIT_V = "        acc = mma_wait(0, deps=[acc])\n"
A_P, A_ALPHA = "        p = as_operand(e, q)\n", "        acc = acc * alpha[:, None]\n"
TURN = A_SCORES + A_VALUES + A_WAIT_S + A_RELEASE_K + A_SOFTMAX + A_WAIT_V + A_RELEASE_V + A_P + A_ALPHA
WAITS = (
    A_SCORES
    + A_WAIT_S.replace("wait(1", "wait(0")
    + A_RELEASE_K
    + A_VALUES
    + A_WAIT_V
    + A_RELEASE_V
    + A_SOFTMAX
    + A_P
    + A_ALPHA
)
BOTH = (
    A_SCORES
    + A_VALUES
    + A_WAIT_V
    + A_WAIT_S.replace("wait(1", "wait(0")
    + A_RELEASE_K
    + A_SOFTMAX
    + A_RELEASE_V
    + A_P
    + A_ALPHA
)
FOR_SHOW = (
    A_SCORES
    + A_WAIT_S.replace("wait(1", "wait(0")
    + A_VALUES
    + A_WAIT_V
    + A_RELEASE_V
    + A_SCORES.replace("s = ", "show = ")
    + A_SOFTMAX
    + "        show = mma_wait(0, deps=[show])\n"
    + A_RELEASE_K
    + A_P
    + A_ALPHA
)
ATTENTION = [
    wrong("overlapped_attention", "each product is waited for", [AHEAD, BESIDE], (TURN, WAITS)),
    wrong("overlapped_attention", "both are waited for before the softmax", [BESIDE], (TURN, BOTH)),
    wrong("overlapped_attention", "scores are used before they are there", [ORDER], ("s = mma_wait(1", "s = mma_wait(2")),
    wrong("overlapped_attention", "acc is corrected while it is added to", [COMPILES], (A_WAIT_V + A_RELEASE_V + A_P + A_ALPHA, A_ALPHA + A_WAIT_V + A_RELEASE_V + A_P), tells="at the end of each turn"),
    wrong("overlapped_attention", "keys are released too early", [ORDER], (A_WAIT_S + A_RELEASE_K, A_RELEASE_K + A_WAIT_S)),
    wrong("overlapped_attention", "values are released too early", [ORDER], (A_WAIT_V + A_RELEASE_V, A_RELEASE_V + A_WAIT_V)),
    wrong("overlapped_attention", "values are not released", [ORDER], (A_RELEASE_V, "")),
    wrong("overlapped_attention", "the last values are missing", [ORDER], ("    acc = issue_values(p, vs, tiles - 1, acc)\n    acc = mma_wait(0, deps=[acc])\n    release(vs, tiles - 1)\n", "")),
    wrong("overlapped_attention", "acc is not corrected", [PLAIN], (A_ALPHA, "")),
    wrong("overlapped_attention", "no maxima", [LARGE], ("    m_new = gl.maximum(m, gl.max(s, 1) * scale)", "    m_new = gl.maximum(m, 0.0) * 0.0")),
    wrong("overlapped_attention", "a product for show", [AHEAD, NO_MORE], (TURN, FOR_SHOW)),
    wrong("overlapped_attention", "the first scores twice", [NO_MORE], ("    s = issue_scores(q, ks, 0)\n    s = mma_wait(0, deps=[s])\n", 2 * "    s = issue_scores(q, ks, 0)\n    s = mma_wait(0, deps=[s])\n")),
    wrong("overlapped_attention", "torch does it", [KERNEL], ("    attention_kernel[", "    return torch.softmax(q.float() @ k.float().mT / 8, -1).to(v.dtype) @ v\n    attention_kernel[")),
    wrong("overlapped_attention", "maxima do not grow", [PLAIN], ("    m_new = gl.maximum(m, gl.max(s, 1) * scale)", "    m_new = gl.maximum(m, gl.max(s, 1))")),
    honest("overlapped_attention", "p is made before the wait", (A_WAIT_V + A_RELEASE_V + A_P, A_P.replace("p =", "new =") + A_WAIT_V + A_RELEASE_V + "        p = new\n")),
]  # fmt: skip

# ----------------------------------------------------------------------------------------------------- predictions, races

RIGHT_RACES = {
    "A": ("overwritten while it is read", 18), "B": ("wrong phase", 16), "C": ("missing fence", 21),
    "D": ("read before it is there", 16), "E": ("wrong number of bytes", 6), "F": ("deadlock", 5),
    "number": 1, "G": ("missing fence", 21), "H": ("read before it is there", 8),
}  # fmt: skip


def races(**other):
    return f"named_races = {RIGHT_RACES | other!r}\n"


NAMED = [
    wrong("name_races", "other lines", [RACES], source=races(A=("overwritten while it is read", 3), B=("wrong phase", 4))),
    wrong("name_races", "other mistakes", [RACES], source=races(C=("deadlock", 21), D=("wrong phase", 16))),
    wrong("name_races", "no number", [RACES], source=races(number="one")),
    wrong("name_races", "the answers of another number", [RACES], source=races(number=3)),
    wrong("name_races", "kinds alone", [RACES], source=races(**{k: v[0] for k, v in RIGHT_RACES.items() if k != "number"})),
    wrong("name_races", "the same everywhere", [RACES], source=f"named_races = {dict.fromkeys('ABCDEFGH', ('deadlock', 5)) | {'number': 1}!r}\n"),
    honest("name_races", "other lines of the same accesses, another number", source=races(A=("overwritten while it is read", 7), F=("deadlock", 16), number=5, G=("TMA store not waited for", 22), H=("read before it is there", 16))),
]  # fmt: skip

PREDICTED = [
    wrong("predict_overlap", "all true", [TRUTHS], (": False,", ": True,")),
    wrong("predict_overlap", "all false", [TRUTHS], (": True,", ": False,")),
    wrong("predict_overlap", "one turned", [TRUTHS], ('of four instead of three: busy for 0.15 more of the time": False', 'of four instead of three: busy for 0.15 more of the time": True')),
    wrong("predict_overlap", "a stage ahead beats two", [TRUTHS], ('busier than two that wait": False', 'busier than two that wait": True')),
    wrong("predict_overlap", "a share", [NUMBERS], ("overlapped\": 81", "overlapped\": 0.81")),
    wrong("predict_overlap", "counters the other way", [NUMBERS], ("kernel\": 51", "kernel\": 81"), ("overlapped\": 81", "overlapped\": 51")),
    wrong("predict_overlap", "numbers for words", [TRUTHS], (": True,", ": 1,"), (": False,", ": 0,")),
    honest("predict_overlap", "computed", ("\": 51", "\": 50 + 1")),
]  # fmt: skip

VARIANTS = [*PIPELINED, *SPECIALISED_VARIANTS, *PERSISTENT_VARIANTS, *ATTENTION, *NAMED, *PREDICTED]
