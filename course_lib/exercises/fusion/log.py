"""The work log of unit 06: a softmax in five launches, as separate operations make it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from course_lib.exercise import Effort
from course_lib.exercises.fusion.cases import rows
from course_lib.exercises.fusion.oracles import softmax_budget
from course_lib.exercises.rounds import Task, work_log


@triton.jit
def row_max_kernel(x_ptr, m_ptr, N, BLOCK: tl.constexpr):
    """Compute m, the largest number of each row."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
    tl.store(m_ptr + row, tl.max(x, axis=0))


@triton.jit
def subtract_kernel(x_ptr, m_ptr, d_ptr, N, BLOCK: tl.constexpr):
    """Compute d = x - m."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N)
    tl.store(d_ptr + row * N + cols, x - tl.load(m_ptr + row), mask=cols < N)


@triton.jit
def exponential_kernel(d_ptr, e_ptr, N, BLOCK: tl.constexpr):
    """Compute e = exp(d)."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    d = tl.load(d_ptr + row * N + cols, mask=cols < N)
    tl.store(e_ptr + row * N + cols, tl.exp(d), mask=cols < N)


@triton.jit
def row_sum_kernel(e_ptr, s_ptr, N, BLOCK: tl.constexpr):
    """Compute s, the sum of each row."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row * N + cols, mask=cols < N, other=0.0)
    tl.store(s_ptr + row, tl.sum(e, axis=0))


@triton.jit
def divide_kernel(e_ptr, s_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """Compute out = e / s."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row * N + cols, mask=cols < N)
    tl.store(out_ptr + row * N + cols, e / tl.load(s_ptr + row), mask=cols < N)


def first_softmax(x):
    """Compute the softmax of each row, one launch for each operation."""
    M, N = x.shape
    BLOCK = triton.next_power_of_2(N)
    m, s = torch.empty(M, device=x.device), torch.empty(M, device=x.device)
    d, e, out = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    row_max_kernel[(M,)](x, m, N, BLOCK=BLOCK)
    subtract_kernel[(M,)](x, m, d, N, BLOCK=BLOCK)
    exponential_kernel[(M,)](d, e, N, BLOCK=BLOCK)
    row_sum_kernel[(M,)](e, s, N, BLOCK=BLOCK)
    divide_kernel[(M,)](e, s, out, N, BLOCK=BLOCK)
    return out


softmax_log = work_log(
    "fusion.softmax_log",
    Task(first_softmax, lambda x: {"M": x.shape[0], "N": x.shape[1]}),
    {"64 x 512": rows(64, 512), "128 x 384": rows(128, 384)},
    oracle=lambda x: torch.softmax(x.double(), 1),
    budget=softmax_budget,
    called="softmax(x: (M, N), contiguous, float32) -> (M, N)",
    effort=Effort(minutes=30, lines=55, difficulty=3),
)
