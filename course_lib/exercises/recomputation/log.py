"""The work log of unit 07: forward and backward of three sigmoids, in which every step stores what it makes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from course_lib.exercise import Effort
from course_lib.exercises.recomputation.cases import elementwise
from course_lib.exercises.recomputation.oracles import sigmoid_budget, with_gradients
from course_lib.exercises.rounds import Task, work_log


@triton.jit
def sigmoid_kernel(x_ptr, s_ptr, N, BLOCK: tl.constexpr):
    """Compute s = sigmoid(x)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(s_ptr + i, tl.sigmoid(tl.load(x_ptr + i, mask=i < N)), mask=i < N)


@triton.jit
def back_kernel(s_ptr, ds_ptr, dx_ptr, N, BLOCK: tl.constexpr):
    """Compute dx = ds * s * (1 - s), where s = sigmoid(x)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s, ds = tl.load(s_ptr + i, mask=i < N), tl.load(ds_ptr + i, mask=i < N)
    tl.store(dx_ptr + i, ds * s * (1 - s), mask=i < N)


def first_gradient(x, dy):
    """Compute the gradient of sigmoid(sigmoid(sigmoid(x))) with respect to x, one launch for each step there and back."""
    s1, s2, s3 = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    d2, d1, dx = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 1024),)
    for before, after in ((x, s1), (s1, s2), (s2, s3)):
        sigmoid_kernel[grid](before, after, x.numel(), BLOCK=1024)  # pyright: ignore[reportArgumentType]
    for s, above, below in ((s3, dy, d2), (s2, d2, d1), (s1, d1, dx)):
        back_kernel[grid](s, above, below, x.numel(), BLOCK=1024)  # pyright: ignore[reportArgumentType]
    return dx


gradient_log = work_log(
    "recomputation.gradient_log",
    Task(first_gradient, lambda x, dy: {"N": x.numel()}),
    {"65536": elementwise((1 << 16,)), "98304": elementwise((3 << 15,))},
    oracle=lambda x, dy: with_gradients(lambda x: x.sigmoid().sigmoid().sigmoid(), dy, x=x)[1],
    budget=sigmoid_budget,
    called="gradient(x: (N,), dy: (N,), float32) -> dx: (N,)",
    effort=Effort(minutes=25, lines=45, difficulty=3),
)
