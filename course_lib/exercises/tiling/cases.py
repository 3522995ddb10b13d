"""Cases of unit 05's exercises."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed, laid_out


def factors(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype = torch.float32,
    *,
    batch: int = 0,
    shared: bool = False,
    layout: str = "rows",
    mean: float = 0.0,
    whole: bool = False,
):
    """Return a function that draws a (M, K) and b (K, N), or batches of them: normal around `mean`, or whole numbers from -3 to 3.

    shared: there is one b for all of a batch. layout, else of b too: see course_lib.exercises.cases.laid_out.
    """

    def one(generator: torch.Generator, rows: int, columns: int, share: bool) -> torch.Tensor:
        place: dict[str, Any] = dict(generator=generator, device=generator.device)
        lead = () if not batch else (1,) if share else (batch,)
        if whole:
            values = torch.randint(-3, 4, (*lead, rows, columns), **place).to(dtype)
        else:
            values = torch.randn(*lead, rows, columns, **place).add_(mean).to(dtype)
        return values.expand(batch, -1, -1) if share else laid_out(values, layout)

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"a": one(generator, M, K, False), "b": one(generator, K, N, shared)}

    return draw


def tiled(M: int, N: int, K: int, bm: int, bn: int, bk: int):
    """Return a function that draws what `factors` does, with the sides of a tile."""
    return lambda g: factors(M, N, K)(g) | {"bm": bm, "bn": bn, "bk": bk}


def in_shares(
    M: int,
    N: int,
    K: int,
    splits: int,
    dtype: torch.dtype = torch.float32,
    *,
    turning: bool = False,
    whole: bool = False,
):
    """Return a function that draws what `factors` does, with splits. turning: around 3, but a around -3 from mid K on: parts cancel."""

    def draw(generator: torch.Generator) -> dict[str, Any]:
        given = factors(M, N, K, dtype, mean=3.0 if turning else 0.0, whole=whole)(generator)
        if turning:
            given["a"][:, K // 2 :] *= -1
        return given | {"splits": splits}

    return draw


H200 = {"sms": 132, "flops_per_second": 672e12, "bytes_per_second": 4.25e12, "launch_seconds": 5e-6}
A100 = {"sms": 108, "flops_per_second": 250e12, "bytes_per_second": 1.7e12, "launch_seconds": 4e-6}
SLOW = {"sms": 40, "flops_per_second": 50e12, "bytes_per_second": 0.02e12, "launch_seconds": 2e-6}


def order_case(title: str, group_of: str, grid_m: int, grid_n: int, group: int) -> Case:
    """Make a case about the order of a grid of tiles."""
    return fixed(title, group_of, programs=grid_m * grid_n, grid_m=grid_m, grid_n=grid_n, group=group)
