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
# # 14 · Hopper by hand
#
# **After this unit you can** write Hopper's instructions by hand: barriers with phases, copies by TMA, `wgmma`, and
# warps with roles. You can build a product in which copies and tensor cores work at the same time. And you can say
# which wait is missing in a kernel that is wrong in one run of a thousand. You need 05 (tiles, a matmul) and 09
# (FlashAttention). You need no Hopper and no other GPU: kernels in **Gluon**, the language below Triton, run here in a
# simulator that tries many orders, and names what goes wrong in any of them.

# %%
import torch
import triton

from course_lib import check, figures, hint, progress  # noqa: F401 (some are yours to call)
from tritontrace.hopper import simulate
from tritontrace.hopper.language import (  # noqa: F401 (yours to use)
    TensorDescriptor,
    barrier,
    commit_group,
    copy_async,
    fence_async_shared,
    gl,
    gluon,
    mbarrier,
    mma,
    mma_wait,
    new_barriers,
    store_wait,
    tma_load,
    tma_store,
    wait_group,
)

# %% [markdown]
# # Part one: one asynchronous thing at a time
#
# ## Gluon in one kernel
#
# Unit 13 takes its time with Gluon. If you come from there, go on to the next section. If you do not, this kernel has all
# of it that you need. It turns a matrix round by way of shared memory. In which line does a copy begin, and in which two
# lines does the program make sure that it has ended?


# %%
LANES = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]))


@gluon.jit
def through_shared(x_ptr, y_ptr):
    tile = gl.allocate_shared_memory(gl.float32, [32, 32], gl.SwizzledSharedLayout(1, 1, 32, [1, 0]))
    rows, cols = gl.arange(0, 32, gl.SliceLayout(1, LANES)), gl.arange(0, 32, gl.SliceLayout(0, LANES))
    offs = rows[:, None] * 32 + cols[None, :]
    copy_async(tile, x_ptr + offs)
    commit_group()
    wait_group(0)
    barrier()
    gl.store(y_ptr + offs, tile.permute((1, 0)).load(LANES))


x = torch.arange(1024.0).reshape(32, 32)
y = torch.empty_like(x)
print(simulate(through_shared[(1,)], x, y, num_warps=4))
print("transposed:", torch.equal(y, x.T))

# %% [markdown]
# | in the kernel | what it means |
# | --- | --- |
# | `LANES` | a **layout**: which lane of which warp holds which element of a block. Here a warp has a row |
# | `SliceLayout(1, LANES)` | the same layout without axis 1, for a vector of rows |
# | `allocate_shared_memory` | a **tile**: shared memory with a shape, its columns spread over the banks |
# | `copy_async`, `commit_group` | each thread starts its copies from global memory to the tile, and closes a group of them |
# | `wait_group(0)` | a thread waits until no group of its own copies is under way |
# | `barrier()` | all threads of the program have come here: `__syncthreads()` in CUDA C++ |
# | `permute`, `load` | the tile read the other way, into registers |
# | `simulate` | runs the kernel in several orders, and names what goes wrong in any of them |
#
# Leave out `wait_group(0)`, and the simulator names the line that reads too early. A GPU might pass every test.
#
# With several tiles in a **ring**, the next ones come while this one is read: step i uses slot i mod SIZE, and a slot is
# filled again when its reader is done. With groups a thread can do this for its own copies. Below, one warp does it for
# all.
#
# ## A barrier that counts, and its phases
#
# Groups tell a thread about its own copies. What if one warp fetches, and others compute? They need something in shared
# memory that both can see: an **mbarrier**. It counts arrivals. When it has counted as many as it needs, it opens, and
# begins to count again. Each such count is a **phase**. A thread that waits names a phase by its last bit, the
# **parity**: 0 for phase 0, 1 for phase 1, 0 for phase 2.
#
# `b = new_barriers(SIZE, COUNT)` makes SIZE mbarriers, each of which needs COUNT arrivals, and `b.index(i)` is one of
# them. `mbarrier.arrive(b)` is *one* arrival, however many threads run this line: Gluon waits for all threads, and then
# one of them arrives.
#
# (An mbarrier is an object of PTX. CUDA C++ wraps it as `cuda::barrier`; authors of fast kernels often write the PTX,
# as Gluon does.)
#
# `mbarrier.wait(b, 0)` on a new barrier waits for phase 0. What does `mbarrier.wait(b, 1)` do? Guess, then run the
# cell, in which no thread ever arrives.


# %%
@gluon.jit
def alone(PARITY: gl.constexpr):
    b = new_barriers(1, 1)
    mbarrier.wait(b.index(0), PARITY)


for parity in (1, 0):
    print(f"parity {parity}:", simulate(alone[(1,)], PARITY=parity, num_warps=4))

# %% [markdown]
# A wait for parity 1 passes, as if a phase before the first had ended. Every ring uses this trick. Each slot has two
# barriers: `full`, for which the reader waits, and `empty`, for which the writer waits before it fills the slot again.
# In the first round all slots are free, and the writer's wait for parity 1 passes at once. Move the slider through the
# rounds:

# %%
figures.hopper.explore_ring()

# %% [markdown]
# ## Exercise: which slot, which parity
#
# {{exercise hopper.phase_of}}
#
# Write `phase_of(i, SIZE)` for tile i of a ring of SIZE slots: the slot, the parity with which its reader waits for
# `full[slot]`, and the parity with which its writer waits for `empty[slot]`. Half of the rings have two slots
# ({{correct.two}}), and the others have from one to eight ({{correct.other}}).


# %% exercise="hopper.phase_of"
def phase_of(i, SIZE):
    ### BEGIN SOLUTION
    return i % SIZE, i // SIZE & 1, (i // SIZE + 1) & 1
    ### END SOLUTION


# %% check="hopper.phase_of"
check("hopper.phase_of", phase_of)

# %% [markdown]
# ## An engine that copies tiles
#
# With `copy_async` every thread computes an address. Hopper has an engine that copies whole tiles, the **Tensor Memory
# Accelerator**, TMA. It gets a **descriptor**, which says once and for all what a matrix looks like: the tensor, its
# shape and strides, the shape of a tile, and how the tile lies in shared memory. One thread asks for a tile (you write
# `tma_load` for all threads, and Gluon chooses one of them), and the engine tells a barrier how many bytes have come.
#
# So the barrier must know how many bytes to wait for. `mbarrier.expect(b, nbytes)` tells it, and is an arrival at the
# same time. What happens if nbytes is too small, or too large? Guess, then run the cell, which tries both.

# %%
TMA_TILE = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)


@gluon.jit
def fetch_one(x_desc, y_ptr, EXPECTED: gl.constexpr):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(gl.float16, [64, 64], x_desc.layout)
    come = new_barriers(1, 1)
    mbarrier.expect(come.index(0), EXPECTED)
    tma_load(x_desc, [0, 0], come.index(0), tile)
    mbarrier.wait(come.index(0), 0)
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + rows[:, None] * 64 + cols[None, :], tile.load(ROWS))


x, y = torch.randn(50, 64).half(), torch.empty(64, 64).half()
described = TensorDescriptor.from_tensor(x, [64, 64], TMA_TILE)
for nbytes in (64 * 64 * 2, 50 * 64 * 2, 64 * 64 * 4):
    print(f"{nbytes} bytes expected:", simulate(fetch_one[(1,)], described, y, EXPECTED=nbytes, num_warps=4))

# %% [markdown]
# The matrix has 50 rows, and the tile has 64. TMA fills the other rows with zeros and counts them, too: a tile is
# always 8,192 bytes. When TMA stores a tile, it leaves out what lies outside the matrix. There are no masks.
#
# A descriptor knows its tile: `x_desc.block_type.nbytes` are its bytes, `x_desc.dtype` is its dtype. TMA does not convert,
# so a tile for numbers that may be float16 or bfloat16 is allocated with `x_desc.dtype`. The layout depends on the width of
# an element alone, so one made for float16 serves both.
#
# A store is asynchronous, too: `tma_store(desc, [row, col], tile)` returns before the tile has been read.
# `store_wait(0)` waits until it has been read.
#
# ## Exercise: a copy without a register
#
# {{exercise hopper.tma_copy}}
#
# Write `tma_copy(x)`, which returns a copy of x. Each program brings one tile into shared memory, and sends it on from
# there. No number passes through a register. x is of float16 or bfloat16, N is a multiple of 8, and the rows of x are a
# multiple of 16 bytes apart. Full marks require
# * the right result if tiles reach past the edges ({{correct.ragged}}), and if there are gaps between the rows of x
#   ({{correct.strided}}),
# * that TMA reads everything ({{uses.TMA load.performance}}) and writes everything ({{uses.TMA store.performance}}),
# * each element read once and written once ({{traffic.performance}}).


# %% exercise="hopper.tma_copy"
### BEGIN SOLUTION
@gluon.jit
def tma_copy_kernel(x_desc, y_desc):
    tile = gl.allocate_shared_memory(x_desc.dtype, x_desc.block_type.shape, x_desc.layout)
    come = new_barriers(1, 1)
    row, col = gl.program_id(0) * x_desc.block_type.shape[0], gl.program_id(1) * x_desc.block_type.shape[1]
    mbarrier.expect(come.index(0), x_desc.block_type.nbytes)
    tma_load(x_desc, [row, col], come.index(0), tile)
    mbarrier.wait(come.index(0), 0)
    tma_store(y_desc, [row, col], tile)
    store_wait(0)


### END SOLUTION
def tma_copy(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    x_desc, y_desc = (TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (x, out))
    tma_copy_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x_desc, y_desc, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.tma_copy"
check("hopper.tma_copy", tma_copy)

# %% [markdown]
# ## Two who do not wait for each other
#
# Now put the ring and TMA together. `gl.warp_specialize` splits a program into **partitions**: here one warp that only
# fetches, and four warps that only add. (These are not the four partitions of an SM.) Each partition has
# its own code, and they meet only at barriers. Four warps are a **warpgroup**, the unit that will multiply below.
#
#     gl.warp_specialize(
#         [
#             (add_up, (y_ptr, tiles, full, empty, ...)),   # runs on the kernel's own four warps
#             (fetch, (x_desc, tiles, full, empty, ...)),   # runs on one more
#         ],
#         [1],     # warps of each further partition
#         [24],    # registers for each of their threads
#     )
#
# ## Exercise: a ring with a fetcher
#
# {{exercise hopper.ring_column_sum}}
#
# Write `ring_column_sum(x)`, which returns the sums of columns once more. x is of float16 or bfloat16, and the sums are
# in float32. One partition fetches tiles of 64 x 64 into a ring by TMA, and the other adds them up. With 640 rows and
# two slots the ring goes round five times. A ring is one allocation with an axis in front,
# `gl.allocate_shared_memory(x_desc.dtype, [2, 64, 64], x_desc.layout)`, and `tiles.index(i)` is its tile i. Full marks
# require
# * the right sums for ragged sizes and for a single row ({{correct.ragged}}),
# * that everything is read by TMA ({{uses.TMA load.performance}}), and only once ({{traffic.performance}}),
# * copies under way while at least seven tenths of the tiles are added up ({{overlapped.performance}}),
# * at most four tiles in shared memory ({{shared_bytes.performance}}).


# %% exercise="hopper.ring_column_sum"
### BEGIN SOLUTION
@gluon.jit
def fetch(x_desc, tiles, full, empty, steps, SIZE: gl.constexpr):
    for i in range(steps):
        mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)
        mbarrier.expect(full.index(i % SIZE), x_desc.block_type.nbytes)
        row = i * x_desc.block_type.shape[0]
        tma_load(x_desc, [row, gl.program_id(0) * 64], full.index(i % SIZE), tiles.index(i % SIZE))


@gluon.jit
def add_up(y_ptr, tiles, full, empty, steps, N, SIZE: gl.constexpr):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    acc = gl.zeros((64, 64), gl.float32, ROWS)
    for i in range(steps):
        mbarrier.wait(full.index(i % SIZE), i // SIZE & 1)
        acc += tiles.index(i % SIZE).load(ROWS).to(gl.float32)
        mbarrier.arrive(empty.index(i % SIZE))
    cols = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + cols, gl.sum(acc, 0), mask=cols < N)


@gluon.jit
def ring_kernel(x_desc, y_ptr, M, N, SIZE: gl.constexpr):
    tiles = gl.allocate_shared_memory(x_desc.dtype, [SIZE, 64, 64], x_desc.layout)
    full = new_barriers(SIZE, 1)
    empty = new_barriers(SIZE, 1)
    steps = gl.cdiv(M, 64)
    gl.warp_specialize(
        [
            (add_up, (y_ptr, tiles, full, empty, steps, N, SIZE)),
            (fetch, (x_desc, tiles, full, empty, steps, SIZE)),
        ],
        [1],
        [24],
    )


### END SOLUTION
def ring_column_sum(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    x_desc = TensorDescriptor.from_tensor(x, [64, 64], layout)
    ring_kernel[(triton.cdiv(N, 64),)](x_desc, out, M, N, SIZE=2, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.ring_column_sum"
check("hopper.ring_column_sum", ring_column_sum)

# %% [markdown]
# ## A product that is under way
#
# On Hopper a warpgroup multiplies two tiles with one instruction, **wgmma**. The instruction reads both operands from
# shared memory, or the left one from registers. It adds to an accumulator that is spread over the registers of the 128
# threads, in the layout `NVMMADistributedLayout`. (In `[3, 0], [4, 1], [16, 64, 16]` the 3 stands for Hopper's
# instruction, and `[4, 1]` for four warps, one below the other. The last list says that each warp has 16 rows of 64
# sums, and that an instruction takes 16 steps of K.) And wgmma is asynchronous: `mma(a, b, acc, is_async=True)` returns
# at once. Which two things must not happen before `mma_wait`?


# %%
@gluon.jit
def impatient(a_desc, b_desc, c_ptr):
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(gl.float16, [64, 64], a_desc.layout)
    b = gl.allocate_shared_memory(gl.float16, [64, 64], b_desc.layout)
    come = new_barriers(1, 1)
    mbarrier.expect(come.index(0), 2 * a_desc.block_type.nbytes)
    tma_load(a_desc, [0, 0], come.index(0), a)
    tma_load(b_desc, [0, 0], come.index(0), b)
    mbarrier.wait(come.index(0), 0)
    acc = mma(a, b, gl.zeros((64, 64), gl.float32, ACC), is_async=True)
    acc = mma_wait(1, deps=[acc])  # one product may still be under way
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, ACC)), gl.arange(0, 64, gl.SliceLayout(0, ACC))
    gl.store(c_ptr + rows[:, None] * 64 + cols[None, :], acc)


a, b, c = torch.randn(64, 64).half(), torch.randn(64, 64).half(), torch.empty(64, 64)
two = (TensorDescriptor.from_tensor(t, [64, 64], TMA_TILE) for t in (a, b))
print(simulate(impatient[(1,)], *two, c, num_warps=4))

# %% [markdown]
# You must not use the accumulator, because it is not there yet, and you must not write to the tiles, because they are
# still read. One wait is enough for both: `acc = mma_wait(n, deps=[acc])` waits until at most n products, the newest
# ones, are under way. It returns a block. What `mma` returns is not a block yet: you may hand it to `mma` and
# `mma_wait`, but the compiler refuses arithmetic with it. If a variable is a block before a loop, it must also be a
# block at the end of each turn, so a loop over products has a wait in it.
#
# ## Exercise: accumulate on tensor cores
#
# {{exercise hopper.wgmma_matmul}}
#
# Write `wgmma_matmul(a, b)`: each program computes a tile of 64 x 64 of the product, and walks along K. a and b are
# contiguous, of float16 or bfloat16, and the product is of float32. One pair of tiles and one barrier are enough, since
# nothing has to overlap here. (Overlap is the subject of part two.) Full marks require
# * the right product for ragged sizes, also of K ({{correct.ragged}}),
# * everything read by TMA ({{uses.TMA load.performance}}),
# * everything multiplied by wgmma ({{uses.wgmma.performance}}),
# * no more read than tiles of 64 x 64 need ({{traffic.performance}}).


# %% exercise="hopper.wgmma_matmul"
### BEGIN SOLUTION
@gluon.jit
def wgmma_kernel(a_desc, b_desc, c_ptr, M, N, K):
    ACC: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    come = new_barriers(1, 1)
    row, col = gl.program_id(0) * 64, gl.program_id(1) * 64
    acc = gl.zeros((64, 64), gl.float32, ACC)
    for i in range(gl.cdiv(K, 64)):
        mbarrier.expect(come.index(0), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [row, i * 64], come.index(0), a)
        tma_load(b_desc, [i * 64, col], come.index(0), b)
        mbarrier.wait(come.index(0), i & 1)
        acc = mma(a, b, acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
    rows, cols = row + gl.arange(0, 64, gl.SliceLayout(1, ACC)), col + gl.arange(0, 64, gl.SliceLayout(0, ACC))
    there = (rows < M)[:, None] & (cols < N)[None, :]
    gl.store(c_ptr + rows[:, None] * N + cols[None, :], acc, mask=there)


### END SOLUTION
def wgmma_matmul(a, b):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty(M, N, dtype=torch.float32, device=a.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    a_desc, b_desc = (TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (a, b))
    wgmma_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](a_desc, b_desc, out, M, N, K, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.wgmma_matmul"
check("hopper.wgmma_matmul", wgmma_matmul)

# %% [markdown]
# # Part two: pipelines
#
# A tile can be fetched, waited for and multiplied. In part one these things happened one at a time. Now they all run at
# once, and no warp should wait if it does not have to.
#
# ## What should run at the same time?
#
# Here is the loop of part one, as it stands:
#
#     for i in range(steps):
#         expect(full, bytes); tma_load(a tile); tma_load(b tile)
#         wait(full)
#         acc = mma(a tile, b tile, acc); acc = mma_wait(0)
#
# **Question.** A tile of a has 64 x 64 elements, one of b 64 x 256, of two bytes each. For how long do the tensor cores
# work in a turn, and for how long do they wait? Use these costs of one SM:
#
# | what | cycles | where it comes from |
# | --- | --- | --- |
# | a copy: its bytes at 44 bytes in a cycle | 40 KiB: 931 | measured: what a product at cuBLAS's speed fetches |
# | after that, until the tile is there: the latency | 700 | 680 measured for main memory, 20 assumed |
# | 64 x 256 by 64 on tensor cores: 2048 multiply-adds in a cycle | 512 | datasheet |
# | from the end of a product to registers that can be read | 40 | measured, with 16 for its issue: 56 in all |
#
# One after another these take 931 + 700 + 512 + 40 = 2183 cycles, and the tensor cores work in 512 of them: 23 %. With
# a second slot in shared memory, the next tile can come while this one is multiplied. With a third, two tiles can be on
# their way. All you need is a *ring* of slots: tile i lies in slot i % STAGES.
#
# ## Exercise: predict the overlap
#
# {{exercise hopper.predict_overlap}}
#
# Which way keeps the tensor cores busier? Write True or False for six statements. In them, *0.2 more of the time*
# means, for example, 60 % of the time instead of 40 %. The first four statements are about the product above. In a ring
# of two, three or four slots, one partition fetches and multiplies. *Two consumers* are two partitions, each of which
# multiplies 64 rows of its own by the same tile of b. Then a third partition fetches 48 KiB for each turn, which has
# two products. Two consumers are compared with one, and both rings have three slots.
# (Draw each loop on paper: who waits for whom in a turn, once the ring is full?)
#
# The other two statements are about attention with D = 128. For 64 queries and 128 keys, each of the two products takes
# 512 cycles, and the softmax between them takes about 950. A consumer *waits* if it waits for each product right after
# it has issued it. A consumer is *a stage ahead* if it issues the next scores before it waits for the product with v
# ({{truths.plain}}).
#
# The last three answers were measured on an H200, with three kernels: unit 09's, the same kernel with descriptors
# (TMA), and research/attention_overlapped.py (a producer and two consumers, each a stage ahead). The tensor cores
# were busy for 51 %, 61 % and 81 % of the time, in some order. Write 51, 61 or 81 for each kernel ({{numbers.plain}}).

# %% exercise="hopper.predict_overlap"
predicted_overlap = {
    "a ring of two instead of one: busy for 0.2 more of the time": ...,
    "a ring of three instead of one: busy for 0.15 more of the time": ...,
    "a ring of four instead of three: busy for 0.15 more of the time": ...,
    "two consumers on one tile of b instead of one: busy for 0.2 more of the time": ...,
    "attention: one consumer a stage ahead is busier than two that wait": ...,
    "attention: two consumers that wait are busy for 0.15 more of the time than one that waits": ...,
    "counted: unit 09's kernel": ...,
    "counted: the same with descriptors": ...,
    "counted: attention_overlapped": ...,
}
### BEGIN SOLUTION
predicted_overlap = {
    "a ring of two instead of one: busy for 0.2 more of the time": False,
    "a ring of three instead of one: busy for 0.15 more of the time": True,
    "a ring of four instead of three: busy for 0.15 more of the time": False,
    "two consumers on one tile of b instead of one: busy for 0.2 more of the time": True,
    "attention: one consumer a stage ahead is busier than two that wait": False,
    "attention: two consumers that wait are busy for 0.15 more of the time than one that waits": True,
    "counted: unit 09's kernel": 51,
    "counted: the same with descriptors": 61,
    "counted: attention_overlapped": 81,
}
### END SOLUTION

# %% check="hopper.predict_overlap"
check("hopper.predict_overlap", predicted_overlap)

# %% [markdown]
# The picture shows the four loops. Before you read on: in each gap of their row, what do the tensor cores wait for?

# %%
figures.hopper.pipelines()

# %% [markdown]
# * **One slot**: for everything. No two things run at the same time.
# * **Two slots**: for the latency. The program asks for tile i + 1 when product i begins. The tile takes 1631 cycles to
#   come, and the product takes 512.
# * **Three slots**: for the bytes. Copies follow one another without a gap, so no further slot helps. But a copy of 40
#   KiB takes longer than its product.
# * **Two consumers**: for the bytes, but for less time. The consumers share the tile of b, so 48 KiB serve two
#   products. Fewer bytes for each product was unit 05's lesson, and it is this unit's, too.
#
# This is a model. It is right about who waits for whom, but its numbers of cycles may be off by a tenth. Move the
# sliders. With how many slots does a latency of 2000 cycles vanish?

# %%
figures.hopper.explore_pipeline()

# %% [markdown]
# ## Exercise: a pipelined product
#
# {{exercise hopper.pipelined_matmul}}
#
# Compute c = a @ b, with one partition of four warps for each tile of 64 x 64. Fetch by TMA into a ring of slots
# ({{uses.TMA load.performance}}), and multiply by wgmma ({{uses.wgmma.performance}}). While a product runs, at least
# one copy should be under way. During the last product of a tile nothing is left to fetch, so this is possible for
# seven of eight products. The check requires it for four of five ({{overlapped.performance}}). K may be shorter than
# the ring ({{correct.short}}), and nothing should be fetched twice ({{traffic.performance}}).
#
# Two things are easily forgotten. A slot is free when the product that read it **has ended**, not when it was issued.
# After `acc = mma_wait(1, deps=[acc])` one product may still run, and the one before it has ended. And a tile beyond
# the end of K must not be fetched, since no partition would wait for it. If `pred=` is False, `expect` and `tma_load`
# do nothing.
#
# a and b are of float16 or bfloat16, c has their dtype, and M, N and K are multiples of 64. You may use `tiles_of` and
# `store_tile`.
#
# There is extra credit on a Hopper GPU, for this exercise and for the next two (4096 × 4096 × 4096, float16). You get
# {{speed}} if your kernel reaches {{speed.full}} of the speed of cuBLAS, and some of the points if it reaches more than
# {{speed.none}}. No other GPU runs these kernels, and no point of a class depends on a Hopper.


# %% exercise="hopper.pipelined_matmul"
def tiles_of(x, rows, columns):
    """Return what TMA needs to know about a matrix of 16-bit numbers, and about the tiles in which it is fetched."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


@gluon.jit
def store_tile(c_ptr, acc, row, column, N):
    """Store a block from the registers of one partition at this row and column of c, whose rows have N elements."""
    LAYOUT: gl.constexpr = acc.type.layout
    offs_m = row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, LAYOUT))
    offs_n = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    gl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


### BEGIN SOLUTION
@gluon.jit
def start_step(a_desc, b_desc, ring, i, steps):
    """Begin to fetch the tiles of step i, if there is such a step."""
    a_tiles, b_tiles, full = ring
    STAGES: gl.constexpr = a_tiles.shape[0]
    stage, there = i % STAGES, i < steps
    mbarrier.expect(full.index(stage), a_desc.block_type.nbytes + b_desc.block_type.nbytes, pred=there)
    tma_load(a_desc, [gl.program_id(0) * 64, i * 64], full.index(stage), a_tiles.index(stage), pred=there)
    tma_load(b_desc, [i * 64, gl.program_id(1) * 64], full.index(stage), b_tiles.index(stage), pred=there)


@gluon.jit
def pipelined_kernel(a_desc, b_desc, c_ptr, N, K, STAGES: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [STAGES, 64, 64], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    full = new_barriers(STAGES, 1)
    ring = (a_tiles, b_tiles, full)
    steps = K // 64
    for i in gl.static_range(STAGES - 1):
        start_step(a_desc, b_desc, ring, i, steps)
    acc = gl.zeros((64, 64), gl.float32, LAYOUT)
    for i in range(steps):
        mbarrier.wait(full.index(i % STAGES), i // STAGES & 1)
        acc = mma(a_tiles.index(i % STAGES), b_tiles.index(i % STAGES), acc, is_async=True)
        acc = mma_wait(1, deps=[acc])  # product i - 1 has ended: its slot is free
        start_step(a_desc, b_desc, ring, i + STAGES - 1, steps)
    acc = mma_wait(0, deps=[acc])
    store_tile(c_ptr, acc, gl.program_id(0) * 64, gl.program_id(1) * 64, N)


### END SOLUTION
def pipelined_matmul(a, b):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    pipelined_kernel[(M // 64, N // 64)](tiles_of(a, 64, 64), tiles_of(b, 64, 64), c, N, K, STAGES=3, num_warps=4)
    return c
    ### END SOLUTION


# %% check="hopper.pipelined_matmul"
check("hopper.pipelined_matmul", pipelined_matmul)

# %% [markdown]
# What does the simulator say about your own kernel? Tiles of 64 x 64 are small, so compared to its product, a copy
# takes longer than in the picture above.

# %%
a, b = torch.randn(64, 512).half(), torch.randn(512, 64).half()
figures.hopper.timeline_of(pipelined_matmul, a, b)

# %% [markdown]
# ## Who fetches?
#
# In this kernel one partition does everything in turn: it waits for a tile, issues a product, waits for a product, and
# asks for a tile. **Question.** What does it ask for while its four warps wait for a product, or store c? Nothing. In
# part one a separate warp did the fetching. Such a warp is a **producer**, and a partition that uses the tiles is a
# **consumer**. Now suppose that there are two consumers, which multiply different rows of a by the same tile of b. When
# is a slot free?
#
# | barrier | opens when | who arrives | arrivals of a phase | who waits | for which parity, in turn i |
# | --- | --- | --- | --- | --- | --- |
# | `full[s]` | the tile is there | the producer's expect, and the bytes | 1 | each consumer | i // STAGES & 1 |
# | `empty[s]` | **both** have read it | each consumer, after mma_wait | 2 | the producer | (i // STAGES + 1) & 1 |
#
# The consumers do not wait for each other: one may be ahead of the other by a whole ring, but no more. A consumer must
# be a whole warpgroup, since only a warpgroup can issue a product. So the second consumer has four warps as well, and
# the producer has one warp. The last list of `gl.warp_specialize` says how many registers a thread has in each
# partition but the first. Accumulators need many registers, and a producer gives up most of its own (PTX calls this
# `setmaxnreg`). A consumer makes one arrival, although it has 128 threads.
#
# ## Exercise: a product by warps with roles
#
# {{exercise hopper.warp_specialised_matmul}}
#
# Compute c = a @ b in tiles of 128 x 64, with a producer and two consumers of 64 rows each
# ({{specialised.performance}}): of a tile of 128 rows, `tile.slice(64, 64)` is the lower half. The consumers share the
# tile of b ({{traffic.performance}}), and multiply by wgmma ({{uses.wgmma.performance}}). The ring goes round more than
# four times in one case ({{correct.long}}), and not even once in another ({{correct.short}}). M is a multiple of 128,
# and N and K are multiples of 64. The check runs every case in six orders: as late as possible, as early as possible,
# timed like a chip, and three times at random, which differ from case to case. If a consumer releases a tile before it
# waits for the product that reads it, this is found.
#
# The extra credit on a Hopper GPU is {{speed}} at {{speed.full}} of the speed of cuBLAS, and some of the points above
# {{speed.none}}.


# %% exercise="hopper.warp_specialised_matmul"
def tiles_of(x, rows, columns):
    """Return what TMA needs to know about a matrix of 16-bit numbers, and about the tiles in which it is fetched."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


@gluon.jit
def store_tile(c_ptr, acc, row, column, N):
    """Store a block from the registers of one partition at this row and column of c, whose rows have N elements."""
    LAYOUT: gl.constexpr = acc.type.layout
    offs_m = row + gl.arange(0, acc.shape[0], gl.SliceLayout(1, LAYOUT))
    offs_n = column + gl.arange(0, acc.shape[1], gl.SliceLayout(0, LAYOUT))
    gl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(c_ptr.dtype.element_ty))


### BEGIN SOLUTION
@gluon.jit
def produce_steps(a_desc, b_desc, ring, steps):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = b_tiles.shape[0]
    row, column = gl.program_id(0) * 128, gl.program_id(1) * 64
    for i in range(steps):
        s = i % STAGES
        mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)
        mbarrier.expect(full.index(s), 2 * a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma_load(a_desc, [row, i * 64], full.index(s), a_tiles.index(2 * s))
        tma_load(a_desc, [row + 64, i * 64], full.index(s), a_tiles.index(2 * s + 1))
        tma_load(b_desc, [i * 64, column], full.index(s), b_tiles.index(s))


@gluon.jit
def consume_steps(c_ptr, ring, N, steps, HALF: gl.constexpr):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = b_tiles.shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    acc = gl.zeros((64, 64), gl.float32, LAYOUT)
    for i in range(steps):
        s = i % STAGES
        mbarrier.wait(full.index(s), i // STAGES & 1)
        acc = mma(a_tiles.index(2 * s + HALF), b_tiles.index(s), acc, is_async=True)
        acc = mma_wait(0, deps=[acc])
        mbarrier.arrive(empty.index(s))
    store_tile(c_ptr, acc, gl.program_id(0) * 128 + HALF * 64, gl.program_id(1) * 64, N)


@gluon.jit
def specialised_kernel(a_desc, b_desc, c_ptr, N, K, STAGES: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES, 64, 64], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 2)  # both consumers have read it
    ring = (a_tiles, b_tiles, full, empty)
    gl.warp_specialize(
        [
            (consume_steps, (c_ptr, ring, N, K // 64, 0)),
            (consume_steps, (c_ptr, ring, N, K // 64, 1)),
            (produce_steps, (a_desc, b_desc, ring, K // 64)),
        ],
        [4, 1],
        [200, 24],
    )


### END SOLUTION
def warp_specialised_matmul(a, b):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    specialised_kernel[(M // 128, N // 64)](tiles_of(a, 64, 64), tiles_of(b, 64, 64), c, N, K, STAGES=3, num_warps=4)
    return c
    ### END SOLUTION


# %% check="hopper.warp_specialised_matmul"
check("hopper.warp_specialised_matmul", warp_specialised_matmul)

# %% [markdown]
# Compare this with the picture of your pipelined kernel. Which row is new, and which gaps are gone?

# %%
a, b = torch.randn(128, 512).half(), torch.randn(512, 64).half()
figures.hopper.timeline_of(warp_specialised_matmul, a, b)

# %% [markdown]
# ## The end of a tile
#
# **Question.** What do the tensor cores do while c is stored? And what do they do while the next program begins, makes
# its barriers and waits for its first tile? Nothing. For two consumers as above, the first tiles of the next program
# take 1117 + 700 cycles to come. In this time the tensor cores could have computed three and a half products of 64 x
# 256 by 64.
#
# A *persistent* kernel has as many programs as the GPU has SMs, and each program takes tile after tile. When a tile of
# c ends, the producer goes on, and fetches the next tile's operands into the same ring. The result is stored by TMA,
# from a slot in shared memory, while the next products run. Before this slot is written again, `store_wait(0)` makes
# sure that the last store has read it. With both steps research/matmul_persistent.py runs at cuBLAS's speed: 1.03 of
# it at 8192 x 8192 x 8192 on an H100 (benchmarks/results/matmul.md).
#
# ## Exercise: a persistent product
#
# {{exercise hopper.persistent_matmul}}
#
# Compute c = a @ b in tiles of 64 x 64 with `programs` programs ({{persistent.performance}}), none of which has more
# than one tile more than another. For example, program p takes the tiles p, p + programs, p + 2 programs, and so on. It
# must be right if `programs` does not divide the number of tiles, too ({{correct.uneven}}). Use one producer, and one
# or more consumers. M, N and K are multiples of 64. The result is stored by TMA ({{uses.TMA store.performance}}), and
# the products of the next tile begin during the store ({{beside_stores.performance}}).
#
# TMA sees what threads have written into shared memory only after `fence_async_shared()`. Triton 3.7 adds this fence if
# it is missing. Write it all the same, because other compilers do not add it.
#
# Count the steps of all tiles as `done + k`, with k from `range(steps)`. If a helper has a loop over `range(done, done
# + steps)` within another loop, Triton 3.6 and 3.7.1 begin it at the first value of `done` each time. The simulator
# runs your kernel as you have written it, and says that it is right. But on a GPU its partitions would wait for one
# another forever.
#
# The extra credit on a Hopper GPU, with 132 programs, is {{speed}} at {{speed.full}} of the speed of cuBLAS, and some
# of the points above {{speed.none}}.


# %% exercise="hopper.persistent_matmul"
def tiles_of(x, rows, columns):
    """Return what TMA needs to know about a matrix of 16-bit numbers, and about the tiles in which it is fetched."""
    layout = gl.NVMMASharedLayout.get_default_for([rows, columns], gl.float16)
    return TensorDescriptor.from_tensor(x, [rows, columns], layout)


### BEGIN SOLUTION
@gluon.jit
def produce_tiles(a_desc, b_desc, ring, columns, tiles, steps):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = a_tiles.shape[0]
    done = 0  # steps of all earlier tiles
    for at in range(gl.program_id(0), tiles, gl.num_programs(0)):
        for k in range(steps):
            i = done + k
            s = i % STAGES
            mbarrier.wait(empty.index(s), (i // STAGES + 1) & 1)
            mbarrier.expect(full.index(s), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            tma_load(a_desc, [at // columns * 64, k * 64], full.index(s), a_tiles.index(s))
            tma_load(b_desc, [k * 64, at % columns * 64], full.index(s), b_tiles.index(s))
        done += steps


@gluon.jit
def consume_tiles(c_desc, out, ring, columns, tiles, steps):
    a_tiles, b_tiles, full, empty = ring
    STAGES: gl.constexpr = a_tiles.shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    done = 0
    for at in range(gl.program_id(0), tiles, gl.num_programs(0)):
        acc = gl.zeros((64, 64), gl.float32, LAYOUT)
        for k in range(steps):
            i = done + k
            s = i % STAGES
            mbarrier.wait(full.index(s), i // STAGES & 1)
            acc = mma(a_tiles.index(s), b_tiles.index(s), acc, is_async=True)
            acc = mma_wait(0, deps=[acc])
            mbarrier.arrive(empty.index(s))
        done += steps
        store_wait(0)  # the last tile has left its slot
        out.store(acc.to(c_desc.dtype))
        fence_async_shared()
        tma_store(c_desc, [at // columns * 64, at % columns * 64], out)
    store_wait(0)


@gluon.jit
def persistent_kernel(a_desc, b_desc, c_desc, columns, tiles, steps, STAGES: gl.constexpr):
    a_tiles = gl.allocate_shared_memory(a_desc.dtype, [STAGES, 64, 64], a_desc.layout)
    b_tiles = gl.allocate_shared_memory(b_desc.dtype, [STAGES, 64, 64], b_desc.layout)
    out = gl.allocate_shared_memory(c_desc.dtype, [64, 64], c_desc.layout)
    full = new_barriers(STAGES, 1)
    empty = new_barriers(STAGES, 1)
    ring = (a_tiles, b_tiles, full, empty)
    gl.warp_specialize(
        [
            (consume_tiles, (c_desc, out, ring, columns, tiles, steps)),
            (produce_tiles, (a_desc, b_desc, ring, columns, tiles, steps)),
        ],
        [1],
        [24],
    )


### END SOLUTION
def persistent_matmul(a, b, programs):
    ### BEGIN SOLUTION
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    a_desc, b_desc, c_desc = (tiles_of(x, 64, 64) for x in (a, b, c))
    persistent_kernel[(programs,)](a_desc, b_desc, c_desc, N // 64, M // 64 * (N // 64), K // 64, STAGES=3, num_warps=4)
    return c
    ### END SOLUTION


# %% check="hopper.persistent_matmul"
check("hopper.persistent_matmul", persistent_matmul)

# %% [markdown]
# The picture shows one program that computes two tiles. Which bar among the copies is the store of the first one, and
# what runs meanwhile?

# %%
a, b = torch.randn(128, 256).half(), torch.randn(256, 64).half()
figures.hopper.timeline_of(persistent_matmul, a, b, 1)

# %% [markdown]
# ## Clusters and multicast
#
# Two tiles of c, one below the other, need the same tile of b, and two SMs fetch it twice from L2. On Hopper programs
# may form a *cluster*, whose SMs lie near one another. They can read each other's shared memory, and one TMA load can
# write a tile into the shared memory of several of them (*multicast*).
#
# **Question.** With tiles of 128 x 256 of c, which part of the bytes does a cluster of two save? And when may the slot
# that holds b be written again? Answer both questions, then run the cell.

# %%
figures.hopper.clusters()

# %% [markdown]
# It saves a third: each SM still needs its own 16 KiB of a, and the 32 KiB of b come once for both. A slot is free only
# when the consumers of **all** SMs have read it, since one load writes it on all of them. So a consumer arrives at
# `empty` on its own SM and on the SM of the program that asks for the load. And on each SM `full` expects bytes that
# another SM has asked for. So programs of a cluster wait for one another, which costs some of what is saved. A cluster
# of four would save half. Try `figures.hopper.clusters(4)`.
#
# The simulator has no clusters, and the course has not measured them, because its product reaches cuBLAS's speed
# without them. Two consumers that share a tile, as in your kernel, save the same bytes within one SM.
#
# ## Attention: what runs during the softmax?
#
# Attention has something else that keeps the tensor cores waiting. For 64 queries and 128 keys with D = 128, the two
# products take 1024 cycles together, and the softmax between them takes about as long. A consumer that does these
# things in turn keeps the tensor cores busy for about half of the time.
#
# **Question.** Softmax i needs scores i. The product with v of tile i needs softmax i. What does not depend on
# softmax i at all, and could run meanwhile?
#
# The product of tile **i - 1** with v. So a consumer issues scores i and, right after them, the product of tile i - 1
# with v. It waits for the scores alone, and does its softmax while the other product runs. The products of the other
# consumer run at this time, too. This is why two consumers that wait keep the tensor cores busier than one that is a
# stage ahead. FlashAttention-3 does both, and makes the consumers take turns by barriers (*ping-pong*).
#
# ## Exercise: attention that overlaps
#
# {{exercise hopper.overlapped_attention}}
#
# Nearly all of the kernel is given: the rings, the producer, functions that issue both products, and a step of the
# online softmax. Only the consumer's walk over its tiles of keys and values is missing. Here is a walk that is right,
# but waits for each product:
#
#     m, l, acc = start_rows(q, ks)
#     for i in range(tiles):
#         s = issue_scores(q, ks, i)
#         s = mma_wait(0, deps=[s])
#         release(ks, i)
#         e, m, l, alpha = softmax_step(s, m, l, scale)
#         acc = acc * alpha[:, None]
#         acc = issue_values(as_operand(e, q), vs, i, acc)
#         acc = mma_wait(0, deps=[acc])
#         release(vs, i)
#     return acc / l[:, None]
#
# Write `walk` so that the next scores are issued before it waits for the product with v ({{ahead.performance}}), and so
# that exponentials are computed while this product runs ({{beside_products.performance}}). You must not touch acc while
# a product adds to it (it is not a block then, and the compiler refuses). So multiply by alpha after the wait
# ({{correct.large}} if maxima grow). Issue no more products than are needed ({{no_more_products.performance}}).
#
# The extra credit on a Hopper GPU, for 16 heads of 64, 4096 tokens and float16, is {{speed}} at {{speed.full}} of the
# speed of cuDNN's attention, and some of the points above {{speed.none}}.


# %% exercise="hopper.overlapped_attention"
@gluon.jit
def tile_ring(desc, SIZE: gl.constexpr, READERS: gl.constexpr):
    """Return (tiles, barriers that open when a tile is there, barriers that open when all its readers are done)."""
    ROWS: gl.constexpr = desc.block_type.shape[0]
    COLUMNS: gl.constexpr = desc.block_type.shape[1]
    tiles = gl.allocate_shared_memory(desc.dtype, [SIZE, ROWS, COLUMNS], desc.layout)
    full = new_barriers(SIZE, 1)
    empty = new_barriers(SIZE, READERS)
    return tiles, full, empty


@gluon.jit
def fetch_into(desc, row, ring, i):
    """Fetch the i-th tile of a ring as soon as its slot is free."""
    tiles, full, empty = ring
    SIZE: gl.constexpr = tiles.shape[0]
    mbarrier.wait(empty.index(i % SIZE), (i // SIZE + 1) & 1)
    mbarrier.expect(full.index(i % SIZE), desc.block_type.nbytes)
    tma_load(desc, [row, 0], full.index(i % SIZE), tiles.index(i % SIZE))


@gluon.jit
def release(ring, i):
    """Say that this consumer has read the i-th tile."""
    mbarrier.arrive(ring[2].index(i % ring[0].shape[0]))


@gluon.jit
def issue_scores(q, ks, i):
    """Wait for the i-th tile of keys, and issue s = q k^T. Nothing of s may be used before mma_wait."""
    SIZE: gl.constexpr = ks[0].shape[0]
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    mbarrier.wait(ks[1].index(i % SIZE), i // SIZE & 1)
    none = gl.zeros((64, 64), gl.float32, LAYOUT)
    return mma(q, ks[0].index(i % SIZE).permute((1, 0)), none, use_acc=False, is_async=True)


@gluon.jit
def issue_values(p, vs, i, acc):
    """Wait for the i-th tile of values, and issue acc += p v."""
    SIZE: gl.constexpr = vs[0].shape[0]
    mbarrier.wait(vs[1].index(i % SIZE), i // SIZE & 1)
    return mma(p, vs[0].index(i % SIZE), acc, is_async=True)


@gluon.jit
def softmax_step(s, m, l, scale):
    """Return (exponentials of the scores, new maxima, new sums, alpha): alpha rescales the earlier sums to the new maxima."""
    m_new = gl.maximum(m, gl.max(s, 1) * scale)
    e, alpha = gl.exp2(s * scale - m_new[:, None]), gl.exp2(m - m_new)
    return e, m_new, l * alpha + gl.sum(e, 1), alpha


@gluon.jit
def as_operand(e, q):
    """Return the exponentials as the first operand of a product, in the dtype of q."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    return gl.convert_layout(e.to(q.dtype), gl.DotOperandLayout(0, LAYOUT, 2))


@gluon.jit
def start_rows(q, ks):
    """Return (m, l, acc) for 64 queries that have seen no key."""
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    m = gl.full((64,), -float("inf"), gl.float32, gl.SliceLayout(1, LAYOUT))
    return m, gl.zeros((64,), gl.float32, gl.SliceLayout(1, LAYOUT)), gl.zeros((64, 64), gl.float32, LAYOUT)


@gluon.jit
def walk(q, ks, vs, tiles, scale):
    """Return o for 64 queries, from all tiles of keys and values. ks, vs: rings, as tile_ring returns them."""
    m, l, acc = start_rows(q, ks)
    ### BEGIN SOLUTION
    s = issue_scores(q, ks, 0)
    s = mma_wait(0, deps=[s])
    release(ks, 0)
    e, m, l, alpha = softmax_step(s, m, l, scale)
    p = as_operand(e, q)
    for i in range(1, tiles):
        s = issue_scores(q, ks, i)
        acc = issue_values(p, vs, i - 1, acc)
        s = mma_wait(1, deps=[s])  # all but the newest product: that of acc runs on
        release(ks, i)
        e, m, l, alpha = softmax_step(s, m, l, scale)
        acc = mma_wait(0, deps=[acc])
        release(vs, i - 1)
        p = as_operand(e, q)
        acc = acc * alpha[:, None]
    acc = issue_values(p, vs, tiles - 1, acc)
    acc = mma_wait(0, deps=[acc])
    release(vs, tiles - 1)
    ### END SOLUTION
    return acc / l[:, None]


@gluon.jit
def fetch_heads(q_desc, k_desc, v_desc, qs, ks, vs, head, row, tiles):
    fetch_into(q_desc, row, qs, 0)
    fetch_into(q_desc, row + 64, qs, 1)
    for i in range(tiles + 1):  # in the order of use: a tile's values after the next tile's keys
        if i < tiles:
            fetch_into(k_desc, head + i * 64, ks, i)
        if i > 0:
            fetch_into(v_desc, head + (i - 1) * 64, vs, i - 1)


@gluon.jit
def attend_half(o_ptr, qs, ks, vs, row, tiles, scale, HALF: gl.constexpr):
    LAYOUT: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    q = qs[0].index(HALF)
    mbarrier.wait(qs[1].index(HALF), 0)
    o = walk(q, ks, vs, tiles, scale)
    offs_m = row + HALF * 64 + gl.arange(0, 64, gl.SliceLayout(1, LAYOUT))
    offs_d = gl.arange(0, 64, gl.SliceLayout(0, LAYOUT))
    gl.store(o_ptr + offs_m[:, None] * 64 + offs_d[None, :], o.to(o_ptr.dtype.element_ty))


@gluon.jit
def attention_kernel(q_desc, k_desc, v_desc, o_ptr, N, scale):
    qs = tile_ring(q_desc, 2, 1)
    ks = tile_ring(k_desc, 2, 2)
    vs = tile_ring(v_desc, 2, 2)
    head = gl.program_id(1) * N
    row, tiles = head + gl.program_id(0) * 128, N // 64
    gl.warp_specialize(
        [
            (attend_half, (o_ptr, qs, ks, vs, row, tiles, scale, 0)),
            (attend_half, (o_ptr, qs, ks, vs, row, tiles, scale, 1)),
            (fetch_heads, (q_desc, k_desc, v_desc, qs, ks, vs, head, row, tiles)),
        ],
        [4, 1],
        [240, 24],
    )


def overlapped_attention(q, k, v):
    """Return softmax(q k^T / sqrt(64)) v of q, k, v (H, N, 64), contiguous, N a multiple of 128."""
    H, N, D = q.shape
    o = torch.empty((H, N, D), dtype=q.dtype, device=q.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, D], gl.float16)
    q_desc, k_desc, v_desc = (TensorDescriptor.from_tensor(x.view(H * N, D), [64, D], layout) for x in (q, k, v))
    scale = D**-0.5 * 1.4426950408889634  # for powers of 2
    attention_kernel[(N // 128, H)](q_desc, k_desc, v_desc, o, N, scale, num_warps=4)
    return o


# %% check="hopper.overlapped_attention"
check("hopper.overlapped_attention", overlapped_attention)

# %%
q, k, v = (torch.randn(1, 256, 64).half() for _ in range(3))
figures.hopper.timeline_of(overlapped_attention, q, k, v)

# %% [markdown]
# Look for green (the softmax) above blue (products). With D = 64 the products are half as long, but the exponentials
# are not, so the tensor cores wait for the exponentials. Here the model is too optimistic. For
# research/attention_overlapped.py with 1024 tokens, it says that the tensor cores are busy for 64 % of the time. An
# H100's counters say 48 % (45 % from cold caches). With D = 128 the model says 86 %, and the counters say 78 % (71 %).
# A softmax that runs alone takes 846 cycles in the model and 868 on an H100, and the cycles of a product are right,
# too. So the model must miss something where one partition's softmax meets the other's products. This has not been
# measured.
#
# On an H200 this was the largest step of attention's ladder, from `tuned` to `overlapped`: {{measured tuned}} to
# {{measured overlapped}} TFLOP/s at D = 128 and 16,384 tokens (benchmarks/results/attention.md).
#
# ## Exercise: name the race
#
# {{exercise hopper.name_races}}
#
# A race rarely shows in a result: most of the time the copy is late enough, or early enough. So you must find it in the
# code. Here are six rings. Each multiplies (64, 320) by (320, 64) with a producer and a consumer. `full` needs one
# arrival, and so does `empty`. NBYTES are the bytes of a tile. Each ring has one mistake: a line is wrong, in the wrong
# place, or missing. Which of these is the mistake, and at which line?
#
# * `"read before it is there"`
# * `"overwritten while it is read"`
# * `"wrong phase"`
# * `"wrong number of bytes"`
# * `"too many arrivals"`
# * `"two writes at once"`
# * `"missing fence"`
# * `"TMA store not waited for"`
# * `"deadlock"`
#
# An answer is a pair, such as `("missing fence", 3)`. Lines are numbered on the left. If two accesses can meet, the line of
# either is right. For a deadlock, any line is right at which a partition waits forever. And in each ring, a line that
# has been changed is right. Some mistakes could have two names. A wait that never ends is a deadlock, unless a
# different number of bytes arrives than it expects: that is a wrong number of bytes. If a wait passes because of its
# parity, although nothing has come, that is a wrong phase. If there is no wait at all, the tile is read before it is
# there. Once all eight answers are right, you see what the simulator says of each ring.
#
# Two more rings depend on a number. Choose one, write it at `"number"`, and look at `figures.hopper.two_races(number)`.
# If you want to practise, take another number. The first four right answers of the eight earn nothing, and each further
# right answer earns a quarter of the points ({{names_races.plain}}).

# %%
figures.hopper.six_races()

# %%
figures.hopper.two_races(1)

# %% exercise="hopper.name_races"
named_races = {
    "A": ...,
    "B": ...,
    "C": ...,
    "D": ...,
    "E": ...,
    "F": ...,
    "number": 1,
    "G": ...,
    "H": ...,
}
### BEGIN SOLUTION
named_races = {
    "A": ("overwritten while it is read", 18),
    "B": ("wrong phase", 16),
    "C": ("missing fence", 21),
    "D": ("read before it is there", 16),
    "E": ("wrong number of bytes", 6),
    "F": ("deadlock", 5),
    "number": 1,
    "G": ("missing fence", 21),
    "H": ("read before it is there", 8),
}
### END SOLUTION

# %% check="hopper.name_races"
check("hopper.name_races", named_races)

# %% [markdown]
# ## What you now know
#
# * An asynchronous operation begins with an instruction and ends with a wait. Between the two nothing else may touch
#   its tile.
# * A barrier counts arrivals and bytes, and opens once in each phase. A wait names the parity of a phase.
# * With a ring of slots, copies run during products. More slots hide the latency, and after that only fewer bytes help.
# * A producer waits for empty slots, and consumers wait for full ones. Each slot has two barriers, and their parities
#   follow from the round.
# * Release a slot after the wait for the product that reads it, and correct acc after the wait for the product that
#   adds to it.
# * A race is found in the code, or by a simulator, and not by looking at a result.

# %%
progress()

# %% [markdown]
# The unit is worth {{unit points}}, over {{unit exercises}}. Hand in this notebook; the grader runs the same checks
# on inputs that you have not seen.
#
# ## Further reading
#
# * The text that this unit follows is a walk through fast products: Aleksa Gordić, *Inside NVIDIA GPUs: Anatomy of high
#   performance matmul kernels*, 2025. It builds on Pranjal Shankhdhar, *Outperforming cuBLAS on H100*, 2024.
# * NVIDIA, *PTX ISA*: the sections on mbarrier, cp.async.bulk.tensor and wgmma say what each instruction waits for,
#   and what it does not.
# * The tutorials on Gluon in Triton's repository, python/tutorials/gluon, from 01-intro on.
# * Shah et al., *FlashAttention-3: Fast and Accurate Attention with Asynchrony and Low-precision*, 2024, sections 3.1 and 3.2
# * research/matmul_persistent.py and research/attention_overlapped.py: both kernels at full size; then
#   research/attention_in_turns.py, whose first lines say how much each further step gained
# * CUTLASS, *Efficient GEMM in CUDA*, warp specialisation; `make_producer_start_state` is the parity 1 of above
