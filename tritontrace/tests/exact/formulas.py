"""Kernels to compare: matrix products, rows, attention; `MISTAKE` plants one."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    BLOCK: tl.constexpr,
    MISTAKE: tl.constexpr,
    ACC: tl.constexpr,
    TF32: tl.constexpr,
):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    last = K - BLOCK if MISTAKE == "the last tile is lost" else K
    for first in range(0, last, BLOCK):
        k = first + tl.arange(0, BLOCK)
        limit = K - 1 if MISTAKE == "mask off by one" else K
        x = tl.load(a + m[:, None] * sam + k[None, :] * sak, (m[:, None] < M) & (k[None, :] < limit), other=0.0)
        if MISTAKE == "an operand transposed":
            y = tl.load(b + n[None, :] * sbk + k[:, None] * sbn, (k[:, None] < K) & (n[None, :] < N), other=0.0)
        else:
            y = tl.load(b + k[:, None] * sbk + n[None, :] * sbn, (k[:, None] < K) & (n[None, :] < N), other=0.0)
        if MISTAKE == "padded lanes are 1":
            x = tl.where(k[None, :] < K, x, 1.0)
            y = tl.where(k[:, None] < K, y, 1.0)
        product = tl.dot(x.to(ACC), y.to(ACC), input_precision="tf32" if TF32 else "ieee").to(tl.float32)
        if MISTAKE == "a term of the accumulator is lost":
            acc = product
        else:
            acc += product
    tl.store(c + m[:, None] * N + n[None, :], acc.to(ACC), (m[:, None] < M) & (n[None, :] < N))


def matmul(a, b, BLOCK=16, mistake="", acc=tl.float32, tf32=False):
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    grid = triton.cdiv(a.shape[0], BLOCK), triton.cdiv(b.shape[1], BLOCK)
    sizes = a.shape[0], b.shape[1], a.shape[1]
    matmul_kernel[grid](a, b, c, *sizes, *a.stride(), *b.stride(), BLOCK, mistake, acc, tf32)
    return c


@triton.jit
def split_k_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for first in range(tl.program_id(2) * BLOCK, K, BLOCK * SPLIT):
        k = first + tl.arange(0, BLOCK)
        x = tl.load(a + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], (k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.atomic_add(c + m[:, None] * N + n[None, :], acc, (m[:, None] < M) & (n[None, :] < N))


def split_k(a, b, BLOCK=16, SPLIT=3):
    c = torch.zeros(a.shape[0], b.shape[1])
    grid = triton.cdiv(a.shape[0], BLOCK), triton.cdiv(b.shape[1], BLOCK), SPLIT
    split_k_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], BLOCK, SPLIT)
    return c


@triton.jit
def described_kernel(a, b, c, M, N, K, BLOCK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BLOCK, BLOCK])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BLOCK, BLOCK])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BLOCK, BLOCK])
    m, n = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        acc = tl.dot(da.load([m, k]), db.load([k, n]), acc)
    dc.store([m, n], acc)


def described(a, b, BLOCK=16):
    c = torch.empty(a.shape[0], b.shape[1])
    grid = triton.cdiv(a.shape[0], BLOCK), triton.cdiv(b.shape[1], BLOCK)
    described_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], BLOCK)
    return c


# ----------------------------------------------------------------------------------------------------- rows


@triton.jit
def softmax_kernel(x, out, N, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + n, n < N, other=-float("inf"))
    e = tl.exp(values - tl.max(values, 0))
    tl.store(out + row * N + n, e / tl.sum(e, 0), n < N)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def online_softmax_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    m, l = -float("inf"), 0.0
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        values = tl.load(x + row * N + n, n < N, other=-float("inf")) * 1.44269504
        larger = tl.maximum(m, tl.max(values, 0))
        l = l * tl.exp2(m - larger) + tl.sum(tl.exp2(values - larger), 0)
        m = larger
    for first in range(0, N, BLOCK):
        n = first + tl.arange(0, BLOCK)
        values = tl.load(x + row * N + n, n < N) * 1.44269504
        tl.store(out + row * N + n, tl.exp2(values - m) * (1 / l), n < N)


def online_softmax(x, BLOCK=16):
    out = torch.empty_like(x)
    online_softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK)
    return out


@triton.jit
def cross_entropy_kernel(x, target, out, N, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + n, n < N, other=-float("inf"))
    m = tl.max(values, 0)
    lse = m + tl.log(tl.sum(tl.exp(values - m), 0))
    tl.store(out + row, lse - tl.load(x + row * N + tl.load(target + row)))


def cross_entropy(x, target):
    out = torch.empty(x.shape[0])
    cross_entropy_kernel[(x.shape[0],)](x, target, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def rmsnorm_kernel(x, w, out, N, eps, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * N + n, n < N, other=0.0).to(tl.float32)
    r = tl.rsqrt(tl.sum(values * values, 0) / N + eps)
    tl.store(out + row * N + n, values * r * tl.load(w + n, n < N), n < N)


def rmsnorm(x, w, eps=1e-6):
    out = torch.empty_like(x)
    rmsnorm_kernel[(x.shape[0],)](x, w, out, x.shape[1], eps, triton.next_power_of_2(x.shape[1]))
    return out


@triton.jit
def cumsum_kernel(x, out, N, BLOCK: tl.constexpr):
    row, n = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out + row * N + n, tl.cumsum(tl.load(x + row * N + n, n < N, other=0.0), 0), n < N)


def cumsum(x):
    out = torch.empty_like(x)
    cumsum_kernel[(x.shape[0],)](x, out, x.shape[1], triton.next_power_of_2(x.shape[1]))
    return out


# ----------------------------------------------------------------------------------------------------- attention


@triton.jit
def forward_kernel(
    q, k, v, o, lse, Nq, Nk, scale, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr, MISTAKE: tl.constexpr
):
    i, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    queries = tl.load(q + i[:, None] * D + d[None, :], i[:, None] < Nq, other=0.0)
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    acc = tl.zeros((BLOCK, D), tl.float32)
    for first in range(0, Nk, BLOCK):
        j = first + tl.arange(0, BLOCK)
        keys = tl.load(k + j[:, None] * D + d[None, :], j[:, None] < Nk, other=0.0)
        s = tl.dot(queries, tl.trans(keys))
        if MISTAKE != "no scale":
            s = s * scale
        seen = j[None, :] < Nk
        if MISTAKE == "mask off by one":
            seen = j[None, :] < Nk - 1
        if CAUSAL:
            if MISTAKE == "causal bound off by one":
                seen = seen & (j[None, :] < i[:, None] + Nk - Nq)
            else:
                seen = seen & (j[None, :] <= i[:, None] + Nk - Nq)
        if MISTAKE == "hidden scores are 0":
            s = tl.where(seen, s, 0.0)
        else:
            s = tl.where(seen, s, -float("inf"))
        larger = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(larger == -float("inf"), 0.0, larger)
        if MISTAKE == "exp2 without log2(e)":
            p = tl.exp2(s - safe[:, None])
            alpha = tl.exp2(m - safe)
        else:
            p = tl.exp(s - safe[:, None])
            alpha = tl.exp(m - safe)
        if MISTAKE == "l is not rescaled":
            l = l + tl.sum(p, 1)
        else:
            l = l * alpha + tl.sum(p, 1)
        if MISTAKE != "acc is not rescaled":
            acc = acc * alpha[:, None]
        values = tl.load(v + j[:, None] * D + d[None, :], j[:, None] < Nk, other=0.0)
        acc += tl.dot(p.to(values.dtype), values)
        m = larger
    if MISTAKE == "not divided by l":
        result = acc
    else:
        result = acc / l[:, None]
    tl.store(o + i[:, None] * D + d[None, :], result, i[:, None] < Nq)
    tl.store(lse + i, m + tl.log(l), i < Nq)


@triton.jit
def backward_kernel(
    q,
    k,
    v,
    do,
    lse,
    delta,
    dq,
    dk,
    dv,
    Nq,
    Nk,
    scale,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    CAUSAL: tl.constexpr,
    MISTAKE: tl.constexpr,
):
    j, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    keys = tl.load(k + j[:, None] * D + d[None, :], j[:, None] < Nk, other=0.0)
    values = tl.load(v + j[:, None] * D + d[None, :], j[:, None] < Nk, other=0.0)
    dkeys = tl.zeros((BLOCK, D), tl.float32)
    dvalues = tl.zeros((BLOCK, D), tl.float32)
    for first in range(0, Nq, BLOCK):
        i = first + tl.arange(0, BLOCK)
        rows = i[:, None] < Nq
        queries = tl.load(q + i[:, None] * D + d[None, :], rows, other=0.0)
        dout = tl.load(do + i[:, None] * D + d[None, :], rows, other=0.0)
        s = tl.dot(queries, tl.trans(keys)) * scale
        seen = rows & (j[None, :] < Nk)
        if CAUSAL:
            seen = seen & (j[None, :] <= i[:, None] + Nk - Nq)
        p = tl.where(seen, tl.exp(s - tl.load(lse + i, i < Nq, other=0.0)[:, None]), 0.0)
        dvalues += tl.dot(tl.trans(p), dout)
        dp = tl.dot(dout, tl.trans(values))
        if MISTAKE != "delta is missing":
            dp = dp - tl.load(delta + i, i < Nq, other=0.0)[:, None]
        ds = p * dp
        dkeys += tl.dot(tl.trans(ds), queries)
        tl.atomic_add(dq + i[:, None] * D + d[None, :], tl.dot(ds, keys) * scale, rows)
    if MISTAKE != "dk is not scaled":
        dkeys = dkeys * scale
    tl.store(dk + j[:, None] * D + d[None, :], dkeys, j[:, None] < Nk)
    tl.store(dv + j[:, None] * D + d[None, :], dvalues, j[:, None] < Nk)


def attention(q, k, v, causal=False, BLOCK=16, mistake=""):
    (Nq, D), Nk = q.shape, len(k)
    o, lse = torch.empty_like(q), torch.empty(Nq)
    forward_kernel[(triton.cdiv(Nq, BLOCK),)](q, k, v, o, lse, Nq, Nk, D**-0.5, D, BLOCK, causal, mistake)
    return o, lse


def gradients(q, k, v, do, causal=False, BLOCK=16, mistake=""):
    """dq, dk, dv."""
    (Nq, D), Nk = q.shape, len(k)
    o, lse = attention(q, k, v, causal, BLOCK)
    delta = (o * do).sum(-1)
    dq, dk, dv = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
    arguments = q, k, v, do, lse, delta, dq, dk, dv, Nq, Nk, D**-0.5, D, BLOCK, causal, mistake
    backward_kernel[(triton.cdiv(Nk, BLOCK),)](*arguments)
    return dq, dk, dv


def naive_attention(q, k, v, causal=False):
    s = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        hidden = torch.ones(s.shape, dtype=torch.bool).triu(len(k) - len(q) + 1)
        s = s.masked_fill(hidden, -torch.inf)
    return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)


def naive_gradients(q, k, v, do, causal=False):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    o, _ = naive_attention(q, k, v, causal)
    return torch.autograd.grad(o, (q, k, v), do)


# ----------------------------------------------------------------------------------------------------- one formula, or not


@triton.jit
def pointwise_kernel(x, out, n, WHAT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, i < n, other=0.0)
    if WHAT == "x":
        y = a
    elif WHAT == "to fp8 and back":
        y = a.to(tl.float8e5).to(tl.float32)
    elif WHAT == "to an integer":
        y = a.to(tl.int32).to(tl.float32)
    elif WHAT == "bits":
        y = (a.to(tl.int32, bitcast=True) & 0x7FFFFFFF).to(tl.float32, bitcast=True)
    elif WHAT == "where positive":
        y = tl.where(a > 0, a, 0.0)
    elif WHAT == "half of x and |x|":
        y = (a + tl.abs(a)) * 0.5
    elif WHAT == "largest of halves":
        y = tl.maximum(a * 0.5, 0.25)
    elif WHAT == "half of the largest":
        y = tl.maximum(a, 0.5) * 0.5
    elif WHAT == "sqrt squared":
        y = tl.sqrt(a) * tl.sqrt(a)
    elif WHAT == "fourth roots":
        y = a * 0.42044820762685725 * 0.42044820762685725  # 32 ** -0.25
    elif WHAT == "a square root":
        y = a * 0.1767766952966369  # 32 ** -0.5
    elif WHAT == "a mask of -1e30":
        y = tl.exp(tl.where(a > 0, a, -1e30))
    elif WHAT == "a mask of -inf":
        y = tl.exp(tl.where(a > 0, a, -float("inf")))
    elif WHAT == "at least -1e30":
        y = tl.maximum(a, -1e30)
    elif WHAT == "exp of exp":
        y = tl.exp(tl.exp(a))
    elif WHAT == "exp of exp, in two":
        y = tl.exp(tl.exp(a) * 0.25) * tl.exp(tl.exp(a) * 0.75)
    elif WHAT == "entropy":
        y = tl.exp(a) * tl.log(tl.exp(a) + 1)
    elif WHAT == "sigmoid":
        y = 1 / (1 + tl.exp(-a))
    elif WHAT == "sigmoid by exp(x)":
        y = tl.exp(a) / (1 + tl.exp(a))
    else:
        tl.static_assert(WHAT == "never", "unknown")
    tl.store(out + i, y, i < n)


def pointwise(what):
    def function(x):
        out = torch.empty_like(x)
        pointwise_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), what, 64)
        return out

    return function
