"""Cases of kernels in Gluon, units 13 and 14, and what their products need."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.exercises.cases import FP16
from course_lib.exercises.tiling import cases as tiling


def matrix(M: int, N: int, dtype: torch.dtype = FP16, *, spare: int = 0, scale: float = 1.0):
    """Return a function that draws x (M, N), whose rows lie N + spare elements apart; scale: its standard deviation."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = (scale * torch.randn(M, N + spare, generator=generator, device=generator.device)).to(dtype)
        return {"x": values[:, :N]}

    return draw


def factors(M: int, N: int, K: int, dtype: torch.dtype = FP16, **more: Any):
    """Return a function that draws a (M, K) and b (K, N), with more arguments that are always the same."""
    draw = tiling.factors(M, N, K, dtype)
    return lambda generator: draw(generator) | more


def multiply_adds(a: torch.Tensor, b: torch.Tensor, **_: Any) -> int:
    """Count the multiply-adds of the product."""
    return a.shape[0] * b.shape[1] * b.shape[0]
