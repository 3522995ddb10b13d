"""Kernels compute here what they compute on a GPU, however they are written."""

import warnings

import pytest
import torch
import triton
import triton.language as T
import triton.language as tl
from sentences import mentions, says
from triton.language import arange, load, program_id
from triton.language import store as put
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as cuda_libdevice
from triton.language.extra.cuda.libdevice import tanh as hyperbolic_tangent
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.tracing import KernelError, KernelFault, blocks, trace

SIZES = tl.constexpr(16)
TRITON = tuple(map(int, triton.__version__.split(".")[:2]))


def run(kernel, *arguments, grid=(1,), **constants):
    """Trace one launch. A warning is an error: a GPU prints none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "AnnAssign")  # Python 3.13's, of Triton's front end
        with trace() as t:
            kernel[grid](*arguments, **constants)
    assert t.faults == []
    return t


# ----------------------------------------------------------------------------------------------------- low precision


@triton.jit
def arithmetic(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + i, x + y)
    tl.store(o_ptr + N + i, x * y)
    tl.store(o_ptr + 2 * N + i, x - y)
    tl.store(o_ptr + 3 * N + i, tl.maximum(x, y))
    tl.store(o_ptr + 4 * N + i, tl.abs(x))
    tl.store(o_ptr + 5 * N + i, -x)
    tl.store(o_ptr + 6 * N + i, tl.where(x > y, x, y))
    tl.store(o_ptr + 7 * N + i, x * 0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_arithmetic_rounds_as_torch_does(dtype):
    x, y = (torch.randn(256) * 10).to(dtype), torch.randn(256).to(dtype)
    o = torch.empty(8, 256, dtype=dtype)
    run(arithmetic, x, y, o, N=256)
    tenth = torch.tensor(0.1, dtype=dtype)  # a constant takes the tensor's dtype
    expected = [x + y, x * y, x - y, torch.maximum(x, y), x.abs(), -x, torch.maximum(x, y), x * tenth]
    assert torch.equal(o, torch.stack(expected))


@triton.jit
def divide(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i) / tl.load(y_ptr + i))


def test_bf16_division():
    x, y = torch.randn(64).bfloat16(), torch.randn(64).bfloat16()
    o = torch.empty(64)
    run(divide, x, y, o, N=64)
    assert torch.equal(o, (x / y).float()) or torch.equal(o, x.float() / y.float())


@triton.jit
def casts(x_ptr, o_ptr, N: tl.constexpr, ROUNDING: tl.constexpr = None):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(o_ptr.dtype.element_ty, fp_downcast_rounding=ROUNDING))


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16, torch.float8_e5m2, torch.float8_e4m3fn])
def test_casts_round_to_nearest_even(target):
    x = torch.cat([torch.randn(1000), torch.tensor([1.00390625, 1.01171875, 0.0, -0.0] * 6)])  # ties of bf16 among them
    o = torch.zeros(1024, dtype=target)
    run(casts, x, o, N=1024)
    assert torch.equal(o.view(torch.uint8), x.to(target).view(torch.uint8))
    back = torch.empty(1024)
    run(casts, o, back, N=1024)
    assert torch.equal(back, o.float())


@pytest.mark.parametrize("target", [torch.bfloat16, torch.float16, torch.float8_e4m3fn])
def test_casts_toward_zero(target):
    x = torch.randn(512)
    o = torch.zeros(512, dtype=target)
    run(casts, x, o, N=512, ROUNDING="rtz")
    assert (o.float().abs() <= x.abs()).all()
    assert (
        (o.float() - x).abs() < {torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}.get(target, 0.125) * x.abs() + 2e-3
    ).all()
    exact = torch.tensor([1.5, -1.0078125, 1.99999, -1.99999])
    o = torch.zeros(4, dtype=torch.bfloat16)
    run(casts, exact, o, N=4, ROUNDING="rtz")
    assert o.tolist() == [1.5, -1.0078125, 1.9921875, -1.9921875]


def test_casts_to_integers_saturate_in_silence():
    x = torch.tensor([1.9, -1.9, 3e9, -3e9, 1e20, float("inf"), float("nan"), -0.5])
    o = torch.zeros(8, dtype=torch.int32)
    run(casts, x, o, N=8)
    assert o.tolist() == [1, -1, 2**31 - 1, -(2**31), 2**31 - 1, 2**31 - 1, 0, 0]


@triton.jit
def low_precision_reductions(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, M)[:, None] * N + tl.arange(0, N))
    tl.store(o_ptr + tl.arange(0, M), tl.sum(x, 1))
    tl.store(o_ptr + M + tl.arange(0, M), tl.max(x, 1))
    tl.store(o_ptr + 2 * M + tl.arange(0, M), tl.min(x, 1))
    tl.store(o_ptr + 3 * M + tl.arange(0, M), tl.argmax(x, 1))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_reductions_of_low_precision(dtype):
    x = torch.randn(4, 64).to(dtype)
    o = torch.empty(4, 4)
    run(low_precision_reductions, x, o, M=4, N=64)
    torch.testing.assert_close(o[0], x.float().sum(1), rtol=2e-2, atol=0.25)
    assert torch.equal(o[1], x.float().amax(1)) and torch.equal(o[2], x.float().amin(1))
    assert torch.equal(o[3], x.float().argmax(1).float())


@triton.jit
def dot(a_ptr, b_ptr, c_ptr, N: tl.constexpr, OUT: tl.constexpr):
    tile = tl.arange(0, N)[:, None] * N + tl.arange(0, N)
    c = tl.dot(tl.load(a_ptr + tile), tl.load(b_ptr + tile), out_dtype=OUT)
    tl.store(c_ptr + tile, c)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float32])
def test_dots_equal_torchs(dtype):
    a, b = torch.randint(-3, 4, (32, 32)).to(dtype), torch.randint(-3, 4, (32, 32)).to(dtype)  # exact in any order
    c = torch.empty(32, 32)
    run(dot, a, b, c, N=32, OUT=tl.float32)
    assert torch.equal(c, a.float() @ b.float())


def test_dot_with_a_low_precision_accumulator():
    a, b = torch.randn(32, 32).half(), torch.randn(32, 32).half()
    c = torch.empty(32, 32, dtype=torch.float16)
    run(dot, a, b, c, N=32, OUT=tl.float16)
    first, second = (a[:, k].float() @ b[k].float() for k in (slice(16), slice(16, 32)))  # 16 products at a time
    assert torch.equal(c, (first.half().float() + second).half())


def test_dot_of_bytes():
    a, b = torch.randint(-128, 128, (32, 32), dtype=torch.int8), torch.randint(-128, 128, (32, 32), dtype=torch.int8)
    c = torch.empty(32, 32, dtype=torch.int32)
    run(dot, a, b, c, N=32, OUT=tl.int32)
    assert torch.equal(c, (a.long() @ b.long()).int())


@triton.jit
def fused(x_ptr, y_ptr, z_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.fma(tl.load(x_ptr + i), tl.load(y_ptr + i), tl.load(z_ptr + i)))


def test_fma_rounds_once():
    x = torch.tensor([1 + 2**-12] * 4)
    z = torch.tensor([-1.0] * 4)
    o = torch.empty(4)
    run(fused, x, x, z, o, N=4)
    assert o.tolist() == [2**-11 + 2**-24] * 4  # two roundings lose the last term


# ----------------------------------------------------------------------------------------------------- libdevice


@triton.jit
def many_functions(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + 0 * N + i, libdevice.tanh(x))
    tl.store(o_ptr + 1 * N + i, cuda_libdevice.exp(x))
    tl.store(o_ptr + 2 * N + i, hyperbolic_tangent(x))
    tl.store(o_ptr + 3 * N + i, libdevice.pow(x, y))
    tl.store(o_ptr + 4 * N + i, libdevice.fast_expf(x))
    tl.store(o_ptr + 5 * N + i, libdevice.fast_dividef(x, y))
    tl.store(o_ptr + 6 * N + i, libdevice.rint(10 * x))
    tl.store(o_ptr + 7 * N + i, libdevice.erf(x))
    tl.store(o_ptr + 8 * N + i, libdevice.fma(x, y, x))
    tl.store(o_ptr + 9 * N + i, libdevice.expm1(x))
    tl.store(o_ptr + 10 * N + i, libdevice.log1p(x))
    tl.store(o_ptr + 11 * N + i, libdevice.rsqrt(x))
    tl.store(o_ptr + 12 * N + i, libdevice.round(10 * x))
    tl.store(o_ptr + 13 * N + i, libdevice.div_rn(x, y))
    tl.store(o_ptr + 14 * N + i, libdevice.isnan(x / (x - x)).to(tl.float32))
    tl.store(o_ptr + 15 * N + i, libdevice.isinf(x / (x - x)).to(tl.float32))
    tl.store(o_ptr + 16 * N + i, tl.erf(x) + tl.rsqrt(x) + tl.exp2(x) + tl.log2(x) + tl.sin(x) + tl.cos(x) + tl.sqrt(x))
    tl.store(o_ptr + 17 * N + i, tl.floor(10 * x) + tl.ceil(10 * y) + tl.clamp(x, 0.2, 0.5))


def test_libdevice():
    x, y = torch.rand(64) + 0.01, torch.rand(64) + 0.5
    o = torch.empty(18, 64)
    run(many_functions, x, y, o, N=64)
    expected = [
        x.tanh(), x.exp(), x.tanh(), x**y, x.exp(), x / y, (10 * x).round(), x.erf(), x * y + x, x.expm1(), x.log1p(),
        x.rsqrt(), (10 * x + 0.5).floor(), x / y, torch.zeros(64), torch.ones(64),
        x.erf() + x.rsqrt() + x.exp2() + x.log2() + x.sin() + x.cos() + x.sqrt(),
        (10 * x).floor() + (10 * y).ceil() + x.clamp(0.2, 0.5),
    ]  # fmt: skip
    torch.testing.assert_close(o, torch.stack(expected), rtol=1e-5, atol=1e-6)


@triton.jit
def rare_function(x_ptr):
    tl.store(x_ptr, libdevice.cyl_bessel_i0(tl.load(x_ptr)))


@triton.jit
def assembly(x_ptr):
    tl.store(x_ptr, tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r,r", [1], dtype=tl.int32, is_pure=False, pack=1))


@pytest.mark.parametrize(
    "kernel, id, parameters", [(rare_function, "libdevice", {"function": "cyl_bessel_i0f"}), (assembly, "assembly", {})]
)
def test_what_only_a_gpu_can_do_is_named(kernel, id, parameters):
    with pytest.raises(KernelError, match=r"line 2: ") as refused, trace():
        kernel[(1,)](torch.ones(4))
    assert mentions(refused.value, f"launch.lacking.{id}", **parameters)


# ----------------------------------------------------------------------------------------------------- names


@triton.jit
def with_imported_names(x_ptr, o_ptr, N: T.constexpr):
    i = program_id(0) * N + arange(0, N)
    x = load(x_ptr + i, mask=i < 100, other=0.0)
    put(o_ptr + i, T.exp(x), mask=i < 100)


def test_names_imported_from_triton_language():
    x, o = torch.randn(100), torch.zeros(100)
    t = run(with_imported_names, x, o, grid=(2,), N=64)
    torch.testing.assert_close(o, x.exp())
    assert t.loads.bytes == 400 and t.launches[0].accesses[0].line == 3


@triton.jit
def with_a_constant(x_ptr, o_ptr):
    i = SIZES * tl.program_id(0) + tl.arange(0, SIZES)
    tl.store(o_ptr + i, SIZES + tl.load(x_ptr + i))


def test_a_global_constant():
    x, o = torch.arange(32.0), torch.zeros(32)
    run(with_a_constant, x, o, grid=(2,))
    assert torch.equal(o, x + 16)


@triton.jit
def apply(x_ptr, o_ptr, N: tl.constexpr, FUNCTION: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, FUNCTION(tl.load(x_ptr + i)))


@triton.jit
def halved(x):
    return x / 2


def test_a_function_as_a_constant():
    x, o = torch.rand(16), torch.zeros(16)
    run(apply, x, o, N=16, FUNCTION=tl.exp)
    torch.testing.assert_close(o, x.exp())
    run(apply, x, o, N=16, FUNCTION=halved)
    assert torch.equal(o, x / 2)


@triton.jit
def python_min_and_max(x_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    last = max(min(n, N), 1) - 1
    tl.store(o_ptr + i, min(tl.load(x_ptr + i), 0.5) + tl.load(x_ptr + min(i, last)) * min(N, 100))


def test_python_min_and_max():
    x, o = torch.rand(16), torch.zeros(16)
    with warnings.catch_warnings(), trace():  # the compiler's own: it would have tl.minimum
        warnings.simplefilter("ignore")
        python_min_and_max[(1,)](x, o, 10, N=16)
    assert torch.equal(o, x.clamp(max=0.5) + x[torch.arange(16).clamp(max=9)] * 16)


# ----------------------------------------------------------------------------------------------------- control flow


@triton.jit
def loops(x_ptr, o_ptr, n, N: tl.constexpr):
    total = 0.0
    k = 0
    while k < n:
        total += tl.load(x_ptr + k)
        k += 1
    for j in range(0, n, 2):
        total += tl.load(x_ptr + j) * (j // 2).to(tl.float32)
    for j in tl.static_range(N):
        total += j
    for j in tl.range(0, n, num_stages=2):
        if j % 2 == 0:
            total -= 1
    tl.store(o_ptr, total)


def test_loops():
    x, o = torch.arange(10.0), torch.zeros(1)
    run(loops, x, o, 10, N=4)
    assert o.item() == 45 + sum(2 * i * i for i in range(5)) + 6 - 5


@triton.jit
def hints(x_ptr, o_ptr, n, N: tl.constexpr):
    tl.static_assert(N == 16, "N")
    tl.assume(n > 0)
    tl.device_assert(n > 0, "n")
    i = tl.max_contiguous(tl.multiple_of(tl.arange(0, N), 16), N)
    tl.debug_barrier()
    tl.device_print("n", n)
    tl.store(o_ptr + i, tl.load(x_ptr + i, eviction_policy="evict_last", cache_modifier=".ca"))


def test_hints_and_printing(capsys):
    x, o = torch.rand(16), torch.zeros(16)
    run(hints, x, o, 7, N=16)
    assert torch.equal(o, x) and capsys.readouterr().out.split() == ["(0,", "0,", "0)", "n:", "[7]"]
    with trace(order=lambda n: (1, 0)):
        hints[(2,)](x, o, 8, N=16)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["(1,", "(0,"]
    with pytest.raises(KernelError, match=r"line 2: ") as refused, trace():
        hints[(1,)](x, o, 7, N=8)
    assert mentions(refused.value, "compiler.problem.static_assert_with", text="N")


@triton.jit
def scalar_masks(x_ptr, o_ptr, n):
    i = tl.program_id(0)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=7.0))


def test_a_masked_scalar_load_keeps_its_other():
    x, o = torch.ones(2), torch.zeros(4)
    run(scalar_masks, x, o, 2, grid=(4,))
    assert o.tolist() == [1, 1, 7, 7]


# ----------------------------------------------------------------------------------------------------- blocks


@triton.jit
def three_dimensions(x_ptr, o_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    i = tl.arange(0, A)[:, None, None] * (B * C) + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, tl.permute(tl.reshape(x, (C, A, B)), (1, 2, 0)) + tl.sum(x, axis=1, keep_dims=True))
    tl.atomic_add(o_ptr + tl.arange(0, A), tl.sum(tl.max(x, axis=2), axis=1))


def test_three_dimensions():
    x, o = torch.rand(2, 4, 8), torch.zeros(2, 4, 8)
    run(three_dimensions, x, o, A=2, B=4, C=8)
    expected = x.reshape(8, 2, 4).permute(1, 2, 0) + x.sum(1, keepdim=True)
    expected = expected.contiguous()
    expected.view(-1)[:2] += x.amax(2).sum(1)
    torch.testing.assert_close(o, expected)


@triton.jit
def batched_dot(a_ptr, b_ptr, o_ptr, B: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, B)[:, None, None] * (N * N) + tl.arange(0, N)[None, :, None] * N + tl.arange(0, N)
    tl.store(o_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i), input_precision="ieee"))


def test_a_batched_dot():
    a, b, o = torch.rand(2, 16, 16), torch.rand(2, 16, 16), torch.zeros(2, 16, 16)
    t = run(batched_dot, a, b, o, B=2, N=16)
    torch.testing.assert_close(o, a @ b)
    assert t.flops.dot == 2 * 2 * 16**3


@triton.jit
def dot_as_told(a_ptr, b_ptr, o_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)
    tl.store(o_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i), input_precision=PRECISION))


@pytest.mark.parametrize("precision, lowest, highest", [("ieee", 0, 1e-5), ("tf32", 1e-3, 0.1), (None, 1e-3, 0.1)])
def test_a_float32_dot_is_rounded_to_tf32_unless_told_otherwise(precision, lowest, highest):
    a, b, o = torch.rand(32, 32), torch.rand(32, 32), torch.zeros(32, 32)
    run(dot_as_told, a, b, o, N=32, PRECISION=precision)
    assert lowest <= float((o - a @ b).abs().max()) <= highest


@triton.jit
def rearranged(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    even, odd = tl.split(tl.reshape(x, (N // 2, 2)))
    half = tl.arange(0, N // 2)
    tl.store(o_ptr + half, even)
    tl.store(o_ptr + N // 2 + half, odd)
    tl.store(o_ptr + N + i, tl.interleave(odd, even))
    tl.store(o_ptr + 2 * N + i, tl.flip(x, 0))
    tl.store(o_ptr + 3 * N + i, tl.sort(x))
    tl.store(o_ptr + 4 * N + i, tl.gather(x, (i + 1) % N, 0))
    tl.store(o_ptr + 5 * N + i, tl.permute(tl.join(odd, even), (1, 0)).reshape(N))
    tl.store(o_ptr + 6 * N + i, tl.ravel(tl.join(even, odd)))


def test_rearranged():
    x, o = torch.randn(16), torch.zeros(7, 16)
    run(rearranged, x, o, N=16)
    even, odd = x[::2], x[1::2]
    swapped = torch.stack([odd, even], 1).view(-1)
    expected = [torch.cat([even, odd]), swapped, x.flip(0), x.sort()[0], x.roll(-1), torch.cat([odd, even]), x]
    assert torch.equal(o, torch.stack(expected))


@triton.jit
def counted(x_ptr, o_ptr, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, BINS), tl.histogram(tl.load(x_ptr + tl.arange(0, N)), BINS))


@triton.jit
def looked_up(x_ptr, i_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.gather(tl.load(x_ptr + i), tl.load(i_ptr + i), 0))


@triton.jit
def some_looked_up(x_ptr, i_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    found = tl.gather(tl.load(x_ptr + i), tl.load(i_ptr + i, mask=i < n), 0)
    tl.store(o_ptr + i, found, mask=i < n)


def test_a_gather_may_have_lanes_that_nobody_uses():
    x, o = torch.randn(8), torch.zeros(8)
    i = torch.tensor([7, 0, 3], dtype=torch.int32)
    run(some_looked_up, x, i, o, 3, N=8)
    assert torch.equal(o[:3], x[i]) and not o[3:].any()


@triton.jit
def counted_down(o_ptr, first, last, step):
    for i in range(first, last, step):
        tl.store(o_ptr + i, 1.0)


def test_what_has_no_meaning_on_a_gpu_is_said_with_its_line():
    """An H200 counts such values in any bin, stops at such a gather (an illegal address), and such a loop has no turn there."""
    x, o = torch.tensor([0, 1, 1, 7, 2, 2, 3, 0], dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    run(counted, x, o, N=8, BINS=8)
    assert o.tolist() == [2, 2, 2, 1, 0, 0, 0, 1]
    for outside in (8, -1):
        x[4] = outside
        with pytest.raises(KernelError, match=r"`counted`, line 2: ") as refused:
            run(counted, x, o, N=8, BINS=8)
        assert mentions(refused.value, "launch.undefined.histogram", bins=8, last=7, value=outside)
        with pytest.raises(KernelError, match=r"`looked_up`, line 3: ") as refused:
            run(looked_up, o, x, torch.zeros(8, dtype=torch.int32), N=8)
        assert mentions(refused.value, "launch.undefined.gather", element=outside, size=8, axis=0)
    for step in (-3, 0):
        with pytest.raises(KernelError, match=r"`counted_down`, line 2: ") as refused:
            run(counted_down, torch.zeros(16), 10, 0, step)
        assert says(refused.value, "launch.run.step", step=step)


def test_an_operation_that_has_no_version_here_is_named_with_its_line(monkeypatch):
    monkeypatch.delitem(blocks.OPERATIONS, "tt.join")
    with pytest.raises(KernelError, match=r"`joined`, line 3: ") as refused:
        run(joined, torch.zeros(8), torch.zeros(16), N=8)
    assert mentions(refused.value, "launch.lacking.operation", operation="join")


@triton.jit
def joined(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.join(tl.load(x_ptr + i), tl.load(x_ptr + i))
    tl.store(o_ptr + 2 * i[:, None] + tl.arange(0, 2)[None, :], x)


# ----------------------------------------------------------------------------------------------------- early returns


@triton.jit
def sign_of(x):
    if x > 0:
        return 1
    return -1


@triton.jit
def some_end_early(x_ptr, o_ptr, N: tl.constexpr):
    """A sign for all. Of those that are left where the branches meet, some have multiplied their element."""
    p = tl.program_id(0)
    x = tl.load(x_ptr + p)
    tl.store(o_ptr + N + p, sign_of(x))
    if x > 0:
        if x > 1:
            return
        x = x * 3
    tl.store(o_ptr + p, x)


@pytest.mark.parametrize("elements", [[1, 1, 1], [-1, -1, -1], [2, 2, 2], [1, -1, 2], [2, 1, 1]])
def test_programs_that_go_one_way_or_several(elements):
    x, o = torch.tensor(elements, dtype=torch.float32), torch.zeros(6)
    t = run(some_end_early, x, o, grid=(3,), N=3)
    left = {1: 3, -1: -1, 2: 0}
    assert o.tolist() == [left[each] for each in elements] + [1 if each > 0 else -1 for each in elements]
    assert (t.loads.elements, t.stores.elements) == (3, 3 + sum(each < 2 for each in elements))


# ----------------------------------------------------------------------------------------------------- reductions


@triton.jit
def merged(mean_a, count_a, mean_b, count_b):
    count = count_a + count_b
    return (mean_a * count_a + mean_b * count_b) / count, count


@triton.jit
def first_positive(a, b):
    if a > 0:
        return a
    return b


@triton.jit
def larger_of(a, b):
    return tl.maximum(a, b)


@triton.jit
def own_reductions(x_ptr, o_ptr, M: tl.constexpr, N: tl.constexpr):
    tile = tl.arange(0, M)[:, None] * N + tl.arange(0, N)
    x = tl.load(x_ptr + tile)
    mean, count = tl.reduce((x, tl.full((M, N), 1.0, tl.float32)), 1, merged)
    rows = tl.arange(0, M)
    tl.store(o_ptr + rows, mean)
    tl.store(o_ptr + M + rows, count)
    tl.store(o_ptr + 2 * M + rows, tl.reduce(x, 1, first_positive))
    tl.store(o_ptr + 3 * M + tile, tl.associative_scan(x, 1, larger_of, reverse=True))
    tl.store(o_ptr + 3 * M + M * N + tile, tl.cumsum(x, 0))
    tl.store(o_ptr + 3 * M + 2 * M * N + tile, tl.cumprod(x, 1, reverse=True))
    tl.store(o_ptr + 3 * M + 3 * M * N, tl.xor_sum(tile.to(tl.int32)))


def test_reductions_with_functions_of_the_authors():
    x, o = torch.randn(4, 8), torch.zeros(3 * 4 + 3 * 32 + 1)
    run(own_reductions, x, o, M=4, N=8)
    torch.testing.assert_close(o[:4], x.mean(1))
    assert o[4:8].tolist() == [8] * 4
    assert o[8:12].tolist() == [next((v for v in row if v > 0), row[-1]) for row in x.tolist()]
    scans = o[12:108].view(3, 4, 8)
    assert torch.equal(scans[0], x.flip(1).cummax(1)[0].flip(1))
    torch.testing.assert_close(scans[1], x.cumsum(0))
    torch.testing.assert_close(scans[2], x.flip(1).cumprod(1).flip(1))
    assert o[-1] == 0  # each bit is set in an even number of 0 ... 31


@triton.jit
def maxima(x_ptr, o_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(o_ptr, tl.max(x))
    value, index = tl.max(x, 0, return_indices=True)
    tl.store(o_ptr + 1, value)
    tl.store(o_ptr + 2, index)
    tl.store(o_ptr + 3, tl.maximum(tl.load(x_ptr), tl.load(x_ptr + 1)))


def test_a_number_wins_over_nan():
    o = torch.zeros(4)
    run(maxima, torch.tensor([float("nan"), 3.0, 9.0, 9.0]), o, N=4)
    assert o.tolist() == [9, 9, 2, 3]


# ----------------------------------------------------------------------------------------------------- integers


@triton.jit
def truths(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, ((x > 0) + (x > 1)).to(tl.int32))


def test_a_sum_of_two_bits_is_one_bit():
    o = torch.zeros(4, dtype=torch.int32)
    run(truths, torch.tensor([0.0, 1.0, 2.0, 3.0]), o, N=4)
    assert o.tolist() == [0, 1, 0, 0]


@triton.jit
def whole_numbers(x_ptr, y_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + i, x // y)
    tl.store(o_ptr + N + i, x % y)
    tl.store(o_ptr + 2 * N + i, x >> 1)
    tl.store(o_ptr + 3 * N + i, ~x)
    tl.store(o_ptr + 4 * N + i, tl.umulhi(x, y))
    tl.store(o_ptr + 5 * N + i, x * 65536 * 65536 + y)  # wraps around


def test_integers_are_those_of_c():
    x, y = torch.tensor([7, -7, 7, -7], dtype=torch.int32), torch.tensor([2, 2, -2, -2], dtype=torch.int32)
    o = torch.zeros(6, 4, dtype=torch.int32)
    run(whole_numbers, x, y, o, N=4)
    assert o[:4].tolist() == [[3, -3, -3, 3], [1, -1, 1, -1], [3, -4, 3, -4], [-8, 6, -8, 6]]
    high = [((a % 2**32) * (b % 2**32) >> 32) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert [v % 2**32 for v in o[4].tolist()] == high
    assert o[5].tolist() == y.tolist()


def philox(seed, counter, rounds=10):
    """Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", philox4x32: the first of the four numbers."""
    low = 2**32 - 1
    c0, c1, c2, c3, k0, k1 = counter & low, 0, 0, 0, seed & low, seed >> 32
    for _ in range(rounds):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & low, (a >> 32) ^ c3 ^ k1, a & low
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return c0


@triton.jit
def noise(o_ptr, u_ptr, n_ptr, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.randint(seed, i))
    tl.store(u_ptr + i, tl.rand(seed, i))
    tl.store(n_ptr + i, tl.randn(seed, i))


def test_random_numbers_are_philoxs():
    o, u, n = torch.zeros(512, dtype=torch.int32), torch.zeros(512), torch.zeros(512)
    seed = 0x123456789ABC
    run(noise, o, u, n, seed, N=512)
    expected = [philox(seed, i) for i in range(512)]
    assert [v % 2**32 for v in o.tolist()] == expected
    assert ((u >= 0) & (u < 1)).all() and abs(u.mean() - 0.5) < 0.05
    signed = torch.tensor([v - 2**32 if v >= 2**31 else v for v in expected], dtype=torch.int64)
    torch.testing.assert_close(u, torch.where(signed < 0, -signed - 1, signed).float() * 4.6566127342e-10)
    assert abs(n.mean()) < 0.2 and abs(n.std() - 1) < 0.2


# ----------------------------------------------------------------------------------------------------- atomics


@triton.jit
def atomics(x_ptr, o_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    old = tl.atomic_add(o_ptr + i // 2, x)
    tl.store(x_ptr + i, old)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_atomic_add(dtype):
    x, o = torch.tensor([1, 2, 3, 4]).to(dtype), torch.tensor([10, 20]).to(dtype)
    run(atomics, x, o, N=4)
    assert o.tolist() == [13, 27] and x.tolist() == [10, 11, 20, 23]


@triton.jit
def extremes(x_ptr, o_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    tl.atomic_max(o_ptr, x)
    tl.atomic_min(o_ptr + 1, x)


def test_atomic_max_and_min_of_floats():
    x, o = torch.tensor([3.0, -7.0, 5.0, -1.0]), torch.tensor([-100.0, 100.0])
    run(extremes, x, o, grid=(4,))
    assert o.tolist() == [5, -7]


# ----------------------------------------------------------------------------------------------------- launches


@triton.jit
def transpose_by_descriptor(x, o, M, N, BLOCK: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    out = tl.make_tensor_descriptor(o, [N, M], [M, 1], [BLOCK, BLOCK])
    out.store([j, i], x.load([i, j]).T)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tensor_descriptors(dtype):
    x, o = torch.randn(32, 48).to(dtype), torch.zeros(48, 32, dtype=dtype)
    t = run(transpose_by_descriptor, TensorDescriptor.from_tensor(x, [32, 32]), o, 32, 48, grid=(1, 2), BLOCK=32)
    assert torch.equal(o, x.T)
    assert t.loads.bytes == t.stores.bytes == x.nbytes and t.loads.masked == 32 * 64 - 32 * 48


@triton.jit
def scaled_rows(x_ptr, s_ptr, o_ptr, stride_m, stride_n, N: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, N)
    tl.store(o_ptr + row * N + i, tl.load(x_ptr + row * stride_m + i * stride_n) * tl.load(s_ptr))


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(scale)
        o = torch.empty(x.shape)
        scaled_rows[(x.shape[0],)](x, scale, o, x.stride(0), x.stride(1), N=x.shape[1])
        return o

    @staticmethod
    def backward(ctx, grad):
        (scale,) = ctx.saved_tensors
        o = torch.empty(grad.shape)
        scaled_rows[(grad.shape[0],)](grad, scale, o, grad.stride(0), grad.stride(1), N=grad.shape[1])
        return o, None


def test_autograd_functions_and_strided_views():
    x = torch.randn(8, 4, requires_grad=True)
    with trace() as t:
        y = Scale.apply(x.T, torch.tensor([3.0]))
        y.sum().backward()
    assert torch.equal(y, 3 * x.T) and torch.equal(x.grad, torch.full((8, 4), 3.0))
    assert len(t.launches) == 2


@triton.jit
def wrong(x_ptr):
    tl.store(x_ptr + 5, 1.0)


def in_the_readers_file():
    with trace():
        wrong[(1,)](torch.zeros(4))


def test_a_notebook_shows_the_sentence_and_the_readers_line():
    with pytest.raises(KernelFault) as caught:
        in_the_readers_file()
    shown = caught.value._render_traceback_()
    assert shown[-1].startswith("KernelFault: kernel `wrong`, line 2: `tl.store(x_ptr + 5, 1.0)`")
    assert shown[-2].endswith("in in_the_readers_file: wrong[(1,)](torch.zeros(4))")
    assert not any("triton" in place and "line" in place.split(":")[0] and "runtime" in place for place in shown)
    assert caught.value.__suppress_context__


# ----------------------------------------------------------------------------------------------------- errors in words


@triton.jit
def splits_the_wrong_axis(x_ptr, n):
    even, odd = tl.split(tl.reshape(tl.load(x_ptr + tl.arange(0, 16)), (2, 8)))


@triton.jit
def adds_in_halves(x_ptr, n):
    tl.dot(tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float32), tl.zeros((16, 16), tl.float16))


@triton.jit
def loads_offsets(x_ptr, n):
    tl.load(tl.arange(0, 16))


@triton.jit
def multiplies(x_ptr, n):
    tl.load(x_ptr + tl.arange(0, 16) * n)


@pytest.mark.parametrize(
    "kernel, n, problem",
    [
        (splits_the_wrong_axis, 1, "split"),
        pytest.param(
            adds_in_halves,
            1,
            "dot_accumulator",
            marks=pytest.mark.skipif(TRITON >= (3, 8), reason="halves are added in halves from Triton 3.8 on"),
        ),
        (loads_offsets, 1, "no_pointer"),
        pytest.param(
            multiplies,
            (4, 1),
            "tuple_as_a_number",
            marks=pytest.mark.skipif(TRITON < (3, 6), reason="kernels take tuples from Triton 3.6 on"),
        ),
    ],
)
def test_what_the_front_end_says_without_words(kernel, n, problem):
    with pytest.raises(KernelError, match=r"line 2: ") as refused, trace():
        kernel[(1,)](torch.zeros(16), n)
    assert mentions(refused.value, f"compiler.problem.{problem}")


REORDERS = tl.constexpr(TRITON < (3, 9))  # from 3.9 on cat keeps the order, and refuses to be allowed another


@triton.jit
def in_any_order(a_ptr, b_ptr, sum_ptr, cat_ptr, view_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    both = tl.cat(tl.load(a_ptr + i), tl.load(b_ptr + i), can_reorder=REORDERS)
    folded = tl.reshape(both, (2, N), can_reorder=True)
    tl.store(sum_ptr, tl.sum(both))
    tl.store(cat_ptr + tl.arange(0, 2 * N), both)
    tl.store(view_ptr + tl.arange(0, 2)[:, None] * N + i[None, :], folded)


@pytest.mark.filterwarnings("ignore:.*can_reorder=True. is deprecated")  # since Triton 3.9
def test_where_the_compiler_may_reorder_no_order_is_to_be_counted_on():
    a, b = torch.arange(16.0), torch.arange(16.0, 32)
    total, cat, view = torch.zeros(1), torch.zeros(32), torch.zeros(2, 16)
    with trace():
        in_any_order[(1,)](a, b, total, cat, view, N=16)
    assert total.item() == 31 * 16
    assert torch.equal(cat.sort().values, torch.arange(32.0))
    assert torch.equal(cat, torch.arange(32.0)) is not REORDERS.value
    assert torch.equal(view.flatten().sort().values, torch.arange(32.0)) and not torch.equal(view.flatten(), cat)


@triton.jit
def in_three_parts(a_ptr, b_ptr, c_ptr, N: tl.constexpr, HOW: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(c_ptr + i, tl.dot(tl.load(a_ptr + i), tl.load(b_ptr + i), input_precision=HOW))


def test_bf16x3_is_better_than_tf32_and_worse_than_float32():
    a, b = torch.randn(32, 32), torch.randn(32, 32)
    errors = {}
    for how in ("tf32", "bf16x3", "ieee") if TRITON >= (3, 6) else ("tf32", "ieee"):
        c = torch.empty(32, 32)
        run(in_three_parts, a, b, c, N=32, HOW=how)
        errors[how] = (c - a.double() @ b.double()).abs().max().item()
    if "bf16x3" in errors:
        assert 2 * errors["ieee"] < errors["bf16x3"] < errors["tf32"] / 4
    assert errors["ieee"] < errors["tf32"] / 100


@triton.jit
def described(x_ptr, o_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [row_stride, 1], [BLOCK, BLOCK])
    i = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(o_ptr + i, x.load([0, 0]))


def test_a_descriptor_needs_a_base_and_rows_at_16_bytes():
    x, o = torch.randn(2000), torch.zeros(16, 16)
    run(described, x, o, 16, 16, 20, BLOCK=16)
    assert torch.equal(o, x[:320].view(16, 20)[:, :16])
    for memory, row_stride, what, beside in ((x, 33, "row", 4), (x[2:], 20, "base", 8)):
        with pytest.raises(KernelError, match=r"`described`, line 2: ") as refused:
            run(described, memory, o, 16, 16, row_stride, BLOCK=16)
        assert says(refused.value, f"launch.run.descriptor_{what}", step=16, beside=beside)
