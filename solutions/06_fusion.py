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
# **After this unit you can** say how many bytes a chain of operations must move and how many it does move. You can
# write the chain as one kernel that moves the fewest bytes, reduce rows of any length without overflow, and read what
# torch.compile makes of the same function. You need 00 (a first kernel), 03 (bytes and FLOPs) and 04 (tiles, traces).
# You need no GPU, because traffic is counted on the CPU. Times were recorded on an NVIDIA H200.

# %%
import torch
import triton
import triton.language as tl

from course_lib import attempt, check, compile_for, figures, gpu, hint, profile, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware.inductor import FUNCTIONS, generated
from course_lib.hardware.measurements import measured

# %% [markdown]
# ## What you need
#
# A **Triton kernel** is run by many **programs**, each with its own number `tl.program_id(0)`. A program works on
# blocks. `tl.arange(0, BLOCK)` is the block 0, 1, ..., BLOCK - 1, and BLOCK must be a power of two. `tl.load` and
# `tl.store` take blocks of pointers, and a **mask** that switches off the positions that must not touch memory. After a
# load, such a position holds the value `other` if you gave this argument, and otherwise *anything*.
#
# A block lives in **registers**, inside the processor (SM) that runs the program. Numbers that were loaded can stay
# there until the program ends, and using them again costs nothing. A tensor lives in **memory** (DRAM). This unit is
# about the traffic between registers and memory.
#
# Functions such as `tl.exp`, `tl.log`, `tl.sin` and `tl.cos` work on each element of a block. **Reductions** do not:
# `tl.max(x, axis=0)`, like `tl.sum`, turns a block into one number that all positions can use. For a two-dimensional
# block, `axis=1` gives one number for each row. With `keep_dims=True` the result is a
# column (BLOCK_M, 1), which broadcasts against the block. The next kernel subtracts the mean of each row from the row:


# %%
@triton.jit
def center_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """Program m: row m of x (M, N) minus its mean, in float32."""
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=0).to(tl.float32)  # a masked position adds 0
    mean = tl.sum(x, axis=0) / N  # N, not BLOCK
    tl.store(out_ptr + row * N + offs_n, x - mean, mask=offs_n < N)


x = torch.randn(50, 300)
out = torch.empty_like(x)
with trace() as t:  # inside, kernels run on the CPU, and every access is counted
    center_kernel[(50,)](x, out, 300, BLOCK=512)
print("right:", torch.allclose(out, x - x.mean(1, keepdim=True), atol=1e-6))
print(f"{t.loads.bytes} bytes loaded, {t.stores.bytes} stored, {x.nbytes} in x; {len(t.launches)} launch")

# %% [markdown]
# In every kernel exercise you may use torch to allocate memory (`torch.empty`, `torch.zeros`) and to make views. All
# arithmetic must happen in your kernel. Inputs are float32, float16 or bfloat16. Load them, convert them with
# `.to(tl.float32)`, compute, and store the result. `tl.store` converts the result back.
#
# These words will come up:
#
# | word | meaning |
# | --- | --- |
# | fuse | do several operations in one kernel, so that each operation finds the result of the one before it in registers |
# | eager | how torch runs without torch.compile: it launches one ready-made kernel for each operation |
# | launch | one start of a kernel; a launch costs some microseconds, and registers keep nothing of the kernel before it |
# | elementwise | element i of the result needs element i of the inputs and nothing else |
# | reduction | many elements become one: a maximum, a sum, a mean |
# | row | the elements that one program reduces; they lie side by side in memory |

# %% [markdown]
# ## The question
#
# Take two vectors x and y, and compute sin² of x plus cos² of y:
#
# ```python
# out = x.sin() ** 2 + y.cos() ** 2
# ```
#
# Each element of x and y must be read once, and each element of the result must be written once. So three numbers are
# moved for each number that is computed. Torch runs this line as five operations, with one kernel for each. How many
# times as long do these kernels take as a single kernel that does everything?

# %% predict="fusion.guess_chain"
# How many times as long do the five kernels take? Write a number before you run the next cell; it earns no points.
guess_chain = ...

# %%
figures.fusion.five_against_one(guess_chain)

# %% [markdown]
# Both ways compute the same sines. Torch's way is slower because of the traffic. `x.sin()` writes a whole tensor to
# memory, and the square reads it back.
#
# ## A factory and its conveyor belt
#
# Think of the GPU as a factory next to a warehouse. The factory (the SMs) is fast, and the warehouse (DRAM) is large. A
# conveyor belt of fixed speed runs between them. For every step, an eager chain brings all parts into the factory, does
# this one step, and sends all parts back. Most of the day the workers wait for the belt. A fused kernel does all steps
# while the parts are in the factory.
#
# The picture below shows the chain as it runs eagerly. Press the switches to remove cuts between kernels. Before each
# press, say how many tensors will be carried between factory and warehouse. Here are three things to try:
# * Fuse each square with what comes before it. What is saved?
# * Fuse everything. Which tensors never exist in memory?
# * Choose the chain *SwiGLU*, fused completely. Why is `a` carried only once, though two operations need it?

# %%
figures.fusion.explore_chain()

# %% [markdown]
# In *SwiGLU* a single kernel loads `a` for the first operation that needs it. When the second operation needs `a`, it
# is still in a register. With four kernels the chain loads `a` twice.
#
# ## Exercise: five kernels become one
#
# {{exercise fusion.sin2_plus_cos2}}
#
# Write `sin2_plus_cos2(x, y)`, which returns sin(x)² + cos(y)² for contiguous vectors of any length. Three lines of the
# kernel are missing; the function that launches it is yours. Full marks require
# * the right result for ragged lengths ({{correct.ragged}}), and in float16 and bfloat16 ({{correct.half}}),
# * one launch ({{launches.performance}}),
# * each input read once and the result written once (3 n elements, and not a byte more), by at least 32 programs where
#   the input is large ({{traffic.performance}}).
#
# There is extra credit on a GPU, for 33,554,432 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.
#
# `hint("fusion.sin2_plus_cos2")` gives a hint, and a stronger one each time you call it. Every exercise in this unit
# has such hints.


# %% exercise="fusion.sin2_plus_cos2"
@triton.jit
def sin2_plus_cos2_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = sin(x[i])**2 + cos(y[i])**2 for one block, computed in float32."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ### BEGIN SOLUTION
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
# A sine takes about twenty instructions, and yet the sines do not slow the fused kernel down. How many operations can
# you add to a kernel before it takes longer? In principle you know the answer from unit 03: as many as you like, until
# the kernel's intensity reaches the ridge of the roofline. The next picture shows a measurement. A kernel reads a
# vector, does k multiply-adds with each element, and writes the result. From which k on does the kernel take longer?
# Guess first.

# %%
figures.fusion.free_operations()

# %% [markdown]
# So in a chain of small operations the arithmetic costs nothing, and only the traffic counts. This is why libraries
# have fused kernels that people wrote by hand, and why torch has a compiler that writes such kernels.
#
# ## What torch.compile fuses
#
# `torch.compile` records the operations of a function, and its back end, **Inductor**, writes Triton kernels for them.
# The next cell shows the kernel that it wrote for `x.sin() ** 2 + y.cos() ** 2`. Where are the five operations?

# %% gpu="fusion.generated_sin2_plus_cos2"
generated("sin2_plus_cos2")

# %% [markdown]
# Apart from names like `tmp3`, this is your kernel: two loads, five operations, one store. (`xindex` is the block of
# offsets, and `xnumel` is the length of the vectors. Inductor picks the block size `XBLOCK` at the first launch. There
# is no mask, because Inductor compiled the kernel for this one length and knows that blocks divide it.)
#
# When can Inductor not fuse? Fusion hands a value from one operation to the next inside a *program*. This is impossible
# in three cases:
# * An operation needs values that **other programs** compute, such as the sum of a whole tensor. The sum is known only
#   when all programs have finished, and as a rule this means the end of the kernel. (Inductor adds up a large tensor
#   with two kernels. The first adds up parts, and the second adds up their sums.) The sum of a row that one program
#   holds can be fused.
# * There is a **library call**. By default, large matrix products go to cuBLAS, and Inductor cannot add anything to a
#   library's kernel. (With `mode="max-autotune"` it may choose a Triton product instead, and fuse operations into it.)
# * **Python comes between**: an `if` on a result, or a call that torch cannot record, as any print. Torch
#   calls this a graph break.
#
# ## Exercise: predict the launches
#
# {{exercise fusion.predicted_launches}}
#
# The next cell prints seven functions. Under torch.compile, how many kernels does a GPU run for one call of each
# function? Kernels that only fill or copy memory do not count. Each function is worth {{correct.plain / 7}}.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

# %%
import inspect

for name in ("sin2_plus_cos2", "softmax", "add_rmsnorm", "product_gelu", "over_its_sum", "print_between", "attention"):
    print(inspect.getsource(FUNCTIONS[name]))

# %% [markdown]
# `sin2_plus_cos2`, `over_its_sum` and `print_between` take 16 million numbers. Matrices are 4096 by 4096, except in
# `attention`, where q, k and v are 4096 by 1024. Everything is in float32.

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
# The sum with its RMSNorm has two results, but needs only one kernel, because a kernel can store several results.
# `over_its_sum` needs the sum of all 16 million elements before the first division. A first kernel adds up parts of the
# tensor, a second kernel adds up their sums, and a third kernel divides. And `attention` writes two 4096 by 4096
# matrices, scores and weights, because the products around the softmax are library calls. FlashAttention never writes
# this matrix to memory. You build it in units 08 to 10.

# %% [markdown]
# ## Rows: the softmax
#
# The softmax of a row is p = exp(x) / sum(exp(x)). Computed like this, it fails for large numbers. Why?

# %%
for top in (1.0, 80.0, 100.0):
    x = torch.tensor([top, top - 1])
    print(f"largest logit {top:5}: naive {(x.exp() / x.exp().sum()).tolist()}, torch {torch.softmax(x, 0).tolist()}")

# %% [markdown]
# exp(100) is 2.7e43, but the largest float32 is 3.4e38. So the exponential becomes infinite, and infinity divided by
# infinity is NaN. One subtraction avoids this. With m = max(x),
#
# > exp(x) / sum(exp(x)) = exp(x - m) / sum(exp(x - m))
#
# because numerator and denominator are both divided by exp(m). The largest exponent is now 0, no term exceeds 1, and
# the sum is at least 1.
#
# The price is that m must be known before the first exponential, and the sum before the first division. How many times
# are the elements of a row read and written in all, by five operations of torch and by one kernel? Guess before you run
# the next cell.

# %%
figures.fusion.softmax_passes()

# %% [markdown]
# The second bar has three passes over the row: one for the maximum, one for the sum, and one for the result. But a
# kernel need not read *memory* three times. If the program keeps the row in registers, all three passes are over
# registers.
#
# ## Exercise: a softmax that reads once
#
# {{exercise fusion.softmax}}
#
# Write `softmax(x)` along the rows of an (M, N) matrix. N is at most 32768, and there may be gaps between the rows. A
# block of `triton.next_power_of_2(N)` holds a row. A long row needs more than the 4 warps of the default: launch with
# `num_warps=min(32, max(4, BLOCK // 1024))`. (The next section shows why.) For masked positions use
# `other=-float("inf")`. This value is never the maximum, and exp(-inf) = 0 adds nothing to the sum. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}) and rows that lie apart ({{correct.strided}}),
# * the right result for large, very negative and partly masked (-inf) logits ({{correct.hard}}),
# * one launch ({{launches.performance}}), every element read once and written once, by at least 32 programs where the
#   input is large ({{traffic.performance}}).
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


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
    num_warps = min(32, max(1, BLOCK // 512))  # 16 elements per thread, 32 in the longest rows
    softmax_kernel[(M,)](x, out, N, x.stride(0), BLOCK=BLOCK, num_warps=num_warps)
    return out
    ### END SOLUTION


# %% check="fusion.softmax"
check("fusion.softmax", softmax)

# %% [markdown]
# What does torch.compile do with a softmax? It writes this kernel for rows of 1024:

# %% gpu="fusion.generated_softmax"
generated("softmax, rows of 1024")

# %% [markdown]
# The compiler has found the same kernel as you: one load, a maximum, a sum, and one store. (`R0_BLOCK` is the block
# along the row, and `libdevice.exp` is an exponential.) The compiler calls this a *persistent* reduction, because the
# row stays in registers. (In most texts a *persistent kernel* is something else: it has one program for each SM, and
# each program takes one tile after another.)
#
# ## Rows that do not fit
#
# How long may such a row be? A block lives in the registers of one program. An SM has 65,536 registers of four bytes
# each, so a program of 32 warps has 64 registers for each of its threads. The compiler can say, without a GPU, how many
# registers a thread needs, and how many bytes *spill* to memory if there are too few registers.


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
    print(
        f"N = {N:5}, {num_warps:2} warps: {facts.registers} registers per thread; {facts.spill_bytes} bytes per thread are spilled"
    )

# %% [markdown]
# Rows of 32768 floats are the limit: with 32 warps each thread holds 32 of them. With rows of 65536, registers spill. A
# spill moves bytes to memory and back, and your source does not show this. (Moreover, a block can have at most 2²⁰
# elements.) So give a long row more warps, and for rows of any length find another way.
#
# That is why your softmax takes more warps for a long row. The third line above shows what the default of 4 warps does to
# a row of 32768. With `min(32, max(4, BLOCK // 1024))` warps, a thread holds 32 elements of it. A trace does not show the
# difference, because it does not count spills. `compile_for` counts them.
#
# ## The online softmax
#
# Read the row block by block. After each block you know m, the largest value so far, and l, the sum of exp(x - m),
# which is *relative to m*. Now suppose that the next block has a larger value. Is the old sum lost? No: each of its
# terms was computed relative to the old m, so all terms must be multiplied by the same factor:
#
# > exp(x - m_new) = exp(x - m) · alpha,  alpha = exp(m - m_new)
#
# Multiply the old sum by alpha, add the terms of the new block, and go on. In this way one pass over the row gives the
# maximum *and* the sum.

# %%
figures.fusion.online_steps()

# %% [markdown]
# Find a block in which the maximum did not grow. What is alpha there? And what happens if all values of the first
# blocks are -inf, as in a masked row of attention?

# %%
inf = float("inf")
print("alpha, if both maxima are still -inf:", torch.exp(torch.tensor(-inf) - torch.tensor(-inf)).item())
print("alpha, if m starts at -3.4e38:       ", torch.exp(torch.tensor(-3.4e38) - torch.tensor(-3.4e38)).item())

# %% [markdown]
# ## Exercise: online softmax
#
# {{exercise fusion.online_softmax}}
#
# Write `online_softmax(x)` for rows of any length, even of a million elements and more. A first pass computes m and l,
# and a second pass writes the result. One program for each row is enough. Full marks require
# * the right result for ragged sizes, rows that lie apart, float16 ({{correct.ragged}}),
# * the right result for values that rise or fall along the row, and for rows that start with thousands of -inf
#   ({{correct.hard}}),
# * a row longer than any block ({{correct.long}}),
# * every element read at most twice and written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}).
#
# Begin each loop with `for start in range(0, N, BLOCK):`. Variables that a loop changes must have the right type before
# the loop: `m, l = -3.4e38, 0.0`.
#
# There is extra credit on a GPU, for 2048 × 32,768 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of
# the speed of `torch.compile`, and some of the points if it reaches more than {{speed.none}}.


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
# Each element is read twice and written once, so 3 elements are moved instead of 2. Does this take one and a half times
# as long? Not always. The second pass comes right after the first, and a row of 32768 floats takes 128 KiB. So the rows
# of 132 SMs take 17 MB, and the L2 cache of an H200 holds 60 MiB. A trace counts the reads of the second pass, but all
# of them may come from L2. The next cell shows what torch.compile does with rows of 32768:

# %% gpu="fusion.generated_long_softmax"
generated("softmax, rows of 32768")

# %% [markdown]
# This kernel has two loops, and they are your algorithm. The first loop computes a running maximum and a running sum.
# (The helper `online_softmax_combine` corrects the sum.) The second loop computes the result. Two things differ from
# your kernel. First, the maximum starts at -inf, and the helper avoids NaN: if both maxima are -inf, it uses 1 as
# alpha. Second, the kernel keeps a maximum and a sum *for each position* of its block, and merges them after the loop.
# So the threads need not exchange numbers in the loop, but they compute more exponentials.
#
# In the first loop, `eviction_policy="evict_last"` asks the cache to keep the elements for the second loop. It changes
# neither the result nor a trace's counts. But it may change the time, even if a kernel reads each row only once. The
# next cell shows this for the course's own `softmax`, which has no second loop:

# %%
found = measured("fusion")["hint"]
print(
    f"softmax, rows of {found['N']}: speed / copy {found['without']:.3f} without the hint, {found['with']:.3f} with it"
)
print(f"({measured('fusion')['machine']}, recorded)")

# %% [markdown]
# So measure before you use such a hint.
#
# The pairs (m, l) of two parts of a row can be merged, and the order of the merges does not matter. Unit 08 builds
# attention on this.
#
# ## RMSNorm
#
# Most language models of today normalise their activations several times in each layer. With N, the width of a row,
# they compute
#
# > out = x / √(mean(x²) + eps) · weight
#
# Like a softmax, RMSNorm first reduces a row and then uses the row again. `weight` has the shape (N,), and is
# the same for all rows. Each program reads it, mostly from the L2 cache.
#
# ## Exercise: RMSNorm
#
# {{exercise fusion.rmsnorm}}
#
# Write `rmsnorm(x, weight, eps)` for rows of at most 32768 elements. Square and add in float32, because 300² is
# infinite in float16. Divide the sum by N, and not by the size of the block. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}) and rows that lie apart ({{correct.strided}}),
# * the right result for large values in float16 and bfloat16, and for tiny ones, where eps decides ({{correct.hard}}),
# * one launch ({{launches.performance}}),
# * x read once, the result written once, the weights read at most once for each row, by at least 32 programs where the
#   input is large ({{traffic.performance}}). 1 / sqrt(mean(x²) + eps) of each row may be stored as well: libraries keep
#   it for the backward pass (unit 07).
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


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
    maxnreg = 32 if BLOCK == 16384 else None  # registers per thread, so that an SM takes two programs of 32 warps
    rmsnorm_kernel[(M,)](x, weight, out, N, x.stride(0), eps, BLOCK=BLOCK, num_warps=num_warps, maxnreg=maxnreg)
    return out
    ### END SOLUTION


# %% check="fusion.rmsnorm"
check("fusion.rmsnorm", rmsnorm)

# %% [markdown]
# ## The loss
#
# A language model ends with logits (M, V) over a vocabulary of V = 50,000 to 250,000 words, and a target word for each
# of the M positions. The loss of a row x with target t is -log(softmax(x)[t]). For M = 8192 and V = 128,256 the logits
# alone take 2.1 GB in bfloat16. The softmax would take as much again. It would be written and read back, and only one
# number of each row would be used. Do you need the softmax at all?
#
# > -log(exp(x[t]) / sum(exp(x))) = log(sum(exp(x))) - x[t] = m + log(l) - x[t]
#
# You already know how to compute m and l in one pass. The form on the right is also the safe one: if the softmax
# underflows to 0, its negative logarithm is infinite.

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
# Write `cross_entropy(logits, target)`. The logits are (M, V), in any of the three dtypes, and the target is (M,), in
# int64. Return the loss of each row, (M,) in float32, as `F.cross_entropy(logits, target, reduction="none")` of torch
# does. There may be gaps between the rows. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}),
# * the right result for large, rising and masked logits ({{correct.hard}}),
# * the logits read once, by at least 32 programs where the input is large (loading x[t] a second time in each row is
#   fine) ({{traffic.performance}}),
# * no probabilities stored: buffers of less than an eighth of the logits ({{buffers_below.performance}}).
#
# There is extra credit on a GPU, for 8192 × 32,768 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of
# a copy's speed, and some of the points if it reaches more than {{speed.none}}.


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
# The next picture shows the speed of this unit's published solutions, of torch and of torch.compile. Each speed is
# divided by that of a copy of the bytes that must be moved. Which operation gains most from fusion? Which of the three
# ways becomes slower with long rows?

# %%
figures.fusion.speeds()

# %% [markdown]
# The loss gains most. Our kernel is two to three and a half times as fast as eager torch, which writes the logarithms
# of the whole softmax and then picks one from each row. Eager torch is not slow everywhere. Its softmax and its RMSNorm
# are hand-written kernels, and on rows of 1024 they reach 0.9 of a copy and more. On longer rows both become slower,
# and at 32k they reach about 0.6. RMSNorm falls steadily. Softmax falls to {{measured eager softmax 8192}} at 8k,
# recovers to {{measured eager softmax 16384}} at 16k, and ends at {{measured eager softmax 32768}}; the picture does
# not say why. Eager add_rmsnorm moves 5 tensors instead of 4, which alone would give 0.8. It is slower than that
# because its norm is slow, too.
#
# torch.compile keeps rows of 1024 in registers, as you saw above, and loops over longer rows. On these its softmax
# reads the row twice, so it moves 3 elements instead of 2, and it needs more exponentials. Its loss is slowest at 2k,
# with 0.4, and becomes faster on longer rows; the picture does not say why. A kernel can also be a little faster than
# torch's copy, because the copy is only a kernel, too.
#
# How much of a model's time can fusion save? Take a layer of width d, whose MLP is 4 d wide. For each token, its matrix
# products take 24 d² FLOPs. Without fusion, its other operations move 18 d numbers of 2 bytes: two norms read d numbers
# and write d numbers each, two sums read 2 d numbers and write d numbers each, and an activation reads 4 d numbers and
# writes 4 d numbers. (The scores of attention are left out; unit 08 is about them.) The next cell divides the FLOPs and
# the bytes by the speeds in the cards' datasheets. From the V100 to the H100, has the other operations' share of the
# time grown or fallen?

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
# The products do nearly all FLOPs. The other operations take a larger share of the time than of the FLOPs, because
# moving a number takes far longer than multiplying it. From the V100 to the H100 their share of the time has about
# doubled, because arithmetic has gained more speed than memory. These shares are estimates from datasheets, and
# measured shares differ. Products seldom reach the speed of the datasheet, and a norm that consists of several kernels
# moves more than 2 d numbers. Ivanov and others timed each kernel of a layer of BERT in training on a V100 (*Data
# Movement Is All You Need*, 2021, table 1). Products did 99.8 % of the FLOPs and took 61 % of the time. Norms and
# softmaxes took 25.5 % of the time for 0.17 % of the FLOPs, and elementwise operations took the other 13.5 % of the
# time.

# %% [markdown]
# ## When fusion does not pay
#
# A fused kernel computes a value where the value is used. What if it is used in many places? In the next cell, every
# tile of an outer product needs the sines of its part of a and of its part of b. In a fused kernel, each tile computes
# these sines again.


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
# For two vectors these extra sines cost little, compared with the megabytes of output. But in a matrix product, N /
# BLOCK tiles need each element of an operand. If each tile first had to apply an activation to the number, this might
# be done a hundred times instead of once, by arithmetic units that are already busy. So an activation is fused into the
# *end* of the product before it, the **epilogue**. There the activation is computed once for each output, while the
# tile of sums is still in registers. In the next cell, x @ w and a ReLU run as two kernels and as one. How many bytes
# does the fused epilogue save? Guess first; the result has 256 × 256 numbers.


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
# **What limits a kernel?** `profile` traces the launch, and compares the counts with the roofline of unit 03. This gives
# three times, by the card's datasheet: one to move each byte once, one to compute the products, and one for the other
# arithmetic. If there is a GPU, `profile` also launches the kernel there and says how long it took. Where Nsight Compute
# (`ncu`) may read counters, it shows what the GPU counted, and which part of the GPU was busiest. Guess first: is memory
# or the product the limit if the side of the matrices is 256? And if the side is 1024?


# %% gpu="fusion.profile"
def fused_product(side):
    x, w = torch.randn(2, side, side, device="cuda" if torch.cuda.is_available() else "cpu").half()
    out = torch.empty_like(x)
    product_kernel[(side // 64, side // 64)](x, w, out, side, side, RELU=True, BLOCK=64)


print(profile(lambda: fused_product(256)), profile(lambda: fused_product(1024)), sep="\n\n")

# %% [markdown]
# In half precision, a product of side n does 2 n³ FLOPs for 6 n² bytes, which is n / 3 FLOPs for each byte. An H200
# does 206 FLOPs while one byte arrives (989 TFLOP/s and 4.8 TB/s by its datasheet). So memory is the limit up to a side
# of about 620, and for larger sides the product is the limit. The bytes from L2 (32 for each sector) are 4 and 16 times
# the bytes from DRAM, because each row of tiles reads all of w again (unit 05).
#
# While a program computes its epilogue and stores its tile, its tensor cores wait. Another program on the same SM can
# use them in the meantime. Or a *persistent* program, which takes one tile after another, lets the epilogue
# **overlap** with the product of the next tile. On Hopper, one group of warps finishes a tile while another group
# multiplies.
#
# In some cases fusion does not pay off:
# * **Arithmetic is the limit.** To the right of the bend in the figure of *How much arithmetic is free?*, each
#   operation costs the time of its arithmetic. Fusing still saves bytes, but they take an ever smaller share of the
#   time.
# * **A value is used in many places.** Computing it in each of them may cost more than reading it. (In unit 07 it is
#   the other way round.)
# * **Registers run out.** Each fused operation keeps more values in registers. With rows of 65536 elements you saw
#   registers spill.
# * **A library is better.** If your own product is slower than that of cuBLAS, a fused epilogue must first make up for
#   the lost time.
# * **Everything must be known first.** As a rule, a sum over the whole tensor ends the kernel. (In a *cooperative*
#   launch all programs run at the same time, so they can wait for one another inside one kernel.)
#
# Fusion pays off most if tensors are large, operations are small, and several operations follow one another, as in
# norms, activations, softmaxes, losses and optimizer steps.
#
# How fast are your own kernels? On a GPU, their checks time them too, most of them against a copy of the bytes that must
# move.

# %%
figures.timed.on_your_card("fusion")

# %% [markdown]
# ## What you now know
#
# * The time of a chain of small operations is the time of its traffic. Each kernel loads each of its inputs once, and
#   stores the results that others need. Results stay in registers only until the kernel ends.
# * While memory is the limit, tens of multiply-adds for each element are free. Launches and bytes are not.
# * torch.compile fuses elementwise operations and reductions of rows into Triton kernels like yours. By default it
#   does not fuse across library calls, sums over a whole tensor, or values that Python needs.
# * Subtract the maximum before you exponentiate. A row that fits into registers is read once. A longer row is read
#   twice, and its sum is corrected whenever the maximum grows.
# * Start a running maximum at a finite number below every logit, such as -3.4e38, and give masked positions -inf.
# * A kernel can compute a loss without storing probabilities.
#
# In unit 07 the chain runs backwards. Then autograd needs the intermediate results that you no longer store.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You write a formula for the bytes of any chain, add a vector to all rows, store two results in one pass,
# break a softmax, and read profiles.

# %% [markdown]
# ## Exercise: the bytes of a chain
#
# {{exercise fusion.chain_bytes}}
#
# A chain is a list of operations `[result, input, ...]`, in order, such as `["out", "sin²", "cos²"]`. Every name stands
# for a tensor of `n` elements of `itemsize` bytes. If a name is not the result of any operation, it is an input of the
# chain. The last result is the output of the chain. `fused` says how many operations each kernel does, in order: `[1,
# 1, 1, 1, 1]` is eager, and `[5]` is a single kernel.
#
# A kernel loads each tensor that it needs but does not compute, and it loads such a tensor once, even if several of its
# operations need it. A kernel stores those of its results that a later kernel needs, and the output of the chain. A
# result that only its own kernel uses is not stored. How many bytes do all kernels together move? For full marks, your
# number must equal the number that a trace counts
# * with one kernel for each operation ({{correct.one by one}}),
# * with everything in one kernel ({{correct.all in one}}),
# * with cuts anywhere ({{correct.cuts}}).
#
# `hint("fusion.chain_bytes")` gives a hint, and a stronger one each time you call it. Every exercise in this unit has
# such hints.


# %% exercise="fusion.chain_bytes"
def chain_bytes(n: int, ops: list[list[str]], itemsize: int, fused: list[int]) -> int:
    """The bytes that all kernels together load and store. n: elements of each tensor; ops: a list [result, input, ...] for
    each operation; itemsize: bytes of an element; fused: how many operations each kernel does."""
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
# ## A vector along the rows
#
# After a matrix product, a model adds a bias and applies GELU:
#
# > gelu(z) = z / 2 · (1 + erf(z / √2)), with z = x + bias
#
# (erf is the error function, `tl.erf` in Triton.) The shape of x is (M, N). The bias has the shape (N,), and is the
# same for all rows. The bias is small, but how often is it read? In the next cell, the tiles of the programs have
# different heights. If each program has one row, how many bytes of bias do the programs load, compared with the bytes
# of x? Answer before you run the cell.


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
    # the bytes that DRAM moves with an H200's L2 cache of 60 MiB, if 132 programs run at once
    dram = t.l2(at_once=132).dram_bytes(60 << 20)
    print(
        f"tiles of {block_m:2} x {block_n:4}: the bias is read {t.reread('bias_ptr'):2.0f} times; programs move "
        f"{t.bytes / x.nbytes:.2f} times x, DRAM {dram / x.nbytes:.2f} times x"
    )

# %% [markdown]
# A program that holds one row reads as many bytes of bias as of x. But look at the last number of each line. Once the
# first programs have read the bias, it is in the L2 cache, and it is not read from DRAM again. So does it cost time to
# read the bias again? The next cell shows how fast the course's own solution of the next exercise is.

# %%
for row in measured("fusion")["bias_tiles"]:
    height, width = row["tile"]
    print(
        f"tiles of {height:2} x {width:4}: the bias is read {row['bias_reads']:6,} times, speed / copy {row['speed']:.2f}"
    )
print(f"(65536 x 1024 float32, recorded on an {measured('fusion')['machine']})")

# %% [markdown]
# From the first line to the last, the number of times that the bias is read falls to a sixteenth, but the speed hardly
# changes. A trace counts the bytes that programs *ask for*, and the model of the cache says how many of these come from
# DRAM. Look at both before you optimise.
#
# ## Exercise: bias and GELU
#
# {{exercise fusion.bias_gelu}}
#
# Write `bias_gelu(x, bias)` with the exact GELU (with erf, not with the approximation by tanh). The elements of a
# row of x lie side by side, but there may be gaps between the rows, so use `x.stride(0)`. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}), rows that lie apart ({{correct.strided}}), float16 and
#   bfloat16 ({{correct.half}}),
# * one launch ({{launches.performance}}),
# * x read once, the result written once, the bias read at most once for each row, by at least 32 programs where the
#   input is large ({{traffic.performance}}),
# * loads that touch no more sectors than they must ({{coalesced.load.performance}}).
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="fusion.bias_gelu"
@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[m, n] = gelu(x[m, n] + bias[n]) for one BLOCK_M x BLOCK_N tile; out is contiguous."""
    ### BEGIN SOLUTION
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]  # neighbours read neighbouring memory
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
# ## Exercise: add, and normalise
#
# {{exercise fusion.add_rmsnorm}}
#
# In a transformer the norm follows an addition. The sum h = x + residual is normalised for the next layer, and h itself
# is the next residual. Two separate kernels move 3 + 2 tensors. A fused kernel moves only 4, because it reads two and
# writes two. Write `add_rmsnorm(x, residual, weight, eps)` for contiguous inputs. It returns `(rmsnorm(h), h)`, both in
# x's dtype. Full marks require
# * the right results for ragged sizes ({{correct.ragged}}), for large and tiny values ({{correct.hard}}),
# * one launch ({{launches.performance}}),
# * both inputs read once, both results written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}). Here, too, one or two numbers of each row may be stored beside them.
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


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
# ## Exercise: read a profile
#
# {{exercise fusion.read_profiles}}
#
# `profile` names the limit for you. Here are four profiles of calls whose names are missing, as recorded on an H200: the
# time until the result is there, the launches, the programs of the largest launch, the bytes that had to be moved, and
# the FLOPs. (A is a call of torch, and its programs were not recorded.) Below them stands what the card does at best.
# What limits each call? Write one of the following, in quotes:
#
# * `"memory"`: its bytes take most of the time,
# * `"arithmetic"`: its float32 operations do,
# * `"tensor cores"`: its products do,
# * `"the launch"`: it takes as long as a call that does nearly nothing,
# * `"too few programs"`: no limit of the card is near, because most SMs have nothing to do.
#
# Each right answer is worth {{correct.plain / 4}}. One of the five names is of no profile.

# %%
from course_lib.hardware.profiles import card, profiles

print("        time   launches  programs   bytes moved   FLOPs, float32   FLOPs, tensor cores")
for letter, p in profiles().items():
    programs = f"{p.programs:,}" if p.programs else "unknown"
    told = f"{p.seconds * 1e6:7.1f} µs {p.launches:6} {programs:>11} {p.nbytes / 1e6:10.1f} MB"
    print(f"{letter}: {told} {p.flops / 1e9:13.2f} G {p.tensor_flops / 1e9:16.2f} G")
best = card()
rates = best.flops_per_second / 1e12, best.tensor_flops_per_second / 1e12
print(f"\nat best: {best.bytes_per_second / 1e12:.2f} TB/s for a copy")
print(f"{rates[0]:.0f} TFLOP/s in float32, {rates[1]:.0f} by tensor cores")
print(f"{best.sms} SMs; a call for one number takes {best.least_seconds * 1e6:.1f} µs")

# %% exercise="fusion.read_profiles"
limited_by = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
}
### BEGIN SOLUTION
limited_by = {
    "A": "the launch",  # it takes as long as the smallest call
    "B": "arithmetic",  # 69 GFLOP take four fifths of the time
    "C": "too few programs",  # 8 programs for 132 SMs
    "D": "memory",  # its bytes take nine tenths of the time
}
### END SOLUTION

# %% check="fusion.read_profiles"
check("fusion.read_profiles", limited_by)

# %% [markdown]
# What would you change in each of them? Put A into another kernel, or into a CUDA graph, which launches many kernels at
# once. Give C more programs, by cutting its work along another axis. In B and D nothing is wrong: each is near a limit,
# and only less work or fewer bytes would make it faster. (D does 4 multiply-adds for each number, and they are free.)

# %% [markdown]
# ## Exercise: break a softmax
#
# {{exercise fusion.break_softmax}}
#
# A mistake is found only if somebody thinks of an input that shows it. Below is a correct kernel. There are also wrong
# versions of this kernel, called *mutants*. Each mutant has one mistake: for example, a mask is missing, one stride is
# confused with another, or a sum is not corrected. On many inputs a mutant still gives the right result. Write inputs
# on which its result is wrong.
#
# `breaking_inputs()` returns a list of at most three inputs, each a dict `{"x": tensor}`. The tensor has the shape (M,
# N) and a column stride of 1. It holds finite numbers in float32 or float16. From its first element to its last, it may
# span at most 16,384 numbers in memory.
#
# The check first runs the given kernel on all of your inputs. **If the given kernel fails on one of them, you earn
# nothing.** Then the check runs the mutants. A mutant is *killed* if its result is wrong on one of your inputs, or if
# it reaches outside a tensor. The check in this notebook has four mutants, and the grader has more. Random matrices of
# ordinary sizes kill about half of the mutants. So up to half of them earn nothing, and the others share
# {{kills.mutants}}: of four mutants here, two killed earn nothing, three earn half, and four earn all.

# %% given="fusion.break_softmax"


# %% exercise="fusion.break_softmax"
def breaking_inputs() -> list[dict]:
    """At most three inputs, `{"x": tensor}`, that expose wrong versions of the kernel."""
    ### BEGIN SOLUTION
    rising = torch.arange(200.0).repeat(3, 1) - 400  # the maximum rises with each block, and is far below 0
    window = torch.cat([torch.randn(4, 270) - 20000, torch.zeros(4, 130)], 1)[
        :, :270
    ]  # rows lie apart, and below -10000
    falling = torch.cat([torch.arange(150.0, 60, -1)[None], torch.randn(1, 90)], 1)  # the largest come first, beyond 88
    return [{"x": rising}, {"x": window}, {"x": falling}]
    ### END SOLUTION


# %% check="fusion.break_softmax"
check("fusion.break_softmax", breaking_inputs)

# %% [markdown]
# ## Open task: keep more of the row
#
# Your `online_softmax` reads every element twice. A row of 65,536 floats takes 256 KiB, as much as all registers of an
# SM, so no program can keep the whole row. But it can keep a part of it, and read only the rest again. How few bytes
# can a softmax of such rows move?
#
# An open task has no target and no points, and the best answer is not known. `attempt` runs your function on 32 of
# these rows. Your attempt counts if the result is right, if no register spills, and if 32 programs share the work.
# Then its bytes are kept in your logbook, and the picture shows all your attempts next to the published answer. On a
# GPU your function is timed, too. Write it in a new cell, under a new name, so that the exercise above stays as it is.

# %%
attempt("fusion.online_softmax", online_softmax)

# %% [markdown]
# ## Exercise: a work log of a softmax
#
# {{exercise fusion.softmax_log}}
#
# A **work log** makes a wasteful version better in rounds. Before you write the next one, you state what it will move;
# the traces of both versions show what did change. This log begins with five launches, one for each operation of a softmax.

# %%
from course_lib import worklog

worklog("fusion.softmax_log")

# %% [markdown]
# `softmax_log()` returns your rounds as a list of dicts, such as
# `{"change": "...", "bytes": "28*M*N", "sectors": "...", "launches": 4, "version": my_softmax}`. What you state are totals of the new
# version, as formulas in quotes: numbers, M, N, `+ - * /`, `//`, and `cdiv(a, b)`, which rounds up. State a round without its
# `version` first and run the last cell of this section; your logbook keeps the statement.
#
# A round holds if its version is right, each of its numbers is at most a tenth off, and at least one of them is a tenth
# below that of every version before it. Three rounds that hold give {{rounds_held.performance}}, each a third of them; up to
# five are judged, so one that fails costs nothing. The check has shapes that you do not see; N is a multiple of 128.
# `strides log` makes a page of your log.


# %% exercise="fusion.softmax_log"
### BEGIN SOLUTION
@triton.jit
def log_shifted_kernel(x_ptr, m_ptr, e_ptr, N, BLOCK: tl.constexpr):
    """e = exp(x - m)"""
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N)
    tl.store(e_ptr + row * N + offs_n, tl.exp(x - tl.load(m_ptr + row)), mask=offs_n < N)


@triton.jit
def log_max_kernel(x_ptr, m_ptr, N, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=-float("inf"))
    tl.store(m_ptr + row, tl.max(x, axis=0))


@triton.jit
def log_sum_kernel(e_ptr, s_ptr, N, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row * N + offs_n, mask=offs_n < N, other=0.0)
    tl.store(s_ptr + row, tl.sum(e, axis=0))


@triton.jit
def log_divide_kernel(e_ptr, s_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row * N + offs_n, mask=offs_n < N)
    tl.store(out_ptr + row * N + offs_n, e / tl.load(s_ptr + row), mask=offs_n < N)


@triton.jit
def log_numerator_kernel(x_ptr, e_ptr, s_ptr, N, BLOCK: tl.constexpr):
    """e = exp(x - the largest of the row), and s, the sum of each row of e"""
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(e_ptr + row * N + offs_n, e, mask=offs_n < N)
    tl.store(s_ptr + row, tl.sum(e, axis=0))


@triton.jit
def log_softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, offs_n = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + offs_n, mask=offs_n < N, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * N + offs_n, e / tl.sum(e, axis=0), mask=offs_n < N)


def in_four_launches(x):
    (M, N), BLOCK = x.shape, triton.next_power_of_2(x.shape[1])
    m, s = torch.empty(M, device=x.device), torch.empty(M, device=x.device)
    e, out = torch.empty_like(x), torch.empty_like(x)
    log_max_kernel[(M,)](x, m, N, BLOCK=BLOCK)
    log_shifted_kernel[(M,)](x, m, e, N, BLOCK=BLOCK)
    log_sum_kernel[(M,)](e, s, N, BLOCK=BLOCK)
    log_divide_kernel[(M,)](e, s, out, N, BLOCK=BLOCK)
    return out


def in_two_launches(x):
    (M, N), BLOCK = x.shape, triton.next_power_of_2(x.shape[1])
    s, e, out = torch.empty(M, device=x.device), torch.empty_like(x), torch.empty_like(x)
    log_numerator_kernel[(M,)](x, e, s, N, BLOCK=BLOCK)
    log_divide_kernel[(M,)](e, s, out, N, BLOCK=BLOCK)
    return out


def in_one_launch(x):
    (M, N), out = x.shape, torch.empty_like(x)
    log_softmax_kernel[(M,)](x, out, N, BLOCK=triton.next_power_of_2(N))
    return out


### END SOLUTION
def softmax_log():
    """The rounds, in order: dicts of change, bytes, sectors, launches and version."""
    ### BEGIN SOLUTION
    return [
        # what has one number for each row is a few percent, and left out
        {
            "change": "x - m is not stored",
            "bytes": "24*M*N",
            "sectors": "24*M*N/32",
            "launches": 4,
            "version": in_four_launches,
        },
        {
            "change": "exp and sum beside the maximum",
            "bytes": "16*M*N",
            "sectors": "M*N/2",
            "launches": 2,
            "version": in_two_launches,
        },
        {"change": "all in one", "bytes": "8*M*N", "sectors": "M*N/4", "launches": 1, "version": in_one_launch},
    ]
    ### END SOLUTION


# %% check="fusion.softmax_log"
check("fusion.softmax_log", softmax_log)

# %%
worklog("fusion.softmax_log", softmax_log)

# %% [markdown]
# ## Further reading
#
# * Horace He, *Making Deep Learning Go Brrrr From First Principles*: the factory and the warehouse, and how to find out
#   whether a model waits for compute, for bandwidth or for overhead.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on GPUs, on fusion and the online softmax.
# * Milakov and Gimelshein, *Online normalizer calculation for softmax* (2018): the one-pass maximum and sum.
# * The Triton documentation: the tutorials on fused softmax and on layer normalisation.
# * Ansel et al., *PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
#   Compilation* (2024): how torch.compile and Inductor decide.
# * Zhang and Sennrich, *Root Mean Square Layer Normalization* (2019).
# * Hsu et al., *Liger Kernel: Efficient Triton Kernels for LLM Training* (2024): this unit's kernels, and more, in
#   production.
