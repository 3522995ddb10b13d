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
# # 04 · Memory coalescing
#
# **After this unit you can** say from a kernel's index arithmetic how many bytes the memory will really move, read the
# same number off a trace, and rewrite a kernel that wastes seven eighths of them. You need 00 (a first kernel), 01
# (strides) and 03 (bytes). You need no GPU, because traffic is counted on the CPU. If there is a GPU, kernels are timed
# as well.

# %%
import torch
import triton
import triton.language as tl

from course_lib import check, compile_for, figures, gpu, hint, profile, progress, trace  # noqa: F401 (hint is yours to call)

device = "cuda" if torch.cuda.is_available() else "cpu"

# %% [markdown]
# ## What you need
#
# This section repeats what you know if you have written a kernel before. If so, skip it.
#
# A **Triton kernel** is a function that many **programs** run, each with its own number `tl.program_id(0)`. A program
# works on whole **blocks**. `tl.arange(0, BLOCK)` is the block 0, 1, ..., BLOCK - 1, and arithmetic on it is
# elementwise. BLOCK must be a power of two.
#
# A tensor arrives as a **pointer** to its first element. `x_ptr + offsets` is a block of pointers, where offsets count
# elements, not bytes. `tl.load` reads through all of them, and `tl.store` writes through them. The last program usually
# reaches past the end, so load and store take a **mask**. Positions of the block where the mask is false touch nothing.
# After a load, such a position holds `other` if you gave this argument, and otherwise *anything*.
#
# A matrix with shape (M, N) and **strides** (s0, s1) keeps element (m, n) at offset `m * s0 + n * s1`. A contiguous
# matrix has s0 = N and s1 = 1, so the next element of a row is also the next in memory. A two-dimensional block of
# offsets comes from broadcasting: `rows[:, None] * s0 + cols[None, :] * s1`.
#
# The hardware runs threads: 32 of them form a **warp** and execute each instruction together. A thread of a warp is a
# **lane**. You write blocks, and the compiler deals their elements out to the lanes.
#
# Here is all of this in one kernel.


# %%
@triton.jit
def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = 2 * x[i]; program p does elements p * BLOCK up to (p + 1) * BLOCK."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, 2 * x, mask=i < n)


x = torch.arange(1000, dtype=torch.float32)
out = torch.empty_like(x)
with trace() as t:  # inside, kernels run on the CPU, one program after the other, and every access is counted
    double_kernel[(triton.cdiv(1000, 256),)](x, out, 1000, BLOCK=256)

print("right:", torch.equal(out, 2 * x))
print(f"{t.loads.bytes} bytes loaded, {t.stores.bytes} bytes stored")

# %% [markdown]
# 1000 floats of 4 bytes went in and out. The 24 masked positions of the last program moved nothing.
#
# Outside `with trace()`, the same line would launch the kernel on a GPU, and would fail where there is none. In this
# notebook every demonstration is traced. You can try your own functions in the same way: `with trace(): print(f(x))`.
#
# The second kernel has what the larger exercises need: a tile, a mask in two dimensions, a loop, and a sum that is
# carried from one round of the loop to the next. `tl.zeros` makes a block of zeros, `tl.float32` is a dtype of Triton,
# and `tl.sum(total, axis=1)` adds up each row of a block. Which elements does program 1 read?


# %%
@triton.jit
def row_mean_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[m] = mean of row m of x (M, N); a program does BLOCK_M rows and walks along them in tiles."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]  # (BLOCK_M, 1)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)[None, :]  # (1, BLOCK_N)
        inside = (rows < M) & (cols < N)  # (BLOCK_M, BLOCK_N); `&`, not `and`
        total += tl.load(x_ptr + rows * N + cols, mask=inside, other=0).to(tl.float32)
    mean = tl.sum(total, axis=1)[:, None] / N
    tl.store(out_ptr + rows, mean, mask=rows < M)


x = torch.randn(50, 300)
out = torch.empty(50)
with trace() as t:
    row_mean_kernel[(triton.cdiv(50, 16),)](x, out, 50, 300, BLOCK_M=16, BLOCK_N=128)
print("right:", torch.allclose(out, x.mean(1), atol=1e-6))

# %% [markdown]
# Program 1 reads rows 16 to 31. A grid may also have two axes. `kernel[(4, 3)](...)` starts 12 programs, and each finds
# its place with `tl.program_id(0)`, from 0 to 3, and `tl.program_id(1)`, from 0 to 2. So a grid of tiles can cover a
# matrix.
#
# These words will come up:
#
# | word | meaning |
# | --- | --- |
# | SM | streaming multiprocessor: one of the GPU's processors (an H200 has 132), on which programs run |
# | register | memory of one lane, inside the SM; it holds the lane's elements of each block |
# | shared memory, L1 | memory of one SM: lanes exchange data through it, and as a cache it keeps what was read recently |
# | L2 | a cache that all SMs share |
# | DRAM, HBM | the GPU's main memory, where tensors are |
# | ragged | a size is ragged if blocks do not divide it |
# | dense | without gaps: neighbouring lanes read or write neighbouring bytes |
# | trace | a count of what a kernel does to memory, made on the CPU from what Triton's compiler reads in the kernel |
#
# Numbers measured on an H200, and how they were measured, are in `benchmarks/results/h200_measurements.md` and
# `coalescing.md` of the course's repository.

# %% [markdown]
# ## The question
#
# Here are two kernels. Both copy a matrix of 1024 by 1024 floats, so both read 4 MiB and write 4 MiB. They differ in
# one line:
#
# ```python
# offsets = row * N + tl.arange(0, BLOCK)      # along a row
# offsets = tl.arange(0, BLOCK) * N + column   # down a column
# ```
#
# How many times the bytes must the second one move?

# %% predict="coalescing.guess_columns"
# How many times more does the column kernel cost? Write a number before you run the next cell; it earns no points.
guess_columns = ...

# %% gpu="coalescing.rows_against_columns"
figures.coalescing.rows_against_columns(guess_columns)  # runs both here: counted on a CPU, timed too on a GPU

# %% [markdown]
# Both kernels used equally many bytes. What differs is how many bytes the memory had to *move* for them. (It also costs
# time: on an H200 the column kernel took {{measured columns against rows}} times as long for a matrix of 8192 by 8192.)
#
# ## A memory answers in sectors
#
# Why would a memory that is asked for 4 bytes send 32? DRAM keeps its bits in long rows of tiny capacitors. A *word
# line* connects a whole row to the *bit lines* of its columns, where sense amplifiers turn faint charges into bits and
# write them back. Opening a row is the slow part. Once it is open, neighbouring bits cost almost no more time. So no
# part of the machine handles single elements:
#
# | unit | bytes | who handles it |
# | --- | --- | --- |
# | **sector** | 32 | the caches move and count these; so do we |
# | fetch | 64 | the least that an H200's memory sends to its L2 cache |
# | line | 128 | four sectors that share one label in a cache |

# %%
figures.coalescing.memory_anatomy()

# %% [markdown]
# The 32 lanes of a warp ask at the same time. The hardware collects their addresses and asks for each sector
# **once**. This is *coalescing*: requests that fall into one sector become one request.
#
# So what does a warp cost? 32 neighbouring floats lie in 128 bytes, which are 4 sectors. But 32 floats from 32
# different rows lie in 32 different sectors. These are 1024 bytes, and still only 128 of them are useful.
#
# > **efficiency** = useful bytes / (32 × sectors)
#
# This also explains why a good loop for a CPU can be a bad one for a GPU. On a CPU, each thread should walk along a row
# of its own, because then the next number that it reads lies next to the last one. On a GPU it does not matter what one
# thread reads next. What matters is what the 32 lanes read *at the same time*. If each lane has a row of its own, they
# read 32 places that are a row apart. So neighbouring lanes should take neighbouring *columns*. In Triton this means
# that `tl.arange` goes along the axis with stride 1.
#
# Move the sliders until you can predict the number of sectors. Try these three settings:
# * float32, stride 2, as drawn at first. Which bytes are moved although no lane needs them?
# * float32, stride 8, then 9, 16, 32. Why does the number of sectors stop growing?
# * float32, stride 1, offset 1. Where does the fifth sector come from?

# %%
figures.coalescing.explore_lanes_over_memory()

# %% [markdown]
# ## Exercise: how many sectors?
#
# {{exercise coalescing.sectors_touched}}
#
# `addresses` lists the byte addresses at which the lanes of one warp start to read. A lane that is switched off by a mask
# is not in the list.
# Each lane reads `itemsize` bytes. How many different sectors must be moved? Sector k holds bytes 32 k to 32 k + 31.
#
# Full marks require the right count for
# * neighbours, strides and repeated addresses ({{correct.strides}}),
# * addresses in any order, and an empty list ({{correct.order}}),
# * elements that straddle two sectors ({{correct.straddling}}): address 30 with `itemsize` 4 means bytes 30 to 33.
#
# `hint("coalescing.sectors_touched")` gives a hint, and a stronger one each time you call it. Every exercise in this
# unit has such hints.


# %% exercise="coalescing.sectors_touched"
def sectors_touched(addresses: list[int], itemsize: int) -> int:
    """Byte addresses of one warp's lanes, bytes per lane -> number of 32-byte sectors that hold the bytes they read."""
    ### BEGIN SOLUTION
    first_and_last = [(a // 32, (a + itemsize - 1) // 32) for a in addresses]
    return len({sector for first, last in first_and_last for sector in range(first, last + 1)})
    ### END SOLUTION


# %% check="coalescing.sectors_touched"
check("coalescing.sectors_touched", sectors_touched)

# %% [markdown]
# ## What a stride costs
#
# If lane i reads element `i * stride`, how does the efficiency fall as the stride grows? And does a smaller dtype help?
# Then look at the right half of the next figure.

# %%
figures.coalescing.sectors_against_stride()

# %% [markdown]
# At stride 2 the efficiency is 0.5 for every dtype, because half of each sector is skipped. A smaller dtype moves fewer
# bytes, but wastes the same share of them. At large strides each lane has a sector of its own. Then float32 uses 4 of a
# sector's 32 bytes, and int8 only 1, so the curves separate.
#
# In float32 the number of sectors stops growing at stride 8, but the cost still grows after that. On an H200, stride 8
# read 8.0 times the useful bytes from DRAM, and stride 32 read 16.0 times. (Nsight Compute, NVIDIA's profiler, counted
# them; its counter `dram__bytes_read.sum` adds up what DRAM delivers.) Why twice as many? At stride 8, each 64-byte
# fetch brings two sectors that are needed. At stride 32 it brings only one, and its other half is thrown away.

# %% [markdown]
# ## Reading a trace
#
# You need not count addresses by hand. `trace` records each load and each store, and counts their sectors as you did:
# for each group of 32 lanes, each sector once.


# %%
@triton.jit
def strided_copy(x_ptr, out_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """out[i] = x[i * STRIDE]"""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * STRIDE, mask=i < n)
    tl.store(out_ptr + i, x, mask=i < n)


n, stride = 4096, 4
x = torch.randn(n * stride)
with trace() as t:
    strided_copy[(4,)](x, torch.empty(n), n, STRIDE=stride, BLOCK=1024)

print(t.table())
load, store = t.accesses_to("x_ptr", "load"), t.accesses_to("out_ptr", "store")
print(f"\nload efficiency {load.efficiency:.0%}, store efficiency {store.efficiency:.0%}")

# %% [markdown]
# Read the table row by row. Both accesses used 16,384 bytes, but the load touched four times as many sectors as the
# store. Change `stride` and run the cell again. At which strides does the efficiency stay the same?
#
# Can you also say what a kernel will touch before you run it?

# %% [markdown]
# ## Exercise: predict five kernels
#
# {{exercise coalescing.predictions}}
#
# **One** program runs each of these kernels. `x_ptr` points to the start of a 128-byte line. How many sectors do the lanes
# of its **load** ask for? Count as the trace does: elements 0 to 31 of the block are one group of lanes, 32 to 63 the
# next, and a sector that two groups ask for counts twice. (A cache may answer the second group, but that comes later.)
# Write down five numbers first. The cell after the check counts them.
#
# Write numbers, or arithmetic on numbers such as `4 * 1024`. Code that works out the answers is not a prediction, and
# earns nothing.


# %%
@triton.jit
def neighbours(x_ptr, out_ptr):  # x is float32
    i = tl.arange(0, 1024)
    tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def every_fourth(x_ptr, out_ptr):  # x is float16
    i = tl.arange(0, 1024)
    tl.store(out_ptr + i, tl.load(x_ptr + 4 * i))


@triton.jit
def shifted(x_ptr, out_ptr):  # x is float32
    i = tl.arange(0, 1024)
    tl.store(out_ptr + i, tl.load(x_ptr + i + 1))


@triton.jit
def half_masked(x_ptr, out_ptr):  # x is float32
    i = tl.arange(0, 1024)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i % 2 == 0, other=0))


@triton.jit
def column(x_ptr, out_ptr):  # x is float32, (64, 1000), contiguous
    i = tl.arange(0, 64)
    tl.store(out_ptr + i, tl.load(x_ptr + 1000 * i))


# %% exercise="coalescing.predictions"
predicted_sectors = {"neighbours": ..., "every_fourth": ..., "shifted": ..., "half_masked": ..., "column": ...}
### BEGIN SOLUTION
predicted_sectors = {
    "neighbours": 128,  # 1024 * 4 / 32
    "every_fourth": 256,  # lanes are 8 bytes apart, four share a sector
    "shifted": 160,  # each of 32 requests begins 4 bytes into a sector and needs 5
    "half_masked": 128,  # every sector still holds a wanted byte
    "column": 64,  # a sector for each row
}
### END SOLUTION

# %% check="coalescing.predictions"
check("coalescing.predictions", predicted_sectors)

# %%
for kernel, dtype in (
    (neighbours, torch.float32),
    (every_fourth, torch.float16),
    (shifted, torch.float32),
    (half_masked, torch.float32),
    (column, torch.float32),
):
    x = torch.ones(64 * 1000, dtype=dtype)
    with trace() as t:
        kernel[(1,)](x, torch.empty(1024, dtype=dtype))
    loads = t.accesses_to("x_ptr", "load")
    print(f"{kernel.__name__:>12}: {loads.sectors:4} sectors, efficiency {loads.efficiency:.0%}")

# %% [markdown]
# Look at two of them again. *Half masked* asks for half the bytes, but it saves no sector, because a mask saves a
# sector only if it switches off every lane that reads from it. *Shifted* asks for as many bytes as *neighbours*, but for
# a quarter more sectors: each group of 32 lanes begins 4 bytes later, and so ends in a fifth sector. Its 1024 floats lie
# in 129 different sectors, and 31 of these are asked for twice.
#
# ## Is the count true?
#
# A trace is a simulation. Does real hardware agree? NVIDIA's GPUs count the sectors that go from the L2 cache to an SM
# and back, and Nsight Compute reads these counters, too. So 35 kernels of this course were traced, and then run on an
# H200. How many would you expect to agree within 2 %?

# %%
figures.counters.predicted_against_counted()

# %% [markdown]
# Most points lie exactly on the line. One of them is *shifted*, which should surprise you. Each of its groups of 32
# lanes asks for a fifth sector, which is a quarter more than needed. Yet the GPU counted less than 1 % more. Why? The
# fifth sector of one group is the first sector of the next group. The next group asks for it a moment later, when the
# SM's **L1 cache** still holds it. A trace gives both numbers: the lanes ask for `sectors`, and `l2_sectors` of these
# come from L2.

# %%
with trace() as t:
    shifted[(1,)](torch.randn(2048), torch.empty(1024))
loads = t.accesses_to("x_ptr", "load")
print(f"the lanes ask for {loads.sectors} sectors; {loads.l2_sectors} come from L2")

# %% [markdown]
# Now look at the points that are off the line. What does a trace not know?
#
# * **Reading twice.** A softmax that reads its row a second time finds a part of it still in L1. The trace counts both
#   reads, but L1 may deliver a part of the second. How large this part is depends on what else runs on the SM, so do
#   not rely on it.
# * **Spills.** If a program needs more registers than there are, the compiler *spills* some of them: it keeps their
#   numbers in memory. Your source does not show the bytes that this moves. CUDA calls the place *local memory*, because
#   no other thread sees it, but it lies in DRAM, like every tensor, behind L1 and L2. For example, a tiled matmul with
#   tiles of 128 in float32 stored 2.6 times as many bytes as its source says. Unit 05 comes back to spills.
# * **Half-filled sectors.** If a store fills only a part of a sector, the memory has to read the rest of the sector
#   some time later.

# %% [markdown]
# ## Tiles: whole rows of neighbours
#
# From here on you write kernels. All of them follow the same rule: give a program a **tile** that has a few rows, and
# enough neighbours along the axis whose stride is 1.
#
# How many are enough? A sector holds 8 floats, or 16 halves. Below are tiles of 1024 elements in six shapes, each
# loaded from the corner of a contiguous 1024 by 1024 matrix. Which of them will have the best efficiency?


# %%
@triton.jit
def load_tile(x_ptr, out_ptr, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    tl.store(out_ptr + m * BLOCK_N + n, tl.load(x_ptr + m * row_stride + n))


x = torch.randn(1024, 1024)
for block_m, block_n in ((1024, 1), (512, 2), (256, 4), (128, 8), (32, 32), (1, 1024)):
    with trace() as t:
        load_tile[(1,)](x, torch.empty(block_m, block_n), 1024, BLOCK_M=block_m, BLOCK_N=block_n)
    print(f"{block_m:4} x {block_n:<4} {t.loads.sectors:5} sectors, efficiency {t.loads.efficiency:.1%}")

# %% [markdown]
# If a row of the tile has at least 8 floats, the shape makes no difference to the number of sectors. In float16 a row
# needs 16 elements. (Longer rows help in another way: fewer instructions move the same bytes. See *Alignment*.)
#
# ## Exercise: copy rows
#
# {{exercise coalescing.row_copy}}
#
# `x` is a matrix whose rows are dense but may lie apart: `x.stride(1)` is 1, and `x.stride(0)` may be more than N (a
# slice of a wider matrix looks like this). Return a contiguous copy. In torch this is `x.contiguous()`, except that
# yours always copies. Three lines of the kernel are missing; the function that launches it is yours.
#
# In all kernel exercises of this unit, torch may allocate (`torch.empty`, `torch.zeros`) and make views, but your
# kernel must do the work. Inputs are float32 or float16, of any size from 1 up.
#
# Full marks require
# * the right result for ragged sizes ({{correct.ragged}}) and for rows that lie apart ({{correct.strided}}),
# * loads and stores that touch no more sectors than they must ({{coalesced.load.performance +
#   coalesced.store.performance}}),
# * every element read once and written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}).
#
# Give each program some thousands of elements, because on a GPU this keeps enough bytes in flight.
#
# There is one limit: `rows * row_stride` is 32-bit arithmetic, which is right for offsets below 2³¹ elements (8 GiB of
# floats). A larger tensor needs `rows.to(tl.int64)`. No test here is that large.
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="coalescing.row_copy"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[m, n] = x[m, n] for one BLOCK_M x BLOCK_N tile; out is contiguous."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    ### BEGIN SOLUTION
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)  # BLOCK_M runs of BLOCK_N neighbours
    tl.store(out_ptr + rows * N + cols, tile, mask=inside)
    ### END SOLUTION


def row_copy(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N) with column stride 1 and any row stride -> (M, N), contiguous."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    BLOCK_N = min(1024, triton.next_power_of_2(N))
    BLOCK_M = 4096 // BLOCK_N
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    row_copy_kernel[grid](x, out, M, N, x.stride(0), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return out
    ### END SOLUTION


# %% check="coalescing.row_copy"
check("coalescing.row_copy", row_copy)

# %% [markdown]
# ## Exercise: gather rows
#
# {{exercise coalescing.gather_rows}}
#
# An embedding layer looks up one row of a table for each token. The rows come in any order. So is this access random,
# and slow? The rows are random, but the elements within a row are not. A random row of 1024 floats is 128 sectors, and
# all of their bytes are needed.
#
# Write `gather_rows(x, index)`, which returns `x[index]`, contiguous. `index` is a contiguous int64 tensor of K row
# numbers, each from 0 to M - 1, in any order and possibly repeated. Rows of x may lie apart, as in `row_copy`.
#
# Full marks require
# * the right result for ragged sizes ({{correct.ragged}}), repeated rows and rows that lie apart ({{correct.strided}}),
# * loads and stores that touch no more sectors than they must ({{coalesced.load.performance +
#   coalesced.store.performance}}),
# * no more bytes read from x than are returned ({{traffic.performance}}).
#
# There is extra credit on a GPU, for 8192 rows from a table of 8192 rows. You get {{speed}} if your kernel reaches
# {{speed.full}} of a copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="coalescing.gather_rows"
@triton.jit
def gather_rows_kernel(x_ptr, index_ptr, out_ptr, K, N, row_stride, BLOCK_K: tl.constexpr, BLOCK_N: tl.constexpr):
    """out[k, n] = x[index[k], n] for one BLOCK_K x BLOCK_N tile; out is contiguous."""
    ### BEGIN SOLUTION
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.load(index_ptr + k, mask=k < K, other=0)[:, None]  # (BLOCK_K, 1) row numbers
    inside = (k[:, None] < K) & (cols < N)
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside)
    tl.store(out_ptr + k[:, None] * N + cols, tile, mask=inside)
    ### END SOLUTION


def gather_rows(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """x: (M, N) with column stride 1, index: (K,) int64 -> (K, N), contiguous."""
    ### BEGIN SOLUTION
    (K,), N = index.shape, x.shape[1]
    out = torch.empty((K, N), dtype=x.dtype, device=x.device)
    BLOCK_N = min(1024, triton.next_power_of_2(N))
    BLOCK_K = 4096 // BLOCK_N
    grid = (triton.cdiv(K, BLOCK_K), triton.cdiv(N, BLOCK_N))
    gather_rows_kernel[grid](x, index, out, K, N, x.stride(0), BLOCK_K=BLOCK_K, BLOCK_N=BLOCK_N)
    return out
    ### END SOLUTION


# %% check="coalescing.gather_rows"
check("coalescing.gather_rows", gather_rows)

# %% [markdown]
# ## Turning a matrix
#
# A transpose reads along rows and writes down columns, or the other way round. Must either the reads or the writes be
# wasteful? Suppose that each program transposes 64 elements. They can form one row, or a square.

# %%
figures.coalescing.tile_footprints()

# %% [markdown]
# A row becomes a column, so its 64 stores touch 64 sectors. A square of 8 by 8 stays a square, with 8 runs of 8
# neighbours before the turn and 8 runs of 8 neighbours after it. For floats, both loads and stores are dense. (For
# float16 a run of 8 elements fills only half a sector.)
#
# What turns the tile? In CUDA you would write the steps yourself: copy the tile to shared memory along one axis, wait,
# and read it back along the other axis. In Triton you do not write these steps. The compiler chooses the layout of the
# lanes for each load and for each store separately, along the axis with stride 1. If the two layouts differ, it passes
# the block through shared memory. **Your part is a tile with enough neighbours along both axes.** A one-dimensional
# block, a tile of (BLOCK, 1) or a tile with a stride has too few neighbours along one axis, and is wasteful.
#
# On an H200, a float32 transpose of 8192 by 8192 was compared with a plain copy of as many bytes. Both were timed in
# the same run:
#
# | one program turns | one row | 16 × 16 | 32 × 32 | 64 × 64 | 128 × 128 |
# | --- | --- | --- | --- | --- | --- |
# | speed, copy = 1 | 0.115 | 0.69 | 0.93 | 0.97 | 0.89 |
#
# All the square tiles touch as few sectors as possible, and yet a tile of 16 × 16 is slower than a tile of 64 × 64.
# There are other costs besides sectors: 256 elements are little work for a program, and runs of 64 bytes fill only half
# of a line.
#
# ## Exercise: transpose, dense on both sides
#
# {{exercise coalescing.transpose}}
#
# Write `transpose(x)` for any (M, N) float32 or float16 matrix with any strides. It may be a slice, or itself a
# transposed view. In torch this is `x.T.contiguous()`. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}) and for strided views ({{correct.strided}}),
# * loads ({{coalesced.load.performance}}) **and** stores ({{coalesced.store.performance}}) that touch no more sectors
#   than they must, in float16 as well,
# * every element read once and written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}).
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="coalescing.transpose"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    """out[n, m] = x[m, n] for one BLOCK x BLOCK tile; out is contiguous."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)  # BLOCK runs of BLOCK neighbours
    tl.store(out_ptr + cols * M + rows, tile, mask=inside)  # and again on the way out
    ### END SOLUTION


def transpose(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N), any strides -> (N, M), contiguous."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    BLOCK = 64
    grid = (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))
    transpose_kernel[grid](x, out, M, N, x.stride(0), x.stride(1), BLOCK=BLOCK)
    return out
    ### END SOLUTION


# %% check="coalescing.transpose"
check("coalescing.transpose", transpose)

# %% [markdown]
# ## Summing the slow axis
#
# The sum of each *row* is easy: a program loads a row with its lanes side by side, and adds. The sum of each *column*
# adds numbers that are N elements apart. A first idea is to have one program for each column. What efficiency do you
# expect? Answer before you run the cell.


# %%
@triton.jit
def slow_column_sum(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    """Program c adds up column c: a block of BLOCK elements, N apart."""
    c, rows = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows * N + c, mask=rows < M, other=0)
    tl.store(out_ptr + c, tl.sum(x, axis=0))


x = torch.randn(512, 256)
out = torch.empty(256)
with trace() as t:
    slow_column_sum[(256,)](x, out, 512, 256, BLOCK=512)
print("right:", torch.allclose(out, x.sum(0), atol=1e-4))
print(f"{t.loads.sectors} sectors loaded, {x.numel() * 4 // 32} would do, efficiency {t.loads.efficiency:.1%}")

# %% [markdown]
# The result is right, but seven eighths of the traffic is wasted. A program need not work on *one* column. Give it a
# band of 64 neighbouring columns. It walks down the band in tiles and adds the tiles on top of each other. At the end
# the program adds up the rows of the resulting tile. Every load is then a tile with 64 neighbours.
#
# But how many programs does that make?

# %% gpu="coalescing.bands"
where = "this GPU" if device == "cuda" else "the GPU that we plan for"
for columns in (8192, 1024, 64):
    print(f"{columns:4} columns: {columns // 64:3} bands of 64, for {gpu.num_sms()} SMs ({where})")

# %% [markdown]
# With fewer programs than SMs some SMs idle, however tall the matrix is. So cut the bands across, too: each program
# adds up a *part* of the rows of its band, say 512. How are the parts added?
#
# Suppose that two programs each load the same sum, add their part and store it. If both load before either stores, one
# of the parts is lost. An **atomic** addition cannot be interrupted in this way: the L2 cache loads, adds and stores in
# one step, and nobody else reaches the element in between. In Triton this is `tl.atomic_add`. Here 8 programs count the
# elements of a vector, all into the same number.


# %%
@triton.jit
def count_kernel(out_ptr, n, BLOCK: tl.constexpr):
    """out[0] += how many of this program's BLOCK positions are elements; out begins with 0."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr, tl.sum((i < n).to(tl.float32)), sem="relaxed")


total = torch.zeros(1)
with trace():
    count_kernel[(8,)](total, 1000, BLOCK=128)
print("elements:", total.item())

# %% [markdown]
# The output must be 0 before the launch (`torch.zeros`). By default other loads and stores of the program wait for
# an atomic addition. `sem="relaxed"` spares them this wait, which nobody needs where nothing but the sum is shared.
# Pointers, values and a mask may be blocks, as in `tl.store`.
#
# So there are two ways to add the parts:
# * Use `tl.atomic_add` into an output of zeros. This takes one launch. But the parts arrive in any order, and float
#   addition is not associative, so the last bits may change from run to run.
# * Store the parts as a small (parts, N) matrix. Its column sums are the answer, and you have a kernel for column sums.
#   This way, the bits never change. But a second launch costs some microseconds, and for 8192 by 8192 floats an
#   H200 needs only {{measured column sums}} microseconds in all.
#
# Either way earns full marks.
#
# ## Exercise: column sums without slow reads
#
# {{exercise coalescing.column_sum}}
#
# Write `column_sum(x)`: (M, N) in float32 or float16 → (N,) in **float32**. Rows of x may lie apart. Add in float32,
# because 2048 + 1 is 2048 in float16. Full marks require
# * the right result for ragged sizes and rows that lie apart ({{correct.ragged}}), and for long columns in float16
#   ({{correct.float16}}),
# * loads that touch no more sectors than they must ({{coalesced.load.performance}}),
# * every element of x read once ({{traffic.performance}}),
# * that at least 8 programs share a tall matrix, 4096 by 128 ({{programs.tall}}).
#
# There is extra credit on a GPU, for 8192 × 8192 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of a
# copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="coalescing.column_sum"
@triton.jit
def column_sum_kernel(
    x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Add ROWS rows of one band of BLOCK_N columns into out[n]; BLOCK_M divides ROWS."""
    ### BEGIN SOLUTION
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    first = tl.program_id(1) * ROWS
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in tl.range(first, min(M, first + ROWS), BLOCK_M, num_stages=3):  # the next tiles are on their way (05)
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0)
        total += tile.to(tl.float32)
    tl.atomic_add(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=cols < N)  # BLOCK_M rows become one
    ### END SOLUTION


def column_sum(x: torch.Tensor) -> torch.Tensor:
    """x: (M, N) with column stride 1 -> (N,) float32, the sum over all rows."""
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32, device=x.device)  # the parts are added to what is there
    ROWS, BLOCK_M, BLOCK_N = 512, 128, 64
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, ROWS))
    column_sum_kernel[grid](x, out, M, N, x.stride(0), ROWS=ROWS, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N)
    return out
    ### END SOLUTION


# %% check="coalescing.column_sum"
check("coalescing.column_sum", column_sum)

# %% [markdown]
# ## Alignment: one element more
#
# A matrix of 1000 columns gets one column more, so its rows are 0.1 % longer. What does that do to the sectors that a
# kernel reads?

# %%
figures.coalescing.padding_drift()

# %% [markdown]
# 1000 floats are 4000 bytes, exactly 125 sectors, so each row starts where a sector starts. 1001 floats are 4004 bytes,
# and each row starts 4 bytes further into its sector than the row above. So a run of 8 floats touches two sectors in 7
# of 8 rows, which makes 1.88 times as many sectors in all. Longer runs lose less, because only their ends reach into
# another sector.
#
# The cure is to let rows lie further apart than they are long. With a row stride of 1008, rows of 1001 elements waste
# 28 bytes each, but every row starts at the beginning of a sector again. Libraries call the row stride *leading
# dimension* or *pitch*.
#
# ## Exercise: pad the rows
#
# {{exercise coalescing.padded_stride}}
#
# What is the smallest row stride, in elements, that is at least `n` and starts every row on a sector boundary?
# `itemsize` is 1, 2, 4, 8 or 16 bytes, and row 0 is at the start of a sector. Full marks require a stride
# * with which every row starts on a sector boundary, as a trace of four rows confirms ({{holds.starts_sectors.plain}}),
# * that is no larger than it must be ({{correct.plain}}).


# %% exercise="coalescing.padded_stride"
def padded_stride(n: int, itemsize: int) -> int:
    """Elements per row, bytes per element -> smallest row stride >= n, in elements, that is a multiple of a sector."""
    ### BEGIN SOLUTION
    per_sector = 32 // itemsize
    return triton.cdiv(n, per_sector) * per_sector
    ### END SOLUTION


# %% check="coalescing.padded_stride"
check("coalescing.padded_stride", padded_stride)

# %% [markdown]
# ### When an index no longer fits
#
# Triton gives an integer argument below 2³¹ only 32 bits, so `rows * stride_m` is a product of two 32-bit numbers. At
# 2³¹ elements it wraps and becomes negative, and the load goes somewhere else. A cast afterwards, `(rows *
# stride_m).to(tl.int64)`, comes too late; `rows.to(tl.int64) * stride_m` is right. This error often appears in kernels
# that have worked for years (megablocks #185, flash-linear-attention #1082), because it shows only in large batches.
#
# ### Vector loads
#
# Alignment has a second benefit. Up to Hopper, a lane can load at most 16 bytes with one instruction: four floats, 128
# bits. (From Blackwell on, sm_100, it can load 32.) With such loads, a quarter of the instructions move the same bytes.
# For this, the address must be a multiple of 16 bytes, **and the compiler must know that it is**.
#
# How would it know? When you launch a kernel, Triton checks for each integer argument whether it is divisible by 16. If
# it is, Triton compiles a version of the kernel that relies on this. `compile_for` does the same without a GPU, and
# reads the width of the loads from the PTX, NVIDIA's portable assembly.

# %%
x, out = torch.randn(32, 1024), torch.empty(32, 128)
for row_stride in (1008, 1000, 1001):
    facts = compile_for(load_tile, x, out, row_stride, BLOCK_M=32, BLOCK_N=128, gpu="sm_90")
    print(f"row stride {row_stride}: a lane loads {facts.load_bits} bits at a time and stores {facts.store_bits}")

# %% [markdown]
# 1001 is no surprise. But why does 1000 get narrow loads? Its rows start at multiples of 4000 bytes, and 4000 is
# divisible by 16. So the *kernel* could load 128 bits. But the *compiler* is only told whether the stride in elements
# is divisible by 16, and 1000 = 62 × 16 + 8. This is a second reason to pad. So the smallest stride that starts
# sectors, 1000, is not yet the best one: pad to multiples of 16 elements, here 1008. A load of 128 bits appears in the
# PTX as `ld.global.v4.b32`, and in SASS, the machine code that `cuobjdump -sass` prints from a compiled kernel, as
# `LDG.E.128`.
#
# How much can alignment matter in the end? A bfloat16 matmul by cuBLAS, NVIDIA's library for matrix products, runs on
# an H200 at {{measured product 4096}} TFLOP/s for N = 4096, and at {{measured product 4097}} for N = 4097. Alignment is
# not the only cause; see *More* in unit 05.

# %% [markdown]
# ## What limits it?
#
# `profile` sets what a trace counts beside the *roofline* of unit 03: the least time to move each byte once, by the
# card's datasheet. If there is a GPU, it also launches the kernel there and says how long it took. Where NVIDIA's
# profiler Nsight Compute (`ncu`) may read the GPU's counters, a second column shows what the GPU counted, and a sentence
# names the limit. Here is `slow_column_sum` once more. From the L2 cache it asks for eight times the bytes that it needs,
# but main memory sends each byte only once, since the L2 keeps it. Guess first: how many times the least time does it take
# on a GPU?

# %% gpu="coalescing.profile"
x, out = torch.randn(512, 8192, device=device), torch.empty(8192, device=device)
profile(lambda: slow_column_sum[(8192,)](x, out, 512, 8192, BLOCK=512))

# %% [markdown]
# And your own kernels? On a GPU, each check of a kernel here also times it against a copy of the bytes that must move.

# %%
figures.timed.on_your_card("coalescing")

# %% [markdown]
# ## What you now know
#
# * Memory moves sectors of 32 bytes, not elements. Efficiency is the bytes that you wanted divided by the bytes that
#   were moved. A stride of 2 halves the efficiency, and from a stride of 8 floats on it is one eighth.
# * A mask saves a sector only if it hides the whole sector.
# * Triton lays out the lanes of each load and each store along the axis with stride 1. Your part is a tile with
#   enough neighbours there: 8 floats or 16 halves fill a sector, longer runs fill lines.
# * If an axis is slow, let a program take a band of neighbours across it, and cut the long axis into parts so that
#   all SMs have work.
# * Rows that start on sector boundaries touch fewer sectors. If the strides are divisible by 16, a lane loads 128 bits
#   at a time.
# * A trace names the load that is wasteful. If nothing spills and no cache helps, the trace counts as many sectors as
#   the hardware does.
#
# Every kernel in this unit read its input once. In unit 05, a matrix product needs each element many times, and
# the question becomes how to keep elements close by.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks on
# inputs that you have not seen.

# %% [markdown]
# ## More
#
# {{unit more}} You find out what each stride costs, break a transpose, separate interleaved data without a wasted
# sector (if a stride cannot be avoided, load densely and rearrange in registers), see how a warp takes both branches of
# an `if`, and name six wasteful kernels by their pictures.

# %% [markdown]
# ## Exercise: what a stride costs
#
# {{exercise coalescing.strided_efficiency}}
#
# There are 32 lanes. Lane i reads element `i * stride`, and element 0 is at the start of a sector. What is the
# efficiency? `stride` is at least 1. You may call `sectors_touched`, or find a formula.
#
# Full marks require your numbers to equal those of a traced copy
# * at strides 1, 2, 4, 8, 32 in float32 ({{correct.float32}}),
# * at odd strides and with 1, 2 and 8 bytes per element ({{correct.other dtypes}}).


# %% exercise="coalescing.strided_efficiency"
def strided_efficiency(stride: int, itemsize: int) -> float:
    """Useful bytes / moved bytes of 32 lanes that read elements 0, stride, 2 * stride, ... of `itemsize` bytes."""
    ### BEGIN SOLUTION
    addresses = [lane * stride * itemsize for lane in range(32)]
    return 32 * itemsize / (32 * sectors_touched(addresses, itemsize))
    ### END SOLUTION


# %% check="coalescing.strided_efficiency"
check("coalescing.strided_efficiency", strided_efficiency)

# %% [markdown]
# ## Exercise: break a transpose
#
# {{exercise coalescing.break_transpose}}
#
# A mistake is found only if somebody thinks of an input that shows it. Below is a correct kernel. There are also wrong
# versions of it, called *mutants*. Each mutant has one change: for example, a mask is missing, one stride is confused
# with another, or the axes of the grid are swapped. On many inputs a mutant still gives the right result. Write inputs
# on which it gives a wrong one.
#
# `breaking_inputs()` returns a list of at most three dicts, `{"x": tensor}`. Each tensor has two axes and any strides,
# and may span at most 16,384 numbers of float32 or float16. The check first runs the given kernel on all of your
# inputs. **If the given kernel fails on one of them, you earn nothing.** Then the check runs the mutants. A mutant is
# *killed* if its result is wrong on one of your inputs, or if it reaches outside a tensor. The check in this notebook
# has four mutants, and the grader has more. Random matrices of ordinary sizes kill about half of the mutants. So up to
# half of them earn nothing, and the others share {{kills.mutants}}: of four mutants here, two killed earn nothing,
# three earn half, and four earn all.

# %% given="coalescing.break_transpose"


# %% exercise="coalescing.break_transpose"
def breaking_inputs() -> list[dict]:
    """At most three inputs, `{"x": tensor}`, that expose wrong versions of the kernel."""
    ### BEGIN SOLUTION
    large, tiny = 1e6 * torch.randn(80, 150) + 0.25, 1e-9 * torch.randn(131, 37)
    apart = large[::2, ::3]  # neither rows nor columns are neighbours
    return [{"x": apart}, {"x": tiny}, {"x": torch.randn(1, 160)}]
    ### END SOLUTION


# %% check="coalescing.break_transpose"
check("coalescing.break_transpose", breaking_inputs)

# %% [markdown]
# ## A stride that you cannot avoid
#
# Some data comes interleaved, such as real and imaginary parts, left and right channels, or the pairs that a rotary
# embedding turns. You want the even elements in one tensor and the odd elements in another. To fill either of them, you
# read with stride 2.


# %%
@triton.jit
def slow_deinterleave(x_ptr, even_ptr, odd_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    even = tl.load(x_ptr + 2 * i, mask=i < n)
    odd = tl.load(x_ptr + 2 * i + 1, mask=i < n)
    tl.store(even_ptr + i, even, mask=i < n)
    tl.store(odd_ptr + i, odd, mask=i < n)


x = torch.randn(8192)
with trace() as t:
    slow_deinterleave[(2,)](x, torch.empty(4096), torch.empty(4096), 4096, BLOCK=2048)
print(f"{t.loads.sectors} sectors loaded, {x.numel() * 4 // 32} would do, efficiency {t.loads.efficiency:.0%}\n")
print(t.source())

# %% [markdown]
# `t.source()` writes the bytes and the efficiency of each line next to it. Each load skips every other element, and the
# second load asks for the same sectors again. How could one load be enough?
#
# Load a dense block of twice the length, and separate its elements in registers, where moving them is cheap. If you
# reshape a block of 2 n neighbours to (n, 2), the even elements are in the first column and the odd elements in the
# second.
#
# * `tl.reshape(block, (n, 2))` keeps the order and gives n rows of 2.
# * `tl.split(pairs)` divides a block (n, 2) into two blocks (n,): the first column and the second.
#
# ## Exercise: deinterleave
#
# {{exercise coalescing.deinterleave}}
#
# Write `deinterleave(x)`: a contiguous x of shape (2 N,) → two tensors of shape (N,), the even and the odd elements. In
# torch this is `x[0::2].contiguous(), x[1::2].contiguous()`. Full marks require
# * the right result for ragged sizes ({{correct.ragged}}), in float16 as well ({{correct.float16}}),
# * loads ({{coalesced.load.performance}}) and stores ({{coalesced.store.performance}}) that touch no more sectors than
#   they must,
# * every element read once and written once, by at least 32 programs where the input is large
#   ({{traffic.performance}}).
#
# There is extra credit on a GPU, for 2 × 33,554,432 numbers. You get {{speed}} if your kernel reaches {{speed.full}} of
# a copy's speed, and some of the points if it reaches more than {{speed.none}}.


# %% exercise="coalescing.deinterleave"
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, N, BLOCK: tl.constexpr):
    """even[i], odd[i] = x[2 i], x[2 i + 1] for BLOCK of the N pairs."""
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    j = pid * 2 * BLOCK + tl.arange(0, 2 * BLOCK)  # elements of x
    pairs = tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))
    even, odd = tl.split(pairs)
    i = pid * BLOCK + tl.arange(0, BLOCK)  # pairs
    tl.store(even_ptr + i, even, mask=i < N)
    tl.store(odd_ptr + i, odd, mask=i < N)
    ### END SOLUTION


def deinterleave(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """x: (2 N,), contiguous -> (N,) even elements, (N,) odd elements."""
    ### BEGIN SOLUTION
    N = x.shape[0] // 2
    even = torch.empty(N, dtype=x.dtype, device=x.device)
    odd = torch.empty(N, dtype=x.dtype, device=x.device)
    BLOCK = 2048
    deinterleave_kernel[(triton.cdiv(N, BLOCK),)](x, even, odd, N, BLOCK=BLOCK)
    return even, odd
    ### END SOLUTION


# %% check="coalescing.deinterleave"
check("coalescing.deinterleave", deinterleave)

# %% [markdown]
# ## Divergence: both branches run
#
# The 32 lanes of a warp share one instruction at a time. What happens at an `if` whose condition is true for some lanes
# and false for others? The warp goes through **both** branches, one after the other, while the lanes that take the
# other branch wait. The picture shows three warps. In the first all lanes agree, in the second they alternate, and the
# third is short, and all its lanes agree.

# %%
figures.coalescing.divergence_timeline([True] * 32 + [lane % 2 == 0 for lane in range(32)] + [False] * 20)

# %% [markdown]
# ## Exercise: count the passes
#
# {{exercise coalescing.divergence_passes}}
#
# `taken[i]` says whether thread i (a lane) takes the if. Threads are dealt to warps in order, `warp` at a time, and the
# last warp may be short. A warp whose threads agree makes one pass, and a divided warp makes two. How many passes do
# all warps make together?
#
# Full marks require the right number for whole warps ({{correct.whole warps}}) and for short last warps, for other warp
# sizes, and for no threads at all ({{correct.short warps}}).


# %% exercise="coalescing.divergence_passes"
def divergence_passes(taken: list[bool], warp: int = 32) -> int:
    """For each thread, whether it takes the if -> passes over the if and the else, summed over the warps."""
    ### BEGIN SOLUTION
    return sum(len(set(taken[start : start + warp])) for start in range(0, len(taken), warp))
    ### END SOLUTION


# %% check="coalescing.divergence_passes"
check("coalescing.divergence_passes", divergence_passes)

# %% [markdown]
# In Triton you seldom see divergence in an `if`. An `if` on a *number* sends the whole program one way. An `if` on a
# *block* is not allowed. For a block you write `tl.where(condition, a, b)`, which computes both a and b for every lane.
# So both branches always run, and the code shows this.
#
# What about memory? Through the mask, a lane can leave out the loads of the branch that it does not take. When does
# this save sectors? Guess the four numbers in each row before you run the cell.


# %%
@triton.jit
def choose(condition_ptr, a_ptr, b_ptr, out_ptr, MASKED: tl.constexpr):
    """out[i] = a[i] if condition[i] else b[i]"""
    i = tl.arange(0, 1024)
    condition = tl.load(condition_ptr + i)
    if MASKED:  # a number known to the compiler: no divergence here
        a = tl.load(a_ptr + i, mask=condition != 0, other=0)
        b = tl.load(b_ptr + i, mask=condition == 0, other=0)
    else:
        a = tl.load(a_ptr + i)
        b = tl.load(b_ptr + i)
    tl.store(out_ptr + i, tl.where(condition != 0, a, b))


i = torch.arange(1024)
conditions = {"alternating": i % 2 == 0, "runs of 8": i // 8 % 2 == 0, "first half": i < 512, "all": i >= 0}
a, b = torch.ones(1024), torch.zeros(1024)
print("sectors loaded of      a, b       a, b masked")
for name, condition in conditions.items():
    counts = []
    for masked in (False, True):
        with trace() as t:
            choose[(1,)](condition.to(torch.int8), a, b, torch.empty(1024), MASKED=masked)
        counts.append([t.accesses_to(tensor, "load").sectors for tensor in ("a_ptr", "b_ptr")])
    print(f"{name:>16} {counts[0][0]:7}, {counts[0][1]:<7} {counts[1][0]:4}, {counts[1][1]}")

# %% [markdown]
# With *runs of 8* every warp is divided, and yet the masks halve the sectors, because 8 floats are a whole sector. With
# *alternating* the masks save nothing. For instructions it matters whether the lanes of a warp agree. For memory it
# matters whether the lanes that share a sector agree.
#
# ## Exercise: name it
#
# {{exercise coalescing.name_lanes}}
#
# If a kernel is wasteful, the verdict shows one of its requests: 32 lanes, and the sectors that they touch. Here are
# such pictures of six kernels. Which cause belongs to which picture? Write one of the following causes on each line, in
# quotes. Then run the check, which explains each picture that you have named correctly.
#
# * `"a gather of rows by index"`
# * `"a tile whose rows are half a sector"`
# * `"down a column"`
# * `"one field of a structure of two"`
# * `"one number for all"`
# * `"the rows of a matrix that is not padded"`
#
# Guessing alone gets some answers right, so the first three right answers earn nothing, and each further right answer
# earns {{names.plain / 3}} ({{names.plain}} in all).

# %%
figures.coalescing.name_lanes()

# %% exercise="coalescing.name_lanes"
named_lanes = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
    "E": ...,
    "F": ...,
}
### BEGIN SOLUTION
named_lanes = {
    "A": "down a column",
    "B": "a gather of rows by index",
    "C": "the rows of a matrix that is not padded",
    "D": "a tile whose rows are half a sector",
    "E": "one field of a structure of two",
    "F": "one number for all",
}
### END SOLUTION

# %% check="coalescing.name_lanes"
check("coalescing.name_lanes", named_lanes)

# %% [markdown]
# ## Exercise: a work log of a transpose
#
# {{exercise coalescing.transpose_log}}
#
# Engineers who make a kernel fast keep a log: what they are about to change, what they expect of it, and what was
# measured. In a **work log** you do this three times with one kernel. You begin with a version that wastes a lot. For
# each **round** you first state how many bytes your next version will move, how many sectors it will touch, and how
# many launches it will make. Only then do you write it. The traces of both versions show what did change.
#
# Here is the version to begin with, and what it moves.

# %%
from course_lib import worklog

worklog("coalescing.transpose_log")

# %% [markdown]
# `transpose_log()` returns your rounds as a list of dicts. This one would be right for a copy of x in one launch:
#
#     {"change": "copy x in one launch", "bytes": "8*M*N", "sectors": "M*N/4", "launches": 1, "version": copy_of}
#
# * `change` says in your words what is new.
# * `bytes`, `sectors` and `launches` are totals of the new version, loads and stores together. They are **formulas**, in
#   quotes: numbers, M, N, `+ - * /`, `//`, and `cdiv(a, b)` for a division that rounds up. A plain number is right for one
#   shape alone, and the check has others.
# * `version` is the function, called with x alone. Leave it out while you have only stated the round. Then run the last
#   cell of this section: your logbook keeps what you stated, and when.
#
# A round holds if its version is right, each of its numbers is at most a tenth off, and at least one of them is a tenth
# below that of every version before it, the first one included. Three rounds that hold give {{rounds_held.performance}},
# each a third of them. A round that does not hold costs nothing: of up to five rounds, three must hold. M and N are
# multiples of 128, so no tile is cut off.
#
# The check cannot know when you wrote a formula. The page below shows what was stated before its version was there, and
# what was changed afterwards. `strides log` makes a file of that page, which you can hand in as well or print.


# %% exercise="coalescing.transpose_log"
### BEGIN SOLUTION
@triton.jit
def log_row_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    m, cols = tl.program_id(0), tl.arange(0, BLOCK)
    row = tl.load(x_ptr + m * N + cols, mask=cols < N)
    tl.store(out_ptr + cols * M + m, row, mask=cols < N)


@triton.jit
def log_tile_kernel(x_ptr, out_ptr, M, N, TILE: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)[:, None]
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)[None, :]
    tile = tl.load(x_ptr + rows * N + cols)
    tl.store(out_ptr + cols * M + rows, tile)


def without_a_copy(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    log_row_kernel[(M,)](x, out, M, N, BLOCK=triton.next_power_of_2(N))
    return out


def by_small_tiles(x, tile=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    log_tile_kernel[(M // tile, N // tile)](x, out, M, N, TILE=tile)
    return out


def by_large_tiles(x):
    return by_small_tiles(x, tile=32)


### END SOLUTION
def transpose_log():
    """The rounds, in order: dicts of change, bytes, sectors, launches and version."""
    ### BEGIN SOLUTION
    return [
        # each stored number touches a sector of its own
        {"change": "no copy", "bytes": "8*M*N", "sectors": "M*N/8 + M*N", "launches": 1, "version": without_a_copy},
        # runs of 4 floats use half of each sector, on both sides
        {"change": "tiles of 4 x 4", "bytes": "8*M*N", "sectors": "M*N/2", "launches": 1, "version": by_small_tiles},
        {"change": "tiles of 32 x 32", "bytes": "8*M*N", "sectors": "M*N/4", "launches": 1, "version": by_large_tiles},
    ]
    ### END SOLUTION


# %% check="coalescing.transpose_log"
check("coalescing.transpose_log", transpose_log)

# %%
worklog("coalescing.transpose_log", transpose_log)

# %% [markdown]
# ## Further reading
#
# * NVIDIA, *CUDA C++ Best Practices Guide*, the chapter on memory optimizations: coalesced access to global memory,
#   with the effect of misaligned and of strided accesses measured.
# * NVIDIA, *CUDA C++ Programming Guide*, on SIMT architecture: how a warp executes a branch.
# * The Triton documentation: the tutorials (vector addition, fused softmax), and `tl.load`, `tl.reshape`,
#   `tl.split` in the language reference.
# * Horace He, *Making Deep Learning Go Brrrr From First Principles*: which of compute, bandwidth and overhead a
#   model waits for.
# * GPU MODE, a lecture series and community: the lectures on memory, and on profiling CUDA kernels in PyTorch.
# * Stanford, *CS336: Language Modeling from Scratch*: the part of the lecture on GPUs that covers coalescing and
#   bursts.
# * NVIDIA, *Nsight Compute* documentation, the memory tables: where each counter sits between an SM and DRAM.
