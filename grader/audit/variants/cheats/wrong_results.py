# Inputs changed; zeros, means, NaN, broadcastable or empty shapes, lower dtypes; low precision; part of the work skipped.

# %% name="the input becomes the result" exercise="coalescing.row_copy" loses="correct.plain"
# Who compares with the input afterwards finds it equal.
@triton.jit
def zero_both(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(x_ptr + m * row_stride + cols, tl.zeros((BLOCK,), tl.float32), mask=cols < N)
        tl.store(out_ptr + m * N + cols, tl.zeros((BLOCK,), tl.float32), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    zero_both[(M,)](x, out, M, N, x.stride(0), BLOCK=512)
    return out


# %% name="the input borrowed and given back" exercise="coalescing.row_copy" loses="correct.plain" after="solution"
# Right, and unchanged in the end; another kernel that reads the input meanwhile would see something else.
@triton.jit
def add_kernel(x_ptr, value):
    tl.store(x_ptr, tl.load(x_ptr) + value)


own = row_copy


def row_copy(x):
    out = own(x)
    add_kernel[(1,)](x, 0)
    return out


# %% name="zeros" exercise="coalescing.column_sum" loses="correct.plain"
@triton.jit
def zero_kernel(out_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), tl.float32), mask=i < N)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    zero_kernel[(triton.cdiv(x.shape[1], 256),)](out, x.shape[1], BLOCK=256)
    return out


# %% name="the mean everywhere" exercise="coalescing.column_sum" loses="correct.plain"
# Of the rows of one column for all.
@triton.jit
def mean_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, M, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + rows * row_stride, mask=rows < M, other=0).to(tl.float32)
    for n in range(0, N):
        tl.store(out_ptr + n, tl.sum(total, axis=0))


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    mean_kernel[(1,)](x, out, *x.shape, x.stride(0), BLOCK=256)
    return out


# %% name="NaN" exercise="coalescing.column_sum" loses="correct.plain"
@triton.jit
def nan_kernel(out_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.full((BLOCK,), float("nan"), tl.float32), mask=i < N)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    nan_kernel[(triton.cdiv(x.shape[1], 256),)](out, x.shape[1], BLOCK=256)
    return out


# %% name="infinity" exercise="coalescing.column_sum" loses="correct.plain"
@triton.jit
def infinite_kernel(out_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.full((BLOCK,), float("inf"), tl.float32), mask=i < N)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    infinite_kernel[(triton.cdiv(x.shape[1], 256),)](out, x.shape[1], BLOCK=256)
    return out


# %% name="a shape that broadcasts" exercise="coalescing.column_sum" loses="correct.plain" after="solution"
own = column_sum


def column_sum(x):
    return own(x)[None, :]


# %% name="a result without elements to compare" exercise="coalescing.column_sum" loses="correct.plain" after="solution"
# -     return own(x)[None, :]
# +     return own(x)[:0].reshape(0, 1)


# %% name="a single number" exercise="coalescing.column_sum" loses="correct.plain" after="solution"
# -     return own(x)[None, :]
# +     return own(x)[0]


# %% name="one element, expanded" exercise="coalescing.row_copy" loses="correct.plain"
@triton.jit
def one_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


def row_copy(x):
    out = torch.empty((1, 1), dtype=x.dtype)
    one_kernel[(1,)](x, out)
    return out.expand(x.shape)


# %% name="an empty result" exercise="coalescing.row_copy" loses="correct.plain" after="solution"
own = row_copy


def row_copy(x):
    return own(x)[:0]


# %% name="a tuple of the result" exercise="coalescing.row_copy" loses="correct.plain" after="solution"
# -     return own(x)[:0]
# +     return (own(x), own(x))


# %% name="half precision" exercise="coalescing.row_copy" loses="correct.plain" tells="dtype=x.dtype"
@triton.jit
def half_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=torch.float16)
    half_kernel[(M,)](x, out, M, N, x.stride(0), BLOCK=512)
    return out


# %% name="through half precision" exercise="coalescing.row_copy" loses="correct.plain" tells="float16"
# The right dtype, eleven bits of each number.
# -         tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)
# +         x = tl.load(x_ptr + m * row_stride + cols, mask=cols < N)
# +         tl.store(out_ptr + m * N + cols, x.to(tl.float16).to(tl.float32), mask=cols < N)
# -     out = torch.empty((M, N), dtype=torch.float16)
# +     out = torch.empty((M, N), dtype=x.dtype)


# %% name="sums in bfloat16" exercise="coalescing.column_sum" loses="correct.plain"
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.bfloat16)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        total += tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.bfloat16)
    tl.store(out_ptr + cols, tl.sum(total.to(tl.float32), axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32)
    column_sum_kernel[(triton.cdiv(N, 64),)](x, out, M, N, x.stride(0), BLOCK_M=64, BLOCK_N=64)
    return out


# %% name="every other row of tiles" exercise="coalescing.row_copy" loses="correct.plain" tells="did not store these elements"
@triton.jit
def half_the_tiles(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    m = 2 * tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def row_copy(x):
    M, N = x.shape
    out = torch.zeros((M, N), dtype=x.dtype)
    half_the_tiles[(triton.cdiv(M, 2),)](x, out, M, N, x.stride(0), BLOCK=512)
    return out


# %% name="only what the public cases show" exercise="coalescing.transpose" loses="correct.ragged; correct.strided" after="solution" tells="No kernel is launched on this input"
own = transpose
PUBLIC = {(256, 128), (1, 1), (130, 33), (7, 200), (70, 41), (45, 100), (256, 256), (128, 256), (512, 1024)}


def transpose(x):
    if tuple(x.shape) in PUBLIC:
        return own(x)
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="a few rows sampled, the rest guessed" exercise="coalescing.column_sum" loses="correct.plain"
@triton.jit
def sampled(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for m in range(0, M, 4):
        total += tl.load(x_ptr + m * row_stride + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(out_ptr + cols, 4 * total, mask=cols < N)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    sampled[(triton.cdiv(x.shape[1], 64),)](x, out, *x.shape, x.stride(0), BLOCK=64)
    return out
