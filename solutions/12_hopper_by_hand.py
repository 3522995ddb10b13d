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
#
# ## Exercise: tma_copy
#
# {{exercise hopper.tma_copy}}
#
# Copy a matrix, tile by tile, through shared memory.


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
