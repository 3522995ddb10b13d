# The compiler's front end reads kernel bodies, and runs some Python as it does: what is there to be had from inside?

# %% name="import" exercise="coalescing.transpose" loses="correct.plain"
@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    import os

    os.system("true")
    tl.store(out_ptr, tl.load(x_ptr))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="modules behind the language" exercise="coalescing.transpose" loses="triton_did_the_work" tells="no public `core`"
@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, len(tl.core.inspect.os.getcwd()))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="builtins" exercise="coalescing.transpose" loses="correct.plain"
# -     tl.store(out_ptr, len(tl.core.inspect.os.getcwd()))
# +     tl.store(out_ptr, eval("1"))

# %% name="attributes of objects" exercise="coalescing.transpose" loses="compiles" tells="a pointer has no public"
# -     tl.store(out_ptr, len(tl.core.inspect.os.getcwd()))
# +     tl.store(out_ptr, x_ptr.handle.data[0])

# %% name="a format string" exercise="coalescing.transpose" loses="compiles" tells="a text has no public `format`. "
# -     tl.store(out_ptr, len(tl.core.inspect.os.getcwd()))
# +     print("{0.__class__.__init__.__globals__}".format(x_ptr))
# +     tl.store(out_ptr, tl.load(x_ptr))


# %% name="a Python function called from it" exercise="coalescing.transpose" loses="correct.plain"
def helper(n):
    return n * n


@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, helper(3))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="a Python function passed to it" exercise="coalescing.transpose" loses="triton_did_the_work" tells="as `helper`"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, helper: tl.constexpr):
    tl.store(out_ptr, helper(3))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out, helper=lambda n: n * n)
    return out


# %% name="what only Python can run" exercise="coalescing.row_copy" loses="compiles"
# A loop with a break, which Triton's interpreter runs and its compiler refuses.
@triton.jit
def row_copy_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    start = 0
    while True:
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)
        start += BLOCK
        if start >= N:
            break


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    row_copy_kernel[(M,)](x, out, M, N, x.stride(0), BLOCK=512)
    return out


# %% name="what only Python can run, beside a twin that compiles" exercise="coalescing.row_copy" loses="compiles"
# Two kernels of one text, told apart by the helper that they call.
@triton.jit
def compiles(start, N):
    return start < N


@triton.jit
def does_not(start, N):
    while True:
        break
    return start < N


def make(helper):
    @triton.jit
    def row_copy_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
        m = tl.program_id(0)
        for start in range(0, N, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            inside = (cols < N) & helper(start, N)
            tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=inside), mask=inside)

    return row_copy_kernel


first, last = make(does_not), make(compiles)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    first[(M,)](x, out, M, N, x.stride(0), BLOCK=512)
    last[(1,)](x, out, M, N, x.stride(0), BLOCK=512)
    return out
