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
# **After this unit you can** write attention as one Triton kernel that takes any shape, any strides and any dtype, say
# beforehand what it moves and multiplies, and change it for what models really use: causal masks, windows, grouped heads, a
# cache. About {{unit hours}}, {{unit minutes}} of them for {{unit exercises}}. You need 05 (tiles, `tl.dot`), 06
# (the online softmax in Triton) and 08 (attention by tiles). No GPU is needed: the kernels are traced and compiled, and
# timed as well where there is a GPU.

# %%
import torch
import triton
import triton.language as tl

from course_lib import bench, check, compile_for, figures, gpu, hint, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.measurements import measured

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
# ## The question
#
# In 08 you wrote attention in tiles, in torch. It never holds anything of size n × n, and it has to move few bytes. So it
# should be as fast as its matrix products. One layer with 16 heads of 128 and 16 384 tokens does 4 · 16 · 16384² · 128
# FLOPs. How long would that take at the speed of a matrix product? And how long does your `tiled_attention` take on the
# same GPU?

# %%
ceiling = measured("attention")["ceiling"]  # TFLOP/s of torch's matrix product, measured on an H200
tera = 4 * 16 * 16384**2 * 128 / 1e12
tiles = (16384 // 128) ** 2  # of all heads at once
print(f"{tera:.1f} TFLOP at {ceiling:.0f} TFLOP/s: {1000 * tera / ceiling:.1f} ms")
print(
    f"{tiles:,} tiles of 128 x 128, about ten operations of torch each: {10 * tiles * 5e-3:.0f} ms of launches, at 5 us each"
)

# %% [markdown]
# Each torch operation is a launch, and each hands its tiles to the next one *through memory*. A tile of scores is small
# enough to stay in registers, as long as one kernel does everything to it: the product, the mask, the exponentials and the
# second product. (The count above is not multiplied by 16 heads: one torch operation handles the same tile of all heads at
# once.) Writing that kernel is all that is left to do. The outer loop of `tiled_attention` becomes the grid, and the inner
# loop becomes the body of the kernel.
#
# Here is one program of such a kernel at work: a tile of 64 queries, causal, keys in tiles of 32. The steps are those of a
# traced launch. Move *step*, then *program*. What does each program load once, and what does it load again and again? Which
# program has the least to do?

# %%
figures.flash.explore_program_walk()

# %% [markdown]
# Each program loads its rows of q once, at the beginning, and stores its rows of o once, at the end. In between it walks
# along k and v, and each tile of scores exists only for a moment. Program 0 has the shortest walk and the last program the
# longest. No program needs anything from another one.
#
# Where do these programs run? Three answers are often heard, and none of them is right.
#
# * *"The heads are divided among the cores of the CPU."* The CPU makes one launch. Heads and tiles of queries are the
#   programs of its grid, and the GPU hands them out to its SMs. The cell below counts them.
# * *"One CUDA core computes all of the attention."* A program runs on one SM, and all of its threads work on each tile
#   together. A CUDA core is the arithmetic unit of one lane; the products are made by the SM's tensor cores.
# * *"FlashAttention saves the way back to the CPU between the steps."* There is no such way, with or without it. Results of
#   torch's operations stay in the GPU's main memory. What FlashAttention saves is the way to *that* memory, and back.

# %%
programs, sms = 16 * 16384 // 64, gpu.datasheet("H200").sms
print(f"16 heads of 16,384 queries, 64 queries a program: {programs:,} programs for the {sms} SMs of an H200")

# %% [markdown]
# ## Exercise: six numbers
#
# {{exercise flash.predictions}}
#
# Take one head of 1024 queries and keys, with D = 128, in bfloat16. Attention is full unless a line says causal. Each
# number is worth {{correct.plain / 6}}.
#
# Write numbers, or arithmetic on them such as `4 * 1024`. Code that finds them out is no prediction: it earns nothing.


# %% exercise="flash.predictions"
predictions = {
    "times k is read, tiles of 64 queries": ...,
    "times k is read, tiles of 128 queries": ...,
    "tiles of a causal pass": ...,  # 128 queries by 128 keys
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
# The fifth number decides how large a tile may be. An SM has 65 536 registers of 4 bytes, which is 256 KiB. The accumulator
# of 128 queries takes a quarter of them, and the tile of scores comes on top; q, k and v wait in shared memory. That is why
# everybody's tiles hold 64 or 128 queries.
#
# ## One tile
#
# What happens to a program's state when the next tile comes? You know the answer as `merge`: both states are brought to the
# larger maximum and then added. In the loop one of the two is new, which allows a shortcut: make the weights of the tile
# relative to the *new* maximum at once. Then only the old state has to be corrected.
#
# > m_new = max(m, max of each row of s)
# >
# > p = exp(s − m_new),  alpha = exp(m − m_new)
# >
# > l = l · alpha + Σ p,  acc = acc · alpha + p @ v
#
# Below, a state of 3 rows is updated with a tile of 4 keys. Before you run it: which of the three rows keeps its old sums
# as they are, and which one forgets nearly everything?

# %%
m = torch.tensor([2.0, 2.0, -torch.inf])  # the third row has seen nothing yet
s = torch.tensor([[1.0, 0.5, 2.0, -1.0], [9.0, 3.0, 0.0, 1.0], [0.0, 1.0, 2.0, 3.0]])
m_new = torch.maximum(m, s.amax(1))
print("m_new ", m_new.tolist())
print("alpha ", [round(x, 4) for x in torch.exp(m - m_new).tolist()])

# %% [markdown]
# Three things matter on a GPU.
#
# * **Tensor cores** multiply half precision. p is float32; round it to v's dtype, `p.to(v.dtype)`, for the product. The
#   weights in p lie between 0 and 1. Rounding changes each of them by at most half a unit in its last place, which is no
#   worse than v itself. The *sums* m, l and acc stay float32.
# * `tl.dot(a, b, acc)` adds the product to `acc`, which costs the tensor cores nothing.
# * A float32 product would be rounded to TF32. `input_precision="ieee"` keeps it float32. For half precision it
#   changes nothing.
#
# And one thing is familiar: −inf − −inf is NaN. A row may have seen nothing before this tile, and may see nothing in it
# either.
#
# ## Exercise: update the state
#
# {{exercise flash.online_update}}
#
# Write `online_update`, a `@triton.jit` function that other kernels call. It gets blocks and no pointers. The two
# functions below it are given: they walk over scores in tiles, and the check calls `weighted_mean`. In every exercise of
# this unit, all points rest on one plain case. Its result must be right, and kernels must have computed it: torch may only
# allocate memory and make views. Full marks need
# * the right result for any size ({{correct.ragged}}), and float32 that stays float32 throughout ({{correct.float32}}),
# * scores far from 0, rising and falling ({{correct.hard}}), half precision v with 4096 keys ({{correct.half}}),
# * tiles of −inf before the first score, and rows of −inf alone ({{correct.late}}).
#
# v is in half precision in the plain case and for the {{correct.half}} of half precision. Everywhere else it is float32,
# and without `"ieee"` the points there are lost.
#
# `hint("flash.online_update")` gives a hint, and a stronger one each time. This holds for every exercise here.


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
# From here on the scores are no longer given. For BLOCK_M queries, a program
#
# 1. loads its tile of q,
# 2. for each tile of keys loads k and v, makes s = scale · q @ k.T with 08's scale of 1 / √D, and updates the state,
# 3. divides, and stores o and lse.
#
# `k.T` of a block of half precision costs nothing: a tile in shared memory can be read by rows or by columns. (On Hopper
# the tensor cores do that themselves, on older GPUs the loads that bring it into registers.) The scale multiplies s, in
# float32; q times the scale would be rounded to half precision once more, and lse would show it. The last tile may reach
# past the last key. What must the scores of these missing keys be? A masked load gives 0. But 0 is a score like any other:

# %%
s = torch.tensor([-3.0, -2.5, 0.0, 0.0])  # two keys, and two that are not there
print("with 0:   ", [round(x, 3) for x in torch.softmax(s, 0).tolist()])
print("with -inf:", [round(x, 3) for x in torch.softmax(s.where(torch.arange(4) < 2, -torch.inf), 0).tolist()])

# %% [markdown]
# ## Exercise: one head
#
# {{exercise flash.one_head}}
#
# q, k, v are contiguous matrices of one head, D is 16, 32, 64 or 128. Full marks need
# * o and lse right in a plain case in float16, on which all points rest,
# * any Nq and Nk, float16, bfloat16 and float32 ({{correct.ragged}}), scores far from 0 ({{correct.hard}}),
# * k read at most Nq / 64 times, copies of it counted as well, by at least 32 programs where Nq is large
#   ({{rereads.k.performance}}), one launch ({{launches.performance}}), dense loads ({{coalesced.load.performance}}).


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
# What did your kernel move? Unit 08's `flash_bytes` said that q, o and lse move once, and k and v once for each program.
# Compare this prediction with what was traced.

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
    print(f"{t.flops.dot:,} FLOPs in tl.dot: {t.flops.dot / t.bytes:.0f} a byte")

# %% [markdown]
# And this is the walk of your own kernel. (If you have not solved it yet, you see the walk from the beginning again.)

# %%
mine = {} if done is None else dict(traced=t, q=q, k=k, v=v, o=done[0])
figures.flash.explore_program_walk(**mine)

# %% [markdown]
# What does the compiler make of it for an H100 or H200 (sm_90)? You need neither of them to find out:

# %%
if done is None:
    print("solve one_head to see what becomes of it")
elif "one_head_kernel" not in globals():
    print("here a kernel called one_head_kernel is compiled, with the parameters of the stub")
else:
    shape = dict(D=64, BLOCK_M=64, BLOCK_N=64, num_warps=4)
    print(compile_for(one_head_kernel, q, k, v, *done, 0.125, n, n, gpu="sm_90", **shape))

# %% [markdown]
# `wgmma` is Hopper's tensor core instruction, and both products use it. "None" in the row *spills* is what you want to see:
# an accumulator that does not fit into the registers would go to memory and back in every step.
#
# ## Causal: two loops
#
# Only the tiles on the diagonal need a mask. How many keys does row i see? In causal attention it sees i + 1 + Nk − Nq of
# them, but at least 0 and at most Nk; otherwise it sees all Nk. Call this number `sees`. A score stays where **key <
# sees**, and this one comparison serves the causal mask *and* the keys that are not there. It also tells a program where to
# walk:
#
# * from 0 to the smallest `sees` of its rows, rounded down to whole tiles, all rows see everything, and no mask is needed,
#   not even on the loads;
# * from there to the largest `sees`, a mask is needed;
# * beyond that, there is nothing to do.
#
# So there are two loops, one after the other, with the same body. Write the body once, as a helper with a `tl.constexpr`
# argument such as MASKED, and call it twice: the compiler makes two versions of it, one with the mask and one without. Play
# with unequal tiles. How many masked tiles does a row of tiles have if the tiles of keys are half as wide as those of
# queries?

# %%
figures.attention.explore_causal_map()

# %% [markdown]
# It has two, and it still has two when the row is 256 tiles long. The mask costs one comparison and one selection for each
# score of a masked tile.
#
# ## Heads and strides
#
# q comes as (B, H, N, D), as (N, D), or as something else with heads in front. Often it is a *view*: (B, N, H, D) with two
# dimensions swapped, as in 08. Nobody wants to copy it. What does a kernel need to know to read any of these tensors where
# they lie?
#
# It needs a pointer and four strides. `x[None]` adds a dimension in front, so repeat it until there are four. If there are
# more, `x.flatten(0, -4)` folds all but the last three into one. Both are views. (Folding dimensions that do not lie one
# after the other would make a copy. Batches in front do lie so.) A program's number gives its batch and head, and these
# two, times their strides, give the start of its matrix. Rows and columns of a tile take the other two strides.

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
# Heads of 80 or 96 exist, and blocks have powers of two as sizes. Take the next one as BLOCK_D and mask the rest: columns
# of 0 change no product. Multiplying by those zeros still takes time, though: such heads pay for the next power of two.
#
# ## Exercise: FlashAttention, forward
#
# {{exercise flash.flash_attention_forward}}
#
# The real thing. Begin from `one_head`. (You may write further `@triton.jit` helpers in the cell.) Return o with q's shape
# and dtype, and lse, contiguous float32. torch may only allocate memory and make views: a single `.contiguous()` costs all
# points. Heads beyond 128 need smaller tiles, or `num_stages=2`: the check compiles for an A100 (sm_80) as well, which has
# less shared memory than an H100. Full marks need
# * any Nq and Nk ({{correct.ragged}}), any leading dimensions ({{correct.leading}}), views without copies
#   ({{correct.strided}}), D from 16 to 256 ({{correct.dims}}),
# * float32 that stays float32 ({{correct.float32}}), half precision with 4096 keys ({{correct.half}}), any scale
#   ({{correct.scale}}),
# * causal, aligned at the bottom right ({{correct.causal}}); zeros and −inf for queries that see nothing
#   ({{correct.nothing}}),
# * scores that are large, that rise, that fall, that are low ({{correct.hard}}; one of these cases has a scale of its
#   own, too),
# * by count: the bytes that `flash_bytes` predicts, with at least 32 programs for 64 heads ({{traffic.performance}}), all
#   products by `tl.dot`, and only half as many if causal ({{dot_flops.performance}}), one launch
#   ({{launches.performance}}), nothing of size Nq × Nk in memory ({{buffers_below.performance}}), dense loads
#   ({{coalesced.load.performance}}) and stores ({{coalesced.store.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of the speed of torch's FlashAttention-2, and a part of these points
# from {{speed.none}} on (16 heads of 128, 8192 tokens, bfloat16).


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
# Does it agree with torch on a layer's own views? A tensor (B, N, H, D) goes in as a view (B, H, N, D). If your o lies in
# memory as q does, the layer's last matrix can take the result without a copy.
#
# How large a difference is rounding? The next cell prints the step of bfloat16 just below 1. Causal rows at the beginning
# are means of a few values and reach 2 to 4, where bfloat16 has steps of 0.0156; rounding is off by up to half of one,
# 0.0078.

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
        f"largest difference from torch in float32: {(o - right).abs().max():.4f}; bfloat16 has steps of {2**-8:.4f} near 1"
    )
    print("o is (B, N, H, D) in memory:", o.transpose(1, 2).is_contiguous())
    print(t)

# %% [markdown]
# ## How fast?
#
# Guess before you look: what share of the speed of torch's FlashAttention-2, which specialists wrote in CUDA, does your
# kernel reach?

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
    print("No GPU here, or nothing to time: the next picture shows what was measured on one.")

# %%
figures.flash.ladder()

# %% [markdown]
# The lowest step is the solution of this unit: pointers, `tl.exp`, two loops. It has 1.33 times FlashAttention-2's speed,
# and 1.48 times if causal. The next three steps change nothing in the algorithm. They only say it differently to the
# hardware:
#
# * **exp2.** The hardware has 2ˣ and no eˣ: `tl.exp` multiplies by log₂ e first, once for each score. Put log₂ e into
#   the scale, and use `tl.exp2`; the scale and the subtraction of the maximum become one fused operation.
# * **Descriptors.** `tl.make_tensor_descriptor`, or one made on the host, tells Hopper's TMA unit where a tensor
#   lies. It then fetches whole tiles by itself, and no registers are spent on a tile's addresses.
# * **Tuning.** Tile sizes, warps, stages: tried out, and the fastest kept, by hand or by `triton.autotune`. With heads of
#   128 the first tiles were the fastest, so these two bars are the same kernel, timed twice; with heads of 64 tuning brings
#   up to 10 %. (A check tries nothing out: it times the first configuration.)
#
# These steps are in benchmarks/attention_ladder.py. They cost generality: a descriptor wants rows of unit stride, and the
# kernels in that file want a length that is a multiple of the tile.
#
# The last step is another matter: with heads of 128 it brings a quarter more, and is a little faster than cuDNN, which
# NVIDIA writes for its own GPUs. What does it do that the others do not? Nsight Compute counts how busy the parts of an SM
# are. Look for the busiest part of "unit 09" and of "descriptors" before you read on.

# %%
print("              tensor cores  special functions  issuing instructions  between L2 and the SMs")
for row in measured("attention")["counters"]:
    shares = f"{row['tensor']:12.0%} {row['special']:18.0%} {row['issued']:21.0%}"
    print(f"{row['name']:>12}: {shares} {row['l2'] / 1e12:18.1f} TB/s")

# %% [markdown]
# In the first two kernels no part is busy all of the time: in a program the products and the softmax *take turns*. The
# tensor cores wait while exponentials are computed, and the other way round, unless the SM's second program happens to be
# in the other phase.
#
# **Overlap.** The last step, like FlashAttention-3 and cuDNN, gives the jobs to different warps of one program: one warp
# fetches tiles, and two groups of four warps have 64 queries each. For each tile a group does three things: it starts s = q
# @ k.T, right behind it it starts the product p @ v of the tile *before*, and then it computes its softmax while the tensor
# cores are at work, for itself and for the other group. And a program holds 128 queries, not 64: half as many programs read
# k and v, so less passes between L2 and the SMs. There are as many programs as SMs, and each works on one block of 128
# queries after another: it fetches the next block while it finishes the one before.
#
# In a plain matmul's loop, Triton's compiler leaves products in flight. In this loop, where the softmax needs s and the
# accumulator is rescaled, it waits for each product where it is issued, and in Triton you cannot tell it to do otherwise.
# The step is written in **Gluon**, the language below Triton in the same package, where layouts, shared memory, barriers
# and waiting are one's own: benchmarks/attention_overlapped.py, 197 lines for this one GPU. Read it when you have finished
# this unit: you will know every line of its arithmetic. `course_lib.hopper.simulate` runs such kernels without a GPU, in
# many orders, and reports every place where a wait is missing.
#
# **Which version for which card?** The three versions of FlashAttention compute the same numbers. The first one, from
# 2022, runs on Turing cards such as the T4. FlashAttention-2 needs Ampere, Ada or Hopper. FlashAttention-3 is written for
# Hopper: it needs `wgmma` and TMA, and an A10G has neither. On an A10G you take FlashAttention-2, or the kernel of this
# unit, with tiles that fit into its shared memory. What lies there? The tile of q lies there, and so do tiles of k and v
# for the stages of the pipeline. On Hopper there are tiles for all stages. On the cards before it there are tiles for all
# stages but one, and a tile of p needs room as well. The next cell counts that for 64 queries, heads of 128, half
# precision and 3 stages. Guess first: which of the three tiles of keys is too large for an A10G?

# %%
KiB, queries, D, stages = 1024, 64, 128, 3
print("KiB of shared memory  a program may have   32 keys   64 keys   128 keys")
for name in ("A10G", "L4", "A100 80GB", "H100 SXM"):
    card = gpu.datasheet(name)
    hopper, room, wants = card.architecture == "sm_90", card.shared_bytes_per_block / KiB, []
    for keys in (32, 64, 128):
        k_and_v, p = 2 * keys * D * 2, 0 if hopper else queries * keys * 2
        need = (queries * D * 2 + (stages if hopper else stages - 1) * k_and_v + p) / KiB
        wants.append(f"{need:.0f}" + ("" if need <= room else ": no"))
    print(f"{name:10} {card.architecture:>6} {room:23.0f} {wants[0]:>9} {wants[1]:>9} {wants[2]:>10}")

# %% [markdown]
# Tiles of 128 keys fit on an A100 and not on an A10G or an L4, whose programs may have 99 KiB: there a tile has 64 keys,
# or the pipeline has fewer stages. A launch that asks for more fails. For a kernel of yours ask the compiler, which needs
# no such card: `compile_for(..., gpu="sm_86")` says what a program takes.
#
# How does all this change with the length of a text? The left picture shows the speed, the right one what must be held in
# addition to q, k and v.

# %%
figures.flash.against_length()

# %% [markdown]
# ## What models add: windows
#
# A **sliding window** (Mistral, Gemma and others) lets a query see the last `window` keys, its own among them, and no
# older ones. The cost of a text then grows with n, not with n². Look at the left picture below: which tiles are taken? How
# many tiles are taken at most in a row of tiles? (The right picture belongs to grouped heads, further down.)

# %%
figures.flash.windows_and_groups()

# %% [markdown]
# The rows of a tile together see window + BLOCK_M − 1 keys. Here that is 111 keys, which lie in 4 tiles of 32. So the walk
# gets a beginning as well as an end, and the mask gets a second comparison.
#
# There is a trap, though. The later queries of a tile see nothing in the first tile of keys of the walk: their windows
# begin later. `online_update` must cope with rows that have seen nothing yet, which a causal mask alone hardly ever asks of
# it.
#
# ## Exercise: a sliding window
#
# {{exercise flash.sliding_window}}
#
# Write causal attention with a window. q, k, v are (H, N, D), contiguous, D is 16, 32, 64 or 128. Start from `one_head`.
# You may mask all tiles. Full marks need
# * any N and any window ({{correct.ragged}}), scores far from 0 ({{correct.hard}}),
# * no key read outside of the windows of a tile, with at least 32 programs for 40 heads ({{traffic.performance}}), and no
#   product computed outside of them: `tl.dot` makes all products ({{dot_flops.performance}}).


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
# ## What models add: grouped heads
#
# While a model writes, k and v of all tokens so far are kept: the **cache**. In a layer with 32 heads of 128, how
# large is it for 100 000 tokens?

# %%
for kv_heads in (32, 8, 1):
    size = 2 * kv_heads * 128 * 100_000 * 2
    print(f"32 heads of q, {kv_heads:2} of k and v: {size / 1e9:.2f} GB a layer, for each text")

# %% [markdown]
# That is why models have fewer heads of k and v than of q (**grouped-query attention**; Ainslie and others, 2023). With Hq
# heads of q and Hkv of k and v, heads 0 to Hq / Hkv − 1 of q read head 0, the next ones head 1, and so on.
#
# The cache is smaller. Are fewer bytes read, too? If each head of q has programs of its own, each of them reads the k and
# v of its group by itself, as before. But a program need not care which head a row of q belongs to. Put the queries of a
# *group* of heads one below the other, and cut *that* into tiles, as in the right picture of the section before. Then 8
# heads of 16 queries are 128 rows, and k and v are read for 64 or 128 rows at a time. (In the picture they are read for 32
# rows at a time: a tile holds two heads.)
#
# ## Exercise: grouped heads
#
# {{exercise flash.grouped_attention}}
#
# q is (Hq, Nq, D), k and v are (Hkv, Nk, D), all contiguous, D is 16, 32, 64 or 128. Full marks need
# * any sizes and groups ({{correct.ragged}}), causal ({{correct.causal}}), queries that see nothing
#   ({{correct.nothing}}), scores far from 0 ({{correct.hard}}),
# * k read once for each 64 rows of a group, copies of it included, with at least 32 programs for 40 groups
#   ({{rereads.k.performance}}), in one
#   launch ({{launches.performance}}).


# %% exercise="flash.grouped_attention"
@triton.jit
def grouped_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, scale, group, Nq, Nk,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M of the group * Nq rows that share one head of k and v."""
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
# While it writes, a model has *one* query per head, and a cache of perhaps 65 536 keys. Take a layer with 32 heads of q and
# 8 of k and v. How many programs would `grouped_attention` launch, and how many SMs does an H200 have? They would launch 8
# programs, and an H200 has 132 SMs. Each of the 8 walks along 65 536 keys alone, and most of the chip idles.
#
# In 08 you saw the way out: states merge in any order. Cut the keys into `splits` shares. A program takes one share
# for one group, and stores its state. A second kernel merges the states of each head. (This is *flash decoding*; Dao
# and others, 2023.)

# %%
figures.flash.decode_splits()

# %% [markdown]
# ## Exercise: flash decode
#
# {{exercise flash.flash_decode}}
#
# q is (Hq, D), one query a head; k and v are (Hkv, Nk, D); all contiguous, D is 16, 32, 64 or 128. Tensor cores need at
# least 16 rows. A smaller group is padded with empty rows, by the compiler or by you. (The axis that `tl.dot` sums along
# must have 16 elements: D has, and a tile needs as many keys.) `share_kernel` gets the length of a share. It can ask for
# the number of shares: `tl.num_programs(axis)` is the size of the grid along that axis. Full marks need
# * any sizes and groups ({{correct.ragged}}), shares without a key ({{correct.empty}}): 5 keys in 8 shares,
# * scores far from 0 ({{correct.hard}}), and half precision with 8192 values around 20 ({{correct.half}}): states are
#   float32,
# * at least 16 programs for 2 heads of k and v in 8 shares ({{programs.performance}}), two launches
#   ({{launches.performance}}), k and v read once ({{traffic.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, and a part of these points from {{speed.none}} on
# (32 heads of q for 8 of k and v, 65,536 keys, bfloat16).


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
    """q (Hq, D), one query a head; k and v (Hkv, Nk, D); all contiguous, Hq a multiple of Hkv -> o (Hq, D)."""
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
# Six kernels of causal attention have one mistake each, and here is where their results are wrong. With the identity
# matrix as v, o is the matrix of weights: element (i, j) says with which weight query i takes key j. A weight counts as
# wrong if it is off by more than half a percent, or if it should be 0 and is not. Which mistake belongs to which map?
# Write one of these into each line, in quotes, and run the check: the explanation of a picture comes with the right
# answer.
#
# * `"a query does not see itself"`
# * `"acc is not corrected when the maximum grows"`
# * `"l is not corrected when the maximum grows"`
# * `"scores are rounded to bfloat16"`
# * `"the grid rounds down"`
# * `"tiles on the diagonal are not masked"`
#
# Guessing alone gets some right. So the first three right answers earn nothing, and each of the others earns a third of the
# points ({{names.plain}}).

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
# ## Exercise: break a FlashAttention
#
# {{exercise flash.break_attention}}
#
# A test is an input, and somebody has to think of it. Below is a kernel that is right. There are also wrong versions of it,
# *mutants*: each has one change, such as a mask that is missing or a stride that is taken for another, or an alpha that is
# forgotten. On most inputs a mutant gives the right result. Write inputs on which it does not.
#
# `breaking_inputs()` returns a list of at most three dicts, `{"q": (N, D), "k": (S, D), "v": (S, D), "causal": True or
# False}`. Each tensor may span at most 16,384 numbers of float32 or float16. They are contiguous float32, D is 16, 32 or
# 64, N and S are at most 256, and a causal input has at least as many keys as queries. The check runs the kernel as it is
# given on all of them, and **if that fails on one, nothing is earned**. Then it runs the mutants. A mutant is *killed* if,
# on one of your inputs, its result is wrong or it reaches outside of a tensor. The check here knows four mutants, the
# grader more. Random numbers of ordinary sizes kill about two thirds of them, so only what you kill beyond that earns
# points ({{kills.mutants}}).


# %%
@triton.jit
def given_kernel(q_ptr, k_ptr, v_ptr, o_ptr, N, S, scale, causal: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offs_d = tl.arange(0, D)
    q = tl.load(q_ptr + offs_m[:, None] * D + offs_d[None, :], mask=offs_m[:, None] < N, other=0)
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for start in range(0, S, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < S, other=0)
        v = tl.load(v_ptr + offs_n[:, None] * D + offs_d[None, :], mask=offs_n[:, None] < S, other=0)
        qk = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = (offs_n < S)[None, :]
        if causal:
            seen = seen & (offs_n[None, :] <= offs_m[:, None] + S - N)
        qk = tl.where(seen, qk, -float("inf"))
        new = tl.maximum(m, tl.max(qk, 1))
        alpha = tl.exp(m - new)
        p = tl.exp(qk - new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m = new
    tl.store(o_ptr + offs_m[:, None] * D + offs_d[None, :], acc / l[:, None], mask=offs_m[:, None] < N)


def given_attention(q, k, v, causal):
    N, D = q.shape
    o = torch.empty_like(q)
    given_kernel[(triton.cdiv(N, 32),)](q, k, v, o, N, k.shape[0], D**-0.5, causal=causal, D=D, BLOCK=32)
    return o


# %% exercise="flash.break_attention"
def breaking_inputs() -> list[dict]:
    """At most three inputs, {"q": (N, D), "k": (S, D), "v": (S, D), "causal": True or False}, on which wrong versions show."""
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
# ## What you now know
#
# * One kernel does it all, because the tile of scores never leaves the chip. The outer loop is the grid, and the
#   inner loop a walk along k and v with a state of three blocks: m, l and acc.
# * p is rounded for the tensor cores, the sums are not. The scale multiplies the scores, not q.
# * `sees`, one number a row, gives the causal mask, the ragged end, and the ends of two loops.
# * A pointer and four strides read any view. Rows of several heads can share a tile, if they share k and v.
# * One query is too little work for a GPU, until the keys are shared out and the states merged.
#
# In 10 you write the backward pass as two kernels, and then `FlashAttention` can be used in training.

# %% gpu="flash.progress"
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs that
# you have not seen.
#
# ## Where to read on
#
# * Dao and others, *FlashAttention*, 2022, and Dao, *FlashAttention-2*, 2023: algorithm 1 is your kernel; section 3.3
#   of the second is about who does what within a program.
# * Shah and others, *FlashAttention-3*, 2024: how softmax and products run at the same time on Hopper.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, on FlashAttention.
# * The Triton tutorial *Fused Attention*: the same kernel with descriptors and autotuning.
# * Ainslie and others, *GQA*, 2023; Jiang and others, *Mistral 7B*, 2023 (section 2, the window).
# * Dao, Haziza, Massa and Sizov, *Flash-Decoding for long-context inference*, 2023.
