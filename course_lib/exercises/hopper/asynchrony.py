"""Unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

import torch

from course_lib.criteria import Correct, Traffic, copy_bytes
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import BF16, FP16
from course_lib.exercises.hopper.criteria import GATES, Uses

TILE = 64  # rows and columns of a tile


def matrix(M: int, N: int, dtype: torch.dtype = FP16, *, spare: int = 0):
    """A drawing of x (M, N), whose rows lie N + spare elements apart."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N + spare, generator=generator, device=generator.device).to(dtype)
        return {"x": values[:, :N]}

    return draw


tma_copy = Exercise(
    id="hopper.tma_copy",
    entry="tma_copy",
    signature="tma_copy(x: (M, N), float16 or bfloat16, rows a multiple of 16 bytes apart) -> (M, N), contiguous",
    minutes=25,
    difficulty=3,
    lines=16,
    language="Gluon",
    cases=[
        Case("128 x 128", "plain", matrix(128, 128)),
        Case("200 x 136", "ragged", matrix(200, 136)),
        Case("1 x 8", "ragged", matrix(1, 8)),
        Case("65 x 72, bfloat16", "ragged", matrix(65, 72, BF16)),
        Case("70 x 64, rows apart", "strided", matrix(70, 64, spare=40)),
        Case("256 x 512", "performance", matrix(256, 512)),
    ],
    oracle=lambda x: x.double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 2, "right at the edges"),
        Correct("strided", 1, "right where rows lie apart"),
        Uses("TMA load", 1),
        Uses("TMA store", 1),
        Traffic(copy_bytes, 1),
    ],
    hints=[
        "In what order: who tells the barrier how many bytes to wait for, who waits, and who must not leave before the store has read?",
        "expect(barrier, nbytes), tma_load(desc, [row, col], barrier, tile), wait(barrier, 0), tma_store(desc, [row, col], tile).",
        "The last line of the kernel is store_wait(0). Where a tile sticks out, TMA fills in zeros, counts them as bytes that came, and "
        "stores none of them: expect x_desc.block_type.nbytes everywhere.",
    ],
)

EXERCISES: tuple[Exercise, ...] = (tma_copy,)
