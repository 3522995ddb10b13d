"""Attention of a model whose heads share k and v, made of functions for one head each: units 09 and 10's, and one of unit 11.

    attention = forward(flash_attention_forward)                     (q, k, v) -> o, lse
    attention_backward = backward(delta, dq, grouped_backward)       (do, q, k, v, o, lse) -> dq, dk, dv
    o = differentiable(attention, attention_backward)(q, k, v)       with a way back for autograd

q is (B, Hq, Nq, D), k and v are (B, Hkv, Nk, D); head h of q reads head h // (Hq / Hkv). Always causal, the queries are the last.

Which of the functions must know that heads are shared? One that owns queries need not: k, expanded over its group, is a view with
a stride of 0. dk and dv belong to keys, which all heads of a group read, and so their function is unit 11's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def over_group(x: Tensor, heads: int) -> Tensor:
    """Expand x (B, Hkv, N, D) to (B Hkv, heads / Hkv, N, D), each head for its whole group, without a copy for each head.

    A view of a larger tensor, such as v in a layer, becomes dense first: a copy of x as it is, never of x for each head of q.
    """
    return x.contiguous().flatten(0, 1)[:, None].expand(-1, heads // x.shape[1], -1, -1)


def by_group(x: Tensor, kv_heads: int) -> Tensor:
    """Reshape x (B, Hq, N, D) to (B Hkv, Hq / Hkv, N, D), the heads that read one head of k and v side by side."""
    return x.unflatten(1, (kv_heads, -1)).flatten(0, 1)


def forward(flash_attention_forward: Callable) -> Callable:
    """Make attention(q, k, v, scale=None) -> o, lse from unit 09's function."""

    def attention(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> tuple[Tensor, Tensor]:
        Hq, Hkv = q.shape[1], k.shape[1]
        o, lse = flash_attention_forward(by_group(q, Hkv), over_group(k, Hq), over_group(v, Hq), True, scale)
        return o.view(q.shape), lse.view(q.shape[:-1])

    return attention


def backward(delta: Callable, dq: Callable, grouped_backward: Callable) -> Callable:
    """Make attention_backward(do, q, k, v, o, lse, scale=None) -> dq, dk, dv from two functions of unit 10 and one of unit 11."""

    def attention_backward(
        do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, scale: float | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        Hq, Hkv, scale = q.shape[1], k.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
        rows = delta(o, do)
        dk, dv = grouped_backward(q, k, v, do, lse, rows, scale)
        grouped, keys = [by_group(x, Hkv) for x in (q, do)], [over_group(x, Hq) for x in (k, v)]
        of_rows = [x.view(grouped[0].shape[:-1]) for x in (lse, rows)]
        return dq(grouped[0], *keys, grouped[1], *of_rows, True, scale).view(q.shape), dk, dv

    return attention_backward


def differentiable(attention: Callable, attention_backward: Callable) -> Callable:
    """Make a differentiable attention(q, k, v, scale=None) -> o from a forward and a backward function.

    k and v are made dense before, once for both ways: a v that is a view of qkv would keep all of qkv for backward.
    """

    def shared(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
        return _Shared.apply(attention, attention_backward, q, k.contiguous(), v.contiguous(), scale)

    return shared


def of_torch(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    """Compute causal attention with shared heads by torch's own function, for Nq = Nk."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=True)


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, attention: Callable, back: Callable, q: Tensor, k: Tensor, v: Tensor, scale) -> Tensor:
        o, lse = attention(q, k, v, scale)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.back, ctx.scale = back, scale
        return o

    @staticmethod
    def backward(ctx: Any, do: Tensor) -> tuple:
        return None, None, *ctx.back(do, *ctx.saved_tensors, ctx.scale), None
