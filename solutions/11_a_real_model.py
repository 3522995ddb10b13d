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
# **After this unit you can** put the kernels of the earlier units into a model, and write text with it. About three
# hours, {{unit minutes}} of them for {{unit exercises}}.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## Where does a token stand?
#
# Attention is a sum over keys, and a sum has no order. Shuffle the keys together with their values, and every output
# stays the same to the last rounding. So a model must be told where a token stands. Three ways are in use, and they
# enter at three different places: before the projections, behind two of them, or in the scores.
#
# Which of q, k and v does each of them change? Make a guess now; you will answer it further down, with the three of
# them written.

# %% [markdown]
# ## Exercise: waves
#
# {{exercise model.sinusoidal}}
#
# The transformer of 2017 added a wave to each token's embedding. Column 2 i holds sin(n / 10000^(2 i / D)), and
# column 2 i + 1 the cosine of the same angle. The first pair of columns turns by one radian a token, the last pair by
# about a ten-thousandth of one.
#
# Full marks need the right numbers ({{correct.plain}}) for any N and any even D ({{correct.sizes}}).


# %% exercise="model.sinusoidal"
def sinusoidal(positions: torch.Tensor, D: int) -> torch.Tensor:
    """positions n (N,) -> (N, D) float32: sin(n / 10000^(2 i / D)) in column 2 i, cos of the same in column 2 i + 1."""
    ### BEGIN SOLUTION
    angle = positions[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    ### END SOLUTION


# %% check="model.sinusoidal"
check("model.sinusoidal", sinusoidal)

# %% [markdown]
# ## Exercise: rotary
#
# {{exercise model.rotary}}
#
# RoPE turns q and k instead. Number i of the first half of a row and number i of the second half are the two sides of
# a pair, and the pair is turned by the angle positions[n] / base^(2 i / D):
#
# > (a, b) → (a cos − b sin, b cos + a sin)
#
# The product of a turned q and a turned k depends on the difference of the two angles, and so on how far apart the
# two tokens are. (Some papers pair neighbours instead. A model that was trained with one order is noise under the
# other, and no shape tells them apart.)
#
# The positions are an argument, because the row is not the position: while a text is written, each call brings one
# row, and that row is number 700 of the text. Full marks need
# * the positions that are given ({{correct.positions}}), any even D and any base ({{correct.ragged}}), half precision
#   ({{correct.half}}),
# * x read once and the result written once ({{traffic.performance}}) with dense loads
#   ({{coalesced.load.performance}}), in one launch ({{launches.performance}}).
#
# The result is a new tensor. Why not turn x in place, and save the memory? The last exercise of the unit has the
# answer.


# %% exercise="model.rotary"
@triton.jit
def rotary_kernel(
    x_ptr,
    positions_ptr,
    out_ptr,
    x_strides,
    H,
    N,
    log2_base,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    """BLOCK_N rows of one head of one text."""
    ### BEGIN SOLUTION
    j = tl.program_id(1).to(tl.int64)
    batch, head = j // H, j % H
    rows, pairs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK)
    inside = (rows < N)[:, None] & (pairs < D // 2)[None, :]
    position = tl.load(positions_ptr + rows, mask=rows < N, other=0).to(tl.float32)
    angle = position[:, None] * tl.exp2(pairs.to(tl.float32) * (-2.0 / D) * log2_base)[None, :]
    at = (
        x_ptr
        + batch * x_strides[0]
        + head * x_strides[1]
        + rows[:, None] * x_strides[2]
        + pairs[None, :] * x_strides[3]
    )
    a = tl.load(at, mask=inside, other=0).to(tl.float32)
    b = tl.load(at + D // 2 * x_strides[3], mask=inside, other=0).to(tl.float32)
    out = out_ptr + (j * N + rows)[:, None] * D + pairs[None, :]
    tl.store(out, a * tl.cos(angle) - b * tl.sin(angle), mask=inside)
    tl.store(out + D // 2, b * tl.cos(angle) + a * tl.sin(angle), mask=inside)
    ### END SOLUTION


def rotary(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """x (B, H, N, D), any strides, positions (N,) int32 -> a new (B, H, N, D), contiguous."""
    ### BEGIN SOLUTION
    B, H, N, D = x.shape
    out = torch.empty(B, H, N, D, dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(D // 2)
    BLOCK_N = min(32, triton.next_power_of_2(N))
    rotary_kernel[(triton.cdiv(N, BLOCK_N), B * H)](
        x, positions, out, x.stride(), H, N, math.log2(base), D=D, BLOCK=BLOCK, BLOCK_N=BLOCK_N
    )
    return out
    ### END SOLUTION


# %% check="model.rotary"
check("model.rotary", rotary)

# %% [markdown]
# ## Exercise: ALiBi
#
# {{exercise model.alibi}}
#
# ALiBi leaves q, k and v alone. It takes something off each score, in proportion to how far the key is behind the
# query: head h of H takes off 2^(−8 (h + 1) / H) for each token of distance. Heads with a steep slope look nearby,
# the others far back.
#
# The queries are the last nq of nk positions. Keys that lie ahead are not seen anyway, so their bias is 0. Full marks
# need the right distances and slopes ({{correct.plain}}), queries that are the last ({{correct.decode}}), and any
# number of heads ({{correct.heads}}).


# %% exercise="model.alibi"
def alibi(scores: torch.Tensor) -> torch.Tensor:
    """scores (heads, nq, nk) -> the same with their biases; the queries are the last nq of nk positions."""
    ### BEGIN SOLUTION
    heads, nq, nk = scores.shape
    slopes = 2 ** (-8 * torch.arange(1, heads + 1) / heads)
    behind = torch.arange(nk - nq, nk)[:, None] - torch.arange(nk)
    return scores - slopes[:, None, None] * behind.clamp(min=0)
    ### END SOLUTION


# %% check="model.alibi"
check("model.alibi", alibi)

# %% [markdown]
# ## Exercise: what each touches
#
# {{exercise model.touches}}
#
# Now answer what you guessed. Write True or False; who writes the same word everywhere earns nothing
# ({{truths.plain}}). The fourth question of each way moves a whole text: its first token stands at 100, not at 0, and
# the distances within it are the same.

# %% exercise="model.touches"
touches = {
    "sinusoidal changes q": ...,
    "sinusoidal changes k": ...,
    "sinusoidal changes v": ...,
    "sinusoidal: a text that begins at 100 has the same scores": ...,
    "rotary changes q": ...,
    "rotary changes k": ...,
    "rotary changes v": ...,
    "rotary: a text that begins at 100 has the same scores": ...,
    "ALiBi changes q": ...,
    "ALiBi changes k": ...,
    "ALiBi changes v": ...,
    "ALiBi: a text that begins at 100 has the same scores": ...,
}
### BEGIN SOLUTION
touches = {
    "sinusoidal changes q": True,
    "sinusoidal changes k": True,
    "sinusoidal changes v": True,
    "sinusoidal: a text that begins at 100 has the same scores": False,
    "rotary changes q": True,
    "rotary changes k": True,
    "rotary changes v": False,
    "rotary: a text that begins at 100 has the same scores": True,
    "ALiBi changes q": False,
    "ALiBi changes k": False,
    "ALiBi changes v": False,
    "ALiBi: a text that begins at 100 has the same scores": True,
}
### END SOLUTION

# %% check="model.touches"
check("model.touches", touches)

# %% [markdown]
# ## The function that every layer calls
#
# A model of the library `transformers` lets you replace its attention by a function of your own, and so do nanochat
# and others. The function is called in each layer, for prompts, pieces of prompts, and single tokens, with caches of
# two kinds. Here are six calls of one generation. The first of them is easy: a prompt of 10 tokens, ten queries, ten
# keys, and row i sees keys 0 to i.
#
# Before you move the sliders: in the second call six more tokens come, after the ten. How many keys does the first of
# them see?

# %%
figures.model.explore_which_rows()

# %% [markdown]
# ## Exercise: which rows see what
#
# {{exercise model.which_rows}}
#
# Calls 1 to 3 and 6 use a cache that grows, so that the last key is the last query's own. Calls 4 and 5 use a cache
# of 24 places, allocated once, whose empty places are handed over like the others. Write how many keys the first and
# the last query see ({{numbers.plain}}).

# %% exercise="model.which_rows"
which_rows = {
    "a prompt of 10: the first query": ...,
    "a prompt of 10: the last query": ...,
    "a second piece of 6: the first query": ...,
    "a second piece of 6: the last query": ...,
    "one token, 17th: the last query": ...,
    "a prompt of 10 in 24 places: the first query": ...,
    "a prompt of 10 in 24 places: the last query": ...,
    "one token, 17th, in 24 places: the last query": ...,
    "a window of 4, one token, 17th: the last query": ...,
}
### BEGIN SOLUTION
which_rows = {
    "a prompt of 10: the first query": 1,
    "a prompt of 10: the last query": 10,
    "a second piece of 6: the first query": 11,  # the ten of the first piece, and itself
    "a second piece of 6: the last query": 16,
    "one token, 17th: the last query": 17,
    "a prompt of 10 in 24 places: the first query": 1,
    "a prompt of 10 in 24 places: the last query": 10,
    "one token, 17th, in 24 places: the last query": 17,
    "a window of 4, one token, 17th: the last query": 4,
}
### END SOLUTION

# %% check="model.which_rows"
check("model.which_rows", which_rows)

# %% [markdown]
# Two alignments of one mask come out of this. If the queries are the **last** positions, row i sees keys up to i + Nk
# − Nq: the mask's diagonal ends in the **bottom right** corner. FlashAttention means that, and units 08 to 10 did. If
# the queries are the **first** positions, in front of empty places, row i sees keys up to i: the diagonal begins at
# the **top left**. torch's `is_causal=True` means that. The shapes are the same in both cases. Somebody must say
# which one is meant, and a function that guesses is right until a text comes in two pieces.

# %% [markdown]
# ## Exercise: the function that a layer calls
#
# {{exercise model.attention_for}}
#
# It is unit 09's kernel once more, and this time the world around it is a model's:
# * **Layouts.** q comes as a view of (B, N, H, D), and k and v from a cache are contiguous. The result is to be (B,
#   Nq, Hq, D), not (B, Hq, Nq, D).
# * **Shared heads.** Head h of q reads head h // (Hq / Hkv) of k and v. Nobody has repeated them in memory for you,
#   and you need not.
# * **Masks.** Where `attention_mask` is given, it alone says what is seen: padding, causality and windows are all in
#   it. Real libraries have dropped it silently, and then a text that is padded on the left continues with other words
#   than the same text alone.
# * **The scale** is the model's. Most pass 1 / √D; some pass another number, and look fine for a while if it is
#   ignored.
#
# Full marks need
# * shared heads ({{correct.grouped}}), queries that are the last ({{correct.causal}}) and the first
#   ({{correct.top left}}) positions, a window ({{correct.window}}), a mask, and 0 for a query that sees nothing
#   ({{correct.mask}}), the model's scale ({{correct.scale}}), half precision ({{correct.half}}),
# * no copy of k or v ({{buffers_below.performance}}), half the products where it is causal
#   ({{dot_flops.performance}}), one launch ({{launches.performance}}).
#
# The function has no way back. In training a layer calls a function of autograd instead; what happens to one that
# forgets this is below, too.


# %% exercise="model.attention_for"
@triton.jit
def layer_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, q_strides, k_strides, v_strides, mask_strides, o_strides, Hq, Nq, Nk, scale, offset, window,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one head of one text. Strides are those of (B, H, N, D)."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // Hq).to(tl.int64), (j % Hq).to(tl.int64)
    rows, dims = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_at = q_ptr + batch * q_strides[0] + head * q_strides[1]
    k_at = k_ptr + batch * k_strides[0] + head // GROUP * k_strides[1]
    v_at = v_ptr + batch * v_strides[0] + head // GROUP * v_strides[1]
    q = tl.load(q_at + rows[:, None] * q_strides[2] + dims[None, :] * q_strides[3], mask=(rows < Nq)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    start, stop = 0, Nk
    if CAUSAL:  # keys that some row of this tile sees
        first = tl.program_id(0) * BLOCK_M + offset
        start = tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N
        stop = tl.minimum(first + BLOCK_M, Nk)
    for i in range(start, stop, BLOCK_N):
        keys = i + tl.arange(0, BLOCK_N)
        there = keys < Nk
        k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there[:, None], other=0)
        v = tl.load(v_at + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3], mask=there[:, None], other=0)
        sees = there[None, :] & (rows < Nq)[:, None]
        if CAUSAL:
            sees &= (keys[None, :] <= rows[:, None] + offset) & (keys[None, :] > rows[:, None] + offset - window)
        if MASKED:
            mask_at = (
                mask_ptr + batch * mask_strides[0] + rows[:, None] * mask_strides[2] + keys[None, :] * mask_strides[3]
            )
            sees &= tl.load(mask_at, mask=sees, other=0) != 0
        s = tl.where(sees, tl.dot(q, k.T, input_precision="ieee") * scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # a row that has seen nothing yet
        alpha, p = tl.exp(m - safe), tl.exp(s - safe[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    o = acc / tl.where(l == 0, 1.0, l)[:, None]
    o_at = (
        o_ptr + batch * o_strides[0] + head * o_strides[1] + rows[:, None] * o_strides[2] + dims[None, :] * o_strides[3]
    )
    tl.store(o_at, o.to(o_ptr.dtype.element_ty), mask=(rows < Nq)[:, None])
    ### END SOLUTION


def attention_for(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, sliding_window=None, top_left=False, **others
):
    """query (B, Hq, Nq, D), key and value (B, Hkv, Nk, D), any strides -> (B, Nq, Hq, D), None. D is 16, 32, 64 or 128.

    attention_mask   None, or (B, 1, Nq, Nk), True where a query sees a key: then it alone says what is seen
    module           module.is_causal: without a mask, a query sees no later position than its own
    top_left         the queries stand at the first positions of the keys, not at the last
    sliding_window   without a mask, a query sees the last so many keys, its own among them
    """
    ### BEGIN SOLUTION
    (B, Hq, Nq, D), (Hkv, Nk) = query.shape, key.shape[1:3]
    masked = attention_mask is not None
    mask = attention_mask if masked else query
    o = torch.empty(B, Nq, Hq, D, dtype=query.dtype, device=query.device)
    BLOCK_M = 64
    layer_kernel[(triton.cdiv(Nq, BLOCK_M), B * Hq)](
        query, key, value, mask, o, query.stride(), key.stride(), value.stride(), mask.stride(), o.transpose(1, 2).stride(),
        Hq, Nq, Nk, D**-0.5 if scaling is None else scaling, 0 if top_left else Nk - Nq, sliding_window or Nq + Nk,
        GROUP=Hq // Hkv, CAUSAL=module.is_causal and not masked, MASKED=masked, D=D, BLOCK_M=BLOCK_M, BLOCK_N=64,
    )  # fmt: skip
    return o, None
    ### END SOLUTION


# %% check="model.attention_for"
check("model.attention_for", attention_for)

# %% [markdown]
# ## Whose sum is it?
#
# Four heads of q read one head of k. On the way back each of the four has a gradient for it, and dk is their sum.
# Three ways to add up:
#
# | | memory | the same bits in every run |
# | --- | --- | --- |
# | a gradient for each head of q, then a sum | four times dk | yes |
# | atomics into dk | dk | no |
# | one program owns the keys, and visits all four heads | dk | yes |
#
# The third costs nothing but a loop. It is the lesson of unit 10 once more: give every sum one owner.

# %% [markdown]
# ## Exercise: gradients of shared heads
#
# {{exercise model.grouped_backward}}
#
# It is dkdv of unit 10 with one more loop around the walk over queries. It is always causal, and the queries are the
# last of the keys' positions; lse and delta come from forward passes as in unit 10. Full marks need
# * the sum over a group ({{correct.grouped}}), any sizes ({{correct.ragged}}), half precision in and out
#   ({{correct.half}}),
# * no atomics ({{no_atomics.performance}}), no gradient of a single head of q in memory
#   ({{buffers_below.performance}}), half the products ({{dot_flops.performance}}), k and v read once and each tile of
#   q and do as often as it must be ({{traffic.performance}}), one launch ({{launches.performance}}).


# %% exercise="model.grouped_backward"
@triton.jit
def grouped_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides, Hkv, Nq, Nk, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dk and dv of BLOCK_N keys of one head of k and v of one text."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // Hkv).to(tl.int64), (j % Hkv).to(tl.int64)
    first = tl.program_id(0) * BLOCK_N
    keys, dims = first + tl.arange(0, BLOCK_N), tl.arange(0, D)
    there = (keys < Nk)[:, None]
    k_at = k_ptr + batch * k_strides[0] + head * k_strides[1]
    v_at = v_ptr + batch * v_strides[0] + head * v_strides[1]
    k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there, other=0)
    v = tl.load(v_at + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3], mask=there, other=0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    start = tl.maximum(first - (Nk - Nq), 0) // BLOCK_M * BLOCK_M  # the first tile with a query that sees these keys
    for g in range(GROUP):
        h = head * GROUP + g
        q_at = q_ptr + batch * q_strides[0] + h * q_strides[1]
        do_at = do_ptr + batch * do_strides[0] + h * do_strides[1]
        of_head = (batch * Hkv * GROUP + h) * Nq
        for i in range(start, Nq, BLOCK_M):
            rows = i + tl.arange(0, BLOCK_M)
            inside = (rows < Nq)[:, None]
            q = tl.load(q_at + rows[:, None] * q_strides[2] + dims[None, :] * q_strides[3], mask=inside, other=0)
            do = tl.load(do_at + rows[:, None] * do_strides[2] + dims[None, :] * do_strides[3], mask=inside, other=0)
            lse = tl.load(lse_ptr + of_head + rows, mask=rows < Nq, other=0)
            delta = tl.load(delta_ptr + of_head + rows, mask=rows < Nq, other=0)
            sees = inside & (keys[None, :] <= rows[:, None] + Nk - Nq) & (keys < Nk)[None, :]
            s = tl.dot(q, k.T, input_precision="ieee") * scale
            p = tl.where(sees, tl.exp(s - lse[:, None]), 0.0)
            dv += tl.dot(p.to(do.dtype).T, do, input_precision="ieee")
            ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])
            dk += tl.dot(ds.to(q.dtype).T, q, input_precision="ieee")
    dk_at = dk_ptr + batch * dk_strides[0] + head * dk_strides[1]
    dv_at = dv_ptr + batch * dv_strides[0] + head * dv_strides[1]
    dk_at += keys[:, None] * dk_strides[2] + dims[None, :] * dk_strides[3]
    dv_at += keys[:, None] * dv_strides[2] + dims[None, :] * dv_strides[3]
    tl.store(dk_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=there)
    tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=there)
    ### END SOLUTION


def grouped_backward(q, k, v, do, lse, delta, scale):
    """q, do (B, Hq, Nq, D), k, v (B, Hkv, Nk, D), any strides; lse, delta (B, Hq, Nq), contiguous -> dk, dv, causal."""
    ### BEGIN SOLUTION
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    BLOCK_N = 64
    grouped_dkdv_kernel[(triton.cdiv(Nk, BLOCK_N), B * Hkv)](
        q, k, v, do, lse, delta, dk, dv, *(x.stride() for x in (q, k, v, do, dk, dv)), Hkv, Nq, Nk, scale,
        GROUP=Hq // Hkv, D=D, BLOCK_M=32, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return dk, dv
    ### END SOLUTION


# %% check="model.grouped_backward"
check("model.grouped_backward", grouped_backward)

# %% [markdown]
# ## What torch.compile must be told
#
# A kernel launch is invisible to torch. In eager mode that is no harm, and `torch.autograd.Function` adds the
# gradient. `torch.compile` is another matter: it runs your model once with tensors that have shapes and no data, and
# a launch on such a tensor fails. So a kernel becomes an **operator**:
# * `torch.library.custom_op` gives a function a name and types, and keeps what is inside to itself,
# * `register_fake` says what the results look like, without running it,
# * `register_autograd` says how to go back.
#
# What if somebody forgets the gradient of one input? Nothing fails. The loss falls, since the other weights learn,
# and that one stays as it was for the whole training.

# %% [markdown]
# ## Exercise: an operator of torch
#
# {{exercise model.operator_norm}}
#
# The kernels are given: unit 06's RMSNorm, which also keeps rstd, and unit 07's way back. (They are contiguous in,
# contiguous out.) You make two operators of them, and a function that calls the first. Full marks need
# * the result and both gradients ({{correct.ragged}}), shapes and dtypes without data, forward and backward
#   ({{correct.fake}}),
# * nothing kept but x, weight and rstd ({{saves.performance}}), one launch forward ({{launches.performance.forward}})
#   and two backward ({{launches.performance.backward}}).


# %% exercise="model.operator_norm"
@triton.jit
def norm_forward_kernel(x_ptr, weight_ptr, y_ptr, rstd_ptr, N, BLOCK: tl.constexpr):
    """One row; rstd is kept for the way back."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / N + 1e-6)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(y_ptr + row * N + cols, x * rstd * weight, mask=cols < N)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def norm_backward_kernel(
    x_ptr, weight_ptr, rstd_ptr, dy_ptr, dx_ptr, parts_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """dx of ROWS rows, and what they add to dweight."""
    cols = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0).to(tl.float32)
    part = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0) * ROWS, tl.minimum((tl.program_id(0) + 1) * ROWS, M)):
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        part += dy * x * rstd
        dx = rstd * (dy * weight - x * rstd * rstd * tl.sum(dy * weight * x, 0) / N)
        tl.store(dx_ptr + row * N + cols, dx, mask=cols < N)
    tl.store(parts_ptr + tl.program_id(0) * N + cols, part, mask=cols < N)


@triton.jit
def add_parts_kernel(parts_ptr, dweight_ptr, parts, N, BLOCK: tl.constexpr):
    """dweight of BLOCK columns."""
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(parts):
        total += tl.load(parts_ptr + i * N + cols, mask=cols < N, other=0)
    tl.store(dweight_ptr + cols, total, mask=cols < N)


def norm_forward(x, weight):
    """x (M, N), weight (N,), contiguous -> y (M, N), rstd (M,) float32. Given: unit 06's RMSNorm, which keeps rstd."""
    (M, N), y = x.shape, torch.empty_like(x)
    rstd = torch.empty(M, dtype=torch.float32, device=x.device)
    norm_forward_kernel[(M,)](x, weight, y, rstd, N, BLOCK=triton.next_power_of_2(N))
    return y, rstd


def norm_backward(x, weight, rstd, dy):
    """-> dx (M, N), dweight (N,). Given: unit 07's."""
    (M, N), dx, dweight = x.shape, torch.empty_like(x), torch.empty_like(weight)
    ROWS = 8
    parts = torch.empty(triton.cdiv(M, ROWS), N, dtype=torch.float32, device=x.device)
    norm_backward_kernel[(len(parts),)](
        x, weight, rstd, dy, dx, parts, M, N, ROWS=ROWS, BLOCK=triton.next_power_of_2(N)
    )
    add_parts_kernel[(triton.cdiv(N, 128),)](parts, dweight, len(parts), N, BLOCK=128)
    return dx, dweight


### BEGIN SOLUTION
@torch.library.custom_op("course::norm", mutates_args=())
def norm_op(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return norm_forward(x, weight)


@norm_op.register_fake
def _(x, weight):
    return torch.empty_like(x), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.custom_op("course::norm_backward", mutates_args=())
def norm_backward_op(
    x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dy: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return norm_backward(x, weight, rstd, dy.contiguous())


@norm_backward_op.register_fake
def _(x, weight, rstd, dy):
    return torch.empty_like(x), torch.empty_like(weight)


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


def go_back(ctx, dy, _):
    return norm_backward_op(*ctx.saved_tensors, dy)


norm_op.register_autograd(go_back, setup_context=keep)


### END SOLUTION
def operator_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x (M, N), weight (N,) -> y (M, N), differentiable, and known to torch.compile."""
    ### BEGIN SOLUTION
    return norm_op(x, weight)[0]
    ### END SOLUTION


# %% check="model.operator_norm"
check("model.operator_norm", operator_norm)

# %% [markdown]
# torch brings a judge of its own, `opcheck`. It asks whether the types are true, the fake is right, autograd is
# registered, and the compiler gets the same result. The check above cannot run it, because it believes nothing that
# your process says; you can. The kernels run under a trace here, so no GPU is needed. With your own names in place of
# these, it works on your operators.

# %%
if "norm_op" in globals():  # the name that you gave to your operator
    x, weight = torch.randn(8, 32, requires_grad=True), torch.randn(32, requires_grad=True)
    with trace():
        for test, outcome in torch.library.opcheck(norm_op, (x, weight), raise_exception=False).items():  # noqa: F821
            print(f"{test}: {outcome}")
        eager = operator_norm(x, weight)
        compiled = torch.compile(operator_norm, fullgraph=True, backend="aot_eager")(x, weight)
    print(f"compiled and eager differ by {(eager - compiled).abs().max().item()}")

# %% [markdown]
# `triton_op` is the other way to the same end. It shows the kernels to the compiler, which may then fuse around them.
# That needs a GPU's driver, so it is not for a laptop.

# %% [markdown]
# ## Writing a text
#
# A model writes one token at a time, and each new token attends to all before it. Their keys and values do not change
# any more, so they are kept. Here is the cache as many first versions have it:
#
# ```python
# k, v = torch.cat([cache.k, k], 2), torch.cat([cache.v, v], 2)
# ```
#
# How many bytes does writing 1000 tokens move in this line, for each byte that is new?

# %% [markdown]
# ## Exercise: the cache
#
# {{exercise model.kv_cache}}
#
# `torch.cat` makes a new tensor for each token and copies all old tokens into it: about 500 times the bytes, on
# average over 1000 tokens. So the cache has its memory from the beginning, a token is written to its place, and what
# attention reads is a view.
#
# A model with a window of 4096 never looks further back, and its cache needs no more slots. Token t goes to slot t %
# slots, over the one that nobody will ask for again. The order in the ring is not the order of the text. Attention of
# one query does not mind: it is a sum. Full marks need
# * any pieces, up to the last place ({{correct.ragged}}), a ring where the cache is full ({{correct.ring}}), of a
#   prompt longer than the ring its end ({{correct.long}}),
# * each token moved once ({{moves.performance}}), in a full ring, too ({{moves.full ring}}), and nothing allocated
#   but the cache ({{buffers_below.full ring}}).


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
# q, k and v of one token come from the projections. The token is turned by its position, its k and v go into the
# cache, and q attends to what is there, its own key included. Done for every token, this gives what one pass over the
# whole text gives: that is how it is checked.
#
# Think of what this step moves. Each cached k and v is read once, for a product of two numbers each: the intensity is
# near 1 FLOP a byte for each head of q in the group. So the bytes are the time. One program cannot ask for them fast
# enough, which is why the keys are cut into shares, as in unit 09's `flash_decode`; its `merge_kernel` is given. What
# is new: a batch, strides, and a cache with more slots than tokens.
#
# Full marks need
# * the token's own position ({{correct.positions}}), any group, from the first token on ({{correct.ragged}}), a ring
#   ({{correct.ring}}), half precision ({{correct.half}}),
# * the bytes of the cache, once ({{traffic.performance}}), at least 32 programs that share them
#   ({{read_together.performance}}), no copy of the cache ({{buffers_below.performance}}), three launches
#   ({{launches.performance}}).


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
# A server has many texts, and does not know how long each will be. If it reserves the longest for all, most of the
# memory is empty. So the memory is cut into **pages** of 16 tokens or so, a text gets a page when it needs one, and a
# table says which pages are its own: virtual memory, for keys and values. (vLLM; Kwon and others, 2023.)

# %% [markdown]
# ## Exercise: pages
#
# {{exercise model.paged_decode}}
#
# Key i of text b is in page table[b, i // page], at place i % page. Pages that belong to nobody, and the places
# behind a text's last token, hold whatever was there before: NaN, in the check. Entries of the table behind a text's
# last page are no pages at all. One launch with a program for each text and head of k will do.
#
# Full marks need texts of any lengths ({{correct.ragged}}), half precision ({{correct.half}}), the bytes of the
# tokens that are there ({{traffic.performance}}), and pages that stay where they are ({{buffers_below.performance}}).


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

# %% [markdown]
# ## How many texts, and how fast?
#
# A model of 8 B parameters in bfloat16 takes 16 GB. The card has 141 GB. How many texts of 8192 tokens can it write
# at once, and what is the time of a step? The picture has the bounds for one such model.

# %%
figures.model.prefill_and_decode()

# %% [markdown]
# ## Exercise: how many texts, and how fast
#
# {{exercise model.serving}}
#
# `config` has layers, kv_heads, head_dim, itemsize, window (None, or how many tokens a cache keeps) and parameters. A
# step reads all weights, and the whole cache of each text; what it computes is free, as the picture shows. Full marks
# need the numbers for a common model ({{correct.plain}}), other heads ({{correct.heads}}), windows
# ({{correct.window}}), and memories that hold a text exactly, or none ({{correct.edges}}).


# %% exercise="model.serving"
def serving(config: dict, tokens: int, memory: int, bandwidth: float) -> tuple[int, int, float]:
    """config: layers, kv_heads, head_dim, itemsize, window (or None), parameters; memory in bytes, bandwidth in bytes a second
    -> (kv_bytes of a text of so many tokens, largest_batch beside the weights, decode_seconds of a step with that batch)."""
    ### BEGIN SOLUTION
    kept = min(tokens, config["window"] or tokens)
    kv_bytes = 2 * config["layers"] * config["kv_heads"] * config["head_dim"] * kept * config["itemsize"]
    weights = config["parameters"] * config["itemsize"]
    largest_batch = max(0, memory - weights) // kv_bytes
    return kv_bytes, largest_batch, (weights + largest_batch * kv_bytes) / bandwidth
    ### END SOLUTION


# %% check="model.serving"
check("model.serving", serving)

# %% [markdown]
# ## What is wrong here?
#
# Your kernel is right, and the model is wrong. All of these happened, in libraries that many people use:
#
# 1. The mask is dropped.
# 2. The causal mask is aligned at the other corner.
# 3. A kernel without a way back is called in training.
# 4. Rotary turns q and k in place.
# 5. The model's scale is ignored.
# 6. k and v are repeated for every head of q.

# %% [markdown]
# ## Exercise: what is wrong here?
#
# {{exercise model.name_it}}
#
# Each line is what somebody saw who compared with the model as it was. Write the number of the cause
# ({{numbers.plain}}).

# %% exercise="model.name_it"
name_it = {
    "padded texts differ, the others agree": ...,
    "a prompt agrees, its second piece does not": ...,
    "losses fall as before, the projections of q, k and v stay as they were": ...,
    "all agrees until activations are recomputed": ...,
    "every row differs, in a model whose configuration names a multiplier": ...,
    "all agrees, and the peak of memory grows with the cache times the group": ...,
}
### BEGIN SOLUTION
name_it = {
    "padded texts differ, the others agree": 1,
    "a prompt agrees, its second piece does not": 2,
    "losses fall as before, the projections of q, k and v stay as they were": 3,
    "all agrees until activations are recomputed": 4,
    "every row differs, in a model whose configuration names a multiplier": 5,
    "all agrees, and the peak of memory grows with the cache times the group": 6,
}
### END SOLUTION

# %% check="model.name_it"
check("model.name_it", name_it)

# %% [markdown]
# ## Exercise: mend it
#
# {{exercise model.mended}}
#
# The cell has an attention in torch's own operations, with all six in it. Mend them; the result and the gradients are
# compared. The check does what a checkpoint does: it runs the function once, and once more on the same q, k and v,
# for what backward needs.
#
# Full marks need gradients ({{correct.plain}}), the mask ({{correct.mask}}), queries that are the last
# ({{correct.causal}}), the model's scale ({{correct.scale}}), the same result when it runs again ({{correct.again}}),
# and no operation that makes k or v for each head of q ({{no_repeats.shared}}).


# %% exercise="model.mended"
def mended(q, k, v, cos, sin, mask, scale):
    """q (B, Hq, Nq, D), the last Nq positions, k and v (B, Hkv, Nk, D), not turned; mask None or (B, 1, Nq, Nk) -> (B, Hq, Nq, D)."""
    (_, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]
    for x, first in (q, Nk - Nq), (k, 0):
        c, s = cos[first : first + x.shape[2]], sin[first : first + x.shape[2]]
        a, b = x[..., : D // 2].clone(), x[..., D // 2 :].clone()
        x[..., : D // 2], x[..., D // 2 :] = a * c - b * s, b * c + a * s
    with torch.no_grad():
        k, v = (x.repeat_interleave(Hq // Hkv, 1) for x in (k, v))
        scores = q @ k.mT * D**-0.5
        scores = scores.masked_fill(~torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(), -math.inf)
        out = torch.softmax(scores, -1) @ v
    return out


### BEGIN SOLUTION
def mended(q, k, v, cos, sin, mask, scale):  # noqa: F811 (this one takes its place)
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]

    def turned(x, first):  # 4: new tensors, since q and k are asked for again
        c, s = cos[first : first + x.shape[2]], sin[first : first + x.shape[2]]
        a, b = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    rows = turned(q, Nk - Nq).reshape(B, Hkv, -1, D)  # 6: the rows of a group's heads, in one product
    scores = rows @ turned(k, 0).mT * scale  # 5: the model's scale; 3: in sight of autograd
    scores = scores.view(B, Hkv, Hq // Hkv, Nq, Nk)
    sees = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(Nk - Nq)  # 2: the queries are the last
    if mask is not None:
        sees = mask.view(B, 1, 1, Nq, Nk)  # 1: it says all
    p = torch.softmax(scores.masked_fill(~sees, -math.inf), -1)
    return (p.view(B, Hkv, -1, Nk) @ v).view(B, Hq, Nq, D)


### END SOLUTION
# %% check="model.mended"
check("model.mended", mended)

# %% [markdown]
# ## What you now know
#
# * A position enters through the embedding, by turning q and k, or in the scores. v is turned by nobody.
# * What a query sees is said by the caller: a mask, a window, one of two alignments. Shapes do not tell.
# * Gradients of shared heads are one sum more, and it has one owner.
# * An operator tells torch its types, its shapes and its way back. What it leaves out, nobody misses until later.
# * A cache is memory that stays where it is. A token costs the bytes of the cache, and the weights once for all
#   texts.

# %% gpu="model.progress"
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs that you
# have not seen.
#
# ## Where to read on
#
# * Su and others, *RoFormer*, 2021; Press, Smith and Lewis, *Train Short, Test Long*, 2021: two of the three ways to tell a position.
# * Ainslie and others, *GQA*, 2023; Jiang and others, *Mistral 7B*, 2023: shared heads, and a cache that is a ring.
# * Kwon and others, *Efficient Memory Management for Large Language Model Serving with PagedAttention*, 2023.
# * Pope and others, *Efficiently Scaling Transformer Inference*, 2022: what prefill and decoding cost.
