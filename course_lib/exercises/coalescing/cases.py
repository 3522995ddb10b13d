"""Cases of unit 04's exercises."""

from __future__ import annotations

import torch

from course_lib.exercises.cases import laid_out

DTYPES = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}


def matrix(M: int, N: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows", mean: float = 0.0):
    """Return a function that draws x (M, N), normal around `mean`; layout: see course_lib.exercises.cases.laid_out."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device).add_(mean).to(dtype)
        return {"x": laid_out(values, layout)}

    return draw


def matrix_and_index(M: int, N: int, K: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """Return a function that draws x (M, N) and index (K,): row numbers, no two alike where K <= M allows it."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        order = torch.randperm(max(M, K), generator=generator, device=generator.device)[:K] % M
        return matrix(M, N, dtype, layout=layout)(generator) | {"index": order}

    return draw


def vector(length: int, dtype: torch.dtype = torch.float32):
    """Return a function that draws x (length,)."""
    return lambda g: {"x": torch.randn(length, generator=g, device=g.device).to(dtype)}


def read_bytes(x: torch.Tensor) -> int:
    """Bytes of every element, read once; the result is small."""
    return x.numel() * x.element_size()


def gather_bytes(x: torch.Tensor, index: torch.Tensor) -> int:
    """Bytes of K rows, read and written, and of the index, read."""
    return index.numel() * (2 * x.shape[1] * x.element_size() + index.element_size())
