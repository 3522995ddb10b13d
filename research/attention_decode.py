"""One token's attention to a long cache, in one launch: a step beyond unit 09's `flash_decode` and unit 12's `paged_decode`.

A text's keys are cut into shares; a program walks over one share, for the heads of q that read one head of k and v (their group is the
tile's rows). It leaves its state, (m, l, acc), in memory and counts itself as done; **the last one of a head merges all states**, so
that no second launch waits for the first one to end, and sets the count back for the next token. Keys lie one after another or in
pages, which a table names; one kernel reads both.

The time is that of reading k and v once. So there are as many programs as can run at once, and each has several tiles on their way at a
time (`STAGES`). It runs on any GPU that Triton knows, and under the course's trace without one.

What it took, on an H100, 32 heads of q on 8 of k and v, D 128, bfloat16; microseconds, and the share of a copy's speed with as many bytes:

                                   8192 keys   65,536 keys   both in pages of 16
unit 09, two launches, best shares    24.0       106.1
the last share merges, head by head   24.9       105.5    27.5  112.6       each head's states are loaded when the head before is done
all heads' states at once             22.1       102.4    23.7  107.8       loads wait for memory once
k, v lie alike, lengths are a number  21.8       101.8    24.1  107.7       half the addresses: 0.72, 0.92 of a copy; 0.66, 0.87 in pages

The last line is the best of many settings, as the others are. In pages of 16 the kernel needs 10 and 6 % more time (none with 64
texts). Where the table is asked in the step that fetches, Triton does not fetch early at all; asked a step ahead, it does. A random order
of pages costs 2 % of that at 65,536 keys, the addresses of each key the rest. Tiles of 32 or 128 keys, 2 or 8 warps, and more programs
were slower, or no faster. attention_decode_registers.py is faster, needs 1 to 3 % more for pages, and says what else was tried.

With 1024 keys, one tile for each program, 9.1 us are: 3.2 for a kernel that does nothing, 3.3 more to read k and v, 1.3 for the products,
0.2 for the states, 0.6 for the count, 0.5 for the merge.
"""

from __future__ import annotations

from functools import cache

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
BLOCK_N, WARPS, STAGES = 64, 4, 3  # keys of a tile; one tile less than STAGES is on its way
PROGRAMS = (1, 2)  # for each SM, without pages and with: addresses are computed for each key then, and two hide that
MERGED = 128  # states of heads that are read at once


@triton.jit
def page_of(keys, stop, batch, table_ptr, table_stride, PAGE: tl.constexpr):
    """The page of each key; without pages, a text is one."""
    if PAGE:
        return tl.load(table_ptr + batch * table_stride + keys // PAGE, mask=keys < stop, other=0).to(tl.int64)
    else:
        return batch


@triton.jit
def decode(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths, o_ptr, m_ptr, l_ptr, acc_ptr, done_ptr,
    strides, table_stride, scale, Hkv, GROUP: tl.constexpr, D: tl.constexpr, PAGE: tl.constexpr, ALIKE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, MERGED: tl.constexpr,
):  # fmt: skip
    """A share of the keys, for the heads of q of one text that read one head of k and v. PAGE is 0 for keys that are not in pages;
    `lengths` is a number if all texts are ALIKE."""
    split, splits, j = tl.program_id(0), tl.num_programs(0), tl.program_id(1).to(tl.int64)
    batch, head = j // Hkv, j % Hkv
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, D)
    heads, real = j * GROUP + rows, rows < GROUP  # of q
    length = lengths if ALIKE else tl.load(lengths + batch)
    share = tl.cdiv(tl.cdiv(length, splits), 16) * 16
    stop = tl.minimum((split + 1) * share, length)
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=real[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    k_ptr += head * strides[1]
    v_ptr += head * strides[1]
    keys = split * share + tl.arange(0, BLOCK_N)
    page = page_of(keys, stop, batch, table_ptr, table_stride, PAGE)
    for _ in range(split * share, stop, BLOCK_N):
        there = keys < stop
        place = keys % PAGE if PAGE else keys
        kv_offs = (page * strides[0] + place * strides[2])[:, None] + dims[None, :]
        keys += BLOCK_N
        # A step ahead: Triton fetches tiles early only where it need not ask first where they lie.
        page = page_of(keys, stop, batch, table_ptr, table_stride, PAGE)
        k = tl.load(k_ptr + kv_offs, mask=there[:, None], other=0)
        v = tl.load(v_ptr + kv_offs, mask=there[:, None], other=0)
        s = tl.where(there[None, :], tl.dot(q, k.T, input_precision="ieee") * scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp2(m - m_new), tl.exp2(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m = m_new
    at = heads * splits + split
    tl.store(m_ptr + at, m, mask=real)
    tl.store(l_ptr + at, l, mask=real)
    tl.store(acc_ptr + at[:, None] * D + dims[None, :], acc, mask=real[:, None])
    tl.debug_barrier()  # all threads have stored before one of them counts
    if tl.atomic_add(done_ptr + j, 1, sem="acq_rel") == splits - 1:
        merge(o_ptr, m_ptr, l_ptr, acc_ptr, j * GROUP, splits, GROUP, D, MERGED)
        tl.store(done_ptr + j, 0)


@triton.jit
def merge(o_ptr, m_ptr, l_ptr, acc_ptr, first, splits, GROUP: tl.constexpr, D: tl.constexpr, MERGED: tl.constexpr):
    """The states of all heads of a group at once, (head, state, D), as many as registers hold: each load waits for memory once."""
    ROWS: tl.constexpr = triton.next_power_of_2(GROUP)
    STATES: tl.constexpr = MERGED // ROWS if MERGED > ROWS else 1
    rows, dims = tl.arange(0, ROWS), tl.arange(0, D)
    m = tl.full((ROWS,), -float("inf"), tl.float32)
    l = tl.zeros((ROWS,), tl.float32)
    acc = tl.zeros((ROWS, D), tl.float32)
    for i in range(0, splits, STATES):
        parts = i + tl.arange(0, STATES)
        at = (first + rows)[:, None] * splits + parts[None, :]
        there = (rows < GROUP)[:, None] & (parts < splits)[None, :]
        m_part = tl.load(m_ptr + at, mask=there, other=-float("inf"))
        l_part = tl.load(l_ptr + at, mask=there, other=0)
        acc_part = tl.load(acc_ptr + at[:, :, None] * D + dims[None, None, :], mask=there[:, :, None], other=0)
        m_new = tl.maximum(m, tl.max(m_part, 1))  # the first share has keys
        alpha, factor = tl.exp2(m - m_new), tl.exp2(m_part - m_new[:, None])
        l = l * alpha + tl.sum(factor * l_part, 1)
        acc = acc * alpha[:, None] + tl.sum(factor[:, :, None] * acc_part, 1)
        m = m_new
    o = (acc / l[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + (first + rows)[:, None] * D + dims[None, :], o, mask=(rows < GROUP)[:, None])


@cache
def room(heads: int, splits: int, D: int, groups: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """m, l and acc of all states, and a count for each head of k and v, which each launch leaves at 0. Launches that share it must
    come one after another: in one stream."""
    m, l = torch.empty(2, heads, splits, device=device)
    done = torch.zeros(groups, dtype=torch.int32, device=device)
    return m, l, torch.empty(heads, splits, D, device=device), done


def launch(q, k, v, lengths: torch.Tensor | int, table=None, splits: int | None = None) -> torch.Tensor:
    """q (B, Hq, D), one query a head -> o (B, Hq, D); lengths (B,), int32, how many keys each text has, 1 or more, or one number.

    Without a table, k and v are (B, Hkv, slots, D); with table (B, n), int32, (pages, Hkv, page, D), where key i of text b lies in page
    table[b, i // page], at place i % page. k and v have the same strides, the last of them 1; D is 16, 32, 64 or 128.
    """
    if k.stride() != v.stride():
        raise ValueError(f"k and v must lie alike: their strides are {k.stride()} and {v.stride()}")
    (B, Hq, D), (_, Hkv, slots, _) = q.shape, k.shape
    most = slots if table is None else table.shape[1] * slots
    if splits is None:
        sms = torch.cuda.get_device_properties(q.device).multi_processor_count
        splits = max(1, min(triton.cdiv(most, BLOCK_N), PROGRAMS[table is not None] * sms // (B * Hkv)))
    o = torch.empty_like(q)
    rest = (k.stride(), 0 if table is None else table.stride(0), D**-0.5 * LOG2_E, Hkv)
    decode[(splits, B * Hkv)](
        q, k, v, table, lengths, o, *room(B * Hq, splits, D, B * Hkv, q.device), *rest,
        GROUP=Hq // Hkv, D=D, PAGE=0 if table is None else slots, ALIKE=isinstance(lengths, int),
        BLOCK_M=max(16, triton.next_power_of_2(Hq // Hkv)), BLOCK_N=BLOCK_N, MERGED=MERGED, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    return o


def in_pages(x: torch.Tensor, page: int, order: torch.Tensor) -> torch.Tensor:
    """Return (B, Hkv, n, D), n a multiple of `page`, as (pages, Hkv, page, D): page i of all texts, one after another, lies in place
    order[i], and order.view(B, -1) is the table."""
    B, H, n, D = x.shape
    pages = x.view(B, H, n // page, page, D).transpose(1, 2).reshape(B * n // page, H, page, D)
    return torch.empty_like(pages).index_copy_(0, order, pages)
