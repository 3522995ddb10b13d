"""Kernels as Triton's own tutorials write them run under trace() unchanged, and give torch's results.

Read in triton-lang/triton, python/tutorials, 01 to 09, and written anew with their idioms: how each one walks its tiles, waits for
a lock, takes a descriptor or casts an address. A reader who brings such a kernel from there should see numbers, not an error.
"""

import math

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.tracing import KernelError, KernelFault, trace

F32, F16 = torch.float32, torch.float16
E5M2, E4M3 = torch.float8_e5m2, torch.float8_e4m3fn
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NUM_SMS = 4


@pytest.fixture(autouse=True)
def the_same_numbers():
    torch.manual_seed(0)


def close(got, expected, tolerance):
    """expected: float64."""
    torch.testing.assert_close(got.double(), expected, rtol=tolerance, atol=tolerance)


# ----------------------------------------------------------------------------------------------------- 01 vector addition


@triton.jit
def add_kernel(x_ptr, y_ptr, output_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    output = tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, output, mask=mask)


@pytest.mark.parametrize("n", [4096, 9843])
def test_01_vector_addition(n):
    x, y = torch.rand(n), torch.rand(n)
    with trace() as t:
        output = torch.empty_like(x)
        add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)](x, y, output, n, BLOCK_SIZE=1024)
    assert torch.equal(output, x + y)
    assert t.faults == []
    assert t.programs == -(-n // 1024)
    assert (t.loads.bytes, t.stores.bytes) == (8 * n, 4 * n)


# ----------------------------------------------------------------------------------------------------- 02 fused softmax


@triton.jit
def softmax_kernel(
    output_ptr, input_ptr, input_row_stride, output_row_stride, n_rows, n_cols,
    BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr,
):  # fmt: skip
    row_start, row_step = tl.program_id(0), tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        cols = tl.arange(0, BLOCK_SIZE)
        mask = cols < n_cols
        row = tl.load(input_ptr + row_idx * input_row_stride + cols, mask=mask, other=-float("inf"))
        numerator = tl.exp(row - tl.max(row, axis=0))
        output = numerator / tl.sum(numerator, axis=0)
        tl.store(output_ptr + row_idx * output_row_stride + cols, output, mask=mask)


@pytest.mark.parametrize("n_rows, n_cols", [(19, 781), (8, 128), (3, 5)])
def test_02_fused_softmax_by_few_programs_that_stride_over_the_rows(n_rows, n_cols):
    x = torch.randn(n_rows, n_cols + 3)[:, :n_cols]  # rows that do not lie side by side
    with trace() as t:
        y = torch.empty(n_rows, n_cols)
        softmax_kernel[(min(NUM_SMS, n_rows), 1, 1)](
            y, x, x.stride(0), y.stride(0), n_rows, n_cols, triton.next_power_of_2(n_cols), 2
        )
    close(y, torch.softmax(x.double(), dim=1), 1e-6)
    assert t.faults == []
    assert t.programs == min(NUM_SMS, n_rows)
    assert t.loads.bytes == t.stores.bytes == 4 * n_rows * n_cols


# ----------------------------------------------------------------------------------------------------- 03 matrix multiplication


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_K": 32, "GROUP_M": 2}, num_stages=3, num_warps=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4, num_warps=4),
    ],
    key=["M", "N", "K"],
)
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    num_pid_in_group = GROUP_M * num_pid_n
    first_pid_m = (pid // num_pid_in_group) * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    tl.assume(pid_m >= 0)
    tl.assume(pid_n >= 0)
    tl.assume(stride_am > 0)
    tl.assume(stride_bn > 0)

    offs_am = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_bn = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        acc = leaky_relu(acc)
    c = acc.to(tl.float16)

    offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


@pytest.mark.parametrize("activation", ["", "leaky_relu"])
@pytest.mark.parametrize("dtype", [F16, E5M2], ids=["fp16", "fp8"])
@pytest.mark.parametrize("M, N, K", [(64, 64, 64), (100, 40, 72)])
def test_03_autotuned_matmul_in_grouped_order(M, N, K, dtype, activation):
    a, b = (torch.randn(M, K) / 4).to(F16).to(dtype), (torch.randn(N, K) / 4).to(F16).to(dtype).T  # b by columns
    with trace() as t:
        c = torch.empty(M, N, dtype=F16)
        matmul_kernel[lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)](
            a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1),
            ACTIVATION=activation,
        )  # fmt: skip
    expected = a.double() @ b.double()
    close(c, torch.nn.functional.leaky_relu(expected) if activation else expected, 2e-3)
    assert t.faults == []
    tiles = -(-M // 32) * -(-N // 16)  # of the first configuration
    assert t.programs == tiles
    assert t.loads.bytes == tiles * (32 + 16) * K * a.element_size()  # `%` loads rows again where a tile is not full
    assert t.stores.bytes == 2 * M * N


@triton.jit
def tiles_by_swizzle(order_ptr, SIZE_M: tl.constexpr, SIZE_N: tl.constexpr, GROUP: tl.constexpr):
    """The same walk in groups of rows, as the language has it."""
    for i in tl.static_range(SIZE_M):
        for j in tl.static_range(SIZE_N):
            m, n = tl.swizzle2d(i, j, SIZE_M, SIZE_N, GROUP)
            tl.store(order_ptr + i * SIZE_N + j, m * SIZE_N + n)


def test_03_swizzle2d_walks_down_a_group_of_rows_before_it_goes_right():
    with trace() as t:
        order = torch.empty(4, 3, dtype=torch.int32)
        tiles_by_swizzle[(1,)](order, SIZE_M=4, SIZE_N=3, GROUP=2)
    # groups of two rows, each by columns
    assert order.reshape(-1).tolist() == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]
    assert t.faults == []
    assert t.stores.bytes == 4 * 12


# ----------------------------------------------------------------------------------------------------- 04 dropout


@triton.jit
def dropout_kernel(x_ptr, keep_ptr, output_ptr, n_elements, p, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.load(keep_ptr + offsets, mask=mask)
    tl.store(output_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def seeded_dropout_kernel(x_ptr, output_ptr, n_elements, p, seed, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    keep = tl.rand(seed, offsets) > p
    tl.store(output_ptr + offsets, tl.where(keep, x / (1 - p), 0.0), mask=mask)


@triton.jit
def dropout_by_rows_kernel(x_ptr, seeds_ptr, output_ptr, stride, n_cols, p, BLOCK_SIZE: tl.constexpr):
    """What the tutorial leaves to its reader: a matrix, and a seed for each of its rows."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    seed = tl.load(seeds_ptr + row)
    x = tl.load(x_ptr + row * stride + cols, mask=mask)
    tl.store(output_ptr + row * stride + cols, tl.where(tl.rand(seed, cols) > p, x / (1 - p), 0.0), mask=mask)


def philox_rand(seed: int, n: int) -> torch.Tensor:
    """The numbers of tl.rand(seed, 0 .. n - 1): Salmon et al. 2011, Philox 4x32 with 10 rounds, the first of its four words."""
    a, b = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    c0, (c1, c2, c3) = np.arange(n, dtype=np.uint64), np.zeros((3, n), np.uint64)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        c0, c1, c2, c3 = (
            (b * c2 >> half) ^ c1 ^ np.uint64(k0),
            b * c2 & low,
            (a * c0 >> half) ^ c3 ^ np.uint64(k1),
            a * c0 & low,
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    signed = c0.astype(np.uint32).view(np.int32).astype(np.int64)
    return torch.from_numpy(np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10))


@pytest.mark.filterwarnings("ignore:tl.where with a non-boolean condition")  # the tutorial's mask is of int32
@pytest.mark.parametrize("kind", [torch.int32, torch.bool])
def test_04_dropout_by_a_mask(kind):
    n, p = 1000, 0.5
    x, keep = torch.randn(n), (torch.rand(n) > p).to(kind)
    with trace() as t:
        output = torch.empty_like(x)
        dropout_kernel[(triton.cdiv(n, 256),)](x, keep, output, n, p, BLOCK_SIZE=256)
    close(output, torch.where(keep.bool(), x.double() / (1 - p), 0.0), 1e-6)
    assert t.faults == []
    assert (t.loads.bytes, t.stores.bytes) == ((4 + keep.element_size()) * n, 4 * n)


@pytest.mark.parametrize("seed", [123, 512, (7 << 32) + 5])
def test_04_dropout_by_a_seed_keeps_what_philox_says(seed):
    n, p = 1000, 0.25
    x = torch.randn(n)
    with trace() as t:
        output, again = torch.empty_like(x), torch.empty_like(x)
        for each in (output, again):
            seeded_dropout_kernel[(triton.cdiv(n, 256),)](x, each, n, p, seed, BLOCK_SIZE=256)
    close(output, torch.where(philox_rand(seed, n) > p, x.double() / (1 - p), 0.0), 1e-6)
    assert torch.equal(output, again)
    assert t.faults == []
    assert t.loads.bytes == t.stores.bytes == 2 * 4 * n  # no mask


def test_04_dropout_of_a_matrix_by_a_seed_for_each_row():
    (n_rows, n_cols), p = (5, 100), 0.5
    x, seeds = torch.randn(n_rows, n_cols), torch.tensor([1, 2, 3, 2, 99], dtype=torch.int32)
    with trace() as t:
        output = torch.empty_like(x)
        dropout_by_rows_kernel[(n_rows,)](x, seeds, output, x.stride(0), n_cols, p, BLOCK_SIZE=128)
    keep = torch.stack([philox_rand(seed, n_cols) > p for seed in seeds.tolist()])
    close(output, torch.where(keep, x.double() / (1 - p), 0.0), 1e-6)
    assert t.faults == []
    assert (t.loads.bytes, t.stores.bytes) == (4 * n_rows * n_cols + 4 * n_rows, 4 * n_rows * n_cols)


# ----------------------------------------------------------------------------------------------------- 05 layer norm


@triton.jit
def layer_norm_forward(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    mean = 0
    total = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        total += tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w, b = tl.load(W + cols, mask=mask), tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def layer_norm_backward_dx(
    DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr
):
    """dx of a row, and its share of dw and db, added under a lock to one of GROUP_SIZE_M partial sums."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP_SIZE_M
    Lock += lock_id
    Count = Lock + GROUP_SIZE_M
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = tl.load(X + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    mean, rstd = tl.load(Mean + row), tl.load(Rstd + row)
    xhat = tl.where(mask, (x - mean) * rstd, 0.0)
    wdy = tl.where(mask, w * dy, 0.0)
    c1, c2 = tl.sum(xhat * wdy, axis=0) / N, tl.sum(wdy, axis=0) / N
    tl.store(DX + cols, (wdy - (xhat * c1 + c2)) * rstd, mask=mask)
    partial_dw, partial_db = (dy * xhat).to(w.dtype), dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


@triton.jit
def layer_norm_backward_dwdb(DW, DB, FINAL_DW, FINAL_DB, M, N, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    dw = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    db = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for i in range(0, M, BLOCK_SIZE_M):
        rows = i + tl.arange(0, BLOCK_SIZE_M)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        offs = rows[:, None] * N + cols[None, :]
        dw += tl.load(DW + offs, mask=mask, other=0.0)
        db += tl.load(DB + offs, mask=mask, other=0.0)
    tl.store(FINAL_DW + cols, tl.sum(dw, axis=0), mask=cols < N)
    tl.store(FINAL_DB + cols, tl.sum(db, axis=0), mask=cols < N)


@pytest.mark.parametrize("dtype", [F32, F16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("M, N", [(12, 128), (11, 100)])
def test_05_layer_norm_forward(M, N, dtype):
    x, w, b = (-2.3 + 0.5 * torch.randn(M, N)).to(dtype), torch.rand(N).to(dtype), torch.rand(N).to(dtype)
    with trace() as t:
        y, mean, rstd = torch.empty_like(x), torch.empty(M), torch.empty(M)
        layer_norm_forward[(M,)](x, y, w, b, mean, rstd, x.stride(0), N, 1e-5, BLOCK_SIZE=64, num_warps=1, num_ctas=1)
    close(y, torch.nn.functional.layer_norm(x.double(), (N,), w.double(), b.double()), 1e-5 if dtype == F32 else 3e-3)
    assert t.faults == []
    size = x.element_size()
    assert (t.loads.bytes, t.stores.bytes) == (5 * M * N * size, M * N * size + 8 * M)


@pytest.mark.parametrize("dtype", [F32, F16], ids=["fp32", "fp16"])
@pytest.mark.parametrize("M, N", [(12, 128), (11, 100)])
def test_05_layer_norm_backward_with_locks(M, N, dtype):
    x, w, dy = (-2.3 + 0.5 * torch.randn(M, N)).to(dtype), torch.rand(N).to(dtype), (0.1 * torch.randn(M, N)).to(dtype)
    mean = x.double().mean(1)
    rstd = 1 / (x.double().var(1, correction=0) + 1e-5).sqrt()
    mean, rstd, groups = mean.float(), rstd.float(), 4
    with trace() as t:
        locks = torch.zeros(2 * groups, dtype=torch.int32)
        partial_dw, partial_db = torch.empty(groups, N, dtype=dtype), torch.empty(groups, N, dtype=dtype)
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        layer_norm_backward_dx[(M,)](
            dx, dy, partial_dw, partial_db, x, w, mean, rstd, locks, x.stride(0), N,
            GROUP_SIZE_M=groups, BLOCK_SIZE_N=128, num_warps=4,
        )  # fmt: skip
        layer_norm_backward_dwdb[lambda meta: [triton.cdiv(N, meta["BLOCK_SIZE_N"])]](
            partial_dw, partial_db, dw, db, min(groups, M), N, BLOCK_SIZE_M=32, BLOCK_SIZE_N=64, num_ctas=1
        )
    x64, w64, b64 = x.double().requires_grad_(), w.double().requires_grad_(), torch.zeros(N).double().requires_grad_()
    torch.nn.functional.layer_norm(x64, (N,), w64, b64).backward(dy.double())
    tolerance = 1e-5 if dtype == F32 else 5e-3
    close(dx, x64.grad, tolerance)
    close(dw, w64.grad, tolerance)
    close(db, b64.grad, tolerance)
    assert t.faults == []  # the lock puts the programs that share a partial sum in a row
    assert locks.tolist() == [0] * groups + [1] * groups
    size = x.element_size()
    first, second = t.launches
    # x, dy and w of each row; Count, Mean and Rstd; the partial sums, but by the first to come
    bytes_loaded = sum(access.bytes for access in first.accesses if access.op == "load")
    assert bytes_loaded == 3 * M * N * size + 12 * M + 2 * (M - groups) * N * size
    assert sum(access.bytes for access in second.accesses if access.op == "load") == 2 * groups * N * size


# ----------------------------------------------------------------------------------------------------- 06 fused attention


@triton.jit
def maybe_make_tensor_desc(desc_or_ptr, shape, strides, block_shape):
    if isinstance(desc_or_ptr, tl.tensor_descriptor):
        return desc_or_ptr
    else:
        return tl.make_tensor_descriptor(desc_or_ptr, shape, strides, block_shape)


@triton.jit
def attention_inner(
    acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype: tl.constexpr, start_m, qk_scale,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, STAGE: tl.constexpr,
    offs_m: tl.constexpr, offs_n: tl.constexpr, N_CTX: tl.constexpr,
    warp_specialize: tl.constexpr, IS_HOPPER: tl.constexpr,
):  # fmt: skip
    if STAGE == 1:  # left of the diagonal
        lo, hi = 0, start_m * BLOCK_M
    elif STAGE == 2:  # on it
        lo, hi = start_m * BLOCK_M, (start_m + 1) * BLOCK_M
        lo = tl.multiple_of(lo, BLOCK_M)
    else:  # not causal
        lo, hi = 0, N_CTX
    offsetk_y = offset_y + lo
    if dtype == tl.float8e5:
        offsetv_y = offset_y * HEAD_DIM + lo
    else:
        offsetv_y = offset_y + lo
    for start_n in tl.range(lo, hi, BLOCK_N, warp_specialize=warp_specialize):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = desc_k.load([offsetk_y, 0]).T
        qk = tl.dot(q, k)
        if STAGE == 2:
            mask = offs_m[:, None] >= (start_n + offs_n[None, :])
            qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
            m_ij = tl.maximum(m_i, tl.max(qk, 1))
            qk -= m_ij[:, None]
        else:
            m_ij = tl.maximum(m_i, tl.max(qk, 1) * qk_scale)
            qk = qk * qk_scale - m_ij[:, None]
        p = tl.math.exp2(qk)
        alpha = tl.math.exp2(m_i - m_ij)
        l_ij = tl.sum(p, 1)
        if not IS_HOPPER and BLOCK_M == 64 and HEAD_DIM == 32:  # halves, scaled one by one
            BM: tl.constexpr = acc.shape[0]
            BN: tl.constexpr = acc.shape[1]
            acc0, acc1 = acc.reshape([BM, 2, BN // 2]).permute(0, 2, 1).split()
            acc0 = acc0 * alpha[:, None]
            acc1 = acc1 * alpha[:, None]
            acc = tl.join(acc0, acc1).permute(0, 2, 1).reshape([BM, BN])
        else:
            acc = acc * alpha[:, None]
        if dtype == tl.float8e5:
            v = desc_v.load([0, offsetv_y]).T
        else:
            v = desc_v.load([offsetv_y, 0])
        acc = tl.dot(p.to(dtype), v, acc)
        l_i = l_i * alpha + l_ij
        m_i = m_ij
        offsetk_y += BLOCK_N
        offsetv_y += BLOCK_N
    return acc, l_i, m_i


def set_block_shapes(nargs):
    if not isinstance(nargs["desc_q"], TensorDescriptor):
        return
    rows_of_q, rows_of_k = [nargs["BLOCK_M"], nargs["HEAD_DIM"]], [nargs["BLOCK_N"], nargs["HEAD_DIM"]]
    nargs["desc_q"].block_shape = nargs["desc_o"].block_shape = rows_of_q
    nargs["desc_k"].block_shape = rows_of_k
    nargs["desc_v"].block_shape = rows_of_k[::-1] if nargs["FP8_OUTPUT"] else rows_of_k


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": BM, "BLOCK_N": 32}, num_stages=s, num_warps=4, pre_hook=set_block_shapes)
        for BM in (256, 64, 128)
        for s in (2, 3)
    ],
    key=["N_CTX", "HEAD_DIM", "FP8_OUTPUT", "warp_specialize"],
    prune_configs_by={
        "early_config_prune": lambda configs, named_args, **kwargs: [
            c for c in configs if c.kwargs["BLOCK_M"] <= kwargs["N_CTX"]
        ]
    },
)
@triton.jit
def attention_forward(
    sm_scale, M, Z, H, desc_q, desc_k, desc_v, desc_o, N_CTX,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, FP8_OUTPUT: tl.constexpr,
    STAGE: tl.constexpr, warp_specialize: tl.constexpr, IS_HOPPER: tl.constexpr,
):  # fmt: skip
    dtype = tl.float8e5 if FP8_OUTPUT else tl.float16
    tl.static_assert(BLOCK_N <= HEAD_DIM)
    start_m, off_hz = tl.program_id(0), tl.program_id(1)
    off_z, off_h = off_hz // H, off_hz % H
    y_dim = Z * H * N_CTX
    desc_q = maybe_make_tensor_desc(
        desc_q, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_M, HEAD_DIM]
    )
    if FP8_OUTPUT:
        desc_v = maybe_make_tensor_desc(
            desc_v, shape=[HEAD_DIM, y_dim], strides=[N_CTX, 1], block_shape=[HEAD_DIM, BLOCK_N]
        )
    else:
        desc_v = maybe_make_tensor_desc(
            desc_v, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_N, HEAD_DIM]
        )
    desc_k = maybe_make_tensor_desc(
        desc_k, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_N, HEAD_DIM]
    )
    desc_o = maybe_make_tensor_desc(
        desc_o, shape=[y_dim, HEAD_DIM], strides=[HEAD_DIM, 1], block_shape=[BLOCK_M, HEAD_DIM]
    )
    offset_y = off_z * (N_CTX * H) + off_h * N_CTX
    qo_offset_y = offset_y + start_m * BLOCK_M
    offs_m, offs_n = start_m * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32) + 1.0
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504  # 1 / ln 2
    q = desc_q.load([qo_offset_y, 0])
    if STAGE & 1:
        acc, l_i, m_i = attention_inner(
            acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype, start_m, qk_scale, BLOCK_M, HEAD_DIM, BLOCK_N,
            4 - STAGE, offs_m, offs_n, N_CTX, warp_specialize, IS_HOPPER,
        )  # fmt: skip
    if STAGE & 2:
        acc, l_i, m_i = attention_inner(
            acc, l_i, m_i, q, desc_k, desc_v, offset_y, dtype, start_m, qk_scale, BLOCK_M, HEAD_DIM, BLOCK_N,
            2, offs_m, offs_n, N_CTX, warp_specialize, IS_HOPPER,
        )  # fmt: skip
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_hz * N_CTX + offs_m, m_i)
    desc_o.store([qo_offset_y, 0], acc.to(dtype))


@triton.jit
def attention_delta(O, DO, Delta, Z, H, N_CTX, BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr):
    off_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    off_hz, off_n = tl.program_id(1), tl.arange(0, HEAD_DIM)
    o = tl.load(O + off_hz * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :])
    do = tl.load(DO + off_hz * HEAD_DIM * N_CTX + off_m[:, None] * HEAD_DIM + off_n[None, :]).to(tl.float32)
    tl.store(Delta + off_hz * N_CTX + off_m, tl.sum(o * do, axis=1))


@triton.jit
def attention_dkdv(
    dk, dv, Q, k, v, sm_scale, DO, M, D, stride_tok, stride_d, H, N_CTX,
    BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr, HEAD_DIM: tl.constexpr,
    start_n, start_m, num_steps, MASK: tl.constexpr,
):  # fmt: skip
    offs_m, offs_n = start_m + tl.arange(0, BLOCK_M1), start_n + tl.arange(0, BLOCK_N1)
    offs_k = tl.arange(0, HEAD_DIM)
    qT_ptrs = Q + offs_m[None, :] * stride_tok + offs_k[:, None] * stride_d
    do_ptrs = DO + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d
    tl.static_assert(BLOCK_N1 % BLOCK_M1 == 0)
    curr_m, step_m = start_m, BLOCK_M1
    for _blk in range(num_steps):
        qT = tl.load(qT_ptrs)
        offs_m = curr_m + tl.arange(0, BLOCK_M1)
        m = tl.load(M + offs_m)
        pT = tl.math.exp2(tl.dot(k, qT) - m[None, :])
        if MASK:
            pT = tl.where(offs_m[None, :] >= offs_n[:, None], pT, 0.0)
        do = tl.load(do_ptrs)
        dv += tl.dot(pT.to(tl.float16), do)
        Di = tl.load(D + offs_m)
        dpT = tl.dot(v, tl.trans(do)).to(tl.float32)
        dsT = (pT * (dpT - Di[None, :])).to(tl.float16)
        dk += tl.dot(dsT, tl.trans(qT))
        curr_m += step_m
        qT_ptrs += step_m * stride_tok
        do_ptrs += step_m * stride_tok
    return dk, dv


@triton.jit
def attention_dq(
    dq, q, K, V, do, m, D, stride_tok, stride_d, H, N_CTX,
    BLOCK_M2: tl.constexpr, BLOCK_N2: tl.constexpr, HEAD_DIM: tl.constexpr,
    start_m, start_n, num_steps, MASK: tl.constexpr,
):  # fmt: skip
    offs_m, offs_n = start_m + tl.arange(0, BLOCK_M2), start_n + tl.arange(0, BLOCK_N2)
    offs_k = tl.arange(0, HEAD_DIM)
    kT_ptrs = K + offs_n[None, :] * stride_tok + offs_k[:, None] * stride_d
    vT_ptrs = V + offs_n[None, :] * stride_tok + offs_k[:, None] * stride_d
    Di = tl.load(D + offs_m)
    tl.static_assert(BLOCK_M2 % BLOCK_N2 == 0)
    curr_n, step_n = start_n, BLOCK_N2
    for _blk in range(num_steps):
        kT, vT = tl.load(kT_ptrs), tl.load(vT_ptrs)
        p = tl.math.exp2(tl.dot(q, kT) - m)
        if MASK:
            offs_n = curr_n + tl.arange(0, BLOCK_N2)
            p = tl.where(offs_m[:, None] >= offs_n[None, :], p, 0.0)
        dp = tl.dot(do, vT).to(tl.float32)
        ds = (p * (dp - Di[:, None])).to(tl.float16)
        dq += tl.dot(ds, tl.trans(kT))
        curr_n += step_n
        kT_ptrs += step_n * stride_tok
        vT_ptrs += step_n * stride_tok
    return dq


@triton.jit
def attention_backward(
    Q, K, V, sm_scale, DO, DQ, DK, DV, M, D, stride_z, stride_h, stride_tok, stride_d, H, N_CTX,
    BLOCK_M1: tl.constexpr, BLOCK_N1: tl.constexpr, BLOCK_M2: tl.constexpr, BLOCK_N2: tl.constexpr,
    BLK_SLICE_FACTOR: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    LN2: tl.constexpr = 0.6931471824645996
    bhid, pid = tl.program_id(2), tl.program_id(0)
    off_chz = (bhid * N_CTX).to(tl.int64)
    adj = (stride_h * (bhid % H) + stride_z * (bhid // H)).to(tl.int64)
    Q += adj
    K += adj
    V += adj
    DO += adj
    DQ += adj
    DK += adj
    DV += adj
    M += off_chz
    D += off_chz
    offs_k = tl.arange(0, HEAD_DIM)

    # dk and dv of BLOCK_N1 keys
    start_n = pid * BLOCK_N1
    start_m = 0
    MASK_BLOCK_M1: tl.constexpr = BLOCK_M1 // BLK_SLICE_FACTOR
    offs_n = start_n + tl.arange(0, BLOCK_N1)
    dv = tl.zeros([BLOCK_N1, HEAD_DIM], dtype=tl.float32)
    dk = tl.zeros([BLOCK_N1, HEAD_DIM], dtype=tl.float32)
    k = tl.load(K + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d)
    v = tl.load(V + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d)
    if CAUSAL:
        start_m = start_n
        num_steps = BLOCK_N1 // MASK_BLOCK_M1
        dk, dv = attention_dkdv(
            dk, dv, Q, k, v, sm_scale, DO, M, D, stride_tok, stride_d, H, N_CTX,
            MASK_BLOCK_M1, BLOCK_N1, HEAD_DIM, start_n, start_m, num_steps, MASK=True,
        )  # fmt: skip
        start_m += num_steps * MASK_BLOCK_M1
    num_steps = (N_CTX - start_m) // BLOCK_M1
    dk, dv = attention_dkdv(
        dk, dv, Q, k, v, sm_scale, DO, M, D, stride_tok, stride_d, H, N_CTX,
        BLOCK_M1, BLOCK_N1, HEAD_DIM, start_n, start_m, num_steps, MASK=False,
    )  # fmt: skip
    tl.store(DV + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d, dv)
    dk *= sm_scale
    tl.store(DK + offs_n[:, None] * stride_tok + offs_k[None, :] * stride_d, dk)

    # dq of BLOCK_M2 queries
    start_m = pid * BLOCK_M2
    start_n = 0
    num_steps = N_CTX // BLOCK_N2
    MASK_BLOCK_N2: tl.constexpr = BLOCK_N2 // BLK_SLICE_FACTOR
    offs_m = start_m + tl.arange(0, BLOCK_M2)
    q = tl.load(Q + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d)
    dq = tl.zeros([BLOCK_M2, HEAD_DIM], dtype=tl.float32)
    do = tl.load(DO + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d)
    m = tl.load(M + offs_m)
    m = m[:, None]
    if CAUSAL:
        end_n = start_m + BLOCK_M2
        num_steps = BLOCK_M2 // MASK_BLOCK_N2
        dq = attention_dq(
            dq, q, K, V, do, m, D, stride_tok, stride_d, H, N_CTX, BLOCK_M2, MASK_BLOCK_N2, HEAD_DIM,
            start_m, end_n - num_steps * MASK_BLOCK_N2, num_steps, MASK=True,
        )  # fmt: skip
        end_n -= num_steps * MASK_BLOCK_N2
        num_steps = end_n // BLOCK_N2
        start_n = end_n - num_steps * BLOCK_N2
    dq = attention_dq(
        dq, q, K, V, do, m, D, stride_tok, stride_d, H, N_CTX, BLOCK_M2, BLOCK_N2, HEAD_DIM,
        start_m, start_n, num_steps, MASK=False,
    )  # fmt: skip
    dq *= LN2
    tl.store(DQ + offs_m[:, None] * stride_tok + offs_k[None, :] * stride_d, dq)


Z, H, N_CTX, HEAD_DIM, SM_SCALE = 1, 2, 192, 32, 0.5


def attention_reference(q, k, v, causal):
    """(output, log2 of the sums of exponentials) in the precision of q."""
    s = q @ k.transpose(-1, -2) * SM_SCALE
    if causal:
        s = s.masked_fill(~torch.ones(s.shape[-2:], dtype=torch.bool).tril(), -math.inf)
    return s.softmax(-1) @ v, s.logsumexp(-1) / math.log(2)


def heads(dtype=F16):
    return (0.5 * torch.randn(Z, H, N_CTX, HEAD_DIM)).to(F16).to(dtype)


@pytest.mark.parametrize("described_by", ["host", "kernel"])
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("hopper", [False, True], ids=["halves", "whole"])
def test_06_attention_forward_by_descriptors(described_by, causal, hopper):
    q, k, v = heads(), heads(), heads()
    with trace() as t:
        o, M = torch.empty_like(q), torch.empty(Z, H, N_CTX)
        described = [q, k, v, o]
        if described_by == "host":
            rows = [Z * H * N_CTX, HEAD_DIM]
            described = [TensorDescriptor(x, shape=rows, strides=[HEAD_DIM, 1], block_shape=[1, 1]) for x in described]
        attention_forward[lambda meta: (triton.cdiv(N_CTX, meta["BLOCK_M"]), Z * H, 1)](
            SM_SCALE, M, Z, H, *described, N_CTX=N_CTX, HEAD_DIM=HEAD_DIM, FP8_OUTPUT=False,
            STAGE=3 if causal else 1, warp_specialize=False, IS_HOPPER=hopper,
        )  # fmt: skip
    expected, lse = attention_reference(q.double(), k.double(), v.double(), causal)
    close(o, expected, 3e-3)
    close(M, lse, 1e-3)
    assert t.faults == []
    blocks = N_CTX // 64
    keys = 64 * blocks * (blocks + 1) // 2 if causal else blocks * N_CTX  # rows of k that the blocks of a head load
    assert t.loads.bytes == Z * H * HEAD_DIM * 2 * (N_CTX + 2 * keys)
    assert t.stores.bytes == Z * H * N_CTX * (HEAD_DIM * 2 + 4)


@pytest.mark.parametrize("described_by", ["host", "kernel"])
def test_06_attention_forward_in_fp8_with_v_transposed(described_by):
    q, k, v = heads(E5M2)[:, :1], heads(E5M2)[:, :1], heads(E5M2)[:, :1]
    with trace() as t:
        columns = v.transpose(-1, -2).contiguous()  # (Z, 1, HEAD_DIM, N_CTX)
        o, M = torch.empty(q.shape, dtype=E5M2), torch.empty(Z, 1, N_CTX)
        described = [q, k, columns, o]
        if described_by == "host":
            shapes = [[N_CTX, HEAD_DIM], [N_CTX, HEAD_DIM], [HEAD_DIM, N_CTX], [N_CTX, HEAD_DIM]]
            described = [
                TensorDescriptor(x, shape=shape, strides=[shape[1], 1], block_shape=[1, 1])
                for x, shape in zip(described, shapes, strict=True)
            ]
        attention_forward[lambda meta: (triton.cdiv(N_CTX, meta["BLOCK_M"]), Z, 1)](
            SM_SCALE, M, Z, 1, *described, N_CTX=N_CTX, HEAD_DIM=HEAD_DIM, FP8_OUTPUT=True,
            STAGE=3, warp_specialize=False, IS_HOPPER=False,
        )  # fmt: skip
    expected, _ = attention_reference(q.double(), k.double(), v.double(), True)
    close(o, expected, 0.25)  # p and o have two bits behind the point
    assert t.faults == []
    assert t.accesses_to("desc_o").bytes == N_CTX * HEAD_DIM


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_06_attention_backward(causal):
    q, k, v, do = heads(), heads(), heads(), heads()
    q64, k64, v64 = (x.double().requires_grad_() for x in (q, k, v))
    expected, lse = attention_reference(q64, k64, v64, causal)
    expected.backward(do.double())
    o, M = expected.detach().to(F16), lse.detach().float()
    with trace() as t:
        dq, dk, dv, delta = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), torch.empty_like(M)
        scaled_k = k * (SM_SCALE * 1.4426950408889634)
        attention_delta[(N_CTX // 64, Z * H)](o, do, delta, Z, H, N_CTX, BLOCK_M=64, HEAD_DIM=HEAD_DIM)
        attention_backward[(N_CTX // 64, 1, Z * H)](
            q, scaled_k, v, SM_SCALE, do, dq, dk, dv, M, delta, *q.stride(), H, N_CTX,
            BLOCK_M1=32, BLOCK_N1=64, BLOCK_M2=64, BLOCK_N2=32, BLK_SLICE_FACTOR=2,
            HEAD_DIM=HEAD_DIM, CAUSAL=causal, num_warps=4, num_stages=5,
        )  # fmt: skip
    close(dq, q64.grad, 5e-3)
    close(dk, k64.grad, 5e-3)
    close(dv, v64.grad, 5e-3)
    assert t.faults == []
    first, second = t.launches
    assert sum(access.bytes for access in first.accesses if access.op == "load") == 2 * 2 * q.numel()
    assert sum(access.bytes for access in second.accesses if access.op == "store") == 3 * 2 * q.numel()


# ----------------------------------------------------------------------------------------------------- 07 libdevice


@triton.jit
def asin_kernel(x_ptr, y_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(axis=0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    x = libdevice.asin(x)
    tl.store(y_ptr + offsets, x, mask=mask)


@pytest.mark.parametrize("dtype, tolerance", [(F32, 1e-6), (torch.float64, 1e-15)], ids=["fp32", "fp64"])
@pytest.mark.parametrize("options", [{}, {"extern_libs": {"libdevice": "/some/libdevice.10.bc"}}], ids=["", "extern"])
def test_07_a_function_of_libdevice(dtype, tolerance, options):
    n = 1000
    x = torch.rand(n, dtype=dtype)
    with trace() as t:
        y = torch.zeros_like(x)
        asin_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK_SIZE"]),)](x, y, n, BLOCK_SIZE=256, **options)
    close(y, torch.asin(x.double()), tolerance)
    assert t.faults == []
    assert t.loads.bytes == t.stores.bytes == n * x.element_size()


# ----------------------------------------------------------------------------------------------------- 08 grouped products


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "NUM_SM": sms}) for sms in (NUM_SMS, 84)],
    key=["group_size"],
)
@triton.jit
def grouped_matmul_kernel(
    group_a_ptrs, group_b_ptrs, group_c_ptrs, base, group_gemm_sizes, g_lds, group_size,
    NUM_SM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, OFFSETS: tl.constexpr,
):  # fmt: skip
    """OFFSETS: the groups are told by elements from `base`, not by addresses."""
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_gemm_sizes + g * 3)
        gn = tl.load(group_gemm_sizes + g * 3 + 1)
        gk = tl.load(group_gemm_sizes + g * 3 + 2)
        num_m_tiles, num_n_tiles = tl.cdiv(gm, BLOCK_M), tl.cdiv(gn, BLOCK_N)
        num_tiles = num_m_tiles * num_n_tiles
        while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda = tl.load(g_lds + g * 3)
            ldb = tl.load(g_lds + g * 3 + 1)
            ldc = tl.load(g_lds + g * 3 + 2)
            if OFFSETS:
                a_ptr = base + tl.load(group_a_ptrs + g)
                b_ptr = base + tl.load(group_b_ptrs + g)
                c_ptr = base + tl.load(group_c_ptrs + g)
            else:
                a_ptr = tl.load(group_a_ptrs + g).to(tl.pointer_type(tl.float16))
                b_ptr = tl.load(group_b_ptrs + g).to(tl.pointer_type(tl.float16))
                c_ptr = tl.load(group_c_ptrs + g).to(tl.pointer_type(tl.float16))
            tile_idx_in_gemm = tile_idx - last_problem_end
            tile_m_idx, tile_n_idx = tile_idx_in_gemm // num_n_tiles, tile_idx_in_gemm % num_n_tiles
            offs_am = tile_m_idx * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_bn = tile_n_idx * BLOCK_N + tl.arange(0, BLOCK_N)
            offs_k = tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + offs_am[:, None] * lda + offs_k[None, :]
            b_ptrs = b_ptr + offs_k[:, None] * ldb + offs_bn[None, :]
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for _kk in range(0, tl.cdiv(gk, BLOCK_K)):
                tl.multiple_of(a_ptrs, [16, 16])
                tl.multiple_of(b_ptrs, [16, 16])
                a = tl.load(a_ptrs)
                b = tl.load(b_ptrs)
                acc += tl.dot(a, b)
                a_ptrs += BLOCK_K
                b_ptrs += BLOCK_K * ldb
            c = acc.to(tl.float16)
            offs_cm = tile_m_idx * BLOCK_M + tl.arange(0, BLOCK_M)
            offs_cn = tile_n_idx * BLOCK_N + tl.arange(0, BLOCK_N)
            tl.store(c_ptr + ldc * offs_cm[:, None] + offs_cn[None, :], c)
            tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


@triton.autotune(
    configs=[triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}, num_stages=s, num_warps=4) for s in (3, 4)],
    key=["group_size"],
)
@triton.jit
def grouped_matmul_tma_kernel(
    group_a_ptrs, group_b_ptrs, group_c_ptrs, base, group_gemm_sizes, g_lds, group_size,
    NUM_SM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FP8: tl.constexpr,
):  # fmt: skip
    """Each group's matrices by descriptors, made when a program comes to the group; b by columns."""
    dtype = tl.float8e4nv if FP8 else tl.float16
    tile_idx = tl.program_id(0)
    last_problem_end = 0
    for g in range(group_size):
        gm = tl.load(group_gemm_sizes + g * 3)
        gn = tl.load(group_gemm_sizes + g * 3 + 1)
        gk = tl.load(group_gemm_sizes + g * 3 + 2)
        num_m_tiles, num_n_tiles = tl.cdiv(gm, BLOCK_M), tl.cdiv(gn, BLOCK_N)
        num_tiles = num_m_tiles * num_n_tiles
        if tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
            lda = tl.load(g_lds + g * 3)
            ldb = tl.load(g_lds + g * 3 + 1)
            ldc = tl.load(g_lds + g * 3 + 2)
            a_ptr = base + tl.load(group_a_ptrs + g)
            b_ptr = base + tl.load(group_b_ptrs + g)
            c_ptr = base + tl.load(group_c_ptrs + g)
            a_desc = tl.make_tensor_descriptor(a_ptr, shape=[gm, gk], strides=[lda, 1], block_shape=[BLOCK_M, BLOCK_K])
            b_desc = tl.make_tensor_descriptor(b_ptr, shape=[gn, gk], strides=[ldb, 1], block_shape=[BLOCK_N, BLOCK_K])
            c_desc = tl.make_tensor_descriptor(c_ptr, shape=[gm, gn], strides=[ldc, 1], block_shape=[BLOCK_M, BLOCK_N])
            while tile_idx >= last_problem_end and tile_idx < last_problem_end + num_tiles:
                tile_idx_in_gemm = tile_idx - last_problem_end
                tile_m_idx, tile_n_idx = tile_idx_in_gemm // num_n_tiles, tile_idx_in_gemm % num_n_tiles
                offs_am, offs_bn = tile_m_idx * BLOCK_M, tile_n_idx * BLOCK_N
                acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
                for kk in range(0, tl.cdiv(gk, BLOCK_K)):
                    a = a_desc.load([offs_am, kk * BLOCK_K])
                    b = b_desc.load([offs_bn, kk * BLOCK_K])
                    acc += tl.dot(a, b.T)
                c_desc.store([tile_m_idx * BLOCK_M, tile_n_idx * BLOCK_N], acc.to(dtype))
                tile_idx += NUM_SM
        last_problem_end = last_problem_end + num_tiles


GROUPS = [(64, 96, 32), (32, 32, 64), (96, 64, 96)]  # M, N, K


def numbers(places, groups, ld_of_b):
    """Arguments that the kernels load: where each group's a, b and c begin, each group's M, N and K, and its leading dimensions."""
    starts = [torch.tensor(each, dtype=torch.int64) for each in places]
    lds = [(K, ld_of_b(N, K), N) for M, N, K in groups]
    return starts, [torch.tensor(each, dtype=torch.int32) for each in (groups, lds)]


def side_by_side(groups):
    """Places for a, b and c: where each group's matrix begins in one tensor; where the last one of c ends."""
    sizes = [M * K for M, N, K in groups] + [N * K for M, N, K in groups] + [M * N for M, N, K in groups]
    starts = np.cumsum([0, *sizes]).tolist()
    n = len(groups)
    return (starts[:n], starts[n : 2 * n], starts[2 * n : 3 * n]), starts[-1]


def test_08_grouped_matmul_with_offsets_into_one_tensor():
    a, b = [torch.rand(M, K).to(F16) for M, N, K in GROUPS], [torch.rand(K, N).to(F16) for M, N, K in GROUPS]
    places, end = side_by_side(GROUPS)
    starts, sizes = numbers(places, GROUPS, lambda N, K: N)
    with trace() as t:
        base = torch.empty(end, dtype=F16)
        base[: places[2][0]] = torch.cat([x.reshape(-1) for x in a + b])
        grouped_matmul_kernel[lambda meta: (meta["NUM_SM"],)](*starts, base, *sizes, len(GROUPS), OFFSETS=True)
    for (M, N, _), x, y, start in zip(GROUPS, a, b, places[2], strict=True):
        close(base[start : start + M * N].view(M, N), x.double() @ y.double(), 2e-3)
    assert t.faults == []
    assert t.programs == NUM_SMS  # of the first configuration
    assert t.accesses_to("base", "load").bytes == sum(M // 32 * (N // 32) * 64 * K * 2 for M, N, K in GROUPS)
    assert t.accesses_to("base", "store").bytes == sum(2 * M * N for M, N, K in GROUPS)


@pytest.mark.parametrize("dtype", [F16, E4M3], ids=["fp16", "fp8"])
def test_08_grouped_matmul_by_descriptors_that_each_group_makes(dtype):
    groups = [(64, 96, 32), (40, 48, 80), (16, 32, 16)]
    a = [(torch.randn(M, K) / 4).to(F16).to(dtype) for M, N, K in groups]
    b = [(torch.randn(N, K) / 4).to(F16).to(dtype) for M, N, K in groups]
    places, end = side_by_side(groups)
    starts, sizes = numbers(places, groups, lambda N, K: K)
    with trace() as t:
        base = torch.zeros(end, dtype=dtype)
        base[: places[2][0]] = torch.cat([x.reshape(-1) for x in a + b])
        grouped_matmul_tma_kernel[(NUM_SMS,)](*starts, base, *sizes, len(groups), NUM_SM=NUM_SMS, FP8=dtype == E4M3)
    for (M, N, _), x, y, start in zip(groups, a, b, places[2], strict=True):
        close(base[start : start + M * N].view(M, N), x.double() @ y.double().T, 2e-3 if dtype == F16 else 0.07)
    assert t.faults == []
    tiles = [(-(-M // 32), -(-N // 32)) for M, N, K in groups]
    elements = sum(K * (M * right + N * down) for (down, right), (M, N, K) in zip(tiles, groups, strict=True))
    assert t.accesses_to("base", "load").bytes == elements * base.element_size()
    assert t.accesses_to("base", "store").bytes == sum(M * N for M, N, K in groups) * base.element_size()


def by_addresses():
    """(trace, a, b, c) after the tutorial's own launch: what a kernel loads as a number is an address of torch's."""
    a, b = [torch.rand(M, K).to(F16) for M, N, K in GROUPS], [torch.rand(K, N).to(F16) for M, N, K in GROUPS]
    c = [torch.zeros(M, N).to(F16) for M, N, K in GROUPS]
    addresses = [[x.data_ptr() for x in each] for each in (a, b, c)]
    starts, sizes = numbers(addresses, GROUPS, lambda N, K: N)
    with trace() as t:
        grouped_matmul_kernel[lambda meta: (meta["NUM_SM"],)](*starts, None, *sizes, len(GROUPS), OFFSETS=False)
    return t, a, b, c


def test_08_grouped_matmul_with_addresses_works_or_is_refused_in_one_sentence():
    try:
        t, a, b, c = by_addresses()
    except (KernelError, KernelFault) as refusal:
        assert str(refusal).startswith("kernel `grouped_matmul_kernel`, line ")  # noqa: PT017  or it works
        assert "\n" not in str(refusal)  # noqa: PT017
    else:
        for x, y, z in zip(a, b, c, strict=True):
            close(z, x.double() @ y.double(), 2e-3)
        assert t.faults == []


def test_08_an_address_that_the_trace_cannot_know_is_not_said_to_be_outside_of_some_other_tensor():
    try:
        by_addresses()
    except (KernelError, KernelFault) as refusal:
        told = [name for name in grouped_matmul_kernel.arg_names if f"`{name}`, which has" in str(refusal)]
        assert not told  # or it works


# ----------------------------------------------------------------------------------------------------- 09 persistent matmul


def matmul_metadata(grid, kernel, args):
    return {"name": f"{kernel.name} [M={args['M']}, N={args['N']}, K={args['K']}]", "flops16": 2.0}


@triton.jit
def compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS):
    group_id = tile_id // num_pid_in_group
    first_pid_m = group_id * GROUP_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_M)
    pid_m = first_pid_m + (tile_id % group_size_m)
    pid_n = (tile_id % num_pid_in_group) // group_size_m
    return pid_m, pid_n


@triton.jit(launch_metadata=matmul_metadata)
def matmul_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr, NUM_SMS: tl.constexpr,
):  # fmt: skip
    start_pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n, k_tiles = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    num_tiles = num_pid_m * num_pid_n
    tile_id_c = start_pid - NUM_SMS  # counted twice, so that prologue and epilogue do not share it
    offs_k_for_mask = tl.arange(0, BLOCK_K)
    num_pid_in_group = GROUP_M * num_pid_n
    for tile_id in tl.range(start_pid, num_tiles, NUM_SMS, flatten=True):
        pid_m, pid_n = compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS)
        offs_am = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_bn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        offs_am = tl.where(offs_am < M, offs_am, 0)
        offs_bn = tl.where(offs_bn < N, offs_bn, 0)
        offs_am = tl.max_contiguous(tl.multiple_of(offs_am, BLOCK_M), BLOCK_M)
        offs_bn = tl.max_contiguous(tl.multiple_of(offs_bn, BLOCK_N), BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_K + tl.arange(0, BLOCK_K)
            a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
            b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
            a = tl.load(a_ptrs, mask=offs_k_for_mask[None, :] < K - ki * BLOCK_K, other=0.0)
            b = tl.load(b_ptrs, mask=offs_k_for_mask[:, None] < K - ki * BLOCK_K, other=0.0)
            acc = tl.dot(a, b, acc)
        tile_id_c += NUM_SMS
        pid_m, pid_n = compute_pid(tile_id_c, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS)
        offs_cm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_cn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
        if c_ptr.dtype.element_ty == tl.float8e4nv:
            c = acc.to(tl.float8e4nv)
        else:
            c = acc.to(tl.float16)
        tl.store(c_ptrs, c, mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def set_tile_shapes(nargs):
    BLOCK_M, BLOCK_N, BLOCK_K = nargs["BLOCK_M"], nargs["BLOCK_N"], nargs["BLOCK_K"]
    nargs["a_desc"].block_shape = [BLOCK_M, BLOCK_K]
    nargs["b_desc"].block_shape = [BLOCK_N, BLOCK_K]
    nargs["c_desc"].block_shape = [BLOCK_M, BLOCK_N // 2 if nargs["EPILOGUE_SUBTILE"] else BLOCK_N]


TILE = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 2}


@triton.autotune(
    configs=[triton.Config(TILE, num_stages=3, num_warps=4, pre_hook=set_tile_shapes)],
    key=["M", "N", "K", "WARP_SPECIALIZE"],
)
@triton.jit(launch_metadata=matmul_metadata)
def matmul_tma_persistent(
    a_desc, b_desc, c_desc, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EPILOGUE_SUBTILE: tl.constexpr, NUM_SMS: tl.constexpr, FP8_OUTPUT: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    dtype = tl.float8e4nv if FP8_OUTPUT else tl.float16
    start_pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n, k_tiles = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    num_tiles = num_pid_m * num_pid_n
    tile_id_c = start_pid - NUM_SMS
    num_pid_in_group = GROUP_M * num_pid_n
    for tile_id in tl.range(start_pid, num_tiles, NUM_SMS, flatten=True, warp_specialize=WARP_SPECIALIZE):
        pid_m, pid_n = compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS)
        offs_am, offs_bn = pid_m * BLOCK_M, pid_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_K
            a = a_desc.load([offs_am, offs_k])
            b = b_desc.load([offs_bn, offs_k])
            acc = tl.dot(a, b.T, acc)
        tile_id_c += NUM_SMS
        pid_m, pid_n = compute_pid(tile_id_c, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS)
        offs_am_c, offs_bn_c = pid_m * BLOCK_M, pid_n * BLOCK_N
        if EPILOGUE_SUBTILE:
            halves = tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2))
            halves = tl.permute(halves, (0, 2, 1))
            acc0, acc1 = tl.split(halves)
            c_desc.store([offs_am_c, offs_bn_c], acc0.to(dtype))
            c_desc.store([offs_am_c, offs_bn_c + BLOCK_N // 2], acc1.to(dtype))
        else:
            c_desc.store([offs_am_c, offs_bn_c], acc.to(dtype))


@triton.jit(launch_metadata=matmul_metadata)
def matmul_descriptor_persistent(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    EPILOGUE_SUBTILE: tl.constexpr, NUM_SMS: tl.constexpr, WARP_SPECIALIZE: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    dtype = c_ptr.dtype.element_ty
    start_pid = tl.program_id(axis=0)
    num_pid_m, num_pid_n, k_tiles = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), tl.cdiv(K, BLOCK_K)
    num_tiles = num_pid_m * num_pid_n
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[N, K], strides=[K, 1], block_shape=[BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(
        c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N if not EPILOGUE_SUBTILE else BLOCK_N // 2]
    )
    tile_id_c = start_pid - NUM_SMS
    num_pid_in_group = GROUP_M * num_pid_n
    for tile_id in tl.range(start_pid, num_tiles, NUM_SMS, flatten=FLATTEN, warp_specialize=WARP_SPECIALIZE):
        pid_m, pid_n = compute_pid(tile_id, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS)
        offs_am, offs_bn = pid_m * BLOCK_M, pid_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BLOCK_K
            a = a_desc.load([offs_am, offs_k])
            b = b_desc.load([offs_bn, offs_k])
            acc = tl.dot(a, b.T, acc)
        tile_id_c += NUM_SMS
        pid_m, pid_n = compute_pid(tile_id_c, num_pid_in_group, num_pid_m, GROUP_M, NUM_SMS)
        offs_cm, offs_cn = pid_m * BLOCK_M, pid_n * BLOCK_N
        if EPILOGUE_SUBTILE:
            halves = tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2))
            halves = tl.permute(halves, (0, 2, 1))
            acc0, acc1 = tl.split(halves)
            c_desc.store([offs_cm, offs_cn], acc0.to(dtype))
            c_desc.store([offs_cm, offs_cn + BLOCK_N // 2], acc1.to(dtype))
        else:
            c_desc.store([offs_cm, offs_cn], acc.to(dtype))


def factors(M, N, K, dtype):
    """a of shape (M, K), b of shape (N, K), and their product in float64."""
    a, b = (torch.randn(M, K) / 4).to(F16).to(dtype), (torch.randn(N, K) / 4).to(F16).to(dtype)
    return a, b, a.double() @ b.double().T


def check_persistent(t, c, expected, M, N, K, dtype, clipped):
    """clipped: whether what lies outside of a and b costs nothing, as it does by descriptors."""
    close(c, expected, 2e-3 if dtype == F16 else 0.07)
    assert t.faults == []
    assert t.programs == min(NUM_SMS, -(-M // 32) * -(-N // 32))
    size, tiles_m, tiles_n = c.element_size(), -(-M // 32), -(-N // 32)
    rows_a, rows_b = (M * tiles_n, N * tiles_m) if clipped else (32 * tiles_m * tiles_n,) * 2
    assert t.loads.bytes == (rows_a + rows_b) * K * size
    assert t.stores.bytes == M * N * size


SIZES = pytest.mark.parametrize("M, N, K", [(128, 96, 64), (80, 144, 48), (32, 32, 32)])
DTYPES = pytest.mark.parametrize("dtype", [F16, E4M3], ids=["fp16", "fp8"])


@SIZES
@DTYPES
def test_09_persistent_matmul(M, N, K, dtype):
    a, b, expected = factors(M, N, K, dtype)
    with trace() as t:
        c = torch.empty(M, N, dtype=dtype)
        grid = lambda meta: (min(NUM_SMS, triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])),)  # noqa: E731
        strides = (*a.stride(), *b.T.stride(), *c.stride())
        matmul_persistent[grid](a, b.T, c, M, N, K, *strides, NUM_SMS=NUM_SMS, **TILE)
    check_persistent(t, c, expected, M, N, K, dtype, clipped=False)


@SIZES
@DTYPES
@pytest.mark.parametrize("subtile", [False, True], ids=["whole", "halves"])
def test_09_persistent_matmul_by_host_descriptors(M, N, K, dtype, subtile):
    a, b, expected = factors(M, N, K, dtype)
    with trace() as t:
        c = torch.empty(M, N, dtype=dtype)
        described = [TensorDescriptor(x, x.shape, x.stride(), [1, 1]) for x in (a, b, c)]
        grid = lambda meta: (min(NUM_SMS, triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"])),)  # noqa: E731
        matmul_tma_persistent[grid](
            *described, M, N, K, FP8_OUTPUT=dtype == E4M3, NUM_SMS=NUM_SMS, EPILOGUE_SUBTILE=subtile,
            WARP_SPECIALIZE=False,
        )  # fmt: skip
    check_persistent(t, c, expected, M, N, K, dtype, clipped=True)


@SIZES
@DTYPES
@pytest.mark.parametrize("subtile", [False, True], ids=["whole", "halves"])
def test_09_persistent_matmul_by_descriptors_made_in_the_kernel(M, N, K, dtype, subtile):
    a, b, expected = factors(M, N, K, dtype)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=DEVICE, dtype=torch.int8))
    with trace() as t:
        c = torch.empty(M, N, dtype=dtype)
        grid = (min(NUM_SMS, triton.cdiv(M, 32) * triton.cdiv(N, 32)),)
        matmul_descriptor_persistent[grid](
            a, b, c, M, N, K, NUM_SMS=NUM_SMS, EPILOGUE_SUBTILE=subtile, WARP_SPECIALIZE=False, FLATTEN=subtile, **TILE
        )
    check_persistent(t, c, expected, M, N, K, dtype, clipped=True)
