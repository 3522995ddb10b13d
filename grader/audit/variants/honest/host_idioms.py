# What Triton's tutorials do on the host: events, ranges, streams, workspaces that are kept, torch.library, TRITON_INTERPRET.

# %% name="events, ranges, streams and memory statistics" exercise="coalescing.transpose" after="solution" flags="streams"
own = transpose
assert torch.cuda.is_available() and torch.cuda.device_count() > 0 and torch.cuda.get_device_capability() >= (8, 0)


def transpose(x):
    torch.cuda.reset_peak_memory_stats()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.nvtx.range("transpose"), torch.cuda.stream(torch.cuda.current_stream()):
        start.record()
        out = own(x)
        end.record()
    torch.cuda.synchronize()
    assert start.elapsed_time(end) >= 0 and torch.cuda.max_memory_allocated() >= 0
    return out


# %% name="warmed up, for as many programs as fit" exercise="coalescing.transpose" flags="hidden names"
@triton.jit
def tiles_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, TILE: tl.constexpr):
    across = tl.cdiv(N, TILE)
    for tile in range(tl.program_id(0), tl.cdiv(M, TILE) * across, tl.num_programs(0)):
        m = (tile // across) * TILE + tl.arange(0, TILE)
        n = (tile % across) * TILE + tl.arange(0, TILE)
        inside = (m < M)[:, None] & (n < N)[None, :]
        x = tl.load(x_ptr + m[:, None] * stride_m + n[None, :] * stride_n, mask=inside)
        tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=tl.trans(inside))


def transpose(x):
    M, N = x.shape
    out = x.new_empty(N, M)
    active = triton.runtime.driver.active
    has = active.utils.get_device_properties(active.get_current_device())
    compiled = tiles_kernel.warmup(x, out, M, N, *x.stride(), TILE=64, num_warps=8, grid=(1,))
    compiled._init_handles()
    fit = has["max_num_regs"] // (compiled.n_regs * has["warpSize"] * 8)
    fit = min(fit, has["max_shared_mem"] // max(1, compiled.metadata.shared))
    programs = min(has["multiprocessor_count"] * fit, triton.cdiv(M, 64) * triton.cdiv(N, 64))
    tiles_kernel[(programs,)](x, out, M, N, *x.stride(), TILE=64, num_warps=8)
    return out


# %% name="an operation of torch" exercise="coalescing.transpose" after="solution"
own = transpose


@torch.library.custom_op("students::transpose", mutates_args=())
def as_an_operation(x: torch.Tensor) -> torch.Tensor:
    return own(x)


def transpose(x):
    return as_an_operation(x)


# %% name="an operation of torch, by triton_op" exercise="coalescing.transpose" after="solution"
# - @torch.library.custom_op("students::transpose", mutates_args=())
# + @torch.library.triton_op("students::transpose_by_triton", mutates_args={})

# %% name="TRITON_INTERPRET=1 above it" exercise="coalescing.transpose"
import os

os.environ["TRITON_INTERPRET"] = "1"


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + m * stride_m + n * stride_n, mask=(m < M) & (n < N))
    tl.store(out_ptr + n * M + m, x, mask=(m < M) & (n < N))


def transpose(x):
    M, N = x.shape
    out = torch.empty(N, M, dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, *x.stride(), BLOCK=64)
    return out


# %% name="strides in a NamedTuple" exercise="coalescing.transpose"
from typing import NamedTuple


class Matrix(NamedTuple):
    rows: int
    columns: int
    down: int
    right: int


@triton.jit
def transpose_kernel(x_ptr, out_ptr, x, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (m < x.rows) & (n < x.columns)
    tile = tl.load(x_ptr + m * x.down + n * x.right, mask=inside)
    tl.store(out_ptr + n * x.rows + m, tile, mask=inside)


def transpose(x):
    M, N = x.shape
    out = torch.empty(N, M, dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, Matrix(M, N, *x.stride()), BLOCK=64)
    return out


# %% name="a workspace that is kept" exercise="coalescing.column_sum"
workspaces = {}


@triton.jit
def parts_kernel(x_ptr, part_ptr, M, N, row_stride, ROWS, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(1) * ROWS
    total = tl.zeros((BLOCK_N,), tl.float32)
    for row in range(first, min(first + ROWS, M)):
        total += tl.load(x_ptr + row * row_stride + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(part_ptr + tl.program_id(1) * N + cols, total, mask=cols < N)


@triton.jit
def total_kernel(part_ptr, out_ptr, N, parts, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for part in range(parts):
        total += tl.load(part_ptr + part * N + cols, mask=cols < N, other=0)
    tl.store(out_ptr + cols, total, mask=cols < N)


def column_sum(x):
    M, N = x.shape
    ROWS = max(256, triton.cdiv(M, 16))
    parts = triton.cdiv(M, ROWS)
    if workspaces.setdefault("parts", x.new_empty(0, dtype=torch.float32)).numel() < parts * N:
        workspaces["parts"] = torch.empty(parts * N, device=x.device)
    out = torch.empty(N, device=x.device)
    parts_kernel[(triton.cdiv(N, 64), parts)](x, workspaces["parts"], M, N, x.stride(0), ROWS, BLOCK_N=64)
    total_kernel[(triton.cdiv(N, 64),)](workspaces["parts"], out, N, parts, BLOCK_N=64)
    return out
