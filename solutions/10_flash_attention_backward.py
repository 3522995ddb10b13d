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
# # 10 · FlashAttention, backward
#
# **After this unit you can** write the gradients of attention as kernels that never hold the matrix of scores. You can
# give every sum to a single program, so that two runs agree bit for bit. You can hand both passes to autograd as one
# function, which keeps only one additional number for each query. You need 07 (a function with a backward of its own),
# 08 (the gradients, tile by tile, in torch) and 09 (the ideas of the forward kernel, but not your solution). The whole
# unit runs on a CPU.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, profile, progress, torch_attention, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.measurements import measured

# %% [markdown]
# ## The question
#
# A forward pass computes two products of n × n × D for each head. A backward pass must find dq, dk and dv, and it
# cannot read the matrix of probabilities, because no kernel stored it. How many times as long as the forward pass does
# it take?

# %% predict="flash_backward.guess_times"
# Write a number before you go on; it earns no points. The measured answer is in "How fast is it?" below.
guess_times = ...

# %% [markdown]
# Here is the chain rule of unit 08, for one tile. S is scale · Q Kᵀ. Q, K, V, O, dO and lse are in memory. (Formulas write
# matrices in capitals; in code the same tensors are called q, k, v, o and do.)
#
# | | what | shape of the tile |
# | --- | --- | --- |
# | computed again | P = exp(S − lse) | queries × keys |
# | | dP = dO Vᵀ | queries × keys |
# | | dS = P × (dP − delta), delta = rowsum(dO × O) | queries × keys |
# | sums over **queries** | dV = Pᵀ dO,  dK = scale · dSᵀ Q | keys × D |
# | a sum over **keys** | dQ = scale · dS K | queries × D |
#
# Look at the last two lines. Their sums run in different directions. A program that walks over keys, as in unit 09, can
# keep the dQ of its queries in registers. But it computes only a share of each key's dK and dV, and the other programs
# compute the rest. For a program that walks over queries it is the other way round. So one of the two sums is always
# spread over many programs. What can be done about this?
#
# * **Atomics.** All programs add their share of dQ to the same memory. This works, and FlashAttention-2 does it. But
#   the programs add their shares in an order that changes from run to run.
# * **Two kernels.** One kernel walks over queries and computes dK and dV. The other walks over keys and computes dQ. No
#   program adds to a sum of another program. The price is that both kernels must compute S and dP.
#
# Does the order in which numbers are added matter? The next cell tries it.

# %%
figures.flash_backward.sums_in_any_order()

# %% [markdown]
# The order changes the last bits. These bits need not be right. But they must be *the same* in every run if you want to
# find out why yesterday's training failed, or whether a change of the code changed any result. So we use two kernels.
#
# The picture shows both kernels. Choose the kernel, the program and the step. Guess first: in causal attention, which
# queries does program 1 of `dkdv` skip, those at the beginning or those at the end? And which keys does program 1 of
# `dq` skip?

# %%
figures.flash_backward.explore_backward_walk()

# %% [markdown]
# A program of `dkdv` works on a *column* of the matrix of scores, and a causal column begins at the diagonal. A program
# of `dq` works on a row, as in the forward pass, and a causal row ends at the diagonal. In both kernels a tile of
# scores exists only for a moment.
#
# ## Exercise: what it costs
#
# {{exercise flash_backward.costs}}
#
# Use the table above to count the matrix products for one tile. The product of an N × D matrix with a D × N matrix
# takes 2 N² D FLOPs, and so does every other product here. B is the number of heads of all batches together.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

# %% exercise="flash_backward.costs"
costs = {
    "products of a tile, forward": ...,
    "products of a tile, dkdv": ...,
    "products of a tile, dq": ...,
    "products of a tile, if one kernel made all three gradients": ...,
    "FLOPs of forward and backward, divided by B N² D": ...,
    "bytes of lse, 2 x 8 heads of 512 queries": ...,
}
### BEGIN SOLUTION
costs = {
    "products of a tile, forward": 2,  # S = Q Kᵀ, O += P V
    "products of a tile, dkdv": 4,  # S, dP, dV, dK
    "products of a tile, dq": 3,  # S, dP, dQ
    "products of a tile, if one kernel made all three gradients": 5,  # S and dP once
    "FLOPs of forward and backward, divided by B N² D": 18,  # 2 * (2 + 4 + 3)
    "bytes of lse, 2 x 8 heads of 512 queries": 32768,  # 4 * 2 * 8 * 512
}
### END SOLUTION

# %% check="flash_backward.costs"
check("flash_backward.costs", costs)

# %% [markdown]
# The two kernels together compute seven products instead of five. So getting the same bits in every run costs 40 % more
# arithmetic. Two kernels may still be faster, because atomics take time, too.
#
# ## First: delta
#
# Every tile needs delta = rowsum(dO × O) for each of its queries. So a small kernel of its own computes delta once, n
# numbers for each head. It is also a good place to learn three things that all kernels of this unit need.
#
# **Any number of leading dimensions.** A kernel for the shape (B, H, N, D) is enough: `x[None, None].flatten(0, -4)`
# has this shape, whether x has two dimensions or six. In unit 09 a loop did the same. Before you run the next cell, try
# to say why this shorter way works.

# %%
for shape in ((5, 8), (3, 5, 8), (2, 3, 5, 8), (2, 2, 3, 5, 8)):
    x = torch.empty(shape)
    print(shape, "->", tuple(x[None, None].flatten(0, -4).shape))
x = torch.empty(2, 5, 3, 8).transpose(1, 2)  # (B, N, H, D) seen as (B, H, N, D)
print(
    "the same memory:", x[None, None].flatten(0, -4).data_ptr() == x.data_ptr(), x[None, None].flatten(0, -4).stride()
)

# %% [markdown]
# `x[None, None]` puts two dimensions of size 1 in front, so there are at least four. `flatten(0, -4)` joins the first ones
# into one, up to the fourth from the end, and leaves the last three alone. Both make views.
#
# **Any strides.** Six tensors (q, k, v, dO, dK and dV) with four strides each would make 24 arguments. But a kernel
# also takes tuples. Call `kernel[grid](x, x.stride(), ...)`, and inside the kernel `strides[2]` is the stride of N.
# Triton treats each number of a tuple like any other argument. For example, a stride of 1 becomes a constant.
#
# **A gradient with any strides.** dO comes from the operation that follows your function. If this is a sum, as in
# `o.sum().backward()`, dO is a single 1 that is expanded, so all its strides are 0. If it is a transpose, dO is a view.
# Kernels that take any strides need no copy of dO.
#
# `load_rows` and `store_rows` below are given. Read them. They mask the rows past the end, and the columns past D if D
# is not a power of two.
#
# ## Exercise: delta
#
# {{exercise flash_backward.delta}}
#
# Write `delta(o, do)`. Sum in float32, whatever the dtype of the inputs is. (They are float32, except in the cases for
# half precision.) In this exercise and the next three, you may use torch only to allocate memory and to make views. A
# single `.contiguous()` costs all points. Three lines of the kernel are missing; the function that launches it is
# yours. Full marks require
# * right results for any N and any D from 16 to 256 ({{correct.ragged}}),
# * right results for views with any strides, without copies ({{correct.strided}}),
# * right results for inputs in half precision with o and dO far from 0, which need sums in float32 ({{correct.half}}),
# * that o and dO are read only once, by at least 32 programs if the input is large ({{traffic.performance}}), and by
#   dense loads ({{coalesced.load.performance}}).
#
# There is extra credit on a GPU, for 64 heads of 8192 × 128 and bfloat16. You get {{speed}} if your kernel reaches
# {{speed.full}} of a copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="flash_backward.delta"
@triton.jit
def load_rows(ptr, strides, batch, head, rows, N, D: tl.constexpr, BLOCK_D: tl.constexpr):
    """Load rows (len(rows), BLOCK_D) of one head of a tensor (B, H, N, D) with these strides; 0 past the ends of N and D."""
    offs_d = tl.arange(0, BLOCK_D)
    inside = (rows < N)[:, None]
    if D != BLOCK_D:
        inside = inside & (offs_d < D)[None, :]
    ptr += batch * strides[0] + head * strides[1]
    return tl.load(ptr + rows[:, None] * strides[2] + offs_d[None, :] * strides[3], mask=inside, other=0.0)


@triton.jit
def store_rows(ptr, strides, batch, head, rows, N, D: tl.constexpr, BLOCK_D: tl.constexpr, values):
    """Store values (len(rows), BLOCK_D) as such rows, cast to the dtype of the tensor."""
    offs_d = tl.arange(0, BLOCK_D)
    inside = (rows < N)[:, None] & (offs_d < D)[None, :]
    ptr += batch * strides[0] + head * strides[1]
    values = values.to(ptr.dtype.element_ty)
    tl.store(ptr + rows[:, None] * strides[2] + offs_d[None, :] * strides[3], values, mask=inside)


@triton.jit
def delta_kernel(
    o_ptr, do_ptr, delta_ptr, o_strides, do_strides, H, N, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK: tl.constexpr
):
    """Compute delta = rowsum(do * o) for BLOCK rows of one head."""
    j = tl.program_id(1)  # the number of a head among those of all batches
    batch, head = (j // H).to(tl.int64), (j % H).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
    o = load_rows(o_ptr, o_strides, batch, head, offs_m, N, D, BLOCK_D).to(tl.float32)
    do = load_rows(do_ptr, do_strides, batch, head, offs_m, N, D, BLOCK_D).to(tl.float32)
    tl.store(delta_ptr + j * N + offs_m, tl.sum(o * do, axis=1), mask=offs_m < N)
    ### END SOLUTION


def delta(o: torch.Tensor, do: torch.Tensor) -> torch.Tensor:
    """o and do (..., N, D), any strides -> (..., N) float32, contiguous."""
    ### BEGIN SOLUTION
    out = torch.empty(o.shape[:-1], dtype=torch.float32, device=o.device)
    o, do = (x[None, None].flatten(0, -4) for x in (o, do))  # (B, H, N, D), views
    B, H, N, D = o.shape
    BLOCK = 32
    delta_kernel[(triton.cdiv(N, BLOCK), B * H)](
        o, do, out, o.stride(), do.stride(), H, N, D=D, BLOCK_D=triton.next_power_of_2(D), BLOCK=BLOCK
    )
    return out
    ### END SOLUTION


# %% check="flash_backward.delta"
check("flash_backward.delta", delta)

# %% [markdown]
# ## Second: dK and dV
#
# A program has BLOCK_N keys. It loads their k and v once, and keeps dK and dV in float32. Then it walks over tiles of
# queries, and computes four products for each tile. Before you read on: in `one_head` of unit 09 a program had a tile of
# queries and walked over keys. Why does it have keys here, and walk over queries? (Row j of dV, and of dK, is a sum over
# all *queries*. The program that owns a row can add them all up by itself, in an order that never changes.)
#
# Three questions come up when you write this kernel.
#
# **Which way round?** You may compute tiles of queries × keys, as in the table, or tiles of keys × queries. Use tiles
# of keys × queries:
#
# > Sᵀ = K Qᵀ,  Pᵀ = exp(Sᵀ − lse),  dV += Pᵀ dO,  dPᵀ = V dOᵀ,  dSᵀ = Pᵀ × (dPᵀ − delta),  dK += dSᵀ Q
#
# Then P and dS go into the next product just as they are, without a transpose. Only tiles that were just loaded are
# transposed, as `q.T` and `do.T`, and this costs nothing. lse and delta belong to queries, and here each query is a
# column: `lse[None, :]`. The scale is left out above: multiply Sᵀ by it before exp, and dK once, at the end.
#
# **What about rows past the end?** Load them as zeros, and their lse and delta as 0, too. What do such queries add to
# dV, and to dK? (They add nothing: Pᵀ dO is 0 because their dO is 0, and dS = 1 × (0 − 0) is 0 as well.) Keys past the
# end give rows of dK and dV that are not stored. So this kernel needs no mask for its scores at the end of either axis.
#
# **Which precision?** Round P and dS to the dtype of the inputs before you multiply them, as in unit 09:
# `p.to(do.dtype)`. The sums stay in float32. Write `input_precision="ieee"` in every `tl.dot`, so that float32 is not
# rounded to TF32.
#
# ## Exercise: dkdv of one head
#
# {{exercise flash_backward.dkdv_one_head}}
#
# Write the loop first, for one head in full attention, as you did in unit 09. q and do are (Nq, D), k and v are (Nk, D),
# lse and delta are (Nq,) and float32. All are contiguous, and D is 16, 32, 64 or 128. The scale is 1 / √D. Full marks
# require
# * the right dk and dv for any Nq and Nk, in float16, bfloat16 and float32 ({{correct.ragged}}), for scores far from 0
#   ({{correct.hard}}), and for sums that grow and then cancel, in half precision ({{correct.half}}),
# * only four products for each tile, by `tl.dot` ({{dot_flops.performance}}),
# * that each element of q is read at most Nk / 64 times (reads of a copy of q count, too), and that at least 32 programs
#   share the work if Nk is large ({{rereads.q.performance}}),
# * no atomics ({{no_atomics.performance}}).


# %% exercise="flash_backward.dkdv_one_head"
@triton.jit
def dkdv_one_head_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, Nq, Nk,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv for BLOCK_N keys, in a walk over all queries."""
    ### BEGIN SOLUTION
    offs_n, offs_d = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, D)
    kv_offs = offs_n[:, None] * D + offs_d[None, :]  # (BLOCK_N, D)
    inside_kv = (offs_n < Nk)[:, None]
    k = tl.load(k_ptr + kv_offs, mask=inside_kv, other=0)
    v = tl.load(v_ptr + kv_offs, mask=inside_kv, other=0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    for i in range(0, Nq, BLOCK_M):
        offs_m = i + tl.arange(0, BLOCK_M)
        q_offs, inside = offs_m[:, None] * D + offs_d[None, :], (offs_m < Nq)[:, None]  # (BLOCK_M, D)
        q = tl.load(q_ptr + q_offs, mask=inside, other=0)
        do = tl.load(do_ptr + q_offs, mask=inside, other=0)
        lse = tl.load(lse_ptr + offs_m, mask=offs_m < Nq, other=0)
        delta = tl.load(delta_ptr + offs_m, mask=offs_m < Nq, other=0)
        s = tl.dot(k, q.T, input_precision="ieee") * scale  # (BLOCK_N, BLOCK_M): keys x queries
        p = tl.exp(s - lse[None, :])
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
        dp = tl.dot(v, do.T, input_precision="ieee")
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    tl.store(dk_ptr + kv_offs, (dk * scale).to(dk_ptr.dtype.element_ty), mask=inside_kv)
    tl.store(dv_ptr + kv_offs, dv.to(dv_ptr.dtype.element_ty), mask=inside_kv)
    ### END SOLUTION


def dkdv_one_head(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, delta: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """q, do (Nq, D), k, v (Nk, D), lse, delta (Nq,) float32, all contiguous -> dk, dv (Nk, D)."""
    ### BEGIN SOLUTION
    (Nq, D), Nk = q.shape, k.shape[0]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    grid = (triton.cdiv(Nk, 64),)
    dkdv_one_head_kernel[grid](q, k, v, do, lse, delta, dk, dv, D**-0.5, Nq, Nk, D=D, BLOCK_M=32, BLOCK_N=64)
    return dk, dv
    ### END SOLUTION


# %% check="flash_backward.dkdv_one_head"
check("flash_backward.dkdv_one_head", dkdv_one_head)

# %% [markdown]
# ## All heads, causal too
#
# What is left? Views with any strides, for which `load_rows` and `store_rows` are there; the program's head, as in
# `delta`; and causal attention, with two more questions.
#
# **Where is the mask?** It comes after exp, and not before. A query that sees nothing has lse = −inf, and −inf − (−inf)
# is NaN. So compute p as if every query saw every key, and then replace the masked weights by 0: `p = tl.where(seen, p,
# 0.0)`. This also replaces inf and NaN. Only tiles on the diagonal need it.
#
# **Which tiles?** In causal attention, query i sees key j if j ≤ i + Nk − Nq. So the first query that sees key j is
# query j − (Nk − Nq), or query 0 if this number is negative. A program's walk begins at the first query that sees its
# first key. The first query that sees its *last* key sees all of its keys, and so do all later queries. They need no
# mask, and a second loop without one can handle them, as in unit 09.
#
# ## Exercise: dkdv
#
# {{exercise flash_backward.dkdv}}
#
# Write `dkdv(q, k, v, do, lse, delta, causal, scale)`. lse and delta have the shape (..., Nq), and are float32 and
# contiguous. For half precision, tiles of 64 × 64, 4 warps and `num_stages=2` are a good start. For float32 and for D =
# 256, use tiles of 32 × 32. Full marks require
# * right results for any sizes and any number of leading dimensions ({{correct.ragged}}), for views, without copies of
#   them ({{correct.strided}}), and for a scale other than 1 / √D ({{correct.scale}}),
# * right results for causal attention with Nq ≠ Nk ({{correct.causal}}), and for queries that see no key
#   ({{correct.nothing}}),
# * right results for large, rising and low scores ({{correct.hard}}), and for inputs and outputs in half precision,
#   with sums in float32 ({{correct.half}}),
# * only four products for each tile, by `tl.dot` ({{dot_flops.performance}}), and in causal attention products only for
#   the half of the tiles that is seen, and for those on the diagonal ({{dot_flops.half of it}}),
# * no atomics ({{no_atomics.performance}}),
# * at least 32 programs for 64 heads, and that each element of q is read at most Nk / 64 times (reads of a copy of q
#   count, too; {{rereads.q.performance}}),
# * no tensor of Nq × Nk in memory ({{buffers_below.performance}}), and dense loads ({{coalesced.load.performance}}).
#
# Begin with your loop of `dkdv_one_head`, for attention that is not causal. This alone earns most of the points.


# %% exercise="flash_backward.dkdv"
### BEGIN SOLUTION
@triton.jit
def over_queries(
    dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, q_strides, do_strides,
    batch, head, offs_n, start, stop, Nq, Nk, scale,
    MASKED: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add the queries from start to stop to dk and dv (BLOCK_N, BLOCK_D). MASKED: some of them do not see all of the keys."""
    for i in range(start, stop, BLOCK_M):
        offs_m = i + tl.arange(0, BLOCK_M)
        q = load_rows(q_ptr, q_strides, batch, head, offs_m, Nq, D, BLOCK_D)
        lse = tl.load(lse_ptr + offs_m, mask=offs_m < Nq, other=0.0)
        s = tl.dot(k, q.T, input_precision="ieee")  # (BLOCK_N, BLOCK_M): keys x queries
        # exp(s - lse), by 09's exp2
        p = tl.exp2(s * (scale * 1.4426950408889634) - (lse * 1.4426950408889634)[None, :])
        if MASKED:
            p = tl.where(offs_n[:, None] <= offs_m[None, :] + Nk - Nq, p, 0.0)
        do = load_rows(do_ptr, do_strides, batch, head, offs_m, Nq, D, BLOCK_D)
        dv = tl.dot(p.to(do.dtype), do, dv, input_precision="ieee")
        delta = tl.load(delta_ptr + offs_m, mask=offs_m < Nq, other=0.0)
        dp = tl.dot(v, do.T, input_precision="ieee")
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk, input_precision="ieee")
    return dk, dv


### END SOLUTION
@triton.jit
def dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides, H, Nq, Nk, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dk and dv for BLOCK_N keys of one head."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // H).to(tl.int64), (j % H).to(tl.int64)
    first = tl.program_id(0) * BLOCK_N
    offs_n = first + tl.arange(0, BLOCK_N)
    k = load_rows(k_ptr, k_strides, batch, head, offs_n, Nk, D, BLOCK_D)
    v = load_rows(v_ptr, v_strides, batch, head, offs_n, Nk, D, BLOCK_D)
    lse_ptr += j * Nq
    delta_ptr += j * Nq
    dk = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    dv = tl.zeros((BLOCK_N, BLOCK_D), tl.float32)
    whole = 0  # the queries from here on see all of the keys
    if CAUSAL:
        start = tl.maximum(first - (Nk - Nq), 0) // BLOCK_M * BLOCK_M  # the queries before it see none of the keys
        whole = tl.cdiv(tl.maximum(first + BLOCK_N - 1 - (Nk - Nq), 0), BLOCK_M) * BLOCK_M
        dk, dv = over_queries(
            dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, q_strides, do_strides, batch, head, offs_n,
            start, tl.minimum(whole, Nq), Nq, Nk, scale, True, D, BLOCK_D, BLOCK_M,
        )  # fmt: skip
    dk, dv = over_queries(
        dk, dv, k, v, q_ptr, do_ptr, lse_ptr, delta_ptr, q_strides, do_strides, batch, head, offs_n,
        whole, Nq, Nq, Nk, scale, False, D, BLOCK_D, BLOCK_M,
    )  # fmt: skip
    store_rows(dk_ptr, dk_strides, batch, head, offs_n, Nk, D, BLOCK_D, dk * scale)
    store_rows(dv_ptr, dv_strides, batch, head, offs_n, Nk, D, BLOCK_D, dv)
    ### END SOLUTION


def dkdv(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, delta: torch.Tensor,
    causal: bool = False, scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """q, do (..., Nq, D), k, v (..., Nk, D), any strides; lse, delta (..., Nq) float32, contiguous -> dk, dv (..., Nk, D)."""
    ### BEGIN SOLUTION
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    tensors = [x[None, None].flatten(0, -4) for x in (q, k, v, do, dk, dv)]  # (B, H, N, D), views
    (B, H, Nq, D), Nk = tensors[0].shape, k.shape[-2]
    shape = dict(BLOCK_M=64, BLOCK_N=64, num_warps=4, num_stages=3 if D <= 64 else 2)
    if q.dtype == torch.float32 or D > 128:
        shape = dict(BLOCK_M=32, BLOCK_N=32, num_warps=4, num_stages=2)
    dkdv_kernel[(triton.cdiv(Nk, shape["BLOCK_N"]), B * H)](
        *tensors[:4], lse, delta, *tensors[4:], *(x.stride() for x in tensors), H, Nq, Nk, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_D=triton.next_power_of_2(D), **shape,
    )  # fmt: skip
    return dk, dv
    ### END SOLUTION


# %% check="flash_backward.dkdv"
check("flash_backward.dkdv", dkdv)

# %% [markdown]
# What do the {{correct.half}} for half precision test? In one of the inputs dO is around 3 for the first half of
# the queries, and around −3 for the second half. So sums over queries first grow and then cancel. The next cell
# computes dV with an accumulator in bfloat16, and with one in float32. Guess how many digits of each result are right.

# %%
g = torch.Generator().manual_seed(0)
p = torch.softmax(torch.randn(512, 512, generator=g), -1)  # (queries, keys)
do = torch.randn(512, 64, generator=g) + torch.where(torch.arange(512) < 256, 3.0, -3.0)[:, None]
exact = p.double().T @ do.double()
for dtype in (torch.bfloat16, torch.float32):
    dv = torch.zeros(512, 64, dtype=dtype)
    for i in range(0, 512, 64):  # tiles of 64 queries, products in float32
        dv = (dv.float() + p[i : i + 64].T @ do[i : i + 64]).to(dtype)
    error = (dv.double() - exact).abs().mean() / exact.abs().mean()
    print(f"accumulator in {dtype}: mean error {error:.1e} of the mean value, {-math.log10(error):.1f} digits")

# %% [markdown]
# ## Third: dQ
#
# This is the loop of unit 09 again. A program has BLOCK_M queries and walks over keys. It loads q, dO, lse and delta
# once. Each tile takes three products: S, dP, and dQ += dS K, where dS is rounded to the dtype of k.
#
# One thing is different from `dkdv`. What does a key past the end add? Its k is all zeros, so s = 0 and p = exp(0 −
# lse). With lse = −200, p is inf, and inf × 0 is NaN. Here this NaN would be added to a sum that is stored. So the last
# tile of keys needs a mask as well.
#
# ## Exercise: dq
#
# {{exercise flash_backward.dq}}
#
# Write `dq`, which takes the same arguments as `dkdv`. Tiles of 128 queries × 64 keys and 8 warps are a good start. Full
# marks ({{all}}) require
# * right results wherever `dkdv` has to be right: any sizes, views, another scale, causal attention, queries that see no
#   key, large, rising and low scores, half precision,
# * only three products for each tile, and in causal attention only for the tiles that are seen,
# * that each element of k is read at most Nq / 64 times, with dense loads and at least 32 programs for 64 heads,
# * no atomics, and no tensor of Nq × Nk in memory.


# %% exercise="flash_backward.dq"
### BEGIN SOLUTION
@triton.jit
def over_keys(
    dq, q, do, lse, delta, k_ptr, v_ptr, k_strides, v_strides, batch, head, offs_m, start, stop, Nq, Nk, scale,
    MASKED: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Add the keys from start to stop to dq (BLOCK_M, BLOCK_D). MASKED: some are past the end, or not seen by all rows."""
    for j in range(start, stop, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr, k_strides, batch, head, offs_n, Nk, D, BLOCK_D)
        s = tl.dot(q, k.T, input_precision="ieee")  # (BLOCK_M, BLOCK_N): queries x keys
        p = tl.exp2(s * (scale * 1.4426950408889634) - (lse * 1.4426950408889634)[:, None])
        if MASKED:
            seen = (offs_n < Nk)[None, :]
            if CAUSAL:
                seen = seen & (offs_n[None, :] <= offs_m[:, None] + Nk - Nq)
            p = tl.where(seen, p, 0.0)
        v = load_rows(v_ptr, v_strides, batch, head, offs_n, Nk, D, BLOCK_D)
        dp = tl.dot(do, v.T, input_precision="ieee")
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    return dq


### END SOLUTION
@triton.jit
def dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr,
    q_strides, k_strides, v_strides, do_strides, dq_strides, H, Nq, Nk, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute dq for BLOCK_M queries of one head."""
    ### BEGIN SOLUTION
    j, tile = tl.program_id(1), tl.program_id(0)
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile  # the longest walks begin first
    batch, head = (j // H).to(tl.int64), (j % H).to(tl.int64)
    first = tile * BLOCK_M
    offs_m = first + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr, q_strides, batch, head, offs_m, Nq, D, BLOCK_D)
    do = load_rows(do_ptr, do_strides, batch, head, offs_m, Nq, D, BLOCK_D)
    lse = tl.load(lse_ptr + j * Nq + offs_m, mask=offs_m < Nq, other=0.0)
    delta = tl.load(delta_ptr + j * Nq + offs_m, mask=offs_m < Nq, other=0.0)
    dq = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    whole, stop = Nk // BLOCK_N * BLOCK_N, Nk  # all rows see the keys before whole, and none sees a key from stop on
    if CAUSAL:
        whole = tl.minimum(tl.maximum(first + 1 + Nk - Nq, 0), Nk) // BLOCK_N * BLOCK_N
        stop = tl.minimum(tl.maximum(first + BLOCK_M + Nk - Nq, 0), Nk)
    dq = over_keys(
        dq, q, do, lse, delta, k_ptr, v_ptr, k_strides, v_strides, batch, head, offs_m,
        0, whole, Nq, Nk, scale, False, CAUSAL, D, BLOCK_D, BLOCK_N,
    )  # fmt: skip
    dq = over_keys(
        dq, q, do, lse, delta, k_ptr, v_ptr, k_strides, v_strides, batch, head, offs_m,
        whole, stop, Nq, Nk, scale, True, CAUSAL, D, BLOCK_D, BLOCK_N,
    )  # fmt: skip
    store_rows(dq_ptr, dq_strides, batch, head, offs_m, Nq, D, BLOCK_D, dq * scale)
    ### END SOLUTION


def dq(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, do: torch.Tensor, lse: torch.Tensor, delta: torch.Tensor,
    causal: bool = False, scale: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """q, do (..., Nq, D), k, v (..., Nk, D), any strides; lse, delta (..., Nq) float32, contiguous -> dq (..., Nq, D)."""
    ### BEGIN SOLUTION
    out = torch.empty_like(q)
    tensors = [x[None, None].flatten(0, -4) for x in (q, k, v, do, out)]  # (B, H, N, D), views
    (B, H, Nq, D), Nk = tensors[0].shape, k.shape[-2]
    shape = dict(BLOCK_M=128, BLOCK_N=64, num_warps=8, num_stages=3)
    if q.dtype == torch.float32 or D > 128:
        shape = dict(BLOCK_M=32, BLOCK_N=32, num_warps=4, num_stages=2)
    dq_kernel[(triton.cdiv(Nq, shape["BLOCK_M"]), B * H)](
        *tensors[:4], lse, delta, tensors[4], *(x.stride() for x in tensors), H, Nq, Nk, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_D=triton.next_power_of_2(D), **shape,
    )  # fmt: skip
    return out
    ### END SOLUTION


# %% check="flash_backward.dq"
check("flash_backward.dq", dq)

# %% [markdown]
# ## All of it, for autograd
#
# Now write `FlashAttention`, a `torch.autograd.Function` as in unit 07. It needs a forward pass that returns o and lse.
# If you have solved unit 09, paste your kernels and your `flash_attention_forward` into the cell, below the import.
# Your function then replaces the slow one of `course_lib.workloads.torch_attention`, which is plain torch and holds all
# scores in memory. With the slow one you lose {{flash_backward.flash_attention kernels_alone.strided +
# launches.performance.forward + buffers_below.performance}}, and nothing else, because the gradients come from your
# kernels.
#
# What may be kept for the backward pass? q, k and v are inputs, and the next layer keeps the output o anyway. In
# addition you keep one number for each query: lse. (You cannot keep delta, because it is computed from dO, and there is
# no dO before the backward pass.) Keep these tensors with `ctx.save_for_backward`. An attribute such as `ctx.kept = (q,
# k, v, o, lse)` would pass every check, but it leaks memory: o refers to ctx and ctx refers to o, so the memory is not
# freed before Python's garbage collector runs.
#
# Inside `backward`, do not give a result the name of one of your functions. If you write `dq = dq(...)`, Python takes
# `dq` for a local name in all of `backward`, and raises UnboundLocalError where you call your function.
#
# ## Exercise: FlashAttention
#
# {{exercise flash_backward.flash_attention}}
#
# `FlashAttention.apply(q, k, v, is_causal=False, scale=None)` returns o. Its backward returns gradients of q, k and v,
# and None for each other argument. Full marks require
# * right results for any sizes, any leading dimensions and a scale other than 1 / √D, also if the function is applied to
#   other inputs before backward, as in a model with several layers ({{correct.ragged}}), and for views
#   ({{correct.strided}}), and that torch neither copies these views nor does any other work ({{kernels_alone.strided}}),
# * right results for causal attention, also with Nq ≠ Nk and queries that see nothing ({{correct.causal}}), for large,
#   rising and low scores ({{correct.hard}}), and for half precision ({{correct.half}}),
# * that the backward pass reads only q, k, v, o and *one* float32 for each query of what the forward pass had
#   ({{keeps_one_number_a_row.performance}}; as in unit 07, a tensor that is kept but never read is not seen),
# * one launch in the forward pass ({{launches.performance.forward}}), and three in the backward pass, of at least 32
#   programs for 64 heads ({{launches.performance.backward}}),
# * no atomics ({{no_atomics.performance}}), and no tensor of Nq × Nk in memory ({{buffers_below.performance}}),
# * 18 B N² D FLOPs in both passes together ({{dot_flops.performance}}), and about half as many in causal attention
#   ({{dot_flops.half of it}}).
#
# If your `delta`, `dkdv` and `dq` are wrong, the grader also judges your class with right ones in their place, so that one
# mistake does not cost twice. Your class then earns at most as many points as those three have earned, or {{wiring}} if
# that is more.
#
# There is extra credit on a GPU, for 16 heads of 128, 4096 tokens and bfloat16. You get {{speed}} if both passes
# together are as fast as those of torch's FlashAttention-2 (a ratio of {{speed.full}}), and some of the points if the
# ratio is more than {{speed.none}}.

# %% exercise="flash_backward.flash_attention"
# Slow, but right. If you have solved unit 09, paste your forward pass below this line. It then replaces the slow one.
from course_lib.workloads.torch_attention import flash_attention_forward


### BEGIN SOLUTION
@triton.jit
def forward_tiles(
    m, l, acc, q, k_ptr, v_ptr, k_strides, v_strides, batch, head, sees, start, stop, Nk, scale,
    MASKED: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Update the state with the keys from start to stop. MASKED: some are past the end, or not seen by all rows."""
    for j in range(start, stop, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr, k_strides, batch, head, offs_n, Nk, D, BLOCK_D)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        if MASKED:
            s = tl.where(offs_n[None, :] < sees[:, None], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(m_new == -float("inf"), 0.0, m_new)  # -inf - -inf would be NaN
        p, alpha = tl.exp(s - base[:, None]), tl.exp(m - base)
        l = l * alpha + tl.sum(p, 1)
        v = load_rows(v_ptr, v_strides, batch, head, offs_n, Nk, D, BLOCK_D)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m = m_new
    return m, l, acc


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, q_strides, k_strides, v_strides, o_strides, H, Nq, Nk, scale,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Compute o and lse for BLOCK_M queries of one head."""
    j, tile = tl.program_id(1), tl.program_id(0)
    if CAUSAL:
        tile = tl.num_programs(0) - 1 - tile
    batch, head = (j // H).to(tl.int64), (j % H).to(tl.int64)
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr, q_strides, batch, head, offs_m, Nq, D, BLOCK_D)
    sees = tl.zeros((BLOCK_M,), tl.int32) + Nk  # how many keys each row sees
    if CAUSAL:
        sees = tl.minimum(tl.maximum(offs_m + 1 + Nk - Nq, 0), Nk)
    whole, stop = tl.min(sees, 0) // BLOCK_N * BLOCK_N, tl.max(sees, 0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    m, l, acc = forward_tiles(
        m, l, acc, q, k_ptr, v_ptr, k_strides, v_strides, batch, head, sees,
        0, whole, Nk, scale, False, D, BLOCK_D, BLOCK_N,
    )  # fmt: skip
    m, l, acc = forward_tiles(
        m, l, acc, q, k_ptr, v_ptr, k_strides, v_strides, batch, head, sees,
        whole, stop, Nk, scale, True, D, BLOCK_D, BLOCK_N,
    )  # fmt: skip
    store_rows(o_ptr, o_strides, batch, head, offs_m, Nq, D, BLOCK_D, acc / tl.where(l == 0, 1.0, l)[:, None])
    tl.store(lse_ptr + j * Nq + offs_m, m + tl.log(l), mask=offs_m < Nq)


def flash_attention_forward(q, k, v, causal=False, scale=None):  # noqa: F811
    """q (..., Nq, D), k and v (..., Nk, D), any strides -> o (..., Nq, D) of q's dtype, lse (..., Nq) float32."""
    o, lse = torch.empty_like(q), torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    tensors = [x[None, None].flatten(0, -4) for x in (q, k, v, o)]  # (B, H, N, D), views
    (B, H, Nq, D), Nk = tensors[0].shape, k.shape[-2]
    shape = dict(BLOCK_M=128, BLOCK_N=64, num_warps=8, num_stages=3)
    if q.dtype == torch.float32 or D > 128:
        shape = dict(BLOCK_M=32, BLOCK_N=32, num_warps=4, num_stages=2)
    forward_kernel[(triton.cdiv(Nq, shape["BLOCK_M"]), B * H)](
        *tensors, lse, *(x.stride() for x in tensors), H, Nq, Nk, D**-0.5 if scale is None else scale,
        CAUSAL=causal, D=D, BLOCK_D=triton.next_power_of_2(D), **shape,
    )  # fmt: skip
    return o, lse


### END SOLUTION
class FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal=False, scale=None):
        """q (..., Nq, D), k and v (..., Nk, D) -> o (..., Nq, D)"""
        ### BEGIN SOLUTION
        o, lse = flash_attention_forward(q, k, v, is_causal, scale)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.is_causal, ctx.scale = is_causal, scale
        return o
        ### END SOLUTION

    @staticmethod
    def backward(ctx, do):
        """The gradient of o, any strides -> the gradients of q, k and v, and None for each other argument of forward"""
        ### BEGIN SOLUTION
        q, k, v, o, lse = ctx.saved_tensors
        given = q, k, v, do, lse, delta(o, do), ctx.is_causal, ctx.scale
        dk, dv = dkdv(*given)
        return dq(*given), dk, dv, None, None
        ### END SOLUTION


# %% check="flash_backward.flash_attention"
check("flash_backward.flash_attention", FlashAttention)

# %% [markdown]
# Does autograd agree? The next cell compares your gradients with those that autograd finds for the slow forward pass,
# which is plain torch. (With `trace()` your kernels run on any machine.)

# %%
q, k, v = (torch.randn(2, 2, 100, 32, requires_grad=True) for _ in range(3))
do = torch.randn(2, 2, 100, 32)
by_torch = torch.autograd.grad(torch_attention.flash_attention_forward(q, k, v, True)[0], (q, k, v), do)
with trace() as t:
    o = FlashAttention.apply(q, k, v, True)
    if o is None:
        print("solve FlashAttention to compare it with autograd")
    else:
        for name, mine, right in zip(("dq", "dk", "dv"), torch.autograd.grad(o, (q, k, v), do), by_torch, strict=True):
            print(f"{name}: largest difference {(mine - right).abs().max():.1e}")
print(t.table())

# %% [markdown]
# **Somebody else's tests.** Stanford's CS336 asks for the same function in its second assignment, and publishes tests
# for it. They call *adapters*, functions in `tests/adapters.py` in which you say where your code is. Once you have solved
# this unit, you need only three lines there, on a machine with a GPU:
#
# ```python
# def get_flashattention_autograd_function_triton():
#     from my_flash_attention import FlashAttention  # your cells, as a module
#     return FlashAttention
# ```
#
# Try it. The tests compare o, the kept log-sum-exp and the three gradients for one shape, (4, 128, 64). A number may be
# off by 0.01 and by 1 % of the right one (`atol` and `rtol`, an absolute and a relative tolerance). Even a kernel
# without a running maximum passes them. The cases of this unit ask for more.
#
# **In a model.** How can `FlashAttention` replace a model's own attention? A layer calls one function with q, k and v,
# and often this is a function of torch. Call yours instead:
#
# ```python
# o = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)  # before
# o = FlashAttention.apply(q, k, v, True)  # after, where Nq = Nk
# ```
#
# Before you do this, check whether the layer needs more: a mask for padding, dropout, fewer heads of k and v than of q,
# or a causal mask that is aligned at the top left. `FlashAttention` has none of these, and with a wrong mask a model
# still runs without an error. In the library `transformers` you can register a function, and all layers of a model then
# compute attention with it. In unit 12 you write such a function (`serving.attention_for`), with masks, shared heads and
# both alignments, and put your kernels into a model that trains.

# %% [markdown]
# ## How fast is it?
#
# `profile` shows all launches of one training step of your attention: what each moves and multiplies, the least time for
# it, and on a GPU the time that it took, or what the GPU counted. Guess first: which launch takes longest?

# %% gpu="flash_backward.profile"
device = "cuda" if torch.cuda.is_available() else "cpu"
q, k, v = (torch.randn(1, 4, 256, 64, device=device, requires_grad=True) for _ in range(3))
with trace():
    o = FlashAttention.apply(q, k, v, True)
if o is None:
    print("solve FlashAttention to see what limits it")
else:
    print(profile(lambda: torch.autograd.grad(FlashAttention.apply(q, k, v, True), (q, k, v), torch.ones_like(q))))

# %%
figures.timed.on_your_card("flash_backward")

# %% [markdown]
# Our backward pass computes seven products instead of five, but needs no atomics. How does its speed compare with
# others? The picture shows backward passes alone, on one H200: attention as separate torch operations ("naive"),
# FlashAttention-2 (in CUDA), flex_attention (in Triton, generated by torch.compile), the published solution of this
# unit, and cuDNN, which NVIDIA writes for its own GPUs.

# %%
figures.flash_backward.backward_speed()

# %% [markdown]
# At the beginning you guessed the time of the backward pass, as a multiple of the time of the forward pass. The forward
# pass has two products. If P is kept, the backward pass has four products, which is 2 times the FLOPs. If S is computed
# again, it has five products, which is 2.5 times the FLOPs. In this unit both kernels compute S and dP, so there are
# seven products, which is 3.5 times the FLOPs. The next cell shows times that were measured on the H200, for the
# solutions of units 09 and 10.

# %%
found = measured("attention")
for there, back in zip(found["forward"], found["backward"], strict=True):
    if (back["d"], back["length"]) == (128, 16384):
        flops = 16 * 16384**2 * 128 / (2 if back["causal"] else 1)  # B N N D
        forward = there["contenders"]["unit 09"]["tflops"]
        own, cudnn = (back["contenders"][name]["tflops"] for name in ("unit 10", "cuDNN"))
        ms, ms_back = 4 * flops / forward / 1e9, 10 * flops / own / 1e9
        kind = "causal" if back["causal"] else "full"
        print(
            f"16 heads of 128, 16,384 tokens, {kind}: {ms:.1f} ms forward, {ms_back:.1f} ms backward: {ms_back / ms:.1f} times as long"
        )
        print(
            f"    as computed: {forward:.0f} TFLOP/s forward, {7 / 5 * own:.0f} backward; cuDNN backward: {cudnn:.0f}"
        )
print("you guessed", "nothing" if guess_times is ... else guess_times)

# %% [markdown]
# 3.5 times the FLOPs take less than 3.5 times as long. In the forward pass, a tile takes two products and one
# exponential. In the backward pass, the two kernels together take seven products and two exponentials for each tile.
# That is 3.5 products for each exponential, so the tensor cores wait less. The lines "as computed" show this. They
# count all seven products.
#
# This also explains the gap to cuDNN, whose backward pass computes five products. Our kernels compute seven, at about
# the same rate. With five products at that rate they would be about as fast as cuDNN. And what limits the tiles of
# `dkdv`? Two accumulators, dK and dV, and two tiles, P and dP, must fit into the registers of a program at the same
# time. If they do not, registers spill (unit 05), and `compile_for` says so.

# %% [markdown]
# ## What you now know
#
# * A backward pass by tiles reads lse and delta, each of which is one number for each query. It computes P and dS
#   again.
# * dK and dV are sums over queries, and dQ is a sum over keys. With two kernels no program adds to another program's
#   sums. They need seven products for each tile instead of five, but no atomics, so every run gives the same bits.
# * Compute each tile in the orientation in which the next product needs it. Keep sums in float32, and round only the
#   operands of products.
# * Mask p after exp. In `dkdv` the ends of the axes need no mask. In `dq` keys past the end need one.
# * As an autograd function, FlashAttention keeps q, k, v, o and one float32 for each query. This memory grows with n,
#   and not with n².
#
# You have built both passes of FlashAttention. On the H200 they are faster than FlashAttention-2. The forward pass can
# even be made as fast as cuDNN (unit 09, *How fast?*). Our backward pass is not so yet.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You recognise mistakes in gradients by their pictures, break a backward pass, and say beforehand how
# long a text fits into a given memory.

# %% [markdown]
# ## Exercise: name it
#
# {{exercise flash_backward.name_gradients}}
#
# A backward pass returns three gradients, and a mistake seldom spoils all of them in the same way. So the gradients
# tell you where to look for the mistake. The maps below show six wrong backward passes of causal attention, with one
# mistake each. Five of them use `dkdv` and `dq` as in this unit. In the sixth, each program of `dkdv` also adds its
# share to dq. An element counts as wrong if it is off by more than a thousandth of the usual size of its gradient's
# elements. Which mistake belongs to which map? Write one of the following names on each line, in quotes. Then run the
# check, which explains each map that you have named correctly.
#
# * `"delta is not subtracted"`
# * `"dk and dv are kept in float16"`
# * `"dk is not scaled"`
# * `"programs add to dq without atomics"`
# * `"the grid of dkdv rounds down"`
# * `"tiles on the diagonal are not masked in dkdv"`
#
# Guessing alone gets some answers right, so the first three right answers earn nothing, and each further right answer
# earns {{names.plain / 3}} ({{names.plain}} in all).

# %%
figures.flash_backward.name_gradients()

# %% exercise="flash_backward.name_gradients"
named_gradients = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
    "E": ...,
    "F": ...,
}
### BEGIN SOLUTION
named_gradients = {
    "A": "dk is not scaled",
    "B": "the grid of dkdv rounds down",
    "C": "dk and dv are kept in float16",
    "D": "programs add to dq without atomics",
    "E": "delta is not subtracted",
    "F": "tiles on the diagonal are not masked in dkdv",
}
### END SOLUTION

# %% check="flash_backward.name_gradients"
check("flash_backward.name_gradients", named_gradients)

# %% [markdown]
# ## Exercise: break a backward pass
#
# {{exercise flash_backward.break_gradients}}
#
# A wrong gradient is easy to overlook, because the loss still falls, only more slowly. The kernel below computes dK and
# dV of one head, and it is right. As in unit 09, there are wrong versions of it, called *mutants*. Each mutant has one
# change: for example, a walk begins at the wrong tile, a mask is in the wrong place, or a factor is right for only one
# D. Before you write inputs, choose three lines of the kernel, and say for each of them which input would show a
# mistake in it.
#
# `breaking_inputs()` returns a list of at most three inputs. Each input is a dict with five keys: `"q"` and `"do"` of
# shape (N, D), `"k"` and `"v"` of shape (S, D), and `"causal"`, which is True or False. The tensors are contiguous
# float32, D is 16, 32 or 64, and N and S are at most 256. A causal input may have more queries than keys. Then its
# first queries see nothing.
#
# The check first runs the given kernel on all of your inputs. **If the given kernel fails on one of them, you earn
# nothing.** Then the check runs the mutants. A mutant is *killed* if its result is wrong on one of your inputs, or if
# it reaches outside a tensor. The check in this notebook has four mutants, and the grader has more. Random numbers of
# ordinary sizes kill about a third of the mutants, so only the mutants that you kill beyond this third earn points
# ({{kills.mutants}}).

# %% given="flash_backward.break_gradients"


# %% exercise="flash_backward.break_gradients"
def breaking_inputs() -> list[dict]:
    """At most three inputs, {"q": (N, D), "k": (S, D), "v": (S, D), "do": (N, D), "causal": True or False}."""

    ### BEGIN SOLUTION
    def drawn(N: int, S: int, D: int) -> dict:
        return {name: torch.randn(n, D) for name, n in {"q": N, "k": S, "v": S, "do": N}.items()}

    few, many, large = drawn(40, 70, 64), drawn(100, 37, 16), drawn(50, 50, 32)
    many["do"] *= 3000  # queries 0 to 62 see no key; the others have large gradients
    large["k"] = 16 * large["q"]  # each query has one score far above 88
    return [few | {"causal": True}, many | {"causal": True}, large | {"causal": False}]
    ### END SOLUTION


# %% check="flash_backward.break_gradients"
check("flash_backward.break_gradients", breaking_inputs)

# %% [markdown]
# ## How long a text?
#
# Unit 08 began with memory, and now we return to it. Between the forward and the backward pass, the kept tensors of all
# layers are in memory at the same time. How many bytes are kept for a text of n tokens if autograd keeps the
# probabilities, and how many does FlashAttention keep?

# %%
figures.flash_backward.context_against_memory()

# %% [markdown]
# One line has the slope 2, and the other one has the slope 1. (On logarithmic axes n² is a straight line, too, and
# twice as steep as n.) From 13,455 tokens on, only FlashAttention fits.
#
# ## Exercise: the longest context
#
# {{exercise flash_backward.longest_context}}
#
# You are given a budget in bytes and a configuration. How many tokens may a text have if all layers together are to
# keep no more than this budget? Count only what attention keeps:
# * If `config["scores"]` is True, attention is `torch.softmax(q @ k.mT, -1) @ v`. Which tensors does autograd keep for
#   it? (In unit 07 it kept the inputs of products, and the output of a softmax. One tensor is kept for both reasons and
#   counts once.)
# * Otherwise attention is `FlashAttention`. It keeps q, k, v and o, with `itemsize` bytes for each number, and lse in
#   float32.
#
# The shape of q, k and v is (heads, n, head_dim). Your n is compared with what autograd really keeps for n and for n +
# 1 tokens, on tensors without data: n tokens must fit into the budget, and n + 1 must not. You get {{holds.fits.flash}}
# for FlashAttention, {{holds.fits.scores}} for attention that keeps the scores, and {{holds.fits.edges}} for budgets
# that n tokens fill to the last byte.


# %% exercise="flash_backward.longest_context"
def longest_context(budget_bytes: int, config: dict) -> int:
    """The largest number of tokens for which all layers together keep at most budget_bytes between forward and backward.

    config: layers, heads, head_dim, itemsize (of q, k, v, o and the probabilities), scores (True: kept; False: FlashAttention).
    """
    ### BEGIN SOLUTION
    layers, heads, head_dim, itemsize = (config[name] for name in ("layers", "heads", "head_dim", "itemsize"))

    def kept(n: int) -> int:
        if config["scores"]:
            return layers * heads * itemsize * (3 * n * head_dim + n * n)  # q, k, v and P
        return layers * heads * n * (4 * head_dim * itemsize + 4)  # q, k, v, o and lse

    low, high = 0, budget_bytes
    while low < high:  # low tokens fit, and no more than high
        middle = (low + high + 1) // 2
        low, high = (middle, high) if kept(middle) <= budget_bytes else (low, middle - 1)
    return low
    ### END SOLUTION


# %% check="flash_backward.longest_context"
check("flash_backward.longest_context", longest_context)

# %%
model = dict(layers=32, heads=32, head_dim=128, itemsize=2)  # as in a model with 7 billion parameters
if longest_context(10**9, model | {"scores": True}) is None:
    print("solve longest_context to see how far 40 GB go")
else:
    for scores in (True, False):
        n = longest_context(40 * 10**9, model | {"scores": scores})
        print(f"40 GB, {'scores kept' if scores else 'FlashAttention'}: {n:,} tokens")

# %% [markdown]
# ## Exercise: a work log of dq
#
# {{exercise flash_backward.dq_log}}
#
# A **work log** makes a wasteful version better in rounds. Before you write the next one, you state what it will move;
# the traces of both versions show what did change. This log begins with dq of one head in four launches, which pass three
# matrices of Nq x Nk through memory.

# %%
from course_lib import worklog

worklog("flash_backward.dq_log")

# %% [markdown]
# `dq_log()` returns your rounds as a list of dicts, such as
# `{"change": "...", "bytes": "16*Nq*Nk + ...", "sectors": "...", "launches": 3, "version": my_dq}`. What you state are totals of the new
# version, as formulas in quotes: numbers, Nq, Nk, D, `+ - * /`, `//`, and `cdiv(a, b)`, which rounds up. State a round
# without its `version` first and run the last cell of this section; your logbook keeps the statement.
#
# A round holds if its version is right, each of its numbers is at most a tenth off, and at least one of them is a tenth
# below that of every version before it. Three rounds that hold give {{rounds_held.performance}}, each a third of them; up to
# five are judged, so one that fails costs nothing. The check has lengths that you do not see, multiples of 128, and D is
# 32. `strides log` makes a page of your log.


# %% exercise="flash_backward.dq_log"
### BEGIN SOLUTION
@triton.jit
def log_p_kernel(q_ptr, k_ptr, lse_ptr, p_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    offs_m, offs_n = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :])
    k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :])
    p = tl.exp(tl.dot(q, k.T) * scale - tl.load(lse_ptr + offs_m)[:, None])
    tl.store(p_ptr + offs_m[:, None] * Nk + offs_n[None, :], p)


@triton.jit
def log_ds_kernel(p_ptr, do_ptr, v_ptr, delta_ptr, ds_ptr, Nk, D: tl.constexpr, TILE: tl.constexpr):
    offs_m, offs_n = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    offs_d, at = tl.arange(0, D), offs_m[:, None] * Nk + offs_n[None, :]
    do = tl.load(do_ptr + offs_m[:, None] * D + offs_d[None, :])
    v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :])
    tl.store(ds_ptr + at, tl.load(p_ptr + at) * (tl.dot(do, v.T) - tl.load(delta_ptr + offs_m)[:, None]))


@triton.jit
def log_p_and_ds_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, ds_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr
):
    offs_m, offs_n = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    offs_d = tl.arange(0, D)
    q, do = (
        tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :]),
        tl.load(do_ptr + offs_m[:, None] * D + offs_d[None, :]),
    )
    k, v = (
        tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :]),
        tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :]),
    )
    p = tl.exp(tl.dot(q, k.T) * scale - tl.load(lse_ptr + offs_m)[:, None])
    ds = p * (tl.dot(do, v.T) - tl.load(delta_ptr + offs_m)[:, None])
    tl.store(ds_ptr + offs_m[:, None] * Nk + offs_n[None, :], ds)


@triton.jit
def log_ds_times_k_kernel(ds_ptr, k_ptr, dq_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    offs_m, offs_d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, D)
    dq = tl.zeros((TILE, D), tl.float32)
    for j in range(0, Nk, TILE):
        offs_n = j + tl.arange(0, TILE)
        ds = tl.load(ds_ptr + offs_m[:, None] * Nk + offs_n[None, :])
        k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + offs_m[:, None] * D + offs_d[None, :], (dq * scale).to(tl.float16))


@triton.jit
def log_dq_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr
):
    offs_m, offs_d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, D)
    q, do = (
        tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :]),
        tl.load(do_ptr + offs_m[:, None] * D + offs_d[None, :]),
    )
    lse, delta, dq = tl.load(lse_ptr + offs_m), tl.load(delta_ptr + offs_m), tl.zeros((TILE, D), tl.float32)
    for j in range(0, Nk, TILE):
        offs_n = j + tl.arange(0, TILE)
        k, v = (
            tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :]),
            tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :]),
        )
        p = tl.exp(tl.dot(q, k.T) * scale - lse[:, None])
        ds = p * (tl.dot(do, v.T) - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + offs_m[:, None] * D + offs_d[None, :], (dq * scale).to(tl.float16))


def no_dp(q, k, v, do, lse, delta):
    (Nq, D), Nk = q.shape, k.shape[0]
    p, ds = torch.empty((Nq, Nk), device=q.device), torch.empty((Nq, Nk), device=q.device)
    dq, grid = torch.empty_like(q), (Nq // 32, Nk // 32)
    log_p_kernel[grid](q, k, lse, p, Nk, D**-0.5, D=D, TILE=32)
    log_ds_kernel[grid](p, do, v, delta, ds, Nk, D=D, TILE=32)
    log_ds_times_k_kernel[(Nq // 32,)](ds, k, dq, Nk, D**-0.5, D=D, TILE=32)
    return dq


def only_ds(q, k, v, do, lse, delta):
    (Nq, D), Nk = q.shape, k.shape[0]
    ds, dq = torch.empty((Nq, Nk), device=q.device), torch.empty_like(q)
    log_p_and_ds_kernel[(Nq // 32, Nk // 32)](q, k, v, do, lse, delta, ds, Nk, D**-0.5, D=D, TILE=32)
    log_ds_times_k_kernel[(Nq // 32,)](ds, k, dq, Nk, D**-0.5, D=D, TILE=32)
    return dq


def no_matrix(q, k, v, do, lse, delta):
    (Nq, D), Nk = q.shape, k.shape[0]
    dq = torch.empty_like(q)
    log_dq_kernel[(Nq // 64,)](q, k, v, do, lse, delta, dq, Nk, D**-0.5, D=D, TILE=64)
    return dq


### END SOLUTION
def dq_log():
    """The rounds, in order: dicts of change, bytes, sectors, launches and version."""
    ### BEGIN SOLUTION
    return [
        # p and ds: written and read once each. Tiles of 32 x 32 read two pairs of vectors, and the last kernel k
        {
            "change": "dp stays in registers",
            "bytes": "16*Nq*Nk + 10*Nq*Nk*D/32 + 2*Nq*D",
            "sectors": "(16*Nq*Nk + 10*Nq*Nk*D/32 + 2*Nq*D) / 32",
            "launches": 3,
            "version": no_dp,
        },
        {
            "change": "p stays in registers, too",
            "bytes": "8*Nq*Nk + 10*Nq*Nk*D/32 + 2*Nq*D",
            "sectors": "(8*Nq*Nk + 10*Nq*Nk*D/32 + 2*Nq*D) / 32",
            "launches": 2,
            "version": only_ds,
        },
        {
            "change": "ds, too: one kernel with a loop over keys, 64 queries each",
            "bytes": "4*Nk*D*Nq/64 + 6*Nq*D",
            "sectors": "(4*Nk*D*Nq/64 + 6*Nq*D) / 32",
            "launches": 1,
            "version": no_matrix,
        },
    ]
    ### END SOLUTION


# %% check="flash_backward.dq_log"
check("flash_backward.dq_log", dq_log)

# %%
worklog("flash_backward.dq_log", dq_log)

# %% [markdown]
# ## Further reading
#
# * Dao and others, *FlashAttention* (2022), appendix B: the backward pass, with delta derived. Dao, *FlashAttention-2*
#   (2023), algorithm 2: one kernel, dQ by atomics.
# * Shah and others, *FlashAttention-3* (2024): Hopper's asynchrony, and a backward pass in which one warp does nothing
#   but add to dQ.
# * Triton's tutorial on fused attention: another backward pass with two walks, both in one launch.
# * PyTorch's notes on extending autograd, and on `torch.use_deterministic_algorithms`.
# * Stanford CS336, assignment 2: the same function, with its own tests.
