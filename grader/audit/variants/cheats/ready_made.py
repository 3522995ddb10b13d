# What the course has made for its pictures and models, or torch for its profiler, answers the exercise: nothing is worked out.

# %% name="the engine's grouped order" exercise="tiling.grouped_order" loses="holds.is_an_order.plain; holds.finishes_groups.plain; holds.finishes_groups.ragged; holds.saves_traffic.cache"
def grouped_order(pid, grid_m, grid_n, group):
    from tritontrace.tracing import grouped

    return tuple(grouped(grid_m, grid_n, group)[pid].tolist())


# %% name="the engine's grouped order, by its module" exercise="tiling.grouped_order" loses="holds.is_an_order.plain; holds.finishes_groups.plain; holds.finishes_groups.ragged; holds.saves_traffic.cache"
def grouped_order(pid, grid_m, grid_n, group):
    import tritontrace

    return tuple(tritontrace.tracing.cache.grouped(grid_m, grid_n, group)[pid].tolist())


# %% name="the engine's curve, kept" exercise="tiling.hilbert_order" loses="holds.touches.plain; holds.stays_near.plain; holds.saves_traffic.cache"
KEPT = {}


def hilbert_order(pid, side):
    from tritontrace.tracing import hilbert

    if side not in KEPT:
        KEPT[side] = hilbert(side, side).tolist()
    return tuple(KEPT[side][pid])


# %% name="the picture's map" exercise="attention.causal_tiles" loses="holds.right_tiles.plain; holds.right_tiles.ragged; holds.right_tiles.more keys; holds.right_tiles.more queries"
def causal_tiles(pid, bm, bn, nq, nk):
    from course_lib.figures.attention import tile_kinds

    row = tile_kinds(nq, nk, bm, bn)[pid]
    return int((row == 2).sum()), int((row > 0).sum())


# %% name="the picture's map, by its package" exercise="attention.causal_tiles" loses="holds.right_tiles.plain; holds.right_tiles.ragged; holds.right_tiles.more keys; holds.right_tiles.more queries"
def causal_tiles(pid, bm, bn, nq, nk):
    from course_lib import figures

    row = figures.attention.tile_kinds(nq, nk, bm, bn)[pid]
    return int((row == 2).sum()), int((row > 0).sum())


# %% name="the picture's cost of a pass" exercise="attention.flash_bytes" loses="correct.plain; correct.ragged; correct.causal; correct.causal ragged"
def flash_bytes(n, d, bm, bn, itemsize, causal):
    from course_lib.figures.attention import pass_cost, tile_kinds

    kinds = tile_kinds(n, n, bm, bn)
    return pass_cost(n, n, bm, bn, d, itemsize, (kinds > 0) | (not causal))[0]


# %% name="the picture's gap" exercise="dtypes.ulp" loses="holds.is_gap.plain; holds.is_gap.powers; holds.is_gap.tiny"
NAMES = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


def ulp(x, dtype):
    from course_lib.figures.dtypes.patterns import gap_above

    return gap_above(abs(x), NAMES[dtype])


# %% name="the course's slow attention, called" exercise="attention.attention" loses="correct.plain"
def attention(q, k, v, causal=False, scale=None):
    from course_lib.workloads import torch_attention

    return torch_attention.flash_attention_forward(q, k, v, causal, scale)


# %% name="torch's profiler counts" exercise="flops.count_flops" loses="correct.products; correct.batches; correct.with an addition; correct.whole programs"
def count_flops(fn, *args):
    with torch.autograd.profiler.profile(with_flops=True, record_shapes=True) as seen:
        fn(*args)
    products = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
    return sum(int(event.flops or 0) for event in seen.function_events if event.name in products) // 2


# %% name="torch's profiler counts, under its other name" exercise="flops.count_flops" loses="correct.products; correct.batches; correct.with an addition; correct.whole programs"
def count_flops(fn, *args):
    from torch.profiler import profile

    with profile(with_flops=True, record_shapes=True) as seen:
        fn(*args)
    products = ("aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
    return sum(int(event.flops or 0) for event in seen.events() if event.name in products) // 2


# %% name="autograd of the whole matrix" exercise="attention.attention_backward" loses="correct.plain"
import math


def attention_backward(q, k, v, o, do, lse, causal):
    with torch.enable_grad():
        leaves = [x.float().detach().requires_grad_() for x in (q, k, v)]
        s = leaves[0] @ leaves[1].mT * q.shape[-1] ** -0.5
        if causal:
            seen = torch.arange(s.shape[-2])[:, None] + s.shape[-1] - s.shape[-2]
            s = torch.where(torch.arange(s.shape[-1]) <= seen, s, -math.inf)
        p = torch.exp(s - torch.where(lse == -math.inf, 0, lse)[..., None])
        l = p.sum(-1, keepdim=True)
        out = p @ leaves[2] / torch.where(l == 0, 1, l)
        found = torch.autograd.grad(out, leaves, do.float())
    return tuple(g.to(x.dtype) for g, x in zip(found, (q, k, v)))


# %% name="autograd of the whole matrix, by backward" exercise="attention.attention_backward" loses="correct.plain"
# -         found = torch.autograd.grad(out, leaves, do.float())
# +         out.backward(do.float())
# +         found = [leaf.grad for leaf in leaves]


# %% name="autograd of tiles" exercise="attention.attention_backward" loses="correct.plain"
import math


def attention_backward(q, k, v, o, do, lse, causal):
    shape, (Nq, Nk) = q.shape[:-2], (q.shape[-2], k.shape[-2])
    base = torch.where(lse == -math.inf, 0, lse)[..., None]
    with torch.enable_grad():
        dq = torch.zeros(q.shape)
        keys = [k[..., j : j + 64, :].float().detach().requires_grad_() for j in range(0, Nk, 64)]
        values = [v[..., j : j + 64, :].float().detach().requires_grad_() for j in range(0, Nk, 64)]
        sums = [torch.zeros(x.shape) for x in (*keys, *values)]
        for i in range(0, Nq, 64):
            row = q[..., i : i + 64, :].float().detach().requires_grad_()
            at = torch.arange(i, min(i + 64, Nq))[:, None] + Nk - Nq
            acc, l = torch.zeros(row.shape), torch.zeros(*shape, row.shape[-2], 1)
            for n, (a, b) in enumerate(zip(keys, values)):
                s = row @ a.mT * q.shape[-1] ** -0.5
                if causal:
                    s = torch.where(torch.arange(64 * n, 64 * n + a.shape[-2]) <= at, s, -math.inf)
                p = torch.exp(s - base[..., i : i + 64, :])
                acc, l = acc + p @ b, l + p.sum(-1, keepdim=True)
            out = acc / torch.where(l == 0, 1, l)
            own, *others = torch.autograd.grad(out, [row, *keys, *values], do[..., i : i + 64, :].float())
            dq[..., i : i + 64, :] = own
            sums = [x + y for x, y in zip(sums, others)]
    dk, dv = torch.cat(sums[: len(keys)], -2), torch.cat(sums[len(keys) :], -2)
    return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


# %% name="the engine's grouped order, dealt" exercise="sm.persistent_order" loses="holds.is_dealt.dealt; holds.shares_l2.cache"
def persistent_order(pid, sms, grid_m, grid_n, group):
    from tritontrace.tracing import grouped

    return [tuple(tile) for tile in grouped(grid_m, grid_n, group)[pid::sms].tolist()]


# %% name="the engine's account of a layout" exercise="sm.holder" loses="correct.once; correct.again; correct.columns"
def holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape):
    from triton.experimental.gluon import language as gl

    from tritontrace.hopper import held_by

    return held_by(gl.BlockedLayout(size_per_thread, threads_per_warp, warps_per_cta, order), shape)[row, col]
