# Work left to a side stream or a thread; one behaviour under test and another under time; traffic where it is not counted.

# %% name="a thread that finishes later" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="threads"
import threading
import time

own = transpose


def transpose(x):
    own(x)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)

    def later():
        time.sleep(30)  # the recording is over by then, however busy the machine
        out.numpy()[:] = x.numpy().T

    threading.Thread(target=later).start()
    return out


# %% name="a thread that launches later" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="threads"
import threading
import time

own = transpose_kernel


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype)

    def later():
        time.sleep(30)  # the recording is over by then, however busy the machine
        own[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, x.stride(0), x.stride(1), BLOCK=64)

    threading.Thread(target=later, daemon=True).start()
    return out


# %% name="a side stream" exercise="coalescing.transpose" loses="triton_did_the_work" flags="streams"
def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    if torch.cuda.is_available():
        with torch.cuda.stream(torch.cuda.Stream()):
            out.copy_(x.T)
    else:
        torch.futures.Future().then(lambda future: out.copy_(x.T))
    return out


# %% name="torch unless it is watched" exercise="coalescing.transpose" loses="" after="solution" flags="torch computes; looks around"
# It sees the course's modules and does what it is graded for; a timed run repeats what was seen here, not this function.
import sys

own = transpose


def transpose(x):
    watched = any(name.startswith("course_lib.execution") for name in sys.modules)
    return own(x) if watched else x.T.contiguous()


# %% name="slow unless it is counted" exercise="coalescing.row_copy" loses="" after="solution"
# One element a program everywhere but on the sizes whose traffic is counted: its points are those of what it does there.
own = row_copy


@triton.jit
def slow_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    tl.store(out_ptr + m * N + n, tl.load(x_ptr + m * row_stride + n))


def row_copy(x):
    M, N = x.shape
    if N == 512 or M * N > 2000:
        return own(x)
    out = torch.empty((M, N), dtype=x.dtype)
    slow_kernel[(M, N)](x, out, N, x.stride(0), BLOCK=1)
    return out


# %% name="loads spread over many lines" exercise="coalescing.row_copy" loses="coalesced.load.performance; coalesced.store.performance; traffic.performance" flags="hidden names"
# Each of the 64 lines moves less than a line that is looked at by itself.
import linecache

TEXT = """
def row_copy_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for start in range(0, N, 64):
        inside = rows < M
"""
for n in range(64):
    TEXT += f"        mask{n} = inside & (start + {n} < N)\n"
    TEXT += f"        x{n} = tl.load(x_ptr + rows * row_stride + start + {n}, mask=mask{n})\n"
    TEXT += f"        tl.store(out_ptr + rows * N + start + {n}, x{n}, mask=mask{n})\n"
linecache.cache["<made>"] = (len(TEXT), None, TEXT.splitlines(keepends=True), "<made>")
exec(compile(TEXT, "<made>", "exec"), globals())
row_copy_kernel = triton.jit(row_copy_kernel)


def row_copy(x):
    linecache, TEXT
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    row_copy_kernel[(triton.cdiv(M, 64),)](x, out, M, N, x.stride(0), BLOCK=64)
    return out


# %% name="loads that are atomics" exercise="coalescing.column_sum" loses="coalesced.load.performance; traffic.performance"
# A dense copy first, then the columns are read down by atomics that add nothing.
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + m * row_stride + cols, mask=cols < N).to(tl.float32)
        tl.store(out_ptr + m * N + cols, x, mask=cols < N)


@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, ROWS, BLOCK):
        rows = tl.program_id(1) * ROWS + start + tl.arange(0, BLOCK)
        x = tl.atomic_add(x_ptr + rows * row_stride + n, tl.zeros((BLOCK,), tl.float32), mask=rows < M)
        total += tl.where(rows < M, x, 0.0)
    tl.atomic_add(out_ptr + n, tl.sum(total, axis=0))


def column_sum(x):
    M, N = x.shape
    out = torch.zeros(N, dtype=torch.float32)
    copy = torch.empty((M, N), dtype=torch.float32)
    row_copy_kernel[(M,)](x, copy, N, x.stride(0), BLOCK=512)
    column_sum_kernel[(N, triton.cdiv(M, 512))](copy, out, M, N, N, ROWS=512, BLOCK=256)
    return out


# %% name="loads that are atomics, on the input" exercise="coalescing.column_sum" loses="correct.plain"
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, row_stride, BLOCK: tl.constexpr):
    n = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, M, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        x = tl.atomic_add(x_ptr + rows * row_stride + n, tl.zeros((BLOCK,), tl.float32), mask=rows < M)
        total += tl.where(rows < M, x, 0.0)
    tl.store(out_ptr + n, tl.sum(total, axis=0))


def column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32)
    column_sum_kernel[(N,)](x, out, M, x.stride(0), BLOCK=256)
    return out


# %% name="idle programs" exercise="coalescing.column_sum" loses="programs.tall"
# Nine programs of ten have nothing to do.
@triton.jit
def column_sum_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    if tl.program_id(1) == 0:
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, M, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)[:, None]
            total += tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
        tl.store(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32)
    column_sum_kernel[(triton.cdiv(N, 64), 10)](x, out, M, N, x.stride(0), BLOCK_M=64, BLOCK_N=64)
    return out


# %% name="the first call fetches for the second" exercise="coalescing.row_copy" loses="triton_did_the_work" after="solution"
own = row_copy
kept = {}


def row_copy(x):
    before = kept.get(x.shape)
    kept[x.shape] = own(x)
    return kept[x.shape] if before is None else before
