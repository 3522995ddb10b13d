"""Faster versions of unit 09's kernel, step by step. Each step changes one thing in the step before.

1  unit 09      pointers, any strides, tl.exp: the published solution
2  exp2         log2(e) in the scale, tl.exp2; contiguous heads, lengths that tiles divide
3  descriptors  host-side tensor descriptors: Hopper's TMA unit fetches whole tiles
4  tuned        the better of 2 and 3, and the fastest tiles, warps and stages for each (D, causal): TUNED, which
                `python research/attention_ladder.py` finds again on the GPU that is there
5  overlapped   products and softmax at the same time, in Gluon: attention_overlapped.py
6  in turns     consumers that take turns, three of them at D 64, and walks handed out: attention_in_turns.py

The state is as in Dao, *FlashAttention-2*, 2023, algorithm 1. STEPS maps a name to a function (q, k, v, causal) -> a function to time;
q, k, v are (B, H, N, D), contiguous, with N a multiple of 128.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import attention_in_turns
import attention_overlapped
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from grader.published import published

LOG2_E, LN_2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)


@triton.jit
def update(m, l, acc, s, v, scale):
    """The state after a tile of unscaled scores; m and the scale are in units of log2, so that one fused multiply-add prepares exp2."""
    m_new = tl.maximum(m, tl.max(s, 1) * scale)
    p = tl.exp2(s * scale - m_new[:, None])
    alpha = tl.exp2(m - m_new)
    l = l * alpha + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return m_new, l, acc


@triton.jit
def by_pointers(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, N,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tile, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    offs_m, offs_d, offs_n = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, BLOCK_N)
    q_offs = (head * N + offs_m)[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + q_offs)
    kv_offs = head * N * D + offs_n[:, None] * D + offs_d[None, :]
    scale = scale * LOG2_E
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    whole = tile * BLOCK_M // BLOCK_N * BLOCK_N if CAUSAL else N
    for j in range(0, whole, BLOCK_N):
        s = tl.dot(q, tl.load(k_ptr + kv_offs + j * D).T)
        m, l, acc = update(m, l, acc, s, tl.load(v_ptr + kv_offs + j * D), scale)
    if CAUSAL:
        for j in range(whole, (tile + 1) * BLOCK_M, BLOCK_N):
            s = tl.dot(q, tl.load(k_ptr + kv_offs + j * D).T)
            s = tl.where((j + offs_n)[None, :] <= offs_m[:, None], s, -float("inf"))
            m, l, acc = update(m, l, acc, s, tl.load(v_ptr + kv_offs + j * D), scale)
    tl.store(o_ptr + q_offs, (acc / l[:, None]).to(o_ptr.dtype.element_ty))
    tl.store(lse_ptr + head * N + offs_m, (m + tl.log2(l)) * LN_2)


@triton.jit
def by_descriptors(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, scale, N,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tile, head = tl.num_programs(0) - 1 - tl.program_id(0), tl.program_id(1)
    offs_m, offs_n = tile * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    q = q_desc.load([head * N + tile * BLOCK_M, 0])
    scale = scale * LOG2_E
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    whole = tile * BLOCK_M // BLOCK_N * BLOCK_N if CAUSAL else N
    for j in range(0, whole, BLOCK_N):
        s = tl.dot(q, k_desc.load([head * N + j, 0]).T)
        m, l, acc = update(m, l, acc, s, v_desc.load([head * N + j, 0]), scale)
    if CAUSAL:
        for j in range(whole, (tile + 1) * BLOCK_M, BLOCK_N):
            s = tl.dot(q, k_desc.load([head * N + j, 0]).T)
            s = tl.where((j + offs_n)[None, :] <= offs_m[:, None], s, -float("inf"))
            m, l, acc = update(m, l, acc, s, v_desc.load([head * N + j, 0]), scale)
    o_desc.store([head * N + tile * BLOCK_M, 0], (acc / l[:, None]).to(o_desc.dtype))
    tl.store(lse_ptr + head * N + offs_m, (m + tl.log2(l)) * LN_2)


Shape = tuple[int, int, int, int]  # BLOCK_M, BLOCK_N, warps, stages
START: Shape = (64, 64, 4, 3)  # as in the published solution
SHAPES: tuple[Shape, ...] = (START, (64, 64, 4, 4), (64, 128, 4, 2), (128, 64, 8, 3), (128, 64, 8, 4), (128, 128, 8, 3))
TUNED: dict[tuple[int, bool], tuple[Any, Shape]] = {
    (64, False): (by_descriptors, (64, 128, 4, 2)),
    (64, True): (by_descriptors, (64, 128, 4, 2)),
    (128, False): (by_descriptors, START),
    (128, True): (by_descriptors, START),
}


def launch(kernel: Any, shape: Shape, q, k, v, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(o, lse) by one of the two kernels."""
    (B, H, N, D), (bm, bn, warps, stages) = q.shape, shape
    o, lse = torch.empty_like(q), torch.empty(B, H, N, device=q.device)
    tensors: tuple = (q, k, v, o)
    if kernel is by_descriptors:
        tensors = tuple(
            TensorDescriptor.from_tensor(x.view(-1, D), [b, D]) for x, b in zip(tensors, (bm, bn, bn, bm), strict=True)
        )
    constants = dict(CAUSAL=causal, D=D, BLOCK_M=bm, BLOCK_N=bn, num_warps=warps, num_stages=stages)
    kernel[(N // bm, B * H)](*tensors, lse, D**-0.5, N, **constants)
    return o, lse


def step(kernel: Any, shape: Shape) -> Callable[..., Callable[[], torch.Tensor]]:
    return lambda q, k, v, causal: lambda: launch(kernel, shape, q, k, v, causal)[0]


def tuned(q, k, v, causal: bool) -> Callable[[], torch.Tensor]:
    return step(*TUNED[q.shape[-1], causal])(q, k, v, causal)


def own_forward(q, k, v, causal: bool) -> Callable[[], torch.Tensor]:
    """Unit 09's published solution, the step that the ladder begins with."""
    forward = published("flash.flash_attention_forward", on_the_cpu=False)
    return lambda: forward(q, k, v, causal)[0]


def overlapped(q, k, v, causal: bool) -> Callable[[], torch.Tensor]:
    return lambda: attention_overlapped.launch(q, k, v, causal)[0]


def in_turns(q, k, v, causal: bool) -> Callable[[], torch.Tensor]:
    return lambda: attention_in_turns.launch(q, k, v, causal)[0]


def best(q, k, v, causal: bool) -> Callable[[], torch.Tensor]:
    """The fastest for a shape: the last step, as far as it takes the length."""
    return (in_turns if q.shape[-2] % 128 == 0 else tuned)(q, k, v, causal)


STEPS = {
    "unit 09": own_forward,
    "exp2": step(by_pointers, START),
    "descriptors": step(by_descriptors, START),
    "tuned": tuned,
    "overlapped": overlapped,
    "in turns": in_turns,
}


def tune(d: int, causal: bool, length: int = 16384) -> None:
    """Times both kernels with all shapes on one sequence, and prints TFLOP/s."""
    q, k, v = torch.randn(3, 1, 2048 // d, length, d, device="cuda", dtype=torch.bfloat16)
    flops = 4 * 2048 * length**2 / (2 if causal else 1)
    for kernel in (by_pointers, by_descriptors):
        for shape in SHAPES:
            try:
                ms = triton.testing.do_bench(partial(launch, kernel, shape, q, k, v, causal), 10, 60)
                print(
                    f"D {d}, causal {causal}, {kernel.fn.__name__} {shape}: {flops / ms / 1e9:.0f} TFLOP/s", flush=True
                )
            except triton.runtime.errors.OutOfResources as error:
                print(f"D {d}, {kernel.fn.__name__} {shape}: {error}")


if __name__ == "__main__":
    for d, causal in TUNED:
        tune(d, causal)
