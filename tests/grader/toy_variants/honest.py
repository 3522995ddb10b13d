# Honest answers of many kinds to softmax, matmul and attention.

# %% name="one pass, a row a program" exercise="toy.softmax"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    m, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + m * N + cols, e / tl.sum(e, axis=0), mask=cols < N)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


# %% name="exp2, several rows a program, padding with -1e30" exercise="toy.softmax"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (m < M) & (cols < N)
    x = tl.load(x_ptr + m * N + cols, mask=inside, other=-1.0e30).to(tl.float32) * 1.4426950408889634
    e = tl.exp2(x - tl.max(x, axis=1, keep_dims=True))
    e = tl.where(cols < N, e, 0.0)
    tl.store(out_ptr + m * N + cols, (e / tl.sum(e, axis=1)[:, None]).to(out_ptr.dtype.element_ty), mask=inside)


def softmax(x):
    M, N = x.shape
    out = torch.empty_like(x)
    softmax_kernel[(triton.cdiv(M, 4),)](x, out, M, N, ROWS=4, BLOCK=triton.next_power_of_2(N))
    return out


# %% name="functions of libdevice" exercise="toy.softmax"
from triton.language.extra import libdevice


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    m, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
    e = libdevice.exp(x - tl.extra.libdevice.rint(tl.max(x, axis=0)))
    tl.store(out_ptr + m * N + cols, e / tl.sum(e, axis=0), mask=cols < N)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


# %% name="online, two passes over blocks" exercise="toy.softmax"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    m = tl.program_id(0)
    largest, total = -float("inf"), 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        now = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - now) + tl.sum(tl.exp(x - now), axis=0)
        largest = now
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        tl.store(out_ptr + m * N + cols, tl.exp(x - largest) / total, mask=cols < N)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=128)
    return out


# %% name="three launches through workspaces, column-major" exercise="toy.softmax"
# Each program goes down 32 rows at a time: slow, and not what is graded here.
@triton.jit
def maxima_kernel(x_ptr, max_ptr, M, N, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    for n in range(N):
        largest = tl.maximum(largest, tl.load(x_ptr + m * N + n, mask=m < M, other=float("-inf")).to(tl.float32))
    tl.store(max_ptr + m, largest, mask=m < M)


@triton.jit
def exp_kernel(x_ptr, max_ptr, e_ptr, sum_ptr, M, N, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.load(max_ptr + m, mask=m < M, other=0.0)
    total = tl.zeros((ROWS,), tl.float32)
    for n in range(N):
        e = tl.exp(tl.load(x_ptr + m * N + n, mask=m < M, other=0.0).to(tl.float32) - largest)
        tl.store(e_ptr + n * M + m, e, mask=m < M)
        total += e
    tl.store(sum_ptr + m, total, mask=m < M)


@triton.jit
def divide_kernel(e_ptr, sum_ptr, out_ptr, M, N, ROWS: tl.constexpr):
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.load(sum_ptr + m, mask=m < M, other=1.0)
    for n in range(N):
        tl.store(out_ptr + m * N + n, tl.load(e_ptr + n * M + m, mask=m < M, other=0.0) / total, mask=m < M)


def softmax(x):
    M, N = x.shape
    grid = (triton.cdiv(M, 32),)
    largest, total = torch.empty(2, M, device=x.device).unbind(0)
    e = torch.empty(N, M, device=x.device)
    out = torch.empty_like(x)
    maxima_kernel[grid](x, largest, M, N, ROWS=32)
    exp_kernel[grid](x, largest, e, total, M, N, ROWS=32)
    divide_kernel[grid](e, total, out, M, N, ROWS=32)
    return out


# %% name="tiles that are not square" exercise="toy.matmul"
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m * am + k[None, :] * ak, mask=(m < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * bk + n * bn, mask=(k[:, None] < K) & (n < N), other=0)
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(c_ptr + m * N + n, total.to(c_ptr.dtype.element_ty), mask=(m < M) & (n < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 16))
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=64, BN=16, BK=32)
    return c


# %% name="no dot: outer products" exercise="toy.matmul"
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        a = tl.load(a_ptr + m * am + k * ak, mask=m < M, other=0).to(tl.float32)
        b = tl.load(b_ptr + k * bk + n * bn, mask=n < N, other=0).to(tl.float32)
        total += a[:, None] * b[None, :]
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, mask=(m < M)[:, None] & (n < N)[None, :])


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    matmul_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, *a.stride(), *b.stride(), BM=32, BN=32)
    return c


# %% name="split K with atomics, a float32 workspace" exercise="toy.matmul"
@triton.jit
def split_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, PART: tl.constexpr, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, PART, BLOCK):
        k = tl.program_id(2) * PART + start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m * am + k[None, :] * ak, mask=(m < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * bk + n * bn, mask=(k[:, None] < K) & (n < N), other=0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.atomic_add(c_ptr + m * N + n, total, mask=(m < M) & (n < N))


@triton.jit
def cast_kernel(from_ptr, to_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(to_ptr + i, tl.load(from_ptr + i, mask=i < n).to(to_ptr.dtype.element_ty), mask=i < n)


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.zeros((M, N), dtype=torch.float32)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32), triton.cdiv(K, 64))
    split_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), PART=64, BLOCK=32)
    if a.dtype == torch.float32:
        return c
    out = torch.empty((M, N), dtype=a.dtype)
    cast_kernel[(triton.cdiv(M * N, 1024),)](c, out, M * N, BLOCK=1024)
    return out


# %% name="persistent, tensor descriptors where they fit" exercise="toy.matmul"
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def described_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    across = tl.cdiv(N, BLOCK)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK) * across, tl.num_programs(0)):
        m, n = tile // across * BLOCK, tile % across * BLOCK
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for k in range(0, K, BLOCK):
            total = tl.dot(a.load([m, k]), b.load([k, n]), total, input_precision="ieee")
        c.store([m, n], total.to(c.dtype))


@triton.jit
def strided_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BLOCK: tl.constexpr):
    across = tl.cdiv(N, BLOCK)
    for tile in range(tl.program_id(0), tl.cdiv(M, BLOCK) * across, tl.num_programs(0)):
        m = tile // across * BLOCK + tl.arange(0, BLOCK)[:, None]
        n = tile % across * BLOCK + tl.arange(0, BLOCK)[None, :]
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        for start in range(0, K, BLOCK):
            k = start + tl.arange(0, BLOCK)
            a = tl.load(a_ptr + m * am + k[None, :] * ak, mask=(m < M) & (k[None, :] < K), other=0)
            b = tl.load(b_ptr + k[:, None] * bk + n * bn, mask=(k[:, None] < K) & (n < N), other=0)
            total = tl.dot(a, b, total, input_precision="ieee")
        tl.store(c_ptr + m * N + n, total, mask=(m < M) & (n < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    if a.is_contiguous() and b.is_contiguous() and K % 8 == 0 and N % 8 == 0:
        tile = [32, 32]
        described_kernel[(4,)](*(TensorDescriptor.from_tensor(t, tile) for t in (a, b, c)), M, N, K, BLOCK=32)
    else:
        strided_kernel[(4,)](a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK=32)
    return c


# %% name="autotuned, heuristics, a helper, grouped order" exercise="toy.matmul"
@triton.jit
def swizzled(pid, down, across, GROUP: tl.constexpr):
    group = pid // (GROUP * across)
    size = min(down - group * GROUP, GROUP)
    return group * GROUP + pid % (GROUP * across) % size, pid % (GROUP * across) // size


@triton.autotune([triton.Config({"BLOCK": n}, num_warps=w) for n in (32, 64) for w in (2, 4)], key=["M", "N", "K"])
@triton.heuristics({"EVEN_K": lambda arguments: arguments["K"] % arguments["BLOCK"] == 0})
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BLOCK: tl.constexpr, EVEN_K: tl.constexpr):
    pid_m, pid_n = swizzled(tl.program_id(0), tl.cdiv(M, BLOCK), tl.cdiv(N, BLOCK), 4)
    m = (pid_m * BLOCK + tl.arange(0, BLOCK)) % M
    n = (pid_n * BLOCK + tl.arange(0, BLOCK)) % N
    k = tl.arange(0, BLOCK)
    a_at, b_at = a_ptr + m[:, None] * am + k[None, :] * ak, b_ptr + k[:, None] * bk + n[None, :] * bn
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK):
        if EVEN_K:
            a, b = tl.load(a_at), tl.load(b_at)
        else:
            a = tl.load(a_at, mask=k[None, :] < K - start, other=0.0)
            b = tl.load(b_at, mask=k[:, None] < K - start, other=0.0)
        total += tl.dot(a, b, input_precision="ieee")
        a_at += BLOCK * ak
        b_at += BLOCK * bk
    m = pid_m * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = pid_n * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(c_ptr + m * N + n, total, mask=(m < M) & (n < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK"]) * triton.cdiv(N, meta["BLOCK"]),)
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride())
    return c


# %% name="flash attention" exercise="toy.attention"
@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, S, scale, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows, d = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :], mask=(rows < S)[:, None], other=0)
    largest = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    out = tl.zeros((BLOCK_M, D), tl.float32)
    for start in range(0, min(S, (tl.program_id(0) + 1) * BLOCK_M), BLOCK_N):
        cols = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + cols[None, :] * D + d[:, None], mask=(cols < S)[None, :], other=0)
        v = tl.load(v_ptr + cols[:, None] * D + d[None, :], mask=(cols < S)[:, None], other=0)
        scores = tl.dot(q, k, input_precision="ieee") * (scale * 1.4426950408889634)
        scores = tl.where((cols[None, :] <= rows[:, None]) & (cols < S)[None, :], scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, axis=1))
        p = tl.exp2(scores - now[:, None])
        rescale = tl.exp2(largest - now)
        total = total * rescale + tl.sum(p, axis=1)
        out = out * rescale[:, None] + tl.dot(p, v, input_precision="ieee")
        largest = now
    tl.store(out_ptr + rows[:, None] * D + d[None, :], out / total[:, None], mask=(rows < S)[:, None])


def attention(q, k, v):
    S, D = q.shape
    out = torch.empty_like(q)
    attention_kernel[(triton.cdiv(S, 32),)](q, k, v, out, S, D**-0.5, D=D, BLOCK_M=32, BLOCK_N=16)
    return out


# %% name="a query at a time, no dot" exercise="toy.attention"
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    s, d = tl.program_id(0), tl.arange(0, D)
    q = tl.load(q_ptr + s * D + d) * scale
    largest, total, out = float("-inf"), 0.0, tl.zeros((D,), tl.float32)
    for start in range(0, s + 1, BLOCK):
        t = start + tl.arange(0, BLOCK)
        seen = (t <= s)[:, None]
        k = tl.load(k_ptr + t[:, None] * D + d[None, :], mask=seen, other=0)
        v = tl.load(v_ptr + t[:, None] * D + d[None, :], mask=seen, other=0)
        scores = tl.where(t <= s, tl.sum(q[None, :] * k, axis=1), float("-inf"))
        now = tl.maximum(largest, tl.max(scores, axis=0))
        p = tl.exp(scores - now)
        out = out * tl.exp(largest - now) + tl.sum(p[:, None] * v, axis=0)
        total = total * tl.exp(largest - now) + tl.sum(p, axis=0)
        largest = now
    tl.store(out_ptr + s * D + d, out / total)


def attention(q, k, v):
    S, D = q.shape
    out = torch.empty_like(q)
    attention_kernel[(S,)](q, k, v, out, D**-0.5, D=D, BLOCK=64)
    return out
