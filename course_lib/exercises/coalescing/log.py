"""The work log of unit 04: a transpose that copies x first, and then stores it column by column."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from course_lib.exercise import Effort
from course_lib.exercises.coalescing.cases import matrix
from course_lib.exercises.rounds import Task, work_log


@triton.jit
def copy_row_kernel(x_ptr, copy_ptr, N, BLOCK: tl.constexpr):
    """Copy row m of x, in program m."""
    cols = tl.arange(0, BLOCK)
    row = tl.load(x_ptr + tl.program_id(0) * N + cols, mask=cols < N)
    tl.store(copy_ptr + tl.program_id(0) * N + cols, row, mask=cols < N)


@triton.jit
def row_to_column_kernel(copy_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    """Store row m of the copy as column m of the result, in program m."""
    cols = tl.arange(0, BLOCK)
    row = tl.load(copy_ptr + tl.program_id(0) * N + cols, mask=cols < N)
    tl.store(out_ptr + cols * M + tl.program_id(0), row, mask=cols < N)


def first_transpose(x):
    """Copy x, then store each row of the copy as a column."""
    M, N = x.shape
    copy, out = torch.empty_like(x), torch.empty((N, M), dtype=x.dtype, device=x.device)
    copy_row_kernel[(M,)](x, copy, N, BLOCK=triton.next_power_of_2(N))
    row_to_column_kernel[(M,)](copy, out, M, N, BLOCK=triton.next_power_of_2(N))
    return out


transpose_log = work_log(
    "coalescing.transpose_log",
    Task(first_transpose, lambda x: {"M": x.shape[0], "N": x.shape[1]}),
    {"256 x 128": matrix(256, 128), "128 x 384": matrix(128, 384)},
    oracle=lambda x: x.T.contiguous().double(),
    budget=None,
    called="transpose(x: (M, N), contiguous, float32) -> (N, M), contiguous",
    effort=Effort(minutes=30, lines=35, difficulty=3),
)
