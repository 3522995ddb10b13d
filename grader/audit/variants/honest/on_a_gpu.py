# The honest twins of cheats/on_a_gpu.py: hints that hold, wider elements where they are aligned, autotuning that resets.

# %% name="hints as tutorials have them" exercise="coalescing.row_copy"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = tl.multiple_of(tl.program_id(1) * BLOCK_N, BLOCK_N)
    cols = tl.max_contiguous(tl.multiple_of(first + tl.arange(0, BLOCK_N), BLOCK_N), BLOCK_N)[None, :]
    inside = (rows[:, None] < M) & (cols < N)
    kept = tl.max_contiguous(tl.multiple_of(tl.where(rows < M, rows, 0), BLOCK_M), BLOCK_M)[:, None]
    tile = tl.load(x_ptr + kept * row_stride + cols, mask=cols < N)
    tl.store(out_ptr + rows[:, None] * N + cols, tile, mask=inside)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 4), triton.cdiv(N, 1024))
    row_copy_kernel[grid](x, out, M, N, x.stride(0), BLOCK_M=4, BLOCK_N=1024)
    return out


# %% name="wider elements where rows are aligned" exercise="coalescing.row_copy"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    x, out = (x_ptr + m * row_stride), (out_ptr + m * N)
    for start in range(0, N, 2 * BLOCK):
        if WIDE is not None:
            pairs = start // 2 + tl.arange(0, BLOCK)
            values = tl.load(x.to(tl.pointer_type(WIDE)) + pairs, mask=pairs < N // 2)
            tl.store(out.to(tl.pointer_type(WIDE)) + pairs, values, mask=pairs < N // 2)
        else:
            cols = start + tl.arange(0, 2 * BLOCK)
            tl.store(out + cols, tl.load(x + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    even = N % 2 == 0 and x.stride(0) % 2 == 0 and x.storage_offset() % 2 == 0
    wide = (tl.int32 if x.element_size() == 2 else tl.int64) if even else None
    row_copy_kernel[(M,)](x, out, N, x.stride(0), WIDE=wide, BLOCK=512)
    return out


# %% name="32 warps" exercise="coalescing.row_copy"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(2)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    row_copy_kernel[(1, 1, M)](x, out, N, x.stride(0), BLOCK=4096, num_warps=32)
    return out


# %% name="autotuned, what was there is restored" exercise="coalescing.column_sum"
@triton.jit
def first_rows(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.arange(0, ROWS)[:, None]
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
    tl.store(out_ptr + cols, tl.sum(tile, axis=0)[None, :], mask=cols < N)


@triton.autotune(
    [triton.Config({"BLOCK_N": 64}), triton.Config({"BLOCK_N": 128})], key=["N"], restore_value=["out_ptr"]
)
@triton.jit
def other_rows(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = (1 + tl.program_id(1)) * ROWS + tl.arange(0, ROWS)[:, None]
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
    tl.atomic_add(out_ptr + cols, tl.sum(tile, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    first_rows[(triton.cdiv(N, 16),)](x, out, M, N, x.stride(0), ROWS=128, BLOCK_N=16)
    if M > 128:
        grid = lambda c: (triton.cdiv(N, c["BLOCK_N"]), triton.cdiv(M, 128) - 1)
        other_rows[grid](x, out, M, N, x.stride(0), ROWS=128)
    return out


# %% name="autotuned, each configuration begins with zeros" exercise="coalescing.column_sum"
def begin_with_zeros(arguments):
    arguments["out_ptr"].zero_()


@triton.autotune([triton.Config({"BLOCK_N": width}, pre_hook=begin_with_zeros) for width in (64, 128)], key=["M", "N"])
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
    tl.atomic_add(out_ptr + cols, tl.sum(tile, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32, device=x.device)
    column_sum_kernel[lambda c: (triton.cdiv(N, c["BLOCK_N"]), triton.cdiv(M, 128))](
        x, out, M, N, x.stride(0), ROWS=128
    )
    return out


# %% name="a lock for each band" exercise="coalescing.column_sum"
# The programs of a band come one after another to its sum. The barriers hold all threads back until one has the lock, and
# the lock until all have stored.
@triton.jit
def column_sum_kernel(
    x_ptr, out_ptr, lock_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    band = tl.program_id(0)
    cols = band * BLOCK_N + tl.arange(0, BLOCK_N)
    first = tl.program_id(1) * ROWS
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(first, min(M, first + ROWS), BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        inside = (rows < M) & (cols[None, :] < N)
        total += tl.load(x_ptr + rows * row_stride + cols[None, :], mask=inside, other=0).to(tl.float32)
    part = tl.sum(total, axis=0)
    while tl.atomic_cas(lock_ptr + band, 0, 1) == 1:
        pass
    part += tl.load(out_ptr + cols, mask=cols < N, other=0)
    tl.store(out_ptr + cols, part, mask=cols < N)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + band, 0)


def column_sum(x):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32, device=x.device)
    bands = triton.cdiv(N, 64)
    locks = torch.zeros(bands, dtype=torch.int32, device=x.device)
    grid = (bands, triton.cdiv(M, 512))
    column_sum_kernel[grid](x, out, locks, M, N, x.stride(0), ROWS=512, BLOCK_M=128, BLOCK_N=64)
    return out


# %% name="by tl.reduce of pairs (m, s)" exercise="fusion.online_softmax"
@triton.jit
def combine(m, s, m_other, s_other):
    top = tl.maximum(m, m_other)
    return top, s * tl.exp(m - top) + s_other * tl.exp(m_other - top)


@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m, s = -3.4e38, 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        x = tl.maximum(x, -3.4e38)
        of_block, sum_of_block = tl.reduce((x, tl.where(x > -3.4e38, 1.0, 0.0)), 0, combine)
        m, s = combine(m, s, of_block, sum_of_block)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < N).to(tl.float32)
        tl.store(out_ptr + row * N + cols, tl.exp(x - m) / s, mask=cols < N)


def online_softmax(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    online_softmax_kernel[(M,)](x, out, N, x.stride(0), BLOCK=min(4096, triton.next_power_of_2(N)))
    return out


# %% name="by tl.associative_scan of pairs (m, s)" exercise="fusion.online_softmax"
# What the scan has at its end is what counts.
# -         of_block, sum_of_block = tl.reduce((x, tl.where(x > -3.4e38, 1.0, 0.0)), 0, combine)
# +         tops, sums = tl.associative_scan((x, tl.where(x > -3.4e38, 1.0, 0.0)), 0, combine)
# +         last = tl.arange(0, BLOCK) == BLOCK - 1
# +         of_block, sum_of_block = tl.max(tops, axis=0), tl.sum(tl.where(last, sums, 0.0), axis=0)
