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
# # 06 · Fusion
#
# **After this unit you can** say how many bytes a chain of operations must move and how many it does move, write it as one
# kernel that moves the least, reduce rows of any length without overflow, and read what torch.compile makes of the same
# function. About {{unit hours}}, {{unit minutes}} of them for {{unit exercises}}. You need 00 (a first kernel), 03 (bytes and FLOPs)
# and 04 (tiles, traces); what you need from them is repeated below. No GPU is needed: traffic is counted on the CPU. Times
# that the notebook shows without a GPU were recorded on one, and say so.

# %%
import torch
import triton
import triton.language as tl

from course_lib import check, compile_for, figures, gpu, hint, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.inductor import FUNCTIONS, generated
from course_lib.hardware.measurements import measured

# %% [markdown]
# ## What you need
#
# A **Triton kernel** is run by many **programs**, each with its own number `tl.program_id(0)`. A program works on
# blocks: `tl.arange(0, BLOCK)` is the block 0, 1, ..., BLOCK - 1, and BLOCK must be a power of two. `tl.load` and
# `tl.store` take blocks of pointers, and a **mask** for lanes that must not touch memory. A masked lane of a load
# holds `other` if you give it, and *anything* if you do not.
#
# A block lives in **registers**, inside the processor (SM) that runs the program. What was loaded stays there, free
# to use, until the program ends. A tensor lives in **memory** (DRAM). This unit is about the road between the two.
#
# New here are **reductions**: `tl.max(x, axis=0)` and `tl.sum(x, axis=0)` turn a block into one number that every lane can
# use. For a two-dimensional block, `axis=1` gives one number for each row; `keep_dims=True` keeps it a column (BLOCK_M, 1),
# which broadcasts against the tile. Here is all of it in one kernel:


# %%
@triton.jit
def center_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """Program m: row m of x (M, N) minus its mean, in float32."""
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=0).to(tl.float32)  # a masked lane adds 0
    mean = tl.sum(x, axis=0) / N  # N, not BLOCK
    tl.store(out_ptr + row * N + offs_n, x - mean, mask=offs_n < N)


x = torch.randn(50, 300)
out = torch.empty_like(x)
with trace() as t:  # inside, kernels run on the CPU, and every access is counted
    center_kernel[(50,)](x, out, 300, BLOCK=512)
print("right:", torch.allclose(out, x - x.mean(1, keepdim=True), atol=1e-6))
print(f"{t.loads.bytes} bytes loaded, {t.stores.bytes} stored, {x.nbytes} in x; {len(t.launches)} launch")

# %% [markdown]
# In every exercise on kernels torch may allocate (`torch.empty`, `torch.zeros`) and make views; your kernel does the
# work. Inputs are float32, float16 or bfloat16: load them, convert with `.to(tl.float32)`, compute, store (`tl.store`
# converts back).
#
# Words that will come up:
#
# | word | meaning |
# | --- | --- |
# | fuse | do several operations in one kernel, so that what one makes the next has in registers |
# | eager | torch as it runs without torch.compile: one ready-made kernel for each operation |
# | launch | one start of a kernel; it costs some microseconds, and nothing of the kernel before is left in registers |
# | elementwise | element i of the result needs element i of the inputs and nothing else |
# | reduction | many elements become one: a maximum, a sum, a mean |
# | row | what one program reduces; its elements lie side by side |

# %% [markdown]
# ## The question
#
# Take two vectors x and y and compute sin² of the one plus cos² of the other:
#
# ```python
# out = x.sin() ** 2 + y.cos() ** 2
# ```
#
# The result needs each element of x and y once, and each element of the result is written once. So three numbers are
# carried for each one that is computed. Torch runs this line as five operations, one kernel each. How many times as long
# does it take as one kernel that does everything?

# %% predict="fusion.guess_chain"
# How many times as long do the five kernels take? Write a number before you run the next cell; no points hang on it.
guess_chain = ...

# %%
figures.fusion.five_against_one(guess_chain)

# %% [markdown]
# Both compute the same sines. What torch pays for is the road: `x.sin()` writes a whole tensor to memory, and the square
# reads it back.
#
# ## A factory and its conveyor belt
#
# Think of the GPU as a factory beside a warehouse. The factory (the SMs) is fast; the warehouse (DRAM) is large; a
# conveyor belt of fixed speed runs between them. An eager chain brings the parts in, does one step, and sends them
# all back, for every step. Most of the day the workers wait for the belt. A fused kernel does every step while the
# parts are inside.
#
# Below is the chain as it runs eagerly. Press the switches to remove cuts between kernels. Before each press, say what will
# happen to the number of tensors carried. Here are three things to try:
# * Fuse each square with what comes before it. What is saved?
# * Fuse everything. Which tensors never exist in memory?
# * Choose the chain *SwiGLU*, fused completely. Why is `a` carried once, though two operations need it?

# %%
figures.fusion.explore_chain()

# %% [markdown]
# In *SwiGLU* `a` is loaded for the first operation that asks for it, and is still in its register when the second one
# does. As four kernels the chain loads it twice.
#
# ## Exercise: the bytes of a chain
#
# {{exercise fusion.chain_bytes}}
#
# A chain is a list of operations `[result, input, ...]`, in order, such as `["out", "sin²", "cos²"]`. Every name is a
# tensor of `n` elements of `itemsize` bytes. Names that no operation makes are the chain's inputs; the last result is
# its output. `fused` says how many operations each kernel does, in order: `[1, 1, 1, 1, 1]` is eager, `[5]` is one
# kernel.
#
# A kernel loads each tensor that it needs and does not make itself, once, even if it names it twice. It stores those of
# its results that a later kernel needs, and the chain's output; a result that only its own kernel uses is not stored. How
# many bytes do all kernels together move? Full marks need your number to
# equal a trace's
# * with one kernel for each operation ({{correct.one by one}}),
# * with everything in one kernel ({{correct.all in one}}),
# * with cuts anywhere ({{correct.cuts}}).
#
# `hint("fusion.chain_bytes")` gives a hint, and a stronger one each time. This holds for every exercise here.


# %% exercise="fusion.chain_bytes"
def chain_bytes(n: int, ops: list[list[str]], itemsize: int, fused: list[int]) -> int:
    """Elements of a tensor, operations [result, input, ...], bytes of an element, operations of each kernel -> bytes that
    all kernels together load and store."""
    ### BEGIN SOLUTION
    tensors = start = 0
    for count in fused:
        own, later = ops[start : start + count], ops[start + count :]
        made = {result for result, *_ in own}
        loads = {name for _, *inputs in own for name in inputs} - made
        stores = made & {ops[-1][0], *(name for _, *inputs in later for name in inputs)}
        tensors += len(loads) + len(stores)
        start += count
    return tensors * n * itemsize
    ### END SOLUTION


# %% check="fusion.chain_bytes"
check("fusion.chain_bytes", chain_bytes)

# %% [markdown]
# ## Exercise: five kernels become one
#
# {{exercise fusion.sin2_plus_cos2}}
#
# Write `sin2_plus_cos2(x, y)`: sin(x)² + cos(y)² for contiguous vectors of any length. Full marks need
# * the right result for ragged lengths ({{correct.ragged}}), and in float16 and bfloat16 ({{correct.half}}),
# * one launch ({{launches.performance}}),
# * each element read once and written once, by at least 32 programs where the input is large: not a byte more than 3 n
#   elements ({{traffic.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, a share of them from {{speed.none}} on (33554432).


# %% exercise="fusion.sin2_plus_cos2"
@triton.jit
def sin2_plus_cos2_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = sin(x[i])**2 + cos(y[i])**2 for one block, computed in float32."""
    ### BEGIN SOLUTION
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sine = tl.sin(tl.load(x_ptr + i, mask=i < n).to(tl.float32))
    cosine = tl.cos(tl.load(y_ptr + i, mask=i < n).to(tl.float32))
    tl.store(out_ptr + i, sine * sine + cosine * cosine, mask=i < n)  # read 2 n elements, write n
    ### END SOLUTION


def sin2_plus_cos2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x, y: (N,), contiguous -> (N,) in their dtype."""
    ### BEGIN SOLUTION
    (N,) = x.shape
    out = torch.empty_like(x)
    BLOCK = 1024
    sin2_plus_cos2_kernel[(triton.cdiv(N, BLOCK),)](x, y, out, N, BLOCK=BLOCK)
    return out
    ### END SOLUTION


# %% check="fusion.sin2_plus_cos2"
check("fusion.sin2_plus_cos2", sin2_plus_cos2)

# %% [markdown]
# ## How much arithmetic is free?
#
# A sine is some twenty instructions, and the fused kernel did not notice. How many operations could you add to a
# kernel before it takes longer? Unit 03 has the answer in principle: as long as its intensity lies left of the
# roofline's ridge. Here it is measured: one kernel reads a vector, does k multiply-adds to each element, writes it.
# Guess where the curve leaves the floor.

# %%
figures.fusion.free_operations()

# %% [markdown]
# So in a chain of small operations the arithmetic costs nothing, and only what is carried counts. That is why
# libraries write fused kernels by hand, and why torch has a compiler that does.
#
# ## What torch.compile fuses
#
# `torch.compile` records the operations of a function, and its back end, **Inductor**, writes Triton kernels for
# them. Here is what it wrote for `x.sin() ** 2 + y.cos() ** 2`. You can read all of it. Where are the five
# operations?

# %% gpu="fusion.generated_sin2_plus_cos2"
generated("sin2_plus_cos2")

# %% [markdown]
# Apart from names like `tmp3`, this is your kernel: two loads, five operations, one store. (`xindex` is the block of
# offsets, `xnumel` the length, `XBLOCK` the block size, which Inductor picks at the first launch. There is no mask: it
# compiled for this one length, and knows that blocks divide it.)
#
# When can it not fuse? Fusion hands a value from one operation to the next inside a *program*. It stops
# * where an operation needs values that **other programs** make, such as the sum of a whole tensor: all programs must
#   have finished first, and as a rule that is the end of a kernel. (Inductor adds up a large tensor in two kernels: parts,
#   then their sum.) A row that one program holds is no such case;
# * at a **library call**: by default, large matrix products go to cuBLAS, and Inductor adds nothing to a library's kernel.
#   (With `mode="max-autotune"` it may choose a Triton product instead, and fuse into that);
# * where **Python wants the value**: a print, an `if` on a result, a call that torch cannot record. Torch calls it a
#   graph break.
#
# ## Exercise: predict the launches
#
# {{exercise fusion.predicted_launches}}
#
# How many kernels does a GPU run for one call of each of these functions under torch.compile? Memory sets and copies do not
# count. Each function is worth {{correct.plain / 7}}. The cell prints them.
#
# Write numbers, or arithmetic on them such as `4 * 1024`. Code that finds them out is no prediction: it earns nothing.

# %%
import inspect

for name in ("sin2_plus_cos2", "softmax", "add_rmsnorm", "product_gelu", "over_its_sum", "print_between", "attention"):
    print(inspect.getsource(FUNCTIONS[name]))

# %% [markdown]
# x and y have 16 million elements where they are vectors, and matrices are 4096 by 4096, float32; in `attention` q, k
# and v are 4096 by 1024.

# %% exercise="fusion.predicted_launches"
predicted_launches = {
    "sin2_plus_cos2": ...,
    "softmax": ...,
    "add_rmsnorm": ...,
    "product_gelu": ...,
    "over_its_sum": ...,
    "print_between": ...,
    "attention": ...,
}
### BEGIN SOLUTION
predicted_launches = {
    "sin2_plus_cos2": 1,
    "softmax": 1,  # a row of 4096 fits into one program
    "add_rmsnorm": 1,  # two outputs from one pass
    "product_gelu": 2,  # a library's product, then GELU
    "over_its_sum": 3,  # parts of the sum, the sum of the parts, the division
    "print_between": 2,  # the tensor must be there before Python goes on
    "attention": 3,  # product, softmax, product
}
### END SOLUTION

# %% check="fusion.predicted_launches"
check("fusion.predicted_launches", predicted_launches)

# %% [markdown]
# Three of them deserve a second look. `add_rmsnorm` has two results, and still one kernel: one pass over the data can
# store as often as it likes. `over_its_sum` needs the sum of all 16 million elements before the first division. Many
# programs add up parts, a second kernel adds the parts, a third divides. And `attention` writes its 4096 by 4096
# matrix of scores to memory twice, because the products on both sides are library calls. Getting rid of that matrix
# is what FlashAttention does, and what units 08 to 10 build.
#
# ## A vector along the rows
#
# After a matrix product, a model adds a bias and applies GELU:
#
# > gelu(z) = z / 2 · (1 + erf(z / √2)), with z = x + bias
#
# (erf is the error function, `tl.erf` in Triton.) x is (M, N), and the bias (N,) is the same for all rows. It is small. But
# how often is it read, and by whom? The next cell lets programs hold tiles of different heights. Before you run it: with
# one row a program, how many bytes of bias are loaded, against those of x?


# %%
@triton.jit
def add_bias(x_ptr, bias_ptr, out_ptr, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    bias = tl.load(bias_ptr + offs_n)  # (1, BLOCK_N)
    tl.store(out_ptr + offs_m * N + offs_n, tl.load(x_ptr + offs_m * N + offs_n) + bias)


x, bias = torch.randn(64, 1024), torch.randn(1024)
for block_m, block_n in ((1, 1024), (4, 256), (16, 256), (64, 64)):
    with trace() as t:
        add_bias[(64 // block_m, 1024 // block_n)](x, bias, torch.empty_like(x), 1024, BLOCK_M=block_m, BLOCK_N=block_n)
    # what an H200's L2 cache of 60 MiB leaves to memory, with 132 programs at once
    dram = t.l2(at_once=132).dram_bytes(60 << 20)
    print(
        f"tiles of {block_m:2} x {block_n:4}: the bias is read {t.reread('bias_ptr'):2.0f} times; programs move "
        f"{t.bytes / x.nbytes:.2f} times x, DRAM {dram / x.nbytes:.2f} times x"
    )

# %% [markdown]
# A program that holds one row reads as much bias as x. But look at the last column: after the first programs the bias
# lies in the L2 cache, and DRAM never sees it again. So does re-reading it cost time? Here is the published solution
# of the next exercise, with tiles of other heights.

# %%
for row in measured("fusion")["bias_tiles"]:
    height, width = row["tile"]
    print(
        f"tiles of {height:2} x {width:4}: the bias is read {row['bias_reads']:6,} times, speed / copy {row['speed']:.2f}"
    )
print(f"(65536 x 1024 float32, recorded on an {measured('fusion')['machine']})")

# %% [markdown]
# From the first line to the last the re-reading falls to a sixteenth, and the speed does not follow it. A trace
# counts what programs *ask for*; the model of the cache says what of it reaches memory. Look at both before you spend
# effort.
#
# ## Exercise: bias and GELU
#
# {{exercise fusion.bias_gelu}}
#
# Write `bias_gelu(x, bias)` with the exact GELU (erf, not its tanh approximation). Rows of x are dense and may lie
# apart: use `x.stride(0)`. Full marks need
# * the right result for ragged sizes ({{correct.ragged}}), rows that lie apart ({{correct.strided}}), float16 and
#   bfloat16 ({{correct.half}}),
# * one launch ({{launches.performance}}),
# * x read once, the result written once, the bias read at most once for each row, by at least 32 programs where the input
#   is large ({{traffic.performance}}),
# * loads that touch no more sectors than they must ({{coalesced.load.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, a share of them from {{speed.none}} on (8192 × 8192).


# %% exercise="fusion.bias_gelu"
@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[m, n] = gelu(x[m, n] + bias[n]) for one BLOCK_M x BLOCK_N tile; out is contiguous."""
    ### BEGIN SOLUTION
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # neighbouring programs, neighbouring memory
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    inside = (offs_m < M) & (offs_n < N)
    bias = tl.load(bias_ptr + offs_n, mask=offs_n < N).to(tl.float32)  # (1, BLOCK_N), once for BLOCK_M rows
    x = tl.load(x_ptr + offs_m * row_stride + offs_n, mask=inside, eviction_policy="evict_last")
    z = x.to(tl.float32) + bias
    tl.store(out_ptr + offs_m * N + offs_n, 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)), mask=inside)
    ### END SOLUTION


def bias_gelu(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """x: (M, N) with column stride 1, bias: (N,) -> (M, N), contiguous."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_M, BLOCK_N = 8, 256
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    bias_gelu_kernel[grid](x, bias, out, M, N, x.stride(0), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8)
    return out
    ### END SOLUTION


# %% check="fusion.bias_gelu"
check("fusion.bias_gelu", bias_gelu)

# %% [markdown]
# ## Rows: the softmax
#
# The softmax of a row is p = exp(x) / sum(exp(x)). Written like this it breaks. Why?

# %%
for top in (1.0, 80.0, 100.0):
    x = torch.tensor([top, top - 1])
    print(f"largest logit {top:5}: naive {(x.exp() / x.exp().sum()).tolist()}, torch {torch.softmax(x, 0).tolist()}")

# %% [markdown]
# exp(100) is 2.7e43, and float32 ends at 3.4e38. Infinity over infinity is NaN. The cure costs one subtraction: with
# m = max(x),
#
# > exp(x) / sum(exp(x)) = exp(x - m) / sum(exp(x - m))
#
# since both sides of the fraction shrink by exp(m). The largest exponent is now 0, no term exceeds 1, and the sum is
# at least 1.
#
# The price is that m must be known before the first exponential, and the sum before the first division. How often must a
# row be read? Guess the total for each way before you look.

# %%
figures.fusion.softmax_passes()

# %% [markdown]
# The three passes of the second bar look necessary: maximum, sum, result. They are not. They are three passes over
# *registers*, if the program keeps the row there.
#
# ## Exercise: a softmax that reads once
#
# {{exercise fusion.softmax}}
#
# Write `softmax(x)` along the rows of an (M, N) matrix, N up to 32768, rows that may lie apart. A block of
# `triton.next_power_of_2(N)` holds a row (how many warps a long one needs comes after the exercise). For masked lanes
# `other=-float("inf")` is right twice: it never is the maximum, and exp(-inf) = 0 adds nothing. Full marks need
# * the right result for ragged sizes ({{correct.ragged}}) and rows that lie apart ({{correct.strided}}),
# * the right result for large, very negative and partly masked (-inf) logits ({{correct.hard}}),
# * one launch ({{launches.performance}}), every element read once and written once, by at least 32 programs where the
#   input is large ({{traffic.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, a share of them from {{speed.none}} on (8192 × 8192).


# %% exercise="fusion.softmax"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    """Program m: the softmax of row m of x; the row fits into BLOCK. out is contiguous."""
    ### BEGIN SOLUTION
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf"), eviction_policy="evict_last")
    x = x.to(tl.float32)  # N elements read; what follows happens in registers
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * N + offs_n, p / tl.sum(p, axis=0), mask=offs_n < N)  # N elements written
    ### END SOLUTION


def softmax(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N) with column stride 1, N at most 32768 -> (M, N), contiguous: each row's softmax."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(N)
    num_warps = min(32, max(1, BLOCK // 512))  # 16 elements a lane, 32 in the longest rows
    softmax_kernel[(M,)](x, out, N, x.stride(0), BLOCK=BLOCK, num_warps=num_warps)
    return out
    ### END SOLUTION


# %% check="fusion.softmax"
check("fusion.softmax", softmax)

# %% [markdown]
# What does torch.compile do here? This is what it writes for rows of 1024:

# %% gpu="fusion.generated_softmax"
generated("softmax, rows of 1024")

# %% [markdown]
# The compiler has found the same kernel again: one load, a maximum, a sum, one store (`R0_BLOCK` is the block along the
# row, `libdevice.exp` an exponential). It calls this a *persistent* reduction: the row persists in registers. (A
# *persistent kernel*, in most texts, is something else: one program for each SM, which takes one tile after another.)
#
# ## Rows that do not fit
#
# How long may such a row be? A block lives in the registers of one program. An SM has 65 536 of them, of four bytes
# each, and a program of 32 warps has 64 for each lane. The compiler can tell, without a GPU, how many a lane needs,
# and what *spills* to memory when there are too few.


# %%
@triton.jit
def softmax_of_a_row(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=-float("inf"))
    p = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * N + offs_n, p / tl.sum(p, axis=0), mask=offs_n < N)


for N, num_warps in ((1024, 4), (8192, 4), (32768, 4), (32768, 16), (32768, 32), (65536, 32)):
    x = torch.empty(4, N)
    facts = compile_for(softmax_of_a_row, x, x, N, BLOCK=N, gpu="sm_90", num_warps=num_warps)
    print(f"N = {N:5}, {num_warps:2} warps: {facts.registers} registers a lane, {facts.spill_bytes} bytes a lane spill")

# %% [markdown]
# 32768 floats are the limit: with 32 warps each lane holds 32 of them. At 65536 registers spill, and a spill is a trip to
# memory that your source does not show. (And no block may exceed 2²⁰ elements at all.) Two lessons: give a long row more
# warps, and for rows without end find another way.
#
# Now go back to your softmax. Warps are an argument of the launch: `kernel[grid](..., num_warps=...)`; without it there
# are 4, and the third line above is your row of 32768. 32 elements a lane are `min(32, max(4, BLOCK // 1024))` warps. No
# check of bytes sees the difference, since a spill is no load of yours; ask `compile_for`.
#
# ## The online softmax
#
# Read the row block by block. After each block you know the largest value so far, m, and a sum l of exponentials
# *relative to m*. Now a block comes with a larger value. Is the old sum lost? No: every term in it was taken relative
# to the old m, so all of them are wrong by one common factor,
#
# > exp(x - m_new) = exp(x - m) · alpha,  alpha = exp(m - m_new)
#
# Multiply the old sum by alpha, add the new block, go on. One pass gives the maximum *and* the sum.

# %%
figures.fusion.online_steps()

# %% [markdown]
# Find a block where the maximum did not grow. What is alpha there? And what would happen if a block were all
# -inf, as in a masked attention row, before the first finite value?

# %%
inf = float("inf")
print("alpha, if both maxima are still -inf:", torch.exp(torch.tensor(-inf) - torch.tensor(-inf)).item())
print("alpha, if m starts at -3.4e38:       ", torch.exp(torch.tensor(-3.4e38) - torch.tensor(-3.4e38)).item())

# %% [markdown]
# ## Exercise: online softmax
#
# {{exercise fusion.online_softmax}}
#
# Write `online_softmax(x)` for rows of any length, a million and more: one pass for m and l, a second pass that
# writes. One program for each row will do. Full marks need
# * the right result for ragged sizes, rows that lie apart, float16 ({{correct.ragged}}),
# * the right result for a maximum that rises or falls along the row, and for rows that start with thousands of -inf
#   ({{correct.hard}}),
# * a row longer than any block ({{correct.long}}),
# * every element read at most twice and written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}).
#
# The first line of such a loop: `for start in range(0, N, BLOCK):`. A variable that the loop changes must have its
# type before it: `m, l = -3.4e38, 0.0`.
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of the speed of `torch.compile`, a share of them from
# {{speed.none}} on (2048 × 32768).


# %% exercise="fusion.online_softmax"
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    """Program m: the softmax of row m, of any length, in two passes over it. out is contiguous."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    m, l = -3.4e38, 0.0  # finite, so that a block of -inf adds exp(-inf) = 0
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(
            x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=-float("inf"), eviction_policy="evict_last"
        )
        x = x.to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        alpha = tl.exp(m - m_new)  # brings the old sum to the new maximum
        l = l * alpha + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, eviction_policy="evict_first").to(tl.float32)
        tl.store(out_ptr + row * N + offs_n, tl.exp(x - m) / l, mask=offs_n < N)
    ### END SOLUTION


def online_softmax(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N) with column stride 1, any N -> (M, N), contiguous: each row's softmax."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = min(16384, triton.next_power_of_2(N))
    num_warps = max(4, BLOCK // 512)
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), BLOCK=BLOCK, num_warps=num_warps)
    return out
    ### END SOLUTION


# %% check="fusion.online_softmax"
check("fusion.online_softmax", online_softmax)

# %% [markdown]
# Each element is read twice and written once, so 3 elements are carried instead of 2. Does that cost half as much again?
# Not always. The second pass follows the first at once, and a row of 32768 floats is 128 KiB. Those of 132 SMs together are
# 17 MB, and an H200's L2 cache has 60. The trace counts the second reading; DRAM may never see it. And here is what
# torch.compile does with rows of 32768:

# %% gpu="fusion.generated_long_softmax"
generated("softmax, rows of 32768")

# %% [markdown]
# It has two loops, and they are your algorithm: in the first one a running maximum and a running sum (the correction is
# hidden in the helper `online_softmax_combine`), in the second one the result. Two things differ. Its maximum starts at
# -inf, and the helper catches the NaN: where both maxima are -inf it takes 1 for alpha. And it keeps a maximum and a sum
# *for each lane*, and merges the lanes after the loop. Then a block needs no exchange between lanes, and pays with more
# exponentials. `eviction_policy="evict_last"` in the first loop asks the cache to keep what the second will want. Such a
# hint changes no result and no count of a trace. It may change the time, and not only where a row is read twice. The
# published softmax has no second loop, and takes the hint too:

# %%
found = measured("fusion")["hint"]
print(
    f"softmax, rows of {found['N']}: speed / copy {found['without']:.3f} without the hint, {found['with']:.3f} with it"
)
print(f"({measured('fusion')['machine']}, recorded)")

# %% [markdown]
# Hints are for measuring, not for believing.
#
# That two such states can be merged, in any order, is more than a trick. Unit 08 builds attention on it.
#
# ## RMSNorm
#
# Most language models of today normalise their activations like this, several times in each layer, with N the width
# of the model:
#
# > out = x / √(mean(x²) + eps) · weight
#
# Its shape is the softmax's: a row is reduced to one number, and then used again. `weight` is (N,), the same for all
# rows: each program reads it, from L2, as with the bias above.
#
# ## Exercise: RMSNorm
#
# {{exercise fusion.rmsnorm}}
#
# Write `rmsnorm(x, weight, eps)` for rows up to 32768. Square and add in float32: in float16, 300 squared is
# infinite. Divide by N, not by the block. Full marks need
# * the right result for ragged sizes ({{correct.ragged}}) and rows that lie apart ({{correct.strided}}),
# * the right result for large values in float16 and bfloat16, and for tiny ones, where eps decides ({{correct.hard}}),
# * one launch ({{launches.performance}}),
# * x read once, the result written once, the weights read at most once for each row, by at least 32 programs where the
#   input is large ({{traffic.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, a share of them from {{speed.none}} on (8192 × 8192).


# %% exercise="fusion.rmsnorm"
@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, out_ptr, N, row_stride, eps, BLOCK: tl.constexpr):
    """Program m: x / sqrt(mean(x**2) + eps) * weight for row m; the row fits into BLOCK. out is contiguous."""
    ### BEGIN SOLUTION
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offs_n, mask=offs_n < N, other=0, eviction_policy="evict_last")
    x = x.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)  # N, not BLOCK
    weight = tl.load(weight_ptr + offs_n, mask=offs_n < N, eviction_policy="evict_last").to(tl.float32)
    tl.store(out_ptr + row * N + offs_n, x * scale * weight, mask=offs_n < N)
    ### END SOLUTION


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x: (M, N) with column stride 1, weight: (N,) -> (M, N), contiguous."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(N)
    num_warps = min(32, max(1, BLOCK // 512))
    maxnreg = 32 if BLOCK == 16384 else None  # registers a lane, so that an SM takes two programs of 32 warps
    rmsnorm_kernel[(M,)](x, weight, out, N, x.stride(0), eps, BLOCK=BLOCK, num_warps=num_warps, maxnreg=maxnreg)
    return out
    ### END SOLUTION


# %% check="fusion.rmsnorm"
check("fusion.rmsnorm", rmsnorm)

# %% [markdown]
# ## Exercise: add, and normalise
#
# {{exercise fusion.add_rmsnorm}}
#
# In a transformer the norm follows an addition: h = x + residual is normalised for the next layer, and h itself is the next
# residual. Two kernels carry 3 + 2 tensors. A fused one carries 4: two in, two out. Write `add_rmsnorm(x, residual, weight,
# eps)`, which returns `(rmsnorm(h), h)`, both in x's dtype, for contiguous inputs. Full marks need
# * the right results for ragged sizes ({{correct.ragged}}), for large and tiny values ({{correct.hard}}),
# * one launch ({{launches.performance}}),
# * both inputs read once, both results written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, a share of them from {{speed.none}} on (8192 × 8192).


# %% exercise="fusion.add_rmsnorm"
@triton.jit
def add_rmsnorm_kernel(x_ptr, residual_ptr, weight_ptr, out_ptr, h_ptr, N, eps, BLOCK: tl.constexpr):
    """Program m: h = x + residual and out = rmsnorm(h) for row m; all matrices are contiguous."""
    ### BEGIN SOLUTION
    offs_n = tl.arange(0, BLOCK)
    at, inside = tl.program_id(0) * N + offs_n, offs_n < N
    h = tl.load(x_ptr + at, mask=inside, other=0, eviction_policy="evict_last").to(tl.float32)
    h += tl.load(residual_ptr + at, mask=inside, other=0, eviction_policy="evict_last").to(tl.float32)
    tl.store(h_ptr + at, h, mask=inside)  # and it is still in registers
    scale = tl.rsqrt(tl.sum(h * h, axis=0) / N + eps)
    weight = tl.load(weight_ptr + offs_n, mask=inside, eviction_policy="evict_last").to(tl.float32)
    tl.store(out_ptr + at, h * scale * weight, mask=inside)
    ### END SOLUTION


def add_rmsnorm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """x, residual: (M, N), contiguous, weight: (N,) -> rmsnorm(x + residual), x + residual."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out, h = torch.empty_like(x), torch.empty_like(x)
    BLOCK = triton.next_power_of_2(N)
    num_warps = min(32, max(1, BLOCK // 512))
    add_rmsnorm_kernel[(M,)](x, residual, weight, out, h, N, eps, BLOCK=BLOCK, num_warps=num_warps)
    return out, h
    ### END SOLUTION


# %% check="fusion.add_rmsnorm"
check("fusion.add_rmsnorm", add_rmsnorm)

# %% [markdown]
# ## The loss
#
# A language model ends with logits (M, V) over a vocabulary of V = 50 000 to 250 000 words, and a target word for
# each of the M positions. The loss of a row is -log(softmax(x)[t]). For M = 8192 and V = 128 256 the logits alone are
# 2.1 GB in bfloat16. What would the softmax be? As much again, written and read back, for one number of each row. Do
# you need it?
#
# > -log(exp(x[t]) / sum(exp(x))) = log(sum(exp(x))) - x[t] = m + log(l) - x[t]
#
# with the m and l that you already know how to get in one pass. This is also the safe form: a softmax that underflows
# to 0 has an infinite loss.

# %%
x = torch.tensor([[0.0, -200.0]])
print(
    "minus the logarithm of the softmax:",
    -torch.softmax(x, 1).log()[0, 1].item(),
    " by log-sum-exp:",
    (x.logsumexp(1) - x[:, 1]).item(),
)

# %% [markdown]
# ## Exercise: cross-entropy
#
# {{exercise fusion.cross_entropy}}
#
# Write `cross_entropy(logits, target)`: (M, V) in any of the three dtypes and (M,) int64 → (M,) float32, the loss of
# each row. In torch: `F.cross_entropy(logits, target, reduction="none")`. Rows may lie apart. Full marks need
# * the right result for ragged sizes ({{correct.ragged}}),
# * the right result for large, rising and masked logits ({{correct.hard}}),
# * the logits read once, by at least 32 programs where the input is large; one more load of x[t] in each row is fine
#   ({{traffic.performance}}),
# * no probabilities stored: buffers of less than an eighth of the logits ({{buffers_below.performance}}).
#
# Extra credit on a GPU: {{speed}} at {{speed.full}} of a copy's speed, a share of them from {{speed.none}} on (8192 × 32768).


# %% exercise="fusion.cross_entropy"
@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, out_ptr, V, row_stride, BLOCK: tl.constexpr):
    """out[m] = log(sum(exp(logits[m]))) - logits[m, target[m]], in one pass over row m."""
    ### BEGIN SOLUTION
    row = tl.program_id(0).to(tl.int64)
    m, l = -3.4e38, 0.0
    for start in range(0, V, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * row_stride + offs_n, mask=offs_n < V, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    right = tl.load(logits_ptr + row * row_stride + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(out_ptr + row, m + tl.log(l) - right)
    ### END SOLUTION


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """logits: (M, V) with column stride 1, target: (M,) int64 -> (M,) float32, the loss of each row."""
    ### BEGIN SOLUTION
    M, V = logits.shape
    out = torch.empty(M, dtype=torch.float32, device=logits.device)
    BLOCK = min(4096, triton.next_power_of_2(V))
    num_warps = max(1, BLOCK // 512)
    cross_entropy_kernel[(M,)](logits, target, out, V, logits.stride(0), BLOCK=BLOCK, num_warps=num_warps)
    return out
    ### END SOLUTION


# %% check="fusion.cross_entropy"
check("fusion.cross_entropy", cross_entropy)

# %% [markdown]
# ## What it brings
#
# Here is what the published solutions of this unit reach on a GPU, compared with torch and torch.compile, as a share of the
# speed of a plain copy of the bytes that must move. Which operation gains most from fusion? Which way drops with long rows,
# and why?

# %%
figures.fusion.speeds()

# %% [markdown]
# The loss gains most, two to three and a half times over eager torch, which writes the logarithms of the whole softmax and picks
# from them. Eager torch is not slow everywhere: somebody wrote its softmax and its RMSNorm as one kernel each, and on
# rows of 1024 they reach 0.9 of a copy and more. On long rows both drop, to about 0.6 at 32k: RMSNorm step by step, softmax
# by way of 0.47 at 8k and 0.74 at 16k, and the picture does not say why. Eager add_rmsnorm carries
# 5 tensors for 4, which alone would be 0.8; the norm's own drop does the rest.
#
# torch.compile keeps rows of 1024 in registers, as you read above, and loops over longer ones. Its softmax then reads
# the row twice, 3 elements carried for 2, and takes more exponentials. Its loss falls deepest at 2k, to 0.4, and recovers
# with the length; the picture does not say why. And a kernel can be a little faster than torch's copy, which is a kernel
# like any other.
#
# How much of a model's time is this about? Take a layer of width d, with an MLP of 4 d. It has 24 d² FLOPs of products for
# each token. Beyond them, without fusion, it carries two norms (each reads and writes d numbers), two sums (each reads 2 d and
# writes d) and an activation (it reads and writes 4 d): 18 d numbers of 2 bytes. (The scores of attention are left out; they
# are the subject of unit 08.) The next cell divides both by the speeds on the cards' datasheets. Which way has the share of
# the rest gone from one generation to the next?

# %%
print("share of the time that is not matmul      d = 1024   d = 4096")
for name in ("V100", "A100 80GB", "H100 SXM", "B200"):
    card = gpu.datasheet(name)
    shares = []
    for d in (1024, 4096):
        products, rest = 24 * d**2 / card.fp16_flops, 18 * d * 2 / card.hbm_bandwidth
        shares.append(rest / (products + rest))
    print(f"{name:36} {shares[0]:13.0%} {shares[1]:10.0%}")

# %% [markdown]
# The products are nearly all of the FLOPs, and the rest takes a larger share of the time than of the FLOPs, as a number that
# is carried costs far more than one that is multiplied. From the V100 to the H100 the share has doubled, since arithmetic grew
# faster than memory. These shares are estimates from datasheets, and measured ones differ: products seldom reach the printed
# speed, and a norm that is made of several kernels carries more than 2 d. Ivanov and others timed a layer of BERT in training, on
# a V100, kernel by kernel (*Data Movement Is All You Need*, 2021, table 1): products were 99.8 % of the FLOPs and 61 % of the
# time. Norms and softmaxes took 25.5 % of the time for 0.17 % of the FLOPs, and elementwise operations the other 13.5 %.
#
# ## Exercise: break a softmax
#
# {{exercise fusion.break_softmax}}
#
# A test is an input, and somebody has to think of it. Below is a kernel that is right. There are also wrong versions of it,
# *mutants*: each has one change, such as a mask that is missing or a stride that is taken for another, or a sum that is not
# corrected. On most inputs a mutant gives the right result. Write inputs on which it does not.
#
# `breaking_inputs()` returns a list of at most three dicts, `{"x": tensor}`. Each tensor may span at most 16,384 numbers of
# float32 or float16. x is (M, N), its numbers are finite, and its column stride is 1. The check runs the kernel as it is
# given on all of them, and **if that fails on one, nothing is earned**. Then it runs the mutants. A mutant is *killed* if,
# on one of your inputs, its result is wrong or it reaches outside of a tensor. The check here knows four mutants, the
# grader more. Random numbers of ordinary sizes kill about half of them, so points begin behind that ({{kills.mutants}}).


# %%
@triton.jit
def given_kernel(x_ptr, out_ptr, N, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, l = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + offs_n, mask=offs_n < N, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(x, 0))
        l = l * tl.exp(m - new) + tl.sum(tl.exp(x - new), 0)
        m = new
    for start in range(0, N, BLOCK):
        offs_n = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + offs_n, mask=offs_n < N, other=0).to(tl.float32)
        tl.store(out_ptr + row * N + offs_n, tl.exp(x - m) / l, mask=offs_n < N)


def given_softmax(x):
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    given_kernel[(M,)](x, out, N, x.stride(0), BLOCK=64)
    return out


# %% exercise="fusion.break_softmax"
def breaking_inputs() -> list[dict]:
    """At most three inputs, `{"x": tensor}`, on which wrong versions of the kernel show."""
    ### BEGIN SOLUTION
    rising = torch.arange(200.0).repeat(3, 1) - 400  # the maximum moves with each block, and is far below 0
    window = torch.cat([torch.randn(4, 270) - 20000, torch.zeros(4, 130)], 1)[
        :, :270
    ]  # rows lie apart, and below -10000
    falling = torch.cat([torch.arange(150.0, 60, -1)[None], torch.randn(1, 90)], 1)  # the largest come first, beyond 88
    return [{"x": rising}, {"x": window}, {"x": falling}]
    ### END SOLUTION


# %% check="fusion.break_softmax"
check("fusion.break_softmax", breaking_inputs)

# %% [markdown]
# ## When fusion does not pay
#
# Fusion is not free. A fused kernel computes a value where it is used. What if the value is used many times? Here every
# tile of an outer product needs sin of its rows and sin of its columns. Fused, each tile computes them anew.


# %%
@triton.jit
def outer_kernel(a_ptr, b_ptr, out_ptr, N, SIN: tl.constexpr, BLOCK: tl.constexpr):
    """out[i, j] = f(a[i]) * f(b[j]) for a BLOCK x BLOCK tile; f is sin if SIN."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + i), tl.load(b_ptr + j)
    if SIN:
        a, b = tl.sin(a), tl.sin(b)
    tl.store(out_ptr + i[:, None] * N + j[None, :], a[:, None] * b[None, :])


N = 1024
a, b, out = torch.randn(N), torch.randn(N), torch.empty(N, N)
for block in (16, 32, 128):
    with trace() as t:
        outer_kernel[(N // block, N // block)](a, b, out, N, SIN=True, BLOCK=block)
    print(
        f"tiles of {block:3}: {t.flops.special:7,} sines computed, {2 * N:,} would do; {t.bytes / 1e6:.2f} MB carried"
    )

# %% [markdown]
# For two vectors this is nothing compared with the megabytes of output. For an operand of a matrix product, which each of N
# / BLOCK tiles needs again, it is the difference between an activation computed once and a hundred times, in a kernel whose
# arithmetic units are already busy. So an activation goes to the *end* of a product, its **epilogue**: it is computed once
# for each output, while the tile of sums is still in registers. Below, x @ w and a ReLU run as two kernels and as one. How
# many bytes does the fused epilogue save? Guess first: the result has 256 × 256 numbers.


# %%
@triton.jit
def product_kernel(x_ptr, w_ptr, out_ptr, N, K, RELU: tl.constexpr, BLOCK: tl.constexpr):
    """out = x @ w in BLOCK x BLOCK tiles that divide all sides; RELU: with a ReLU as its epilogue."""
    offs_m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    offs_n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        offs_k = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs_m * K + offs_k[None, :])
        w = tl.load(w_ptr + offs_k[:, None] * N + offs_n)
        acc = tl.dot(x, w, acc)
    if RELU:
        acc = tl.maximum(acc, 0.0)  # the epilogue
    tl.store(out_ptr + offs_m * N + offs_n, acc)


@triton.jit
def relu_kernel(out_ptr, BLOCK: tl.constexpr):
    """The same ReLU as a kernel of its own, in place."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(out_ptr + i), 0.0))


side = 256
x, w = torch.randn(2, side, side).half()
out = torch.empty(side, side, dtype=torch.float16)
for fused in (False, True):
    with trace() as t:
        product_kernel[(side // 64, side // 64)](x, w, out, side, side, RELU=fused, BLOCK=64)
        if not fused:
            relu_kernel[(side * side // 1024,)](out, BLOCK=1024)
    print("fused epilogue:" if fused else "two kernels:   ", f"{t.bytes / 1e6:.2f} MB carried")

# %% [markdown]
# The fused epilogue saves one load and one store of the result, 2 · 256² · 2 bytes.
#
# **Optional: what limits it?** `profile` answers that for a kernel of your own. It traces the launch, and compares it with the
# roofline of unit 03: the time that a card needs to move each byte once, and the time for the products, by its datasheet. Where
# there are a GPU and NVIDIA's profiler, Nsight Compute (`ncu`), it also launches the kernel under `ncu`. Then it shows what the
# GPU counted, and which part of it was busiest. Guess first: is memory or the product the limit if the side is 256? And if it
# is 1024?


# %%
from course_lib import profile


def fused_product(side):
    x, w = torch.randn(2, side, side).half()
    out = torch.empty(side, side, dtype=torch.float16)
    product_kernel[(side // 64, side // 64)](x, w, out, side, side, RELU=True, BLOCK=64)


print(profile(lambda: fused_product(256)), profile(lambda: fused_product(1024)), sep="\n\n")

# %% [markdown]
# A product of side n has 2 n³ FLOPs for 6 n² bytes in half precision, which is n / 3 FLOPs for each byte. An H200 multiplies 206
# FLOPs in the time of a byte (989 TFLOP/s and 4.8 TB/s). So up to a side of about 620 memory is the limit, and beyond it the
# product is. The bytes from L2, 32 for each sector, are 4 and 16 times those from DRAM: each row of tiles reads all of w again
# (unit 05).
#
# While a program computes its epilogue and stores its tile, its tensor cores wait. There are two ways to keep them busy.
# Another program on the same SM can multiply meanwhile. Or a *persistent* program, which takes one tile after another (unit
# 05), lets the epilogue **overlap** with the next tile: on Hopper one group of warps finishes a tile while another multiplies.
#
# Fusion does not pay, or not by itself,
# * **where compute is the limit**: right of the bend in the figure above each operation costs its arithmetic. Fusing
#   still saves its bytes, but they are a shrinking share of the time;
# * **where a value is used often**: computing it again costs more than reading it (unit 07 turns this around: there
#   computing again wins);
# * **where registers run out**: each fused operation keeps more values alive, and at 65536 elements a row you saw
#   them spill;
# * **where a library is better**: if your own product is slower than cuBLAS, a fused epilogue must first earn that
#   back;
# * **where everything must be known first**: as a rule, a sum over the whole tensor ends the kernel. (A *cooperative*
#   launch, whose programs all run at the same time, can make them wait for one another inside one kernel.)
#
# And it pays most where tensors are large, operations small, and several of them stand in a row: norms, activations,
# softmax, losses, optimizer steps.
#
# ## What you now know
#
# * A chain costs what it carries. Each kernel loads what it needs once, and stores what others need. Results stay in
#   registers only until the kernel ends.
# * Tens of multiply-adds an element are free while memory is the limit; the launch and the bytes are not.
# * torch.compile fuses elementwise operations and row reductions into Triton like yours. It stops at library calls,
#   at sums over everything, and where Python wants to look.
# * Subtract the maximum before you exponentiate. A row that fits into registers is read once; one that does not,
#   twice, with a sum that is corrected whenever the maximum grows.
# * Start a running maximum from a finite number, and masked lanes from -inf.
# * One pass can have several results: a normalised row and its sum, a loss without its probabilities.
#
# In 07 the chain runs backwards: autograd wants the intermediates that you no longer store.

# %%
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs that you
# have not seen.
#
# ## Where to read on
#
# * Horace He, *Making Deep Learning Go Brrrr From First Principles*: the factory and the warehouse, and which of
#   compute, bandwidth and overhead a model waits for.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, on fusion and the online softmax.
# * Milakov and Gimelshein, *Online normalizer calculation for softmax* (2018): the one-pass maximum and sum.
# * The Triton documentation: the tutorials on fused softmax and on layer normalisation.
# * Ansel et al., *PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
#   Compilation* (2024): how torch.compile and Inductor decide.
# * Zhang and Sennrich, *Root Mean Square Layer Normalization* (2019).
# * Hsu et al., *Liger Kernel: Efficient Triton Kernels for LLM Training* (2024): this unit's kernels, and more, in
#   production.
