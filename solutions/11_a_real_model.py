# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11 · Your kernels in a real model
#
# **After this unit you can** put the kernels of the earlier units into a model, and write text with it. About three hours,
# {{unit minutes}} of them for {{unit exercises}}.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## Exercise: the cache
#
# {{exercise model.kv_cache}}
#
# Full marks need
# * any pieces ({{correct.ragged}}), a ring ({{correct.ring}}), a prompt longer than the ring ({{correct.long}}),
# * each token moved once ({{moves.performance}}), in a full ring, too ({{moves.full ring}}), and nothing else allocated ({{buffers_below.full ring}}).


# %% exercise="model.kv_cache"
class KVCache:
    """Keys and values of one layer, (B, Hkv, slots, D) each: token t is in slot t % slots."""

    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)
        self.slots, self.length = slots, 0  # tokens that have come, those that were written over among them

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k, v (B, Hkv, n, D), the next n tokens -> views (B, Hkv, min(length, slots), D) of all that are kept."""
        ### BEGIN SOLUTION
        new = k.shape[2]
        skip = max(0, new - self.slots)  # of a prompt longer than the ring, its end
        start = (self.length + skip) % self.slots
        first = min(new - skip, self.slots - start)  # up to the end of the ring; the others go to its beginning
        for cache, x in (self.k, k), (self.v, v):
            cache[:, :, start : start + first] = x[:, :, skip : skip + first]
            cache[:, :, : new - skip - first] = x[:, :, skip + first :]
        self.length += new
        n = min(self.length, self.slots)
        return self.k[:, :, :n], self.v[:, :, :n]
        ### END SOLUTION


# %% check="model.kv_cache"
check("model.kv_cache", KVCache)

# %% [markdown]
# ## Exercise: one more token
#
# {{exercise model.decode_step}}
#
# Full marks need
# * positions ({{correct.positions}}), any group ({{correct.ragged}}), a ring ({{correct.ring}}), half precision ({{correct.half}}),
# * bytes ({{traffic.performance}}), programs ({{read_together.performance}}), no copy ({{buffers_below.performance}}), launches ({{launches.performance}}).


# %% exercise="model.decode_step"
@triton.jit
def append_kernel(
    q_ptr, k_ptr, v_ptr, cos_ptr, sin_ptr, turned_ptr, cache_k_ptr, cache_v_ptr,
    q_strides, k_strides, v_strides, cache_k_strides, cache_v_strides, position, slot, GROUP: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One text and one head of k and v: its heads of q and k turned, q to a buffer (B, Hq, D), k and v to their slot."""
    ### BEGIN SOLUTION
    batch, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    half, dims = tl.arange(0, D // 2), tl.arange(0, D)
    cos, sin = tl.load(cos_ptr + position * (D // 2) + half), tl.load(sin_ptr + position * (D // 2) + half)
    for g in tl.static_range(GROUP):
        q_at = q_ptr + batch * q_strides[0] + (head * GROUP + g) * q_strides[1] + half
        a, b = tl.load(q_at).to(tl.float32), tl.load(q_at + D // 2).to(tl.float32)
        out = turned_ptr + ((batch * tl.num_programs(1) + head) * GROUP + g) * D + half
        tl.store(out, a * cos - b * sin)
        tl.store(out + D // 2, b * cos + a * sin)
    k_at = k_ptr + batch * k_strides[0] + head * k_strides[1] + half
    a, b = tl.load(k_at).to(tl.float32), tl.load(k_at + D // 2).to(tl.float32)
    to = cache_k_ptr + batch * cache_k_strides[0] + head * cache_k_strides[1] + slot * cache_k_strides[2] + half
    tl.store(to, a * cos - b * sin)
    tl.store(to + D // 2, b * cos + a * sin)
    v = tl.load(v_ptr + batch * v_strides[0] + head * v_strides[1] + dims)  # a value has no position
    tl.store(cache_v_ptr + batch * cache_v_strides[0] + head * cache_v_strides[1] + slot * cache_v_strides[2] + dims, v)
    ### END SOLUTION


@triton.jit
def cached_share_kernel(
    q_ptr, k_ptr, v_ptr, m_ptr, l_ptr, acc_ptr, k_strides, v_strides, scale, n, share, Hkv,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The state of a group's rows after one share of the n keys of a cache: m and l (B Hq, splits), acc (B Hq, splits, D)."""
    ### BEGIN SOLUTION
    split, j = tl.program_id(0), tl.program_id(1).to(tl.int64)
    batch, head = j // Hkv, j % Hkv
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, D)
    heads = j * GROUP + rows  # of q, which is contiguous
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=(rows < GROUP)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    stop = tl.minimum((split + 1) * share, n)
    k_ptr += batch * k_strides[0] + head * k_strides[1]
    v_ptr += batch * v_strides[0] + head * v_strides[1]
    for i in range(split * share, stop, BLOCK_N):
        keys = i + tl.arange(0, BLOCK_N)
        there = (keys < stop)[:, None]
        k = tl.load(k_ptr + keys[:, None] * k_strides[2] + dims[None, :], mask=there, other=0)
        v = tl.load(v_ptr + keys[:, None] * v_strides[2] + dims[None, :], mask=there, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(keys[None, :] < stop, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    at = heads * tl.num_programs(0) + split
    tl.store(m_ptr + at, m, mask=rows < GROUP)
    tl.store(l_ptr + at, l, mask=rows < GROUP)
    tl.store(acc_ptr + at[:, None] * D + dims[None, :], acc, mask=(rows < GROUP)[:, None])
    ### END SOLUTION


@triton.jit
def merge_kernel(m_ptr, l_ptr, acc_ptr, o_ptr, splits, D: tl.constexpr, BLOCK: tl.constexpr):
    """The states of one head, merged: the one of unit 09's flash_decode."""
    head, parts, dims = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, D)
    at = head * splits + parts
    m = tl.load(m_ptr + at, mask=parts < splits, other=-float("inf"))
    l = tl.load(l_ptr + at, mask=parts < splits, other=0)
    acc = tl.load(acc_ptr + at[:, None] * D + dims[None, :], mask=(parts < splits)[:, None], other=0)
    factor = tl.exp(m - tl.max(m, 0))
    o = tl.sum(factor[:, None] * acc, 0) / tl.sum(factor * l, 0)
    tl.store(o_ptr + head * D + dims, o.to(o_ptr.dtype.element_ty))


def decode_step(q, k, v, cos, sin, cache_k, cache_v, position):
    """q (B, Hq, 1, D), k and v (B, Hkv, 1, D) of token number `position`, not turned yet -> (B, Hq, 1, D)."""
    ### BEGIN SOLUTION
    (B, Hq, _, D), (Hkv, slots) = q.shape, cache_k.shape[1:3]
    n, GROUP = min(position + 1, slots), Hq // Hkv
    turned = torch.empty(B, Hq, D, dtype=q.dtype, device=q.device)
    strides = [x.stride() for x in (q, k, v, cache_k, cache_v)]
    append_kernel[(B, Hkv)](
        q, k, v, cos, sin, turned, cache_k, cache_v, *strides, position, position % slots, GROUP=GROUP, D=D
    )
    splits = max(1, min(64, triton.cdiv(n, 128)))
    share, rows = triton.cdiv(n, splits), dict(BLOCK_M=max(16, triton.next_power_of_2(GROUP)), BLOCK_N=64)
    m, l = torch.empty(2, B * Hq, splits, dtype=torch.float32, device=q.device)
    acc = torch.empty(B * Hq, splits, D, dtype=torch.float32, device=q.device)
    cached_share_kernel[(splits, B * Hkv)](
        turned, cache_k, cache_v, m, l, acc, cache_k.stride(), cache_v.stride(), D**-0.5, n, share, Hkv,
        GROUP=GROUP, D=D, **rows,
    )  # fmt: skip
    o = torch.empty(B, Hq, 1, D, dtype=q.dtype, device=q.device)
    merge_kernel[(B * Hq,)](m, l, acc, o, splits, D=D, BLOCK=triton.next_power_of_2(splits))
    return o
    ### END SOLUTION


# %% check="model.decode_step"
check("model.decode_step", decode_step)

# %% [markdown]
# ## Exercise: pages
#
# {{exercise model.paged_decode}}
#
# Full marks need lengths that differ ({{correct.ragged}}), half precision ({{correct.half}}), bytes ({{traffic.performance}}), and pages that stay
# where they are ({{buffers_below.performance}}).


# %% exercise="model.paged_decode"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, o_ptr, k_strides, v_strides, table_stride, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """The heads of q that read one head of k and v of one text."""
    ### BEGIN SOLUTION
    batch, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows, dims, places = tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, PAGE)
    heads = (batch * tl.num_programs(1) + head) * GROUP + rows
    length = tl.load(lengths_ptr + batch)
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=(rows < GROUP)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for i in range(0, tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + batch * table_stride + i).to(tl.int64)
        there = i * PAGE + places < length
        k_at = k_ptr + page * k_strides[0] + head * k_strides[1] + places[:, None] * k_strides[2] + dims[None, :]
        v_at = v_ptr + page * v_strides[0] + head * v_strides[1] + places[:, None] * v_strides[2] + dims[None, :]
        k = tl.load(k_at, mask=there[:, None], other=0)
        v = tl.load(v_at, mask=there[:, None], other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(there[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    o = acc / l[:, None]
    tl.store(o_ptr + heads[:, None] * D + dims[None, :], o.to(o_ptr.dtype.element_ty), mask=(rows < GROUP)[:, None])
    ### END SOLUTION


def paged_decode(q, k_pages, v_pages, table, lengths):
    """q (B, Hq, D); k_pages, v_pages (pages, Hkv, page, D); table (B, n) and lengths (B,), int32 -> (B, Hq, D)."""
    ### BEGIN SOLUTION
    (B, Hq, D), (_, Hkv, PAGE, _) = q.shape, k_pages.shape
    o = torch.empty_like(q)
    paged_kernel[(B, Hkv)](
        q, k_pages, v_pages, table, lengths, o, k_pages.stride(), v_pages.stride(), table.stride(0), D**-0.5,
        GROUP=Hq // Hkv, D=D, BLOCK_M=max(16, triton.next_power_of_2(Hq // Hkv)), PAGE=PAGE,
    )  # fmt: skip
    return o
    ### END SOLUTION


# %% check="model.paged_decode"
check("model.paged_decode", paged_decode)
