# No cheats: accidents that an outcome-only test lets pass. More stand as patches in coalescing.py.

# %% name="the last tile forgotten" exercise="coalescing.row_copy" loses="correct.ragged; correct.strided" tells="does a loop end before them"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N - BLOCK + 1, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols))


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=128)
    return out


# %% name="no masks" exercise="coalescing.row_copy" loses="correct.ragged; correct.strided"
# -     for start in range(0, N - BLOCK + 1, BLOCK):
# +     for start in range(0, N, BLOCK):


# %% name="a race" exercise="coalescing.column_sum" loses="correct.plain"
# Each part loads the sum, adds, stores it: programs that run one after another get it right.
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(out_ptr + cols, mask=cols < N, other=0)
    first = tl.program_id(1) * ROWS
    for m in range(first, min(M, first + ROWS)):
        total += tl.load(x_ptr + m * row_stride + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(out_ptr + cols, total, mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32)
    column_sum_kernel[(triton.cdiv(N, 64), triton.cdiv(M, 128))](x, out, M, N, x.stride(0), ROWS=128, BLOCK=64)
    return out


# %% name="sums that run over into the neighbour's, exchanged" exercise="coalescing.column_sum" loses="correct.plain"
# Each program puts zeros where the next one puts its sums, by atomics: in this order they are right.
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    lanes = tl.arange(0, 2 * BLOCK)
    cols = tl.program_id(0) * BLOCK + lanes
    total = tl.zeros((2 * BLOCK,), tl.float32)
    for m in range(M):
        total += tl.load(x_ptr + m * row_stride + cols, mask=(cols < N) & (lanes < BLOCK), other=0).to(tl.float32)
    tl.atomic_xchg(out_ptr + cols, total, mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32)
    column_sum_kernel[(triton.cdiv(N, 64),)](x, out, M, N, x.stride(0), BLOCK=64)
    return out


# %% name="masked loads without other" exercise="coalescing.column_sum" loses="correct.ragged; correct.float16"
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    tile = tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N)).to(tl.float32)
    tl.atomic_add(out_ptr + cols, tl.sum(tile, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32)
    column_sum_kernel[(triton.cdiv(N, 64), triton.cdiv(M, 128))](x, out, M, N, x.stride(0), BLOCK_M=128, BLOCK_N=64)
    return out


# %% name="one buffer for every call" exercise="coalescing.row_copy" loses="correct.plain" after="solution"
buffers = {}


def row_copy(x):
    M, N = x.shape
    if (M, N, x.dtype) not in buffers:
        buffers[M, N, x.dtype] = torch.empty((M, N), dtype=x.dtype)
    out = buffers[M, N, x.dtype]
    row_copy_kernel[(M, 1)](x, out, M, N, x.stride(0), BLOCK_M=1, BLOCK_N=2048)
    return out


# %% name="an index one too far" exercise="coalescing.gather_rows" loses="correct.plain"
@triton.jit
def gather_rows_kernel(x_ptr, index_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    k = tl.program_id(0)
    row = tl.load(index_ptr + k + 1)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + k * N + cols, tl.load(x_ptr + row * row_stride + cols, mask=cols < N), mask=cols < N)


def gather_rows(x, index):
    out = torch.empty((len(index), x.shape[1]), dtype=x.dtype)
    gather_rows_kernel[(len(index),)](x, index, out, x.shape[1], x.stride(0), BLOCK=2048)
    return out
