# Other shapes of the same idea: several rows a program, other tiles, views, workspaces, helpers, descriptors, autotune.

# %% name="one row a program" exercise="coalescing.row_copy"
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + row * N + cols, tl.load(x_ptr + row * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = x.new_empty((M, N))
    kernel[(M,)](x, out, N, x.stride(0), BLOCK=512)
    return out


# %% name="persistent, a helper kernel, debug code" exercise="coalescing.row_copy"
import math
import time

import numpy as np

debug = []


@triton.jit
def copy_tile(x_ptr, out_ptr, tile, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    across = tl.cdiv(N, BLOCK_N)
    rows = tile // across * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tile % across * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (cols < N)
    tl.store(out_ptr + rows * N + cols, tl.load(x_ptr + rows * row_stride + cols, mask=inside), mask=inside)


@triton.jit
def kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tiles = tl.cdiv(M, BLOCK_M) * tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        copy_tile(x_ptr, out_ptr, tile, M, N, row_stride, BLOCK_M, BLOCK_N)


def row_copy(x):
    start = time.time()
    out = torch.empty(*x.shape, dtype=x.dtype, device="cuda" if x.is_cuda else "cpu")
    kernel[(132,)](x, out, *x.shape, x.stride(0), BLOCK_M=32, BLOCK_N=128, num_warps=8)
    debug.append(time.time() - start)
    print("copied", x.shape, np.prod(x.shape), math.pi)
    return out


# %% name="autotuned, heuristics, .T" exercise="coalescing.transpose"
@triton.autotune(
    [triton.Config({"BLOCK_M": 32, "BLOCK_N": 64}), triton.Config({"BLOCK_M": 64, "BLOCK_N": 64})], key=["M"]
)
@triton.heuristics({"EVEN": lambda a: a["M"] % a["BLOCK_M"] == 0 and a["N"] % a["BLOCK_N"] == 0})
@triton.jit
def kernel(x_ptr, out_ptr, M, N, s0, s1, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EVEN: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    at = x_ptr + rows[:, None] * s0 + cols[None, :] * s1
    to = out_ptr + cols[:, None] * M + rows[None, :]
    if EVEN:
        tl.store(to, tl.load(at).T)
    else:
        tile = tl.load(at, mask=(rows[:, None] < M) & (cols[None, :] < N), other=0.0)
        tl.store(to, tl.trans(tile), mask=(rows[None, :] < M) & (cols[:, None] < N))


def transpose(x):
    M, N = x.shape
    out = torch.empty_strided((N, M), (M, 1), dtype=x.dtype, device=x.device)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    kernel[grid](x, out, M, N, x.stride(0), x.stride(1))
    return out


# %% name="two stages" exercise="coalescing.column_sum"
@triton.jit
def kernel(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    part = tl.program_id(1)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in range(0, ROWS, BLOCK_M):
        rows = part * ROWS + start + tl.arange(0, BLOCK_M)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        tile = tl.load(x_ptr + rows[:, None] * row_stride + cols[None, :], mask=inside, other=0)
        total += tl.sum(tile.to(tl.float32), axis=0)
    tl.store(out_ptr + part * N + cols, total, mask=cols < N)


def column_sum(x):
    M, N = x.shape
    parts = triton.cdiv(M, 256)
    partial = torch.empty((parts, N), dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(N, 64), parts)](x, partial, M, N, x.stride(0), ROWS=256, BLOCK_M=64, BLOCK_N=64)
    if parts == 1:
        return partial[0]
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    kernel[(triton.cdiv(N, 64), 1)](
        partial, out, parts, N, N, ROWS=triton.next_power_of_2(parts), BLOCK_M=1, BLOCK_N=64
    )
    return out


# %% name="one index a program" exercise="coalescing.gather_rows"
@triton.jit
def kernel(x_ptr, index_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    k = tl.program_id(0)
    row = tl.load(index_ptr + k)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + k * N + cols, tl.load(x_ptr + row * row_stride + cols, mask=cols < N), mask=cols < N)


def gather_rows(x, index):
    out = torch.empty((len(index), x.shape[1]), dtype=x.dtype, device=x.device)
    kernel[(len(index),)](x, index, out, x.shape[1], x.stride(0), BLOCK=512)
    return out


# %% name="pairs as a tile, one buffer" exercise="coalescing.deinterleave"
BLOCK = tl.constexpr(1024)


@triton.jit
def kernel(x_ptr, even_ptr, odd_ptr, N):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pairs = tl.load(x_ptr + 2 * i[:, None] + tl.arange(0, 2)[None, :], mask=(i < N)[:, None])
    even, odd = tl.split(pairs)
    tl.store(even_ptr + i, even, mask=i < N)
    tl.store(odd_ptr + i, odd, mask=i < N)


def deinterleave(x):
    both = torch.empty((2, x.shape[0] // 2), dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(both.shape[1], BLOCK.value),)](x, both[0], both[1], both.shape[1])
    return both[0], both[1]


# %% name="tensor descriptors of the host" exercise="coalescing.row_copy"
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def described_kernel(x, out, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    out.store([m, n], x.load([m, n]))


@triton.jit
def plain_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    """Descriptors want 16-byte rows; other inputs get pointers."""
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if (x.stride(0) * x.element_size()) % 16 == 0 and (N * x.element_size()) % 16 == 0 and x.data_ptr() % 16 == 0:
        tile = [16, 64]
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 64))
        x, result = TensorDescriptor.from_tensor(x, tile), TensorDescriptor.from_tensor(out, tile)
        described_kernel[grid](x, result, BLOCK_M=16, BLOCK_N=64)
    else:
        plain_kernel[(M,)](x, out, N, x.stride(0), BLOCK=1024)
    return out


# %% name="tensor descriptors made in the kernel" exercise="coalescing.row_copy"
def workspace(size: int, alignment: int, stream):
    return torch.empty(size, dtype=torch.int8, device="cuda")


triton.set_allocator(workspace)


@triton.jit
def described_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    out = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    m, n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    out.store([m, n], x.load([m, n]))


@triton.jit
def plain_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if x.is_contiguous() and N % 8 == 0:
        described_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 64))](x, out, M, N, BLOCK_M=16, BLOCK_N=64)
    else:
        plain_kernel[(M,)](x, out, N, x.stride(0), BLOCK=1024)
    return out


# %% name="several configurations, pruned, with reset_to_zero" exercise="coalescing.column_sum"
def fits(configs, named, **kwargs):
    return [c for c in configs if c.kwargs["ROWS"] >= c.kwargs["BLOCK_M"]]


CONFIGS = [
    triton.Config({"ROWS": rows, "BLOCK_M": 64, "BLOCK_N": columns}, num_warps=warps, num_stages=2)
    for rows in (32, 256, 512)
    for columns in (32, 64)
    for warps in (4, 8)
]


@triton.autotune(CONFIGS, key=["M", "N"], reset_to_zero=["out_ptr"], prune_configs_by={"early_config_prune": fits})
@triton.jit
def column_sum_kernel(
    x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in tl.static_range(0, ROWS, BLOCK_M):
        rows = tl.program_id(0) * ROWS + start + tl.arange(0, BLOCK_M)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        tile = tl.load(x_ptr + rows[:, None] * row_stride + cols[None, :], mask=inside, other=0.0)
        total += tl.sum(tile.to(tl.float32), axis=0)
    tl.atomic_add(out_ptr + cols, total, mask=cols < N, sem="relaxed")


def column_sum(x):
    M, N = x.shape
    out = torch.zeros(N, device=x.device)
    grid = lambda meta: (triton.cdiv(M, meta["ROWS"]), triton.cdiv(N, meta["BLOCK_N"]))
    column_sum_kernel[grid](x, out, M, N, x.stride(0))
    return out


# %% name="a workspace with padded rows, filled by hand" exercise="coalescing.column_sum"
@triton.jit
def parts_kernel(x_ptr, part_ptr, M, N, row_stride, part_stride, ROWS, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(1) * ROWS
    total = tl.zeros((BLOCK_N,), tl.float32)
    for row in range(first, min(first + ROWS, M)):
        total += tl.load(x_ptr + row * row_stride + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(part_ptr + tl.program_id(1) * part_stride + cols, total, mask=cols < N)


@triton.jit
def total_kernel(part_ptr, out_ptr, N, parts, part_stride, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for part in range(parts):
        total += tl.load(part_ptr + part * part_stride + cols, mask=cols < N, other=0)
    tl.store(out_ptr + cols, total, mask=cols < N)


def column_sum(x):
    M, N = x.shape
    ROWS = max(256, triton.cdiv(M, 16))
    parts = triton.cdiv(M, ROWS)
    padded = torch.empty(parts, triton.cdiv(N, 128) * 128, device=x.device)
    padded.zero_()
    workspace = padded[:, :N]
    out = torch.empty(N, device=x.device).fill_(0.0)
    grid = (triton.cdiv(N, 64), parts)
    parts_kernel[grid](x, workspace, M, N, x.stride(0), workspace.stride(0), ROWS, BLOCK_N=64)
    total_kernel[(triton.cdiv(N, 64),)](workspace, out, N, parts, workspace.stride(0), BLOCK_N=64)
    return out


# %% name="persistent, as many programs as SMs" exercise="coalescing.transpose"
@triton.jit
def tile_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    across = tl.cdiv(N, TILE_N)
    for tile in range(tl.program_id(0), tl.cdiv(M, TILE_M) * across, tl.num_programs(0)):
        m = (tile // across) * TILE_M + tl.arange(0, TILE_M)
        n = (tile % across) * TILE_N + tl.arange(0, TILE_N)
        inside = (m < M)[:, None] & (n < N)[None, :]
        x = tl.load(x_ptr + m[:, None].to(tl.int64) * stride_m + n[None, :].to(tl.int64) * stride_n, mask=inside)
        tl.store(out_ptr + n[:, None] * M + m[None, :], tl.permute(x, (1, 0)), mask=tl.trans(inside))


SMS = torch.cuda.get_device_properties(0).multi_processor_count


def transpose(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda and x.ndim == 2, "needs a matrix on the GPU"
    M, N = x.shape
    out = x.new_empty(N, M)
    tiles = triton.cdiv(M, 32) * triton.cdiv(N, 128)
    tile_kernel[(min(SMS, tiles),)](x, out, M, N, *x.stride(), TILE_M=32, TILE_N=128, num_warps=8)
    torch.cuda.synchronize()
    return out


# %% name="on the GPU by name, into a view" exercise="coalescing.transpose"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, out_stride, BLOCK: tl.constexpr):
    m = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(
        x_ptr + m[None, :] * stride_m + n[:, None] * stride_n, mask=(m < M)[None, :] & (n < N)[:, None], other=0.0
    )
    tl.store(out_ptr + n[:, None] * out_stride + m[None, :], x, mask=(m < M)[None, :] & (n < N)[:, None])


def transpose(x):
    (M, N), BLOCK = x.size(), 64
    out = torch.zeros((N + 3, M), dtype=x.dtype, device="cuda").narrow(0, 2, N)
    with torch.cuda.device(x.device):
        transpose_kernel[(triton.cdiv(N, BLOCK), triton.cdiv(M, BLOCK))](
            x.to("cuda"), out, M, N, x.stride(0), x.stride(1), out.stride(0), BLOCK
        )
    return out.view(N, M)


# %% name="rows one after another" exercise="coalescing.gather_rows"
@triton.jit
def one_row(x_ptr, out_ptr, row, k, N, row_stride, BLOCK: tl.constexpr):
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + k * N + cols, tl.load(x_ptr + row * row_stride + cols, mask=cols < N), mask=cols < N)


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, K, N, row_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    for i in tl.static_range(ROWS):
        k = tl.program_id(0) * ROWS + i
        if k < K:
            one_row(x_ptr, out_ptr, tl.load(index_ptr + k), k, N, row_stride, BLOCK)


def gather_rows(x, index):
    K, N = index.numel(), x.size(1)
    out = torch.empty_like(x, memory_format=torch.contiguous_format)[:0].new_empty(K, N)
    gather_kernel[(triton.cdiv(K, 4),)](x, index, out, K, N, x.stride(0), ROWS=4, BLOCK=512)
    return out


# %% name="joined and split" exercise="coalescing.deinterleave"
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    both = tl.arange(0, 2)[None, :]
    pairs = tl.load(x_ptr + 2 * i[:, None] + both, mask=(i < N)[:, None])
    even, odd = pairs.split()
    tl.store(even_ptr + i, even, mask=i < N, cache_modifier=".cg")
    tl.store(odd_ptr + i, odd, mask=i < N, eviction_policy="evict_first")


def deinterleave(x):
    N = x.shape[0] // 2
    halves = torch.empty(2 * N, dtype=x.dtype, device=x.device)
    even, odd = halves.chunk(2) if N else (halves, halves)
    deinterleave_kernel[(triton.cdiv(N, 512),)](x, even, odd, N, 512, num_warps=2)
    return [even, odd]
