# Python and Triton's compiler read some lines differently, and one compiler reads them differently from launch to launch.
# Nobody runs kernels as Python any more: what counts is what the compiler makes of the text, once, for evaluation and GPU alike.

# %%
@triton.jit
def copy_row(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)


def launched(kernel, x, *more, **constants):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    kernel[(M,)](x, out, N, x.stride(0), *more, BLOCK=512, **constants)
    return out


# %% name="only where a constant is no number" exercise="coalescing.row_copy" loses="triton_did_the_work"
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if isinstance(BLOCK, tl.constexpr):
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="after a loop of no turns" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     for _ in tl.static_range(0):
# +         pass
# +     else:

# %% name="after a loop of Python's" exercise="coalescing.row_copy" loses="compiles"
# -     if isinstance(BLOCK, tl.constexpr):
# +     for _ in range(1):
# +         pass
# +     else:

# %% name="one number, one object" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if 1000 is 1000:

# %% name="a list under two names" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     a = [0]
# +     b = a
# +     b += [1]
# +     if len(a) == 2:

# %% name="not a block" exercise="coalescing.row_copy" loses="compiles"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if not isinstance(not tl.program_id(0), tl.tensor):

# %% name="a program's number as Python's" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if isinstance(tl.program_id(0), int):

# %% name="an address while compiling" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if ("%s" % tl.load)[-2] == "z":

# %% name="an object's identity while compiling" exercise="coalescing.row_copy" loses="correct.plain"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if id(N) % 2 == 0:

# %% name="works where there is no GPU" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if not tl.target_info.is_cuda():

# %% name="works on GPUs before Hopper" exercise="coalescing.row_copy" loses="triton_did_the_work"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if not tl.target_info.cuda_capability_geq(9, 0):

# %% name="another way out where one fails" exercise="coalescing.row_copy" loses="correct.plain"
# -     if isinstance(BLOCK, tl.constexpr):
# +     try:
# +         tl.store(out_ptr, nothing)
# +     except NameError:

# %% name="methods of a string" exercise="coalescing.row_copy" loses="compiles" tells="a text has no public"
# -     if isinstance(BLOCK, tl.constexpr):
# +     if "a".upper() == "A":

# %% name="memory between programs" exercise="coalescing.row_copy" loses="correct.plain"
SEEN = []


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    SEEN.append(1)
    copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="memory in a default" exercise="coalescing.row_copy" loses="correct.plain"
@triton.jit
def seen(counted=[]):
    counted += [1]
    return len(counted)


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if seen() + seen() == 3:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="a default that was changed" exercise="coalescing.row_copy" loses="triton_did_the_work"
# Triton read the defaults when the kernel was decorated.
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr, WORKS: tl.constexpr = 0):
    if WORKS == 1:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


kernel.fn.__defaults__ = (1,)


def row_copy(x):
    return launched(kernel, x)


# %% name="Python while compiling" exercise="coalescing.row_copy" loses="correct.plain"
calls = []


@triton.constexpr_function
def called():
    calls.append(1)
    return len(calls)


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if called() == 1:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="the time while compiling" exercise="coalescing.row_copy" loses="correct.plain"
import time


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if time.time() > 0:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="a number that equals all others" exercise="coalescing.row_copy" loses="correct.plain" tells="a constexpr that holds an object of the class Always"
class Always(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


MODE = tl.constexpr(Always(3))


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if MODE == 4:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="a dtype of one's own" exercise="coalescing.row_copy" loses="correct.plain" tells="is an object of the class Own"
class Own(tl.dtype):
    def __eq__(self, other):
        return True


OWN = Own("fp32")


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if OWN == tl.int8:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="works where a 1 is no constant" exercise="coalescing.row_copy" loses="triton_did_the_work"
# A launch makes a constant of an argument that is 1: there is no block to ask.
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, one, BLOCK: tl.constexpr):
    if isinstance(one, tl.tensor):
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x, 1)


# %% name="works where None is something" exercise="coalescing.row_copy" loses="triton_did_the_work"
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, nothing, BLOCK: tl.constexpr):
    if nothing is not None:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x, None)


# %% name="a global that changes between launches" exercise="coalescing.row_copy" loses="correct.plain" tells="Triton refuses the next one"
# A GPU would refuse the second launch.
PART = tl.constexpr(0)


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if PART == 1:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    global PART
    launched(kernel, x)
    PART = tl.constexpr(1)
    return launched(kernel, x)


# %% name="a helper that changes between launches" exercise="coalescing.row_copy" loses="correct.plain"
# A GPU would run what it compiled first.
@triton.jit
def helper(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    pass


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    helper(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    global helper
    launched(kernel, x)
    helper = copy_row
    return launched(kernel, x)


# %% name="a text that changes between launches" exercise="coalescing.row_copy" loses="correct.plain"
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    pass


def row_copy(x):
    launched(kernel, x)
    kernel._unsafe_update_src(kernel.src.replace("pass", "copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)"))
    return launched(kernel, x)


# %% name="a decorator that swaps the text" exercise="coalescing.row_copy" loses="triton_did_the_work"
# What is shown copies, and what is compiled does not.
def swapped(kernel):
    kernel._unsafe_update_src(kernel.src.replace("copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)", "pass"))
    return kernel


@swapped
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="another function in the kernel" exercise="coalescing.row_copy" loses="triton_did_the_work"
# Triton compiles the text that it read before.
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    pass


kernel.fn = copy_row.fn


def row_copy(x):
    return launched(kernel, x)


# %% name="other lines in Python's cache" exercise="coalescing.row_copy" loses="triton_did_the_work"
import linecache


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    pass


size, mtime, lines, name = linecache.cache[kernel.fn.__code__.co_filename]
copying = [line.replace("    pass\n", "    copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)\n") for line in lines]
linecache.cache[kernel.fn.__code__.co_filename] = (size, mtime, copying, name)


def row_copy(x):
    return launched(kernel, x)


# %% name="a heuristic that changes its mind" exercise="coalescing.row_copy" loses="triton_did_the_work"
times = []


@triton.heuristics({"WORKS": lambda arguments: times.append(1) or len(times) % 2})
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr, WORKS: tl.constexpr):
    if WORKS == 1:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x)


# %% name="configurations that change" exercise="coalescing.row_copy" loses="triton_did_the_work"
CONFIGS = [triton.Config({"WORKS": 1})]


@triton.autotune(CONFIGS, key=["N"])
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr, WORKS: tl.constexpr):
    if WORKS == 1:
        copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    out = launched(kernel, x)
    kernel.configs[:] = [triton.Config({"WORKS": 0})]
    return out


# %% name="a value named in passing" exercise="coalescing.row_copy" loses="compiles"
@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    if (wide := BLOCK) > 1:
        copy_row(x_ptr, out_ptr, N, row_stride, wide)


def row_copy(x):
    return launched(kernel, x)


# %% name="a tensor as a constant" exercise="coalescing.column_sum" loses="correct.plain"
# Its methods would be torch's, and run while the kernel is compiled: no load would be counted.
@triton.jit
def kernel(column: tl.constexpr, out_ptr):
    tl.store(out_ptr, column.sum().item())


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    for n in range(x.shape[1]):
        kernel[(1,)](x[:, n], out[n:])
    return out


# %% name="a launch inside a kernel" exercise="coalescing.row_copy" loses="compiles"
@triton.jit
def nothing():
    pass


@triton.jit
def kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr, GRID: tl.constexpr):
    nothing[GRID.value]()
    copy_row(x_ptr, out_ptr, N, row_stride, BLOCK)


def row_copy(x):
    return launched(kernel, x, GRID=(1,))
