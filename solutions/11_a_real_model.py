# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 11 · Your kernels in a real model
#
# **After this unit you can** put the kernels of the earlier units into a model, and write text with it. About three hours,
# {{unit minutes}} of them for {{unit exercises}}.

# %%
import math

import torch
import triton
import triton.language as tl

from course_lib import check, figures, hint, progress, trace  # noqa: F401 (hint is yours to call)

# %% [markdown]
# ## Exercise: waves
#
# {{exercise model.sinusoidal}}
#
# Full marks need {{correct.plain}} {{correct.sizes}}.


# %% exercise="model.sinusoidal"
def sinusoidal(N: int, D: int) -> torch.Tensor:
    """(N, D) float32: sin(n / 10000^(2 i / D)) in column 2 i, cos of the same in column 2 i + 1."""
    ### BEGIN SOLUTION
    angle = torch.arange(N)[:, None] / 10000 ** (torch.arange(0, D, 2) / D)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)
    ### END SOLUTION


# %% check="model.sinusoidal"
check("model.sinusoidal", sinusoidal)

# %% [markdown]
# ## Exercise: rotary
#
# {{exercise model.rotary}}
#
# Full marks need {{correct.positions}} {{correct.ragged}} {{correct.half}} {{traffic.performance}} {{coalesced.load.performance}}
# {{launches.performance}}.


# %% exercise="model.rotary"
@triton.jit
def rotary_kernel(
    x_ptr, positions_ptr, out_ptr, x_strides, H, N, log2_base, D: tl.constexpr, BLOCK: tl.constexpr, BLOCK_N: tl.constexpr
):
    """BLOCK_N rows of one head of one text."""
    ### BEGIN SOLUTION
    j = tl.program_id(1).to(tl.int64)
    batch, head = j // H, j % H
    rows, pairs = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N), tl.arange(0, BLOCK)
    inside = (rows < N)[:, None] & (pairs < D // 2)[None, :]
    position = tl.load(positions_ptr + rows, mask=rows < N, other=0).to(tl.float32)
    angle = position[:, None] * tl.exp2(pairs.to(tl.float32) * (-2.0 / D) * log2_base)[None, :]
    at = x_ptr + batch * x_strides[0] + head * x_strides[1] + rows[:, None] * x_strides[2] + pairs[None, :] * x_strides[3]
    a = tl.load(at, mask=inside, other=0).to(tl.float32)
    b = tl.load(at + D // 2 * x_strides[3], mask=inside, other=0).to(tl.float32)
    out = out_ptr + (j * N + rows)[:, None] * D + pairs[None, :]
    tl.store(out, a * tl.cos(angle) - b * tl.sin(angle), mask=inside)
    tl.store(out + D // 2, b * tl.cos(angle) + a * tl.sin(angle), mask=inside)
    ### END SOLUTION


def rotary(x: torch.Tensor, positions: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """x (B, H, N, D), any strides, positions (N,) int32 -> a new (B, H, N, D), contiguous."""
    ### BEGIN SOLUTION
    B, H, N, D = x.shape
    out = torch.empty(B, H, N, D, dtype=x.dtype, device=x.device)
    BLOCK = triton.next_power_of_2(D // 2)
    BLOCK_N = min(32, triton.next_power_of_2(N))
    rotary_kernel[(triton.cdiv(N, BLOCK_N), B * H)](
        x, positions, out, x.stride(), H, N, math.log2(base), D=D, BLOCK=BLOCK, BLOCK_N=BLOCK_N
    )
    return out
    ### END SOLUTION


# %% check="model.rotary"
check("model.rotary", rotary)

# %% [markdown]
# ## Exercise: ALiBi
#
# {{exercise model.alibi}}
#
# Full marks need {{correct.plain}} {{correct.decode}} {{correct.heads}}.


# %% exercise="model.alibi"
def alibi(heads: int, nq: int, nk: int) -> torch.Tensor:
    """(heads, nq, nk) float32, to be added to scores: the queries are the last nq of nk positions."""
    ### BEGIN SOLUTION
    slopes = 2 ** (-8 * torch.arange(1, heads + 1) / heads)
    behind = torch.arange(nk - nq, nk)[:, None] - torch.arange(nk)
    return -slopes[:, None, None] * behind.clamp(min=0)
    ### END SOLUTION


# %% check="model.alibi"
check("model.alibi", alibi)

# %% [markdown]
# ## Exercise: what each touches
#
# {{exercise model.touches}}

# %% exercise="model.touches"
touches = {
    "sinusoidal changes q": ...,
    "sinusoidal changes k": ...,
    "sinusoidal changes v": ...,
    "sinusoidal: a text that begins at 100 has the same scores": ...,
    "rotary changes q": ...,
    "rotary changes k": ...,
    "rotary changes v": ...,
    "rotary: a text that begins at 100 has the same scores": ...,
    "ALiBi changes q": ...,
    "ALiBi changes k": ...,
    "ALiBi changes v": ...,
    "ALiBi: a text that begins at 100 has the same scores": ...,
}
### BEGIN SOLUTION
touches = {
    "sinusoidal changes q": True,
    "sinusoidal changes k": True,
    "sinusoidal changes v": True,
    "sinusoidal: a text that begins at 100 has the same scores": False,
    "rotary changes q": True,
    "rotary changes k": True,
    "rotary changes v": False,
    "rotary: a text that begins at 100 has the same scores": True,
    "ALiBi changes q": False,
    "ALiBi changes k": False,
    "ALiBi changes v": False,
    "ALiBi: a text that begins at 100 has the same scores": True,
}
### END SOLUTION

# %% check="model.touches"
check("model.touches", touches)

# %% [markdown]
# ## Exercise: which rows see what
#
# {{exercise model.which_rows}}

# %% exercise="model.which_rows"
which_rows = {
    "a prompt of 10: the first query": ...,
    "a prompt of 10: the last query": ...,
    "a second piece of 6: the first query": ...,
    "a second piece of 6: the last query": ...,
    "one token, 17th: the last query": ...,
    "a prompt of 10 in 24 places: the first query": ...,
    "a prompt of 10 in 24 places: the last query": ...,
    "one token, 17th, in 24 places: the last query": ...,
    "a window of 4, one token, 17th: the last query": ...,
}
### BEGIN SOLUTION
which_rows = {
    "a prompt of 10: the first query": 1,
    "a prompt of 10: the last query": 10,
    "a second piece of 6: the first query": 11,  # the ten of the first piece, and itself
    "a second piece of 6: the last query": 16,
    "one token, 17th: the last query": 17,
    "a prompt of 10 in 24 places: the first query": 1,
    "a prompt of 10 in 24 places: the last query": 10,
    "one token, 17th, in 24 places: the last query": 17,
    "a window of 4, one token, 17th: the last query": 4,
}
### END SOLUTION

# %% check="model.which_rows"
check("model.which_rows", which_rows)

# %% [markdown]
# ## Exercise: the function that a layer calls
#
# {{exercise model.attention_for}}
#
# Full marks need
# * shared heads ({{correct.grouped}}), both alignments ({{correct.causal}}, {{correct.top left}}), a window ({{correct.window}}), a mask
#   ({{correct.mask}}), the model's scale ({{correct.scale}}), half precision ({{correct.half}}),
# * no copies ({{buffers_below.performance}}), half the products ({{dot_flops.performance}}), one launch ({{launches.performance}}).


# %% exercise="model.attention_for"
@triton.jit
def layer_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, q_strides, k_strides, v_strides, mask_strides, o_strides, Hq, Nq, Nk, scale, offset, window,
    GROUP: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """BLOCK_M queries of one head of one text. Strides are those of (B, H, N, D)."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // Hq).to(tl.int64), (j % Hq).to(tl.int64)
    rows, dims = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M), tl.arange(0, D)
    q_at = q_ptr + batch * q_strides[0] + head * q_strides[1]
    k_at = k_ptr + batch * k_strides[0] + head // GROUP * k_strides[1]
    v_at = v_ptr + batch * v_strides[0] + head // GROUP * v_strides[1]
    q = tl.load(q_at + rows[:, None] * q_strides[2] + dims[None, :] * q_strides[3], mask=(rows < Nq)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    start, stop = 0, Nk
    if CAUSAL:  # keys that some row of this tile sees
        first = tl.program_id(0) * BLOCK_M + offset
        start = tl.maximum(first - window + 1, 0) // BLOCK_N * BLOCK_N
        stop = tl.minimum(first + BLOCK_M, Nk)
    for i in range(start, stop, BLOCK_N):
        keys = i + tl.arange(0, BLOCK_N)
        there = keys < Nk
        k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there[:, None], other=0)
        v = tl.load(v_at + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3], mask=there[:, None], other=0)
        sees = there[None, :] & (rows < Nq)[:, None]
        if CAUSAL:
            sees &= (keys[None, :] <= rows[:, None] + offset) & (keys[None, :] > rows[:, None] + offset - window)
        if MASKED:
            mask_at = mask_ptr + batch * mask_strides[0] + rows[:, None] * mask_strides[2] + keys[None, :] * mask_strides[3]
            sees &= tl.load(mask_at, mask=sees, other=0) != 0
        s = tl.where(sees, tl.dot(q, k.T, input_precision="ieee") * scale, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(m_new == -float("inf"), 0.0, m_new)  # a row that has seen nothing yet
        alpha, p = tl.exp(m - safe), tl.exp(s - safe[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    o = acc / tl.where(l == 0, 1.0, l)[:, None]
    o_at = o_ptr + batch * o_strides[0] + head * o_strides[1] + rows[:, None] * o_strides[2] + dims[None, :] * o_strides[3]
    tl.store(o_at, o.to(o_ptr.dtype.element_ty), mask=(rows < Nq)[:, None])
    ### END SOLUTION


def attention_for(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, sliding_window=None, top_left=False, **others
):
    """query (B, Hq, Nq, D), key and value (B, Hkv, Nk, D), any strides -> (B, Nq, Hq, D), None. D is 16, 32, 64 or 128.

    attention_mask   None, or (B, 1, Nq, Nk), True where a query sees a key: then it alone says what is seen
    module           module.is_causal: without a mask, a query sees no later position than its own
    top_left         the queries stand at the first positions of the keys, not at the last
    sliding_window   without a mask, a query sees the last so many keys, its own among them
    """
    ### BEGIN SOLUTION
    (B, Hq, Nq, D), (Hkv, Nk) = query.shape, key.shape[1:3]
    masked = attention_mask is not None
    mask = attention_mask if masked else query
    o = torch.empty(B, Nq, Hq, D, dtype=query.dtype, device=query.device)
    BLOCK_M = 64
    layer_kernel[(triton.cdiv(Nq, BLOCK_M), B * Hq)](
        query, key, value, mask, o, query.stride(), key.stride(), value.stride(), mask.stride(), o.transpose(1, 2).stride(),
        Hq, Nq, Nk, D**-0.5 if scaling is None else scaling, 0 if top_left else Nk - Nq, sliding_window or Nq + Nk,
        GROUP=Hq // Hkv, CAUSAL=module.is_causal and not masked, MASKED=masked, D=D, BLOCK_M=BLOCK_M, BLOCK_N=64,
    )  # fmt: skip
    return o, None
    ### END SOLUTION


# %% check="model.attention_for"
check("model.attention_for", attention_for)

# %% [markdown]
# ## Exercise: gradients of shared heads
#
# {{exercise model.grouped_backward}}
#
# Full marks need
# * the sum over a group ({{correct.grouped}}), any sizes ({{correct.ragged}}), half precision ({{correct.half}}),
# * no atomics ({{no_atomics.performance}}), no gradient of a head of q in memory ({{buffers_below.performance}}), half the products
#   ({{dot_flops.performance}}), the bytes ({{traffic.performance}}), one launch ({{launches.performance}}).


# %% exercise="model.grouped_backward"
@triton.jit
def grouped_dkdv_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    q_strides, k_strides, v_strides, do_strides, dk_strides, dv_strides, Hkv, Nq, Nk, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """dk and dv of BLOCK_N keys of one head of k and v of one text."""
    ### BEGIN SOLUTION
    j = tl.program_id(1)
    batch, head = (j // Hkv).to(tl.int64), (j % Hkv).to(tl.int64)
    first = tl.program_id(0) * BLOCK_N
    keys, dims = first + tl.arange(0, BLOCK_N), tl.arange(0, D)
    there = (keys < Nk)[:, None]
    k_at = k_ptr + batch * k_strides[0] + head * k_strides[1]
    v_at = v_ptr + batch * v_strides[0] + head * v_strides[1]
    k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there, other=0)
    v = tl.load(v_at + keys[:, None] * v_strides[2] + dims[None, :] * v_strides[3], mask=there, other=0)
    dk = tl.zeros((BLOCK_N, D), tl.float32)
    dv = tl.zeros((BLOCK_N, D), tl.float32)
    start = tl.maximum(first - (Nk - Nq), 0) // BLOCK_M * BLOCK_M  # the first tile with a query that sees these keys
    for g in range(GROUP):
        h = head * GROUP + g
        q_at = q_ptr + batch * q_strides[0] + h * q_strides[1]
        do_at = do_ptr + batch * do_strides[0] + h * do_strides[1]
        of_head = (batch * Hkv * GROUP + h) * Nq
        for i in range(start, Nq, BLOCK_M):
            rows = i + tl.arange(0, BLOCK_M)
            inside = (rows < Nq)[:, None]
            q = tl.load(q_at + rows[:, None] * q_strides[2] + dims[None, :] * q_strides[3], mask=inside, other=0)
            do = tl.load(do_at + rows[:, None] * do_strides[2] + dims[None, :] * do_strides[3], mask=inside, other=0)
            lse = tl.load(lse_ptr + of_head + rows, mask=rows < Nq, other=0)
            delta = tl.load(delta_ptr + of_head + rows, mask=rows < Nq, other=0)
            sees = inside & (keys[None, :] <= rows[:, None] + Nk - Nq) & (keys < Nk)[None, :]
            s = tl.dot(q, k.T, input_precision="ieee") * scale
            p = tl.where(sees, tl.exp(s - lse[:, None]), 0.0)
            dv += tl.dot(p.to(do.dtype).T, do, input_precision="ieee")
            ds = p * (tl.dot(do, v.T, input_precision="ieee") - delta[:, None])
            dk += tl.dot(ds.to(q.dtype).T, q, input_precision="ieee")
    dk_at = dk_ptr + batch * dk_strides[0] + head * dk_strides[1]
    dv_at = dv_ptr + batch * dv_strides[0] + head * dv_strides[1]
    dk_at += keys[:, None] * dk_strides[2] + dims[None, :] * dk_strides[3]
    dv_at += keys[:, None] * dv_strides[2] + dims[None, :] * dv_strides[3]
    tl.store(dk_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=there)
    tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=there)
    ### END SOLUTION


def grouped_backward(q, k, v, do, lse, delta, scale):
    """q, do (B, Hq, Nq, D), k, v (B, Hkv, Nk, D), any strides; lse, delta (B, Hq, Nq), contiguous -> dk, dv, causal."""
    ### BEGIN SOLUTION
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    BLOCK_N = 64
    grouped_dkdv_kernel[(triton.cdiv(Nk, BLOCK_N), B * Hkv)](
        q, k, v, do, lse, delta, dk, dv, *(x.stride() for x in (q, k, v, do, dk, dv)), Hkv, Nq, Nk, scale,
        GROUP=Hq // Hkv, D=D, BLOCK_M=32, BLOCK_N=BLOCK_N,
    )  # fmt: skip
    return dk, dv
    ### END SOLUTION


# %% check="model.grouped_backward"
check("model.grouped_backward", grouped_backward)

# %% [markdown]
# ## Exercise: an operator of torch
#
# {{exercise model.operator_norm}}
#
# Full marks need {{correct.ragged}} {{correct.fake}} {{saves.performance}} {{launches.performance.forward}} {{launches.performance.backward}}.


# %% exercise="model.operator_norm"
@triton.jit
def norm_forward_kernel(x_ptr, weight_ptr, y_ptr, rstd_ptr, N, BLOCK: tl.constexpr):
    """One row; rstd is kept for the way back."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
    rstd = tl.rsqrt(tl.sum(x * x, 0) / N + 1e-6)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0).to(tl.float32)
    tl.store(y_ptr + row * N + cols, x * rstd * weight, mask=cols < N)
    tl.store(rstd_ptr + row, rstd)


@triton.jit
def norm_backward_kernel(
    x_ptr, weight_ptr, rstd_ptr, dy_ptr, dx_ptr, parts_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """dx of ROWS rows, and what they add to dweight."""
    cols = tl.arange(0, BLOCK)
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0).to(tl.float32)
    part = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0) * ROWS, tl.minimum((tl.program_id(0) + 1) * ROWS, M)):
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=cols < N, other=0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        part += dy * x * rstd
        dx = rstd * (dy * weight - x * rstd * rstd * tl.sum(dy * weight * x, 0) / N)
        tl.store(dx_ptr + row * N + cols, dx, mask=cols < N)
    tl.store(parts_ptr + tl.program_id(0) * N + cols, part, mask=cols < N)


@triton.jit
def add_parts_kernel(parts_ptr, dweight_ptr, parts, N, BLOCK: tl.constexpr):
    """dweight of BLOCK columns."""
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(parts):
        total += tl.load(parts_ptr + i * N + cols, mask=cols < N, other=0)
    tl.store(dweight_ptr + cols, total, mask=cols < N)


def norm_forward(x, weight):
    """x (M, N), weight (N,), contiguous -> y (M, N), rstd (M,) float32. Given: unit 06's RMSNorm, which keeps rstd."""
    (M, N), y = x.shape, torch.empty_like(x)
    rstd = torch.empty(M, dtype=torch.float32, device=x.device)
    norm_forward_kernel[(M,)](x, weight, y, rstd, N, BLOCK=triton.next_power_of_2(N))
    return y, rstd


def norm_backward(x, weight, rstd, dy):
    """-> dx (M, N), dweight (N,). Given: unit 07's."""
    (M, N), dx, dweight = x.shape, torch.empty_like(x), torch.empty_like(weight)
    ROWS = 8
    parts = torch.empty(triton.cdiv(M, ROWS), N, dtype=torch.float32, device=x.device)
    norm_backward_kernel[(len(parts),)](
        x, weight, rstd, dy, dx, parts, M, N, ROWS=ROWS, BLOCK=triton.next_power_of_2(N)
    )
    add_parts_kernel[(triton.cdiv(N, 128),)](parts, dweight, len(parts), N, BLOCK=128)
    return dx, dweight


### BEGIN SOLUTION
@torch.library.custom_op("course::norm", mutates_args=())
def norm_op(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return norm_forward(x, weight)


@norm_op.register_fake
def _(x, weight):
    return torch.empty_like(x), x.new_empty(x.shape[0], dtype=torch.float32)


@torch.library.custom_op("course::norm_backward", mutates_args=())
def norm_backward_op(
    x: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor, dy: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return norm_backward(x, weight, rstd, dy.contiguous())


@norm_backward_op.register_fake
def _(x, weight, rstd, dy):
    return torch.empty_like(x), torch.empty_like(weight)


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


def go_back(ctx, dy, _):
    return norm_backward_op(*ctx.saved_tensors, dy)


norm_op.register_autograd(go_back, setup_context=keep)


### END SOLUTION
def operator_norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x (M, N), weight (N,) -> y (M, N), differentiable, and known to torch.compile."""
    ### BEGIN SOLUTION
    return norm_op(x, weight)[0]
    ### END SOLUTION


# %% check="model.operator_norm"
check("model.operator_norm", operator_norm)

# %% [markdown]
# ## Exercise: the cache
#
# {{exercise model.kv_cache}}
#
# Full marks need
# * any pieces ({{correct.ragged}}), a ring ({{correct.ring}}), a prompt longer than the ring ({{correct.long}}),
# * each token moved once ({{moves.performance}}), in a full ring, too ({{moves.full ring}}), and nothing else allocated ({{buffers_below.full ring}}).


# %% exercise="model.kv_cache"
class KVCache:
    """Keys and values of one layer, (B, Hkv, slots, D) each: token t is in slot t % slots."""

    def __init__(self, B, Hkv, slots, D, dtype=torch.float32, device="cpu"):
        self.k, self.v = torch.empty(2, B, Hkv, slots, D, dtype=dtype, device=device)
        self.slots, self.length = slots, 0  # tokens that have come, those that were written over among them

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """k, v (B, Hkv, n, D), the next n tokens -> views (B, Hkv, min(length, slots), D) of all that are kept."""
        ### BEGIN SOLUTION
        new = k.shape[2]
        skip = max(0, new - self.slots)  # of a prompt longer than the ring, its end
        start = (self.length + skip) % self.slots
        first = min(new - skip, self.slots - start)  # up to the end of the ring; the others go to its beginning
        for cache, x in (self.k, k), (self.v, v):
            cache[:, :, start : start + first] = x[:, :, skip : skip + first]
            cache[:, :, : new - skip - first] = x[:, :, skip + first :]
        self.length += new
        n = min(self.length, self.slots)
        return self.k[:, :, :n], self.v[:, :, :n]
        ### END SOLUTION


# %% check="model.kv_cache"
check("model.kv_cache", KVCache)

# %% [markdown]
# ## Exercise: one more token
#
# {{exercise model.decode_step}}
#
# Full marks need
# * positions ({{correct.positions}}), any group ({{correct.ragged}}), a ring ({{correct.ring}}), half precision ({{correct.half}}),
# * bytes ({{traffic.performance}}), programs ({{read_together.performance}}), no copy ({{buffers_below.performance}}), launches ({{launches.performance}}).


# %% exercise="model.decode_step"
@triton.jit
def append_kernel(
    q_ptr, k_ptr, v_ptr, cos_ptr, sin_ptr, turned_ptr, cache_k_ptr, cache_v_ptr,
    q_strides, k_strides, v_strides, cache_k_strides, cache_v_strides, position, slot, GROUP: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """One text and one head of k and v: its heads of q and k turned, q to a buffer (B, Hq, D), k and v to their slot."""
    ### BEGIN SOLUTION
    batch, head = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    half, dims = tl.arange(0, D // 2), tl.arange(0, D)
    cos, sin = tl.load(cos_ptr + position * (D // 2) + half), tl.load(sin_ptr + position * (D // 2) + half)
    for g in tl.static_range(GROUP):
        q_at = q_ptr + batch * q_strides[0] + (head * GROUP + g) * q_strides[1] + half
        a, b = tl.load(q_at).to(tl.float32), tl.load(q_at + D // 2).to(tl.float32)
        out = turned_ptr + ((batch * tl.num_programs(1) + head) * GROUP + g) * D + half
        tl.store(out, a * cos - b * sin)
        tl.store(out + D // 2, b * cos + a * sin)
    k_at = k_ptr + batch * k_strides[0] + head * k_strides[1] + half
    a, b = tl.load(k_at).to(tl.float32), tl.load(k_at + D // 2).to(tl.float32)
    to = cache_k_ptr + batch * cache_k_strides[0] + head * cache_k_strides[1] + slot * cache_k_strides[2] + half
    tl.store(to, a * cos - b * sin)
    tl.store(to + D // 2, b * cos + a * sin)
    v = tl.load(v_ptr + batch * v_strides[0] + head * v_strides[1] + dims)  # a value has no position
    tl.store(cache_v_ptr + batch * cache_v_strides[0] + head * cache_v_strides[1] + slot * cache_v_strides[2] + dims, v)
    ### END SOLUTION


@triton.jit
def cached_share_kernel(
    q_ptr, k_ptr, v_ptr, m_ptr, l_ptr, acc_ptr, k_strides, v_strides, scale, n, share, Hkv,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The state of a group's rows after one share of the n keys of a cache: m and l (B Hq, splits), acc (B Hq, splits, D)."""
    ### BEGIN SOLUTION
    split, j = tl.program_id(0), tl.program_id(1).to(tl.int64)
    batch, head = j // Hkv, j % Hkv
    rows, dims = tl.arange(0, BLOCK_M), tl.arange(0, D)
    heads = j * GROUP + rows  # of q, which is contiguous
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=(rows < GROUP)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    stop = tl.minimum((split + 1) * share, n)
    k_ptr += batch * k_strides[0] + head * k_strides[1]
    v_ptr += batch * v_strides[0] + head * v_strides[1]
    for i in range(split * share, stop, BLOCK_N):
        keys = i + tl.arange(0, BLOCK_N)
        there = (keys < stop)[:, None]
        k = tl.load(k_ptr + keys[:, None] * k_strides[2] + dims[None, :], mask=there, other=0)
        v = tl.load(v_ptr + keys[:, None] * v_strides[2] + dims[None, :], mask=there, other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(keys[None, :] < stop, s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    at = heads * tl.num_programs(0) + split
    tl.store(m_ptr + at, m, mask=rows < GROUP)
    tl.store(l_ptr + at, l, mask=rows < GROUP)
    tl.store(acc_ptr + at[:, None] * D + dims[None, :], acc, mask=(rows < GROUP)[:, None])
    ### END SOLUTION


@triton.jit
def merge_kernel(m_ptr, l_ptr, acc_ptr, o_ptr, splits, D: tl.constexpr, BLOCK: tl.constexpr):
    """The states of one head, merged: the one of unit 09's flash_decode."""
    head, parts, dims = tl.program_id(0), tl.arange(0, BLOCK), tl.arange(0, D)
    at = head * splits + parts
    m = tl.load(m_ptr + at, mask=parts < splits, other=-float("inf"))
    l = tl.load(l_ptr + at, mask=parts < splits, other=0)
    acc = tl.load(acc_ptr + at[:, None] * D + dims[None, :], mask=(parts < splits)[:, None], other=0)
    factor = tl.exp(m - tl.max(m, 0))
    o = tl.sum(factor[:, None] * acc, 0) / tl.sum(factor * l, 0)
    tl.store(o_ptr + head * D + dims, o.to(o_ptr.dtype.element_ty))


def decode_step(q, k, v, cos, sin, cache_k, cache_v, position):
    """q (B, Hq, 1, D), k and v (B, Hkv, 1, D) of token number `position`, not turned yet -> (B, Hq, 1, D)."""
    ### BEGIN SOLUTION
    (B, Hq, _, D), (Hkv, slots) = q.shape, cache_k.shape[1:3]
    n, GROUP = min(position + 1, slots), Hq // Hkv
    turned = torch.empty(B, Hq, D, dtype=q.dtype, device=q.device)
    strides = [x.stride() for x in (q, k, v, cache_k, cache_v)]
    append_kernel[(B, Hkv)](
        q, k, v, cos, sin, turned, cache_k, cache_v, *strides, position, position % slots, GROUP=GROUP, D=D
    )
    splits = max(1, min(64, triton.cdiv(n, 128)))
    share, rows = triton.cdiv(n, splits), dict(BLOCK_M=max(16, triton.next_power_of_2(GROUP)), BLOCK_N=64)
    m, l = torch.empty(2, B * Hq, splits, dtype=torch.float32, device=q.device)
    acc = torch.empty(B * Hq, splits, D, dtype=torch.float32, device=q.device)
    cached_share_kernel[(splits, B * Hkv)](
        turned, cache_k, cache_v, m, l, acc, cache_k.stride(), cache_v.stride(), D**-0.5, n, share, Hkv,
        GROUP=GROUP, D=D, **rows,
    )  # fmt: skip
    o = torch.empty(B, Hq, 1, D, dtype=q.dtype, device=q.device)
    merge_kernel[(B * Hq,)](m, l, acc, o, splits, D=D, BLOCK=triton.next_power_of_2(splits))
    return o
    ### END SOLUTION


# %% check="model.decode_step"
check("model.decode_step", decode_step)

# %% [markdown]
# ## Exercise: pages
#
# {{exercise model.paged_decode}}
#
# Full marks need lengths that differ ({{correct.ragged}}), half precision ({{correct.half}}), bytes ({{traffic.performance}}), and pages that stay
# where they are ({{buffers_below.performance}}).


# %% exercise="model.paged_decode"
@triton.jit
def paged_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, o_ptr, k_strides, v_strides, table_stride, scale,
    GROUP: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, PAGE: tl.constexpr,
):  # fmt: skip
    """The heads of q that read one head of k and v of one text."""
    ### BEGIN SOLUTION
    batch, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows, dims, places = tl.arange(0, BLOCK_M), tl.arange(0, D), tl.arange(0, PAGE)
    heads = (batch * tl.num_programs(1) + head) * GROUP + rows
    length = tl.load(lengths_ptr + batch)
    q = tl.load(q_ptr + heads[:, None] * D + dims[None, :], mask=(rows < GROUP)[:, None], other=0)
    m = tl.full((BLOCK_M,), -float("inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    for i in range(0, tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + batch * table_stride + i).to(tl.int64)
        there = i * PAGE + places < length
        k_at = k_ptr + page * k_strides[0] + head * k_strides[1] + places[:, None] * k_strides[2] + dims[None, :]
        v_at = v_ptr + page * v_strides[0] + head * v_strides[1] + places[:, None] * v_strides[2] + dims[None, :]
        k = tl.load(k_at, mask=there[:, None], other=0)
        v = tl.load(v_at, mask=there[:, None], other=0)
        s = tl.dot(q, k.T, input_precision="ieee") * scale
        s = tl.where(there[None, :], s, -float("inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        alpha, p = tl.exp(m - m_new), tl.exp(s - m_new[:, None])
        l = l * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m = m_new
    o = acc / l[:, None]
    tl.store(o_ptr + heads[:, None] * D + dims[None, :], o.to(o_ptr.dtype.element_ty), mask=(rows < GROUP)[:, None])
    ### END SOLUTION


def paged_decode(q, k_pages, v_pages, table, lengths):
    """q (B, Hq, D); k_pages, v_pages (pages, Hkv, page, D); table (B, n) and lengths (B,), int32 -> (B, Hq, D)."""
    ### BEGIN SOLUTION
    (B, Hq, D), (_, Hkv, PAGE, _) = q.shape, k_pages.shape
    o = torch.empty_like(q)
    paged_kernel[(B, Hkv)](
        q, k_pages, v_pages, table, lengths, o, k_pages.stride(), v_pages.stride(), table.stride(0), D**-0.5,
        GROUP=Hq // Hkv, D=D, BLOCK_M=max(16, triton.next_power_of_2(Hq // Hkv)), PAGE=PAGE,
    )  # fmt: skip
    return o
    ### END SOLUTION


# %% check="model.paged_decode"
check("model.paged_decode", paged_decode)

# %% [markdown]
# ## Exercise: how many texts, and how fast
#
# {{exercise model.serving}}
#
# Full marks need {{correct.plain}} {{correct.heads}} {{correct.window}} {{correct.edges}}.


# %% exercise="model.serving"
def serving(config: dict, tokens: int, memory: int, bandwidth: float) -> tuple[int, int, float]:
    """config: layers, kv_heads, head_dim, itemsize, window (or None), parameters; memory in bytes, bandwidth in bytes a second
    -> (kv_bytes of a text of so many tokens, largest_batch beside the weights, decode_seconds of a step with that batch)."""
    ### BEGIN SOLUTION
    kept = min(tokens, config["window"] or tokens)
    kv_bytes = 2 * config["layers"] * config["kv_heads"] * config["head_dim"] * kept * config["itemsize"]
    weights = config["parameters"] * config["itemsize"]
    largest_batch = max(0, memory - weights) // kv_bytes
    return kv_bytes, largest_batch, (weights + largest_batch * kv_bytes) / bandwidth
    ### END SOLUTION


# %% check="model.serving"
check("model.serving", serving)

# %% [markdown]
# ## Exercise: what is wrong here?
#
# {{exercise model.name_it}}

# %% exercise="model.name_it"
name_it = {
    "padded texts differ, the others agree": ...,
    "a prompt agrees, its second piece does not": ...,
    "losses fall as before, the projections of q, k and v stay as they were": ...,
    "all agrees until activations are recomputed": ...,
    "every row differs, in a model whose configuration names a multiplier": ...,
    "all agrees, and the peak of memory grows with the cache times the group": ...,
}
### BEGIN SOLUTION
name_it = {
    "padded texts differ, the others agree": 1,
    "a prompt agrees, its second piece does not": 2,
    "losses fall as before, the projections of q, k and v stay as they were": 3,
    "all agrees until activations are recomputed": 4,
    "every row differs, in a model whose configuration names a multiplier": 5,
    "all agrees, and the peak of memory grows with the cache times the group": 6,
}
### END SOLUTION

# %% check="model.name_it"
check("model.name_it", name_it)

# %% [markdown]
# ## Exercise: mend it
#
# {{exercise model.mended}}
#
# Full marks need {{correct.plain}} {{correct.mask}} {{correct.causal}} {{correct.scale}} {{correct.again}} {{no_repeats.shared}}.


# %% exercise="model.mended"
def mended(q, k, v, cos, sin, mask, scale):
    """q (B, Hq, Nq, D), the last Nq positions, k and v (B, Hkv, Nk, D), not turned; mask None or (B, 1, Nq, Nk) -> (B, Hq, Nq, D)."""
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]
    for x, first in (q, Nk - Nq), (k, 0):
        c, s = cos[first : first + x.shape[2]], sin[first : first + x.shape[2]]
        a, b = x[..., : D // 2].clone(), x[..., D // 2 :].clone()
        x[..., : D // 2], x[..., D // 2 :] = a * c - b * s, b * c + a * s
    with torch.no_grad():
        k, v = (x.repeat_interleave(Hq // Hkv, 1) for x in (k, v))
        scores = q @ k.mT * D**-0.5
        scores = scores.masked_fill(~torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(), -math.inf)
        out = torch.softmax(scores, -1) @ v
    return out


### BEGIN SOLUTION
def mended(q, k, v, cos, sin, mask, scale):  # noqa: F811 (this one takes its place)
    (B, Hq, Nq, D), (Hkv, Nk) = q.shape, k.shape[1:3]

    def turned(x, first):  # 4: new tensors, since q and k are asked for again
        c, s = cos[first : first + x.shape[2]], sin[first : first + x.shape[2]]
        a, b = x[..., : D // 2], x[..., D // 2 :]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    rows = turned(q, Nk - Nq).reshape(B, Hkv, -1, D)  # 6: the rows of a group's heads, in one product
    scores = (rows @ turned(k, 0).mT * scale).view(B, Hkv, Hq // Hkv, Nq, Nk)  # 5: the model's scale; 3: in sight of autograd
    sees = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(Nk - Nq)  # 2: the queries are the last
    if mask is not None:
        sees = mask.view(B, 1, 1, Nq, Nk)  # 1: it says all
    p = torch.softmax(scores.masked_fill(~sees, -math.inf), -1)
    return (p.view(B, Hkv, -1, Nk) @ v).view(B, Hq, Nq, D)


### END SOLUTION
# %% check="model.mended"
check("model.mended", mended)
