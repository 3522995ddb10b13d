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
# # 03 · Counting FLOPs
#
# **After this unit you can** count the arithmetic and the bytes of a product and of attention, say whether arithmetic
# or memory sets the pace, and time a GPU without fooling yourself. You need 00 (a first kernel), 01 (shapes) and 02
# (bytes of a dtype). No GPU is needed. Where there is none, speeds come from a datasheet or from a recorded run on an
# NVIDIA H200, and each picture says which.

# %%
import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from course_lib import bench, check, figures, gpu, hint, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hardware import throughput
from course_lib.workloads import RealGPU, SimulatedGPU, workload

# %% [markdown]
# ## The question
#
# A language model has 70 billion **parameters**: the numbers in its weight matrices. You want to train it on 15
# trillion **tokens**. A token is a piece of text, a little shorter than a word on average. You have 1024 H100 GPUs. How
# long will the training take?
#
# To answer, you need no model, no data and no cluster. This unit counts the operations, and then the answer takes one
# line.

# %% predict="flops.guess_days"
# How many days? Write a number before you go on; it earns no points.
guess_days = ...

# %% [markdown]
# ## A count and a speed
#
# A **FLOP** is one floating-point operation: an addition or a multiplication. **FLOPs**, with a small s, are a *count*:
# how many operations a task needs. **FLOP/s** is a *speed*: how many operations a machine does in a second. Some papers
# write FLOPS for both. If they give a number for each second, they mean a speed.
#
# | prefix | | example |
# | --- | --- | --- |
# | giga, G | 10⁹ | one product of 800 by 800 matrices: 1.02 × 10⁹ FLOPs |
# | tera, T | 10¹² | one H200 in float32, by its datasheet: 67 TFLOP/s |
# | peta, P | 10¹⁵ | one H200 in bfloat16: almost 1 PFLOP/s |
# | | 6.3 × 10²⁴ | the training above, as you will find |
#
# Nearly all arithmetic of a neural network is in matrix products. So what does one cost?

# %%
figures.flops.product_anatomy()

# %% [markdown]
# An (m, k) matrix times a (k, n) matrix gives m n elements. Each is a sum of k products: k multiplications and k
# additions.
#
# > A matrix product has **2 m n k** FLOPs.
#
# What about bytes? In the best case each matrix passes through memory once: a and b are read, and the result is
# written.
#
# ## Exercise: the cost of a product
#
# {{exercise flops.matmul_cost}}
#
# The product is (m, k) @ (k, n), and each element takes `itemsize` bytes. Return two whole numbers: the FLOPs, and the
# bytes if each of the three matrices is moved once. Full marks require both numbers
# * for square matrices ({{correct.square}}),
# * for any other sizes ({{correct.other}}).
#
# Until you solve an exercise, its check says that nothing has been returned yet. `hint("flops.matmul_cost")` gives a
# hint, and a stronger one each time you call it. Every exercise in this unit has such a check and such hints.


# %% exercise="flops.matmul_cost"
def matmul_cost(m: int, n: int, k: int, itemsize: int) -> tuple[int, int]:
    """(m, k) @ (k, n) -> (FLOPs, bytes read and written)."""
    ### BEGIN SOLUTION
    return 2 * m * n * k, itemsize * (m * k + k * n + m * n)  # read a and b, write the result
    ### END SOLUTION


# %% check="flops.matmul_cost"
check("flops.matmul_cost", matmul_cost)

# %% [markdown]
# ## Torch counts, too
#
# Torch has a counter of its own. It watches the operations that run, and adds 2 m n k for each matrix product.
# Convolutions and the attention kernels of a GPU are counted as well. A ReLU or a sum counts as 0, because it has few
# FLOPs compared with the products, and its time does not depend on them. (How few are they, and what does the time
# depend on? The second half of this unit answers both questions.) On a CPU `scaled_dot_product_attention` counts as 0,
# too.
#
# A tensor on the device `"meta"` has a shape and a dtype, but no data. Operations on it compute shapes and nothing
# else. So you can count the FLOPs of a product that no GPU could hold.

# %%
a, b = torch.empty(10**6, 20_000, device="meta"), torch.empty(20_000, 10**6, device="meta")
with FlopCounterMode(display=False) as counter:
    c = a @ b
print(f"{counter.get_total_flops():,} FLOPs for a result of {c.numel() * 4 / 1e9:.0f} GB that does not exist")

# %% [markdown]
# ## Exercise: predict six counts
#
# {{exercise flops.predictions}}
#
# What will torch's counter show for each of these lines? Write down six numbers. The cell after the check runs the
# counter.
#
# ```python
# x = torch.empty(100, 64)                            # data: needs no gradient
# w = torch.empty(64, 32, requires_grad=True)
# A, B, v = torch.empty(1000, 1000), torch.empty(1000, 1000), torch.empty(1000, 1)
#
# y = x @ w                                           # product
# torch.empty(8, 100, 64) @ torch.empty(8, 64, 32)    # batch of 8: eight products
# x.T @ x                                             # gram matrix
# torch.relu(x)                                       # relu
# y.backward(torch.ones(100, 32))                     # backward: this line alone
# (A @ B) @ v                                         # left to right
# ```
#
# In *backward*, torch computes only the gradients that are needed: here the gradient for w, because only w has
# `requires_grad=True`. This gradient is `x.T @ dy`, where dy is the gradient for y, here all ones.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.

# %% exercise="flops.predictions"
predicted_flops = {
    "product": ...,
    "batch of 8": ...,
    "gram matrix": ...,
    "relu": ...,
    "backward": ...,
    "left to right": ...,
}
### BEGIN SOLUTION
predicted_flops = {
    "product": 2 * 100 * 32 * 64,
    "batch of 8": 8 * 2 * 100 * 32 * 64,
    "gram matrix": 2 * 64 * 64 * 100,  # (64, 100) @ (100, 64)
    "relu": 0,
    "backward": 2 * 64 * 32 * 100,  # x.T @ dy; no gradient for x is needed
    "left to right": 2 * 1000**3 + 2 * 1000 * 1000,
}
### END SOLUTION

# %% check="flops.predictions"
check("flops.predictions", predicted_flops)


# %%
def count(work, *args) -> int:
    with FlopCounterMode(display=False) as counter:
        work(*args)
    return counter.get_total_flops()


x, w = torch.randn(100, 64), torch.randn(64, 32, requires_grad=True)
y = x @ w
A, B, v = torch.randn(1000, 1000), torch.randn(1000, 1000), torch.randn(1000, 1)
print(f"product       {count(lambda: x @ w):>13,}")
print(f"batch of 8    {count(lambda: torch.randn(8, 100, 64) @ torch.randn(8, 64, 32)):>13,}")
print(f"gram matrix   {count(lambda: x.T @ x):>13,}")
print(f"relu          {count(lambda: torch.relu(x)):>13,}")
print(f"backward      {count(lambda: y.backward(torch.ones_like(y))):>13,}")
print(f"left to right {count(lambda: (A @ B) @ v):>13,}")
print(f"right to left {count(lambda: A @ (B @ v)):>13,}")

# %% [markdown]
# The last two lines compute the same vector with different brackets, and one of them needs 500 times as many FLOPs as
# the other.

# %% [markdown]
# ## The products of a transformer
#
# A transformer is a stack of **blocks** that are built alike. Each does two things to its tokens, which are rows of
# d_model numbers.
#
# **Attention** lets tokens look at each other. From the rows x it makes queries q, keys k and values v, each by a
# product with a weight matrix. It cuts them into *heads* of d numbers. Three things happen in each head. S = q @ k.T
# says how well each query fits each key. P = softmax(S) turns each row of S into weights that add up to 1. And o = P @
# v mixes the values. A last product, the *output projection*, combines the heads. (Unit 08 is about why this works;
# here we count.)
#
# **An MLP** treats each token alone. One product turns its d_model numbers into d_ff numbers. Then comes a nonlinear
# function, and then a product that brings them back to d_model numbers.
#
# All other products are those of a weight matrix. Sending `tokens` rows through a matrix (d_in, d_out) takes 2 × tokens
# × d_in × d_out FLOPs, so the forward pass takes **2 FLOPs for each parameter and token**. The backward pass takes 4
# (*More* says why), so training takes **6**. But the products in the middle of the attention, S and o, have no
# parameters. This count leaves their cost out, and you must count it separately.
#
# ## Exercise: the cost of attention
#
# {{exercise flops.attention_cost}}
#
# In each of `batch` × `heads` heads, q is (n_q, d), k and v are (n_k, d), and an element takes `itemsize` bytes. Three
# operations run one after the other, and each reads its inputs from memory and writes its result there:
#
# 1. `S = q @ k.T`, 2. `P = softmax(S)`, 3. `o = P @ v`.
#
# Return the FLOPs of the two products, and the bytes of all three operations. Full marks require the right pair
# * for one head ({{correct.one head}}),
# * for several batches and heads, and for n_q different from n_k ({{correct.many}}).


# %% exercise="flops.attention_cost"
def attention_cost(batch: int, heads: int, n_q: int, n_k: int, d: int, itemsize: int) -> tuple[int, int]:
    """(FLOPs, bytes) of softmax(q @ k.T) @ v in three operations."""
    ### BEGIN SOLUTION
    flops = 2 * 2 * n_q * n_k * d
    scores = n_q * n_k
    q, k, v, o = n_q * d, n_k * d, n_k * d, n_q * d
    elements = (q + k + scores) + (scores + scores) + (scores + v + o)  # what each operation reads and writes
    return batch * heads * flops, batch * heads * elements * itemsize
    ### END SOLUTION


# %% check="flops.attention_cost"
check("flops.attention_cost", attention_cost)

# %%
print("tokens   FLOPs      bytes      of which S and P")
for n in (512, 2048, 8192):
    found = attention_cost(1, 32, n, n, 128, 2)
    if found is None:
        print("solve attention_cost to see the numbers")
        break
    print(f"{n:6}   {found[0]:.2e}   {found[1]:.2e}   {32 * 4 * n * n * 2 / found[1]:.0%}")

# %% [markdown]
# Four times as many tokens take about sixteen times as many FLOPs. Nearly all bytes belong to S and P, which are only
# intermediate results. This course is heading for a kernel that never writes S and P to memory.

# %% [markdown]
# ## Arithmetic or memory?
#
# A GPU can do two things at the same time: compute with the numbers that it has, and fetch the next numbers. Whichever
# takes longer sets the pace. Which one will it be?
#
# That depends on two numbers. The task has an **arithmetic intensity**: its FLOPs for each byte moved. The machine has
# a **ridge**: its FLOP/s divided by its bytes/s.

# %% gpu="flops.card"
sheet = gpu.current_or_h200()
print(f"{sheet.name}{'' if sheet.measured else ', by its datasheet: there is no GPU here that the course knows'}")
fastest = sheet.bf16_flops or sheet.fp32_flops
print(f"{fastest / 1e12:.0f} TFLOP/s in bf16, {sheet.hbm_bandwidth / 1e12:.2f} TB/s")
print(f"ridge: {fastest / sheet.hbm_bandwidth:.0f} FLOPs for each byte")

# %% [markdown]
# While one byte arrives, an H200 could do 206 FLOPs in bf16. A task with fewer FLOPs for each byte is *memory-bound*:
# its arithmetic waits for memory. A task with more is *compute-bound*.
#
# For each element, a ReLU in bf16 reads 2 bytes, does one comparison and writes 2 bytes. That makes 1/4 FLOP for each
# byte. On which side of the ridge is the ReLU?
#
# ## Exercise: intensity
#
# {{exercise flops.intensity}}
#
# `cost` is a pair (FLOPs, bytes), as `matmul_cost` returns it. Return the FLOPs for each byte
# ({{holds.gives_back_the_flops.plain}}).


# %% exercise="flops.intensity"
def intensity(cost: tuple[int, int]) -> float:
    """(FLOPs, bytes) -> FLOPs for each byte."""
    ### BEGIN SOLUTION
    flops, nbytes = cost
    return flops / nbytes
    ### END SOLUTION


# %% check="flops.intensity"
check("flops.intensity", intensity)

# %% [markdown]
# The **roofline** draws both limits in one picture. The slope is the limit of memory: FLOP/s = intensity × bytes/s. The
# flat part is the limit of arithmetic. No program gets above the roof of the datasheet. Both axes are logarithmic.
#
# Move the sliders. Before each move, say on which side of the ridge the point will be:
# * Set m = 1, which is a vector times a matrix. A model that writes one text does this for each token.
# * Raise m from 1. How many rows does it take until arithmetic is the limit?
# * Set m = n = k = 512. Then set all three to 64, and then change to fp32.
# * Try the same steps on a T4 (a small card of 2018) and on a B200 (a large one of 2025).

# %%
figures.flops.explore_roofline()

# %% [markdown]
# On the H200, m = 1 has about 1 FLOP for each byte. This is far on the memory side of the ridge. Arithmetic takes over
# above 229 rows (on the slider, at m = 256). The sizes 512 and 64 stay on the side of memory: their intensities are 171
# and 21, and the ridge is 206. 64 in fp32 stays there, too, with an intensity of 11 and a ridge of 14. The T4 has no
# bf16, so the picture takes fp32. The T4's ridge is 25, so 512 is on the side of arithmetic there. The ridge of the
# B200 is 281. Most newer cards have a higher ridge.
#
# ## Exercise: the least time
#
# {{exercise flops.roofline_seconds}}
#
# A GPU does `flops_per_second` and, at the same time, moves `bytes_per_second`. How many seconds does a task of `cost`
# = (FLOPs, bytes) take at least? Full marks require the right time
# * where arithmetic takes longer ({{holds.is_the_earliest.compute}}),
# * where memory takes longer ({{holds.is_the_earliest.memory}}).


# %% exercise="flops.roofline_seconds"
def roofline_seconds(cost: tuple[int, int], flops_per_second: float, bytes_per_second: float) -> float:
    """The least time that a task of (FLOPs, bytes) can take, in seconds."""
    ### BEGIN SOLUTION
    flops, nbytes = cost
    return max(flops / flops_per_second, nbytes / bytes_per_second)
    ### END SOLUTION


# %% check="flops.roofline_seconds"
check("flops.roofline_seconds", roofline_seconds)

# %% [markdown]
# Is this time a good prediction? The next cell compares it with measured times of ten operations. They are measured
# here if there is a GPU, and otherwise come from the recorded run on an H200. The two limits are measured as well, with
# a large copy and a product of 8192 by 8192 matrices. They give a second, lower ridge. Torch counts only the FLOPs of
# products, so the others are counted by hand: softmax has 5 for each element (maximum, subtract, exp, add, divide), and
# gelu has 8 by its tanh formula. Which of the ten will take much longer than predicted?

# %% gpu="flops.operations"
ceilings, whose = figures.flops.speeds("ceilings")
operations, _ = figures.flops.speeds("operations")
print(whose)
ridges = fastest / sheet.hbm_bandwidth, ceilings["random"]["bf16"] / ceilings["copy_bytes_per_second"]
print(f"ridge: {ridges[0]:.0f} FLOPs for each byte by the datasheet, {ridges[1]:.0f} measured\n")
print(f"{'operation':<20} FLOP/byte   predicted     measured   measured / predicted")
for op in operations:
    least = roofline_seconds((op["flops"], op["bytes"]), ceilings["random"]["bf16"], ceilings["copy_bytes_per_second"])
    told, ratio = (
        ("  not solved", "") if least is None else (f"{least * 1e6:9.1f} µs", f"{op['seconds'] / least:10.2f}")
    )
    print(f"{op['name']:<20} {op['flops'] / op['bytes']:9.2f} {told:>12} {op['seconds'] * 1e6:9.1f} µs {ratio}")

# %% gpu="flops.operations_under_the_roof"
figures.flops.operations_under_the_roof()

# %% [markdown]
# Read the picture from left to right.
#
# * *Add* and *gelu* are near the slope. Gelu does 8 times as many FLOPs for each element and yet takes less time,
#   because it moves fewer bytes.
# * *16 rows × matrix*, and even *128 rows*, take about as long as *matrix × vector*, so you get 128 answers for the
#   price of one. All three take some 40 % longer than predicted. They are shorter than a long copy, so the time to
#   start and to finish weighs more.
# * *Softmax* lies far below the roof. You cannot see this from its FLOPs and bytes, because a roof is a limit, not a
#   promise. Unit 06 makes softmax faster.
# * *Matmul 512*, with an intensity of 171, lies between the two ridges, so neither limit is far below. But it has
#   too little work. Starting up takes a few microseconds, and there are too few tiles of the result for 132 SMs.
# * *1024 rows × matrix* may lie above the flat roof. That roof was measured on a longer product, in which the chip
#   comes to its power limit and lowers its clock.
#
# ## A dial
#
# The intensity of each operation in that table is fixed. In the next exercise you write a kernel whose intensity you
# choose. It reads each element x once, and stores one result for it. In between it makes n steps
#
# > y = 0.75 · y + x
#
# and y begins as x. A step is one FMA (a *fused multiply-add*, unit 00), so it counts as two FLOPs. Turn n up, and the
# kernel does more arithmetic for the same bytes.
#
# Think of an H200 and of float32. One FMA an element is far on the memory side of the ridge, and n = 10,000 is far on
# the other side. This is no matrix product, so tensor cores cannot help: what counts is the FLOP/s of float32. At which
# n does the kernel leave the slope of memory?

# %% predict="flops.guess_dial"
# The n from which on arithmetic takes longer than memory. It earns no points.
guess_dial = ...

# %% [markdown]
# ## Exercise: dial
#
# {{exercise flops.dial}}
#
# The launch, the offsets and the mask are given, as you know them from `add_one` in unit 00. Write the loop and the
# store. y is float32, whatever the dtype of x is. Full marks require
# * the right result for any length N and any n from 0 on ({{correct.ragged}}),
# * 2 n FLOPs for each element, as a trace counts them ({{flops_an_element.performance}}),
# * each element read once and written once, by programs that share the work ({{traffic.performance}}).


# %% exercise="flops.dial"
@triton.jit
def dial_kernel(x_ptr, out_ptr, N, n, BLOCK: tl.constexpr):
    """n FMAs for each of BLOCK elements."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < N).to(tl.float32)
    ### BEGIN SOLUTION
    y = x
    for _ in range(n):
        y = y * 0.75 + x  # an FMA
    tl.store(out_ptr + offs, y, mask=offs < N)
    ### END SOLUTION


def dial(x: torch.Tensor, n: int) -> torch.Tensor:
    """x (N,), contiguous -> y (N,): y = 0.75 y + x, n times, beginning with y = x."""
    out, N, BLOCK = torch.empty_like(x), x.numel(), 1024
    dial_kernel[(triton.cdiv(N, BLOCK),)](x, out, N, n, BLOCK=BLOCK)
    return out


# %% check="flops.dial"
check("flops.dial", dial)

# %% [markdown]
# The next cell traces your kernel for some n, and asks your `roofline_seconds` how long a GPU takes at least. `trace`
# counts what a kernel did, on the CPU. From which of these n on does the time grow, and why does it not grow before?

# %% gpu="flops.dial_by_trace"
rates = sheet.fp32_flops, sheet.hbm_bandwidth
print(f"{sheet.name}: the ridge of float32 is {rates[0] / rates[1]:.1f} FLOPs for each byte")
for n in (1, 4, 16, 32, 64, 128, 512):
    with trace() as t:
        dial(torch.randn(1 << 16), n)
    flops = t.flops.total
    least = roofline_seconds((flops, t.bytes), *rates) if flops else None
    told = "not solved" if least is None else f"{least * 1e9:6.1f} ns, {flops / t.bytes:6.2f} FLOPs for each byte"
    print(f"n = {n:3}: {flops:12,} FLOPs, {t.bytes:,} bytes, {told}")
ridge = rates[0] / rates[1] * 8 / 2  # 8 bytes an element, 2 FLOPs a step
print(
    f"memory and arithmetic take the same time at n = {ridge:.0f}; you guessed {'nothing' if guess_dial is ... else guess_dial}"
)

# %% [markdown]
# Up to the ridge, the arithmetic is free: it is done while the memory works. This is why units 06 and 07 put several
# operations into one kernel, and even compute things twice.
#
# Does a real GPU agree? If there is one, the next cell times your kernel on 64 million elements. The loop itself takes
# instructions, too, so the kernel leaves the slope a little earlier than the datasheet says.

# %% gpu="flops.dial_timed"
if not bench.has_gpu():
    print("This machine has no GPU on which the course can time. Your kernel is counted above.")
elif dial(torch.ones(1, device="cuda"), 1)[0] != 1.75:
    print("solve dial to time it")
else:
    x = torch.randn(1 << 26, device="cuda")
    for n in (1, 4, 16, 32, 64, 128, 512):
        took = throughput.seconds(lambda n=n: dial(x, n))
        print(
            f"n = {n:3}: {took * 1e6:7.0f} µs, {8 * x.numel() / took / 1e12:5.2f} TB/s, {2 * n * x.numel() / took / 1e12:5.1f} TFLOP/s"
        )

# %% [markdown]
# ## Datasheets, and their asterisk
#
# NVIDIA's datasheet for the H100 SXM says "BFLOAT16 Tensor Core: 1,979 TFLOPS*". The datasheet of the H200, which has
# the same chip with more and faster memory, says the same. The footnote to the asterisk says that the
# figure is "with sparsity", and that it is half as large without.
#
# Sparsity here is a trick of the hardware. If two of every four weights are zero, the hardware skips these two, and the
# datasheet counts the skipped FLOPs as done. (The positions of these two may differ from one group of four to the next,
# so they are stored with the weights.) Ordinary models have no such zeros, so they can get half of the printed number.
# This course's table, `gpu.DATASHEETS`, holds these halves, which are called **dense** figures, and names its sources.
#
# Where does the dense figure come from? It is a product. There are 132 SMs with 4 tensor cores each, a tensor core does
# 512 FMAs of bf16 in a cycle, and the clock is 1.83 GHz: 132 × 4 × 512 × 2 × 1.83 × 10⁹ is 989 × 10¹² FLOP/s. A chip
# that lowers its clock reaches less.
#
# And how much of the dense figure does a plain `a @ b` reach?

# %% predict="flops.guess_share"
# What share of the dense peak does a bf16 product of 8192 x 8192 matrices reach, from 0 to 1? It earns no points.
guess_share = ...

# %% gpu="flops.promised_and_reached"
figures.flops.promised_and_reached()

# %% gpu="flops.share"
share = ceilings["random"]["bf16"] / fastest
print(f"measured: {share:.0%} of the dense peak; you guessed", "nothing" if guess_share is ... else guess_share)

# %% [markdown]
# Both measured points are the same product, of the same size, by the same kernel, but one of them multiplies zeros. A
# transistor that does not switch draws hardly any power, and in a large product the power limits the clock. So the
# product of zeros runs at a higher clock.
#
# > Time your kernels on random data, because zeros are too fast.
#
# ## MFU and HFU
#
# > **MFU** (model FLOPs utilisation) = FLOPs per second that the model needs / peak FLOP/s
#
# For one product this is the share that you have just seen:

# %% gpu="flops.mfu"
for dtype in ("fp32", "tf32", "fp16", "bf16"):
    most = figures.flops.peak(sheet, dtype)
    if most:
        reached = ceilings["random"][dtype]
        print(f"{dtype}: {reached / 1e12:4.0f} of {most / 1e12:4.0f} TFLOP/s, MFU {reached / most:.0%}   ({whose})")

# %% [markdown]
# For a training run, the FLOPs that the model needs are 6 × parameters × tokens. (This leaves out S and o of the
# attention. *More* says when you may do so. The PaLM paper, which introduced MFU, includes S and o, so it would give
# the same run a slightly higher MFU.) Now you can answer the question of the beginning. An MFU of 0.5 is good for so
# many GPUs:

# %%
needed = 6 * 70e9 * 15e12
h100 = gpu.datasheet("H100 SXM").bf16_flops
cluster = 1024 * h100 * 0.5
print(f"FLOPs needed: 6 × 70e9 × 15e12 = {needed:.2e}")
print(f"1024 H100s at {h100 / 1e12:.0f} TFLOP/s and an MFU of 0.5: {cluster:.2e} FLOP/s")
print(f"{needed / cluster:.3g} seconds = {needed / cluster / 86400:.0f} days")
print("you guessed", "nothing" if guess_days is ... else guess_days)

# %% [markdown]
# Some runs do more FLOPs than the model needs. To save memory they throw away what layers computed, and run the forward
# pass again when the backward pass needs it (unit 07). Then the hardware does 2 + 2 + 4 = 8 FLOPs for each parameter
# and token. **HFU**, *hardware* FLOPs utilisation, counts all of these. A run cannot raise its MFU by doing more work
# than needed, so MFU is the honest number.
#
# MFU does not say where the rest of the time went. It may go to communication between GPUs, to loading data, to
# launches, or to operations that are not products. And 6 FLOPs for each parameter is wrong if a parameter is not used
# exactly once for each token. Shared layers are used more often. Most experts of a *mixture of experts* are not used at
# all. And an embedding table is only looked up.
#
# Does the number of FLOPs depend on how the chip multiplies? It could: Strassen's algorithm computes a product of 2 × 2
# blocks with 7 products of blocks instead of 8. Libraries for GPUs do not use it, because it needs more memory traffic
# and loses digits. They do 2 m n k FLOPs. And are tensor cores used by default? For bfloat16 and float16 they are, but
# for float32 only if you allow TF32 (unit 02). `torch.compile` does not change that.

# %% [markdown]
# ## How to time a GPU
#
# You have seen measured numbers all along. How were they measured? Not like this:
#
# ```python
# start = time.perf_counter()
# c = a @ b
# print(time.perf_counter() - start)
# ```
#
# On a GPU, the line `c = a @ b` does not multiply. It puts the product into a queue and returns.

# %%
figures.flops.launch_timeline()

# %% [markdown]
# Reading the clock without waiting is one of six traps:
#
# | trap | what goes wrong | cure |
# | --- | --- | --- |
# | no waiting | you time the queueing | wait for the device before you read the clock, both times |
# | the first runs | code is loaded or compiled, clocks rise | warm up, and leave those runs out |
# | the mean | one disturbed run in twenty changes the mean | take the median of many runs |
# | a warm cache | the second run finds its data in L2 | overwrite the cache before each run |
# | zeros | no switching, so little power and a higher clock | use random data |
# | the host's clock | it counts the launch, too: some microseconds | none for work of a millisecond; else the device's own clock |
#
# How wrong can a time be? Here several timers time the same work, and one of them is right. (*host clock* waits and
# takes the median, but it falls into two of the six traps: the work is short, and its data is in the cache.)

# %% gpu="flops.timers"
figures.flops.timers()

# %% [markdown]
# A number that cannot be true does no harm, because you notice it. The others look plausible: in the lower half of the
# recorded picture, no timer lies on the orange ground, and yet three of four are wrong.
#
# The next exercise is about the first four cures. Its GPU is simulated, so the true time is known. There is only the
# host's clock, but the work is so long that a launch stays within the 3 % that the check allows.

# %%
simulated = SimulatedGPU(cold=900, hot=400)  # the work takes 900 µs from memory, and 400 if its data is in the cache
before = simulated.clock()
simulated.work()
print(f"without waiting: {(simulated.clock() - before) * 1e6:.0f} µs")
simulated.synchronize()
before = simulated.clock()
simulated.work()
simulated.synchronize()
print(f"with waiting, from the cache: {(simulated.clock() - before) * 1e6:.0f} µs")

# %% [markdown]
# The simulated `gpu` has three methods:
# * `gpu.clock()`: the host's clock, in seconds,
# * `gpu.synchronize()`: waits until the device has done all that is queued,
# * `gpu.flush()`: *queues* other work, which overwrites the cache, and returns at once. This other work takes time on
#   the device, too, and you must not count it.
#
# ## Exercise: a timer
#
# {{exercise flops.measure}}
#
# Write `measure(work, gpu, warm_up, runs)`. It first calls `work()` `warm_up` times. Then it times `runs` calls, each
# from a cold cache, and returns their median time in seconds. The check hands it a `SimulatedGPU`. (It also looks at
# the calls that you made: if they were made on another such GPU, at least half of the runs would have to come out
# right. So a lucky number does not pass.) Full marks require a time within 3 % of the true one
# * for steady work ({{timed.near_the_truth.steady}}),
# * on a GPU whose first runs are slow, and on one that slows down if you make more runs than you were asked for, as a
#   chip that gets warm lowers its clock ({{timed.near_the_truth.warm-up}}),
# * where other work disturbs some runs, early, in the middle or late ({{timed.near_the_truth.median}}),
# * where the cache would help ({{timed.near_the_truth.cold}}).

# %% exercise="flops.measure"
import statistics


def measure(work, gpu, warm_up: int = 5, runs: int = 20) -> float:
    """The median time of work() on the device, in seconds: warmed up, waited for, from a cold cache."""
    ### BEGIN SOLUTION
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(runs):
        gpu.flush()
        gpu.synchronize()
        start = gpu.clock()
        work()
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times)
    ### END SOLUTION


# %% check="flops.measure"
check("flops.measure", measure)

# %% [markdown]
# Now time a real GPU. `RealGPU` has the same three methods. The next cell times a product of 4096 by 4096 matrices with
# your `measure`, and with Triton's own timer, `do_bench`. If there is no GPU, the cell says so.

# %% gpu="flops.measure"
if bench.has_gpu():
    from triton.testing import do_bench

    a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    theirs = do_bench(lambda: a @ b, return_mode="median") / 1e3
    mine = measure(lambda: a @ b, RealGPU())
    print(f"do_bench {theirs * 1e6:.1f} µs; yours {'not solved' if mine is None else f'{mine * 1e6:.1f} µs'}")
else:
    print(
        "This machine has no GPU on which the course can time. On one, your timer and Triton's would differ by a few microseconds."
    )

# %% [markdown]
# Your time is longer, because it includes the launch and the wait for the GPU's answer on the host, some microseconds,
# depending on the machine. If the work itself is that short, do what `do_bench` does: put *events* into the queue
# before and after the work, and let the device read its own clock.
#
# ## A mystery
#
# This unit closes with one measurement: a product of two (N, N) matrices in bf16, on random data, timed as above, for
# 230 sizes N. Before you look, draw the curve that you expect. Small products leave most of a GPU idle, and large ones
# reach a ceiling.

# %% predict="flops.guess_odd"
# N = 4096 against N = 4097: how many times the TFLOP/s? It earns no points.
guess_odd = ...

# %%
figures.flops.mystery_plot()  # measured here in about half a minute on a GPU, otherwise recorded on an H200

# %%
points = dict(figures.flops.speeds("curve")[0]["points"])
for n in (4095, 4096, 4097):
    print(f"N = {n}: {points[n] / 1e12:4.0f} TFLOP/s")
print(
    f"4096 / 4097: {points[4096] / points[4097]:.1f} times; you guessed {guess_odd if guess_odd is not ... else 'nothing'}"
)
progress()

# %% [markdown]
# Some points lie above the measured roof from before. That roof was one long product at its power limit, and these
# products are short. No point passes the roof of the datasheet.
#
# The curve has branches. The branch of a size N depends on which numbers divide N. The curve also has waves, and it
# dips at sizes that look harmless. But the FLOPs grow smoothly, so the count does not explain the curve. Write down
# what you think is the reason. *More* in unit 05 explains and predicts the plot.
#
# ## What you now know
#
# * FLOPs are a count, and FLOP/s is a speed. A product has 2 m n k FLOPs.
# * For each parameter and token, the forward pass takes 2 FLOPs, and training takes 6. Attention adds a term that grows
#   with the square of the number of tokens.
# * Below the ridge memory sets the pace, and above it arithmetic does. The roof is a limit, not a promise.
# * An asterisk on a datasheet is worth a factor of two. MFU is measured against the dense number.
# * To time a kernel, warm up, wait for the device, take a median, and use a cold cache and random data. For short work
#   use the device's clock.
#
# Most of the operations of a model lie on the slope, where bytes decide. The next unit shows that memory may move more
# bytes than a kernel asks for.
#
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You count with a tool that you wrote, count the backward pass and a whole block, and answer what people
# ask on a napkin: how many days, how large a model, how many bytes a training run takes.

# %% [markdown]
# ## How the counter sees
#
# Whatever you write in torch is carried out by a few hundred basic operations, whose names begin with `aten.`. A
# **dispatch mode** is an object that torch calls instead of these operations. It gets each operation as a function,
# together with its arguments, and must return the result.


# %%
class Watch(TorchDispatchMode):
    """Prints each basic operation, with the shapes of its tensors."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        shapes = [tuple(t.shape) for t in args if isinstance(t, torch.Tensor)]
        print(f"{str(function.overloadpacket):<18} {shapes} -> {tuple(out.shape)}")
        return out


layer = torch.nn.Linear(64, 32)
with Watch():
    hidden = torch.relu(layer(torch.randn(100, 64)))
    hidden.sum().backward()

# %% [markdown]
# Read the first lines slowly. The linear layer is one operation, `aten.addmm`, which computes bias + x @ w. Its
# matrices are the second and the third argument. The operations of the backward pass, which you never wrote, are
# printed in the same way. Among them, `aten.mm` computes the gradient for the weights.
#
# `function` is one variant of an operation, such as `aten.mm.default`. `function.overloadpacket` is the operation
# itself. It is the same for all variants, so compare this one. Four operations multiply matrices:
#
# | operation | arguments | |
# | --- | --- | --- |
# | `torch.ops.aten.mm` | a (m, k), b (k, n) | a @ b |
# | `torch.ops.aten.bmm` | a (batch, m, k), b (batch, k, n) | a batch of products |
# | `torch.ops.aten.addmm` | c, a (m, k), b (k, n) | c + a @ b |
# | `torch.ops.aten.baddbmm` | c, a (batch, m, k), b (batch, k, n) | c + a batch of products |
#
# ## Exercise: a counter of your own
#
# {{exercise flops.count_flops}}
#
# Write `count_flops(fn, *args)`. It calls `fn(*args)` and returns the FLOPs of all matrix products inside, as torch's
# counter would, but without that counter. In each product, k is the last size of the first matrix. Adding c to a
# product counts as 0.
#
# Full marks require torch's count for
# * products of two matrices ({{correct.products}}),
# * batches of products ({{correct.batches}}),
# * products with an addition ({{correct.with an addition}}),
# * programs with loops, with a backward pass, and without any product ({{correct.whole programs}}).
#
# If a verdict says `mlp [5, 4, 6]`, it names a function and its sizes. `fn, args = workload("mlp", [5, 4, 6])` gives
# them to you. Try `count_flops(fn, *args)`, or watch the operations with `with Watch(): fn(*args)`.

# %% exercise="flops.count_flops"
import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Counter(TorchDispatchMode):
    """Adds up the FLOPs of the matrix products inside `with`."""

    def __init__(self):
        super().__init__()
        self.flops = 0

    ### BEGIN SOLUTION
    first = {  # operation -> which argument is the first matrix
        torch.ops.aten.mm: 0,
        torch.ops.aten.bmm: 0,
        torch.ops.aten.addmm: 1,
        torch.ops.aten.baddbmm: 1,
    }

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if function.overloadpacket in self.first:
            a = args[self.first[function.overloadpacket]]  # (..., m, k)
            self.flops += 2 * out.numel() * a.shape[-1]
        return out

    ### END SOLUTION


def count_flops(fn, *args) -> int:
    """FLOPs of all matrix products in fn(*args)."""
    ### BEGIN SOLUTION
    with Counter() as counter:
        fn(*args)
    return counter.flops
    ### END SOLUTION


# %% check="flops.count_flops"
check("flops.count_flops", count_flops)

# %%
for name, sizes in (("attention", [2, 9, 8]), ("mlp_step", [6, 4, 5])):
    fn, args = workload(name, sizes)
    torchs, yours = count(fn, *args), count_flops(fn, *args)
    print(f"{name:>9} {sizes}: torch counts {torchs:,}, you {'nothing yet' if yours is None else f'{yours:,}'}")

# %% [markdown]
# ## Forward 2, backward 4
#
# A layer has a weight matrix (d_in, d_out). Sending `tokens` rows through it takes 2 × tokens × d_in × d_out FLOPs.
# Since d_in × d_out is the number of its parameters, this holds for a layer of any shape:
#
# > **forward**: 2 FLOPs for each parameter and token.
#
# What does the backward pass take? From dy, the gradient for the output, a layer computes two gradients. One is for its
# weights, which it trains, and one is for its input, and goes on to the layer before. How many FLOPs does each take?
# Guess before you look.

# %%
figures.flops.three_products()

# %% [markdown]
# > **backward**: 4 FLOPs for each parameter and token. **Training**: 2 + 4 = **6** FLOPs.
#
# That was a derivation. Now let torch's counter look at a network of three layers.

# %%
tokens, width = 32, 128
net = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(3)))
parameters = sum(p.numel() for p in net.parameters())
data = torch.randn(tokens, width, requires_grad=True)
forward = count(lambda: net(data))
out = net(data).sum()
backward = count(lambda: out.backward())
print(f"forward  {forward:>10,} = {forward / (parameters * tokens):.2f} × parameters × tokens")
print(f"backward {backward:>10,} = {backward / (parameters * tokens):.2f} × parameters × tokens")

# %% [markdown]
# Here a gradient for the data was computed, too, which is seldom needed. What changes if it is not?
#
# ## Exercise: backward, product by product
#
# {{exercise flops.backward_flops}}
#
# A net has two layers: `h = relu(x @ W1)` and `y = h @ W2`, with x (batch, d_in), W1 (d_in, d_hidden) and W2 (d_hidden,
# d_out). How many FLOPs do the products of its backward pass have? `input_needs_grad` says whether a gradient for x is
# needed. Full marks require torch's count
# * where it is needed ({{correct.with}}),
# * where it is not needed ({{correct.without}}).


# %% exercise="flops.backward_flops"
def backward_flops(batch: int, d_in: int, d_hidden: int, d_out: int, input_needs_grad: bool) -> int:
    """FLOPs of the backward pass of relu(x @ W1) @ W2."""
    ### BEGIN SOLUTION
    second = 2 * 2 * batch * d_hidden * d_out  # dW2 = h.T @ dy and dh = dy @ W2.T
    first = 2 * batch * d_in * d_hidden  # dW1 = x.T @ dh
    return second + first * (2 if input_needs_grad else 1)  # and dx = dh @ W1.T
    ### END SOLUTION


# %% check="flops.backward_flops"
check("flops.backward_flops", backward_flops)

# %% [markdown]
# ## Exercise: a whole block
#
# {{exercise flops.block_cost}}
#
# `batch` texts of `tokens` tokens each go forward through one block:
#
# | product | its weight matrix |
# | --- | --- |
# | queries, and the output projection | (d_model, d_model) each |
# | keys, values | (d_model, d_model × kv_heads / heads) each: several heads may share keys and values |
# | S and o, for each of `heads` heads of d_model / heads numbers | none; each token attends to all tokens of its text |
# | MLP, up and down | (d_model, d_ff) and (d_ff, d_model) |
#
# (Many models of today, such as Llama, have a third matrix in the MLP, (d_model, d_ff), for a gate. Here there are
# two.)
#
# Return the FLOPs. They may be off by at most 1 %. Full marks require this
# * where each head has its own keys and values ({{holds.within_a_percent.plain}}),
# * where heads share keys and values ({{holds.within_a_percent.shared keys}}). For S and o, torch repeats the shared
#   keys and values, so S and o cost as much as without sharing.


# %% exercise="flops.block_cost"
def block_cost(batch: int, tokens: int, d_model: int, heads: int, kv_heads: int, d_ff: int) -> int:
    """FLOPs of one transformer block, forward."""
    ### BEGIN SOLUTION
    d_kv = d_model * kv_heads // heads
    weights = 2 * d_model * d_model + 2 * d_model * d_kv + 2 * d_model * d_ff
    projections = 2 * batch * tokens * weights
    attention = batch * 2 * 2 * tokens * tokens * d_model  # S and o; heads * (d_model / heads) = d_model
    return projections + attention
    ### END SOLUTION


# %% check="flops.block_cost"
check("flops.block_cost", block_cost)

# %% [markdown]
# How good is "2 × parameters × tokens" then? It leaves out S and o, which grow with the square of the number of tokens.
# Here is a block with d_model = 4096. At how many tokens does this shortcut begin to miss more than a tenth of the
# FLOPs?

# %%
d_model, heads, kv_heads, d_ff = 4096, 32, 8, 14336
weights = 2 * d_model**2 + 2 * d_model * d_model * kv_heads // heads + 2 * d_model * d_ff
for tokens in (512, 2048, 8192, 32768):
    total = block_cost(1, tokens, d_model, heads, kv_heads, d_ff)
    if total is None:
        print("solve block_cost to see the numbers")
        break
    print(
        f"{tokens:6} tokens: {total:.3g} FLOPs, of which 2 × parameters × tokens is {2 * weights * tokens / total:.1%}"
    )

# %% [markdown]
# It misses more than a tenth just above 2048 tokens. At 32,768 tokens more than half of the FLOPs are in S and o, and
# the shortcut misleads.
#
# ## One more thing a product does
#
# You have counted the additions in a product. Their number also decides how large the numbers in the result are. Take
# random weights, `torch.randn(d, d)`, and random inputs. How large are the numbers after 8 layers?

# %%
figures.flops.blow_up()

# %% [markdown]
# One output is a sum of d products of two random numbers, each with mean 0 and variance 1. A product of the two has
# variance 1, too. Variances of independent terms add up, so the output has variance d and a standard deviation of
# sqrt(d). After three layers of width 1024 the standard deviation is half of the largest float16, so some numbers
# already pass it. After four layers most of them do.
#
# ## Exercise: the scale of fresh weights
#
# {{exercise flops.init_scale}}
#
# With the weights `torch.randn(fan_in, fan_out) * init_scale(fan_in)`, a layer should keep the spread of random inputs:
# if they have a standard deviation of 1, the outputs should have about 1, too. Full marks require this
# * after one layer ({{holds.keeps_one_layer.one}}),
# * after twelve layers ({{holds.keeps_twelve_layers.deep}}).


# %% exercise="flops.init_scale"
def init_scale(fan_in: int) -> float:
    """The factor on randn weights with which a linear layer keeps a standard deviation of 1."""
    ### BEGIN SOLUTION
    return fan_in**-0.5  # variance fan_in * scale² = 1
    ### END SOLUTION


# %% check="flops.init_scale"
check("flops.init_scale", init_scale)

# %% [markdown]
# Glorot and Bengio (2010) proposed such a rule, called **Xavier initialisation** after the first of them. It takes the
# mean of fan_in and fan_out instead of fan_in, because gradients pass through the same weights in the other direction.
# `nn.Linear` draws its weights evenly from −1 / √fan_in to 1 / √fan_in unless you say otherwise. Their variance is a
# third of yours, so the numbers shrink by √3 in each layer.

# %% [markdown]
# ## Exercise: no outliers
#
# {{exercise flops.truncated_init}}
#
# A normal distribution has tails. Of the 5 million weights of a (2048, 2560) matrix, some fourteen thousand lie more
# than three standard deviations from the mean, and a few lie more than five away. One such weight makes one output
# large from the first step on. So models begin with a **truncated** normal distribution: a number outside of (-3, 3) is
# drawn again until it lies inside.
#
# `noise`, of shape (rounds, n), holds several rounds of random numbers. Weight i is the first number of column i that
# lies within (-3, 3), times `fan_in**-0.5`. All numbers in the last row lie within (-3, 3). Use torch's operations on
# whole tensors. If the result is wrong for ordinary noise, you get no points. Full marks require the right result
# * for noise of which few numbers lie within (-3, 3), and for noise of a single round ({{correct.rounds}}).


# %% exercise="flops.truncated_init"
def truncated_init(noise: torch.Tensor, fan_in: int) -> torch.Tensor:
    """noise: (rounds, n) -> (n,) weights, normal but for their tails, scaled for fan_in."""
    ### BEGIN SOLUTION
    weights = noise[0]
    for again in noise[1:]:
        weights = torch.where(weights.abs() < 3, weights, again)
    return weights * fan_in**-0.5
    ### END SOLUTION


# %% check="flops.truncated_init"
check("flops.truncated_init", truncated_init)

# %% [markdown]
# `torch.nn.init.trunc_normal_(weight, std=s, a=-3 * s, b=3 * s)` does this in one call. The cut changes little: the
# standard deviation falls to 0.987 of what it was.
#
# A **seed** decides which random numbers are drawn. To repeat a run, set a seed for each source of random numbers:
# `torch.manual_seed` for weights and dropout, on every GPU as well, and `numpy.random.seed` and `random.seed` for
# whatever shuffles the data. One shared generator is not enough, because one more dropout layer would then change the
# order of the texts.
#
# ## Exercise: a module by hand
#
# {{exercise flops.deep_linear}}
#
# In torch, a **parameter** is a tensor that is trained, and a **module** is a function that knows its parameters. Write
# `DeepLinear`. It applies `layers` weight matrices (width, width), one after the other, as `x @ w`. Then it multiplies
# by a head of (width,) numbers, so that x (rows, width) becomes (rows,). All of these weights begin as random numbers
# times `width**-0.5`. There are layers × width² + width of them.
#
# The check makes modules of several sizes, asks each for its parameters, calls it, and goes backward from the sum of
# its output. Full marks require that
# * `module.parameters()` has all weights ({{holds.registers_its_parameters.plain}}),
# * the output is computed with them ({{holds.computes_with_them.plain}}),
# * each weight gets its gradient ({{holds.gets_gradients.other}}),
# * the weights begin as random numbers of the right scale ({{holds.starts_fresh.other}}).


# %% exercise="flops.deep_linear"
class DeepLinear(torch.nn.Module):
    """x: (rows, width) -> (rows,): `layers` square matrices, one after the other, then a head."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        weights = (torch.randn(width, width) * init_scale(width) for _ in range(layers))
        self.weights = torch.nn.ParameterList(weights)  # a plain list would hide them from parameters()
        self.head = torch.nn.Parameter(torch.randn(width) * init_scale(width))
        ### END SOLUTION

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        ### BEGIN SOLUTION
        for w in self.weights:
            x = x @ w
        return x @ self.head
        ### END SOLUTION


# %% check="flops.deep_linear"
check("flops.deep_linear", DeepLinear)

# %% [markdown]
# ## Exercise: utilisation
#
# {{exercise flops.utilisation}}
#
# All `gpus` GPUs together train on `tokens_per_second` tokens in a second; one GPU can do `peak_flops` in a second.
# Return (MFU, HFU). Full marks require the right pair
# * without recomputation, where the two are equal ({{correct.plain}}),
# * with recomputation ({{correct.recompute}}), where the whole forward pass is done twice.


# %% exercise="flops.utilisation"
def utilisation(
    parameters: float, tokens_per_second: float, gpus: int, peak_flops: float, recompute: bool
) -> tuple[float, float]:
    """(MFU, HFU) of a training run, as shares of 1."""
    ### BEGIN SOLUTION
    one = parameters * tokens_per_second / (gpus * peak_flops)
    return 6 * one, (8 if recompute else 6) * one
    ### END SOLUTION


# %% check="flops.utilisation"
check("flops.utilisation", utilisation)

# %% [markdown]
# ## Exercise: how long?
#
# {{exercise flops.training_days}}
#
# Each of `gpus` GPUs has a peak of `peak_flops` FLOP/s, and the run has an MFU of `mfu`. Return how many days these
# GPUs need for all FLOPs of the training ({{holds.delivers.plain}}).


# %% exercise="flops.training_days"
def training_days(parameters: float, tokens: float, gpus: int, peak_flops: float, mfu: float) -> float:
    """Days to train a model with that many parameters on that many tokens."""
    ### BEGIN SOLUTION
    seconds = 6 * parameters * tokens / (gpus * peak_flops * mfu)
    return seconds / (24 * 60 * 60)
    ### END SOLUTION


# %% check="flops.training_days"
check("flops.training_days", training_days)

# %%
hours, price = 1024 * needed / cluster / 3600, 2.0  # dollars for an H100 and hour: an assumption, ask your provider
print(
    f"{hours / 1e6:.2f} million GPU hours, {hours * price / 1e6:.1f} million dollars; 1 % faster saves {hours * price / 100:,.0f}"
)
week = 8 * h100 * 0.5 * 7 * 86400
for name, flops in {
    "8 H100s for a week": week,
    "GPT-3": 3.14e23,
    "the run above": needed,
    "GPT-4, estimated": 2e25,
}.items():
    print(f"{name:20} {flops:.1e} FLOPs, {flops / week:8,.0f} such weeks")

# %% [markdown]
# Laws count FLOPs, too. The EU's AI Act presumes a *systemic risk* in a model that took more than 10²⁵ FLOPs to train
# (article 51). An executive order of the United States (14110, of 2023, revoked in 2025) asked for reports above 10²⁶.
# GPT-3's number is from its paper, and GPT-4's is an estimate by Epoch AI. Why does anybody spend so much? Because the
# loss of a model falls predictably as its compute grows, by *scaling laws*: Kaplan and others (2020), Hoffmann and
# others (2022).
#
# ## On a napkin: memory
#
# Which model fits into memory at all? Training in float32 keeps this for each parameter:

# %%
figures.flops.sixteen_bytes()

# %% [markdown]
# * the **parameter** itself, 4 bytes,
# * its **gradient**, 4 bytes,
# * the **optimizer's state**, which is what the optimizer remembers. Plain SGD has none. SGD with momentum has a
#   velocity. AdaGrad has a sum of squared gradients. Adam and AdamW have two running averages, one of the gradient and
#   one of its square. Each of these is one more float32 for every parameter.
#
# (Mixed precision, as in unit 02, saves nothing here: 2 bytes for a bf16 parameter, 2 for its gradient, and 12 for the
# master copy and the two averages make 16 again.)
#
# ## Exercise: the largest model
#
# {{exercise flops.largest_model}}
#
# A parameter takes `bytes_per_parameter`, and each of `gpus` GPUs has `memory_bytes`. How many parameters fit if
# nothing else needs room? Full marks require the largest whole number ({{holds.just_fits.plain}}).


# %% exercise="flops.largest_model"
def largest_model(gpus: int, memory_bytes: int, bytes_per_parameter: int = 16) -> int:
    """The most parameters that can be trained in that memory, activations left out."""
    ### BEGIN SOLUTION
    return gpus * memory_bytes // bytes_per_parameter
    ### END SOLUTION


# %% check="flops.largest_model"
check("flops.largest_model", largest_model)

# %%
room = 8 * gpu.datasheet("H100 SXM").hbm_bytes
print(f"8 H100s: {room / 1e9:.0f} GB / 16 bytes = {room / 16 / 1e9:.0f} billion parameters, with AdamW")

# %% [markdown]
# Does nothing else need room? *Activations* do, the tensors between layers. The backward product `dw = x.T @ dy` needs
# x, the input of its layer. So *autograd*, the part of torch that does the backward pass, keeps the input of each layer
# until then.
#
# ## Exercise: all of the memory
#
# {{exercise flops.training_memory}}
#
# A deep linear model has `layers` matrices of (width, width) without bias, one after the other. All of it is in
# float32, and it is trained on `batch` rows. `optimizer` is `"sgd"`, `"momentum"`, `"adagrad"` or `"adam"`. Return four
# numbers of bytes: parameters, gradients, the optimizer's state, and activations. Activations are what autograd keeps
# for the backward pass besides the parameters; the data counts, too. An optimizer's counter of steps does not count as
# state. Full marks require the bytes that torch really holds:
# * parameters, gradients and activations, with sgd ({{correct.sgd}}),
# * the states of the other optimizers ({{correct.states}}).


# %% exercise="flops.training_memory"
def training_memory(layers: int, width: int, batch: int, optimizer: str) -> tuple[int, int, int, int]:
    """Bytes of (parameters, gradients, optimizer state, activations) of a deep linear model in float32."""
    ### BEGIN SOLUTION
    parameters = 4 * layers * width * width
    states = {"sgd": 0, "momentum": 1, "adagrad": 1, "adam": 2}[optimizer]
    activations = 4 * layers * batch * width  # the input of each layer
    return parameters, parameters, states * parameters, activations
    ### END SOLUTION


# %% check="flops.training_memory"
check("flops.training_memory", training_memory)

# %% [markdown]
# When do activations outgrow the rest? With Adam, the rest takes 16 × layers × width² bytes here, and activations take
# 4 × layers × batch × width. The two are equal at batch = 4 × width. Here batch is the number of rows, that is, of all
# tokens of all texts together. Unit 07 saves activations at the price of FLOPs.
#
# ## A training run, all of it
#
# Everything that this unit counted happens in a loop of a few lines. The **data** is a file of whole numbers, one for
# each token. It may be far larger than memory: 15 trillion tokens of 2 bytes are 30 TB. So `np.memmap` makes an array
# that is read from disk only where you look at it. A **loader** picks random places in it. Each **step** goes forward
# and backward, and lets the optimizer change the parameters. Then the gradients are dropped, because otherwise the next
# step would add to them. (To add them up on purpose is called *gradient accumulation*: a large batch is computed in
# several small parts. Add the gradients in float32.) And since every long run is interrupted some day, the loop
# **saves** three things: the parameters, the optimizer's state and the number of the step. What happens if you forget
# the optimizer's state?

# %%
import os  # noqa: E402
import tempfile  # noqa: E402

import numpy as np  # noqa: E402

torch.manual_seed(0)
np.random.seed(0)
folder = tempfile.mkdtemp()
text = np.arange(100_000) % 50  # 0, 1, ..., 49, 0, 1, ...
text.astype(np.uint16).tofile(os.path.join(folder, "tokens"))
tokens = np.memmap(os.path.join(folder, "tokens"), dtype=np.uint16, mode="r")


def batch(rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens at random places of the file, and for each the one that follows: (rows, length) both."""
    starts = np.random.randint(len(tokens) - length - 1, size=rows)
    texts = torch.from_numpy(np.stack([tokens[s : s + length + 1] for s in starts]).astype(np.int64))
    return texts[:, :-1], texts[:, 1:]


model = torch.nn.Sequential(torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
for step in range(60):
    x, y = batch(8, 32)
    loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 20 == 0 or step == 59:
        print(f"step {step:2}: loss {loss.item():.3f}")
saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
torch.save(saved, os.path.join(folder, "run.pt"))
state = sum(t.nbytes for s in optimizer.state.values() for t in s.values())
parameters = sum(p.numel() for p in model.parameters())
print(f"{parameters:,} parameters: {4 * parameters:,} bytes, and {state:,} of the optimizer's")

# %% [markdown]
# The loss begins near ln 50 = 3.91, the loss of a blind guess among 50 tokens. If you forget the optimizer's state,
# AdamW starts again with empty averages. Then the loss jumps, and it takes a while until the run is as good as before.

# %% [markdown]
# ## Further reading
#
# * Williams, Waterman, Patterson, *Roofline: An Insightful Visual Performance Model for Multicore Architectures*,
#   2009.
# * Kaplan et al., *Scaling Laws for Neural Language Models*, 2020, section 2.1: 6 FLOPs for each parameter and token.
# * Chowdhery et al., *PaLM*, 2022, section 4.1 and appendix B: where MFU comes from, and why not HFU.
# * Rajbhandari et al., *ZeRO*, 2020, section 3: where the memory of training goes.
# * Stanford, *CS336: Language Modeling from Scratch*: the lecture on resource accounting.
# * Horace He, *Strangely, Matrix Multiplications on GPUs Run Faster When Given "Predictable" Data!*, 2024: why zeros
#   are fast.
