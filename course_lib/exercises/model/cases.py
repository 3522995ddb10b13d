"""Cases of unit 11's second half: what a layer hands over while a text is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from course_lib.exercises.cases import FP32


def projected(
    g: torch.Generator, B: int, n: int, heads: Sequence[int], D: int, dtype: torch.dtype
) -> list[torch.Tensor]:
    """Tensors (B, H, n, D), one for each number of heads, views of one projection (B, n, sum of H, D)."""
    whole = torch.randn(B, n, sum(heads), D, generator=g, device=g.device).to(dtype)
    return list(whole.transpose(1, 2).split(list(heads), 1))


def tokens(B: int, heads: int, pieces: Sequence[int], D: int, slots: int, dtype: torch.dtype = FP32):
    """A drawing of k and v (B, heads, N, D), slots, and pieces, which add up to N."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        k, v = projected(g, B, sum(pieces), (heads, heads), D, dtype)
        return {"k": k, "v": v, "slots": slots, "pieces": list(pieces)}

    return draw
