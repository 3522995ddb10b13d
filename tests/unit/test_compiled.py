"""The compiler's view of a kernel, without a GPU."""

import time

import pytest
import torch
import triton
import triton.language as tl

from course_lib.compiled import compile_for, ptx_for


@pytest.fixture(autouse=True)
def compile_every_time(monkeypatch):
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")


@triton.jit
def copy(x_ptr, o_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs * STRIDE, mask=mask), mask=mask)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr = "tf32"):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BM + tl.arange(0, BM)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rm[:, None] * K + k + rk[None, :])
        b = tl.load(b_ptr + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc)


X, O = torch.zeros(4096), torch.zeros(4096)
HALF, FLOAT = torch.zeros(256, 256, dtype=torch.float16), torch.zeros(256, 256)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_a_copy_on_every_architecture(gpu):
    found = compile_for(copy, X, O, 4096, STRIDE=1, BLOCK=1024, gpu=gpu)
    assert found.accepted, found.complaint
    assert (found.kernel, found.gpu) == ("copy", gpu)
    assert (found.load_bits, found.store_bits) == (128, 128)
    assert not found.tensor_cores and not found.spills


@pytest.mark.parametrize(
    "x, n, stride, load_bits, store_bits",
    [
        (X, 4096, 2, 32, 128),  # neighbours are not adjacent
        (X, 4095, 1, 32, 32),  # the mask may end anywhere
        (X[1:], 4080, 1, 32, 128),  # starts 4 bytes past a boundary
        (X.half(), 4096, 1, 128, 128),
        (X.to(torch.int8), 4096, 1, 64, 128),  # eight elements a thread: 1024 / 128
    ],
)
def test_width_of_loads(x, n, stride, load_bits, store_bits):
    found = compile_for(copy, x, O, n, STRIDE=stride, BLOCK=1024)
    assert (found.load_bits, found.store_bits) == (load_bits, store_bits)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_matmul_uses_tensor_cores_and_shared_memory(gpu):
    found = compile_for(matmul, HALF, HALF, FLOAT, 256, 256, BM=64, BK=32, gpu=gpu, num_warps=4, num_stages=3)
    assert found.accepted and found.tensor_cores
    assert found.load_bits == 128  # cp.async copies 16 bytes a thread
    assert found.shared_bytes >= 2 * 2 * 64 * 32 * 2  # at least two stages of both tiles


def test_ieee_matmul_uses_no_tensor_cores():
    assert not compile_for(matmul, FLOAT, FLOAT, FLOAT, 256, 256, BM=32, BK=16, PRECISION="ieee").tensor_cores


@triton.jit
def hold_many_values(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Two matrices in registers at once, and each is needed again at the end."""
    offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    a = tl.load(x_ptr + offs)
    b = tl.load(x_ptr + offs + BLOCK * BLOCK)
    total = tl.sum(a * b)
    tl.store(o_ptr + offs, (a - total) * (b + total))


@pytest.mark.parametrize("block, spills", [(32, False), (128, True)])
def test_spills(block, spills):
    assert compile_for(hold_many_values, FLOAT, FLOAT, BLOCK=block, num_warps=4).spills == spills


def test_too_much_shared_memory():
    found = compile_for(matmul, HALF, HALF, FLOAT, 256, 256, BM=128, BK=128, gpu="sm_86", num_stages=3, num_warps=8)
    assert not found.accepted and not found.too_slow
    assert found.complaint.startswith(
        f"kernel `matmul` needs {found.shared_bytes:,} bytes of shared memory, sm_86 offers"
    )


# ----------------------------------------------------------------------------------------------------- what is refused


@triton.jit
def breaks(x_ptr, n, BLOCK: tl.constexpr):
    for i in range(n):
        if i > 3:
            break
    tl.store(x_ptr, n)


@triton.jit
def branches_on_a_block(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if offs < n:
        tl.store(x_ptr + offs, 1.0)


FACTOR = 3


@triton.jit
def uses_a_global(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0 * FACTOR)


@triton.jit
def defines_in_one_branch(x_ptr, n, BLOCK: tl.constexpr):
    if n > 3:
        y = 1.0
    tl.store(x_ptr, y)


@triton.jit
def changes_its_type(x_ptr, n, BLOCK: tl.constexpr):
    acc = 0
    for i in range(n):
        acc += tl.load(x_ptr + i)
    tl.store(x_ptr, acc)


@triton.jit
def takes_a_size_at_run_time(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, n), 1.0)


@triton.jit
def makes_a_dict(x_ptr, n, BLOCK: tl.constexpr):
    sizes = {"a": 1}  # noqa: F841
    tl.store(x_ptr, 1.0)


@triton.jit
def calls_torch(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, torch.zeros(3))


@triton.jit
def multiplies_too_small_blocks(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, 8)[:, None] * 8 + tl.arange(0, 8)[None, :]
    x = tl.load(x_ptr + offs)
    tl.store(x_ptr + offs, tl.dot(x, x))


@triton.jit
def helper(x_ptr):
    return tl.load(x_ptr) + missing  # noqa: F821


@triton.jit
def calls_a_broken_helper(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, helper(x_ptr))


@pytest.mark.parametrize(
    "kernel, complaint",
    [
        (breaks, "kernel `breaks`, line 4: `break`: `Break` is not part of Triton's language. sm_90 cannot run this."),
        (branches_on_a_block, "line 3: `if offs < n:`: Boolean value of Tensor"),
        (uses_a_global, "line 2: `tl.store(x_ptr + tl.arange(0, BLOCK), 1.0 * FACTOR)`: `FACTOR` is a global"),
        (defines_in_one_branch, "line 4: `tl.store(x_ptr, y)`: `y` is not defined here on every path"),
        (changes_its_type, "line 3: `for i in range(n):`: Loop-carried variable acc has initial type int32"),
        (takes_a_size_at_run_time, "arange's arguments must be of type tl.constexpr"),
        (makes_a_dict, "`Dict` is not part of Triton's language"),
        (calls_torch, "kernel `calls_torch`, line 2: `tl.store(x_ptr, torch.zeros(3))`: `zeros` is a Python function"),
        (multiplies_too_small_blocks, "tl.dot needs blocks of at least M 1, N 1, K 16"),
        (
            calls_a_broken_helper,
            "line 2: `tl.store(x_ptr, helper(x_ptr))`, in `helper`, line 2: `return tl.load(x_ptr)",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("seconds", [None, 30])
def test_complaints(kernel, complaint, seconds):
    found = compile_for(kernel, X, 7, BLOCK=64, seconds=seconds)
    assert not found.accepted and not found.too_slow
    assert complaint in found.complaint
    assert "\n" not in found.complaint


# ----------------------------------------------------------------------------------------------------- the rest


def test_a_slow_compile_is_stopped():
    began = time.monotonic()
    found = compile_for(
        matmul, FLOAT, FLOAT, FLOAT, 256, 256, BM=256, BK=64, PRECISION="ieee", gpu="sm_80", seconds=0.5
    )
    assert found.too_slow and not found.accepted
    assert found.complaint == "kernel `matmul` was not compiled: too slow"
    assert time.monotonic() - began < 10  # the compiler itself would need more


def test_a_quick_compile_is_the_same_with_a_limit():
    arguments = dict(STRIDE=1, BLOCK=256, num_warps=2)
    assert compile_for(copy, X, O, 4096, seconds=30, **arguments) == compile_for(copy, X, O, 4096, **arguments)


@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def decorated(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offs, 1.0)
    else:
        tl.store(x_ptr + offs, 2.0, mask=offs < n)


def test_autotuned_kernels_and_heuristics():
    assert ".reqntid 32" in ptx_for(decorated, X, 128).replace(".maxntid", ".reqntid")
    assert "0f3F800000" in ptx_for(decorated, X, 128) or "1065353216" in ptx_for(decorated, X, 128)
    assert compile_for(decorated, X, 100).accepted


def test_ptx():
    ptx = ptx_for(copy, X, O, 4096, STRIDE=1, BLOCK=1024, gpu="sm_80")
    assert ".target sm_80" in ptx and "ld.global.v4" in ptx
    with pytest.raises(ValueError, match="`break`"):
        ptx_for(breaks, X, 7, BLOCK=64)


@triton.jit
def by_descriptor(x, o, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    o.store([i, 0], x.load([i, 0]))


def test_host_descriptors():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, o = (TensorDescriptor.from_tensor(FLOAT, [32, 64]) for _ in range(2))
    found = compile_for(by_descriptor, x, o, BLOCK=32)
    assert found.accepted, found.complaint
    assert found.load_bits == 128
