"""The work log of unit 09: attention of one head whose scores go to memory twice."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from course_lib.exercise import Effort
from course_lib.exercises.attention.cases import qkv
from course_lib.exercises.cases import FP16
from course_lib.exercises.flash.oracles import kernel_budget, only_o
from course_lib.exercises.rounds import Task, work_log


@triton.jit
def scores_kernel(q_ptr, k_ptr, s_ptr, Nk, scale, D: tl.constexpr, TILE: tl.constexpr):
    """Compute a tile of s = q @ k.T * scale."""
    rows, cols, d = (
        tl.program_id(0) * TILE + tl.arange(0, TILE),
        tl.program_id(1) * TILE + tl.arange(0, TILE),
        tl.arange(0, D),
    )
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    k = tl.load(k_ptr + cols[:, None] * D + d[None, :])
    tl.store(s_ptr + rows[:, None] * Nk + cols[None, :], tl.dot(q, k.T) * scale)


@triton.jit
def row_softmax_kernel(s_ptr, p_ptr, Nk, BLOCK: tl.constexpr):
    """Compute p = softmax of a row of s."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    s = tl.load(s_ptr + row * Nk + cols, mask=cols < Nk, other=-float("inf"))
    p = tl.exp(s - tl.max(s, axis=0))
    tl.store(p_ptr + row * Nk + cols, p / tl.sum(p, axis=0), mask=cols < Nk)


@triton.jit
def values_kernel(p_ptr, v_ptr, o_ptr, Nk, D: tl.constexpr, TILE: tl.constexpr):
    """Compute a tile of rows of o = p @ v."""
    rows, d = tl.program_id(0) * TILE + tl.arange(0, TILE), tl.arange(0, D)
    o = tl.zeros((TILE, D), tl.float32)
    for j in range(0, Nk, TILE):
        cols = j + tl.arange(0, TILE)
        p = tl.load(p_ptr + rows[:, None] * Nk + cols[None, :])
        v = tl.load(v_ptr + cols[:, None] * D + d[None, :])
        o = tl.dot(p.to(v.dtype), v, o)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], o.to(tl.float16))


def first_attention(q, k, v):
    """Compute attention in three launches: scores, their softmax, and its product with v."""
    (Nq, D), Nk = q.shape, k.shape[0]
    s, p = torch.empty((Nq, Nk), device=q.device), torch.empty((Nq, Nk), device=q.device)
    o = torch.empty_like(q)
    scores_kernel[(Nq // 32, Nk // 32)](q, k, s, Nk, D**-0.5, D=D, TILE=32)  # pyright: ignore[reportArgumentType]
    row_softmax_kernel[(Nq,)](s, p, Nk, BLOCK=triton.next_power_of_2(Nk))
    values_kernel[(Nq // 32,)](p, v, o, Nk, D=D, TILE=32)  # pyright: ignore[reportArgumentType]
    return o


attention_log = work_log(
    "flash.attention_log",
    Task(first_attention, lambda q, k, v: {"Nq": q.shape[0], "Nk": k.shape[0], "D": q.shape[1]}),
    {"256 queries, 128 keys": qkv(256, 128, 64, FP16), "128 queries, 384 keys": qkv(128, 384, 64, FP16)},
    oracle=only_o,
    budget=kernel_budget,
    called="attention(q: (Nq, D), k: (Nk, D), v: (Nk, D), contiguous, float16, D = 64) -> o: (Nq, D); Nq, Nk are multiples of 64",
    effort=Effort(minutes=40, lines=60, difficulty=4),
)
