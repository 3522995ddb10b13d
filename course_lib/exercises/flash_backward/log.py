"""The work log of unit 10: dq of one head, with a matrix in memory for each step."""

from __future__ import annotations

from functools import partial

import torch
import triton
import triton.language as tl

from course_lib.exercise import Effort
from course_lib.exercises.flash_backward.cases import of_one_head
from course_lib.exercises.flash_backward.oracles import gradient_budget, gradients
from course_lib.exercises.rounds import Task, work_log


@triton.jit
def probabilities_kernel(q_ptr, k_ptr, lse_ptr, p_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    """Compute a tile of p = exp(q @ k.T * scale - lse)."""
    rows, cols, d = (
        tl.program_id(0) * TILE + tl.arange(0, TILE),
        tl.program_id(1) * TILE + tl.arange(0, TILE),
        tl.arange(0, D),
    )
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    k = tl.load(k_ptr + cols[:, None] * D + d[None, :])
    p = tl.exp(tl.dot(q, k.T) * scale - tl.load(lse_ptr + rows)[:, None])
    tl.store(p_ptr + rows[:, None] * Nk + cols[None, :], p)


@triton.jit
def dp_kernel(do_ptr, v_ptr, dp_ptr, Nk, D: tl.constexpr, TILE: tl.constexpr):
    """Compute a tile of dp = do @ v.T."""
    rows, cols, d = (
        tl.program_id(0) * TILE + tl.arange(0, TILE),
        tl.program_id(1) * TILE + tl.arange(0, TILE),
        tl.arange(0, D),
    )
    do = tl.load(do_ptr + rows[:, None] * D + d[None, :])
    v = tl.load(v_ptr + cols[:, None] * D + d[None, :])
    tl.store(dp_ptr + rows[:, None] * Nk + cols[None, :], tl.dot(do, v.T))


@triton.jit
def ds_kernel(p_ptr, dp_ptr, delta_ptr, ds_ptr, Nk, TILE: tl.constexpr):
    """Compute a tile of ds = p * (dp - delta)."""
    rows, cols = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.program_id(1) * TILE + tl.arange(0, TILE)
    at = rows[:, None] * Nk + cols[None, :]
    tl.store(ds_ptr + at, tl.load(p_ptr + at) * (tl.load(dp_ptr + at) - tl.load(delta_ptr + rows)[:, None]))


@triton.jit
def dq_kernel(ds_ptr, k_ptr, dq_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    """Compute a tile of rows of dq = ds @ k * scale."""
    rows, d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, D)
    dq = tl.zeros((TILE, D), tl.float32)
    for j in range(0, Nk, TILE):
        cols = j + tl.arange(0, TILE)
        ds = tl.load(ds_ptr + rows[:, None] * Nk + cols[None, :])
        k = tl.load(k_ptr + cols[:, None] * D + d[None, :])
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + rows[:, None] * D + d[None, :], (dq * scale).to(tl.float16))


def first_dq(q, k, v, do, lse, delta):
    """Compute dq in four launches: p, dp, ds, and the product of ds with k."""
    (Nq, D), Nk = q.shape, k.shape[0]
    p, dp, ds = (torch.empty((Nq, Nk), device=q.device) for _ in range(3))
    dq, grid = torch.empty_like(q), (Nq // 32, Nk // 32)
    probabilities_kernel[grid](q, k, lse, p, Nk, D**-0.5, D=D, TILE=32)  # pyright: ignore[reportArgumentType]
    dp_kernel[grid](do, v, dp, Nk, D=D, TILE=32)  # pyright: ignore[reportArgumentType]
    ds_kernel[grid](p, dp, delta, ds, Nk, TILE=32)  # pyright: ignore[reportArgumentType]
    dq_kernel[(Nq // 32,)](ds, k, dq, Nk, D**-0.5, D=D, TILE=32)  # pyright: ignore[reportArgumentType]
    return dq


dq_log = work_log(
    "flash_backward.dq_log",
    Task(first_dq, lambda q, k, **_: {"Nq": q.shape[0], "Nk": k.shape[0], "D": q.shape[1]}),
    {"256 queries, 128 keys": of_one_head(256, 128, 32), "128 queries, 384 keys": of_one_head(128, 384, 32)},
    oracle=lambda **given: gradients(**given)[0],
    budget=partial(gradient_budget, of="q"),
    called="dq(q, k, v, do, lse, delta) of one head, contiguous, float16, D = 32 -> (Nq, D); Nq, Nk are multiples of 64",
    effort=Effort(minutes=30, lines=70, difficulty=4),
)
