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
# # 12 · Serving a model
#
# **After this unit you can** tell a model where its tokens stand, write the function that every layer of a real model
# calls for attention, and write text with a cache that is never copied. You can say how many texts a card can write at
# once, and what sets the pace. And you can find six mistakes that libraries have made around a kernel that was right.
# You need 09 (FlashAttention forward). Nothing here uses what you wrote in unit 11, and you need no GPU.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import attempt, check, figures, hint, progress, trace  # noqa: F401 (some are yours to call)
from course_lib.handin import earlier
from course_lib.workloads import in_transformers
from tritontrace.gpu import datasheet

# %% [markdown]
# ## The question
#
# A model of 8 billion parameters in bfloat16 writes a text, one token at a time, on an H200. Each step reads all weights
# from memory. How many tokens a second can a single text get at most?

# %% predict="serving.guess_tokens"
# Write a number of tokens a second before you go on; it earns no points. The answer is in "How many texts, and how fast?" below.
guess_tokens = ...

# %% [markdown]
# ## Where does a token stand?
#
# Attention is a sum over keys, and a sum has no order. Without a mask you can shuffle the keys together with their
# values, and every output stays the same, apart from rounding. A causal mask changes only *which* keys a query sees,
# and among these their order still does not count. So a model must be told where a token stands. Three ways are in use,
# and they act at three different places: before the projections, after two of the projections, or in the scores.
#
# Which of q, k and v does each way change? Make a guess now. You will answer this question further down, after you have
# written all three.

# %% [markdown]
# ## Exercise: waves
#
# {{exercise serving.sinusoidal}}
#
# The transformer of 2017 added a wave to each token's embedding. For the token at position n, column 2 i of the wave holds
# sin(n / 10000^(2 i / D)), and column 2 i + 1 holds the cosine of the same angle. From one token to the next, the angle of
# the first pair of columns grows by one radian, and that of the last pair by about a ten-thousandth of one.
#
# Full marks require right numbers for any N and any even D ({{correct.sizes}}).


# %% exercise="serving.sinusoidal"
def sinusoidal(positions: torch.Tensor, D: int) -> torch.Tensor:
    """positions n (N,) -> (N, D) float32: sin(n / 10000^(2 i / D)) in column 2 i, cos of the same in column 2 i + 1."""
    ### BEGIN SOLUTION
    angle = positions[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    ### END SOLUTION


# %% check="serving.sinusoidal"
check("serving.sinusoidal", sinusoidal)

# %% [markdown]
# ## Exercise: rotary
#
# {{exercise serving.rotary}}
#
# RoPE turns q and k instead. Number i of the first half of a row and number i of the second half make a pair (a, b), for
# i = 0, ..., D / 2 − 1. In row n this pair is turned by the angle positions[n] / base^(2 i / D):
#
# > (a, b) → (a cos − b sin, b cos + a sin)
#
# The product of a turned q and a turned k depends on the difference of the two angles, and therefore on how far apart
# the two tokens are. (Some papers pair neighbours instead. A model that was trained with one pairing writes noise with
# the other, and the shapes do not show which one it needs.)
#
# The positions are an argument, because a row's number is not its position. While a text is written, each call has a
# single row, and this row may be token number 700 of the text. Full marks require
# * right results for any positions ({{correct.positions}}), for any even D and any base ({{correct.ragged}}), and for
#   half precision ({{correct.half}}),
# * that x is read once and the result is written once ({{traffic.performance}}), with dense loads
#   ({{coalesced.load.performance}}) and in one launch ({{launches.performance}}).
#
# The result is a new tensor. Why should you not turn x in place, to save the memory? The last exercise of the unit has
# the answer.


# %% exercise="serving.rotary"
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
    """Turn BLOCK_N rows of one head of one text."""
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


# %% check="serving.rotary"
check("serving.rotary", rotary)

# %% [markdown]
# ## Exercise: ALiBi
#
# {{exercise serving.alibi}}
#
# ALiBi leaves q, k and v alone. It subtracts a number from each score, in proportion to how far the key lies behind the
# query: head h of H heads subtracts 2^(−8 (h + 1) / H) for each token of distance. This factor is the head's slope.
# Heads with a steep slope look at tokens nearby, and the others look far back.
#
# The queries are the last nq of nk positions. A causal mask hides the keys that lie ahead of a query, so here you
# subtract 0 from their scores. You earn nothing unless the distances and slopes are right for as many queries as keys.
# Full marks also require right results for fewer queries than keys ({{correct.decode}}), and for any number of heads
# ({{correct.heads}}).


# %% exercise="serving.alibi"
def alibi(scores: torch.Tensor) -> torch.Tensor:
    """scores (heads, nq, nk) -> the same with their biases; the queries are the last nq of nk positions."""
    ### BEGIN SOLUTION
    heads, nq, nk = scores.shape
    slopes = 2 ** (-8 * torch.arange(1, heads + 1) / heads)
    behind = torch.arange(nk - nq, nk)[:, None] - torch.arange(nk)
    return scores - slopes[:, None, None] * behind.clamp(min=0)
    ### END SOLUTION


# %% check="serving.alibi"
check("serving.alibi", alibi)

# %% [markdown]
# ## Exercise: what each touches
#
# {{exercise serving.touches}}
#
# Now answer the question about which you made a guess ({{truths.plain}}). Write True or False. The same word on all
# lines earns nothing. The fourth question about each way moves a whole text: its first token stands at position 100
# instead of 0, and the distances within the text stay the same.

# %% exercise="serving.touches"
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

# %% check="serving.touches"
check("serving.touches", touches)

# %% [markdown]
# ## The function that every layer calls
#
# In the library `transformers` you can replace a model's attention by a function of your own. The same is true of
# nanochat and others. Every layer calls this function: for prompts, for pieces of prompts, and for single tokens, with
# two kinds of caches. The picture shows six such calls. The first of them is easy: a prompt of 10 tokens has ten
# queries and ten keys, and row i sees keys 0 to i.
#
# Before you move the sliders, answer a question. In the second call, six more tokens come after these ten. How many
# keys does the first of the six see?

# %%
figures.serving.explore_which_rows()

# %% [markdown]
# ## Exercise: which rows see what
#
# {{exercise serving.which_rows}}
#
# Calls 1 to 3 and 6 use a cache that grows, so the last key is that of the last query. Calls 4 and 5 use a cache of 24
# places, which is allocated once. Its empty places are handed over as keys, just like the others. For the query on each
# line, write how many keys it sees ({{numbers.plain}}).

# %% exercise="serving.which_rows"
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

# %% check="serving.which_rows"
check("serving.which_rows", which_rows)

# %% [markdown]
# These calls need two alignments of one mask. If the queries are the **last** positions, row i sees keys up to i + Nk −
# Nq: the mask's diagonal ends in the **bottom right** corner. This is what FlashAttention means, and what units 08 to
# 10 meant. If the queries are the **first** positions, in front of empty places, row i sees keys up to i: the diagonal
# begins at the **top left**. This is what torch's `is_causal=True` means. The shapes are the same in both cases. So the
# caller must say which alignment is meant. A function that guesses is right only until a text comes in two pieces.

# %% [markdown]
# ## Exercise: the function that a layer calls
#
# {{exercise serving.attention_for}}
#
# The kernel is that of unit 09 once more, but this time a model calls it. Four things are new:
# * **Layouts.** q comes as a view of (B, N, H, D), while k and v from a cache are contiguous. The result must have the
#   shape (B, Nq, Hq, D), not (B, Hq, Nq, D). A layer unpacks two values: return it with None beside it.
# * **Shared heads.** Head h of q reads head h // (Hq / Hkv) of k and v. k and v are not repeated in memory for you, and
#   you should not repeat them either.
# * **Masks.** If `attention_mask` is given, it alone says what is seen: padding, causality and windows are all in it.
#   Real libraries have silently dropped it. Then a text that is padded on the left continues with other words than the
#   same text without padding.
# * **The scale** is the model's. Most models pass 1 / √D. Some pass another number, and if this number is ignored,
#   their texts still look fine for a while.
#
# Full marks require
# * right results for shared heads ({{correct.grouped}}), for queries that are the last positions ({{correct.causal}})
#   or the first ({{correct.top left}}), for a window in both cases ({{correct.window}}), for a mask, with 0 for a query
#   that sees nothing ({{correct.mask}}), for the model's scale ({{correct.scale}}), and for half precision
#   ({{correct.half}}),
# * no copy of k or v ({{buffers_below.performance}}), half of the products if attention is causal
#   ({{dot_flops.performance}}), and one launch ({{launches.performance}}).
#
# This function has no backward pass, so in training a layer must call an autograd function instead. What happens if it
# does not? "What is wrong here?" below asks this question again.


# %% exercise="serving.attention_for"
@triton.jit
def layer_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, q_strides, k_strides, v_strides, mask_strides, o_strides, Hq, Nq, Nk, scale, offset, window,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention of BLOCK_M queries of one head of one text. Strides are those of (B, H, N, D)."""
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

    attention_mask   None, or (B, 1, Nq, Nk), any strides: True where a query sees a key. If given, it alone says what is seen
    module           module.is_causal: without a mask, a query sees no later position than its own
    top_left         the queries stand at the first positions of the keys, not at the last
    sliding_window   without a mask, a query sees the last sliding_window keys, its own included; given with is_causal alone
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


# %% check="serving.attention_for"
check("serving.attention_for", attention_for)

# %% [markdown]
# ## A model of somebody else
#
# This section earns no points. It needs the library `transformers`, and tells you if this library is missing. Nothing
# is downloaded: the weights are random, and the question is only whether your attention gives the same results as
# torch's.
#
# A model of this library looks up its attention by a name. `course_lib/workloads/in_transformers.py` registers two
# functions under one name:
#
# ```python
# AttentionInterface.register("course", of_layer)  # the function that a layer calls with q, k, v: your attention_for
# AttentionMaskInterface.register("course", mask_for)  # says which keys a query sees, or None if the shapes say it
# model.set_attn_implementation("course")
# ```
#
# In training without a mask, layers call your FlashAttention with unit 11's `grouped_backward`. Both are taken from
# your notebooks, and torch's attention replaces them if they are not solved. If there is a window or a mask, the forward
# pass is your `attention_for`, and the backward pass is torch's. The table compares logits, gradients and eight written
# tokens with those of torch's attention, for three models. The cell takes some seconds.
#
# The three models read text alone. In a model with images, such as BLIP-2, some layers are **cross-attention**: their
# queries look at the keys of another sequence, such as the pieces of an image. Then nothing is causal, and Nq differs
# from Nk. Your `attention_for` can do this as well: the check's case of 20 queries and 50 keys is such a call.
#
# In the last line of the table the second registration was left out. The library then hands over no mask at all. Which
# texts will this spoil: texts of equal length, or texts that are padded on the left to the length of the longest?

# %%
attention, whose = earlier.attention()
print(f"attention in training: {whose}")
print(in_transformers.report(attention_for, attention))

# %% [markdown]
# Nothing failed, and there was no warning. The model read the padding of the padded texts as if it were text.
#
# ## Writing a text
#
# A model writes one token at a time, and each new token attends to all tokens before it. Their keys and values do not
# change any more, so they are kept in a cache. Many first versions of a cache look like this:
#
# ```python
# k, v = torch.cat([cache.k, k], 2), torch.cat([cache.v, v], 2)
# ```
#
# Suppose that 1000 tokens are written. How many old tokens does this line copy on average, for each new one?

# %% [markdown]
# ## Exercise: the cache
#
# {{exercise serving.kv_cache}}
#
# `torch.cat` makes a new tensor for each token and copies all old tokens into it: on average over 1000 tokens it copies
# 500 old tokens for each new one, and reads and writes each of them. A better cache allocates all its memory at the
# beginning. Each token is written to its place, and attention reads a view.
#
# A model with a window of 4096 never looks further back than 4096 tokens, so its cache needs no more than 4096 slots.
# Such a cache is a **ring**: token t goes to slot t % slots, and overwrites the oldest token, which the new token's
# query does not see. So attention reads a ring one query at a time: a piece of several tokens overwrites keys that its
# first queries still need, and whoever wants these reads them before. `append` itself takes a piece of any length. The
# order in the ring is not the order of the text. But the attention of one query is a sum, and does not depend on the
# order.
#
# Write `append`, which takes the keys and values of the next n tokens, and returns views of all keys and values in the
# cache. Full marks require
# * right views after pieces of any size, up to the last slot ({{correct.ragged}}), after more tokens than slots
#   ({{correct.ring}}), and after a prompt that is longer than the ring, which keeps the prompt's end
#   ({{correct.long}}),
# * that each token is moved only once ({{moves.performance}}), also in a full ring ({{moves.full ring}}), and that
#   nothing but the cache is allocated ({{buffers_below.full ring}}).


# %% exercise="serving.kv_cache"
class KVCache:
    """Keys and values of one layer, (B, Hkv, slots, D) each: token t is in slot t % slots."""

    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)
        self.slots, self.length = slots, 0  # length counts all tokens so far, the overwritten ones included

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k, v (B, Hkv, n, D), the next n tokens -> views (B, Hkv, min(length, slots), D) of all that are in the cache."""
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


# %% check="serving.kv_cache"
check("serving.kv_cache", KVCache)

# %% [markdown]
# ## Exercise: one more token
#
# {{exercise serving.decode_step}}
#
# q, k and v of one token come from the projections. Your function turns q and k by the token's position, writes k and v
# into the cache, and lets q attend to all keys that are there, its own key included. cos and sin are whole tables, of
# shape (positions, D / 2), and D is a power of two. The cache may have any strides, but its last one is 1. If this is
# done for every token, the results are those of one pass over the whole text, and the check compares the two.
#
# What does this step move? Each number of the cached k and v is read once, and takes part in one multiplication and one
# addition for each head of q in the group. So in half precision the intensity is about 1 FLOP per byte for each of
# these heads, and the bytes decide the time. A single program cannot ask for the bytes fast enough, so the keys are cut
# into shares, as in unit 09's `flash_decode`. Its `merge_kernel` is given. Three things are new: a batch, strides, and
# a cache with more slots than tokens.
#
# Full marks require
# * right results by the token's own position ({{correct.positions}}), for any group, from the first token on
#   ({{correct.ragged}}), for a ring ({{correct.ring}}), and for half precision ({{correct.half}}),
# * that the cache is read only once ({{traffic.performance}}), by at least 32 programs that share the work
#   ({{read_together.performance}}), no copy of the cache ({{buffers_below.performance}}), and three launches
#   ({{launches.performance}}).


# %% exercise="serving.decode_step"
@triton.jit
def append_kernel(
    q_ptr, k_ptr, v_ptr, cos_ptr, sin_ptr, turned_ptr, cache_k_ptr, cache_v_ptr,
    q_strides, k_strides, v_strides, cache_k_strides, cache_v_strides, position, slot, GROUP: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """For one text and one head of k and v: turn its heads of q and k, store q in a buffer (B, Hq, D), and k and v in their slot."""
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
    """Merge the states of one head, as in unit 09's flash_decode."""
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


# %% check="serving.decode_step"
check("serving.decode_step", decode_step)

# %% [markdown]
# A server writes many texts, and does not know how long each of them will be. If it reserves room for the longest
# possible text each time, most of the memory stays empty. So the memory is cut into **pages** of 16 tokens or so. A
# text gets a page when it needs one, and a table says which pages belong to which text. This is virtual memory for keys
# and values. (vLLM; Kwon and others, 2023.)

# %% [markdown]
# ## Exercise: pages
#
# {{exercise serving.paged_decode}}
#
# Key i of text b is in page table[b, i // page], at place i % page. Pages that belong to no text, and the places after
# a text's last token, hold whatever was there before. In the check they hold NaN. The table's entries after a text's
# last page are not numbers of pages. One launch with a program for each text and each head of k is enough.
#
# Full marks require right results for texts of any lengths ({{correct.ragged}}) and for half precision
# ({{correct.half}}), that only the bytes of a text's tokens are read ({{traffic.performance}}), and that no pages are
# copied ({{buffers_below.performance}}).


# %% exercise="serving.paged_decode"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, o_ptr, k_strides, v_strides, table_stride, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """Attention for the heads of q that read one head of k and v of one text."""
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


# %% check="serving.paged_decode"
check("serving.paged_decode", paged_decode)

# %% [markdown]
# ## How many texts, and how fast?
#
# A model of 8 B parameters in bfloat16 takes 16 GB. The card has 141 GB. How many texts of 8192 tokens can the model
# write at once? And how long does a step take, in which it writes one token of each text? First the answer to the
# question at the beginning: one text gets no more tokens a second than the weights can be read.

# %%
print(f"{datasheet('H200').hbm_bandwidth / 16e9:.0f} tokens a second for one text")

# %% [markdown]
# Other texts can share that reading. The picture shows what limits the steps of such a model.

# %%
figures.serving.prefill_and_decode()

# %% [markdown]
# ## Exercise: how many texts, and how fast
#
# {{exercise serving.capacity}}
#
# `config` is a dict with layers, kv_heads, head_dim, itemsize, window (None, or how many tokens a cache keeps at most)
# and parameters. A step reads all weights, and the whole cache of each text. Its arithmetic takes no additional time,
# as the picture shows. Full marks require the right numbers for a common model ({{correct.plain}}), for other numbers
# of heads ({{correct.heads}}), for windows ({{correct.window}}), and for memories that hold exactly one text, or none
# ({{correct.edges}}).


# %% exercise="serving.capacity"
def capacity(config: dict, tokens: int, memory: int, bandwidth: float) -> tuple[int, int, float]:
    """config: layers, kv_heads, head_dim, itemsize, window (or None), parameters; memory in bytes, bandwidth in bytes a second
    -> (kv_bytes of a text of `tokens` tokens, largest_batch next to the weights, decode_seconds of a step with this batch)."""
    ### BEGIN SOLUTION
    kept = min(tokens, config["window"] or tokens)
    kv_bytes = 2 * config["layers"] * config["kv_heads"] * config["head_dim"] * kept * config["itemsize"]
    weights = config["parameters"] * config["itemsize"]
    largest_batch = max(0, memory - weights) // kv_bytes
    return kv_bytes, largest_batch, (weights + largest_batch * kv_bytes) / bandwidth
    ### END SOLUTION


# %% check="serving.capacity"
check("serving.capacity", capacity)

# %% [markdown]
# Is a step really as fast as its bytes? The next picture shows unit 11's large model on a GPU, where it writes one
# more token of each text. Suppose that Python launches every kernel. How many times as long as reading the weights
# and caches will the step take?

# %%
figures.serving.large_decoding()

# %% [markdown]
# For one text the step takes more than twenty times as long. Each launch costs Python some microseconds, and there are
# hundreds of launches for each token. A **CUDA graph** records all launches once, and replays them without Python. Then
# a step for one text takes about twice the time of its bytes, and a step for 64 texts takes 1.4 times that of its
# bytes. The rest of the time goes to small kernels, each of which must end before the next one begins.
#
# ## What is wrong here?
#
# Your kernel may be right, and the model's results may still be wrong. All of these causes have been seen in libraries
# that many people use:
#
# 1. The mask is dropped.
# 2. The causal mask is aligned at the other corner.
# 3. A kernel without a backward pass is called in training.
# 4. Rotary turns q and k in place.
# 5. The model's scale is ignored.
# 6. k and v are repeated for every head of q.

# %% [markdown]
# ## Exercise: what is wrong here?
#
# {{exercise serving.name_it}}
#
# Somebody compared the changed model with the model as it was before. Each line says what they saw. Write the number of
# its cause ({{numbers.plain}}).

# %% exercise="serving.name_it"
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

# %% check="serving.name_it"
check("serving.name_it", name_it)

# %% [markdown]
# ## Exercise: mend it
#
# {{exercise serving.mended}}
#
# The next cell has an attention in torch's own operations, with all six mistakes in it. Mend them. The check compares
# the result and the gradients. It also does what a checkpoint of unit 07 does: it runs the function once, and then a
# second time on the same q, k and v, to compute again what backward needs.
#
# Without gradients you earn nothing. Full marks require that the mask is obeyed, which alone says what is seen if there
# is one ({{correct.mask}}), that the queries are the last positions ({{correct.causal}}), that the model's scale is
# used ({{correct.scale}}), that the function gives the same result when it runs again ({{correct.again}}), and that no
# operation makes a copy of k or v for each head of q ({{no_repeats.shared}}). torch's `@` makes such a copy if it
# broadcasts k over a group. `torch.einsum` and the fused kernels of `scaled_dot_product_attention` with
# `enable_gqa=True` do not.


# %% exercise="serving.mended"
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
# %% check="serving.mended"
check("serving.mended", mended)

# %% [markdown]
# ## Open task: texts that begin alike
#
# Many texts of a server begin with the same instructions. Their first pages are then the same pages, and the table
# names them once for each text. `paged_decode` reads them as often. In this task, eight texts share their first 512
# tokens, which are 32 pages. How few bytes can one more token of each text take? The queries of several texts can share
# a tile, as those of one group do, and unit 09 merges the states of several walks.
#
# `attempt` keeps the bytes of each right attempt in your logbook, and on a GPU its time. There are no points, and the
# best answer is not known. No register may spill, and at least 32 programs must share the work. Write your function in
# a new cell, under a new name.

# %%
attempt("serving.paged_decode", paged_decode)

# %% [markdown]
# ## What you now know
#
# * A position enters through the embedding, by turning q and k, or in the scores. v is never turned.
# * The caller says what a query sees, by a mask, a window, or one of two alignments. The shapes do not say it.
# * A cache is memory that stays where it is. To write a token, the cache of its text must be read, and the weights once
#   for all texts.
# * A step reads the weights once for all texts, and the cache of each text once. So a batch is nearly free until the
#   caches weigh as much as the weights.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.
#
# ## Further reading
#
# * Su and others, *RoFormer*, 2021; Press, Smith and Lewis, *Train Short, Test Long*, 2022: two of the three ways to
#   tell a position.
# * Ainslie and others, *GQA*, 2023; Jiang and others, *Mistral 7B*, 2023: shared heads, and a cache that is a ring.
# * Kwon and others, *Efficient Memory Management for Large Language Model Serving with PagedAttention*, 2023.
# * Pope and others, *Efficiently Scaling Transformer Inference*, 2022: what prefill and decoding cost.
