# Programs as libraries and tutorials have them that once lost all their points.

# %% name="a workspace set to 0 by slices" exercise="coalescing.column_sum"
@triton.jit
def kernel(x_ptr, out_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    x = tl.load(x_ptr + m[:, None] * stride + n[None, :], mask=(m < M)[:, None] & (n < N)[None, :], other=0.0).to(
        tl.float32
    )
    tl.atomic_add(out_ptr + n, tl.sum(x, 0), mask=n < N)


def column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    out[:] = 0
    kernel[(triton.cdiv(N, 64), triton.cdiv(M, 128))](x, out, M, N, x.stride(0), BM=128, BN=64)
    return out


# %% name="torch.empty_permuted for the output" exercise="coalescing.transpose" after="solution"
def transpose(x):
    M, N = x.shape
    out = torch.empty_permuted((N, M), (0, 1), dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, x.stride(0), x.stride(1), BLOCK=64)
    return out


# %% name="a fallback for tensors on the CPU" exercise="fusion.softmax" after="solution" flags="torch computes"
own = softmax


def softmax(x):
    if x.device.type == "cpu":
        return torch.softmax(x, dim=-1)
    return own(x)


# %% name="a configuration that does not fit into every GPU" exercise="flash.one_head"
configs = [
    triton.Config({"BM": 128, "BN": 128}, num_warps=8, num_stages=4),
    triton.Config({"BM": 64, "BN": 32}, num_warps=4, num_stages=2),
]


@triton.autotune(configs=configs, key=["Nq", "Nk", "D"])
@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)[None, :]
    q = tl.load(q_ptr + rows[:, None] * D + d, mask=(rows < Nq)[:, None], other=0)
    m, l, acc = tl.full((BM,), -float("inf"), tl.float32), tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    for j in range(0, Nk, BN):
        n = j + tl.arange(0, BN)
        k = tl.load(k_ptr + n[:, None] * D + d, mask=(n < Nk)[:, None], other=0)
        v = tl.load(v_ptr + n[:, None] * D + d, mask=(n < Nk)[:, None], other=0)
        s = tl.where(n[None, :] < Nk, tl.dot(q, k.T, input_precision="ieee") * scale, -float("inf"))
        mn = tl.maximum(m, tl.max(s, 1))
        p, a = tl.exp(s - mn[:, None]), tl.exp(m - mn)
        l = l * a + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * a[:, None], input_precision="ieee")
        m = mn
    tl.store(o_ptr + rows[:, None] * D + d, (acc / l[:, None]).to(o_ptr.dtype.element_ty), mask=(rows < Nq)[:, None])
    tl.store(lse_ptr + rows, m + tl.log(l), mask=rows < Nq)


def one_head(q, k, v):
    (Nq, D), Nk = q.shape, k.shape[0]
    o, lse = torch.empty_like(q), torch.empty(Nq, dtype=torch.float32)
    kernel[lambda meta: (triton.cdiv(Nq, meta["BM"]),)](q, k, v, o, lse, D**-0.5, Nq, Nk, D=D)
    return o, lse
