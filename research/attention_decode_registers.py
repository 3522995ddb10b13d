"""One token's attention to a long cache, with keys in registers, in Gluon: a step beyond attention_decode.py.

Shares, their states and the merge by the last one are as they are there. What differs is the walk: **each warp walks over its own
keys**, 16 at a time, which go from memory to registers to the tensor cores. Nothing passes through shared memory, and no warp waits for
another one before all its keys are done. A warp asks for the next 16 keys and values while the last ones are multiplied.

A thread loads pieces of 16 bytes of a row, and the tensor cores want a few numbers from here and a few from there. But the order of a
row's numbers is free, if q's have the same order, and so is the order of keys, if the probabilities have it. So `keys_for_mma` and
`values_for_mma` give new names to what each thread holds, and move nothing between threads; `assert_trivial` lets the compiler check
that. Eight lanes read one line of 128 bytes. The tensor cores take only four lanes' numbers for one key, so both halves of each line
stand as keys of their own, and q has 16 rows: the first halves for 8 heads, then the second halves for the same 8. Where first meets
first and second meets second, the sum of the two products is the score; the other products are thrown away (`scores`).

It takes groups of up to 8 heads, D of 64 or 128, numbers of 16 bits, and pages of 16, 32, 48, ... keys: then the 16 keys of a warp lie
in one page, and cost one look into the table. It needs Gluon and sm_80; importing this needs neither.

What it took, on an H100, as in attention_decode.py (32 heads of q on 8, D 128, bfloat16); microseconds, each the median of 25 in turns:

                                          8192 keys   65,536 keys   both in pages of 16
attention_decode.py                           21.9       102.5       24.4   108.9
each warp its own keys                        22.5       105.3                        no tile in shared memory, no barrier
evict_first                                   20.0       105.3       20.7   107.0
lines read whole, O = (V^T P^T)^T             19.6       103.8       20.0   104.9       32 registers of sums, not 64: half were of no head
evict_first only up to 3 times the L2         19.4       102.2       19.9   104.4       0.82, 0.91 of a copy; pages 2 to 3 % more
nothing but reading k and v                   17.2       100.0

**What evict_first does**: before a measurement the L2 is full of lines that were written, and each must go to memory before its place is
free. That slows down whoever reads: reading k and v of 8192 keys takes 19.8 us, or 17.2 if each line may be evicted before all others,
since then lines of k and v make room for one another. If the L2 holds lines that were only read, both take 14.9 us, and this kernel and
attention_decode.py both take 17.9 (a copy 12.4). So evict_first is worth 2 us after kernels that wrote much, and nothing otherwise; beyond
a few times the L2 it costs some 3 % (why, no counter was asked).

Of the 19.4 us at 8192 keys the count takes 0.6 and the merge 0.5. No faster: k two steps ahead; 4 warps, in 1, 2 or 3 programs for each
SM (20.1, 21.4, 23.2); a ring of three to six tiles that TMA fills (23.5, without evict_first, which Triton 3.6 gives to no copy into
shared memory). In attention_decode.py: more stages (22.5, 22.9), q asked for after the first tiles (22.6), tiles in registers
(21.8 with evict_first, but 107.1), and a product for each warp by a third dimension of `tl.dot` (25.5: a sum over warps takes 3 us).
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl

try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.ampere import mma_v2

    jit, constexpr_function = gluon.jit, gluon.constexpr_function
    barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier  # until Triton 3.6
except ImportError:  # an older Triton: this can be read, not run

    def jit(fn):
        return fn

    constexpr_function = jit


LOG2_E = 1.4426950408889634
L2S = 3  # times the L2: what is no longer is evicted first
KEYS, ROWS = tl.constexpr(16), tl.constexpr(8)  # keys of a warp's tile, heads of q that there is room for
LOWEST = tl.constexpr(-3.4028234663852886e38)  # a maximum of nothing: unlike -inf it can be subtracted from itself
STATES = tl.constexpr(16)  # that are merged at once
WARPS = 8


@constexpr_function
def values_layout(W, D):
    """Return who loads which words (two numbers) of a tile of v: eight lanes read a line of a row, a warp four rows."""
    registers = [[0, 0, 1], [0, 0, 2], [0, 4, 0], [0, 8, 0]] + [[0, 0, 32]] * (D == 128)
    lanes = [[0, 1, 0], [0, 2, 0], [0, 0, 4], [0, 0, 8], [0, 0, 16]]
    return gl.DistributedLinearLayout(
        registers, lanes, [[1 << i, 0, 0] for i in range(W.bit_length() - 1)], [], [W, 16, D // 2]
    )


@jit
def places(shape: gl.constexpr, layout: gl.constexpr):
    """The three coordinates of each element of a block, to be broadcast."""
    x = gl.arange(0, shape[0], gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    y = gl.arange(0, shape[1], gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :, None]
    z = gl.arange(0, shape[2], gl.SliceLayout(0, gl.SliceLayout(1, layout)))[None, None, :]
    return x, y, z


@jit
def page_of(table_ptr, at, stop, layout: gl.constexpr, W: gl.constexpr, PAGE: gl.constexpr):
    """The page of each warp's keys."""
    first = at + gl.arange(0, W, layout) * KEYS
    return gl.load(table_ptr + first // PAGE, mask=first < stop, other=0) if PAGE else first


@jit
def start_of(page, at, page_words, row_words, layout: gl.constexpr, W: gl.constexpr, PAGE: gl.constexpr):
    """Return where each warp's keys begin, in words."""
    first = at + gl.arange(0, W, layout) * KEYS
    if PAGE:
        return page.to(gl.int64) * page_words + first % PAGE * row_words
    else:
        return first.to(gl.int64) * row_words


@jit
def fetch(
    ptr, start, at, stop, row_words, layout: gl.constexpr, W: gl.constexpr, D: gl.constexpr, POLICY: gl.constexpr
):
    """Return (W, 16, D / 2) words. They stay words until they are used: whoever takes them apart waits for them."""
    w, key, word = places([W, KEYS, D // 2], layout)
    start = gl.convert_layout(start, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None, None]
    there = at + w * KEYS + key < stop
    return gl.load(ptr + start + (key * row_words + word), mask=there, other=0, eviction_policy=POLICY)


@jit
def numbers(words, dtype: gl.constexpr):
    """Return (..., 2): both numbers of each word."""
    return gl.join(words.to(gl.int16).to(dtype, bitcast=True), (words >> 16).to(gl.int16).to(dtype, bitcast=True))


@jit
def q_for_mma(q, layout: gl.constexpr):
    """Return q, (W, 8, D), as (W, 2 halves x 8, D / 2)."""
    W: gl.constexpr = q.shape[0]
    D: gl.constexpr = q.shape[2]
    q = q.reshape((W, ROWS, D // 64, 2, 4, 4, 2)).permute((0, 3, 1, 2, 5, 4, 6)).reshape((W, 2 * ROWS, D // 2))
    return gl.convert_layout(q, layout, assert_trivial=True)


@jit
def keys_for_mma(k, layout: gl.constexpr, dtype: gl.constexpr):
    """Return words of k as (W, D / 2, 16 x 2 halves), the numbers of a row in q's order."""
    W: gl.constexpr = k.shape[0]
    D: gl.constexpr = 2 * k.shape[2]
    k = (
        numbers(k, dtype)
        .reshape((W, KEYS, D // 64, 2, 4, 4, 2))
        .permute((0, 2, 5, 4, 6, 1, 3))
        .reshape((W, D // 2, 2 * KEYS))
    )
    return gl.convert_layout(k, layout, assert_trivial=True)


@jit
def scores(products):
    """Return (W, 8, 16) of products (W, 2 x 8, 16 x 2): first halves of q and k, and second ones, added."""
    W: gl.constexpr = products.shape[0]
    first, second = products.reshape((W, 2, ROWS, KEYS, 2)).split()
    return first.permute((0, 2, 3, 1)).split()[0] + second.permute((0, 2, 3, 1)).split()[1]


@jit
def values_for_mma(v, layout: gl.constexpr, dtype: gl.constexpr):
    """Return words of v as (W, D, 16)."""
    W: gl.constexpr = v.shape[0]
    D: gl.constexpr = 2 * v.shape[2]
    v = numbers(v, dtype).reshape((W, 2, 2, 4, D // 64, 8, 8)).permute((0, 4, 6, 5, 1, 3, 2)).reshape((W, D, KEYS))
    return gl.convert_layout(v, layout, assert_trivial=True)


@jit
def p_for_mma(p, layout: gl.constexpr, dtype: gl.constexpr):
    """Return p, (W, 8, 16), as (W, 16, 8), keys in the values' order."""
    W: gl.constexpr = p.shape[0]
    p = p.to(dtype).reshape((W, ROWS, 2, 2, 4)).permute((0, 2, 4, 3, 1)).reshape((W, KEYS, ROWS))
    return gl.convert_layout(p, layout, assert_trivial=True)


@jit
def empty(D: gl.constexpr, layout: gl.constexpr):
    """The state of no keys: m and l of 8 rows, and acc. `layout` is that of many states, (states, 8, D)."""
    m = gl.full((ROWS,), LOWEST, gl.float32, gl.SliceLayout(0, gl.SliceLayout(2, layout)))
    return m, gl.zeros_like(m), gl.zeros((ROWS, D), gl.float32, gl.SliceLayout(0, layout))


@jit
def column(x, like):
    """Return (8) as (8, 1), to be broadcast."""
    return gl.convert_layout(x, gl.SliceLayout(1, like.type.layout))[:, None]


@jit
def absorb(m, l, acc, m_part, l_part, acc_part):
    """Merge many states into one."""
    m_new = gl.maximum(m, gl.max(m_part, 0))
    alpha, factor = gl.exp2(m - m_new), gl.exp2(m_part - m_new[None, :])
    l = l * alpha + gl.sum(l_part * factor, 0)
    return m_new, l, acc * column(alpha, acc) + gl.sum(acc_part * factor[:, :, None], 0)


@jit
def merge(
    o_ptr, m_ptr, l_ptr, acc_ptr, first, splits,
    GROUP: gl.constexpr, D: gl.constexpr, SPLITS: gl.constexpr, layout: gl.constexpr,
):  # fmt: skip
    """Merge all shares' states to o. Behind the last share lie states of no keys."""
    m, l, acc = empty(D, layout)
    part, row, dim = places([STATES, ROWS, D], layout)
    parts = gl.arange(0, STATES, gl.SliceLayout(1, gl.SliceLayout(2, layout)))[:, None]
    rows = gl.arange(0, ROWS, gl.SliceLayout(0, gl.SliceLayout(2, layout)))[None, :]
    for at in range(first, first + splits, STATES):
        acc_part = gl.load(acc_ptr + at * D + ((row * SPLITS + part) * D + dim), mask=row < GROUP, other=0)
        m_part = gl.load(m_ptr + at + (rows * SPLITS + parts), mask=rows < GROUP, other=0)
        l_part = gl.load(l_ptr + at + (rows * SPLITS + parts), mask=rows < GROUP, other=0)
        m, l, acc = absorb(m, l, acc, m_part, l_part, acc_part)
    row = gl.arange(0, ROWS, gl.SliceLayout(1, acc.type.layout))[:, None]
    dim = gl.arange(0, D, gl.SliceLayout(0, acc.type.layout))[None, :]
    gl.store(o_ptr + (row * D + dim), (acc / column(l, acc)).to(o_ptr.dtype.element_ty), mask=row < GROUP)


@jit
def decode(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths, o_ptr, m_ptr, l_ptr, acc_ptr, done_ptr, strides, table_stride, scale,
    GROUP: gl.constexpr, D: gl.constexpr, PAGE: gl.constexpr, ALIKE: gl.constexpr, SPLITS: gl.constexpr, POLICY: gl.constexpr,
):  # fmt: skip
    """A share of the keys, for the heads of q of one text that read one head of k and v. PAGE is 0 for keys that are not in pages;
    `lengths` is a number if all texts are ALIKE; SPLITS is num_programs(0), rounded up to a multiple of STATES."""
    W: gl.constexpr = gl.num_warps()
    dtype: gl.constexpr = q_ptr.dtype.element_ty
    # Who holds what: a warp its own tiles, as they lie in memory for K and Q, and the products as the tensor cores make them.
    MMA: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [W, 1, 1], [1, 16, 8])
    LEFT: gl.constexpr = gl.DotOperandLayout(0, MMA, 2)
    RIGHT: gl.constexpr = gl.DotOperandLayout(1, MMA, 2)
    Q_LAYOUT: gl.constexpr = gl.BlockedLayout([1, 1, 8], [1, 8, 4], [W, 1, 1], [2, 1, 0])
    K_LAYOUT: gl.constexpr = gl.BlockedLayout([1, 1, 4], [1, 4, 8], [W, 1, 1], [2, 1, 0])
    V_LAYOUT: gl.constexpr = values_layout(W, D)
    OF_A_WARP: gl.constexpr = gl.SliceLayout(1, gl.SliceLayout(2, K_LAYOUT))
    OF_WARPS: gl.constexpr = gl.BlockedLayout([W, 1, D // 32], [1, 1, 32], [1, W, 1], [2, 0, 1])  # all states of a head
    OF_SHARES: gl.constexpr = gl.BlockedLayout([STATES, 1, D // 32], [1, 1, 32], [1, W, 1], [2, 0, 1])
    STEP: gl.constexpr = W * KEYS

    split, splits, batch = gl.program_id(0), gl.num_programs(0), gl.program_id(2).to(gl.int64)
    j = batch * gl.num_programs(1) + gl.program_id(1)
    length = lengths if ALIKE else gl.load(lengths + batch)
    share = gl.cdiv(gl.cdiv(length, splits), KEYS) * KEYS
    first, stop = split * share, gl.minimum((split + 1) * share, length)
    head = gl.program_id(1) * strides[1].to(gl.int64)
    if PAGE:
        table_ptr += batch * table_stride
    else:
        head += batch * strides[0]
    k_ptr = (k_ptr + head).to(gl.pointer_type(gl.int32), bitcast=True)
    v_ptr = (v_ptr + head).to(gl.pointer_type(gl.int32), bitcast=True)
    page_words, row_words = strides[0] // 2, strides[2] // 2

    page = page_of(table_ptr, first, stop, OF_A_WARP, W, PAGE)
    start = start_of(page, first, page_words, row_words, OF_A_WARP, W, PAGE)
    page = page_of(table_ptr, first + STEP, stop, OF_A_WARP, W, PAGE)  # a step ahead of the keys
    k = fetch(k_ptr, start, first, stop, row_words, K_LAYOUT, W, D, POLICY)
    v = fetch(v_ptr, start, first, stop, row_words, V_LAYOUT, W, D, POLICY)
    w, row, dim = places([W, ROWS, D], Q_LAYOUT)
    q = gl.load(q_ptr + j * GROUP * D + (row * D + dim + 0 * w), mask=row < GROUP, other=0)
    q = q_for_mma(q, LEFT)

    none = gl.zeros((W, 2 * ROWS, 2 * KEYS), gl.float32, MMA)
    S_LAYOUT: gl.constexpr = scores(none).type.layout
    m = gl.full((W, ROWS), LOWEST, gl.float32, gl.SliceLayout(2, S_LAYOUT))
    l = gl.zeros((W, ROWS), gl.float32, gl.SliceLayout(2, S_LAYOUT))
    acc = gl.zeros((W, D, ROWS), gl.float32, MMA)
    w, row, key = places([W, ROWS, KEYS], S_LAYOUT)
    for at in range(first, stop, STEP):
        start = start_of(page, at + STEP, page_words, row_words, OF_A_WARP, W, PAGE)
        page = page_of(table_ptr, at + 2 * STEP, stop, OF_A_WARP, W, PAGE)
        s = scores(mma_v2(q, keys_for_mma(k, RIGHT, dtype), none))
        k = fetch(k_ptr, start, at + STEP, stop, row_words, K_LAYOUT, W, D, POLICY)
        s = gl.where(at + w * KEYS + key < stop, s * scale, -float("inf"))
        m_new = gl.maximum(m, gl.max(s, 2))
        alpha, p = gl.exp2(m - m_new), gl.exp2(s - m_new[:, :, None])
        l = l * alpha + gl.sum(p, 2)
        acc *= gl.convert_layout(alpha, gl.SliceLayout(1, MMA))[:, None, :]
        acc = mma_v2(values_for_mma(v, LEFT, dtype), p_for_mma(p, RIGHT, dtype), acc)
        v = fetch(v_ptr, start, at + STEP, stop, row_words, V_LAYOUT, W, D, POLICY)
        m = m_new

    # The warps' states meet in shared memory, the numbers of a row in memory's order again.
    acc = acc.reshape((W, D // 64, 8, 8, ROWS)).permute((0, 4, 1, 3, 2)).reshape((W, ROWS, D))
    BANKS: gl.constexpr = gl.SwizzledSharedLayout(4, 1, 8, [2, 1, 0])
    FLAT: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    ms = gl.allocate_shared_memory(gl.float32, [W, ROWS], FLAT, m)
    ls = gl.allocate_shared_memory(gl.float32, [W, ROWS], FLAT, l)
    accs = gl.allocate_shared_memory(gl.float32, [W, ROWS, D], BANKS, acc)
    OF_MAXIMA: gl.constexpr = gl.SliceLayout(2, OF_WARPS)
    m, l, acc = empty(D, OF_WARPS)
    m, l, acc = absorb(m, l, acc, ms.load(OF_MAXIMA), ls.load(OF_MAXIMA), accs.load(OF_WARPS))
    row = gl.arange(0, ROWS, gl.SliceLayout(1, acc.type.layout))[:, None]
    dim = gl.arange(0, D, gl.SliceLayout(0, acc.type.layout))[None, :]
    state = j * GROUP * SPLITS + split
    gl.store(acc_ptr + state * D + (row * SPLITS * D + dim), acc, mask=row < GROUP)
    row = gl.arange(0, ROWS, m.type.layout)
    gl.store(m_ptr + state + row * SPLITS, m, mask=row < GROUP)
    gl.store(l_ptr + state + row * SPLITS, l, mask=row < GROUP)
    barrier()  # all threads have stored before one of them counts
    if gl.atomic_add(done_ptr + j, 1, sem="acq_rel") == splits - 1:
        merge(o_ptr + j * GROUP * D, m_ptr, l_ptr, acc_ptr, j * GROUP * SPLITS, splits, GROUP, D, SPLITS, OF_SHARES)
        gl.store(done_ptr + j, 0)


@cache
def room(heads: int, splits: int, D: int, groups: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """m, l and acc of all states, of no keys where there is no share, and a count for each head of k and v, which each launch leaves
    at 0. Launches that share it must come one after another: in one stream."""
    m = torch.full((heads, whole(splits)), -torch.inf, device=device)
    done = torch.zeros(groups, dtype=torch.int32, device=device)
    return m, torch.zeros_like(m), torch.zeros(*m.shape, D, device=device), done


def whole(splits: int) -> int:
    """Return a number of states, rounded up to whole rounds of merging."""
    return triton.cdiv(splits, STATES.value) * STATES.value


def launch(q, k, v, lengths: torch.Tensor | int, table=None, splits: int | None = None) -> torch.Tensor:
    """q (B, Hq, D), one query a head -> o (B, Hq, D); the arguments are those of attention_decode.launch, as far as this kernel takes
    them."""
    (B, Hq, D), (_, Hkv, slots, _) = q.shape, k.shape
    if k.stride() != v.stride():
        raise ValueError(f"k and v must lie alike: their strides are {k.stride()} and {v.stride()}")
    if D not in (64, 128) or q.element_size() != 2 or Hq // Hkv > ROWS.value:
        raise ValueError("this kernel takes D of 64 or 128, numbers of 16 bits, and groups of up to 8 heads")
    if table is not None and slots % KEYS.value:
        raise ValueError(f"this kernel takes pages of 16, 32, 48, ... keys, not of {slots}")
    if any(stride % 8 for stride in k.stride()[:3]) or k.stride(3) != 1:
        raise ValueError("this kernel takes rows that begin at multiples of 16 bytes")
    gpu = torch.cuda.get_device_properties(q.device)
    most = slots if table is None else table.shape[1] * slots
    if splits is None:
        splits = max(1, min(triton.cdiv(most, 64), gpu.multi_processor_count // (B * Hkv)))
    short = 2 * B * Hkv * most * D * q.element_size() <= L2S * gpu.L2_cache_size
    o = torch.empty_like(q)
    decode[(splits, Hkv, B)](
        q, k, v, table, lengths, o, *room(B * Hq, splits, D, B * Hkv, q.device),
        k.stride(), 0 if table is None else table.stride(0), D**-0.5 * LOG2_E,
        GROUP=Hq // Hkv, D=D, PAGE=0 if table is None else slots, ALIKE=isinstance(lengths, int), SPLITS=whole(splits),
        POLICY="evict_first" if short else "", num_warps=WARPS,
    )  # fmt: skip
    return o
