"""Cases of unit 04's exercises."""

from __future__ import annotations

import torch

from course_lib.exercises.cases import FP32, Drawing, laid_out, named_by

LAYOUTS = {"rows": "", "columns": "column-major", "window": "a window", "apart": "rows apart"}
DTYPES = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}


def matrix(M: int, N: int, dtype: torch.dtype = FP32, *, layout: str = "rows", mean: float = 0.0) -> Drawing:
    """Draw x (M, N), normal around `mean`; layout: see course_lib.exercises.cases.laid_out."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device).add_(mean).to(dtype)
        return {"x": laid_out(values, layout)}

    return Drawing(named_by(f"{M} x {N}{f' around {mean:g}' if mean else ''}", dtype, LAYOUTS[layout]), draw)


def matrix_and_index(M: int, N: int, K: int, dtype: torch.dtype = FP32, *, layout: str = "rows") -> Drawing:
    """Draw x (M, N) and index (K,): row numbers, no two alike where K <= M allows it."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        order = torch.randperm(max(M, K), generator=generator, device=generator.device)[:K] % M
        return matrix(M, N, dtype, layout=layout)(generator) | {"index": order}

    return Drawing(named_by(f"{K} of {M} rows of {N}", dtype, LAYOUTS[layout]), draw)


def pairs(N: int, dtype: torch.dtype = FP32) -> Drawing:
    """Draw x (2 N,)."""
    return Drawing(
        named_by(f"2 x {N}", dtype), lambda g: {"x": torch.randn(2 * N, generator=g, device=g.device).to(dtype)}
    )


def read_bytes(x: torch.Tensor) -> int:
    """Count the bytes of every element, read once; the result is small."""
    return x.numel() * x.element_size()


def gather_bytes(x: torch.Tensor, index: torch.Tensor) -> int:
    """Count the bytes of K rows, read and written, and of the index, read."""
    return index.numel() * (2 * x.shape[1] * x.element_size() + index.element_size())
