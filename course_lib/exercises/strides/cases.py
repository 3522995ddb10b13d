"""Cases of unit 01's exercises."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.exercises.cases import laid_out


def integers(generator: torch.Generator, low: int, high: int, count: int) -> list[int]:
    """Draw `count` whole numbers from low to high, both included."""
    return torch.randint(low, high + 1, (count,), generator=generator).tolist()


def matrix(M: int, N: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """Return a function that draws x (M, N). layout: "one row" or "one column", expanded, or one of course_lib.exercises.cases.laid_out."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device).to(dtype)

        if layout == "one row":
            return {"x": values[:1].clone().expand(M, N)}
        if layout == "one column":
            return {"x": values[:, :1].clone().expand(M, N)}
        return {"x": laid_out(values, layout)}

    return draw


def tokens(B: int, S: int, heads: int, D: int, dtype: torch.dtype = torch.float32, *, sequence_first=False):
    """Return a function that draws x (B, S, heads * D) and the number of heads. sequence_first: x is a view of (S, B, heads * D)."""

    def draw(generator: torch.Generator) -> dict[str, Any]:
        x = torch.randn(B, S, heads * D, generator=generator, device=generator.device).to(dtype)
        return {"x": laid_out(x, "heads" if sequence_first else "rows"), "heads": heads}

    return draw
