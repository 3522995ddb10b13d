"""The kernels of a model as what a launch is to autograd: tensors in, new tensors out, and no way back unless somebody gives it one.

    kernels = Kernels()
    out, rstd = kernels.norm(x, weight)
    dx, dweight = kernels.norm_backward(dy, x, weight, rstd)

They are written in torch, so that a toy trains in seconds without a GPU, and count their launches and bytes. Kernels of your own
take their place one by one: Kernels(norm=my_norm, norm_backward=my_norm_backward).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

EPS = 1e-6


def norm(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Compute x * rstd * weight, and rstd, one number for each row, at least float32: x (..., C), weight (C,)."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rstd = torch.rsqrt(wide.square().mean(-1) + EPS)
    return (wide * rstd[..., None] * weight).to(x.dtype), rstd


def norm_backward(dy: Tensor, x: Tensor, weight: Tensor, rstd: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the gradients of x and weight."""
    n, g = x * rstd[..., None], dy * weight
    dx = rstd[..., None] * (g - n * (g * n).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy * n).flatten(0, -2).sum(0).to(weight.dtype)


def _seen(q: Tensor, k: Tensor) -> Tensor:
    return torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])


def _scores(q: Tensor, k: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    s = q @ k.repeat_interleave(group, 1).mT * q.shape[-1] ** -0.5
    return s.to(torch.promote_types(q.dtype, torch.float32)).masked_fill(~_seen(q, k), -torch.inf)


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Compute causal attention: q (B, Hq, N, D), k and v (B, Hkv, N, D) -> o (B, Hq, N, D), in memory (B, N, Hq, D), and lse (B, Hq, N)."""
    s = _scores(q, k)
    lse = s.logsumexp(-1)
    p = torch.exp(s - lse[..., None]).to(v.dtype)
    o = p @ v.repeat_interleave(q.shape[1] // v.shape[1], 1)
    return o.transpose(1, 2).contiguous().transpose(1, 2), lse


def attention_backward(
    do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the gradients of q, k and v; those of a shared head are sums over its group."""
    group, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    p = torch.exp(_scores(q, k) - lse[..., None]).to(v.dtype)
    delta = (do * o).sum(-1, keepdim=True)
    ds = p * (do @ v.repeat_interleave(group, 1).mT - delta) * scale
    dk, dv = (x.unflatten(1, (-1, group)).sum(2) for x in (ds.mT @ q, p.mT @ do))
    return ds @ k.repeat_interleave(group, 1), dk, dv


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Compute silu(gate) * up: gate and up (..., H)."""
    return F.silu(gate) * up


def swiglu_backward(dy: Tensor, gate: Tensor, up: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the gradients of gate and up."""
    s = torch.sigmoid(gate)
    return dy * up * s * (1 + gate * (1 - s)), dy * gate * s


def cross_entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the loss of each row and its lse, (M,) each, at least float32: logits (M, V), targets (M,)."""
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    lse = wide.logsumexp(-1)
    return lse - wide.gather(1, targets[:, None])[:, 0], lse


def cross_entropy_backward(dlosses: Tensor, logits: Tensor, targets: Tensor, lse: Tensor) -> Tensor:
    """Compute the gradient of the logits, from that of each row's loss (M,)."""
    p = torch.exp(logits - lse[:, None])
    return ((p - F.one_hot(targets, logits.shape[1])) * dlosses[:, None]).to(logits.dtype)


ALL: dict[str, Callable] = {
    f.__name__: f
    for f in (
        norm,
        norm_backward,
        attention,
        attention_backward,
        swiglu,
        swiglu_backward,
        cross_entropy,
        cross_entropy_backward,
    )
}


def scaled(factor: float) -> dict[str, Callable]:
    """Make kernels whose results are `factor` times the right ones, with gradients to match: an answer that computes with torch instead
    gets other numbers."""

    def forward(kernel: Callable) -> Callable:
        def times(*tensors: Tensor):
            out = kernel(*tensors)
            return (factor * out[0], *out[1:]) if isinstance(out, tuple) else factor * out

        return times

    def backward(kernel: Callable) -> Callable:
        def times(*tensors: Tensor):
            out = kernel(*tensors)
            return tuple(factor * g for g in out) if isinstance(out, tuple) else factor * out

        return times

    def of_attention(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor):
        return tuple(factor * g for g in attention_backward(do, q, k, v, o / factor, lse))

    made = {name: (backward if name.endswith("_backward") else forward)(kernel) for name, kernel in ALL.items()}
    return made | {"attention_backward": of_attention}


class Kernels:
    """The kernels by name, each a launch.

    launches   how often each was launched;  bytes  what each read and wrote in all, every tensor once
    Raises TypeError for a name that is none of theirs.
    """

    def __init__(self, **own: Callable) -> None:
        if unknown := own.keys() - ALL.keys():
            raise TypeError(f"there is no kernel {min(unknown)!r}; there are {', '.join(ALL)}.")
        self.launches: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        for name, kernel in (ALL | own).items():
            setattr(self, name, self._launched(name, kernel))

    def _launched(self, name: str, kernel: Callable) -> Callable:
        def launch(*tensors: Tensor):
            with torch.no_grad():
                out = kernel(*(t.detach() for t in tensors))
            made = out if isinstance(out, tuple) else (out,)
            self.launches[name] += 1
            self.bytes[name] += sum(t.numel() * t.element_size() for t in (*tensors, *made))
            return out

        return launch
