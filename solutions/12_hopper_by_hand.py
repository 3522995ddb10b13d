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
from course_lib.hopper import simulate  # noqa: F401
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

# %% [markdown]
# ## Exercise: holder
#
# {{exercise hopper.holder}}


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
# ## Exercise: shared_transpose
#
# {{exercise hopper.shared_transpose}}


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
# ## Exercise: async_column_sum
#
# {{exercise hopper.async_column_sum}}


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
# ## Exercise: phase_of
#
# {{exercise hopper.phase_of}}


# %% exercise="hopper.phase_of"
def phase_of(i, SIZE):
    ### BEGIN SOLUTION
    return i % SIZE, i // SIZE & 1, (i // SIZE + 1) & 1
    ### END SOLUTION


# %% check="hopper.phase_of"
check("hopper.phase_of", phase_of)

# %% [markdown]
# ## Exercise: tma_copy
#
# {{exercise hopper.tma_copy}}


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
# ## Exercise: ring_column_sum
#
# {{exercise hopper.ring_column_sum}}


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
# ## Exercise: wgmma_matmul
#
# {{exercise hopper.wgmma_matmul}}


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
# * (asynchrony)
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
# * (asynchrony)
# * (pipelines)
