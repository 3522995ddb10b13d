# What stays behind: debugging code, imports that the answer does not use, timing, checks of one's own.

# %% name="debugging everywhere" exercise="coalescing.row_copy"
import logging
import os
import time
import warnings
from collections import Counter

import numpy as np

log = logging.getLogger("kernels")
times, seen = [], Counter()
DEBUG = os.environ.get("DEBUG", "")


@triton.jit
def row_copy_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    """Copies a tile."""
    tl.static_assert(BLOCK_M * BLOCK_N <= 65536, "tile too large")
    tl.static_print("tile", BLOCK_M, BLOCK_N)
    tl.device_assert(N > 0, "no columns")
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (cols < N)
    # tl.device_print("rows", rows)
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=inside, other=0)
    tl.store(out_ptr + rows * N + cols, tile, mask=inside)


def row_copy(x, verbose=bool(DEBUG)):
    start = time.perf_counter()
    M, N = x.shape
    seen[M, N] += 1
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if M * N == 0:
        warnings.warn("empty")
        return out
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 128))
    compiled = row_copy_kernel[grid](x, out, M, N, x.stride(0), 16, 128)
    if verbose:
        print(compiled)
    times.append(time.perf_counter() - start)
    log.info("copied %s in %.1e s", tuple(x.shape), np.mean(times))
    print(f"x {tuple(x.shape)} {x.dtype} {x.stride()} -> {tuple(out.shape)}, {np.prod(out.shape)} elements")
    return out


# %% name="a class around it" exercise="coalescing.transpose" after="solution"
from dataclasses import dataclass

own = transpose


@dataclass
class Transpose:
    """Callable, so that options have a place."""

    calls: int = 0

    def __call__(self, x):
        self.calls += 1
        return own(x)


transpose = Transpose()


# %% name="no gradients" exercise="coalescing.transpose" after="solution"
import functools

own = transpose


@functools.wraps(own)
@torch.no_grad()
def transpose(x):
    return own(x.detach())


# %% name="an autograd function" exercise="coalescing.transpose" after="solution"
own = transpose


class Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return own(x)

    @staticmethod
    def backward(ctx, grad):
        return own(grad)


def transpose(x):
    return Transpose.apply(x)


# %% name="each shape's launch kept ready" exercise="coalescing.transpose" after="solution"
from functools import lru_cache, partial


@lru_cache
def plan(M, N, BLOCK=64):
    return (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK)), partial(torch.empty, (N, M))


def transpose(x):
    grid, allocate = plan(*x.shape)
    out = allocate(dtype=x.dtype, device=x.device)
    arguments = dict(x_ptr=x, out_ptr=out, M=x.shape[0], N=x.shape[1], stride_m=x.stride(0), stride_n=x.stride(1))
    transpose_kernel[grid](**arguments, BLOCK=64, num_stages=1)
    return out


# %% name="what is given, with other tiles and a note" exercise="flash.online_update" loses="" after="solution"
# The grader puts the course's in its place, so that nothing of this counts.
solved = online_update


@triton.jit
def weighted_mean_kernel(s_ptr, v_ptr, o_ptr, lse_ptr, M, N, D: tl.constexpr):
    tl.store(lse_ptr + tl.program_id(0), M)


def weighted_mean(s, v):
    print("tried with tiles of 16", solved)
    return None
