# What softmax, matmul and attention invite.

# %% name="no maximum subtracted" exercise="toy.softmax" loses="correct.hard"
@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    m, cols = tl.program_id(0), tl.arange(0, BLOCK)
    e = tl.exp(tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32))
    tl.store(out_ptr + m * N + cols, e / tl.sum(e, axis=0), mask=cols < N)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


# %% name="padding with 0" exercise="toy.softmax" loses="correct.ragged"
# The padded lanes take part in the sum, and in the maximum. Where all logits are near 100 it does not show.
# -     e = tl.exp(tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32))
# +     x = tl.load(x_ptr + m * N + cols, mask=cols < N, other=0).to(tl.float32)
# +     e = tl.exp(x - tl.max(x, axis=0))

# %% name="in half precision" exercise="toy.softmax" loses="correct.plain"
# -     e = tl.exp(tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32))
# -     tl.store(out_ptr + m * N + cols, e / tl.sum(e, axis=0), mask=cols < N)
# +     x = tl.load(x_ptr + m * N + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
# +     e = tl.exp(x - tl.max(x, axis=0)).to(tl.float16)
# +     tl.store(out_ptr + m * N + cols, (e / tl.sum(e, axis=0)).to(tl.float16), mask=cols < N)


# %% name="the same for every row" exercise="toy.softmax" loses="correct.plain"
# 1 / N: within an absolute error of 1e-2 of many a softmax.
@triton.jit
def softmax_kernel(out_ptr, N, BLOCK: tl.constexpr):
    m, cols = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + m * N + cols, tl.zeros((BLOCK,), tl.float32) + 1.0 / N, mask=cols < N)


def softmax(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


# %% name="inputs in half precision" exercise="toy.matmul" loses="correct.plain"
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m * am + k[None, :] * ak, mask=(m < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * bk + n * bn, mask=(k[:, None] < K) & (n < N), other=0)
        total += tl.dot(a.to(tl.float16), b.to(tl.float16))
    tl.store(c_ptr + m * N + n, total, mask=(m < M) & (n < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    matmul_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK=32)
    return c


# %% name="a sum in half precision" exercise="toy.matmul" loses="correct.plain"
# -     total = tl.zeros((BLOCK, BLOCK), tl.float32)
# +     total = tl.zeros((BLOCK, BLOCK), tl.float16)
# -         total += tl.dot(a.to(tl.float16), b.to(tl.float16))
# +         total += tl.dot(a, b, input_precision="ieee").to(tl.float16)


# %% name="the last part of K dropped" exercise="toy.matmul" loses="correct.ragged; correct.hard"
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K - BLOCK + 1, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + m * am + k[None, :] * ak, mask=m < M, other=0)
        b = tl.load(b_ptr + k[:, None] * bk + n * bn, mask=n < N, other=0)
        total += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + m * N + n, total, mask=(m < M) & (n < N))


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype)
    matmul_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK=32)
    return c


# %% name="split K without atomics" exercise="toy.matmul" loses="correct.plain"
# Races: on the interpreter the programs take turns, on a GPU they do not.
@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, am, ak, bk, bn, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    k = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(a_ptr + m * am + k[None, :] * ak, mask=(m < M) & (k[None, :] < K), other=0)
    b = tl.load(b_ptr + k[:, None] * bk + n * bn, mask=(k[:, None] < K) & (n < N), other=0)
    inside = (m < M) & (n < N)
    before = tl.load(c_ptr + m * N + n, mask=inside, other=0)
    tl.store(c_ptr + m * N + n, before + tl.dot(a, b, input_precision="ieee"), mask=inside)


def matmul(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.zeros((M, N), dtype=a.dtype)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 32), triton.cdiv(K, 32))
    matmul_kernel[grid](a, b, c, M, N, K, *a.stride(), *b.stride(), BLOCK=32)
    return c


# %% name="a causal mask off by one" exercise="toy.attention" loses="correct.plain"
@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, S, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    s, d = tl.program_id(0), tl.arange(0, D)
    q = tl.load(q_ptr + s * D + d)
    t = tl.arange(0, BLOCK)
    seen = (t < s) | (t == 0)
    k = tl.load(k_ptr + t[:, None] * D + d[None, :], mask=seen[:, None], other=0)
    v = tl.load(v_ptr + t[:, None] * D + d[None, :], mask=seen[:, None], other=0)
    scores = tl.where(seen, tl.sum(q[None, :] * k, axis=1) * scale, float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=0))
    tl.store(out_ptr + s * D + d, tl.sum(p[:, None] * v, axis=0) / tl.sum(p, axis=0))


def attention(q, k, v):
    S, D = q.shape
    out = torch.empty_like(q)
    attention_kernel[(S,)](q, k, v, out, S, D**-0.5, D=D, BLOCK=max(16, triton.next_power_of_2(S)))
    return out


# %% name="no causal mask" exercise="toy.attention" loses="correct.plain"
# -     seen = (t < s) | (t == 0)
# +     seen = t < S


# %% name="the mean of v" exercise="toy.attention" loses="correct.plain"
@triton.jit
def attention_kernel(v_ptr, out_ptr, D: tl.constexpr, BLOCK: tl.constexpr):
    s, d, t = tl.program_id(0), tl.arange(0, D), tl.arange(0, BLOCK)
    v = tl.load(v_ptr + t[:, None] * D + d[None, :], mask=(t <= s)[:, None], other=0)
    tl.store(out_ptr + s * D + d, tl.sum(v, axis=0) / (s + 1))


def attention(q, k, v):
    S, D = q.shape
    out = torch.empty_like(q)
    attention_kernel[(S,)](v, out, D=D, BLOCK=max(16, triton.next_power_of_2(S)))
    return out


# %% name="torch attends" exercise="toy.attention" loses="triton_did_the_work"
def attention(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


# %%
# In memory: a row of scores for each query, in `scores`, whose rows are `row` elements apart.
@triton.jit
def scores_kernel(q_ptr, k_ptr, scores_ptr, S, row, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    s, d, t = tl.program_id(0), tl.arange(0, D), tl.arange(0, BLOCK)
    q = tl.load(q_ptr + s * D + d)
    k = tl.load(k_ptr + t[:, None] * D + d[None, :], mask=(t < S)[:, None], other=0)
    tl.store(scores_ptr + s * row + t, tl.sum(q[None, :] * k, axis=1) * scale, mask=t < S)


@triton.jit
def values_kernel(scores_ptr, v_ptr, out_ptr, row, out_row, D: tl.constexpr, BLOCK: tl.constexpr):
    s, d, t = tl.program_id(0), tl.arange(0, D), tl.arange(0, BLOCK)
    scores = tl.load(scores_ptr + s * row + t, mask=t <= s, other=float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=0))
    v = tl.load(v_ptr + t[:, None] * D + d[None, :], mask=(t <= s)[:, None], other=0)
    tl.store(out_ptr + s * out_row + d, tl.sum(p[:, None] * v, axis=0) / tl.sum(p, axis=0))


# %% name="an S x S matrix" exercise="toy.attention" loses="buffers_below.performance"
def attention(q, k, v):
    S, D = q.shape
    BLOCK = max(16, triton.next_power_of_2(S))
    scores, out = torch.empty((S, S)), torch.empty_like(q)
    scores_kernel[(S,)](q, k, scores, S, S, D**-0.5, D=D, BLOCK=BLOCK)
    values_kernel[(S,)](scores, v, out, S, D, D=D, BLOCK=BLOCK)
    return out


# %% name="an S x S matrix behind the result" exercise="toy.attention" loses="buffers_below.performance"
def attention(q, k, v):
    S, D = q.shape
    BLOCK = max(16, triton.next_power_of_2(S))
    both = torch.empty((S, D + S))
    out, scores = both[:, :D], both[:, D:]
    scores_kernel[(S,)](q, k, scores, S, D + S, D**-0.5, D=D, BLOCK=BLOCK)
    values_kernel[(S,)](scores, v, out, D + S, D + S, D=D, BLOCK=BLOCK)
    return out


# %% name="an S x S matrix in many pieces" exercise="toy.attention" loses="buffers_below.performance"
def attention(q, k, v):
    S, D = q.shape
    BLOCK = max(16, triton.next_power_of_2(S))
    out, pieces = torch.empty_like(q), []
    for s in range(S):
        pieces.append(torch.empty(S))
        scores_kernel[(1,)](q[s:], k, pieces[s], S, S, D**-0.5, D=D, BLOCK=BLOCK)
    for s in range(S):
        row_kernel[(1,)](pieces[s], v, out, s, D=D, BLOCK=BLOCK)
    return out


@triton.jit
def row_kernel(scores_ptr, v_ptr, out_ptr, s, D: tl.constexpr, BLOCK: tl.constexpr):
    d, t = tl.arange(0, D), tl.arange(0, BLOCK)
    scores = tl.load(scores_ptr + t, mask=t <= s, other=float("-inf"))
    p = tl.exp(scores - tl.max(scores, axis=0))
    v = tl.load(v_ptr + t[:, None] * D + d[None, :], mask=(t <= s)[:, None], other=0)
    tl.store(out_ptr + s * D + d, tl.sum(p[:, None] * v, axis=0) / tl.sum(p, axis=0))
