# FlashAttention in other words: a persistent loop, descriptors, autotune, scores turned, two query tiles a program, one merge loop.


# %% name="persistent" exercise="flash.one_head"
@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    dims = tl.arange(0, D)[None, :]
    for tile in range(tl.program_id(0), tl.cdiv(Nq, BM), tl.num_programs(0)):
        rows = tile * BM + tl.arange(0, BM)
        q = tl.load(q_ptr + rows[:, None] * D + dims, mask=(rows < Nq)[:, None], other=0)
        m = tl.full((BM,), -float("inf"), tl.float32)
        l = tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        for j in range(0, Nk, BN):
            keys = j + tl.arange(0, BN)
            k = tl.load(k_ptr + keys[:, None] * D + dims, mask=(keys < Nk)[:, None], other=0)
            v = tl.load(v_ptr + keys[:, None] * D + dims, mask=(keys < Nk)[:, None], other=0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            m, l, acc = online_update(m, l, acc, tl.where(keys[None, :] < Nk, s, -float("inf")), v)
        tl.store(o_ptr + rows[:, None] * D + dims, (acc / l[:, None]).to(q.dtype), mask=(rows < Nq)[:, None])
        tl.store(lse_ptr + rows, m + tl.log(l), mask=rows < Nq)


def one_head(q, k, v):
    (Nq, D), Nk = q.shape, k.shape[0]
    o, lse = torch.empty_like(q), q.new_empty(Nq, dtype=torch.float32)
    kernel[(132,)](q, k, v, o, lse, D**-0.5, Nq, Nk, D=D, BM=64, BN=32)
    return o, lse


# %% name="descriptors, exp2" exercise="flash.one_head"
@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    q_desc = tl.make_tensor_descriptor(q_ptr, [Nq, D], [D, 1], [BM, D])
    k_desc = tl.make_tensor_descriptor(k_ptr, [Nk, D], [D, 1], [BN, D])
    v_desc = tl.make_tensor_descriptor(v_ptr, [Nk, D], [D, 1], [BN, D])
    o_desc = tl.make_tensor_descriptor(o_ptr, [Nq, D], [D, 1], [BM, D])
    first = tl.program_id(0) * BM
    q = q_desc.load([first, 0])
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, Nk, BN):
        s = tl.dot(q, k_desc.load([j, 0]).T, input_precision="ieee") * (scale * 1.4426950408889634)
        s = tl.where((j + tl.arange(0, BN))[None, :] < Nk, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))  # finite: each row sees a key of each tile
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        v = v_desc.load([j, 0])
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m = m_new
    o_desc.store([first, 0], (acc / l[:, None]).to(q.dtype))
    rows = first + tl.arange(0, BM)
    tl.store(lse_ptr + rows, (m + tl.log2(l)) * 0.6931471805599453, mask=rows < Nq)


def one_head(q, k, v):
    (Nq, D), Nk = q.shape, k.shape[0]
    o, lse = torch.empty_like(q), q.new_empty(Nq, dtype=torch.float32)
    if q.is_cuda:
        triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    kernel[(triton.cdiv(Nq, 64),)](q, k, v, o, lse, D**-0.5, Nq, Nk, D=D, BM=64, BN=32)
    return o, lse


# %% name="autotuned, scores turned" exercise="flash.one_head"
@triton.autotune([triton.Config({"BM": 64, "BN": 32}), triton.Config({"BM": 128, "BN": 32}, num_warps=8)], key=["D"])
@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, Nq, Nk, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows, dims = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + dims[:, None] + rows[None, :] * D, mask=(rows < Nq)[None, :], other=0)  # (D, BM)
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, Nk, BN):
        keys = j + tl.arange(0, BN)
        k = tl.load(k_ptr + keys[:, None] * D + dims[None, :], mask=(keys < Nk)[:, None], other=0)
        v = tl.load(v_ptr + keys[:, None] * D + dims[None, :], mask=(keys < Nk)[:, None], other=0)
        s = tl.trans(tl.dot(k, q, input_precision="ieee")) * scale
        m, l, acc = online_update(m, l, acc, tl.where(keys[None, :] < Nk, s, -float("inf")), v)
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], (acc / l[:, None]).to(q.dtype), mask=(rows < Nq)[:, None])
    tl.store(lse_ptr + rows, m + tl.log(l), mask=rows < Nq)


def one_head(q, k, v):
    (Nq, D), Nk = q.shape, k.shape[0]
    o, lse = torch.empty_like(q), torch.empty(Nq, device=q.device)
    kernel[lambda meta: (triton.cdiv(Nq, meta["BM"]),)](q, k, v, o, lse, D**-0.5, Nq, Nk, D=D)
    return o, lse


# %% name="the grid is two-dimensional, the update is written out" exercise="flash.grouped_attention"
@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, Nq, Nk, GROUP: tl.constexpr, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr
):
    head, dims = tl.program_id(0), tl.arange(0, D)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    inside = (rows < GROUP * Nq)[:, None]
    at = (head * GROUP * Nq + rows)[:, None] * D + dims[None, :]
    q = tl.load(q_ptr + at, mask=inside, other=0)
    m = tl.full((BM,), -1e30, tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(0, Nk, 32):
        keys = j + tl.arange(0, 32)
        there = head * Nk * D + keys[:, None] * D + dims[None, :]
        s = tl.dot(q, tl.load(k_ptr + there, mask=(keys < Nk)[:, None], other=0).T, input_precision="ieee") * D**-0.5
        seen = (keys < Nk)[None, :]
        if CAUSAL:
            seen = seen & (keys[None, :] <= (rows % Nq + Nk - Nq)[:, None])
        m_new = tl.maximum(m, tl.max(tl.where(seen, s, -1e30), 1))
        p = tl.where(seen, tl.exp(s - m_new[:, None]), 0.0)
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + there, mask=(keys < Nk)[:, None], other=0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    tl.store(o_ptr + at, tl.where((l > 0)[:, None], acc / tl.maximum(l, 1e-30)[:, None], 0.0).to(q.dtype), mask=inside)


def grouped_attention(q, k, v, causal):
    (Hq, Nq, D), (Hkv, Nk, _) = q.shape, k.shape
    o = torch.empty_like(q)
    grid = (Hkv, triton.cdiv(Hq // Hkv * Nq, 64))
    kernel[grid](q, k, v, o, Nq, Nk, GROUP=Hq // Hkv, CAUSAL=causal, D=D, BM=64)
    return o


# %% name="merged one by one, each split keeps its mean and log-sum-exp" exercise="flash.flash_decode"
@triton.jit
def share(q_ptr, k_ptr, v_ptr, mean_ptr, lse_ptr, group, Nk, D: tl.constexpr, BM: tl.constexpr):
    split, splits, head = tl.program_id(1), tl.num_programs(1), tl.program_id(0)
    rows, dims = tl.arange(0, BM), tl.arange(0, D)
    q = tl.load(q_ptr + (head * group + rows)[:, None] * D + dims[None, :], mask=(rows < group)[:, None], other=0)
    m = tl.full((BM,), -float("inf"), tl.float32)
    l = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for j in range(split * 64, Nk, splits * 64):  # every splits-th tile
        keys = j + tl.arange(0, 64)
        there = (head * Nk + keys)[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + there, mask=(keys < Nk)[:, None], other=0)
        v = tl.load(v_ptr + there, mask=(keys < Nk)[:, None], other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * D**-0.5
        m, l, acc = online_update(m, l, acc, tl.where(keys[None, :] < Nk, s, -float("inf")), v)
    at = split * tl.num_programs(0) * group + head * group + rows
    tl.store(lse_ptr + at, m + tl.log(l), mask=rows < group)
    mean = acc / tl.where(l == 0, 1, l)[:, None]
    tl.store(mean_ptr + at[:, None] * D + dims[None, :], mean, mask=(rows < group)[:, None])


@triton.jit
def together(mean_ptr, lse_ptr, o_ptr, splits, D: tl.constexpr):
    head, dims = tl.program_id(0), tl.arange(0, D)
    lse = tl.load(lse_ptr + head)  # the first split has a key
    o = tl.load(mean_ptr + head * D + dims)
    for split in range(1, splits):
        at = split * tl.num_programs(0) + head
        other = tl.load(lse_ptr + at)
        top = tl.maximum(lse, other)
        total = top + tl.log(tl.exp(lse - top) + tl.exp(other - top))
        o = o * tl.exp(lse - total) + tl.load(mean_ptr + at * D + dims) * tl.exp(other - total)
        lse = total
    tl.store(o_ptr + head * D + dims, o.to(o_ptr.dtype.element_ty))


def flash_decode(q, k, v, splits):
    (Hq, D), (Hkv, Nk, _) = q.shape, k.shape
    o = torch.empty_like(q)
    mean = torch.empty((splits, Hq, D), dtype=torch.float32, device=q.device)
    lse = torch.empty((splits, Hq), dtype=torch.float32, device=q.device)
    group = Hq // Hkv
    share[(Hkv, splits)](q, k, v, mean, lse, group, Nk, D=D, BM=max(16, triton.next_power_of_2(group)))
    together[(Hq,)](mean, lse, o, splits, D=D)
    return o
