"""One kernel of each family of the course, with a launch of each: what trace_vs_counters.py counts and measures.

The kernels are as units 04 to 10 teach them, neither tuned nor simplified for counting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# ----------------------------------------------------------------------------------------------------- elementwise


@triton.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, x + y, mask=mask)


@triton.jit
def strided_copy(x_ptr, o_ptr, n, start, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + start + offs * STRIDE, mask=mask), mask=mask)


@triton.jit
def strided_store(x_ptr, o_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs * STRIDE, tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.jit
def copy_by_descriptor(x, o, BLOCK: tl.constexpr):
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    o.store(at, x.load(at))


# ----------------------------------------------------------------------------------------------------- rows, columns, gathers


@triton.jit
def copy_row(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * N + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < N
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


@triton.jit
def copy_column(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    offs = rows * N + tl.program_id(0)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=rows < M), mask=rows < M)


@triton.jit
def transpose_row(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N)
    tl.store(o_ptr + cols * M + row, x, mask=cols < N)


@triton.jit
def transpose_tile(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    cols = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    mask = (rows < M) & (cols < N)
    tl.store(o_ptr + cols * M + rows, tl.load(x_ptr + rows * N + cols, mask=mask), mask=mask)


@triton.jit
def gather_rows(x_ptr, index_ptr, o_ptr, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + tl.program_id(0))
    x = tl.load(x_ptr + row * N + cols, mask=cols < N)
    tl.store(o_ptr + tl.program_id(0) * N + cols, x, mask=cols < N)


@triton.jit
def gather_elements(x_ptr, index_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    index = tl.load(index_ptr + offs, mask=mask, other=0)
    tl.store(o_ptr + offs, tl.load(x_ptr + index, mask=mask), mask=mask)


# ----------------------------------------------------------------------------------------------------- reductions


@triton.jit
def row_sum(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + cols, mask=cols < N, other=0.0)
    tl.store(o_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def column_sum(x_ptr, o_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < M)[:, None] & (cols < N)[None, :]
        total += tl.sum(tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0), axis=0)
    tl.store(o_ptr + cols, total, mask=cols < N)


@triton.jit
def softmax(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + tl.program_id(0) * N + cols, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(o_ptr + tl.program_id(0) * N + cols, e / tl.sum(e, axis=0), mask=mask)


@triton.jit
def softmax_twice(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * N
    m = tl.full((), -float("inf"), tl.float32)
    l = tl.zeros((), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=-float("inf"))
        m_new = tl.maximum(m, tl.max(x, axis=0))
        l = l * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + cols, mask=cols < N, other=-float("inf"))
        tl.store(o_ptr + row + cols, tl.exp(x - m) / l, mask=cols < N)


# ----------------------------------------------------------------------------------------------------- matmul


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr, PRECISION: tl.constexpr):
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        k_mask = k + ks < K
        a = tl.load(a_ptr + rows[:, None] * K + k + ks, mask=(rows < M)[:, None] & k_mask, other=0.0)
        b = tl.load(b_ptr + (k + ks)[:, None] * N + cols, mask=k_mask[:, None] & (cols < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    mask = (rows < M)[:, None] & (cols < N)
    tl.store(c_ptr + rows[:, None] * N + cols, acc.to(c_ptr.dtype.element_ty), mask=mask)


# ----------------------------------------------------------------------------------------------------- FlashAttention
# q, k, v, o, do, dq, dk, dv: (heads, S, D);  lse, delta: (heads, S). Dao 2023, algorithms 1 and 2.


@triton.jit
def flash_forward(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, S,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, D)
    tile = head * S * D + rows[:, None] * D + dims
    q = tl.load(q_ptr + tile, mask=(rows < S)[:, None], other=0.0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    end = tl.minimum(first + BLOCK_M, S) if CAUSAL else S
    for start in range(0, end, BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        other = head * S * D + cols[:, None] * D + dims
        k = tl.load(k_ptr + other, mask=(cols < S)[:, None], other=0.0)
        v = tl.load(v_ptr + other, mask=(cols < S)[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        seen = (cols < S)[None, :]
        if CAUSAL:
            seen = seen & (rows[:, None] >= cols[None, :])
        s = tl.where(seen, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        correction = tl.exp(m - m_new)
        l = l * correction + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * correction[:, None])
        m = m_new
    tl.store(o_ptr + tile, (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=(rows < S)[:, None])
    tl.store(lse_ptr + head * S + rows, m + tl.log(l), mask=rows < S)


@triton.jit
def flash_backward_dkdv(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr, scale, S,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head, dims = tl.program_id(1), tl.arange(0, D)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    tile = head * S * D + cols[:, None] * D + dims
    k, v = tl.load(k_ptr + tile), tl.load(v_ptr + tile)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    for start in range(0, S, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        other = head * S * D + rows[:, None] * D + dims
        q, do = tl.load(q_ptr + other), tl.load(do_ptr + other)
        lse, delta = tl.load(lse_ptr + head * S + rows), tl.load(delta_ptr + head * S + rows)
        p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
        dv = tl.dot(tl.trans(p.to(do.dtype)), do, dv)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None]) * scale
        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk)
    tl.store(dk_ptr + tile, dk.to(dk_ptr.dtype.element_ty))
    tl.store(dv_ptr + tile, dv.to(dv_ptr.dtype.element_ty))


@triton.jit
def flash_backward_dq(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, scale, S,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    head, dims = tl.program_id(1), tl.arange(0, D)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    tile = head * S * D + rows[:, None] * D + dims
    q, do = tl.load(q_ptr + tile), tl.load(do_ptr + tile)
    lse, delta = tl.load(lse_ptr + head * S + rows), tl.load(delta_ptr + head * S + rows)
    dq = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, S, BLOCK_N):
        other = head * S * D + (start + tl.arange(0, BLOCK_N))[:, None] * D + dims
        k, v = tl.load(k_ptr + other), tl.load(v_ptr + other)
        p = tl.exp(tl.dot(q, tl.trans(k)) * scale - lse[:, None])
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None]) * scale
        dq = tl.dot(ds.to(k.dtype), k, dq)
    tl.store(dq_ptr + tile, dq.to(dq_ptr.dtype.element_ty))


# ----------------------------------------------------------------------------------------------------- launches


@dataclass(frozen=True)
class Launch:
    """A kernel with the arguments of one launch. `arguments` makes the same tensors each time, on the CPU."""

    name: str
    kernel: Any
    grid: tuple[int, ...]
    arguments: Callable[[], tuple]
    constants: dict[str, Any] = field(default_factory=dict)

    def on(self, device: str) -> list:
        """The arguments, moved there."""
        return [_on(device, argument) for argument in self.arguments()]

    def run(self, device: str) -> None:
        self.kernel[self.grid](*self.on(device), **self.constants)


def _on(device: str, argument: Any) -> Any:
    if isinstance(argument, TensorDescriptor):
        return TensorDescriptor.from_tensor(argument.base.to(device), argument.block_shape)
    return argument.to(device) if isinstance(argument, torch.Tensor) else argument


def _random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def _indices(count: int, below: int) -> torch.Tensor:
    return torch.randint(below, (count,), generator=torch.Generator().manual_seed(count), dtype=torch.int32)


def _strided(stride: int, start: int = 0, n: int = 1 << 18) -> Launch:
    name = f"copy, stride {stride}" if not start else "copy, shifted by one"
    return Launch(
        name,
        strided_copy,
        (n // 1024,),
        lambda: (_random(n * stride + start), torch.empty(n), n, start),
        {"STRIDE": stride, "BLOCK": 1024},
    )


def _matmul(dtype: torch.dtype, precision: str, block: int, size: int = 512, **options) -> Launch:
    kind = {"fp16": "fp16", "tf32": "fp32 as tf32", "ieee": "fp32"}["fp16" if dtype == torch.float16 else precision]
    return Launch(
        f"matmul {kind}, tile {block}" + ", not pipelined" * bool(options),
        matmul,
        (size // block, size // block),
        lambda: (
            _random(size, size, dtype=dtype),
            _random(size, size, dtype=dtype),
            torch.empty(size, size, dtype=dtype),
            size,
            size,
            size,
        ),
        {"BLOCK": block, "BLOCK_K": 32, "PRECISION": precision, **options},
    )


def _attention(name: str, kernel: Any, outputs: int, heads: int = 4, S: int = 1024, D: int = 64, **constants) -> Launch:
    half = torch.float16

    def arguments():
        qkv = [_random(heads, S, D, dtype=half) for _ in range(3)]
        grads = [torch.empty(heads, S, D, dtype=half) for _ in range(outputs)]
        rows = [_random(heads, S).abs() + 8 for _ in range(2)]
        if kernel is flash_forward:
            return (*qkv, *grads, rows[0], D**-0.5, S)
        return (*qkv, _random(heads, S, D, dtype=half), *rows, *grads, D**-0.5, S)

    return Launch(name, kernel, (S // 64, heads), arguments, {"D": D, "BLOCK_M": 64, "BLOCK_N": 64, **constants})


M, N = 1024, 1024
MI = 1 << 20
FP16, FP32 = torch.float16, torch.float32

LAUNCHES: tuple[Launch, ...] = (
    Launch(
        "add",
        add,
        (MI // 1024,),
        lambda: (_random(MI), _random(MI + 1)[1:].clone(), torch.empty(MI), MI),
        {"BLOCK": 1024},
    ),
    *[_strided(stride) for stride in (1, 2, 4, 8, 32)],
    _strided(1, start=1),
    *[
        Launch(
            f"store, stride {stride}",
            strided_store,
            (256,),
            lambda stride=stride: (_random(MI // 4), torch.empty(MI // 4 * stride), MI // 4),
            {"STRIDE": stride, "BLOCK": 1024},
        )
        for stride in (2, 8)
    ],
    Launch(
        "copy by descriptor, tile 64",
        copy_by_descriptor,
        (M // 64, N // 64),
        lambda: (
            TensorDescriptor.from_tensor(_random(M, N), [64, 64]),
            TensorDescriptor.from_tensor(torch.empty(M, N), [64, 64]),
        ),
        {"BLOCK": 64},
    ),
    Launch("copy by rows", copy_row, (M,), lambda: (_random(M, N), torch.empty(M, N), N), {"BLOCK": N}),
    Launch("copy by columns", copy_column, (N,), lambda: (_random(M, N), torch.empty(M, N), M, N), {"BLOCK": M}),
    Launch(
        "transpose, a row each", transpose_row, (M,), lambda: (_random(M, N), torch.empty(N, M), M, N), {"BLOCK": N}
    ),
    *[
        Launch(
            f"transpose, tile {b}",
            transpose_tile,
            (M // b, N // b),
            lambda: (_random(M, N), torch.empty(N, M), M, N),
            {"BLOCK": b},
        )
        for b in (16, 64)
    ],
    Launch(
        "gather rows",
        gather_rows,
        (2048,),
        lambda: (_random(8192, 500), _indices(2048, 8192), torch.empty(2048, 500), 500),
        {"BLOCK": 512},
    ),
    Launch(
        "gather elements",
        gather_elements,
        (256,),
        lambda: (_random(MI), _indices(1 << 18, MI), torch.empty(1 << 18), 1 << 18),
        {"BLOCK": 1024},
    ),
    Launch("row sums", row_sum, (M,), lambda: (_random(M, 1000), torch.empty(M), 1000), {"BLOCK": 1024}),
    Launch(
        "column sums",
        column_sum,
        (N // 32,),
        lambda: (_random(M, N), torch.empty(N), M, N),
        {"BLOCK_M": 64, "BLOCK_N": 32},
    ),
    Launch("softmax", softmax, (M,), lambda: (_random(M, 1000), torch.empty(M, 1000), 1000), {"BLOCK": 1024}),
    Launch(
        "softmax, row read twice",
        softmax_twice,
        (M,),
        lambda: (_random(M, 4096), torch.empty(M, 4096), 4096),
        {"BLOCK": 1024},
    ),
    *[_matmul(FP16, "tf32", b) for b in (32, 64, 128)],
    _matmul(FP16, "tf32", 64, num_stages=1),
    *[_matmul(FP32, "tf32", b) for b in (32, 64, 128)],
    *[_matmul(FP32, "ieee", b) for b in (32, 64, 128)],
    _attention("flash forward", flash_forward, 1, CAUSAL=False),
    _attention("flash forward, causal", flash_forward, 1, CAUSAL=True),
    _attention("flash backward, dK dV", flash_backward_dkdv, 2),
    _attention("flash backward, dQ", flash_backward_dq, 1),
)
