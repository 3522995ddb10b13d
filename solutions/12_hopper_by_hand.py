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
# # 12 · Hopper by hand
#
# **After this unit you can** ... {{unit minutes}} for {{unit exercises}}.

# %%
import torch
import triton

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)
from course_lib.hopper import bank_conflicts, simulate
from course_lib.hopper.language import (  # noqa: F401 (yours to use)
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
# # Part one: what needs no Hopper
#
# (anywhere: the developer of this part writes between this heading and the next)

# %% [markdown]
# # Part two: one asynchronous thing at a time
#
# In Triton you write what a program computes, and the compiler decides which thread holds what, where shared memory is used and when a
# copy begins. Kernels at the speed of cuBLAS decide that themselves. They are written in **Gluon**, which comes with Triton: the same
# Python, the same compiler, but layouts, shared memory, copies and barriers have names, and nothing is inserted behind your back.
#
# A Hopper GPU is not needed. `simulate(kernel[grid], ...)` runs a Gluon kernel here, several times: copies and products end early, late,
# or at random, as a GPU may have it. A mistake that a GPU rarely shows is named here, with its lines.
#
# ## Who holds what?
#
# A block of 16 x 32 numbers is loaded by 64 threads, two warps of 32 **lanes**. Each number must lie in some register of some lane.
# Which lane should hold the element next to the one that lane 0 holds? There are two good answers, and a layout chooses between them.

# %%
figures.hopper.who_holds_what()

# %% [markdown]
# This is `gl.BlockedLayout([1, 4], [8, 4], [2, 1], [1, 0])`: a lane takes 1 x 4 elements, a warp is 8 x 4 lanes, the program 2 x 1 warps,
# and `order=[1, 0]` says that axis 1, the columns, comes first wherever things are numbered. Four neighbours in one lane are one
# load of 16 bytes, if they are floats. Where the block is larger than the layout, the layout is repeated, and each lane gets more
# registers.
#
# ## Exercise: who holds an element
#
# {{exercise hopper.holder}}
#
# Write `holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape)`, which returns the warp, the lane and the
# register that hold the element. `shape` is that of the block, in each direction a multiple of what the layout covers. Registers are
# numbered like this: first the elements that lie together in a lane, then the repetitions of the layout, both with `order[0]` first.
#
# Full marks need the right answer
# * where the layout covers the block once ({{correct.once}}),
# * where it is repeated ({{correct.again}}),
# * where columns come first ({{correct.columns}}). The truth is Triton's own account of the layout.


# %% exercise="hopper.holder"
def holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape):
    ### BEGIN SOLUTION
    def digits(axis):
        """The place of the element within a thread, its lane, its warp and its repetition, along one axis."""
        i, found = (row, col)[axis], []
        for count in (size_per_thread[axis], threads_per_warp[axis], warps_per_cta[axis]):
            found.append(i % count)
            i //= count
        return *found, i

    fast, slow = order
    (r0, lane0, warp0, again0), (r1, lane1, warp1, again1) = digits(fast), digits(slow)
    repeated = shape[fast] // (size_per_thread[fast] * threads_per_warp[fast] * warps_per_cta[fast])
    register = r0 + size_per_thread[fast] * (r1 + size_per_thread[slow] * (again0 + repeated * again1))
    return warp0 + warps_per_cta[fast] * warp1, lane0 + threads_per_warp[fast] * lane1, register
    ### END SOLUTION


# %% check="hopper.holder"
check("hopper.holder", holder)

# %% [markdown]
# ## A tile that all threads see
#
# No lane can read another one's registers. Numbers go from lane to lane through **shared memory**, 227 KiB in each SM that all
# threads of a program reach. A **tile** is a piece of it with a shape. This kernel writes a block row by row and reads the same tile
# turned round, so that each lane gets a column. What is missing between the two lines?

# %%
LANES = gl.constexpr(gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0]))


@gluon.jit
def turn(x_ptr, y_ptr):
    tile = gl.allocate_shared_memory(gl.float32, [32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    rows, cols = gl.arange(0, 32, gl.SliceLayout(1, LANES)), gl.arange(0, 32, gl.SliceLayout(0, LANES))
    offs = rows[:, None] * 32 + cols[None, :]
    tile.store(gl.load(x_ptr + offs))
    barrier()  # all threads have written: without it a GPU may read what is not there yet
    gl.store(y_ptr + offs, tile.permute((1, 0)).load(LANES))


x = torch.arange(1024.0).reshape(32, 32)
y = torch.empty_like(x)
print(simulate(turn[(1,)], x, y, num_warps=4))
print("transposed:", torch.equal(y, x.T))

# %% [markdown]
# The kernel is right. Is it fast? Shared memory has 32 **banks**, each of which delivers one word of 4 bytes in a pass. Word w lies in
# bank w mod 32. A warp that reads 32 neighbours gets them in one pass. How many passes does it need for a column of this tile?
# Write a number down before you look.

# %%
figures.hopper.banks()

# %% [markdown]
# The lanes that read a column meet in one bank, and each waits for those before it. There are two ways out, and both move elements
# without moving the matrix. **Padding** puts a spare word behind each row. **Swizzling** needs no spare bytes: row r keeps its 32 words,
# but word c lies in place c XOR r. `bank_conflicts` counts the passes from the two layouts alone:

# %%
for shared in (
    gl.SwizzledSharedLayout(1, 1, 1, [0, 1]),
    gl.SwizzledSharedLayout(1, 1, 32, [0, 1]),
):  # of the tile turned round
    print(f"max_phase={shared.max_phase}:", bank_conflicts(LANES.value, shared, [32, 32], itemsize=4))

# %% [markdown]
# ## Exercise: a transpose without bank conflicts
#
# {{exercise hopper.shared_transpose}}
#
# Write `shared_transpose(x)`: each program takes a tile of x through shared memory, so that both the loads and the stores of global memory
# run along rows. Full marks need
# * the right result for ragged sizes ({{correct.ragged}}),
# * no pass of shared memory that the bytes do not need, neither to write the tile nor to read it ({{no_conflicts.performance}}),
# * a tile of at most 64 x 64 floats ({{shared_bytes.performance}}),
# * each element read once and written once ({{traffic.performance}}).


# %% exercise="hopper.shared_transpose"
### BEGIN SOLUTION
@gluon.jit
def transpose_kernel(x_ptr, y_ptr, M, N):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tile = gl.allocate_shared_memory(x_ptr.dtype.element_ty, [64, 64], gl.SwizzledSharedLayout(1, 1, 32, [1, 0]))
    rows, cols = gl.arange(0, 64, gl.SliceLayout(1, ROWS)), gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    row, col = gl.program_id(0) * 64, gl.program_id(1) * 64
    there = (row + rows < M)[:, None] & (col + cols < N)[None, :]
    tile.store(gl.load(x_ptr + (row + rows)[:, None] * N + (col + cols)[None, :], mask=there, other=0.0))
    barrier()
    y = tile.permute((1, 0)).load(ROWS)
    there = (col + rows < N)[:, None] & (row + cols < M)[None, :]
    gl.store(y_ptr + (col + rows)[:, None] * M + (row + cols)[None, :], y, mask=there)


### END SOLUTION
def shared_transpose(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(N, M, dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.shared_transpose"
check("hopper.shared_transpose", shared_transpose)

# %% [markdown]
# ## A copy that nobody carries
#
# `gl.load` brings numbers into registers, and the thread that asked waits for them as soon as it needs one. `copy_async` (the
# instruction is called cp.async, since Ampere) writes straight into a tile, and the thread goes on. How does it learn that the copy
# has ended? Copies are put into **groups**: `commit_group()` closes one, `wait_group(n)` waits until at most n of the newest groups are
# under way. This kernel forgets to wait:


# %%
@gluon.jit
def hasty(x_ptr, y_ptr):
    tile = gl.allocate_shared_memory(gl.float32, [32, 32], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    rows, cols = gl.arange(0, 32, gl.SliceLayout(1, LANES)), gl.arange(0, 32, gl.SliceLayout(0, LANES))
    offs = rows[:, None] * 32 + cols[None, :]
    copy_async(tile, x_ptr + offs)
    commit_group()
    gl.store(y_ptr + offs, tile.load(LANES))


print(simulate(hasty[(1,)], x, y, num_warps=4))

# %% [markdown]
# On a GPU this kernel may pass every test, until the memory is busy. The simulator reports it in every order, since nothing keeps the
# copy and the load apart; whether the numbers happened to be right is not its question.
#
# Why copy so, if one waits anyway? Because one can ask for the **next** tiles before one works on this one. Three tiles in a ring are
# enough: one that is read, two that are on their way.
#
# ## Exercise: a ring of copies
#
# {{exercise hopper.async_column_sum}}
#
# Write `async_column_sum(x)`: the sum of each column. A program walks down its columns, tile by tile, while the tiles ahead are
# fetched by `copy_async`. Its `mask=` leaves zeros where it is False. Full marks need
# * the right sums for ragged sizes, and for a matrix that is smaller than the ring ({{correct.ragged}}),
# * everything read by `copy_async` ({{uses.cp.async.performance}}), once ({{traffic.performance}}),
# * copies under way while seven tenths of the tiles are added up, or more ({{overlapped.performance}}),
# * at most 64 KiB of shared memory ({{shared_bytes.performance}}).


# %% exercise="hopper.async_column_sum"
### BEGIN SOLUTION
@gluon.jit
def start_copy(x_ptr, tiles, i, M, N, steps, BLOCK: gl.constexpr, STAGES: gl.constexpr, ROWS: gl.constexpr):
    rows = i * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, ROWS))
    cols = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, ROWS))
    if i < steps:
        there = (rows < M)[:, None] & (cols < N)[None, :]
        copy_async(tiles.index(i % STAGES), x_ptr + rows[:, None] * N + cols[None, :], mask=there)
    commit_group()


@gluon.jit
def async_kernel(x_ptr, y_ptr, M, N, BLOCK: gl.constexpr, STAGES: gl.constexpr):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    tiles = gl.allocate_shared_memory(gl.float32, [STAGES, BLOCK, BLOCK], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    steps = gl.cdiv(M, BLOCK)
    acc = gl.zeros((BLOCK, BLOCK), gl.float32, ROWS)
    for i in gl.static_range(STAGES - 1):
        start_copy(x_ptr, tiles, i, M, N, steps, BLOCK, STAGES, ROWS)
    for i in range(steps):
        wait_group(STAGES - 2)
        barrier()
        start_copy(x_ptr, tiles, i + STAGES - 1, M, N, steps, BLOCK, STAGES, ROWS)
        acc += tiles.index(i % STAGES).load(ROWS)
    wait_group(0)
    cols = gl.program_id(0) * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + cols, gl.sum(acc, 0), mask=cols < N)


### END SOLUTION
def async_column_sum(x):
    ### BEGIN SOLUTION
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    async_kernel[(triton.cdiv(N, 32),)](x, out, M, N, BLOCK=32, STAGES=3, num_warps=4)
    return out
    ### END SOLUTION


# %% check="hopper.async_column_sum"
check("hopper.async_column_sum", async_column_sum)

# %% [markdown]
# ## A barrier that counts, and its phases
#
# Groups tell a thread about its own copies. What if one warp fetches, and others compute? They need something in shared memory that
# both can see: an **mbarrier**. It counts arrivals. When as many have come as it wants, it opens, and begins to count anew: its next
# **phase**. Whoever waits names the phase it waits for, and there is room for one bit of it, the **parity**: 0 for phase 0, 1 for phase 1,
# 0 for phase 2.
#
# `mbarrier.wait(b, 0)` on a new barrier waits for phase 0. And `mbarrier.wait(b, 1)`? Guess, then run the cell: nobody ever arrives.


# %%
@gluon.jit
def waits(PARITY: gl.constexpr):
    b = new_barriers(1, 1)
    mbarrier.wait(b.index(0), PARITY)


for parity in (1, 0):
    print(f"parity {parity}:", simulate(waits[(1,)], PARITY=parity, num_warps=4))

# %% [markdown]
# A wait for parity 1 passes, as if a phase before the first had ended. That is the trick of every ring. Each slot has two barriers:
# `full`, for which the reader waits, and `empty`, for which the writer waits before it fills the slot again. In the first round all
# slots are free, and the writer's wait for parity 1 passes at once. Move the slider through the rounds:

# %%
figures.hopper.explore_ring()

# %% [markdown]
# ## Exercise: which slot, which parity
#
# {{exercise hopper.phase_of}}
#
# Write `phase_of(i, SIZE)` for tile i of a ring of SIZE slots: the slot, the parity with which its reader waits for `full[slot]`, and the
# parity with which its writer waits for `empty[slot]`. Half of the rings have two slots ({{correct.two}}), others have from one to
# eight ({{correct.other}}).


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
# With `copy_async` every thread computes an address. Hopper has an engine that is told once what a matrix looks like, and then copies
# whole tiles: the **Tensor Memory Accelerator**, TMA. What it is told is a **descriptor**: the tensor, its shape and strides, the shape
# of a tile, and how the tile lies in shared memory. One thread asks for a tile, and the engine tells a barrier how many bytes have come.
#
# So the barrier must know how many bytes to wait for. `mbarrier.expect(b, nbytes)` says it, and arrives. What happens if the number is
# too small, or too large? Try both.

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
# The matrix has 50 rows and the tile 64. TMA fills the rest with zeros, and counts them: a tile is always 8,192 bytes. On the way back
# it leaves out what lies outside. There are no masks.
#
# A store is asynchronous too: `tma_store(desc, [row, col], tile)` returns before the tile has been read. `store_wait(0)` waits for that.
#
# ## Exercise: a copy without a register
#
# {{exercise hopper.tma_copy}}
#
# Write `tma_copy(x)`: each program brings one tile into shared memory, and sends it on from there. No number passes through a register.
# Full marks need
# * the right result where tiles stick out ({{correct.ragged}}), and where the rows of x lie apart ({{correct.strided}}),
# * all that is read to be read by TMA ({{uses.TMA load.performance}}), and all that is written to be written by it
#   ({{uses.TMA store.performance}}),
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
# Now put the ring and TMA together. `gl.warp_specialize` splits a program into **partitions**: here one warp that only fetches, and four
# warps that only add up. Each has its own code, and they meet at barriers alone. Four warps are a **warpgroup**, the unit that will
# multiply below.
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
# Write `ring_column_sum(x)`: the sums of columns once more, of 2-byte numbers, in float32. One partition fetches tiles of 64 x 64 by TMA
# into a ring, the other adds them up. With 640 rows and two slots the ring goes round five times. Full marks need
# * the right sums for ragged sizes and for a single row ({{correct.ragged}}),
# * everything read by TMA ({{uses.TMA load.performance}}), once ({{traffic.performance}}),
# * copies under way while seven tenths of the tiles are added up, or more ({{overlapped.performance}}),
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
# On Hopper a warpgroup multiplies two tiles with one instruction, **wgmma**. It reads both operands from shared memory, or the left one
# from registers, and adds to an accumulator that is spread over the registers of its 128 threads: `NVMMADistributedLayout`. And it is
# asynchronous. `mma(a, b, acc, is_async=True)` returns at once. Which two things must not happen before `mma_wait`?


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
# The accumulator is not there yet, and the tiles are not free yet. Both are said by the same wait.
#
# ## Exercise: accumulate on tensor cores
#
# {{exercise hopper.wgmma_matmul}}
#
# Write `wgmma_matmul(a, b)`: each program makes a tile of 64 x 64 of the product, and walks along K. One pair of tiles and one barrier
# will do: nothing has to overlap here, which is part three's subject. Full marks need
# * the right product for ragged sizes, in K, too ({{correct.ragged}}),
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
# # Part three: pipelines
#
# (pipelines)

# %% [markdown]
# ## What you now know
#
# * (anywhere)
# * A layout says which register of which lane holds an element; numbers go from lane to lane through shared memory, whose 32 banks give a
#   word each in a pass.
# * What is asynchronous has two ends: an instruction that begins it, and a wait that ends it. Between the two its tile is nobody else's.
# * A barrier counts arrivals and bytes, and opens once in each phase. A wait names the parity of a phase.
# * (pipelines)

# %% gpu="hopper.progress"
progress()

# %% [markdown]
# The unit has {{unit points}} in {{unit exercises}}. Hand in this notebook; the grader runs the same checks on inputs that you
# have not seen.
#
# ## Where to read on
#
# * (anywhere)
# * NVIDIA, *PTX ISA*: the sections on mbarrier, cp.async.bulk.tensor and wgmma say what each instruction waits for, and what it does not.
# * The tutorials on Gluon in Triton's repository, python/tutorials/gluon, from 01-intro on.
# * (pipelines)
