# Kernels that are compiled differently for different arguments and GPUs, and do all of the work in each case.

# %% name="a number that is 1, and None" exercise="coalescing.row_copy"
@triton.jit
def move(x_ptr, out_ptr, mask=None):
    if mask is None:
        tl.store(out_ptr, tl.load(x_ptr))
    else:
        tl.store(out_ptr, tl.load(x_ptr, mask=mask), mask=mask)


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, whole, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    if isinstance(whole, tl.tensor):  # it is no 1: the last block is not full
        for start in range(0, N, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            move(x_ptr + m * row_stride + cols, out_ptr + m * N + cols, cols < N)
    else:
        for start in range(0, N, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            move(x_ptr + m * row_stride + cols, out_ptr + m * N + cols)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    kernel[(M,)](x, out, N, x.stride(0), 1 if N % 128 == 0 else 0, BLOCK=128)
    return out


# %% name="other tiles on other GPUs" exercise="coalescing.row_copy"
@triton.jit
def copied(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride):
    if tl.target_info.is_cuda() and tl.target_info.cuda_capability_geq(9, 0):
        copied(x_ptr, out_ptr, N, row_stride, 1024)
    else:
        copied(x_ptr, out_ptr, N, row_stride, 512)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    kernel[(M,)](x, out, N, x.stride(0))
    return out


# %% name="constants of many kinds" exercise="coalescing.transpose"
TILE = tl.constexpr((64, 64))
ORDER = tl.constexpr("rows first")


@triton.jit
def nothing(tile):
    return tile


@triton.jit
def kernel(x_ptr, out_ptr, shape, strides, EPILOGUE: tl.constexpr = nothing, ORDER: tl.constexpr = ORDER):
    """shape: (M, N); strides: of x."""
    tl.static_assert(TILE[0] == TILE[1], f"tiles are square, not {TILE}")
    rows, cols = [tl.program_id(0), tl.program_id(1)] if ORDER == "rows first" else [tl.program_id(1), tl.program_id(0)]
    rows = (rows * TILE[0] + tl.arange(0, TILE[0]))[:, None]
    cols = (cols * TILE[1] + tl.arange(0, TILE[1]))[None, :]
    inside = (rows < shape[0]) & (cols < shape[1])
    offsets = [rows * strides[0], cols * strides[1]]
    tile = tl.load(x_ptr + offsets[0] + offsets[1], mask=inside)
    if EPILOGUE is not None and f"{ORDER}" != "":
        tile = EPILOGUE(tile)
    tl.store(out_ptr + cols * shape[0] + rows, tile, mask=inside)


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, (M, N), x.stride())
    return out
