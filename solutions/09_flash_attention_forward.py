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
# # 09 · FlashAttention, forward
#
# **After this unit you can** write attention as one Triton kernel that takes any number of tokens, any strides, and
# float32 or half precision, causal or not. You can say beforehand how many bytes it moves and how many products it
# computes. (*More* adapts it to what else real models use: windows, grouped heads and a cache.) You need 05 (tiles,
# `tl.dot`), 06 (the online softmax in Triton) and 08 (attention by tiles). You need no GPU, because the kernels are
# traced and compiled on the CPU. If there is a GPU, they are timed as well.

# %%
import torch
import triton
import triton.language as tl

from course_lib import attempt, bench, check, compile_for, figures, gpu, hint, profile, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.measurements import measured

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
# ## The question
#
# In unit 08 you wrote attention in tiles, in torch. Your `tiled_attention` never holds anything of size n × n. Is it
# therefore as fast as its matrix products? Take one layer with 16 heads, D = 128, and a text of 16,384 tokens. The
# layer does 4 · 16 · 16384² · 128 FLOPs. How long would this take at the speed of a matrix product? And how long do the
# launches of `tiled_attention` take on the same GPU?

# %%
ceiling = measured("attention")["ceiling"]  # TFLOP/s of torch's matrix product, measured on an H200
tera = 4 * 16 * 16384**2 * 128 / 1e12
tiles = (16384 // 128) ** 2  # one torch operation handles the same tile of all 16 heads
print(f"{tera:.1f} TFLOP at {ceiling:.0f} TFLOP/s: {1000 * tera / ceiling:.1f} ms")
print(
    f"{tiles:,} tiles of 128 x 128, about ten torch operations per tile, 5 us per launch: {10 * tiles * 5e-3:.0f} ms of launches"
)

# %% [markdown]
# Each torch operation is a separate launch, and it hands its tiles to the next one *through memory*. But a tile of
# scores is small enough to stay in registers, if one kernel does all the work on it: the first product, the mask, the
# exponentials and the second product. In this unit you will write that kernel. The outer loop of `tiled_attention`
# becomes the grid, and the inner loop stays a loop, inside the kernel.
#
# The picture below shows one program of such a kernel at work. The attention is causal. A program has 64 queries, and
# the keys come in tiles of 32. The picture replays a traced launch. Move the slider *step*, then the slider *program*.
# What does each program load once, and what does it load again and again? Which program has the least to do?

# %%
figures.flash.explore_program_walk()

# %% [markdown]
# Each program loads its rows of q once, at the beginning, and stores its rows of o once, at the end. In between it goes
# through k and v tile by tile, and each tile of scores exists only for a moment. This pass over the keys is called the
# program's *walk*. Program 0 has the shortest walk, and the last program has the longest. No program needs a result
# from another program.
#
# Where do these programs run, and where do their results go? Three things are often said about this, and all three are
# wrong.
#
# * *"The heads are divided among the cores of the CPU."* In fact the CPU makes a single launch. Its grid has one
#   program for each tile of queries of each head, and the GPU hands these programs out to its SMs. The cell below
#   counts them.
# * *"One CUDA core computes all of the attention."* In fact a program runs on one SM, and all of its threads work on
#   each tile together. A CUDA core is the arithmetic unit of a single lane, and the products are computed by the SM's
#   tensor cores.
# * *"FlashAttention avoids a transfer to the CPU after each step."* In fact there is no such transfer, even without
#   FlashAttention. The results of torch's operations stay in the GPU's main memory. What FlashAttention avoids are the
#   trips to *this* memory and back.

# %%
programs, sms = 16 * 16384 // 64, gpu.datasheet("H200").sms
print(f"16 heads of 16,384 queries, 64 queries for each program: {programs:,} programs for the {sms} SMs of an H200")

# %% [markdown]
# ## Exercise: six numbers
#
# {{exercise flash.predictions}}
#
# Take one head with 1024 queries, 1024 keys and D = 128, in bfloat16. The next cell asks for six numbers. The third and
# the fourth are about causal attention. In the others, every query sees every key. Each number is worth
# {{correct.plain / 6}}.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

# %% exercise="flash.predictions"
predictions = {
    "times k is read, tiles of 64 queries": ...,
    "times k is read, tiles of 128 queries": ...,
    "tiles of a causal pass": ...,  # of all programs together; a tile is 128 queries by 128 keys
    "of these, tiles that need the mask": ...,
    "bytes of the accumulator of a program": ...,  # 128 queries
    "bytes of scores written to memory": ...,
}
### BEGIN SOLUTION
predictions = {
    "times k is read, tiles of 64 queries": 16,  # 1024 / 64 programs, each reads all of k
    "times k is read, tiles of 128 queries": 8,
    "tiles of a causal pass": 36,  # 1 + 2 + ... + 8
    "of these, tiles that need the mask": 8,  # the diagonal
    "bytes of the accumulator of a program": 128 * 128 * 4,  # float32
    "bytes of scores written to memory": 0,
}
### END SOLUTION

# %% check="flash.predictions"
check("flash.predictions", predictions)

# %% [markdown]
# The fifth number, the size of the accumulator, decides how large a tile may be. An SM has 65,536 registers of 4 bytes,
# which is 256 KiB. The accumulator of 128 queries takes a quarter of this, and the tile of scores needs registers, too.
# (The tiles of q, k and v are in shared memory.) This is why most such kernels use tiles of 64 or 128 queries.
#
# ## One tile
#
# A program keeps a state for its queries: the maximum m of the scores so far, the sum l of the weights, and the sum acc
# of the weighted values. What happens to this state when the next tile arrives? You know the answer from `merge` in
# unit 08: two states are rescaled to the larger of their maxima, and then added. In the loop one of the two states
# comes from the new tile, and this allows a shortcut. Compute the tile's weights relative to the *new* maximum, not to
# its own. Then only the old state has to be corrected. Let s be the scores of the new tile, and p its weights. Then:
#
# > m_new = max(m, max of each row of s)
# >
# > p = exp(s − m_new),  alpha = exp(m − m_new)
# >
# > l = l · alpha + Σ p,  acc = acc · alpha + p @ v
#
# The next cell computes m_new and alpha for a state of 3 rows and a tile of 4 keys. Before you run it, answer two
# questions. Which of the three rows keeps its old sums unchanged? And which row loses nearly all of its old sums?

# %%
m = torch.tensor([2.0, 2.0, -torch.inf])  # the third row has seen nothing yet
s = torch.tensor([[1.0, 0.5, 2.0, -1.0], [9.0, 3.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
m_new = torch.maximum(m, s.amax(1))
print("m_new ", m_new.tolist())
print("alpha ", [round(x, 4) for x in torch.exp(m - m_new).tolist()])

# %% [markdown]
# In row 0 alpha is 1, so its old sums are unchanged. Row 1 loses nearly all of its sums, and row 2 had none.
#
# Three things matter on a GPU.
#
# * **Tensor cores** multiply half-precision numbers, but p is float32. So round p to v's dtype for the product:
#   `p.to(v.dtype)`. In all but tiny weights, the relative error of rounding is no larger than the one that v's numbers
#   already have. The state (m, l and acc) stays in float32.
# * **Adding is free.** `tl.dot(a, b, acc)` adds the product to `acc`, which costs the tensor cores no extra time.
# * **Float32 blocks** would be rounded to TF32. With `input_precision="ieee"` they stay float32. For half precision
#   this option changes nothing.
#
# One more problem is familiar from unit 08: −inf − (−inf) is NaN. This happens when a row has seen no key before this
# tile, and sees none in this tile either. Unit 06 avoided it with a maximum that begins at a finite number. The update
# here must be right for any state that it is given, so it has to cope with −inf by itself.
#
# ## Exercise: update the state
#
# {{exercise flash.online_update}}
#
# Write `online_update`, a `@triton.jit` function that other kernels call. Its arguments are blocks, not pointers. The
# two functions below it are given. They go through a matrix of scores tile by tile, and the check calls
# `weighted_mean`, so run the whole cell again whenever you have changed `online_update`. Two functions may be new:
# `tl.full(shape, value, dtype)` is a block that holds one value everywhere, and `tl.where(condition, a, b)` takes each
# element from a where the condition is true, and from b elsewhere. It computes both a and b.
#
# In every exercise of this unit that asks for a kernel, the check begins with one plain case. If your result is wrong
# there, you get no points. A result computed by torch earns no points either: you may use torch only to allocate memory
# and to make views. Full marks require the right result
# * for any size ({{correct.ragged}}), and with the precision of float32 if v is float32 ({{correct.float32}}),
# * for scores far from 0 that rise or fall from tile to tile ({{correct.hard}}),
# * for v in half precision, with 4096 keys ({{correct.half}}),
# * for rows whose first tiles are all −inf, and for rows that are −inf everywhere ({{correct.late}}).
#
# In the plain case and in the case with 4096 keys, v is in half precision. In all other cases v is float32, and without
# `"ieee"` the result is not accurate enough.
#
# `hint("flash.online_update")` gives a hint, and a stronger one each time you call it. Every exercise in this unit has
# such hints.


# %% exercise="flash.online_update"
@triton.jit
def online_update(m, l, acc, s, v):
    """State m (M,), l (M,), acc (M, D), float32; a tile's scores s (M, N) and values v (N, D) -> the state after the tile."""
    ### BEGIN SOLUTION
    m_new = tl.maximum(m, tl.max(s, 1))
    base = tl.where(m_new == -float("inf"), 0.0, m_new)  # -inf - -inf would be NaN
    p = tl.exp(s - base[:, None])  # (M, N)
    alpha = tl.exp(m - base)  # (M,): 0 if nothing was seen before
    l = l * alpha + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
    m = m_new
    ### END SOLUTION
    return m, l, acc


@triton.jit
def weighted_mean_kernel(
    s_ptr, v_ptr, o_ptr, lse_ptr, M, N,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Given. BLOCK_M rows of scores (M, N), tile by tile, with values (N, D)."""
    offs_m, offs_d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)  # the state of rows that have seen nothing
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for j in range(0, N, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
        s = tl.load(s_ptr + offs_m[:, None] * N + offs_n[None, :], mask=inside, other=-float("inf"))
        v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :], mask=(offs_n < N)[:, None], other=0)
        m, l, acc = online_update(m, l, acc, s, v)
    o = acc / tl.where(l == 0, 1, l)[:, None]  # zeros for a row that saw nothing
    tl.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], o, mask=(offs_m < M)[:, None])
    tl.store(lse_ptr + offs_m, m + tl.log(l), mask=offs_m < M)


def weighted_mean(s: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Given. s (M, N) float32, v (N, D) -> softmax(s) @ v: (M, D) float32, and the log-sum-exp of each row: (M,)."""
    (M, N), D = s.shape, v.shape[1]
    o, lse = torch.empty(M, D, device=s.device), torch.empty(M, device=s.device)
    weighted_mean_kernel[(triton.cdiv(M, 32),)](s, v, o, lse, M, N, D=D, BLOCK_M=32, BLOCK_N=64)
    return o, lse


# %% check="flash.online_update"
check("flash.online_update", weighted_mean)

# %% [markdown]
# ## One head
#
# From here on the scores are no longer given. For its BLOCK_M queries, a program does three things:
#
# 1. It loads its tile of q.
# 2. For each tile of keys, it loads k and v, computes the scores s = scale · q @ k.T with the scale 1 / √D of unit 08,
#    and updates the state.
# 3. It divides acc by l, and stores o and lse.
#
# `k.T` swaps the two axes of a block; `tl.trans(k)` is the same. For a half-precision block it costs nothing, because a
# tile in shared memory can be read by rows or by columns. (On Hopper the tensor cores themselves can read a tile either
# way. On older GPUs a tile is transposed as it is loaded from shared memory into registers.)
#
# Apply the scale to the product q @ k.T, in float32, and not to q. If you multiplied q by the scale, the scaled q would
# be rounded to half precision, and lse would be less exact (unless the scale is a power of two).
#
# The last tile of keys may reach past the last key. What must the scores of the missing keys be? With `other=0`, a
# masked load gives 0 for such keys, so their scores would be 0 as well. But 0 is a score like any other:

# %%
s = torch.tensor([-3.0, -2.5, 0.0, 0.0])  # two keys, and two that are not there
print("with 0:   ", [round(x, 3) for x in torch.softmax(s, 0).tolist()])
print("with -inf:", [round(x, 3) for x in torch.softmax(s.where(torch.arange(4) < 2, -torch.inf), 0).tolist()])

# %% [markdown]
# ## Exercise: one head
#
# {{exercise flash.one_head}}
#
# The arguments q, k and v are the contiguous matrices of one head, and D is 16, 32, 64 or 128. The plain case, which
# must be right before any points are given, is in float16. Full marks require
# * the right o and lse for any Nq and Nk, in float16, bfloat16 and float32 ({{correct.ragged}}),
# * the right o and lse for scores far from 0 ({{correct.hard}}),
# * that each element of k is read at most Nq / 64 times (if you copy k, reading the copy counts, too), and that at
#   least 32 programs share the work if Nq is large ({{rereads.k.performance}}),
# * a single launch ({{launches.performance}}), and dense loads ({{coalesced.load.performance}}).


# %% exercise="flash.one_head"
@triton.jit
def one_head_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one head walk over all keys."""
    ### BEGIN SOLUTION
    offs_m, offs_d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offs = offs_m[:, None] * D + offs_d[None, :]  # (BLOCK_M, D)
    q = tl.load(q_ptr + q_offs, mask=(offs_m < Nq)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for j in range(0, Nk, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        kv_offs, inside = offs_n[:, None] * D + offs_d[None, :], (offs_n < Nk)[:, None]  # (BLOCK_N, D)
        k = tl.load(k_ptr + kv_offs, mask=inside, other=0)
        v = tl.load(v_ptr + kv_offs, mask=inside, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale  # (BLOCK_M, BLOCK_N)
        s = tl.where(offs_n[None, :] < Nk, s, -float("inf"))
        m, l, acc = online_update(m, l, acc, s, v)
    tl.store(o_ptr + q_offs, (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=(offs_m < Nq)[:, None])
    tl.store(lse_ptr + offs_m, m + tl.log(l), mask=offs_m < Nq)
    ### END SOLUTION


def one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """q (Nq, D), k and v (Nk, D), contiguous, D = 16, 32, 64 or 128 -> o (Nq, D) of q's dtype, lse (Nq,) float32."""
    ### BEGIN SOLUTION
    (Nq, D), Nk = q.shape, k.shape[0]
    o, lse = torch.empty_like(q), torch.empty(Nq, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(Nq, 64),)
    one_head_kernel[grid](q, k, v, o, lse, D**-0.5, Nq, Nk, D=D, BLOCK_M=64, BLOCK_N=32)
    return o, lse
    ### END SOLUTION


# %% check="flash.one_head"
check("flash.one_head", one_head)

# %% [markdown]
# How many bytes did your kernel move? Each program reads its rows of q and writes its rows of o and lse, so these are
# moved once. And each program reads all of k and v. The next cell compares this prediction with a trace.

# %%
n, d = 256, 64
q, k, v = (torch.randn(n, d).half() for _ in range(3))
with trace() as t:
    done = one_head(q, k, v)
if done is None:
    print("solve one_head to see its trace")
else:
    programs = t.programs
    predicted = 2 * n * d * 2 + 4 * n + programs * 2 * n * d * 2
    print(f"{programs} programs, predicted {predicted:,} bytes, traced {t.bytes:,}")
    print(f"{t.flops.dot:,} FLOPs in tl.dot: {t.flops.dot / t.bytes:.0f} per byte")

# %% [markdown]
# The next picture shows the walk of your own kernel. (If you have not solved the exercise yet, you see the walk from
# the beginning of this unit again.)

# %%
mine = {} if done is None else dict(traced=t, q=q, k=k, v=v, o=done[0])
figures.flash.explore_program_walk(**mine)

# %% [markdown]
# What does the compiler turn your kernel into for an H100 or an H200 (sm_90)? You need neither of these GPUs to find
# out:

# %%
if done is None:
    print("solve one_head to see what becomes of it")
elif "one_head_kernel" not in globals():
    print(
        "this cell can compile only a kernel that is called one_head_kernel and has the same parameters as the one in the exercise"
    )
else:
    shape = dict(D=64, BLOCK_M=64, BLOCK_N=64, num_warps=4)
    print(compile_for(one_head_kernel, q, k, v, *done, 0.125, n, n, gpu="sm_90", **shape))

# %% [markdown]
# `wgmma` is Hopper's instruction for tensor cores, and both products should use it. The line labelled *spills* should
# say "none". If the accumulator did not fit into the registers, it would go to memory and back in every step.
#
# ## Causal: two loops
#
# In causal attention, most tiles need no mask. Query i is row i of the scores. The number of keys that it sees is
#
# > `sees = min(max(i + 1 + Nk - Nq, 0), Nk)`
#
# and in full attention it is Nk. With 3 queries and 5 keys, `sees` is 3, 4 and 5. A score is kept where **key < sees**.
# This one comparison serves as the causal mask, and it also masks the missing keys past Nk. Moreover, `sees` divides
# the walk of a program into parts:
# * The first part ends at the smallest `sees` of the program's rows, rounded down to whole tiles. All rows see all keys
#   of this part. No mask for the keys is needed here, not even in the loads.
# * The second part goes on to the largest `sees` of the program's rows. Here a mask is needed.
# * The remaining keys need no work at all.
#
# So there are two loops, one after the other, with the same body. Write the body once, as a helper function with a
# `tl.constexpr` argument such as MASKED, and call it twice, with `MASKED=False` and with `MASKED=True`. In the helper,
# `if MASKED:` is decided when the kernel is compiled. The compiler then makes two versions of it, one with the
# mask and one without:
#
# ```python
# @triton.jit
# def add_up(total, ptr, start, stop, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
#     for i in range(start, stop, BLOCK):
#         offs = i + tl.arange(0, BLOCK)
#         if MASKED:
#             total += tl.load(ptr + offs, mask=offs < n, other=0)
#         else:
#             total += tl.load(ptr + offs)
#     return total
# ```
#
# A kernel calls it as `total = add_up(total, x_ptr, 0, whole, n, BLOCK, False)`, and then from `whole` (whole tiles) on
# with True. In the next picture, try tiles that are not square. How many masked tiles does a row of tiles have if a
# tile has half as many keys as queries?

# %%
figures.attention.explore_causal_map()

# %% [markdown]
# If a tile has half as many keys as queries, each row of tiles has two masked tiles, even if the row is 256 tiles long.
# The mask costs one comparison and one selection for each score of a masked tile.
#
# How much do the tiles that need no work save? With n queries and n keys, a causal head has half of the products of a
# full one, plus the rest of the tiles on the diagonal. Before you run the next cell, say how large this rest is: for
# 1024 tokens, in tiles of 64 queries by 32 keys, what share of a full head's products is it in all?

# %%
n, bm, bn = 1024, 64, 32
ends = [triton.cdiv(min(i + bm, n), bn) for i in range(0, n, bm)]  # tiles of keys that each tile of queries walks over
full = triton.cdiv(n, bm) * triton.cdiv(n, bn)
print(f"{sum(ends)} of {full} tiles: {sum(ends) / full:.3f} of the products")

# %% [markdown]
# ## Exercise: one causal head
#
# {{exercise flash.causal_one_head}}
#
# As `one_head`, but causal, with `sees` as defined above. There are at least as many keys as queries (Nk ≥ Nq), so every
# query sees at least one key. Everything else is as before: q, k and v are contiguous, D is 16, 32, 64 or 128, and you
# may call `online_update`. The check counts products and bytes, but it cannot count a needless mask. Only a clock shows
# what the second loop is worth. Full marks require
# * the right o and lse for as many keys as queries ({{correct.ragged}}), and for more keys ({{correct.longer}}),
# * the right o and lse for scores far from 0 ({{correct.hard}}),
# * that `tl.dot` computes the tiles that a query sees, and no others ({{dot_flops.performance}}),
# * no more bytes than tiles of 64 queries and 128 keys need ({{traffic.performance}}),
# * a single launch ({{launches.performance}}).


# %% exercise="flash.causal_one_head"
### BEGIN SOLUTION
@triton.jit
def walk_keys(
    m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, start, stop,
    D: tl.constexpr, BLOCK_N: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """The state after the keys from start to stop. Not MASKED: every row sees them all."""
    offs_d = tl.arange(0, D)
    for j in range(start, stop, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        kv_offs = offs_n[:, None] * D + offs_d[None, :]  # (BLOCK_N, D)
        if MASKED:
            k = tl.load(k_ptr + kv_offs, mask=(offs_n < Nk)[:, None], other=0)
            v = tl.load(v_ptr + kv_offs, mask=(offs_n < Nk)[:, None], other=0)
        else:
            k = tl.load(k_ptr + kv_offs)
            v = tl.load(v_ptr + kv_offs)
        s = tl.dot(q, k.T, input_precision="ieee") * scale  # (BLOCK_M, BLOCK_N)
        if MASKED:
            s = tl.where(offs_n[None, :] < sees[:, None], s, -float("inf"))
        m, l, acc = online_update(m, l, acc, s, v)
    return m, l, acc


### END SOLUTION
@triton.jit
def causal_one_head_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one head walk over the keys that they see."""
    ### BEGIN SOLUTION
    offs_m, offs_d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offs = offs_m[:, None] * D + offs_d[None, :]  # (BLOCK_M, D)
    q = tl.load(q_ptr + q_offs, mask=(offs_m < Nq)[:, None], other=0)
    sees = tl.minimum(offs_m + 1 + Nk - Nq, Nk)  # how many keys each row sees
    whole, stop = tl.min(sees, 0) // BLOCK_N * BLOCK_N, tl.max(sees, 0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    m, l, acc = walk_keys(m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, 0, whole, D, BLOCK_N, False)
    m, l, acc = walk_keys(m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, whole, stop, D, BLOCK_N, True)
    tl.store(o_ptr + q_offs, (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=(offs_m < Nq)[:, None])
    tl.store(lse_ptr + offs_m, m + tl.log(l), mask=offs_m < Nq)
    ### END SOLUTION


def causal_one_head(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """q (Nq, D), k and v (Nk, D), contiguous, Nk >= Nq -> o (Nq, D) of q's dtype, lse (Nq,) float32."""
    ### BEGIN SOLUTION
    (Nq, D), Nk = q.shape, k.shape[0]
    o, lse = torch.empty_like(q), torch.empty(Nq, dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(Nq, 64),)
    causal_one_head_kernel[grid](q, k, v, o, lse, D**-0.5, Nq, Nk, D=D, BLOCK_M=64, BLOCK_N=32)
    return o, lse
    ### END SOLUTION


# %% check="flash.causal_one_head"
check("flash.causal_one_head", causal_one_head)

# %% [markdown]
# ## Heads and strides
#
# The shape of q may be (B, H, N, D) or (N, D), or it may have any other dimensions in front of the last two. Often it
# is a *view*: a tensor (B, N, H, D) with two dimensions swapped, as in unit 08. Copying it would cost time. What does a
# kernel need to know to read any of these tensors without a copy?
#
# It needs a pointer and four strides. To get four strides, add dimensions in front with `x[None]` until the tensor has
# four dimensions. If there are more than four, `x.flatten(0, -4)` folds all dimensions but the last three into one.
# Adding a dimension always gives a view. Folding gives a view only if the folded dimensions follow one another in
# memory without gaps, as leading batch dimensions usually do. (Otherwise it makes a copy.)
#
# A program works out its tile of queries, its batch and its head from its program number. If each head has `tiles` tiles
# of queries, one grid of B · H · tiles programs can be read so:
#
#     tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
#     b, h = head // H, head % H
#
# Multiply b and h by their strides: their sum gives the start of the program's matrix. The rows and columns of a tile
# use the other two strides.

# %%
x = torch.randn(2, 5, 3, 4)  # (B, N, H, D)
view = x.transpose(1, 2)  # (B, H, N, D)
for y in (view, x[0, :, 0], torch.randn(2, 2, 3, 5, 4)):
    four = y
    while four.dim() < 4:
        four = four[None]
    four = four.flatten(0, -4)
    print(tuple(y.shape), "->", tuple(four.shape), "strides", four.stride(), "a view:", four.data_ptr() == y.data_ptr())

# %% [markdown]
# Some models have heads of D = 80 or 96, but the sides of a block must be powers of two. Use the next power of two as
# BLOCK_D, and mask the columns past D. They are loaded as 0, so they do not change any product. Multiplying by zeros
# still takes time, so a head with D = 80 takes as long as a head with D = 128.
#
# ## Exercise: FlashAttention, forward
#
# {{exercise flash.flash_attention_forward}}
#
# Now write the whole forward pass. Begin with `one_head`. (You may write further `@triton.jit` helpers in the cell.)
# Return o with q's shape and dtype, and lse as a contiguous float32 tensor. You may use torch only to allocate memory
# and to make views; a single `.contiguous()` costs you all the points. Heads with D above 128 need smaller tiles, or
# `num_stages=2`, because the check also compiles for an A100 (sm_80), which has less shared memory than an H100.
#
# Full marks require the right result
# * for any Nq and Nk ({{correct.ragged}}), any leading dimensions ({{correct.leading}}), and any D from 16 to 256
#   ({{correct.dims}}),
# * for views, without copies ({{correct.strided}}),
# * for float32 tensors, with the precision of float32 ({{correct.float32}}),
# * for tensors of half precision, with 4096 keys ({{correct.half}}),
# * for any scale ({{correct.scale}}),
# * for causal attention, with `sees` as defined above, so that the last query sees the last key ({{correct.causal}}); a
#   query that sees no key gets o = 0 and lse = −inf ({{correct.nothing}}),
# * for scores that are large, that rise or fall from tile to tile, or that are all far below 0 ({{correct.hard}}); in
#   one of these cases the check passes a `scale` of its own.
#
# Full marks also require
# * no more bytes than with tiles of 64 queries (q, o and lse once, k and v once for each program), and at least 32
#   programs when there are 64 heads ({{traffic.performance}} for both together),
# * that `tl.dot` computes all products, and that causal attention computes little more than half as many products as
#   full attention ({{dot_flops.performance}}),
# * a single launch ({{launches.performance}}), and nothing of size Nq × Nk in memory ({{buffers_below.performance}}),
# * dense loads ({{coalesced.load.performance}}) and stores ({{coalesced.store.performance}}).
#
# There is extra credit on a GPU. The case that is timed is full attention with 16 heads, D = 128 and 8192 tokens, in
# bfloat16. Your speed is compared with that of FlashAttention-2, torch's fused attention. You get {{speed}} if your
# kernel is as fast (a ratio of {{speed.full}}), and some of the points if the ratio is above {{speed.none}}.


# %% exercise="flash.flash_attention_forward"
### BEGIN SOLUTION
@triton.jit
def load_rows(ptr, rows, stride_n, stride_d, N, D: tl.constexpr, BLOCK_D: tl.constexpr, WHOLE: tl.constexpr):
    """Rows of a head, (len(rows), BLOCK_D). WHOLE: all rows are there."""
    offs_d = tl.arange(0, BLOCK_D)
    inside = (offs_d < D)[None, :]
    if not WHOLE:
        inside = inside & (rows < N)[:, None]
    return tl.load(ptr + rows[:, None] * stride_n + offs_d[None, :] * stride_d, mask=inside, other=0)


@triton.jit
def over_keys(
    m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, start, stop,
    stride_kn, stride_kd, stride_vn, stride_vd,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """The state after the keys from start to stop. WHOLE: every row sees them all."""
    for j in range(start, stop, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        k = load_rows(k_ptr, offs_n, stride_kn, stride_kd, Nk, D, BLOCK_D, WHOLE)
        s = tl.dot(q, k.T, input_precision="ieee") * scale  # (BLOCK_M, BLOCK_N)
        if not WHOLE:
            s = tl.where(offs_n[None, :] < sees[:, None], s, -float("inf"))
        v = load_rows(v_ptr, offs_n, stride_vn, stride_vd, Nk, D, BLOCK_D, WHOLE)
        m, l, acc = online_update(m, l, acc, s, v)
    return m, l, acc


### END SOLUTION
@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, H, Nq, Nk,
    stride_qb, stride_qh, stride_qn, stride_qd, stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd, stride_ob, stride_oh, stride_on, stride_od,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one head walk over the keys that they see. q, k, v, o are (B, H, N, D), lse is contiguous."""
    ### BEGIN SOLUTION
    tiles = tl.cdiv(Nq, BLOCK_M)
    tile, head = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    if CAUSAL:
        tile = tiles - 1 - tile  # the longest walks begin first
    b, h = head // H, head % H
    offs_m = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    q = load_rows(q_ptr + b * stride_qb + h * stride_qh, offs_m, stride_qn, stride_qd, Nq, D, BLOCK_D, False)
    k_ptr += b * stride_kb + h * stride_kh
    v_ptr += b * stride_vb + h * stride_vh

    sees = tl.zeros((BLOCK_M,), tl.int32) + Nk  # how many keys each row sees
    if CAUSAL:
        sees = tl.minimum(tl.maximum(offs_m + 1 + Nk - Nq, 0), Nk)
    whole, stop = tl.min(sees, 0) // BLOCK_N * BLOCK_N, tl.max(sees, 0)

    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    m, l, acc = over_keys(
        m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, 0, whole,
        stride_kn, stride_kd, stride_vn, stride_vd, D, BLOCK_D, BLOCK_N, True,
    )  # fmt: skip
    m, l, acc = over_keys(
        m, l, acc, q, k_ptr, v_ptr, scale, Nk, sees, whole, stop,
        stride_kn, stride_kd, stride_vn, stride_vd, D, BLOCK_D, BLOCK_N, False,
    )  # fmt: skip

    offs_d = tl.arange(0, BLOCK_D)
    o = acc / tl.where(l == 0, 1, l)[:, None]  # zeros for a row that saw nothing
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh + offs_m[:, None] * stride_on + offs_d[None, :] * stride_od
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=(offs_m < Nq)[:, None] & (offs_d < D)[None, :])
    tl.store(lse_ptr + head * Nq + offs_m, m + tl.log(l), mask=offs_m < Nq)
    ### END SOLUTION


def flash_attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """q (..., Nq, D), k and v (..., Nk, D), any strides -> o (..., Nq, D) of q's dtype, lse (..., Nq) float32."""
    ### BEGIN SOLUTION
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o = torch.empty_like(q)
    lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)

    def as_4d(x: torch.Tensor) -> torch.Tensor:
        """(..., N, D) as (B, H, N, D), a view."""
        while x.dim() < 4:
            x = x[None]
        return x.flatten(0, -4)

    heads = [as_4d(x) for x in (q, k, v, o)]
    strides = [stride for x in heads for stride in x.stride()]
    B, H = heads[0].shape[:2]
    largest = 32 if q.dtype == torch.float32 else 128
    wide = largest < D  # smaller tiles, so that registers do not spill
    if q.dtype == torch.float32:
        shape = dict(BLOCK_M=32 if wide else 64, BLOCK_N=16 if wide else 32, num_warps=4, num_stages=2)
    else:
        shape = dict(BLOCK_M=64, BLOCK_N=64, num_warps=8 if wide else 4, num_stages=2 if wide else 3)
    grid = (triton.cdiv(Nq, shape["BLOCK_M"]) * B * H,)
    constants = dict(CAUSAL=causal, D=D, BLOCK_D=triton.next_power_of_2(D))
    forward_kernel[grid](*heads, lse, D**-0.5 if scale is None else scale, H, Nq, Nk, *strides, **constants, **shape)
    return o, lse
    ### END SOLUTION


# %% check="flash.flash_attention_forward"
check("flash.flash_attention_forward", flash_attention_forward)

# %% [markdown]
# Does your function agree with torch on the views that a real layer uses? In the next cell, tensors of shape (B, N, H,
# D) are passed as views of shape (B, H, N, D). If your o has the same strides as q, the output projection at the end of
# the layer can read it without a copy.
#
# The results may differ from torch's because of rounding. How large can such a difference be? In causal attention the
# first rows of o are means of only a few values, so some of their numbers are large, between 2 and 4. In this range,
# neighbouring numbers in bfloat16 are 0.0156 apart, so a rounded number can be off by half of that, 0.0078. The weights
# have been rounded as well, so the difference can be a little larger.

# %%
B, N, H, D = 1, 200, 4, 64
qkv = [torch.randn(B, N, H, D).to(torch.bfloat16) for _ in range(3)]
q, k, v = (x.transpose(1, 2) for x in qkv)  # (B, H, N, D), not contiguous
with trace() as t:
    done = flash_attention_forward(q, k, v, causal=True)
if done is None:
    print("solve flash_attention_forward to compare it with torch")
else:
    o, lse = done
    right = torch.nn.functional.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=True)
    print(
        f"largest difference from torch in float32: {(o - right).abs().max():.4f}; half a step of bfloat16 between 2 and 4: {2**-7:.4f}"
    )
    print("o is (B, N, H, D) in memory:", o.transpose(1, 2).is_contiguous())
    print(t)

# %% [markdown]
# ## How fast?
#
# Torch's FlashAttention-2 was written by specialists, in CUDA. Guess before you look: how fast is your kernel, compared
# with it?

# %% gpu="flash.speed"
if bench.has_gpu() and done is not None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(1, 16, 8192, 128, device=device, dtype=torch.bfloat16) for _ in range(3))

    def torchs():
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    found = bench.ratio(lambda: flash_attention_forward(q, k, v, causal=True), torchs)
    print(f"{2 * 16 * 8192**2 * 128 / found.own_ms / 1e9:.0f} TFLOP/s, {found.speedup:.2f} of FlashAttention-2's speed")
else:
    print("There is no GPU here, or nothing to time. The last of the next pictures shows what was measured on an H200.")

# %% [markdown]
# What limits it? `profile` sets what the trace counts beside the roofline, and on a GPU beside the time that your kernel
# took, or beside the GPU's counters. Guess first: is it memory, the products, or the other arithmetic?

# %% gpu="flash.profile"
q, k, v = (torch.randn(1, 16, 512, 64, device=device).half() for _ in range(3))
if done is None:
    print("solve flash_attention_forward to see what limits it")
else:
    print(profile(lambda: flash_attention_forward(q, k, v)))

# %%
figures.timed.on_your_card("flash")

# %%
figures.flash.ladder()

# %% [markdown]
# The bar at the bottom, "unit 09", is the published solution of this unit, with pointers, `tl.exp` and two loops. It is
# {{measured 09 against 2, full}} times as fast as FlashAttention-2 in full attention at D = 128, and
# {{measured 09 against 2, causal}} times as fast in causal attention. The next three
# kernels use the same algorithm. They express it in ways that suit the hardware better:
# * **exp2.** The hardware can compute 2ˣ, but not eˣ. So `tl.exp` first multiplies each score by log₂ e. You can put
#   log₂ e into the scale, and use `tl.exp2`. Then multiplying by the scale and subtracting the maximum become one fused
#   operation.
# * **Descriptors.** A descriptor tells Hopper's TMA unit where a tensor lies in memory. You make it with
#   `tl.make_tensor_descriptor` in the kernel, or on the host. The TMA unit then fetches whole tiles by itself, and no
#   registers are needed for the addresses of a tile.
# * **Tuning.** Different tile sizes, numbers of warps and numbers of stages are tried, by hand or by `triton.autotune`,
#   and the fastest combination is kept. At D = 128, no configuration that we tried was faster than the one in
#   "descriptors". So the bars "tuned" and "descriptors" show the same kernel, timed twice. At D = 64, tuning makes the
#   kernel up to {{measured tuned at 64}} % faster. (If you use `triton.autotune` in an exercise, the check tries no
#   configurations. It uses the first one.)
#
# The code of these three kernels is in research/attention_ladder.py. They are less general than yours, because a
# descriptor needs rows without gaps between their elements, and the kernels in that file need a sequence length that is
# a multiple of the tile size.
#
# The last step, "overlapped", is different. At D = 128, in full attention, it is {{measured overlapped against tuned}}
# times as fast as the step before it. It is also a little faster than cuDNN, a library that NVIDIA writes for its own
# GPUs. What does this kernel do that the others do not? The next cell shows how busy the parts of an SM are, as counted
# by NVIDIA's profiler Nsight Compute. Which part is the busiest while "unit 09" runs, and which one while "descriptors"
# runs? Look before you read on.

# %%
print("              tensor cores  special functions  issuing instructions  between L2 and the SMs")
for row in measured("attention")["counters"]:
    shares = f"{row['tensor']:12.0%} {row['special']:18.0%} {row['issued']:21.0%}"
    print(f"{row['name']:>12}: {shares} {row['l2'] / 1e12:18.1f} TB/s")

# %% [markdown]
# While the kernel "unit 09" runs, the busiest parts are the schedulers, which issue instructions. While "descriptors"
# runs, the busiest parts are the tensor cores. But no part is busy all the time, because in each program the products
# and the softmax *take turns*. While a program computes exponentials, it gives the tensor cores nothing to do, and the
# other way round. Only a second program on the same SM can fill these gaps, and only if it happens to be in the other
# phase.
#
# **Overlap.** The kernel "overlapped", like FlashAttention-3 and cuDNN, gives different jobs to different warps of a
# program. One warp fetches tiles. The other warps form two groups of four warps, and each group has 64 queries. For
# each tile of keys, a group does three things:
# 1. It starts the product s = q @ k.T of this tile.
# 2. Without waiting for s, it starts the product p @ v of the *previous* tile.
# 3. When s is ready, it computes the softmax of s. Meanwhile the tensor cores work on this group's product p @ v for
#    the previous tile, and on the other group's products.
#
# There are two more differences. First, each program of "overlapped" works on 128 queries at a time, while a program of
# our other kernels works on 64. So k and v are read half as often, and fewer bytes pass between L2 and the SMs. Second,
# only as many programs are launched as there are SMs. Each program handles several blocks of 128 queries, one after
# another. While it finishes one block, it is already fetching the next.
#
# Can Triton do this? In the loop of a plain matmul, the code that Triton generates starts the next product before the
# previous one has finished. In the attention loop it does not, because the softmax needs the finished s, and the
# accumulator must be rescaled before the next product is added to it. So the compiled program starts a product and then
# immediately waits for it, and the Triton language gives you no means to change this. The kernel "overlapped" is
# therefore written in **Gluon**, a lower-level language in the same package. In Gluon it is up to you which thread
# holds which number, what is in shared memory, and which warps wait for what. The kernel is in
# research/attention_overlapped.py, and is some 200 lines long, all of them for this one kind of GPU. Read it when you
# have finished this unit; you will recognise every line of its arithmetic. `tritontrace.hopper.simulate` runs such
# kernels without a GPU, in many orders, and reports every place where a wait is missing (units 13 and 14).
#
# **Which version for which card?** All versions of FlashAttention compute the same numbers. The first version, from
# 2022, runs on Turing cards such as the T4. FlashAttention-2 needs an Ampere card or a newer one. FlashAttention-3 was
# written for Hopper, with `wgmma` and the TMA; built from source, it runs on Ampere and Ada as well, with the older
# instructions of these cards (its author in issue 1049 of the flash-attention repository, 2025). FlashAttention-4 has
# kernels for Hopper and Blackwell. So on an A10G, which is an Ampere card, you can use the second or third version, or
# the kernel of this unit, with tiles that fit into the A10G's shared memory. Unit 13 has a table of cards and versions.
#
# Which tiles must fit? Shared memory holds the tile of q, and the tiles of k and v for the stages of the pipeline (unit
# 05). A tile of k and a tile of v form a pair. For Hopper the compiler allocates one pair for each stage, for older
# cards one pair fewer. In addition it allocates a tile of p, because on these cards p passes through shared memory. (On
# Hopper p stays in registers.) The next cell counts the bytes for 64 queries, D = 128, half precision and 3 stages.
# Guess first: how many keys make a tile too large for an A10G?

# %%
KiB, queries, D, stages = 1024, 64, 128, 3
print("shared memory, KiB   allowed   needed with 32 keys   64 keys   128 keys")
for name in ("A10G", "L4", "A100 80GB", "H100 SXM"):
    card = gpu.datasheet(name)
    hopper, room, wants = card.architecture == "sm_90", card.shared_bytes_per_block / KiB, []
    for keys in (32, 64, 128):
        k_and_v, p = 2 * keys * D * 2, 0 if hopper else queries * keys * 2
        need = (queries * D * 2 + (stages if hopper else stages - 1) * k_and_v + p) / KiB
        wants.append(f"{need:.0f}" + ("" if need <= room else ": no"))
    print(f"{name:10} {card.architecture:>7} {room:9.0f} {wants[0]:>21} {wants[1]:>9} {wants[2]:>10}")

# %% [markdown]
# Tiles of 128 keys fit on an A100. They do not fit on an A10G or an L4, where a program may have at most 99 KiB. On
# these cards use tiles of 64 keys, or fewer stages. If a launch asks for more shared memory than the card allows, it
# fails. For your own kernel, ask the compiler: `compile_for(..., gpu="sm_86")` says how much shared memory a program
# takes. You do not need to own such a card.
#
# How do the speed and the memory that is needed change with the length of the text? The left picture shows the speed.
# The right picture shows how much memory is needed besides q, k and v.

# %%
figures.flash.against_length()

# %% [markdown]
# ## What you now know
#
# * One kernel computes all of attention, and a tile of scores never leaves the chip. The outer loop becomes the grid.
#   The inner loop is a walk along k and v, with a state of three blocks: m, l and acc.
# * The weights p are rounded for the tensor cores, but the state is not. The scale is applied to the scores, not to q.
# * One number for each row, `sees`, determines the causal mask, the mask past the last key, and the ends of the two
#   loops.
# * With a pointer and four strides, a kernel can read any view.
#
# In unit 10 you will write the backward pass as two kernels. Then your attention can be used in training.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} These are the kernels that real models need beside this one. With a sliding window, a walk begins later.
# Rows of several heads can share a tile if these heads share k and v. And a single query is too little work for a GPU,
# so the keys are divided into shares, and the states of the shares are merged.

# %% [markdown]
# ## What models add: windows
#
# With a **sliding window** (as in Mistral, Gemma and others), a query sees only the last `window` keys, including its
# own key. The cost of a text of n tokens then grows with n, not with n². Look at the left picture below. Which tiles
# must be computed? What is the largest number of them in one row of tiles? (The right picture belongs to grouped heads,
# further down.)

# %%
figures.flash.windows_and_groups()

# %% [markdown]
# Together the BLOCK_M queries of a program see window + BLOCK_M − 1 keys. In the picture that is 111 keys, which lie in
# 4 tiles of 32 keys. With a window, the walk of a program no longer begins at key 0, and the mask needs a second
# comparison.
#
# There is a trap. Within a tile of queries, the windows of the later queries begin later, so these queries may see no
# key in the walk's first tile of keys. `online_update` must work for rows that have seen nothing yet. With a causal
# mask alone, such rows are rare.
#
# ## Exercise: a sliding window
#
# {{exercise flash.sliding_window}}
#
# Write causal attention with a window. The tensors q, k and v are contiguous, of shape (H, N, D), and D is 16, 32, 64
# or 128. Start from `one_head`. You need not write two loops: you may apply the mask to every tile. Full marks require
# * the right result for any N and any window ({{correct.ragged}}), and for scores far from 0 ({{correct.hard}}),
# * that no program reads tiles of keys that lie outside the windows of its queries, and that there are at least 32
#   programs for 40 heads ({{traffic.performance}} for both together),
# * that no products are computed for tiles outside the windows, and that `tl.dot` computes all remaining products
#   ({{dot_flops.performance}}).


# %% exercise="flash.sliding_window"
@triton.jit
def window_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, N, window,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one head walk over the keys in their windows."""
    ### BEGIN SOLUTION
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    offs_m, offs_d = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offs = head * N * D + offs_m[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + q_offs, mask=(offs_m < N)[:, None], other=0)
    first = tl.maximum(offs_m + 1 - window, 0)  # the first key that each row sees
    start = tl.min(first, 0) // BLOCK_N * BLOCK_N
    stop = tl.minimum(tile * BLOCK_M + BLOCK_M, N)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for j in range(start, stop, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        kv_offs, inside = head * N * D + offs_n[:, None] * D + offs_d[None, :], (offs_n < N)[:, None]
        k = tl.load(k_ptr + kv_offs, mask=inside, other=0)
        v = tl.load(v_ptr + kv_offs, mask=inside, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        seen = (offs_n[None, :] >= first[:, None]) & (offs_n[None, :] <= offs_m[:, None])
        m, l, acc = online_update(m, l, acc, tl.where(seen, s, -float("inf")), v)
    tl.store(o_ptr + q_offs, (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=(offs_m < N)[:, None])
    ### END SOLUTION


def sliding_window(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, window: int) -> torch.Tensor:
    """q, k, v (H, N, D), contiguous; query i sees the keys i - window + 1 to i -> o (H, N, D)."""
    ### BEGIN SOLUTION
    H, N, D = q.shape
    o = torch.empty_like(q)
    grid = (triton.cdiv(N, 64), H)
    window_kernel[grid](q, k, v, o, D**-0.5, N, window, D=D, BLOCK_M=64, BLOCK_N=32)
    return o
    ### END SOLUTION


# %% check="flash.sliding_window"
check("flash.sliding_window", sliding_window)

# %% [markdown]
# ## What models add: texts of several lengths
#
# A batch rarely holds texts of one length. If each is padded to the longest, most of the work may be padding. The cell
# below has eight texts. Before you run it: in causal attention the work grows with the square of the length. How many
# times the work that is needed does the padded batch do?

# %%
lengths = [2048, 130, 77, 512, 260, 33, 90, 1024]
needed, padded = sum(n * n for n in lengths), len(lengths) * max(lengths) ** 2
print(f"{sum(lengths):,} tokens, {len(lengths) * max(lengths):,} with padding: {padded / needed:.1f} times the scores")

# %% [markdown]
# So libraries *pack* the texts: all tokens one after another, without gaps, in one tensor (H, T, D). A second tensor
# holds **offsets**: text s has the rows offsets[s] to offsets[s + 1] − 1. (FlashAttention calls this *varlen*, and the
# offsets `cu_seqlens`.) A token must not see the tokens of other texts.
#
# The offsets lie on the GPU. If the host read them to find out how many tiles each text has, it would have to wait for
# the GPU at every layer. What it does know is the length of the longest text. So the grid has room for the longest text
# everywhere, and a program whose tile lies past the end of its own text has nothing to do. What does such a program
# cost? (It loads two numbers and ends.)
#
# ## Exercise: varlen
#
# {{exercise flash.varlen}}
#
# Write causal attention for packed texts. offsets has S + 1 numbers for S texts, begins with 0 and ends with T. D is 16,
# 32, 64 or 128. You may use `online_update`, and mask every tile. Full marks require
# * the right result for any lengths ({{correct.ragged}}), for texts without a token ({{correct.empty}}), and for scores
#   far from 0 ({{correct.hard}}),
# * that `tl.dot` computes the tiles within a text, and no others ({{dot_flops.performance}}),
# * that a program reads keys of its own text alone, and that at least 32 programs share the work
#   ({{traffic.performance}} for both together),
# * a single launch for all texts ({{launches.performance}}).


# %% exercise="flash.varlen"
@triton.jit
def varlen_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, offsets_ptr, scale, T,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one text and one head walk over the keys of this text that they see."""
    ### BEGIN SOLUTION
    tile, seq, head = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    begin, end = tl.load(offsets_ptr + seq), tl.load(offsets_ptr + seq + 1)
    first = begin + tile * BLOCK_M
    if first < end:  # a text that is shorter than the longest has no such tile
        offs_m, offs_d = first + tl.arange(0, BLOCK_M), tl.arange(0, D)
        q_offs = head * T * D + offs_m[:, None] * D + offs_d[None, :]  # (BLOCK_M, D)
        q = tl.load(q_ptr + q_offs, mask=(offs_m < end)[:, None], other=0)
        m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
        l = tl.zeros((BLOCK_M,), tl.float32)
        acc = tl.zeros((BLOCK_M, D), tl.float32)
        for j in range(begin, tl.minimum(first + BLOCK_M, end), BLOCK_N):
            offs_n = j + tl.arange(0, BLOCK_N)
            kv_offs = head * T * D + offs_n[:, None] * D + offs_d[None, :]
            k = tl.load(k_ptr + kv_offs, mask=(offs_n < end)[:, None], other=0)
            v = tl.load(v_ptr + kv_offs, mask=(offs_n < end)[:, None], other=0)
            s = tl.dot(q, k.T, input_precision="ieee") * scale
            s = tl.where(offs_n[None, :] <= offs_m[:, None], s, -float("inf"))
            m, l, acc = online_update(m, l, acc, s, v)
        o = (acc / l[:, None]).to(o_ptr.dtype.element_ty)
        tl.store(o_ptr + q_offs, o, mask=(offs_m < end)[:, None])
    ### END SOLUTION


def varlen(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, offsets: torch.Tensor, longest: int) -> torch.Tensor:
    """q, k, v (H, T, D), contiguous; offsets (S + 1,) int32; no text has more than `longest` tokens -> o (H, T, D)."""
    ### BEGIN SOLUTION
    (H, T, D), S = q.shape, offsets.numel() - 1
    o = torch.empty_like(q)
    varlen_kernel[(triton.cdiv(longest, 64), S, H)](q, k, v, o, offsets, D**-0.5, T, D=D, BLOCK_M=64, BLOCK_N=32)
    return o
    ### END SOLUTION


# %% check="flash.varlen"
check("flash.varlen", varlen)

# %% [markdown]
# ## What models add: grouped heads
#
# While a model writes a text, it keeps the k and v of every token so far in what is called the **cache**. How large is
# the cache of one layer with 32 heads and D = 128, for 100,000 tokens?

# %%
for kv_heads in (32, 8, 1):
    size = 2 * kv_heads * 128 * 100_000 * 2
    print(f"32 heads of q, {kv_heads:2} of k and v: {size / 1e9:.2f} GB for each layer and each text")

# %% [markdown]
# This is why many models have fewer heads of k and v than of q (**grouped-query attention**; Ainslie and others, 2023).
# Suppose that there are Hq heads of q, and Hkv heads of k and v. Then heads 0 to Hq / Hkv − 1 of q form a *group*,
# which uses head 0 of k and v. The next Hq / Hkv heads of q use head 1, and so on.
#
# This makes the cache smaller. Are fewer bytes read, too? If each head of q has its own programs, each of them still
# loads its group's k and v. Then there are as many loads as if every head of q had a k and v of its own. But a program
# need not treat each head separately. So stack the queries of all heads of a group, one head below the other, and cut
# this longer matrix into tiles, as in the right picture of the section on windows. For example, a group of 8 heads with
# 16 queries each gives 128 rows. One pass over k and v serves all rows of a tile: 64 or 128, depending on BLOCK_M. (In
# the picture a tile has 32 rows: the queries of two heads.)
#
# ## Exercise: grouped heads
#
# {{exercise flash.grouped_attention}}
#
# The shape of q is (Hq, Nq, D), and the shape of k and v is (Hkv, Nk, D). All are contiguous, and D is 16, 32, 64 or
# 128. Full marks require
# * the right result for any sizes and groups ({{correct.ragged}}), and for causal attention ({{correct.causal}}),
# * the right result for queries that see no key ({{correct.nothing}}), and for scores far from 0 ({{correct.hard}}),
# * that k is read at most once for every 64 rows of a group (if you copy k, reading the copy counts, too), with at
#   least 32 programs for 40 groups ({{rereads.k.performance}}),
# * a single launch ({{launches.performance}}).


# %% exercise="flash.grouped_attention"
@triton.jit
def grouped_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, group, Nq, Nk,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """Attention for BLOCK_M rows of q, out of the group * Nq rows that share one head of k and v."""
    ### BEGIN SOLUTION
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    offs_m, offs_d = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_offs = head * group * Nq * D + offs_m[:, None] * D + offs_d[None, :]
    inside = (offs_m < group * Nq)[:, None]
    q = tl.load(q_ptr + q_offs, mask=inside, other=0)
    sees = tl.zeros((BLOCK_M,), tl.int32) + Nk
    if CAUSAL:
        sees = tl.minimum(tl.maximum(offs_m % Nq + 1 + Nk - Nq, 0), Nk)  # row r is query r % Nq of its head
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for j in range(0, tl.max(sees, 0), BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        kv_offs = head * Nk * D + offs_n[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + kv_offs, mask=(offs_n < Nk)[:, None], other=0)
        v = tl.load(v_ptr + kv_offs, mask=(offs_n < Nk)[:, None], other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(offs_n[None, :] < sees[:, None], s, -float("inf"))
        m, l, acc = online_update(m, l, acc, s, v)
    o = acc / tl.where(l == 0, 1, l)[:, None]
    tl.store(o_ptr + q_offs, o.to(o_ptr.dtype.element_ty), mask=inside)
    ### END SOLUTION


def grouped_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """q (Hq, Nq, D), k and v (Hkv, Nk, D), contiguous, Hq a multiple of Hkv -> o (Hq, Nq, D)."""
    ### BEGIN SOLUTION
    (Hq, Nq, D), (Hkv, Nk, _) = q.shape, k.shape
    group, o = Hq // Hkv, torch.empty_like(q)
    grid = (triton.cdiv(group * Nq, 64), Hkv)
    grouped_kernel[grid](q, k, v, o, D**-0.5, group, Nq, Nk, CAUSAL=causal, D=D, BLOCK_M=64, BLOCK_N=32)
    return o
    ### END SOLUTION


# %% check="flash.grouped_attention"
check("flash.grouped_attention", grouped_attention)

# %% [markdown]
# ## What models add: one token
#
# While a model writes, it has *one* query per head, and a cache of perhaps 65,536 keys. Take a layer with 32 heads of q
# and 8 heads of k and v. `grouped_attention` would launch only 8 programs, but an H200 has 132 SMs. Each of the 8
# programs would go through 65,536 keys, and most of the chip would be idle.
#
# In unit 08 you saw the solution: states can be merged in any order. So cut the keys into shares. In the next exercise,
# the argument `splits` says how many shares there are. Each program takes one share of the keys, for one group of
# heads, and stores the state that it ends with. A second kernel then merges the states of each head. (This is called
# *flash decoding*; Dao and others, 2023.)

# %%
figures.flash.decode_splits()

# %% [markdown]
# ## Exercise: flash decode
#
# {{exercise flash.flash_decode}}
#
# The shape of q is (Hq, D), with one query per head. The shape of k and v is (Hkv, Nk, D). All are contiguous, and D is
# 16, 32, 64 or 128. Tensor cores need at least 16 rows, so a smaller group is padded with empty rows, by the compiler
# or by you. (The axis that `tl.dot` sums over must have at least 16 elements, too. In the first product this axis is D,
# which is large enough. In the second product it runs over the keys of a tile, so a tile needs at least 16 keys.)
# `share_kernel` gets the length of a share. If it also needs the number of shares, it can call `tl.num_programs(axis)`,
# which returns the size of the grid along an axis. Full marks require
# * the right result for any sizes and groups ({{correct.ragged}}),
# * the right result if some shares have no key, as with 5 keys in 8 shares ({{correct.empty}}),
# * the right result for scores far from 0 ({{correct.hard}}),
# * the right result in half precision for 8192 keys when all numbers in v are near 20 ({{correct.half}}); for this,
#   store the states in float32,
# * at least 16 programs when there are 2 heads of k and v, and `splits` is 8 ({{programs.performance}}), and no more
#   than two launches ({{launches.performance}}),
# * that k and v are read only once ({{traffic.performance}}).
#
# There is extra credit on a GPU. The case that is timed has 32 heads of q, 8 heads of k and v, and 65,536 keys, in
# bfloat16. The rate at which your kernels read k and v is compared with the rate at which a copy moves bytes. You get
# {{speed}} if their ratio reaches {{speed.full}}, and some of the points if it is more than {{speed.none}}.


# %% exercise="flash.flash_decode"
@triton.jit
def share_kernel(
    q_ptr, k_ptr, v_ptr, m_ptr, l_ptr, acc_ptr, scale, group, Nk, share,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The state of a group's rows after one share of the keys: m and l (Hq, splits), acc (Hq, splits, D)."""
    ### BEGIN SOLUTION
    split, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    offs_m, offs_d = tl.arange(0, BLOCK_M), tl.arange(0, D)
    heads = head * group + offs_m  # of q
    q = tl.load(q_ptr + heads[:, None] * D + offs_d[None, :], mask=(offs_m < group)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    stop = tl.minimum((split + 1) * share, Nk)
    for j in range(split * share, stop, BLOCK_N):
        offs_n = j + tl.arange(0, BLOCK_N)
        kv_offs, inside = head * Nk * D + offs_n[:, None] * D + offs_d[None, :], (offs_n < stop)[:, None]
        k = tl.load(k_ptr + kv_offs, mask=inside, other=0)
        v = tl.load(v_ptr + kv_offs, mask=inside, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        m, l, acc = online_update(m, l, acc, tl.where(offs_n[None, :] < stop, s, -float("inf")), v)
    at = heads * tl.num_programs(0) + split
    tl.store(m_ptr + at, m, mask=offs_m < group)
    tl.store(l_ptr + at, l, mask=offs_m < group)
    tl.store(acc_ptr + at[:, None] * D + offs_d[None, :], acc, mask=(offs_m < group)[:, None])
    ### END SOLUTION


@triton.jit
def merge_kernel(m_ptr, l_ptr, acc_ptr, o_ptr, splits, D: tl.constexpr, BLOCK: tl.constexpr):
    """The states of one head, merged all at once."""
    ### BEGIN SOLUTION
    head, parts, offs_d = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, D)
    at = head * splits + parts
    m = tl.load(m_ptr + at, mask=parts < splits, other=-float("inf"))
    l = tl.load(l_ptr + at, mask=parts < splits, other=0)
    acc = tl.load(acc_ptr + at[:, None] * D + offs_d[None, :], mask=(parts < splits)[:, None], other=0)
    alpha = tl.exp(m - tl.max(m, 0))  # 0 for a share without keys
    o = tl.sum(alpha[:, None] * acc, 0) / tl.sum(alpha * l, 0)
    tl.store(o_ptr + head * D + offs_d, o.to(o_ptr.dtype.element_ty))
    ### END SOLUTION


def flash_decode(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, splits: int) -> torch.Tensor:
    """q (Hq, D), one query per head; k and v (Hkv, Nk, D); all contiguous, Hq a multiple of Hkv -> o (Hq, D)."""
    ### BEGIN SOLUTION
    (Hq, D), (Hkv, Nk, _) = q.shape, k.shape
    group, o = Hq // Hkv, torch.empty_like(q)
    m, l = torch.empty(2, Hq, splits, dtype=torch.float32, device=q.device)
    acc = torch.empty(Hq, splits, D, dtype=torch.float32, device=q.device)
    rows = dict(BLOCK_M=max(16, triton.next_power_of_2(group)), BLOCK_N=64)
    share = triton.cdiv(Nk, splits)
    share_kernel[(splits, Hkv)](q, k, v, m, l, acc, D**-0.5, group, Nk, share, D=D, **rows)
    merge_kernel[(Hq,)](m, l, acc, o, splits, D=D, BLOCK=triton.next_power_of_2(splits))
    return o
    ### END SOLUTION


# %% check="flash.flash_decode"
check("flash.flash_decode", flash_decode)

# %% [markdown]
# ## Exercise: name it
#
# {{exercise flash.name_maps}}
#
# The maps below show where the results of six kernels for causal attention are wrong. Each kernel has one mistake. The
# matrix v is the identity, so o is the matrix of weights: element (i, j) is the weight that query i gives to key j. A
# weight counts as wrong if it differs from the right weight by more than 0.5 % of the right weight, or if it should be
# 0 and is not. Which mistake belongs to which map? Write one of the following names on each line, in quotes. Then run
# the check, which explains each map that you have named correctly.
#
# * `"a query does not see itself"`
# * `"acc is not corrected when the maximum grows"`
# * `"l is not corrected when the maximum grows"`
# * `"scores are rounded to bfloat16"`
# * `"the grid rounds down"`
# * `"tiles on the diagonal are not masked"`
#
# Guessing alone gets some answers right, so the first three right answers earn nothing, and each further right answer
# earns {{names.plain / 3}} ({{names.plain}} in all).

# %%
figures.flash.name_maps()

# %% exercise="flash.name_maps"
named_maps = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
    "E": ...,
    "F": ...,
}
### BEGIN SOLUTION
named_maps = {
    "A": "tiles on the diagonal are not masked",
    "B": "l is not corrected when the maximum grows",
    "C": "the grid rounds down",
    "D": "scores are rounded to bfloat16",
    "E": "acc is not corrected when the maximum grows",
    "F": "a query does not see itself",
}
### END SOLUTION

# %% check="flash.name_maps"
check("flash.name_maps", named_maps)

# %% [markdown]
# ## Exercise: break FlashAttention
#
# {{exercise flash.break_attention}}
#
# A bug is found only if somebody thinks of an input that exposes it. Below is a correct kernel. There are also wrong
# versions of it, called *mutants*. Each mutant has one change: for example, a mask is missing, or alpha is forgotten.
# On many inputs a mutant still gives the right result. Write inputs on which it gives a wrong one.
#
# `breaking_inputs()` returns a list of at most three inputs. Each input is a dict with four keys: `"q"` of shape (N,
# D), `"k"` and `"v"` of shape (S, D), and `"causal"`, which is True or False. The tensors are contiguous float32, D is
# 16, 32 or 64, and N and S are at most 256. A causal input has at least as many keys as queries.
#
# The check first runs the given kernel on all of your inputs. **If the given kernel fails on one of them, you earn
# nothing.** Then the check runs the mutants. A mutant is *killed* if its result is wrong on one of your inputs, or if
# it reaches outside a tensor. The check in this notebook has four mutants, and the grader has more. Random matrices of
# ordinary sizes kill about two thirds of the mutants. So up to two thirds of them earn nothing, and the others share
# {{kills.mutants}}.

# %% given="flash.break_attention"


# %% exercise="flash.break_attention"
def breaking_inputs() -> list[dict]:
    """At most three inputs, {"q": (N, D), "k": (S, D), "v": (S, D), "causal": True or False}, that expose wrong versions."""
    ### BEGIN SOLUTION
    late = torch.randn(75, 16) * torch.arange(75)[:, None] / 10  # keys grow: the maximum comes late
    low = -8 * torch.rand(70, 64)  # all scores are near -128
    few, large = torch.randn(70, 32) * 6, torch.randn(9, 32) * 8  # more queries than keys, scores above 80
    return [
        {"q": torch.randn(37, 16), "k": late, "v": torch.randn(75, 16), "causal": True},
        {"q": 8 * torch.rand(40, 64), "k": low, "v": torch.randn(70, 64), "causal": False},
        {"q": few, "k": large, "v": torch.randn(9, 32), "causal": False},
    ]
    ### END SOLUTION


# %% check="flash.break_attention"
check("flash.break_attention", breaking_inputs)

# %% [markdown]
# ## Open task: fewer bytes for k and v
#
# Every tile of queries reads all of k and v again. A taller tile means fewer tiles, and so fewer bytes, until its
# registers spill. How few bytes can attention move? As in unit 06, `attempt` keeps the bytes of each right attempt in
# your logbook, and on a GPU its time. There are no points, and the best answer is not known. No register may spill, and
# at least 32 programs must share the work. Write your function in a new cell, under a new name.

# %%
attempt("flash.flash_attention_forward", flash_attention_forward)

# %% [markdown]
# ## Exercise: a work log of attention
#
# {{exercise flash.attention_log}}
#
# A **work log** makes a wasteful version better in rounds. Before you write the next one, you state what it will move;
# the traces of both versions show what did change. This log begins with attention of one head in three launches. Its matrix
# of scores goes to memory, comes back, and does both again as probabilities.

# %%
from course_lib import worklog

worklog("flash.attention_log")

# %% [markdown]
# `attention_log()` returns your rounds as a list of dicts, such as
# `{"change": "...", "bytes": "12*Nq*Nk + ...", "sectors": "...", "launches": 2, "version": my_attention}`. What you state are totals of
# the new version, as formulas in quotes: numbers, Nq, Nk, D, `+ - * /`, `//`, and `cdiv(a, b)`, which rounds up. State a round
# without its `version` first and run the last cell of this section; your logbook keeps the statement.
#
# A round holds if its version is right, each of its numbers is at most a tenth off, and at least one of them is a tenth
# below that of every version before it. Three rounds that hold give {{rounds_held.performance}}, each a third of them; up to
# five are judged, so one that fails costs nothing. The check has lengths that you do not see, multiples of 128, and D is
# 64. `strides log` makes a page of your log.


# %% exercise="flash.attention_log"
### BEGIN SOLUTION
@triton.jit
def log_scores_kernel(q_ptr, k_ptr, s_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    offs_m, offs_n = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :])
    k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :])
    tl.store(s_ptr + offs_m[:, None] * Nk + offs_n[None, :], tl.dot(q, k.T) * scale)


@triton.jit
def log_weighted_kernel(s_ptr, v_ptr, o_ptr, Nk, D: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr):
    offs_m, offs_n, offs_d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, BLOCK), tl.arange(0, D)
    s = tl.load(s_ptr + offs_m[:, None] * Nk + offs_n[None, :], mask=offs_n[None, :] < Nk, other=-float("inf"))
    p = tl.exp(s - tl.max(s, axis=1)[:, None])
    v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < Nk, other=0.0)
    o = tl.dot(p.to(v.dtype), v) / tl.sum(p, axis=1)[:, None]
    tl.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], o.to(tl.float16))


@triton.jit
def log_flash_kernel(q_ptr, k_ptr, v_ptr, o_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    offs_m, offs_d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, D)
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :])
    m = tl.full((TILE,), -float("inf"), tl.float32)
    l = tl.zeros((TILE,), tl.float32)
    acc = tl.zeros((TILE, D), tl.float32)
    for j in range(0, Nk, 32):
        offs_n = j + tl.arange(0, 32)
        k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :])
        v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :])
        s = tl.dot(q, k.T) * scale
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p, alpha = tl.exp(s - m_new[:, None]), tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m = m_new
    tl.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], (acc / l[:, None]).to(tl.float16))


def softmax_beside_values(q, k, v):
    (Nq, D), Nk = q.shape, k.shape[0]
    s, o = torch.empty((Nq, Nk), device=q.device), torch.empty_like(q)
    log_scores_kernel[(Nq // 32, Nk // 32)](q, k, s, Nk, D**-0.5, D=D, TILE=32)
    log_weighted_kernel[(Nq // 32,)](s, v, o, Nk, D=D, TILE=32, BLOCK=triton.next_power_of_2(Nk), num_warps=8)
    return o


def no_scores_in_memory(q, k, v, tile=32):
    (Nq, D), Nk = q.shape, k.shape[0]
    o = torch.empty_like(q)
    log_flash_kernel[(Nq // tile,)](q, k, v, o, Nk, D**-0.5, D=D, TILE=tile)
    return o


def more_queries(q, k, v):
    return no_scores_in_memory(q, k, v, tile=64)


### END SOLUTION
def attention_log():
    """The rounds, in order: dicts of change, bytes, sectors, launches and version."""
    ### BEGIN SOLUTION
    return [
        # scores: written once, read once. q is read for each 32 keys; k and v, for each 32 queries
        {
            "change": "softmax where the scores are multiplied with v",
            "bytes": "8*Nq*Nk + 2*Nq*D*Nk/32 + 4*Nk*D*Nq/32 + 2*Nq*D",
            "sectors": "(8*Nq*Nk + 2*Nq*D*Nk/32 + 4*Nk*D*Nq/32 + 2*Nq*D) / 32",
            "launches": 2,
            "version": softmax_beside_values,
        },
        {
            "change": "online softmax: no scores in memory",
            "bytes": "4*Nk*D*Nq/32 + 4*Nq*D",
            "sectors": "(4*Nk*D*Nq/32 + 4*Nq*D) / 32",
            "launches": 1,
            "version": no_scores_in_memory,
        },
        {
            "change": "64 queries for each program",
            "bytes": "4*Nk*D*Nq/64 + 4*Nq*D",
            "sectors": "(4*Nk*D*Nq/64 + 4*Nq*D) / 32",
            "launches": 1,
            "version": more_queries,
        },
    ]
    ### END SOLUTION


# %% check="flash.attention_log"
check("flash.attention_log", attention_log)

# %%
worklog("flash.attention_log", attention_log)

# %% [markdown]
# ## Further reading
#
# * Dao and others, *FlashAttention*, 2022, and Dao, *FlashAttention-2*, 2023: in the second paper, algorithm 1 is your
#   kernel, and section 3.3 explains which warp does what within a program.
# * Shah and others, *FlashAttention-3*, 2024: how softmax and products run at the same time on Hopper.
# * Stanford, *CS336: Language Modeling from Scratch*: the part of the lecture on GPUs that covers FlashAttention.
# * The Triton tutorial *Fused Attention*: the same kernel with descriptors and autotuning.
# * Ainslie and others, *GQA*, 2023; Jiang and others, *Mistral 7B*, 2023 (section 2, the window).
# * Dao, Haziza, Massa and Sizov, *Flash-Decoding for long-context inference*, 2023.
