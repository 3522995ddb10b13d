# Torch, numpy, a compiled or a library kernel instead of one's own.

# %% name="torch does it" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes"
def transpose(x):
    return x.T.contiguous()


# %% name="numpy does it" exercise="coalescing.transpose" loses="triton_did_the_work" flags="values on the host"
import numpy as np


def transpose(x):
    return torch.from_numpy(np.ascontiguousarray(x.numpy().T))


# %% name="numpy fills the result" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="values on the host"
own = transpose


def transpose(x):
    own(x)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    out.numpy()[:] = x.numpy().T
    return out


# %% name="torch.compile" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes"
# Stops at a sentence whether or not a compiler is there: nothing that torch builds is a kernel of the log.
@torch.compile
def turned(x):
    return x.T.contiguous()


def transpose(x):
    try:
        return turned(x)
    except Exception:
        return x.T.contiguous()


# %% name="the C library copies" exercise="coalescing.row_copy" loses="triton_did_the_work" after="solution" flags="foreign code"
import ctypes

own = row_copy


def row_copy(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    own(x)
    for m in range(x.shape[0]):
        ctypes.memmove(out[m].data_ptr(), x[m].data_ptr(), x.shape[1] * x.element_size())
    return out


# %% name="an operator of one's own" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes"
@torch.library.custom_op("mine::turn", mutates_args=())
def turn(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy().T.copy())


def transpose(x):
    return turn(x)


# %% name="a package's kernel" exercise="coalescing.row_copy" loses="correct.plain" flags="hidden names"
# As if `from fast_kernels import row_copy_kernel` had found one: the text and the file name of an installed package.
import linecache

FILE = "/usr/lib/python3/site-packages/fast_kernels/copy.py"
TEXT = """
def row_copy_kernel(x_ptr, out_ptr, N, row_stride, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + m * N + cols, tl.load(x_ptr + m * row_stride + cols, mask=cols < N), mask=cols < N)
"""
linecache.cache[FILE] = (len(TEXT), None, TEXT.splitlines(keepends=True), FILE)
exec(compile(TEXT, FILE, "exec"), globals())
row_copy_kernel = triton.jit(row_copy_kernel)


def row_copy(x):
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    row_copy_kernel[(M,)](x, out, N, x.stride(0), BLOCK=512)
    return out


# %% name="a package that is not here" exercise="coalescing.transpose" loses="runs"
from triton.ops.transpose import transpose


# %% name="in a thread" exercise="coalescing.transpose" loses="triton_did_the_work" flags="threads" tells="in the thread that calls it"
import threading


def transpose(x):
    out = []
    worker = threading.Thread(target=lambda: out.append(x.T.contiguous()))
    worker.start()
    worker.join()
    return out[0]


# %% name="in a thread, into the result" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="threads"
from concurrent.futures import ThreadPoolExecutor

own = transpose


def transpose(x):
    own(x)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(out.copy_, x.T).result()
    return out


# %% name="past the recorder" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="hidden names"
from torch.utils._python_dispatch import _disable_current_modes

own = transpose


def transpose(x):
    own(x)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    with _disable_current_modes():
        out.copy_(x.T)
    return out


# %% name="a decoy copies torch's result" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def transpose(x):
    turned = x.T.contiguous()
    out = torch.empty_like(turned)
    transpose_kernel[(triton.cdiv(x.numel(), 1024),)](turned, out, x.numel(), BLOCK=1024)
    return out


# %% name="a decoy copies numpy's result" exercise="coalescing.transpose" loses="correct.plain" flags="values on the host"
# -     turned = x.T.contiguous()
# +     turned = torch.empty(x.shape[::-1], dtype=x.dtype)
# +     turned.numpy()[:] = x.numpy().T

# %% name="a decoy beside it" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="torch computes"
own = transpose


def transpose(x):
    out = own(x)
    return out.copy_(x.T)


# %% name="after an except" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes; swallowed errors"
@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    try:
        transpose_kernel[(1,)](x, out, x)  # one argument too many
    except Exception:
        return x.T.contiguous()
    return out


# %% name="behind a condition that no test meets" exercise="coalescing.transpose" loses="" after="solution" flags="torch computes"
# Gains nothing: what it is judged on is its own kernel's work, and the timed case would be refused.
own = transpose


def transpose(x):
    if x.numel() > 1 << 22:
        return x.T.contiguous()
    return own(x)


# %% name="from the second time on" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="torch computes"
own = transpose
calls = []


def transpose(x):
    calls.append(x.shape)
    return own(x) if len(calls) < 4 else x.T.contiguous()


# %% name="behind getattr" exercise="coalescing.transpose" loses="triton_did_the_work" flags="hidden names"
def transpose(x):
    return getattr(getattr(x, "T"), "con" + "tiguous")()


# %% name="behind operator" exercise="coalescing.transpose" loses="triton_did_the_work" flags="hidden names"
import operator


def transpose(x):
    return operator.methodcaller("clone", memory_format=torch.contiguous_format)(operator.attrgetter("T")(x))


# %% name="behind eval" exercise="coalescing.transpose" loses="triton_did_the_work" flags="hidden names"
def transpose(x):
    return eval("x.T." + "suougitnoc"[::-1] + "()")


# %% name="behind a module's dict" exercise="coalescing.transpose" loses="triton_did_the_work" flags="hidden names"
import sys


def transpose(x):
    return vars(sys.modules["to" + "rch"])["clone"](x.T, memory_format=torch.contiguous_format)


# %% name="a configuration's hook" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes"
def turn(arguments):
    arguments["out_ptr"].copy_(arguments["x_ptr"].T)


@triton.autotune([triton.Config({"BLOCK": 1}, pre_hook=turn)], key=[])
@triton.jit
def transpose_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr, tl.load(x_ptr))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="sum by a matrix product" exercise="coalescing.column_sum" loses="triton_did_the_work" flags="torch computes"
def column_sum(x):
    return torch.ones(x.shape[0]) @ x.float()
