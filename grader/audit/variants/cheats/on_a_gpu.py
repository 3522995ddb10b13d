# No cheats either: accidents that run well anywhere but on a GPU, where they end in an error or in wrong numbers.

# %% name="a hint that all strides are multiples of 16" exercise="coalescing.row_copy" loses="correct.strided" tells="against the hint"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    first = tl.multiple_of(m * row_stride, 16)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + first + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=1024)
    return out


# %% name="a hint that pairs are neighbours" exercise="coalescing.deinterleave" loses="correct.plain"
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.max_contiguous(tl.multiple_of(2 * i, 16), BLOCK)
    tl.store(even_ptr + i, tl.load(x_ptr + j, mask=i < N), mask=i < N)
    tl.store(odd_ptr + i, tl.load(x_ptr + 1 + 2 * i, mask=i < N), mask=i < N)


def deinterleave(x):
    N = x.shape[0] // 2
    even, odd = (torch.empty(N, dtype=x.dtype, device=x.device) for _ in range(2))
    deinterleave_kernel[(triton.cdiv(N, 1024),)](x, even, odd, N, BLOCK=1024)
    return even, odd


# %% name="a hint that masks do not change within 16" exercise="coalescing.deinterleave" loses="correct.ragged; correct.float16"
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    j = pid * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    even, odd = tl.split(tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2)))
    i = pid * BLOCK + tl.arange(0, BLOCK)
    inside = tl.max_constancy(i < N, 16)
    tl.store(even_ptr + i, even, mask=inside)
    tl.store(odd_ptr + i, odd, mask=inside)


def deinterleave(x):
    N = x.shape[0] // 2
    even, odd = (torch.empty(N, dtype=x.dtype, device=x.device) for _ in range(2))
    deinterleave_kernel[(triton.cdiv(N, 2048),)](x, even, odd, N, BLOCK=2048)
    return even, odd


# %% name="a hint that lengths are multiples of 16" exercise="coalescing.deinterleave" loses="correct.ragged; correct.float16" tells="against the hint"
# -     i = pid * BLOCK + tl.arange(0, BLOCK)
# -     inside = tl.max_constancy(i < N, 16)
# -     tl.store(even_ptr + i, even, mask=inside)
# -     tl.store(odd_ptr + i, odd, mask=inside)
# +     i, end = pid * BLOCK + tl.arange(0, BLOCK), tl.multiple_of(tl.minimum(N, 1 << 30), 16)
# +     tl.store(even_ptr + i, even, mask=i < end)
# +     tl.store(odd_ptr + i, odd, mask=i < end)


# %% name="pointers hinted to begin at 16 bytes" exercise="coalescing.gather_rows" loses="correct.strided" tells="no multiple of 16 bytes, against the hint"
@triton.jit
def gather_rows_kernel(x_ptr, index_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    k = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    row = tl.multiple_of(x_ptr + tl.load(index_ptr + k) * row_stride, 16)
    tl.store(out_ptr + k * N + cols, tl.load(row + cols, mask=cols < N), mask=cols < N)


def gather_rows(x, index):
    (K,), N = index.shape, x.shape[1]
    out = torch.empty((K, N), dtype=x.dtype, device=x.device)
    gather_rows_kernel[(K,)](x, index, out, N, x.stride(0), BLOCK=2048)
    return out


# %% name="pairs as one wider element" exercise="coalescing.row_copy" loses="correct.ragged; correct.strided"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    x = (x_ptr + m * row_stride).to(tl.pointer_type(WIDE))
    out = (out_ptr + m * N).to(tl.pointer_type(WIDE))
    for start in range(0, N // 2, BLOCK):
        pairs = start + tl.arange(0, BLOCK)
        tl.store(out + pairs, tl.load(x + pairs, mask=pairs < N // 2), mask=pairs < N // 2)
    if N % 2 == 1:
        tl.store(out_ptr + m * N + N - 1, tl.load(x_ptr + m * row_stride + N - 1))


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    wide = tl.int32 if x.element_size() == 2 else tl.int64
    row_copy_kernel[(M,)](x, out, N, x.stride(0), WIDE=wide, BLOCK=512)
    return out


# %% name="rows gathered by pairs" exercise="coalescing.gather_rows" loses="correct.ragged; correct.strided"
@triton.jit
def gather_rows_kernel(x_ptr, index_ptr, out_ptr, N, row_stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    k = tl.program_id(0)
    x = (x_ptr + tl.load(index_ptr + k) * row_stride).to(tl.pointer_type(WIDE))
    out = (out_ptr + k * N).to(tl.pointer_type(WIDE))
    pairs = tl.arange(0, BLOCK)
    tl.store(out + pairs, tl.load(x + pairs, mask=pairs < N // 2), mask=pairs < N // 2)
    if N % 2 == 1:
        tl.store(out_ptr + k * N + N - 1, tl.load(x_ptr + tl.load(index_ptr + k) * row_stride + N - 1))


def gather_rows(x, index):
    (K,), N = index.shape, x.shape[1]
    out = torch.empty((K, N), dtype=x.dtype, device=x.device)
    wide = tl.int32 if x.element_size() == 2 else tl.int64
    gather_rows_kernel[(K,)](x, index, out, N, x.stride(0), WIDE=wide, BLOCK=1024)
    return out


# %% name="the odd elements by pairs that begin at one" exercise="coalescing.deinterleave" loses="correct.plain"
# From the second element on, a pair's lower half is odd.
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, N, WIDE: tl.constexpr, HALF: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pairs = tl.load(x_ptr.to(tl.pointer_type(WIDE)) + i, mask=i < N)
    tl.store(even_ptr + i, pairs.to(HALF).to(even_ptr.dtype.element_ty, bitcast=True), mask=i < N)
    pairs = tl.load((x_ptr + 1).to(tl.pointer_type(WIDE)) + i, mask=i < N - 1)
    tl.store(odd_ptr + i, pairs.to(HALF).to(odd_ptr.dtype.element_ty, bitcast=True), mask=i < N - 1)
    tl.store(odd_ptr + N - 1, tl.load(x_ptr + 2 * N - 1))


def deinterleave(x):
    N = x.shape[0] // 2
    even, odd = (torch.empty(N, dtype=x.dtype, device=x.device) for _ in range(2))
    wide, half = (tl.int32, tl.int16) if x.element_size() == 2 else (tl.int64, tl.int32)
    deinterleave_kernel[(triton.cdiv(N, 1024),)](x, even, odd, N, WIDE=wide, HALF=half, BLOCK=1024)
    return even, odd


# %% name="all programs along the second axis" exercise="coalescing.deinterleave" loses="coalesced.load.performance; coalesced.store.performance; traffic.performance"
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, N, BLOCK: tl.constexpr):
    pid = tl.program_id(1)
    j = pid * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    even, odd = tl.split(tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2)))
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(even_ptr + i, even, mask=i < N)
    tl.store(odd_ptr + i, odd, mask=i < N)


def deinterleave(x):
    N = x.shape[0] // 2
    even, odd = (torch.empty(N, dtype=x.dtype, device=x.device) for _ in range(2))
    deinterleave_kernel[(1, triton.cdiv(N, 2))](x, even, odd, N, BLOCK=2)
    return even, odd


# %% name="an element a program, along the third axis" exercise="coalescing.transpose" loses="coalesced.load.performance; coalesced.store.performance; traffic.performance"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n):
    m, n = tl.program_id(2) // N, tl.program_id(2) % N
    tl.store(out_ptr + n * M + m, tl.load(x_ptr + m * stride_m + n * stride_n))


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[(1, 1, M * N)](x, out, M, N, x.stride(0), x.stride(1))
    return out


# %% name="64 warps" exercise="coalescing.row_copy" loses="correct.plain"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=4096, num_warps=64)
    return out


# %% name="6 warps" exercise="coalescing.row_copy" loses="correct.plain"
# -     row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=4096, num_warps=64)
# +     row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=1024, num_warps=6)


# %% name="a warp for each row of a tile, 128 of them" exercise="coalescing.transpose" loses="correct.plain"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside)
    tl.store(out_ptr + cols * M + rows, tile, mask=inside)


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    transpose_kernel[grid](x, out, M, N, x.stride(0), x.stride(1), BLOCK=128, num_warps=128)
    return out


# %% name="autotuned, nothing is reset" exercise="coalescing.column_sum" loses="correct.plain"
@triton.autotune([triton.Config({"BLOCK_N": 64}), triton.Config({"BLOCK_N": 128})], key=["M", "N"])
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


# %% name="autotuned, the input is reset" exercise="coalescing.column_sum" loses="correct.plain" tells="it does not start as zeros"
# - @triton.autotune([triton.Config({"BLOCK_N": 64}), triton.Config({"BLOCK_N": 128})], key=["M", "N"])
# + @triton.autotune([triton.Config({"BLOCK_N": 64}), triton.Config({"BLOCK_N": 128})], key=["N"], reset_to_zero=["x_ptr"])


# %% name="autotuned, reset to zero what did not start as zeros" exercise="coalescing.column_sum" loses="correct.plain"
# The first rows are stored, the others added to them.
@triton.jit
def first_rows(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.arange(0, ROWS)[:, None]
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
    tl.store(out_ptr + cols, tl.sum(tile, axis=0)[None, :], mask=cols < N)


@triton.autotune(
    [triton.Config({"BLOCK_N": 64}), triton.Config({"BLOCK_N": 128})], key=["N"], reset_to_zero=["out_ptr"]
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
    first_rows[(triton.cdiv(N, 64),)](x, out, M, N, x.stride(0), ROWS=128, BLOCK_N=64)
    if M > 128:
        grid = lambda c: (triton.cdiv(N, c["BLOCK_N"]), triton.cdiv(M, 128) - 1)
        other_rows[grid](x, out, M, N, x.stride(0), ROWS=128)
    return out


# %% name="autotuned in place" exercise="fusion.online_softmax" loses="correct.plain"
# exp(x - m) is stored, and divided by its sum in a second, autotuned launch.
@triton.jit
def exponentials(x_ptr, out_ptr, sum_ptr, N, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m, s = -3.4e38, 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        s = s * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < N).to(tl.float32)
        tl.store(out_ptr + row * N + cols, tl.exp(x - m), mask=cols < N)
    tl.store(sum_ptr + row, s)


@triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 4096})], key=["N"])
@triton.jit
def divide(out_ptr, sum_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(out_ptr + row * N + cols, mask=cols < N).to(tl.float32)
    tl.store(out_ptr + row * N + cols, values / tl.load(sum_ptr + row), mask=cols < N)


def online_softmax(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    sums = torch.empty(M, dtype=torch.float32, device=x.device)
    exponentials[(M,)](x, out, sums, N, x.stride(0), BLOCK=4096)
    divide[lambda c: (M, triton.cdiv(N, c["BLOCK"]))](out, sums, N)
    return out


# %% name="turned in a buffer, without a barrier" exercise="coalescing.transpose" loses="correct.plain" tells="in a loop behind the load, too"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, buffer_ptr, M, N, stride_m, stride_n, TILES: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    mine = buffer_ptr + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * BLOCK * BLOCK
    for tile in range(TILES):
        first = (tl.program_id(0) * TILES + tile) * BLOCK
        rows, cols = first + i, tl.program_id(1) * BLOCK + j
        x = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=(rows < M) & (cols < N), other=0)
        tl.store(mine + i * BLOCK + j, x)
        turned = tl.load(mine + j * BLOCK + i)
        rows, cols = tl.program_id(1) * BLOCK + i, first + j
        tl.store(out_ptr + rows * M + cols, turned, mask=(rows < N) & (cols < M))


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 8 * 64), triton.cdiv(N, 64))
    buffer = torch.empty(grid[0] * grid[1] * 64 * 64, dtype=x.dtype, device=x.device)
    transpose_kernel[grid](x, out, buffer, M, N, x.stride(0), x.stride(1), TILES=8, BLOCK=64)
    return out


# %% name="turned in a buffer, behind a barrier" exercise="coalescing.transpose" loses="traffic.performance"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, buffer_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    rows, cols = tl.program_id(0) * BLOCK + i, tl.program_id(1) * BLOCK + j
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=(rows < M) & (cols < N), other=0)
    mine = buffer_ptr + (tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)) * BLOCK * BLOCK
    tl.store(mine + i * BLOCK + j, tile)
    tl.debug_barrier()
    turned = tl.load(mine + j * BLOCK + i)
    rows, cols = tl.program_id(1) * BLOCK + i, tl.program_id(0) * BLOCK + j
    tl.store(out_ptr + rows * M + cols, turned, mask=(rows < N) & (cols < M))


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    buffer = torch.empty(grid[0] * grid[1] * 64 * 64, dtype=x.dtype, device=x.device)
    transpose_kernel[grid](x, out, buffer, M, N, x.stride(0), x.stride(1), BLOCK=64)
    return out


# %% name="parted in a buffer, without a barrier" exercise="coalescing.deinterleave" loses="correct.plain"
@triton.jit
def deinterleave_kernel(x_ptr, even_ptr, odd_ptr, buffer_ptr, N, BLOCK: tl.constexpr):
    j = tl.program_id(0) * 2 * BLOCK + tl.arange(0, 2 * BLOCK)
    tl.store(buffer_ptr + j, tl.load(x_ptr + j, mask=j < 2 * N), mask=j < 2 * N)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(even_ptr + i, tl.load(buffer_ptr + 2 * i, mask=i < N), mask=i < N)
    tl.store(odd_ptr + i, tl.load(buffer_ptr + 2 * i + 1, mask=i < N), mask=i < N)


def deinterleave(x):
    N = x.shape[0] // 2
    even, odd = (torch.empty(N, dtype=x.dtype, device=x.device) for _ in range(2))
    deinterleave_kernel[(triton.cdiv(N, 1024),)](x, even, odd, torch.empty_like(x), N, BLOCK=1024)
    return even, odd


# %% name="rows turned round in a buffer in a helper, without a barrier" exercise="coalescing.row_copy" loses="correct.plain" tells="in `turned`, line 5"
# Turned round twice, a row is as it was.
@triton.jit
def turned(x_ptr, buffer_ptr, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    tl.store(buffer_ptr + cols, tl.load(x_ptr + N - 1 - cols, mask=cols < N), mask=cols < N)
    return tl.load(buffer_ptr + N - 1 - cols, mask=cols < N)


@triton.jit
def row_copy_kernel(x_ptr, out_ptr, buffer_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + m * N + cols, turned(x_ptr + m * row_stride, buffer_ptr + m * N, N, BLOCK), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    buffer = torch.empty((M, N), dtype=x.dtype, device=x.device)
    row_copy_kernel[(M,)](x, out, buffer, N, x.stride(0), BLOCK=2048)
    return out


# %% name="the sum of a row stored, and loaded by all threads" exercise="fusion.online_softmax" loses="correct.plain"
@triton.jit
def online_softmax_kernel(x_ptr, out_ptr, sum_ptr, N, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    m, s = -3.4e38, 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < N, other=-float("inf")).to(tl.float32)
        m_new = tl.maximum(m, tl.max(x, axis=0))
        s = s * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    tl.store(sum_ptr + row, s)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * row_stride + cols, mask=cols < N).to(tl.float32)
        tl.store(out_ptr + row * N + cols, tl.exp(x - m) / tl.load(sum_ptr + row), mask=cols < N)


def online_softmax(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    sums = torch.empty(M, dtype=torch.float32, device=x.device)
    online_softmax_kernel[(M,)](x, out, sums, N, x.stride(0), BLOCK=min(4096, triton.next_power_of_2(N)))
    return out
