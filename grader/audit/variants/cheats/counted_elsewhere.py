# What is counted is done, and is not what the exercise asks for: the work itself is done elsewhere, at once or by one program.


# %% name="eight read the whole, one stores" exercise="coalescing.column_sum" loses="programs.tall" after="solution"
own = column_sum


@triton.jit
def all_of_it(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        total += tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
    if tl.program_id(1) == 0:
        tl.store(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    if M < 4096:
        return own(x)
    out = torch.empty(N, dtype=torch.float32)
    all_of_it[(triton.cdiv(N, 128), 8)](x, out, M, N, x.stride(0), BLOCK_M=64, BLOCK_N=128)
    return out


# %% name="eight read the whole, each stores an eighth" exercise="coalescing.column_sum" loses="programs.tall" after="solution"
# -     if tl.program_id(1) == 0:
# -         tl.store(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=cols < N)
# +     mine = cols % 8 == tl.program_id(1)
# +     tl.store(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=mine & (cols < N))


# %% name="one adds up, the others fill a buffer" exercise="coalescing.column_sum" loses="programs.tall" after="solution"
own = column_sum


@triton.jit
def one_of_them(x_ptr, out_ptr, idle_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, M, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)[:, None]
        if tl.program_id(0) == 0:
            total += tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
        else:
            tl.store(idle_ptr + (tl.program_id(0) * M + rows) * N + cols, total, mask=(rows < M) & (cols < N))
    if tl.program_id(0) == 0:
        tl.store(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    if M < 4096:
        return own(x)
    out, idle = torch.empty(N, dtype=torch.float32), torch.empty(16, M, N)
    one_of_them[(16,)](x, out, idle, M, N, x.stride(0), BLOCK_M=64, BLOCK_N=128)
    return out


# %% name="a launch that shares nothing, then one program" exercise="coalescing.column_sum" loses="traffic.performance; programs.tall"
@triton.jit
def look(x_ptr, out_ptr, M, N, row_stride, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        total += tl.load(x_ptr + row * row_stride + start + cols, mask=start + cols < N, other=0).to(tl.float32)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


@triton.jit
def add_up(x_ptr, out_ptr, M, N, row_stride, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    for first in range(0, N, BLOCK_N):
        cols = first + tl.arange(0, BLOCK_N)[None, :]
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, M, BLOCK_M):
            rows = start + tl.arange(0, BLOCK_M)[:, None]
            total += tl.load(x_ptr + rows * row_stride + cols, mask=(rows < M) & (cols < N), other=0).to(tl.float32)
        tl.store(out_ptr + cols, tl.sum(total, axis=0)[None, :], mask=cols < N)


def column_sum(x):
    M, N = x.shape
    out, seen = torch.empty(N, dtype=torch.float32), torch.empty(M)
    look[(M,)](x, seen, M, N, x.stride(0), BLOCK=128)
    add_up[(1,)](x, out, M, N, x.stride(0), BLOCK_M=64, BLOCK_N=128)
    return out


# %% name="one product, and products of nothing" exercise="tiling.tiled_matmul" loses="counted.plain"
def tiled_matmul(a, b, bm, bn, bk):
    (M, K), N = a.shape, b.shape[1]
    for _ in range(-(-M // bm) * -(-N // bn) * -(-K // bk) - 1):
        a[:0] @ b
    return a @ b


# %% name="one product, and products of one tile" exercise="tiling.tiled_matmul" loses="counted.plain"
# -         a[:0] @ b
# +         a[:bm, :bk] @ b[:bk, :bn]


# %% name="a product for each row of tiles, and products of one number" exercise="tiling.tiled_matmul" loses="counted.plain"
def tiled_matmul(a, b, bm, bn, bk):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype)
    for i in range(0, M, bm):
        c[i : i + bm] = a[i : i + bm] @ b
        for _ in range(-(-N // bn) * -(-K // bk) - 1):
            a[:1, :1] @ b[:1, :1]
    return c


# %% name="tiles of half the rows and twice the columns" exercise="tiling.tiled_matmul" loses="counted.plain"
def tiled_matmul(a, b, bm, bn, bk):
    (M, K), N = a.shape, b.shape[1]
    c = torch.zeros(M, N, dtype=a.dtype)
    for i in range(0, M, bm // 2):
        for j in range(0, N, 2 * bn):
            for k in range(0, K, bk):
                c[i : i + bm // 2, j : j + 2 * bn] += a[i : i + bm // 2, k : k + bk] @ b[k : k + bk, j : j + 2 * bn]
    return c


# %% name="all products at once, and products of one number" exercise="tiling.outer_product_matmul" loses="counted.plain"
def outer_product_matmul(a, b):
    every = a[:, :, None] * b[None]
    c = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        c += every[:, k]
    for _ in range(a.shape[1] - 1):
        a[:1, :1] * b[:1, :1]
    return c


# %% name="whole rows of half a tile" exercise="attention.tiled_attention" loses="largest_buffer.performance; products.performance"
def tiled_attention(q, k, v, causal, bm, bn):
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o, lse = torch.empty(q.shape, dtype=q.dtype), torch.empty(q.shape[:-1], dtype=torch.float32)
    half = max(1, bm // 2)
    for i in range(0, Nq, half):
        s = q[..., i : i + half, :].float() @ k.float().mT * D**-0.5
        if causal:
            rows, cols = torch.arange(i, min(i + half, Nq))[:, None], torch.arange(Nk)
            s = torch.where(cols <= rows + Nk - Nq, s, -inf)
        lse[..., i : i + half] = s.logsumexp(-1)
        o[..., i : i + half, :] = torch.softmax(s, -1).nan_to_num(0) @ v.float()
    return o, lse


# %% name="whole rows of half a tile, as far as they see" exercise="attention.tiled_attention" loses="largest_buffer.performance"
def tiled_attention(q, k, v, causal, bm, bn):
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o, lse = torch.zeros(q.shape, dtype=q.dtype), torch.full(q.shape[:-1], -inf)
    half = max(1, bm // 2)
    for i in range(0, Nq, half):
        last = min(i + half, Nq)
        sees = max(0, last + Nk - Nq) if causal else Nk
        if not sees:
            continue
        s = q[..., i:last, :].float() @ k[..., :sees, :].float().mT * D**-0.5
        if causal:
            rows, cols = torch.arange(i, last)[:, None], torch.arange(sees)
            s = torch.where(cols <= rows + Nk - Nq, s, -inf)
        lse[..., i:last] = s.logsumexp(-1)
        o[..., i:last, :] = torch.softmax(s, -1).nan_to_num(0) @ v[..., :sees, :].float()
    return o, lse


# %% name="row by row, with sums in the place of products" exercise="attention.tiled_attention" loses="products.performance"
def tiled_attention(q, k, v, causal, bm, bn):
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    o, lse = torch.zeros(q.shape, dtype=q.dtype), torch.full(q.shape[:-1], -inf)
    for i in range(Nq):
        s = (q[..., i : i + 1, :].float() * k.float()).sum(-1) * D**-0.5
        if causal:
            s = torch.where(torch.arange(Nk) <= i + Nk - Nq, s, -inf)
        lse[..., i] = s.logsumexp(-1)
        o[..., i, :] = (torch.softmax(s, -1).nan_to_num(0)[..., None] * v.float()).sum(-2)
    return o, lse


# %% name="a view as bfloat16, add_ of float32" exercise="dtypes.round_to_bf16" loses="ran"
def round_to_bf16(x):
    out = torch.zeros(x.shape, dtype=torch.int32)
    out.view(torch.bfloat16)[1::2].add_(x.view(torch.float32))
    return out


# %% name="a view as bfloat16, sub_ and neg_" exercise="dtypes.round_to_bf16" loses="ran"
# -     out.view(torch.bfloat16)[1::2].add_(x.view(torch.float32))
# +     out.view(torch.bfloat16)[1::2].sub_(x.view(torch.float32)).neg_()


# %% name="bfloat16 zeros, add_, shifted up" exercise="dtypes.round_to_bf16" loses="ran"
def round_to_bf16(x):
    rounded = torch.zeros(x.shape, dtype=torch.bfloat16).add_(x.view(torch.float32))
    return rounded.view(torch.int16).add(torch.zeros(x.shape, dtype=torch.int32)) << 16


# %% name="split in float32, as Veltkamp does" exercise="dtypes.round_to_bf16" loses="ran"
def round_to_bf16(x):
    number = x.view(torch.float32)
    far = number.add(number, alpha=1 << 16)
    return far.sub(far.sub(number)).view(torch.int32)


# %% name="operands read by atomics that add 0" exercise="tiling.matmul" loses="rereads.a.performance; rereads.b.performance"
@triton.jit
def pack(x_ptr, o_ptr, R, C, P, sb, sr, sc, ob, BR: tl.constexpr, BC: tl.constexpr):
    # a contiguous copy whose rows have P elements, an even number
    b = tl.program_id(2)
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    x = tl.load(x_ptr + b * sb + r[:, None] * sr + c[None, :] * sc, (r[:, None] < R) & (c[None, :] < C), 0.0)
    tl.store(o_ptr + b * ob + r[:, None] * P + c[None, :], x, (r[:, None] < R) & (c[None, :] < P))


@triton.jit
def through(p_ptr, idx, mask):
    return tl.atomic_add(p_ptr + idx, 0, mask=mask, sem="relaxed")


@triton.jit
def mm(
    a32,
    b32,
    c_ptr,
    M,
    N,
    K,
    Pa,
    Pb,
    ba,
    bb,
    bc,
    dt: tl.constexpr,
    HALF: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    b = tl.program_id(2)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        if HALF:
            k2 = k0 // 2 + tl.arange(0, BK // 2)
            aw = through(a32, b * ba + rows[:, None] * Pa + k2[None, :], (rows[:, None] < M) & (k2[None, :] < Pa))
            alo = (aw & 0xFFFF).to(tl.int16).to(dt, bitcast=True)
            ahi = ((aw >> 16) & 0xFFFF).to(tl.int16).to(dt, bitcast=True)
            a = tl.join(alo, ahi).reshape(BM, BK)
            k = k0 + tl.arange(0, BK)
            c2 = tl.program_id(1) * BN // 2 + tl.arange(0, BN // 2)
            bw = through(b32, b * bb + k[:, None] * Pb + c2[None, :], (k[:, None] < K) & (c2[None, :] < Pb))
            blo = (bw & 0xFFFF).to(tl.int16).to(dt, bitcast=True)
            bhi = ((bw >> 16) & 0xFFFF).to(tl.int16).to(dt, bitcast=True)
            bt = tl.join(blo, bhi).reshape(BK, BN)
        else:
            k = k0 + tl.arange(0, BK)
            a = through(a32, b * ba + rows[:, None] * Pa + k[None, :], (rows[:, None] < M) & (k[None, :] < K)).to(
                tl.float32, bitcast=True
            )
            bt = through(b32, b * bb + k[:, None] * Pb + cols[None, :], (k[:, None] < K) & (cols[None, :] < N)).to(
                tl.float32, bitcast=True
            )
            a = tl.where((rows[:, None] < M) & (k[None, :] < K), a, 0.0)
            bt = tl.where((cols[None, :] < N) & (k[:, None] < K), bt, 0.0)
        if HALF:
            a = tl.where((rows[:, None] < M) & (k[None, :] < K), a, 0.0)
            bt = tl.where((cols[None, :] < N) & (k[:, None] < K), bt, 0.0)
        acc = tl.dot(a, bt, acc, input_precision="ieee")
    tl.store(
        c_ptr + b * bc + rows[:, None] * N + cols[None, :],
        acc.to(c_ptr.dtype.element_ty),
        (rows[:, None] < M) & (cols[None, :] < N),
    )


T = 32


def matmul(a, b):
    single = a.dim() == 2
    if single:
        a, b = a[None], b[None]
    B, M, K = a.shape
    N = b.shape[2]
    half = a.dtype != torch.float32
    Pa, Pb = (K + 1) // 2 * 2, (N + 1) // 2 * 2
    pa = torch.empty((B, M, Pa), dtype=a.dtype, device=a.device)
    pb = torch.empty((B, K, Pb), dtype=a.dtype, device=a.device)
    out = torch.empty((B, M, N), dtype=a.dtype, device=a.device)
    pack[(triton.cdiv(M, 32), triton.cdiv(Pa, 32), B)](a, pa, M, K, Pa, *a.stride(), M * Pa, 32, 32)
    pack[(triton.cdiv(K, 32), triton.cdiv(Pb, 32), B)](b, pb, K, N, Pb, *b.stride(), K * Pb, 32, 32)
    f = 2 if half else 1
    mm[(triton.cdiv(M, T), triton.cdiv(N, T), B)](
        pa.view(torch.int32),
        pb.view(torch.int32),
        out,
        M,
        N,
        K,
        Pa // f,
        Pb // f,
        M * Pa // f,
        K * Pb // f,
        M * N,
        {torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.float32: tl.float32}[a.dtype],
        half,
        T,
        T,
        32,
    )
    return out[0] if single else out
