"""A traced kernel computes what the same kernel computes on a GPU, and the trace's inputs may lie there."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

LARGE = torch.tensor(
    [1000.0, -1000, 448, 464, 465, 1e-3, float("inf"), float("nan"), 0.3, 57344, 61440, 61441, 1e6, 1e-9, -0.0, 7e-3]
)


def both(kernel, *arguments, **constants):
    """The last argument as the GPU leaves it, and as the trace does."""
    results = []
    for device in ("cuda", "cpu"):
        moved = [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]
        if device == "cuda":
            kernel[(1,)](*moved, **constants)
        else:
            with trace():
                kernel[(1,)](*moved, **constants)
        results.append(moved[-1].cpu())
    return results


@triton.jit
def cast(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(o_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16, torch.float16], ids=str)
def test_casts(dtype):
    x = torch.cat([LARGE, torch.randn(1008) * torch.logspace(-8, 5, 1008)])
    on_gpu, traced = both(cast, x, torch.zeros(1024, dtype=dtype), BLOCK=1024)
    bits = torch.uint8 if dtype.itemsize == 1 else torch.int16
    same = (on_gpu.view(bits) == traced.view(bits)) | (on_gpu.float().isnan() & traced.float().isnan())
    wrong = [(x[i].item(), on_gpu[i].item(), traced[i].item()) for i in torch.nonzero(~same).flatten().tolist()]
    assert not wrong, wrong[:10]


@triton.jit
def larger(x_ptr, y_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + i, tl.maximum(x, y))
    tl.store(o_ptr + BLOCK + i, tl.minimum(y, x))
    tl.store(o_ptr + 2 * BLOCK + i, tl.max(x) + tl.zeros((BLOCK,), tl.float32))


def test_nan_in_maximum_and_minimum():
    x = torch.randn(64)
    x[5] = float("nan")
    on_gpu, traced = both(larger, x, torch.randn(64), torch.zeros(192), BLOCK=64)
    torch.testing.assert_close(traced, on_gpu, rtol=0, atol=0, equal_nan=True)


@triton.jit
def arithmetic(x_ptr, y_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + i, tl.exp(x))
    tl.store(o_ptr + BLOCK + i, x / y)
    tl.store(o_ptr + 2 * BLOCK + i, tl.cumsum(y))
    tl.store(o_ptr + 3 * BLOCK + i, tl.sqrt(tl.abs(x)) + tl.erf(y))
    tl.store(o_ptr + 4 * BLOCK + i, tl.rand(7, i))
    tl.store(o_ptr + 5 * BLOCK + i, tl.randn(7, i))


def test_arithmetic_is_near():
    on_gpu, traced = both(arithmetic, torch.randn(64), torch.randn(64) + 3, torch.zeros(6 * 64), BLOCK=64)
    torch.testing.assert_close(traced, on_gpu, rtol=2e-6, atol=1e-5)
    assert torch.equal(traced[256:320], on_gpu[256:320]), "seeded random numbers are the same"


@triton.jit
def bf16_arithmetic(x_ptr, y_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i), tl.load(y_ptr + i)
    tl.store(o_ptr + i, x + y)
    tl.store(o_ptr + BLOCK + i, x * y)
    tl.store(o_ptr + 2 * BLOCK + i, x - y)


def test_bf16_arithmetic_is_equal():
    x, y = torch.randn(256).bfloat16(), torch.randn(256).bfloat16()
    on_gpu, traced = both(bf16_arithmetic, x, y, torch.zeros(768, dtype=torch.bfloat16), BLOCK=256)
    assert torch.equal(traced.view(torch.int16), on_gpu.view(torch.int16))


def test_tensors_on_the_gpu_can_be_traced():
    x, o = torch.randn(64, device="cuda"), torch.zeros(64, device="cuda", dtype=torch.bfloat16)
    with trace() as t:
        cast[(1,)](x, o, BLOCK=64)
    assert torch.equal(o, x.bfloat16())
    assert (t.loads.bytes, t.stores.bytes) == (256, 128)
