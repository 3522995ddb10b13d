# Answers remembered by pointer, shape or fingerprint; uninitialised memory, inputs or views returned.

# %% name="by pointer" exercise="coalescing.transpose" loses="triton_did_the_work" flags="torch computes"
known = {}


def transpose(x):
    known[x.data_ptr()] = x.T.contiguous()
    return known[x.data_ptr()]


# %% name="by shape" exercise="coalescing.transpose" loses="triton_did_the_work"
known = {}


def transpose(x):
    if x.shape not in known:
        known[x.shape] = torch.from_numpy(x.numpy().T.copy())
    return known[x.shape]


# %% name="by fingerprint" exercise="coalescing.transpose" loses="correct.plain" flags="torch computes"
# A sum computed with numpy picks a row of a table that was made when the cell ran.
table = torch.zeros(64, 256 * 128)


@triton.jit
def transpose_kernel(table_ptr, out_ptr, row, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(table_ptr + row * 32768 + i, mask=i < n), mask=i < n)


def transpose(x):
    row = int(abs(float(x.numpy().sum()))) % 64
    own = torch.zeros(64, 256 * 128)
    own.numpy()[row, : x.numel()] = x.numpy().T.ravel()
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(triton.cdiv(x.numel(), 1024),)](own, out, row, x.numel(), BLOCK=1024)
    return out


# %% name="a table from outside the function" exercise="coalescing.transpose" loses="triton_did_the_work"
table = torch.zeros(256 * 128)


@triton.jit
def transpose_kernel(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(table_ptr + i, mask=i < n), mask=i < n)


def transpose(x):
    table.numpy()[: x.numel()] = x.numpy().T.ravel()
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    transpose_kernel[(triton.cdiv(x.numel(), 1024),)](table, out, x.numel(), BLOCK=1024)
    return out


# %% name="as numbers among the arguments" exercise="coalescing.column_sum" loses="correct.plain" flags="values on the host"
# One launch for each result, which travels as a number.
@triton.jit
def column_sum_kernel(out_ptr, n, value):
    tl.store(out_ptr + n, value)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    for n, value in enumerate(x.numpy().astype("float64").sum(0).tolist()):
        column_sum_kernel[(1,)](out, n, value)
    return out


# %% name="as a text in the kernel's source" exercise="coalescing.column_sum" loses="correct.plain" flags="hidden names"
import linecache


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    lines = "".join(
        f"    tl.store(out_ptr + {n}, {float(v)!r})\n" for n, v in enumerate(x.numpy().astype("float64").sum(0))
    )
    source = "@triton.jit\ndef column_sum_kernel(out_ptr):\n" + lines
    name = f"<made {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = {"triton": triton, "tl": tl, "__name__": "__main__"}
    exec(compile(source, name, "exec"), scope)
    scope["column_sum_kernel"][(1,)](out)
    return out


# %% name="uninitialised memory" exercise="coalescing.row_copy" loses="triton_did_the_work"
def row_copy(x):
    wanted = x.numpy().copy()
    del wanted  # its memory is the next to be given out
    return torch.empty(x.shape, dtype=x.dtype)


# %% name="uninitialised memory, and a decoy" exercise="coalescing.row_copy" loses="correct.plain"
@triton.jit
def row_copy_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


def row_copy(x):
    before = torch.empty(x.shape, dtype=x.dtype)
    before.numpy()[:] = x.numpy()
    del before
    out = torch.empty(x.shape, dtype=x.dtype)
    row_copy_kernel[(1,)](x, out)
    return out


# %% name="what a buffer of the call before still holds" exercise="coalescing.row_copy" loses="correct.plain"
kept = []


@triton.jit
def row_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


def row_copy(x):
    if not kept or kept[0].shape != x.shape or kept[0].dtype != x.dtype:
        kept[:] = [torch.empty(x.shape, dtype=x.dtype)]
        row_copy_kernel[(triton.cdiv(x.numel(), 1024),)](x, kept[0], x.numel(), BLOCK=1024)
    return kept[0]


# %% name="its input" exercise="coalescing.row_copy" loses="triton_did_the_work"
def row_copy(x):
    return x


# %% name="a view" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    return x.T


# %% name="a view, and a decoy that stores what is there" exercise="coalescing.transpose" loses="triton_did_the_work"
@triton.jit
def transpose_kernel(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr))


def transpose(x):
    transpose_kernel[(1,)](x)
    return x.as_strided(x.shape[::-1], x.stride()[::-1])


# %% name="a view of two inputs" exercise="coalescing.deinterleave" loses="triton_did_the_work"
def deinterleave(x):
    return x[0::2], x[1::2]
