# What an exercise gives is the course's when it is judged: none of these asks online_update for anything that matters.

# %% name="the walk does it all" exercise="flash.online_update" loses="update_is_written"
@triton.jit
def online_update(m, l, acc, s, v):
    return m, l, acc


@triton.jit
def weighted_mean_kernel(s_ptr, v_ptr, o_ptr, lse_ptr, M, N, D: tl.constexpr, BLOCK_N: tl.constexpr):
    row, dims = tl.program_id(0), tl.arange(0, D)
    top = -float("inf")
    for j in range(0, N, BLOCK_N):
        keys = j + tl.arange(0, BLOCK_N)
        top = tl.maximum(top, tl.max(tl.load(s_ptr + row * N + keys, mask=keys < N, other=-float("inf")), 0))
    base = tl.where(top == -float("inf"), 0.0, top)
    total, acc = 0.0, tl.zeros((D,), tl.float32)
    for j in range(0, N, BLOCK_N):
        keys = j + tl.arange(0, BLOCK_N)
        p = tl.exp(tl.load(s_ptr + row * N + keys, mask=keys < N, other=-float("inf")) - base)
        v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=(keys < N)[:, None], other=0).to(tl.float32)
        total += tl.sum(p, 0)
        acc += tl.sum(p[:, None] * v, 0)
    tl.store(o_ptr + row * D + dims, acc / tl.where(total == 0, 1, total))
    tl.store(lse_ptr + row, top + tl.log(total))


def weighted_mean(s, v):
    (M, N), D = s.shape, v.shape[1]
    o, lse = torch.empty(M, D), torch.empty(M)
    weighted_mean_kernel[(M,)](s, v, o, lse, M, N, D=D, BLOCK_N=64)
    return o, lse


# %% name="one tile for all" exercise="flash.online_update" loses="correct.plain"
@triton.jit
def online_update(m, l, acc, s, v):
    m = tl.max(s, 1)
    p = tl.exp(s - m[:, None])
    return m, tl.sum(p, 1), tl.dot(p.to(v.dtype), v, input_precision="ieee")


@triton.jit
def weighted_mean_kernel(
    s_ptr, v_ptr, o_ptr, lse_ptr, M, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows, dims, keys = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, BLOCK_N)
    s = tl.load(
        s_ptr + rows[:, None] * N + keys[None, :], mask=(rows < M)[:, None] & (keys < N)[None, :], other=-float("inf")
    )
    v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=(keys < N)[:, None], other=0)
    m, l, acc = online_update(0, 0, 0, s, v)
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], acc / l[:, None], mask=(rows < M)[:, None])
    tl.store(lse_ptr + rows, m + tl.log(l), mask=rows < M)


def weighted_mean(s, v):
    (M, N), D = s.shape, v.shape[1]
    o, lse = torch.empty(M, D), torch.empty(M)
    weighted_mean_kernel[(triton.cdiv(M, 16),)](s, v, o, lse, M, N, D=D, BLOCK_M=16, BLOCK_N=triton.next_power_of_2(N))
    return o, lse


# %% name="jit gives another kernel" exercise="flash.online_update" loses="runs" after="solution"
@triton.jit
def mine(s_ptr, v_ptr, o_ptr, lse_ptr, M, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tl.store(lse_ptr + tl.program_id(0), 0.0)


triton.jit = lambda function: mine


def weighted_mean(s, v):
    return online_update


# %% name="the launch goes elsewhere" exercise="flash.online_update" loses="runs" after="solution"
from triton.runtime.jit import JITFunction


@triton.jit
def mine(s_ptr, v_ptr, o_ptr, lse_ptr, M, N, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    tl.store(lse_ptr + tl.program_id(0), 0.0)


run = JITFunction.run
JITFunction.__getitem__ = lambda self, grid: lambda *args, **kwargs: mine.run(*args, grid=grid, warmup=False, **kwargs)


def weighted_mean(s, v):
    return online_update
