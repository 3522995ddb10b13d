"""The names of Gluon, and of Hopper's part of it, that kernels need most: one name each, whatever Triton calls it.

    from tritontrace.hopper.language import gl, gluon, mbarrier, mma, mma_wait, tma_load, tma_store

Gluon is experimental, and its names change: what is called otherwise from some Triton on is looked up here, and nowhere else.
"""

import triton

# trap: every name of Gluon that changed goes here: Gluon is experimental

try:
    from triton.experimental import gluon
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.language.nvidia.hopper import async_copy, fence_async_shared, mbarrier, tma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma as mma
    from triton.experimental.gluon.language.nvidia.hopper import warpgroup_mma_wait as mma_wait
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor
except ImportError:
    raise ImportError(
        f"Kernels in Gluon need Triton 3.6 or newer, whose names of Gluon are known here, and this is Triton {triton.__version__}."
    ) from None

__all__ = [
    "TensorDescriptor", "barrier", "commit_group", "copy_async", "fence_async_shared", "gl", "gluon", "mbarrier", "mma", "mma_wait",
    "new_barriers", "store_wait", "tma_load", "tma_store", "wait_group",
]  # fmt: skip


def _first(module, *names: str):
    """Return what a module has under the first of these names that it knows: the newest Triton's first."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


tma_load = _first(tma, "async_load", "async_copy_global_to_shared")
tma_store = _first(tma, "async_store", "async_copy_shared_to_global")
barrier = _first(gl, "barrier", "thread_barrier")  # of the threads of one partition
store_wait = tma.store_wait
copy_async = _first(async_copy, "async_load", "async_copy_global_to_shared")  # cp.async
commit_group, wait_group = async_copy.commit_group, async_copy.wait_group


@gluon.jit
def new_barriers(SIZE: gl.constexpr, COUNT: gl.constexpr):
    """Allocate and initialise SIZE mbarriers, each for COUNT arrivals. mbarrier.allocate_mbarrier is there from Triton 3.7 on alone.

    >>> from tritontrace import simulate
    >>> @gluon.jit
    ... def two():
    ...     ready = new_barriers(2, 1)
    ...     for i in gl.static_range(2):
    ...         mbarrier.arrive(ready.index(i), count=1)
    ...         mbarrier.wait(ready.index(i), 0)
    ...         mbarrier.invalidate(ready.index(i))
    >>> simulate(two[(1,)], num_warps=4).counts.barriers
    2
    """
    barriers = gl.allocate_shared_memory(gl.int64, [SIZE, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(SIZE):  # pyright: ignore[reportGeneralTypeIssues] - unrolled by the compiler
        mbarrier.init(barriers.index(i), count=COUNT)
    return barriers
