# Lazy or always-equal tensors; patched clocks, comparisons, random generators, launch paths, hooks, kernel methods.

# %% name="a lazy tensor" exercise="coalescing.transpose" loses="triton_did_the_work"
class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [a.as_subclass(torch.Tensor).T if isinstance(a, Lazy) else a for a in args]
        return function(*args, **(kwargs or {}))


def transpose(x):
    return x.as_subclass(Lazy)


# %% name="a tensor that equals everything" exercise="coalescing.transpose" loses="triton_did_the_work"
class Equal(torch.Tensor):
    def __eq__(self, other):
        return torch.ones(self.shape, dtype=torch.bool)

    def __sub__(self, other):
        return torch.zeros(self.shape)

    __rsub__ = __sub__
    __hash__ = torch.Tensor.__hash__


def transpose(x):
    return torch.zeros(x.shape[::-1], dtype=x.dtype).as_subclass(Equal)


# %% name="an object with a shape" exercise="coalescing.transpose" loses="triton_did_the_work"
class Result:
    def __init__(self, x):
        self.shape, self.dtype = torch.Size(x.shape[::-1]), x.dtype

    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return lambda *args, **kwargs: self


def transpose(x):
    return Result(x)


# %% name="patched clocks" exercise="coalescing.row_copy" loses="coalesced.load.performance; coalesced.store.performance" flags="patched modules"
# A slow kernel, and no time passes.
import time

time.perf_counter = time.monotonic = time.time = lambda: 0.0
triton.testing.do_bench = lambda *args, **kwargs: 1e-6
torch.cuda.Event.elapsed_time = lambda self, other: 1e-6


@triton.jit
def slow_kernel(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    rows, n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    tl.store(out_ptr + rows * N + n, tl.load(x_ptr + rows * row_stride + n, mask=rows < M), mask=rows < M)


def row_copy(x):
    time.perf_counter, triton.testing.do_bench, torch.cuda.Event
    M, N = x.shape
    out = torch.empty((M, N), dtype=x.dtype)
    slow_kernel[(triton.cdiv(M, 256), N)](x, out, M, N, x.stride(0), BLOCK=256)
    return out


# %% name="patched comparisons" exercise="coalescing.transpose" loses="correct.plain" flags="patched modules"
torch.allclose = torch.equal = torch.Tensor.equal = lambda *args, **kwargs: True
torch.testing.assert_close = lambda *args, **kwargs: None
torch.Tensor.__eq__ = lambda self, other: True


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)


def transpose(x):
    torch.allclose
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    zero_kernel[(triton.cdiv(x.numel(), 1024),)](out, x.numel(), BLOCK=1024)
    return out


# %% name="patched comparisons, while it runs" exercise="coalescing.transpose" loses="correct.plain" flags="patched modules"
@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)


def transpose(x):
    from course_lib import criteria

    torch.allclose = torch.equal = lambda *args, **kwargs: True
    criteria._compare = lambda *args: ""
    criteria.judge = lambda exercise, trials: None
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    zero_kernel[(triton.cdiv(x.numel(), 1024),)](out, x.numel(), BLOCK=1024)
    return out


# %% name="random generators that give zeros" exercise="coalescing.column_sum" loses="correct.plain" flags="patched modules"
@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)


def column_sum(x):
    torch.randn = torch.rand = lambda *shape, **kwargs: torch.zeros(*shape)
    torch.manual_seed = lambda seed: None
    torch.Generator = lambda *args: None
    out = torch.empty(x.shape[1], dtype=torch.float32)
    zero_kernel[(triton.cdiv(x.shape[1], 1024),)](out, x.shape[1], BLOCK=1024)
    return out


# %% name="another launch path" exercise="coalescing.transpose" loses="triton_did_the_work" flags="patched modules"
from triton.runtime.jit import JITFunction


@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


def transpose(x):
    JITFunction.run = lambda kernel, x, out, *args, **kwargs: out.copy_(x.T)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="another way to index a kernel" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="values on the host"
# The launches before it count; what the host fills in is lost.
own = transpose


class Fast:
    def __getitem__(self, grid):
        return lambda x, out: out.numpy().__setitem__(slice(None), x.numpy().T)


def transpose(x):
    own(x)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel = Fast()
    transpose_kernel[(1,)](x, out)
    return out


# %% name="a kernel with a run of its own" exercise="coalescing.transpose" loses="triton_did_the_work" flags="patched modules"
@triton.jit
def transpose_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


transpose_kernel.run = lambda x, out, **options: out.copy_(x.T)


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(1,)](x, out)
    return out


# %% name="a kernel whose source is another's" exercise="coalescing.transpose" loses="correct.plain" flags="patched modules"
# What is shown and what runs differ; what is judged is the text.
@triton.jit
def transpose_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def body(x_ptr, out_ptr, n, BLOCK):
    out_ptr.copy_(x_ptr.T)


transpose_kernel.fn.__code__ = body.__code__


def transpose(x):
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
    return out


# %% name="IPython's hooks and the displayhook" exercise="coalescing.transpose" loses="correct.plain" flags="patched modules"
import sys


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)


def ten(*args, **kwargs):
    return 10


def transpose(x):
    sys.displayhook = ten
    try:
        from IPython import get_ipython

        get_ipython().events.register("post_run_cell", ten)
    except (ImportError, AttributeError):
        pass
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    zero_kernel[(triton.cdiv(x.numel(), 1024),)](out, x.numel(), BLOCK=1024)
    return out


# %% name="a check that always pays" exercise="coalescing.transpose" loses="triton_did_the_work" flags="patched modules"
import course_lib

course_lib.check = lambda exercise, entry: 10


def transpose(x):
    course_lib.check
    return torch.zeros(x.shape[::-1], dtype=x.dtype)
