"""Unit 14: mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

from collections.abc import Callable

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Traffic, copy_bytes, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, fixed
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.sm.cases import factors, matrix, multiply_adds
from course_lib.exercises.sm.criteria import GATES, Overlapped, SharedBytes, Uses
from course_lib.exercises.sm.gluon import STAGES, SUMS, TILE, read_bytes, sum_of_columns
from course_lib.exercises.sm.mistakes import lesson
from course_lib.exercises.tiling.oracles import in_float32, product
from course_lib.mistakes import every

BARRIERS = 256  # bytes: more than a ring's barriers take

# ----------------------------------------------------------------------------------------------- barriers, TMA, wgmma


def turns(i: int, SIZE: int) -> tuple[int, int, int]:
    """Return (slot, parity of the wait for full, parity of the wait for empty) of step i, by counting phases one after another."""
    opened_full, opened_empty = [0] * SIZE, [0] * SIZE
    for j in range(i):  # tile j was filled, and read
        opened_full[j % SIZE] += 1
        opened_empty[j % SIZE] += 1
    slot = sum(opened_full) % SIZE
    return slot, opened_full[slot] % 2, (opened_empty[slot] + 1) % 2


phase_of = Exercise(
    id="hopper.phase_of",
    signature="phase_of(i: int, SIZE: int) -> (slot, parity of the reader's wait, parity of the writer's wait)",
    kind="formula",
    effort=Effort(minutes=10, lines=1, difficulty=2),
    cases=[
        *(fixed(f"tile {i} of a ring of 2", "two", i=i, SIZE=2) for i in (0, 1, 2, 3, 4, 9)),
        *(
            fixed(f"tile {i} of a ring of {size}", "other", i=i, SIZE=size)
            for i, size in ((3, 3), (8, 3), (7, 4), (17, 4), (5, 1), (6, 1))
        ),
    ],
    oracle=turns,
    criteria=correct("hopper.phase_of", {"two": 1, "other": 2}),
    mistakes=[
        every(lambda output, i, SIZE: tuple(output)[1] == i % 2, say("hopper.phase_of.parity_of_the_tile")),
        every(
            lambda output, i, SIZE: tuple(output)[1:] == turns(i, SIZE)[:0:-1],
            say("hopper.phase_of.reader_and_writer_swapped"),
        ),
        every(
            lambda output, i, SIZE: tuple(output)[1:] == 2 * turns(i, SIZE)[1:2],
            say("hopper.phase_of.one_parity_for_both"),
        ),
        every(
            lambda output, i, SIZE: tuple(output)[1:] == (i // SIZE, i // SIZE + 1),
            say("hopper.phase_of.numbers_of_phases"),
        ),
    ],
)

ring_column_sum = Exercise(
    id="hopper.ring_column_sum",
    signature="ring_column_sum(x: (M, N) float16 or bfloat16, rows a multiple of 16 bytes apart) -> (N,) float32",
    effort=Effort(minutes=45, lines=34, difficulty=4),
    language="Gluon",
    cases=[
        Case("640 x 64", "plain", matrix(640, 64)),
        Case("600 x 72", "ragged", matrix(600, 72)),
        Case("1 x 8", "ragged", matrix(1, 8)),
        Case("577 x 64, bfloat16, rows apart", "ragged", matrix(577, 64, BF16, spare=8)),
        Case("1024 x 128", "performance", matrix(1024, 128)),
    ],
    oracle=sum_of_columns,
    budget=SUMS,
    gates=GATES,
    criteria=[
        Correct("ragged", 2, say("hopper.ring_column_sum.title_ragged")),
        Uses("TMA load", 1),
        Traffic(read_bytes, 1, title=say("hopper.ring_column_sum.title_traffic"), programs=2),
        Overlapped(0.7, 2),
        SharedBytes(lambda x: STAGES * TILE * TILE * 2 + BARRIERS, 1, say("hopper.ring_column_sum.title_shared_bytes")),
    ],
    mistakes=[lesson],
)

# ----------------------------------------------------------------------------------------------- TMA, wgmma

tma_copy = Exercise(
    id="hopper.tma_copy",
    signature="tma_copy(x: (M, N), float16 or bfloat16, N a multiple of 8, rows a multiple of 16 bytes apart) -> (M, N)",
    effort=Effort(minutes=25, lines=16, difficulty=3),
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
        *correct("hopper.tma_copy", {"ragged": 1, "strided": 1}),
        Uses("TMA load", 1),
        Uses("TMA store", 1),
        Traffic(copy_bytes, 1),
    ],
    mistakes=[lesson],
)


def tiled_bytes(a: torch.Tensor, b: torch.Tensor) -> int:
    """Count the bytes that programs with tiles of 64 x 64 read and write: a once for each column of tiles, b once for each row."""
    (M, _), N = a.shape, b.shape[1]
    return 2 * (a.numel() * -(-N // TILE) + b.numel() * -(-M // TILE)) + 4 * M * N


def of_steps(part: Callable[..., torch.Tensor], whole: bool = False) -> Callable[..., torch.Tensor | None]:
    """Make a wrong product: the sum of part(a, b, i), float64, over the steps i of 64 along K; None where all is one step. whole: without a
    last step that K does not fill."""

    def wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor | None:
        K = a.shape[1]
        if K <= TILE or (whole and K % TILE == 0):
            return None
        found = [part(a.double(), b.double(), i) for i in range(K // TILE if whole else -(-K // TILE))]
        return torch.stack(found).sum(0)

    return wrong


def step(a: torch.Tensor, b: torch.Tensor, i: int) -> torch.Tensor:
    """Return what step i along K adds to the product."""
    return a[:, TILE * i : TILE * (i + 1)] @ b[TILE * i : TILE * (i + 1)]


def swapped_coordinates(a: torch.Tensor, b: torch.Tensor, i: int) -> torch.Tensor:
    """Return what step i adds if the tile of b is read with row and column swapped, zeros outside of b."""
    N = b.shape[1]
    found = torch.zeros(len(a), N, dtype=torch.float64)
    for col in range(0, N, TILE):
        tile = torch.zeros(TILE, TILE, dtype=torch.float64)
        there = b[col : col + TILE, TILE * i : TILE * (i + 1)]
        tile[: there.shape[0], : there.shape[1]] = there
        rows = a[:, TILE * i : TILE * (i + 1)]
        found[:, col : col + TILE] = (rows @ tile[: rows.shape[1]])[:, : N - col]
    return found


WRONG_STEPS = {
    "only_whole_steps": of_steps(step, whole=True),
    "one_step_alone": of_steps(lambda a, b, i: step(a, b, i) * (i == (a.shape[1] - 1) // TILE)),
    "coordinates_of_tiles": of_steps(lambda a, b, i: a[:, i : i + TILE] @ b[i : i + TILE]),
    "coordinates_swapped": of_steps(swapped_coordinates),
}
"""The id of a sentence -> the product that this mistake makes."""

wgmma_matmul = Exercise(
    id="hopper.wgmma_matmul",
    signature="wgmma_matmul(a: (M, K), b: (K, N), float16 or bfloat16, contiguous, rows a multiple of 16 bytes) -> (M, N) float32",
    effort=Effort(minutes=35, lines=28, difficulty=4),
    language="Gluon",
    cases=[
        Case("128 x 128 x 256", "plain", factors(128, 128, 256)),
        Case("100 x 72 x 200", "ragged", factors(100, 72, 200)),
        Case("1 x 8 x 8", "ragged", factors(1, 8, 8)),
        Case("64 x 64 x 72, bfloat16", "ragged", factors(64, 64, 72, BF16)),
        Case("128 x 128 x 512", "performance", factors(128, 128, 512)),
    ],
    oracle=lambda a, b: product(a, b).float(),
    budget=in_float32,
    gates=GATES,
    criteria=[
        Correct("ragged", 2, say("hopper.wgmma_matmul.title_ragged")),
        Uses("TMA load", 1),
        Uses("wgmma", 2, needs=multiply_adds),
        Traffic(tiled_bytes, 1, title=say("hopper.wgmma_matmul.title_traffic"), programs=2),
    ],
    mistakes=[
        lesson,
        *(
            Misconception(wrong, say(f"hopper.wgmma_matmul.{name}"), each=True, strict=True)
            for name, wrong in WRONG_STEPS.items()
        ),
    ],
)

EXERCISES: tuple[Exercise, ...] = (phase_of, tma_copy, ring_column_sum, wgmma_matmul)
