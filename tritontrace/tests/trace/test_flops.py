"""Floating-point operations, against counts made by hand."""

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tritontrace.results import Flops
from tritontrace.tracing import KernelFault, trace


def flops(kernel, *arguments, grid=(1,), **constants) -> Flops:
    with trace() as t:
        kernel[grid](*arguments, **constants)
    return t.flops


@triton.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask), mask=mask)


def test_padded_lanes_count_and_addresses_do_not():
    x, o = torch.rand(100), torch.zeros(100)
    with trace() as t:
        add[(2,)](x, x, o, 100, BLOCK=64)
    assert t.flops == Flops(float=2 * 64)
    assert t.launches[0].flops.total == 128
    assert t.arithmetic_intensity == 128 / 1200


@triton.jit
def elementwise(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    y = x * x - x / 2.0  # 3
    y = -y + tl.maximum(x, 0.5) * tl.minimum(x, y)  # 5
    y = tl.abs(y) + tl.floor(y) % 3.0 + tl.ceil(y)  # 6
    y = tl.fma(x, y, y) + tl.clamp(y, 0.0, 1.0)  # 2 + 1 + 1
    y = tl.where((y > x) & (y != 0.0), x, y)  # none
    tl.store(o_ptr + i, y.to(tl.bfloat16).to(tl.float32))  # none


@triton.jit
def low_precision(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x * x + 1)


@triton.jit
def scalars(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    s = tl.load(x_ptr) * 2.0 + tl.load(x_ptr + 1)  # 2
    tl.store(o_ptr + i, tl.load(x_ptr + i) * s)  # N


def test_elementwise():
    x, o = torch.rand(32), torch.zeros(32)
    assert flops(elementwise, x, o, N=32) == Flops(float=32 * (3 + 5 + 6 + 4))
    for dtype in (torch.bfloat16, torch.float16):
        assert flops(low_precision, x.to(dtype), o.to(dtype), N=32) == Flops(float=64)
    assert flops(low_precision, x.int(), o.int(), N=32) == Flops()
    assert flops(scalars, x, o, N=32) == Flops(float=2 + 32)


@triton.jit
def outer(x_ptr, y_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    tl.store(o_ptr + m * N + n, tl.load(x_ptr + m) * tl.load(y_ptr + n))


def test_an_operation_counts_in_the_shape_of_its_result():
    assert flops(outer, torch.rand(8), torch.rand(16), torch.zeros(128), M=8, N=16) == Flops(float=128)


@triton.jit
def special(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    x = tl.exp(x) + tl.exp2(x) + tl.log(x) + tl.log2(x)  # 4 special, 3 float
    x = tl.sin(x) * tl.cos(x) * tl.sqrt(tl.abs(x)) * tl.rsqrt(x) * tl.erf(x)  # 5 special, 1 + 4 float
    tl.store(o_ptr + i, libdevice.tanh(x) + libdevice.isnan(x))  # 1 special, 1 float


def test_special_functions():
    assert flops(special, torch.rand(16), torch.zeros(16), N=16) == Flops(special=16 * 10, float=16 * 9)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    a = tl.load(a_ptr + tl.arange(0, M)[:, None] * K + tl.arange(0, K))
    b = tl.load(b_ptr + tl.arange(0, K)[:, None] * N + tl.arange(0, N))
    acc = tl.dot(a, b, input_precision="ieee")
    acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N), acc)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_dot(dtype):
    a, b = torch.rand(16, 64).to(dtype), torch.rand(64, 32).to(dtype)
    assert flops(product, a, b, torch.zeros(16, 32), M=16, N=32, K=64) == Flops(dot=2 * 2 * 16 * 32 * 64)


@triton.jit
def combine(a, b):
    return a + b * 2.0


@triton.jit
def reductions(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N))
    rows = tl.arange(0, M)
    tl.store(o_ptr + rows, tl.sum(x, 1))  # M (N - 1)
    tl.store(o_ptr + rows, tl.max(x, 1))  # M (N - 1)
    tl.store(o_ptr + rows, tl.argmin(x, 1))  # M (N - 1)
    tl.store(o_ptr, tl.sum(x))  # M N - 1
    tl.store(o_ptr + rows, tl.reduce(x, 1, combine))  # M (N - 1)
    tl.store(o_ptr, tl.sum(tl.sum(tl.cumsum(x, 0), 1), 0))  # (M - 1) N + M (N - 1) + M - 1
    tl.store(o_ptr + rows, tl.sum(tl.associative_scan(x, 1, combine), 1))  # 2 M (N - 1)
    tl.store(o_ptr + rows, tl.sum((x > 0.5).to(tl.int32), 1))  # none
    tl.store(o_ptr, tl.xor_sum(rows))  # none


def test_reductions():
    M, N = 4, 16
    lines = M * (N - 1)
    counted = flops(reductions, torch.rand(M, N), torch.zeros(64), M=M, N=N)
    assert counted == Flops(reduction=4 * lines + (M * N - 1) + ((M - 1) * N + lines + M - 1) + 2 * lines)


@triton.jit
def computes_in_vain(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(x_ptr + N + i)
    _ = y * y - x
    tl.store(o_ptr + i, x + 1.0)  # N


def test_what_nobody_uses_is_not_computed_and_what_nobody_uses_is_loaded():
    x, o = torch.rand(32), torch.zeros(16)
    with trace() as t:
        computes_in_vain[(1,)](x, o, N=16)
    assert t.flops == Flops(float=16) and t.loads.elements == 32


@triton.jit
def softmax(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + offs, mask=offs < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x))
    tl.store(o_ptr + tl.program_id(0) * n + offs, e / tl.sum(e), mask=offs < n)


def test_each_program_and_launch_counts():
    x, o = torch.rand(3, 50), torch.zeros(3, 50)
    with trace() as t:
        softmax[(3,)](x, o, 50, BLOCK=64)
        softmax[(1,)](x, o, 50, BLOCK=64)
    one = Flops(float=128, special=64, reduction=126)
    assert [launch.flops for launch in t.launches] == [one + one + one, one]


@triton.jit
def doubled_twice(x):
    y = x * 2.0
    return y * 2.0


@triton.jit
def by_line(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    acc = tl.zeros((N,), tl.float32)
    for k in range(3):
        acc += tl.load(x_ptr + k * N + i)  # 3 N
    a = doubled_twice(acc)  # 2 N
    b = doubled_twice(tl.exp(a))  # 2 N, and N special
    if tl.program_id(0) > 0:
        b = b - 1.0  # N, of one program in two
    tl.store(o_ptr + i, b / tl.sum(b))  # N, and N - 1


def test_each_line_of_the_kernel_counts():
    with trace() as t:
        by_line[(2,)](torch.rand(48), torch.zeros(16), N=16)
    (launch,) = t.launches
    assert {(each.function, each.line): each.flops for each in launch.line_flops} == {
        ("by_line", 5): Flops(float=2 * 48),
        ("by_line", 6): Flops(float=2 * 32),
        ("by_line", 7): Flops(float=2 * 32, special=2 * 16),
        ("by_line", 9): Flops(float=16),
        ("by_line", 10): Flops(float=2 * 16, reduction=2 * 15),
    }
    assert launch.line_flops[1].source == "a = doubled_twice(acc)"
    assert launch.flops == Flops(float=96 + 64 + 64 + 16 + 32, special=32, reduction=30)


def test_what_was_counted_until_a_fault_remains():
    with pytest.raises(KernelFault), trace() as t:
        add[(2,)](torch.rand(100), torch.rand(100), torch.zeros(50), 100, BLOCK=64)
    assert t.flops == Flops(float=2 * 64)  # programs run side by side: both have added when the first one stores


@triton.jit
def product_of(a_ptr, b_ptr, out_ptr, PRECISION: tl.constexpr):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    a, b = tl.load(a_ptr + 16 * i + j), tl.load(b_ptr + 16 * i + j)
    tl.store(out_ptr + 16 * i + j, tl.dot(a, b, input_precision=PRECISION))


@pytest.mark.parametrize(
    "dtype, precision, tf32",
    [
        ("float32", None, True),
        ("float32", "tf32", True),
        ("float32", "ieee", False),
        ("float32", "tf32x3", False),
        ("float16", None, False),
        ("bfloat16", "tf32", False),
    ],
)
def test_a_launch_says_whether_it_multiplies_in_tf32(dtype, precision, tf32):
    a, b = torch.ones(2, 16, 16, dtype=getattr(torch, dtype))
    with trace() as t:
        product_of[(1,)](a, b, torch.empty(16, 16), precision)
    assert [launch.tf32 for launch in t.launches] == [tf32]
