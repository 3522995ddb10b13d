"""Attention in plain torch, right and slow: what unit 10 starts from where nobody has a kernel of unit 09.

The whole matrix of scores is in memory: 4 bytes for each pair of a query and a key.
"""

from __future__ import annotations

import math

import torch


def flash_attention_forward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention: q (..., Nq, D), k, v (..., Nk, D) -> o (..., Nq, D) of q's dtype, lse (..., Nq) float32; scale: 1 / sqrt(D) if
    None.

    Conventions as in units 08 and 09: query i sees the keys j <= i + Nk - Nq if causal; one that sees none has zeros in o and
    -inf in lse. Computed in float32.
    """
    Nq, D, Nk = *q.shape[-2:], k.shape[-2]
    s = q.float() @ k.float().mT * (D**-0.5 if scale is None else scale)  # (..., Nq, Nk)
    if causal:
        s = torch.where(torch.ones(Nq, Nk, dtype=torch.bool, device=q.device).tril(Nk - Nq), s, -math.inf)
    lse = torch.logsumexp(s, -1)
    p = torch.exp(s - torch.where(lse == -math.inf, 0, lse)[..., None])
    return (p @ v.float()).to(q.dtype), lse
