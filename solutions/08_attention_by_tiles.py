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
# # 08 · Attention by tiles
#
# **After this unit you can** say what attention computes. You can compute attention and its gradients tile by tile,
# without ever holding the matrix of scores. You need 02 (stable sums, half precision), 05 (tiles), 06 (the online
# softmax) and 07 (recomputation, log-sum-exp). Everything here is torch and runs on a CPU; in unit 09 the same loops
# become a kernel.

# %%
import time
from math import inf

import torch

from course_lib import check, figures, gpu, hint, progress  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## The question
#
# A language model cuts a text into **tokens**, words or pieces of words, and has a vector of numbers for each. A layer
# compares all tokens with one another, in several ways. Each of these comparisons is called a **head**. With n tokens,
# each head has a matrix of n × n **scores**, one for each pair. Take 32 heads, 2 bytes for each score, and a text of
# 32,768 tokens.

# %% predict="attention.guess_scores"
# How many GB do the scores of one layer take? Write a number before you run the next cell; it earns no points.
guess_gb = ...

# %%
print(f"the scores: {32 * 32768**2 * 2 / 1e9:.1f} GB ({'no guess yet' if guess_gb is ... else f'you said {guess_gb}'})")
print(f"what goes in and comes out, 4 x 128 numbers per token and head: {4 * 32 * 32768 * 128 * 2 / 1e9:.1f} GB")
print(f"all memory of an H200: {gpu.datasheet('H200').hbm_bytes / 1e9:.0f} GB")

# %% [markdown]
# The scores of a single layer would fill half of an H200's memory, if one kept them. A softmax turns the
# scores into weights, a mean is taken with these weights, and then scores and weights are thrown away. Can one compute
# the result without writing the scores to memory?

# %%
figures.attention.memory_against_length()

# %% [markdown]
# The left panel shows how many bytes are moved, and the right panel how many must be held at once. The lower curves
# belong to this unit's method, in which the scores are computed in tiles, used, and forgotten. (The left panel has two
# such curves. Programs that walk over tiles load k and v (defined below) again and again, as in unit 05. The L2 cache
# answers most of these loads. It can hold k and v of a head, but never n × n scores.)
#
# The plan has six steps, and you know most of them. First you write attention as it is defined. Then you compute its
# softmax in parts that can be merged, and attention by tiles. You find out which tiles a mask leaves out, and count
# the bytes. At the end comes the backward pass, which computes gradients.
#
# ## Attention
#
# Each token has three vectors of D numbers, made from its own vector by three learned matrices. Its **query** q says
# what the token looks for, its **key** k says what can be found at this token, and its **value** v is what the token
# hands over. For one query, attention computes three things:
#
# 1. **scores**: the dot products of the query with every key, times a **scale** of 1 / √D;
# 2. **weights**: the softmax of the scores, positive numbers that add up to 1;
# 3. **output**: the mean of the values with these weights.
#
# Why the scale? If q and k hold random numbers of size 1, q · k has the size √D. With scores as large as
# this, the softmax gives weights that are almost exactly 0 or 1, and it has hardly any gradient. Dividing by √D brings
# the scores back to size 1.

# %%
for D in (16, 64, 256):
    products = (torch.randn(10000, D) * torch.randn(10000, D)).sum(1)
    print(f"D = {D:3}: q . k has the standard deviation {products.std():5.2f}, scaled {products.std() * D**-0.5:.2f}")

# %% [markdown]
# These words and letters stay with us to the end of the course:
#
# | | shape | |
# | --- | --- | --- |
# | q | (..., Nq, D) | Nq queries |
# | k, v | (..., Nk, D) | Nk keys, each with a value |
# | S | (..., Nq, Nk) | scores, scale × q @ k.mT |
# | P | (..., Nq, Nk) | weights ("probabilities"), the softmax of each row of S |
# | o | (..., Nq, D) | output, P @ v |
# | lse | (..., Nq) | log-sum-exp of each row of S, a natural logarithm |
#
# The dots are **leading dimensions**: batches and **heads**. Each head has its own q, k and v, and no head uses the
# numbers of another head. `x.mT` swaps the last two dimensions, and `a @ b` multiplies matrices in the last two
# dimensions of any tensors, so leading dimensions need no code of their own. Nq and Nk differ when a model writes a
# text: then one new query meets the keys of all tokens so far.
#
# **Causal** attention lets a token see itself and the tokens before it. With Nq = Nk, query i sees the keys j ≤ i. And
# with Nq < Nk? Then the queries belong to the *last* tokens, so the last query must see all keys:
#
# > query i sees key j where j ≤ i + Nk − Nq
#
# This mask is **aligned at the bottom right**. FlashAttention aligns it in this way from version 2.1 on, and so does
# every decoder with a cache. (Such a decoder keeps the keys and values of all tokens so far, and computes a query only
# for the newest token. You meet it in unit 09.) `torch.nn.functional.scaled_dot_product_attention(..., is_causal=True)`
# aligns at the top left instead: query i sees the keys j ≤ i, whatever Nk is. For the alignment of this course, torch
# has `torch.nn.attention.bias.causal_lower_right`. The two masks agree only where Nq = Nk.

# %%
Nq, Nk = 3, 5
print("bottom right, as here:\n", torch.ones(Nq, Nk, dtype=torch.int).tril(Nk - Nq))
print("top left, as torch's is_causal:\n", torch.ones(Nq, Nk, dtype=torch.int).tril())

# %% [markdown]
# If there are more queries than keys, the first Nq − Nk queries see **nothing**. A mean of no values does not exist. By
# convention the output of such a query is zeros, and its lse is -inf, the logarithm of an empty sum.
#
# ## Exercise: attention as it is defined
#
# {{exercise attention.attention}}
#
# Write attention in torch, with the whole matrix of scores. You will compare later results with it. Return o in q's
# dtype, and lse in float32. Compute in float32, whatever the dtype of the inputs is. torch.softmax and torch.logsumexp
# are allowed, but torch's own attention is not. In all exercises of this unit that take tensors, neither an `if` on a
# number in a tensor nor `.item()` is allowed. Use torch.where to choose for each element. Full marks require
# * right results with leading dimensions, any Nq and Nk, and a scale other than 1 / √D ({{correct.ragged}}),
# * right results in causal attention, with Nq ≠ Nk as well ({{correct.causal}}), and for queries that see nothing
#   ({{correct.nothing}}),
# * right results for scores far from 0 ({{correct.hard}}), and for inputs and outputs in half precision
#   ({{correct.half}}).
#
# `hint("attention.attention")` gives a hint, and a stronger one each time you call it. Every exercise in this unit has
# such hints.


# %% exercise="attention.attention"
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """q (..., Nq, D), k and v (..., Nk, D) -> o (..., Nq, D) of q's dtype, lse (..., Nq) float32; scale is 1 / sqrt(D) unless given."""
    ### BEGIN SOLUTION
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    s = q.float() @ k.float().mT * (D**-0.5 if scale is None else scale)  # (..., Nq, Nk)
    if causal:
        sees = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(Nk - Nq)
        s = torch.where(sees, s, -inf)
    lse = torch.logsumexp(s, -1)
    base = torch.where(lse == -inf, 0, lse)  # -inf - -inf would be NaN
    p = torch.exp(s - base[..., None])  # rows of sum 1, or of zeros
    return (p @ v.float()).to(q.dtype), lse
    ### END SOLUTION


# %% check="attention.attention"
check("attention.attention", attention)

# %% [markdown]
# Where do q, k and v come from? A text takes this path:
#
# 1. A **tokenizer** cuts the text into tokens and looks up the number of each token in a vocabulary. The vocabulary is
#    made before training, and has no gradients.
# 2. The **embedding** is a table with one vector for each token of the vocabulary, and `table[tokens]` picks a row for
#    each token of the text. The rows begin as random numbers and are learned with all other weights of the model.
#    (Word2Vec is an older method that learns such vectors on their own; a language model does not need it.)
# 3. Some models add a vector for the **position** of each token here (see *More*).
# 4. Each layer normalises the vectors that it gets and multiplies them by three learned matrices. The products are **q,
#    k and v**. Models with rotary embedding (see *More*) put positions into q and k here, and skip step 3.
# 5. Attention mixes the values. Its output is multiplied by a fourth matrix and added to the layer's input.
#
# And how do heads lie in memory? The next cell shows what a layer does before and after it calls your function. Which
# lines of the cell copy data? Guess before you run it.

# %%
B, N, H, D = 2, 10, 4, 16  # batch, tokens, heads, numbers per head
x = torch.randn(B, N, H * D)  # the layer's input: one vector for each token
w_q, w_k, w_v = torch.randn(3, H * D, H * D) * (H * D) ** -0.5  # learned, in a model

q, k, v = (x @ w for w in (w_q, w_k, w_v))  # (B, N, H * D) each
q, k, v = (t.unflatten(-1, (H, D)).transpose(1, 2) for t in (q, k, v))  # (B, H, N, D): heads lead
print("q:", tuple(q.shape), "strides", q.stride(), "contiguous:", q.is_contiguous())
found = attention(q, k, v, causal=True)
if found is None:
    print("solve attention to see o")
else:
    o = found[0].transpose(1, 2).flatten(2)  # (B, N, H * D) again, for the layer's last matrix
    print("o:", tuple(found[0].shape), "->", tuple(o.shape))

# %% [markdown]
# Splitting into heads gives a view (unit 01). The shape of q is (B, H, N, D), and its strides say that a token's heads
# lie side by side in memory. A kernel that takes any strides can read q where it is, and in unit 09 your kernel must do
# so. (The `flatten` near the end copies if o is contiguous as (B, H, N, D).)
#
# Heads do not need each other before the layer's last matrix, so they can also lie on **several GPUs**. Take four GPUs
# with one head each. Every GPU gets x, those columns of w_q, w_k and w_v that make its head, and those rows of the last
# matrix that its head is multiplied by. The result of each GPU has the shape of the layer's output. What must the GPUs
# send each other? Try to say it before you run the next cell.

# %%
w_o = torch.randn(H * D, H * D) * (H * D) ** -0.5  # the layer's last matrix
parts = []  # the result of each GPU
for gpu_number in range(H):
    mine = slice(gpu_number * D, (gpu_number + 1) * D)
    q1, k1, v1 = (x @ w[:, mine] for w in (w_q, w_k, w_v))  # (B, N, D)
    parts.append((torch.softmax(q1 @ k1.mT / D**0.5, -1) @ v1) @ w_o[mine])
heads = torch.softmax(q @ k.mT / D**0.5, -1) @ v
whole = heads.transpose(1, 2).flatten(2) @ w_o
print("the sum of all parts is the layer's output:", torch.allclose(sum(parts), whole, atol=1e-4))
print(
    f"each GPU has {parts[0].numel():,} numbers to add to those of the others, and {w_o.numel() // H:,} of each matrix"
)

# %% [markdown]
# The price is one sum over all GPUs, an *all-reduce*, of B · N · width numbers. A layer pays this price once for
# attention and once for the MLP, which is cut in the same way (Shoeybi and others, *Megatron-LM*, 2019). With 8 GPUs
# and 32 heads, each GPU has 4 heads. The kernel stays the same, so this course stays on one GPU.

# %% [markdown]
# ## A softmax in parts
#
# Now the scores of one query come in parts: first those of some keys, then those of others. In unit 06 you kept two
# numbers while you walked along a row: the maximum m so far, and the sum l of exp(s − m). Attention needs a third
# thing, the sum of the *values* with the same weights, which we call acc. These three are the **state** of a query
# after some keys:
#
# > m = max s,  l = Σ exp(s − m),  acc = Σ exp(s − m) v
#
# At the end o = acc / l, and lse = m + log l. If a larger maximum comes on the way, l and acc are multiplied by the
# same factor, alpha = exp(m − m_new). Move the first slider through the tiles. Then choose *one at the end*: what does
# the last tile do to everything before it?

# %%
figures.attention.explore_online_softmax()

# %% [markdown]
# The last tile has one large score, so it multiplies the sums of all tiles before it by nearly 0. Nothing is lost: the
# keys of those tiles *have* hardly any weight.
#
# Here is the same idea without a walk along the keys. Take any two sets of keys, each with its state. What is the state
# of both sets together? The sums l and acc of each state are relative to its own maximum. Make both relative to the
# larger maximum, and add them. For this you need only the two states, and no keys, scores or values.
#
# ## Exercise: merge two states
#
# {{exercise attention.merge}}
#
# `a` and `b` are states of the same queries after different keys. Each is a tuple (m, l, acc), where m and l have any
# shape (...), acc has the shape (..., D), and all are float32. The state after *no* keys is m = −inf, l = 0, acc = 0.
# Full marks require
# * the other state unchanged where a or b is the empty state ({{correct.identity}}), and the empty state where both are
#   ({{correct.nothing}}),
# * right results for scores near 1000, and for states whose maxima are far apart ({{correct.large}}),
# * the same result in any order and any grouping ({{holds.any_order.order}}).


# %% exercise="attention.merge"
def merge(a: tuple, b: tuple) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two states (m (...), l (...), acc (..., D)) of the same queries after different keys -> their state after all of them."""
    ### BEGIN SOLUTION
    (m_a, l_a, acc_a), (m_b, l_b, acc_b) = a, b
    m = torch.maximum(m_a, m_b)
    base = torch.where(m == -inf, 0, m)  # -inf - -inf would be NaN
    alpha_a, alpha_b = torch.exp(m_a - base), torch.exp(m_b - base)  # 0 for an empty state
    return m, l_a * alpha_a + l_b * alpha_b, acc_a * alpha_a[..., None] + acc_b * alpha_b[..., None]
    ### END SOLUTION


# %% check="attention.merge"
check("attention.merge", merge)

# %% [markdown]
# Your merge makes one state out of two. Up to rounding any grouping gives the same result, and merging the empty state
# changes nothing. A set with such an operation is called a **monoid**. The numbers with addition are a monoid, and now
# the states of a softmax are one, too. Why is this useful? If any grouping is allowed, programs can *share* the work.
# The next cell cuts 64 keys into 8 tiles, and merges their states in four ways:


# %%
def state_of(s: torch.Tensor, v: torch.Tensor) -> tuple:
    """Scores s (..., Nq, n) and values v (..., n, D) -> the state after these n keys. Some score of each query must be finite."""
    m = s.amax(-1)
    p = torch.exp(s - m[..., None])
    return m, p.sum(-1), p @ v


def in_pairs(parts: list) -> tuple:
    """Merge neighbours in pairs, then the results in pairs, until one state is left."""
    while len(parts) > 1:
        parts = [merge(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def one_by_one(parts: list) -> tuple:
    state = parts[0]
    for part in parts[1:]:
        state = merge(state, part)
    return state


s, v = 5 * torch.randn(3, 64), torch.randn(64, 4)
tiles = [state_of(s[:, j : j + 8], v[j : j + 8]) for j in range(0, 64, 8)]
if merge(tiles[0], tiles[1]) is None:
    print("solve merge to see four ways")
else:
    right = torch.softmax(s, -1) @ v
    shuffled = [tiles[i] for i in torch.randperm(8)]
    ways = {
        "one by one": one_by_one(tiles),
        "backwards": one_by_one(tiles[::-1]),
        "shuffled": one_by_one(shuffled),
        "in pairs": in_pairs(tiles),
    }
    for name, (_, l, acc) in ways.items():
        print(f"{name:>10}: off by at most {(acc / l[:, None] - right).abs().max():.1e}")

# %%
figures.attention.merge_orders()

# %% [markdown]
# One program of unit 09's forward pass works like the chain: it merges tile after tile. The tree is for one query and
# very many keys, where a single program would take very long. There, each of many programs takes a share of the keys,
# and a second launch merges their states. This is `flash_decode`, in *More* of unit 09.
#
# ## By tiles
#
# Cut the queries into tiles of bm, and the keys into tiles of bn. For each tile of queries, keep a state, walk over the
# tiles of keys, merge their states into it, and write the rows of o and lse once. No more scores than one tile, bm ×
# bn, exist at a time. No tile of queries needs the results of another tile, so in a kernel each of them can have a
# program.
#
# What about a causal mask? For many tiles you know beforehand what the mask does.

# %%
figures.attention.explore_causal_map()

# %% [markdown]
# There are three kinds of tiles. In a **full** tile every query sees every key, and no mask is needed. In a **skipped**
# tile no query sees any key, and nothing is read or computed. Only the tiles on the diagonal line need the **mask**.
# Make the tiles smaller and watch the FLOPs. What share of all FLOPs do they approach, and why do they stay above it?
# Then choose fewer *keys* than *queries*.
#
# (They approach one half, and stay above it because a masked tile costs as many FLOPs as a full one. A last tile with
# fewer than bn keys counts as masked here, because in a kernel its block *has* places for keys that do not exist.)
#
# ## Exercise: which tiles?
#
# {{exercise attention.causal_tiles}}
#
# Program `pid` has at most bm queries, from query pid × bm on. Tile j has the keys from j × bn on. For causal attention
# return `(full, end)`: tiles 0 to full − 1 are full, tiles full to end − 1 need the mask, and tiles from end on are
# skipped. A tile with fewer than bn keys is never full. Full marks require the right answer for every program,
# * for as many queries as keys, in whole tiles ({{holds.right_tiles.plain}}), and for ragged sizes
#   ({{holds.right_tiles.ragged}}),
# * for more keys than queries ({{holds.right_tiles.more keys}}), and for more queries than keys
#   ({{holds.right_tiles.more queries}}).


# %% exercise="attention.causal_tiles"
def causal_tiles(pid: int, bm: int, bn: int, nq: int, nk: int) -> tuple[int, int]:
    """(full, end): program pid takes tiles 0 to full - 1 without a mask and tiles full to end - 1 with one."""
    ### BEGIN SOLUTION
    first, last = pid * bm, min((pid + 1) * bm, nq) - 1  # queries
    seen_by = lambda i: min(max(i + nk - nq + 1, 0), nk)  # keys
    return seen_by(first) // bn, -(-seen_by(last) // bn)  # -(-a // b) rounds up
    ### END SOLUTION


# %% check="attention.causal_tiles"
check("attention.causal_tiles", causal_tiles)

# %% [markdown]
# ## Exercise: attention by tiles
#
# {{exercise attention.tiled_attention}}
#
# Compute the same results as `attention`, by tiles of bm queries and bn keys. Your `merge` and `causal_tiles` may help.
# Cast each tile to float32 before you use it, keep the state in float32, and round only once, when you write to o. No
# tile of scores may be larger than bm × bn. Full marks require
# * right results for ragged sizes and leading dimensions ({{correct.ragged}}), for causal attention with Nq ≠ Nk
#   ({{correct.causal}}), and for queries that see nothing ({{correct.nothing}}),
# * right results for scores that are large, that rise from tile to tile, or that are all near −200, and for a single
#   score of 80 in the last tile ({{correct.hard}}),
# * inputs and outputs in half precision ({{correct.half}}),
# * no tensor as large as bm × Nk scores ({{largest_buffer.performance}}); the check looks at the largest tensor that
#   you allocate,
# * no products for skipped tiles, and two for every other tile ({{products.performance}}).
#
# A call may run at most 2000 operations of torch. A loop over tiles needs far fewer.


# %% exercise="attention.tiled_attention"
def tiled_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, bm: int, bn: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """q (..., Nq, D), k and v (..., Nk, D) -> o (..., Nq, D) of q's dtype, lse (..., Nq) float32, by tiles of bm x bn scores."""
    ### BEGIN SOLUTION
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
    for pid in range(-(-Nq // bm)):
        tile_m = slice(pid * bm, min((pid + 1) * bm, Nq))
        qi = q[..., tile_m, :].float() * D**-0.5  # (..., bm, D)
        offs_m = torch.arange(tile_m.start, tile_m.stop, device=q.device)[:, None]
        acc = torch.zeros_like(qi)
        state = torch.full_like(acc[..., 0], -inf), torch.zeros_like(acc[..., 0]), acc
        end = causal_tiles(pid, bm, bn, Nq, Nk)[1] if causal else -(-Nk // bn)
        for j in range(0, end * bn, bn):
            s = qi @ k[..., j : j + bn, :].float().mT  # (..., bm, bn)
            if causal:
                offs_n = torch.arange(j, j + s.shape[-1], device=q.device)
                s = torch.where(offs_n <= offs_m + Nk - Nq, s, -inf)
            m = s.amax(-1)
            p = torch.exp(s - torch.where(m == -inf, 0, m)[..., None])
            state = merge(state, (m, p.sum(-1), p @ v[..., j : j + bn, :].float()))
        m, l, acc = state
        o[..., tile_m, :] = acc / torch.where(l == 0, 1, l)[..., None]
        lse[..., tile_m] = m + l.log()
    return o, lse
    ### END SOLUTION


# %% check="attention.tiled_attention"
check("attention.tiled_attention", tiled_attention)

# %% [markdown]
# Now take a longer text. The scores of 4 heads and 4096 tokens in float32 are 256 MiB, but
# `tiled_attention` never holds more than a tile of scores for each head. Is it slower? Guess, and then run the cell.

# %%
q, k, v = torch.randn(3, 4, 4096, 64)
threads = torch.get_num_threads()
torch.set_num_threads(1)  # both run on one core, and process_time counts only the seconds that this process works
if tiled_attention(q[:, :8], k[:, :8], v[:, :8], True, 8, 8) is None or attention(q[:, :8], k[:, :8], v[:, :8]) is None:
    print("solve attention and tiled_attention to compare them")
else:
    started = time.process_time()
    o, lse = tiled_attention(q, k, v, True, 512, 512)
    by_tiles = time.process_time() - started
    started = time.process_time()
    right, right_lse = attention(q, k, v, True)
    whole = time.process_time() - started
    print(f"largest difference {(o - right).abs().max():.1e}; of lse {(lse - right_lse).abs().max():.1e}")
    print(f"seconds of one CPU core: by tiles {by_tiles:.2f}, whole {whole:.2f}")
torch.set_num_threads(threads)

# %% [markdown]
# A CPU behaves like a GPU here. A tile of scores stays in a cache, but the whole matrix does not fit, and nearly half
# of the tiles are skipped.

# %% [markdown]
# ## The way back
#
# As usual, dX is the gradient of the loss with respect to X. Training is given `do`, and needs `dq`, `dk` and `dv`.
# Autograd would keep P, which has n × n numbers, from the forward pass. You know a way out from unit 07: **compute P
# again**. A tile of P can be computed from q, k and one number for each row, without a softmax and without any other
# tile:
#
# > P = exp(S − lse)
#
# This is why a forward pass returns lse. Here is the chain rule for one tile.
#
# | forward | backward |
# | --- | --- |
# | o = P v | dv = Pᵀ do,  dP = do vᵀ |
# | P = softmax(S), row by row | dS = P × (dP − delta), elementwise; delta is one number per row, explained below |
# | S = scale · q kᵀ | dq = scale · dS k,  dk = scale · dSᵀ q |
#
# Where does delta come from? A softmax has the derivative ∂P_j / ∂S_i = P_j ([i = j] − P_i), where [i = j] is 1 if i =
# j, else 0. So dS_i = P_i (dP_i − Σ_j P_j dP_j), and this sum is what the table calls delta. The sum runs over *all*
# keys of a row. Does a tile need all the others, then? It does not, as you see when you put in dP_j = do · v_j:
#
# > delta = Σ_j P_j (do · v_j) = do · Σ_j P_j v_j = do · o
#
# The sum over all keys is already in o. So delta = rowsum(do × o), which is n numbers that are computed once. (The
# papers call it D, but here D is the length of a vector.) Now no tile needs another one. How many products does a tile
# take in the backward pass, and how many did it take in the forward pass?
#
# ## Exercise: backward by tiles
#
# {{exercise attention.attention_backward}}
#
# Return dq, dk, dv in the dtype of q, k, v, by the formulas above: a check does not let your function call
# autograd. The scale is 1 / √D. Choose the size of the tiles yourself, for example 64 by 64. Here, too, a call may run at most 2000
# operations of torch, and small tiles need many. Gradients are sums over tiles. Keep these sums in float32, and round
# once. A query that sees nothing has a gradient of zeros, and adds nothing to dk and dv. Full marks require
# * right results for ragged sizes and leading dimensions ({{correct.ragged}}), for causal attention with Nq ≠ Nk
#   ({{correct.causal}}), and for queries that see nothing ({{correct.nothing}}),
# * right results for large, rising and low scores ({{correct.hard}}), and for inputs and outputs in half precision
#   ({{correct.half}}),
# * no tensor of Nq × Nk bytes or more, so neither a whole matrix of scores nor a whole mask
#   ({{largest_buffer.performance}}).
#
# The cell after the check compares your gradients with those that autograd finds for your own `attention`.


# %% exercise="attention.attention_backward"
def attention_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    o: torch.Tensor,
    do: torch.Tensor,
    lse: torch.Tensor,
    causal: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """q, o, do (..., Nq, D), k and v (..., Nk, D), lse (..., Nq) -> dq, dk, dv; P is computed again, tile by tile."""
    ### BEGIN SOLUTION
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    scale, B = D**-0.5, 64
    delta = (do.float() * o.float()).sum(-1)  # (..., Nq)
    base = torch.where(lse == -inf, 0, lse)  # exp(-inf - 0) is 0 where a query sees nothing
    dq, dk, dv = (torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in (q, k, v))
    for i in range(0, Nq, B):
        qi, doi = q[..., i : i + B, :].float(), do[..., i : i + B, :].float()
        offs_m = torch.arange(i, i + qi.shape[-2], device=q.device)[:, None]
        for j in range(0, Nk, B):
            if causal and j > i + B - 1 + Nk - Nq:
                break  # no query of this tile sees these keys, or later ones
            kj, vj = k[..., j : j + B, :].float(), v[..., j : j + B, :].float()
            s = qi @ kj.mT * scale
            if causal:
                offs_n = torch.arange(j, j + kj.shape[-2], device=q.device)
                s = torch.where(offs_n <= offs_m + Nk - Nq, s, -inf)
            p = torch.exp(s - base[..., i : i + B, None])
            dp = doi @ vj.mT
            ds = p * (dp - delta[..., i : i + B, None])
            dq[..., i : i + B, :] += ds @ kj * scale
            dk[..., j : j + B, :] += ds.mT @ qi * scale
            dv[..., j : j + B, :] += p.mT @ doi
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)
    ### END SOLUTION


# %% check="attention.attention_backward"
check("attention.attention_backward", attention_backward)

# %%
q, k, v, do = torch.randn(4, 2, 100, 16)
found = attention(q.requires_grad_(), k.requires_grad_(), v.requires_grad_(), True)
if found is None or attention_backward(q, k, v, do, do, do[..., 0], True) is None:
    print("solve attention and attention_backward to compare them with autograd")
else:
    o, lse = found
    by_autograd = torch.autograd.grad(o, (q, k, v), do)
    with torch.no_grad():
        by_tiles = attention_backward(q, k, v, o, do, lse, True)
    for name, mine, torchs in zip(("dq", "dk", "dv"), by_tiles, by_autograd, strict=True):
        print(f"{name}: largest difference {(mine - torchs).abs().max():.1e}")

# %% [markdown]
# A tile takes five products in the backward pass (S again, dP, dv, dq and dk), and two in the forward pass. So the
# backward pass costs 2.5 times as much as the forward pass. One of the five products, S, is the price of not keeping P.
# What is kept instead? Only q, k, v and o, which exist anyway, and lse. The next cell shows the difference for the text
# with which we began.

# %%
n, d, heads = 32768, 128, 32
print(f"P of {heads} heads, {n} tokens, 2 bytes per element: {heads * n * n * 2 / 1e9:7.1f} GB")
print(f"lse, 4 bytes per element:                       {heads * n * 4 / 1e6:7.1f} MB")

# %% [markdown]
# ## What you now know
#
# * Attention is a mean of values. q and k are compared, and v is handed over.
# * The state (m, l, acc) of a query after some keys can be merged with its state after other keys, in any order and any
#   grouping. The empty state is −inf, 0, 0, and the only trap is −inf − −inf, which is NaN.
# * By tiles, no more than one tile of scores exists at a time. k and v are read once for each tile of queries.
# * With a causal mask there are full tiles, skipped tiles, and a diagonal of masked tiles. If the mask is aligned at
#   the bottom right, the last query sees all keys.
# * With lse and delta = rowsum(do × o), every tile of the backward pass can be computed without any other tile. It
#   takes five products and no softmax, and nothing of size n × n is kept.
#
# In unit 09 the loop over key tiles becomes the body of a kernel, and the loop over query tiles becomes its grid.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} Where does a token learn its position? Which claims about attention are true? And how many bytes does a
# forward pass by tiles move?

# %% [markdown]
# ## Where does a token stand?
#
# Shuffle the keys, and the values in the same way. Without a mask, what happens to o? Nothing happens, because a mean
# does not depend on the order of the values. So attention without a mask does not know which token came first. (With a
# causal mask the order does matter, because it decides which keys a query sees.) So a model must be told the positions.
# Where?
#
# There are three ways. The first is to **add** positions to the embeddings, before the first layer. The first
# transformer added sines and cosines (Vaswani and others, 2017), and GPT-2 adds a learned vector for each position.
# Then q, k *and* v carry positions, because all three are made from the sum. The second way is to subtract from each
# score a number that grows with the distance between query and key, as ALiBi does (Press and others, 2022). The third
# is to turn q and k:
#
# **Rotary embedding** (Su and others, *RoFormer*, 2021) takes the D numbers of a vector as D / 2 pairs. Each pair is a
# point in the plane, and is turned by an angle that grows with the token's position m: pair i is turned by m × base^(−2
# i / D). The first pair turns fast, and the last pair hardly at all. Look at the right half of the picture first: what
# does a dot product of two turned vectors depend on?

# %%
figures.attention.rotary_positions()

# %% [markdown]
# The dot product depends only on the *difference* of the two positions, because it does not change if both vectors are
# turned by the same angle. So a query finds the token three places back in the same way, wherever it stands. This is
# also why **q and k are turned, and v is not**. The scores are dot products, in which the absolute positions cancel. A
# value is handed over as it is. If values were turned, o would carry the absolute positions of the tokens that it came
# from, and nothing would cancel.
#
# ## Exercise: rotary
#
# {{exercise attention.rotary}}
#
# Pair i is (x[2 i], x[2 i + 1]). (Some models pair column i with column i + D / 2. This is the same operation with the
# columns in another order. Code that loads a model's weights must use the order with which the model was trained.)
# Turning (x, y) by the angle t gives (x cos t − y sin t, x sin t + y cos t). Use real numbers, and no complex numbers.
# Full marks require
# * right results with leading dimensions and any even D ({{correct.shapes}}),
# * right results for positions in any order, up to 30,000 ({{correct.anywhere}}),
# * right results for inputs and outputs in half precision, with angles in float32 ({{correct.half}}). What would the
#   position 20,001 be in bfloat16?


# %% exercise="attention.rotary"
def rotary(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """x (..., N, D), positions (N,) whole numbers -> (..., N, D) of x's dtype: pair i turned by position * base ** (-2 i / D)."""
    ### BEGIN SOLUTION
    D = x.shape[-1]
    freq = base ** (-torch.arange(0, D, 2, dtype=torch.float32, device=x.device) / D)  # (D / 2,)
    angle = positions[:, None].float() * freq  # (N, D / 2)
    even, odd = x[..., 0::2].float(), x[..., 1::2].float()
    turned = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.stack(turned, -1).flatten(-2).to(x.dtype)
    ### END SOLUTION


# %% check="attention.rotary"
check("attention.rotary", rotary)

# %% [markdown]
# ## Exercise: ten claims
#
# {{exercise attention.claims}}
#
# Which of these claims hold for random q, k, v? There is no mask unless a claim names one. The first eight answers are
# True or False, and together they are worth {{truths.plain}}. The part that you get is the share of the true claims
# that you find, plus the share of the false claims that you find, minus 1. So the same answer everywhere earns nothing.
# The last two answers are numbers, worth {{numbers.plain / 2}} each. Write the answers, and no code that finds them.
# The cell after the check tries most of the claims with your functions.

# %% exercise="attention.claims"
claims = {
    "keys_and_values_shuffled_alike_leave_o": ...,
    "queries_shuffled_shuffle_o": ...,  # in the same way
    "ten_more_on_every_score_leaves_o": ...,
    "keys_doubled_double_o": ...,
    "values_doubled_double_o": ...,
    "causal_first_query_returns_first_value": ...,  # Nq = Nk
    "rotary_on_q_k_all_moved_by_7_leaves_o": ...,  # the positions of all queries and keys are 7 larger
    "rotary_on_v_too_all_moved_by_7_leaves_o": ...,
    "pairs_seen_causal_4_queries_6_keys": ...,  # how many pairs of a query and a key that it sees
    "queries_that_see_nothing_causal_6_queries_4_keys": ...,
}
### BEGIN SOLUTION
claims = {
    "keys_and_values_shuffled_alike_leave_o": True,  # a mean has no order
    "queries_shuffled_shuffle_o": True,  # each row of o has its own query
    "ten_more_on_every_score_leaves_o": True,  # exp(10) in numerator and denominator
    "keys_doubled_double_o": False,  # the scores are twice as far apart, so the weights change
    "values_doubled_double_o": True,
    "causal_first_query_returns_first_value": True,  # it sees one key, with weight 1
    "rotary_on_q_k_all_moved_by_7_leaves_o": True,
    "rotary_on_v_too_all_moved_by_7_leaves_o": False,
    "pairs_seen_causal_4_queries_6_keys": 18,  # 3 + 4 + 5 + 6
    "queries_that_see_nothing_causal_6_queries_4_keys": 2,
}
### END SOLUTION

# %% check="attention.claims"
check("attention.claims", claims)

# %%
q, k, v = torch.randn(3, 6, 8)
order = torch.randperm(6)
if attention(q, k, v) is None:
    print("solve attention to try the claims")
else:
    o, lse = attention(q, k, v)
    same = lambda x, y: torch.allclose(x, y, atol=1e-5)  # noqa: E731
    print("keys and values shuffled alike leave o:", same(attention(q, k[order], v[order])[0], o))
    print("queries shuffled shuffle o:", same(attention(q[order], k, v)[0], o[order]))
    print("ten more on every score leaves o:", same(torch.softmax(q @ k.mT * 8**-0.5 + 10, -1) @ v, o))
    print("keys doubled double o:", same(attention(q, 2 * k, v)[0], 2 * o))
    print("values doubled double o:", same(attention(q, k, 2 * v)[0], 2 * o))
    print("causal, the first query returns the first value:", same(attention(q, k, v, True)[0][0], v[0]))
    if rotary(q, order) is None:
        print("solve rotary to move all positions by 7")
    else:
        here, there = ([rotary(x, torch.arange(6) + shift) for x in (q, k, v)] for shift in (0, 7))
        print("rotary on q and k, moved by 7:", same(attention(*there[:2], v)[0], attention(*here[:2], v)[0]))
        print("rotary on v, too, moved by 7:", same(attention(*there)[0], attention(*here)[0]))

# %% [markdown]
# ## How many bytes?
#
# A kernel that works like this keeps a tile of q and its state in registers and shared memory. It loads tile after tile
# of k and v. So how many bytes move between memory and the chip, for one head of n queries and n keys? How many
# programs load each number?
#
# ## Exercise: the bytes of a forward pass
#
# {{exercise attention.flash_bytes}}
#
# There is one program for every bm queries. It loads its rows of q once. It loads each tile of k and v that some of its
# queries see. Then it stores its rows of o (with as many bytes for each element as q) and of lse (float32) once. Masked
# positions move nothing, so a last tile that is short moves only the rows that exist. Your number must equal that of a
# traced FlashAttention kernel, to the byte,
# * in whole tiles ({{correct.plain}}) and with ragged ones ({{correct.ragged}}),
# * causal ({{correct.causal}}), and causal with ragged tiles and with key tiles wider than query tiles
#   ({{correct.causal ragged}}).


# %% exercise="attention.flash_bytes"
def flash_bytes(n: int, d: int, bm: int, bn: int, itemsize: int, causal: bool) -> int:
    """Bytes loaded and stored for one head: q, k, v, o are (n, d) of itemsize bytes per element, lse (n,) float32."""
    ### BEGIN SOLUTION
    rows = 0  # rows of k that all programs together load, and as many of v
    for pid in range(-(-n // bm)):
        end = causal_tiles(pid, bm, bn, n, n)[1] if causal else -(-n // bn)
        rows += min(n, end * bn)
    return 2 * n * d * itemsize + 4 * n + 2 * rows * d * itemsize
    ### END SOLUTION


# %% check="attention.flash_bytes"
check("attention.flash_bytes", flash_bytes)

# %% [markdown]
# FLOPs divided by bytes is the arithmetic intensity of unit 03. What is it here? The products cost 4 n² d FLOPs,
# whatever the tiles are.

# %%
n, d = 8192, 128
if flash_bytes(n, d, 64, 64, 2, False) is None:
    print("solve flash_bytes to see the intensity")
else:
    for bm, bn in ((16, 64), (64, 64), (128, 64), (256, 64), (128, 16), (128, 256)):
        moved = flash_bytes(n, d, bm, bn, 2, False)
        print(f"tiles of {bm:3} x {bn:3}: {moved / 1e6:6.1f} MB, {4 * n * n * d / moved:4.0f} FLOPs per byte")

# %% [markdown]
# Which of the two tile sizes matters, bm or bn? Only bm, the size of the *query* tile, matters, because k and v are
# read n / bm times. The size of the key tile only decides in what portions they are read. But a program must hold its
# query tile all the time, and its accumulator in registers, so bm cannot be larger than 128 or 256. You will see this
# trade-off again in unit 09.

# %% [markdown]
# ## Further reading
#
# * Vaswani and others, *Attention Is All You Need*, 2017: section 3.2.1, with the footnote on the scale.
# * Su and others, *RoFormer: Enhanced Transformer with Rotary Position Embedding*, 2021: section 3.
# * Press, Smith and Lewis, *Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation*,
#   2022: ALiBi.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, on FlashAttention as
#   tiles and an online softmax.
# * Milakov and Gimelshein, *Online normalizer calculation for softmax*, 2018: how to merge (m, l), and why any grouping
#   gives the same result.
# * S. Blum's video on FlashAttention for programmers: the questions below it led to what this unit says on positions,
#   and to what unit 09 says on heads and cards.
# * Rabe and Staats, *Self-attention Does Not Need O(n²) Memory*, 2021: attention by chunks.
# * Dao and others, *FlashAttention*, 2022, and Dao, *FlashAttention-2*, 2023: algorithm 1 is your `tiled_attention`,
#   algorithm 2 your `attention_backward`.
