# Exit, endless loops, out of memory, wild pointers, output floods: what a program can do to the one that runs it.

# %% name="os._exit" exercise="coalescing.transpose" loses="runs" flags="files and processes"
import os


def transpose(x):
    os._exit(0)


# %% name="sys.exit" exercise="coalescing.transpose" loses="correct.plain"
import sys


def transpose(x):
    sys.exit(0)


# %% name="exit when the cell runs" exercise="coalescing.transpose" loses="runs"
import sys

transpose = sys.exit(0)


# %% name="an endless loop" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    while True:
        pass


# %% name="an endless kernel" exercise="coalescing.transpose" loses="correct.plain" tells="Does it ever end?"
@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    n = tl.load(x_ptr) * 0
    while n < 1:
        n = n * 0


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="a wild pointer in the kernel" exercise="coalescing.transpose" loses="correct.plain"
# -     n = tl.load(x_ptr) * 0
# -     while n < 1:
# -         n = n * 0
# +     tl.store(out_ptr + (1 << 40), tl.load(x_ptr - (1 << 20)))


# %% name="a billion programs" exercise="coalescing.transpose" loses="correct.plain" after="solution" tells="the grid has 1,073,741,824 programs"
def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1 << 30,)](x, out, 1, 1, 1, 1, BLOCK=1)
    return out


# %% name="out of memory, torch" exercise="coalescing.transpose" loses="correct.plain"
def transpose(x):
    return torch.full((1 << 40,), 1.0)


# %% name="out of memory, many tensors" exercise="coalescing.transpose" loses="correct.plain" after="solution"
own = transpose


def transpose(x):
    kept = [torch.empty(1 << 30) for _ in range(1000)]
    return own(x), kept


# %% name="out of memory, Python" exercise="coalescing.transpose" loses="correct.plain"
def transpose(x):
    return bytearray(1 << 40)


# %% name="recursion" exercise="coalescing.transpose" loses="correct.plain"
def transpose(x):
    return transpose(x)


# %% name="a wild pointer on the host" exercise="coalescing.transpose" loses="runs" flags="foreign code"
import ctypes


def transpose(x):
    ctypes.string_at(0)


# %% name="a pointer made of a number" exercise="coalescing.transpose" loses="correct.plain"
@triton.jit
def transpose_kernel(x_ptr, out_ptr, where):
    at = tl.full((1,), 0, tl.int64) + where
    tl.store(at.to(tl.pointer_type(tl.float32)), tl.zeros((1,), tl.float32))


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out, id(out))
    return out


# %% name="a flood of output" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    while True:
        print("x" * 1_000_000)


# %% name="a flood of output, from a right kernel" exercise="coalescing.transpose" loses="" after="solution"
own = transpose


def transpose(x):
    for _ in range(100):
        print("<script>alert(1)</script>" * 10_000)
    return own(x)


# %% name="a fork bomb" exercise="coalescing.transpose" loses="triton_did_the_work" flags="files and processes"
import os


def transpose(x):
    for _ in range(100):
        try:
            if os.fork() == 0:
                while True:
                    pass
        except OSError:
            break
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="kills its parents" exercise="coalescing.transpose" loses="triton_did_the_work" flags="files and processes"
import os


def transpose(x):
    for pid in (os.getppid(), 1, -1):
        try:
            os.kill(pid, 9)
        except OSError:
            pass
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="a full disk" exercise="coalescing.transpose" loses="correct.plain" flags="files and processes"
import tempfile


def transpose(x):
    with tempfile.TemporaryFile() as file:
        while True:
            file.write(b"x" * (1 << 24))


# %% name="an answer too large" exercise="coalescing.transpose" loses="correct.plain" after="solution"
own = transpose


def transpose(x):
    raise ValueError("x" * (1 << 24))


# %% name="thousands of launches" exercise="coalescing.transpose" loses="correct.plain" after="solution"
own = transpose


def transpose(x):
    for _ in range(3_000):
        out = own(x)
    return out
