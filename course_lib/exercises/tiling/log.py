"""The work log of unit 05: a product in which each program has a strip of one row."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from course_lib.exercise import Effort
from course_lib.exercises.cases import FP16
from course_lib.exercises.rounds import Task, work_log
from course_lib.exercises.tiling.cases import factors
from course_lib.exercises.tiling.oracles import in_float32, product


@triton.jit
def strip_kernel(a_ptr, b_ptr, c_ptr, N, K, STRIP: tl.constexpr, STEP: tl.constexpr):
    """Compute STRIP numbers of row m in program (m, j), in steps of STEP along K."""
    m, cols = tl.program_id(0), tl.program_id(1) * STRIP + tl.arange(0, STRIP)
    total = tl.zeros((STRIP,), tl.float32)
    for k in range(0, K, STEP):
        ks = k + tl.arange(0, STEP)
        a = tl.load(a_ptr + m * K + ks)
        b = tl.load(b_ptr + ks[:, None] * N + cols[None, :])
        total += tl.sum(a[:, None].to(tl.float32) * b.to(tl.float32), axis=0)
    tl.store(c_ptr + m * N + cols, total.to(tl.float16))


def first_matmul(a, b):
    """Compute a @ b, a strip of 64 numbers of one row for each program."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    strip_kernel[(M, N // 64)](a, b, c, N, K, STRIP=64, STEP=32)  # pyright: ignore[reportArgumentType]
    return c


matmul_log = work_log(
    "tiling.matmul_log",
    Task(first_matmul, lambda a, b: {"M": a.shape[0], "N": b.shape[1], "K": a.shape[1]}),
    {"128 x 256 x 64": factors(128, 256, 64, FP16), "256 x 128 x 128": factors(256, 128, 128, FP16)},
    oracle=product,
    budget=in_float32,
    called="matmul(a: (M, K), b: (K, N), contiguous, float16) -> (M, N); M, N, K are multiples of 64",
    effort=Effort(minutes=35, lines=40, difficulty=3),
)
