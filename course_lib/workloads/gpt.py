"""A GPT in the rhythm of nanoGPT, with what today's models have: RMSNorm, rotary positions, grouped heads, SwiGLU.

    model = GPT(TOY)                                  torch's operations
    model = GPT(TOY, replace(TORCH, norm=my_norm))    yours in one slot
    loss = model(tokens, targets)                     the mean over all targets but -100
    logits = model(tokens)                            (B, N, V)

What it computes besides matrix products stands in slots (Ops), and so does its optimizer. One file serves a toy on a laptop
and LARGE, of 1.1 B parameters, on a GPU. Needs torch alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The sizes of a model. heads: of q; kv_heads: of k and v, each shared by heads // kv_heads heads of q; hidden: of the MLP."""

    vocab: int = 64
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 176
    context: int = 64

    @property
    def head_dim(self) -> int:
        return self.width // self.heads


TOY = Config()
LARGE = Config(vocab=32768, layers=22, width=2048, heads=32, kv_heads=8, hidden=5632, context=4096)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    """Compute x / rms(x) * weight: x (..., C), weight (C,)."""
    return F.rms_norm(x, weight.shape, weight, 1e-6)


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the two halves of x (B, H, N, D) by its positions' angles; float32 tables (N, D / 2)."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute causal attention, where the last query sees all keys: q (B, Hq, Nq, D), k, v (B, Hkv, Nk, D), Nq <= Nk -> (B, Hq, Nq, D)."""
    Nq, Nk, grouped = q.shape[2], k.shape[2], q.shape[1] != k.shape[1]
    if Nq in (1, Nk):
        return F.scaled_dot_product_attention(q, k, v, is_causal=Nq > 1, enable_gqa=grouped)
    sees = torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(
        Nk - Nq
    )  # torch's own is_causal is aligned top left
    return F.scaled_dot_product_attention(q, k, v, attn_mask=sees, enable_gqa=grouped)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Compute silu(gate) * up: gate and up (..., H)."""
    return F.silu(gate) * up


def adamw(
    model: nn.Module, lr: float, betas: tuple[float, float] = (0.9, 0.95), decay: float = 0.1
) -> torch.optim.Optimizer:
    """Make torch's AdamW; matrices decay, norms do not."""
    matrices, vectors = ([p for p in model.parameters() if (p.dim() > 1) == wide] for wide in (True, False))
    return torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}], lr, betas, weight_decay=decay
    )


@dataclass(frozen=True)
class Ops:
    """Replaceable operations of a model besides matrix products. Each has the signature of torch's version here."""

    norm: Callable[[Tensor, Tensor], Tensor] = rms_norm
    rotary: Callable[[Tensor, Tensor, Tensor], Tensor] = rotary
    attention: Callable[[Tensor, Tensor, Tensor], Tensor] = attention
    swiglu: Callable[[Tensor, Tensor], Tensor] = swiglu
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy
    optimizer: Callable[..., Any] = adamw


TORCH = Ops()


class TransformerBlock(nn.Module):
    """Attention, then an MLP, each behind a norm and beside a residual: x (B, N, C) -> (B, N, C)."""

    def __init__(self, c: Config) -> None:
        super().__init__()
        self.c = c
        self.norm1, self.norm2 = nn.Parameter(torch.ones(c.width)), nn.Parameter(torch.ones(c.width))
        self.qkv = nn.Linear(c.width, (c.heads + 2 * c.kv_heads) * c.head_dim, bias=False)
        self.out = nn.Linear(c.heads * c.head_dim, c.width, bias=False)
        self.up = nn.Linear(c.width, 2 * c.hidden, bias=False)
        self.down = nn.Linear(c.hidden, c.width, bias=False)

    def forward(self, x: Tensor, ops: Ops, cos: Tensor, sin: Tensor, cache: Any = None) -> Tensor:
        c, (B, N, _) = self.c, x.shape
        qkv = self.qkv(ops.norm(x, self.norm1)).view(B, N, -1, c.head_dim).transpose(1, 2)  # (B, Hq + 2 Hkv, N, D)
        q, k, v = qkv.split([c.heads, c.kv_heads, c.kv_heads], 1)
        q, k = ops.rotary(q, cos, sin), ops.rotary(k, cos, sin)
        if cache is not None:
            k, v = cache.append(k, v)  # (B, Hkv, Nk, D): all so far
        o = ops.attention(q, k, v)  # (B, Hq, N, D)
        x = x + self.out(o.transpose(1, 2).reshape(B, N, -1))
        gate, up = self.up(ops.norm(x, self.norm2)).chunk(2, -1)  # (B, N, H) each
        return x + self.down(ops.swiglu(gate, up))


class GPT(nn.Module):
    """Language model: tokens (B, N) -> logits (B, N, V), or the loss if there are targets (B, N).

    caches: one for each block, with `length` and append(k, v), which returns all keys and values so far
    """

    def __init__(self, c: Config, ops: Ops = TORCH) -> None:
        super().__init__()
        self.c, self.ops = c, ops
        self.embedding = nn.Embedding(c.vocab, c.width)
        self.blocks = nn.ModuleList(TransformerBlock(c) for _ in range(c.layers))
        self.norm, self.head = nn.Parameter(torch.ones(c.width)), nn.Linear(c.width, c.vocab, bias=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=p.shape[-1] ** -0.5)

    def forward(self, tokens: Tensor, targets: Tensor | None = None, caches: Sequence[Any] | None = None) -> Tensor:
        cos, sin = self.turns(caches[0].length if caches else 0, tokens.shape[1])
        x = self.embedding(tokens)  # (B, N, C)
        for block, cache in zip(self.blocks, caches or [None] * len(self.blocks), strict=True):
            x = block(x, self.ops, cos, sin, cache)
        logits = self.head(self.ops.norm(x, self.norm))  # (B, N, V)
        return logits if targets is None else self.ops.loss(logits.flatten(0, 1), targets.flatten())

    def turns(self, first: int, count: int) -> tuple[Tensor, Tensor]:
        """Compute the rotary tables (cos, sin) of `count` positions from `first` on, (N, D / 2) each: float32, whatever the weights are."""
        D, device = self.c.head_dim, self.norm.device
        rates = 10000.0 ** (-torch.arange(0, D, 2, device=device) / D)
        angles = torch.arange(first, first + count, device=device)[:, None] * rates
        return angles.cos(), angles.sin()

    def optimizer(self, lr: float, **options: Any) -> Any:
        """Make the optimizer in `ops` for this model's parameters."""
        return self.ops.optimizer(self, lr, **options)
