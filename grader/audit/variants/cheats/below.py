# Work below what is taken away, for show, or by a kernel of one's own. Found by a reader of the whole code.

# %% name="autograd's engine, tile by tile" exercise="attention.attention_backward" loses="correct.plain"
def attention_backward(q, k, v, o, do, lse, causal, B=64):
    Nq, Nk, D = q.shape[-2], k.shape[-2], q.shape[-1]
    dq, dk, dv = (torch.zeros(x.shape, dtype=torch.float32) for x in (q, k, v))
    run = torch.autograd.Variable._execution_engine.run_backward
    for i in range(0, Nq, B):
        delta = (o[..., i : i + B, :].float() * do[..., i : i + B, :].float()).sum(-1, keepdim=True)
        for j in range(0, Nk, B):
            with torch.enable_grad():
                Q, K, V = (
                    x.detach().float().requires_grad_()
                    for x in (q[..., i : i + B, :], k[..., j : j + B, :], v[..., j : j + B, :])
                )
                L = lse[..., i : i + B, None]
                s = Q @ K.mT * D**-0.5
                if causal:
                    seen = torch.arange(j, min(j + B, Nk)) <= torch.arange(i, min(i + B, Nq))[:, None] + (Nk - Nq)
                    s = torch.where(seen, s, -torch.inf)
                p = torch.exp(s - torch.where(L == -torch.inf, 0.0, L))
                loss = ((p @ V) * do[..., i : i + B, :].float()).sum() - (p * delta).sum()
                a, b, c = run((loss,), (torch.ones(()),), False, False, (Q, K, V), True, accumulate_grad=False)
            dq[..., i : i + B, :] += a
            dk[..., j : j + B, :] += b
            dv[..., j : j + B, :] += c
    return dq.to(q.dtype), dk.to(q.dtype), dv.to(q.dtype)


# %% name="the profiler below torch.autograd.profiler" exercise="flops.count_flops" loses="correct.products; correct.batches; correct.with an addition; correct.whole programs"
def count_flops(fn, *args):
    C = torch._C._profiler
    config = C.ProfilerConfig(C.ProfilerState.KINETO, True, False, False, True, False, C._ExperimentalConfig())
    activities = {C.ProfilerActivity.CPU}
    torch._C._autograd._prepare_profiler(config, activities)
    torch._C._autograd._enable_profiler(config, activities)
    fn(*args)
    result = torch._C._autograd._disable_profiler()
    return (
        sum(
            int(e.flops())
            for e in result.events()
            if e.name() in ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
        )
        // 2
    )


# %% name="torch's own class, found among subclasses" exercise="recomputation.checkpoint" loses="holds.look.plain; seen.recomputes.memory; seen.looked.memory; seen.same_dropout.dropout; seen.looked.after"
def checkpoint(fn, *args):
    found = [c for c in torch.autograd.Function.__subclasses__() if c.__name__ == "CheckpointFunction"][0]
    scope = found.forward.__globals__
    import contextlib

    scope["check_backward_validity"] = lambda *a: None
    scope["_infer_device_type"] = lambda *a: "cpu"
    scope["_get_autocast_kwargs"] = lambda *a: ({}, {"enabled": False})
    scope["_get_device_module"] = lambda *a: torch.cpu
    scope["get_device_states"] = lambda *a: ([], [])
    scope["set_device_states"] = lambda *a, **k: None
    scope["detach_variable"] = lambda inputs: tuple(
        i.detach().requires_grad_(i.requires_grad) if isinstance(i, torch.Tensor) else i for i in inputs
    )
    return found.apply(fn, True, *args)


# %% name="a trace inside, and a launch outside" exercise="tiling.matmul_bytes" loses="correct.whole; correct.ragged"
from course_lib import trace


@triton.jit
def touch(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    for s in range(0, k, BK):
        ks = s + tl.arange(0, BK)
        a = tl.load(a_ptr + i * k + ks[None, :], mask=(i < m) & (ks[None, :] < k), other=0)
        b = tl.load(b_ptr + ks[:, None] * n + j, mask=(ks[:, None] < k) & (j < n), other=0)
        tl.store(
            c_ptr + i * n + j,
            tl.zeros((BM, BN), tl.float32) + tl.sum(a) + tl.sum(b),
            mask=(i < m) & (j < n) & (s + BK >= k),
        )


def matmul_bytes(m, n, k, bm, bn, itemsize):
    dtype = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}[itemsize]
    a, b, c = torch.zeros(m, k, dtype=dtype), torch.zeros(k, n, dtype=dtype), torch.zeros(m, n, dtype=dtype)
    launch = lambda: touch[(triton.cdiv(m, bm), triton.cdiv(n, bn))](a, b, c, m, n, k, BM=bm, BN=bn, BK=64)
    launch()
    with trace() as t:
        launch()
    return sum(f.read_bytes + f.written_bytes for x in t.launches for f in x.footprints)


# %% name="a kernel casts" exercise="dtypes.round_to_bf16" loses="ran"
@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0).to(tl.float32, bitcast=True)
    tl.store(out_ptr + i, x.to(tl.bfloat16).to(tl.float32).to(tl.int32, bitcast=True), mask=i < n)


def round_to_bf16(x):
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


# %% name="views are copied by a kernel first" exercise="flash_backward.delta" loses="correct.strided" after="solution"
@triton.jit
def dense_kernel(x_ptr, out_ptr, n, b, c, d, s0, s1, s2, s3, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = i // (b * c * d) * s0 + i // (c * d) % b * s1 + i // d % c * s2 + i % d * s3
    tl.store(out_ptr + i, tl.load(x_ptr + at, mask=i < n), mask=i < n)


def dense(x):
    if x.is_contiguous():
        return x
    out = torch.empty(x.shape, dtype=x.dtype)
    fours = [(x, out)]
    while fours[0][0].dim() > 4:
        fours = [(a[i], o[i]) for a, o in fours for i in range(a.shape[0])]
    for a, o in fours:
        a = a[(None,) * (4 - a.dim())]
        dense_kernel[(triton.cdiv(a.numel(), 1024),)](a, o, a.numel(), *a.shape[1:], *a.stride(), BLOCK=1024)
    return out


own = delta


def delta(o, do):
    return own(dense(o), dense(do))


# %% name="one element a program, and 31 masked lanes" exercise="fusion.sin2_plus_cos2" loses="launches.performance; traffic.performance"
@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) + tl.arange(0, BLOCK)
    mine = tl.arange(0, BLOCK) == 0
    x, y = tl.load(x_ptr + i, mask=mine).to(tl.float32), tl.load(y_ptr + i, mask=mine).to(tl.float32)
    s, c = tl.sin(x), tl.cos(y)
    tl.store(out_ptr + i, s * s + c * c, mask=mine)


def sin2_plus_cos2(x, y):
    out = torch.empty_like(x)
    kernel[(x.numel(),)](x, y, out, x.numel(), BLOCK=32)
    return out


# %% name="the last tile is fetched first, all others one after another" exercise="hopper.ring_column_sum" loses="overlapped.performance"
@gluon.jit
def kernel(x_desc, y_ptr, M, N):
    ROWS: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    tiles = gl.allocate_shared_memory(x_desc.dtype, [2, 64, 64], x_desc.layout)
    full = new_barriers(2, 1)
    steps = gl.cdiv(M, 64)
    mbarrier.expect(full.index(1), x_desc.block_type.nbytes)
    tma_load(x_desc, [(steps - 1) * 64, gl.program_id(0) * 64], full.index(1), tiles.index(1))
    acc = gl.zeros((64, 64), gl.float32, ROWS)
    for i in range(steps - 1):
        mbarrier.expect(full.index(0), x_desc.block_type.nbytes)
        tma_load(x_desc, [i * 64, gl.program_id(0) * 64], full.index(0), tiles.index(0))
        mbarrier.wait(full.index(0), i & 1)
        acc += tiles.index(0).load(ROWS).to(gl.float32)
        barrier()
    mbarrier.wait(full.index(1), 0)
    acc += tiles.index(1).load(ROWS).to(gl.float32)
    cols = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(0, ROWS))
    gl.store(y_ptr + cols, gl.sum(acc, 0), mask=cols < N)


def ring_column_sum(x):
    M, N = x.shape
    out = torch.empty(N, dtype=torch.float32, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    x_desc = TensorDescriptor.from_tensor(x, [64, 64], layout)
    kernel[(triton.cdiv(N, 64),)](x_desc, out, M, N, num_warps=4)
    return out
