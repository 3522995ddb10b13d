"""What the exercises of unit 01 are given."""

from __future__ import annotations

import math
from typing import Any

import torch


def integers(generator: torch.Generator, low: int, high: int, count: int) -> list[int]:
    """`count` whole numbers from low to high, both included."""
    return torch.randint(low, high + 1, (count,), generator=generator).tolist()


def matrix(M: int, N: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """A drawing of x (M, N). layout: "rows" is contiguous; "columns" is transposed; "window" lies inside a larger matrix and
    "steps" is every second row and third column of one, full of NaN elsewhere; "one row" and "one column" are expanded."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device).to(dtype)

        def inside(rows: slice, columns: slice) -> torch.Tensor:
            around = torch.full((2 * M + 3, 3 * N + 8), math.nan, dtype=dtype, device=generator.device)
            around[rows, columns] = values
            return around[rows, columns]

        match layout:
            case "columns":
                values = values.T.contiguous().T
            case "window":
                values = inside(slice(2, 2 + M), slice(5, 5 + N))
            case "steps":
                values = inside(slice(1, 1 + 2 * M, 2), slice(2, 2 + 3 * N, 3))
            case "one row":
                values = values[:1].clone().expand(M, N)
            case "one column":
                values = values[:, :1].clone().expand(M, N)
        return {"x": values}

    return draw


def tokens(B: int, S: int, heads: int, D: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """A drawing of x (B, S, heads * D) and the number of heads. layout "sequence first" is a view of (S, B, heads * D)."""

    def draw(generator: torch.Generator) -> dict[str, Any]:
        x = torch.randn(B, S, heads * D, generator=generator, device=generator.device).to(dtype)
        if layout == "sequence first":
            x = x.transpose(0, 1).contiguous().transpose(0, 1)
        return {"x": x, "heads": heads}

    return draw
