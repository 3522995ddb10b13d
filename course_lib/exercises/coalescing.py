"""Unit 04, memory coalescing."""

from __future__ import annotations

import math

import torch

from course_lib.criteria import Coalesced, Compiles, Correct, Speed, Traffic, TritonDidTheWork
from course_lib.exercise import Case, Exercise

GATES = (TritonDidTheWork(), Correct("plain"), Compiles())


def matrix(M: int, N: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """A drawing of x (M, N). layout: "rows" is contiguous; "columns" transposed; "window" a view inside a larger matrix
    full of NaN, so that an element read from outside shows."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device)
        if layout == "columns":
            return {"x": values.T.contiguous().T.to(dtype)}
        if layout == "window":
            around = torch.full((M + 3, N + 8), math.nan, dtype=dtype, device=generator.device)
            window = around[2 : 2 + M, 8 : 8 + N]
            window.copy_(values)
            return {"x": window}
        return {"x": values.to(dtype)}

    return draw


def copy_bytes(x: torch.Tensor) -> int:
    """Every element read once and written once."""
    return 2 * x.numel() * x.element_size()


transpose = Exercise(
    id="coalescing.transpose",
    entry="transpose",
    signature="transpose(x: (M, N), any strides) -> (N, M), contiguous",
    minutes=25,
    difficulty=3,
    lines=10,
    cases=[
        Case("64 x 128", "plain", matrix(64, 128), {"M": 64, "N": 128}),
        Case("1 x 1", "ragged", matrix(1, 1), {"M": 1, "N": 1}),
        Case("130 x 33", "ragged", matrix(130, 33), {"M": 130, "N": 33}),
        Case("7 x 200, float16", "ragged", matrix(7, 200, torch.float16), {"M": 7, "N": 200}),
        Case("70 x 41, column-major", "strided", matrix(70, 41, layout="columns"), {"M": 70, "N": 41}),
        Case("45 x 100, a window", "strided", matrix(45, 100, layout="window"), {"M": 45, "N": 100}),
        Case("512 x 512", "performance", matrix(512, 512), {"M": 512, "N": 512}),
        Case("256 x 512, float16", "performance", matrix(256, 512, torch.float16), {"M": 256, "N": 512}),
    ],
    oracle=lambda x: x.T.contiguous().double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 3),
        Correct("strided", 2),
        Coalesced("load", 2),
        Coalesced("store", 2),
        Traffic(copy_bytes, 1),
    ],
    bonus=[Speed("copy", Case("8192 x 8192", "speed", matrix(8192, 8192)), copy_bytes, full=0.8, none=0.5, points=2)],
    hints=[
        "What does each lane of your store write, and how far apart in memory are those elements? Count the sectors of one request.",
        "Give one program a two-dimensional tile: rows[:, None] and cols[None, :], with at least 32 of each.",
        "Load the tile with x's strides, then store it with out[n, m] at n * M + m: either index the store with "
        "cols[:, None] * M + rows[None, :] and store tile.T, or store tile at cols[None, :] * M + rows[:, None]. "
        "Both need the mask (rows < M) & (cols < N) in their own orientation.",
    ],
)

EXERCISES = {exercise.id: exercise for exercise in (transpose,)}
