"""Unit 12: layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import torch

from course_lib.criteria import Correct, Traffic, copy_bytes, sum_budget
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import BF16, FP32, fixed
from course_lib.exercises.hopper.cases import factors, matrix, multiply_adds
from course_lib.exercises.hopper.criteria import GATES, NoConflicts, Overlapped, SharedBytes, Uses
from course_lib.exercises.hopper.mistakes import lesson
from course_lib.exercises.tiling.oracles import in_float32, product
from course_lib.mistakes import every

TILE = 64  # rows and columns of a tile
BARRIERS = 256  # bytes: more than a ring's barriers take


# ----------------------------------------------------------------------------------------------- who holds what


def blocked(row: int, col: int, size: list, threads: list, warps: list, order: list, shape: list) -> dict[str, Any]:
    """The arguments of `holder`: an element, and a BlockedLayout of a block of that shape."""
    return {
        "row": row,
        "col": col,
        "size_per_thread": size,
        "threads_per_warp": threads,
        "warps_per_cta": warps,
        "order": order,
        "shape": shape,
    }


def holding(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape) -> tuple[int, int, int]:
    """(warp, lane, register) of an element: looked up in what Triton says that each register of each lane holds."""
    return holders(*map(tuple, (size_per_thread, threads_per_warp, warps_per_cta, order, shape)))[row, col]


@cache
def holders(size: tuple, threads: tuple, warps: tuple, order: tuple, shape: tuple) -> dict[tuple, tuple]:
    """Element -> who holds it, for a whole block."""
    from triton.experimental.gluon import language as gl  # which an older Triton lacks

    from course_lib.hopper.banks import held_by

    return held_by(gl.BlockedLayout(*map(list, (size, threads, warps, order))), shape)


ROWS = ([1, 8], [4, 8], [4, 1], [1, 0], [64, 64])
COLUMNS = ([2, 2], [8, 4], [2, 2], [0, 1], [64, 32])
SMALL = ([1, 2], [2, 16], [1, 4], [1, 0], [2, 128])


def _swapped(output: Any, **arguments: Any) -> bool:
    turned = holding(**arguments | {"order": arguments["order"][::-1]})
    return tuple(output) == turned


def _repetitions_first(output: Any, **arguments: Any) -> bool:
    warp, lane, register = holding(**arguments)
    together = prod(arguments["size_per_thread"])
    covered = together * prod(arguments["threads_per_warp"]) * prod(arguments["warps_per_cta"])
    again = prod(arguments["shape"]) // covered
    return tuple(output) == (warp, lane, register % together * again + register // together)


def _no_repetitions(output: Any, **arguments: Any) -> bool:
    warp, lane, register = holding(**arguments)
    return tuple(output) == (warp, lane, register % prod(arguments["size_per_thread"]))


holder = Exercise(
    id="hopper.holder",
    entry="holder",
    signature="holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape) -> (warp, lane, register)",
    kind="formula",
    minutes=25,
    difficulty=3,
    lines=12,
    cases=[
        *(
            fixed(f"rows, element ({i}, {j})", "once", **blocked(i, j, *SMALL))
            for i, j in ((0, 0), (0, 1), (1, 33), (1, 127))
        ),
        *(
            fixed(f"rows, element ({i}, {j})", "again", **blocked(i, j, *ROWS))
            for i, j in ((0, 7), (17, 9), (40, 63), (63, 56))
        ),
        *(
            fixed(f"columns, element ({i}, {j})", "columns", **blocked(i, j, *COLUMNS))
            for i, j in ((1, 0), (0, 1), (35, 19), (63, 31))
        ),
    ],
    oracle=holding,
    criteria=[
        Correct("once", 1, "right if the layout covers the block once"),
        Correct("again", 2, "right where it is repeated"),
        Correct("columns", 2, "right if the order is [0, 1]"),
    ],
    hints=[
        "Take the two axes one after the other. Along one axis an index has four digits: the place within a thread, the lane, the warp "
        "and the repetition. How do you get each of them?",
        "Divide with remainder by size_per_thread, then by threads_per_warp, then by warps_per_cta. The last quotient counts repetitions.",
        "The axis order[0] comes first: lane = lane0 + threads_per_warp[order[0]] * lane1, and warps are counted likewise. For registers, "
        "count the elements within a thread first, and then the repetitions, both along order[0] first.",
    ],
    mistakes=[
        every(_swapped, "order[0] is the axis that changes fastest, not the slowest."),
        every(
            _repetitions_first,
            "The registers are numbered the other way. The elements that lie together come first, and each repetition adds as many.",
        ),
        every(
            _no_repetitions,
            "If the layout is repeated, a lane holds a piece for each repetition, in further registers.",
        ),
    ],
)

# ----------------------------------------------------------------------------------------------- banks


shared_transpose = Exercise(
    id="hopper.shared_transpose",
    entry="shared_transpose",
    signature="shared_transpose(x: (M, N) float32, contiguous) -> (N, M), contiguous",
    minutes=30,
    difficulty=3,
    lines=16,
    language="Gluon",
    cases=[
        Case("128 x 128", "plain", matrix(128, 128, FP32)),
        Case("100 x 70", "ragged", matrix(100, 70, FP32)),
        Case("1 x 33", "ragged", matrix(1, 33, FP32)),
        Case("512 x 256", "performance", matrix(512, 256, FP32)),
    ],
    oracle=lambda x: x.T.double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 1, "right at the edges"),
        NoConflicts(3),
        SharedBytes(lambda x: TILE * TILE * 4 + 1024, 1, "a tile of at most 64 x 64 in shared memory"),
        Traffic(copy_bytes, 1),
    ],
    hints=[
        "The lanes of a warp go down a column of a tile with rows of 64 floats. So they are 64 words apart. How many of the 32 banks do "
        "they use?",
        "Write rows into the tile. tile.permute((1, 0)) is the same memory, transposed, so a load from it reads columns. Put barrier() "
        "between the two, because a thread reads what other threads wrote.",
        "gl.SwizzledSharedLayout(vec, per_phase, max_phase, [1, 0]): row r keeps its groups of vec elements in the places XOR "
        "(r // per_phase % max_phase). With a layout in which a warp reads one row of 32, which vec and max_phase put the 32 elements of a "
        "column into 32 banks?",
    ],
    mistakes=[lesson],
)

# ----------------------------------------------------------------------------------------------- rings


def _sum_of_columns(x: torch.Tensor) -> torch.Tensor:
    return x.double().sum(0).float()


SUMS = sum_budget(lambda x: x.double().abs().sum(0), lambda x: x.shape[0])
STAGES = 4  # tiles of 64 x 64 that a ring may hold


def read_bytes(x: torch.Tensor) -> int:
    """Bytes of every element, and of the sums."""
    return x.numel() * x.element_size() + 4 * x.shape[1]


async_column_sum = Exercise(
    id="hopper.async_column_sum",
    entry="async_column_sum",
    signature="async_column_sum(x: (M, N) float32, contiguous) -> (N,) float32",
    minutes=35,
    difficulty=4,
    lines=28,
    language="Gluon",
    cases=[
        Case("320 x 64", "plain", matrix(320, 64, FP32)),
        Case("333 x 70", "ragged", matrix(333, 70, FP32)),
        Case("1 x 40", "ragged", matrix(1, 40, FP32)),
        Case("31 x 31", "ragged", matrix(31, 31, FP32)),
        Case("512 x 256", "performance", matrix(512, 256, FP32)),
    ],
    oracle=_sum_of_columns,
    budget=SUMS,
    gates=GATES,
    criteria=[
        Correct("ragged", 2, "right at the edges, and with few tiles"),
        Uses("cp.async", 1),
        Traffic(read_bytes, 1, title="each element is read once", programs=2),
        Overlapped(0.7, 2),
        SharedBytes(lambda x: STAGES * TILE * TILE * 4, 1, "at most 64 KiB of shared memory"),
    ],
    hints=[
        "Which copies must have ended before tile i may be read, and which may still be under way?",
        "Commit one group for each turn, even an empty one after the last tile. Then wait_group(STAGES - 2) always means that tile i has "
        "come.",
        "for i in range(steps): wait_group(STAGES - 2); barrier(); start tile i + STAGES - 1 and commit; add tile i % STAGES. After the "
        "barrier, all threads have also read the tile whose place is filled next.",
    ],
    mistakes=[lesson],
)


def turns(i: int, SIZE: int) -> tuple[int, int, int]:
    """(slot, parity of the wait for full, parity of the wait for empty), by counting phases one after another."""
    opened_full, opened_empty = [0] * SIZE, [0] * SIZE
    for j in range(i):  # tile j was filled, and read
        opened_full[j % SIZE] += 1
        opened_empty[j % SIZE] += 1
    slot = sum(opened_full) % SIZE
    return slot, opened_full[slot] % 2, (opened_empty[slot] + 1) % 2


phase_of = Exercise(
    id="hopper.phase_of",
    entry="phase_of",
    signature="phase_of(i: int, SIZE: int) -> (slot, parity of the reader's wait, parity of the writer's wait)",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=1,
    cases=[
        *(fixed(f"tile {i} of a ring of 2", "two", i=i, SIZE=2) for i in (0, 1, 2, 3, 4, 9)),
        *(
            fixed(f"tile {i} of a ring of {size}", "other", i=i, SIZE=size)
            for i, size in ((3, 3), (8, 3), (7, 4), (17, 4), (5, 1), (6, 1))
        ),
    ],
    oracle=turns,
    criteria=[Correct("two", 1, "a ring of 2"), Correct("other", 2, "rings of other sizes")],
    hints=[
        "For a ring of 2, write down to which slot each of the tiles 0 to 4 goes, and how often this slot was filled before.",
        "Tile i uses its slot in round i // SIZE. The reader waits for the phase of this number, by its parity.",
        "The writer waits for the phase before, with parity (i // SIZE + 1) & 1. In the first round this is 1, and a wait for parity 1 of "
        "a barrier that has never opened passes at once.",
    ],
    mistakes=[
        every(
            lambda output, i, SIZE: tuple(output)[1] == i % 2,
            "A parity flips when the ring has gone round once, not with each tile.",
        ),
        every(
            lambda output, i, SIZE: tuple(output)[1:] == turns(i, SIZE)[:0:-1],
            "Reader and writer are swapped. In the first round the reader must wait, and the writer must not.",
        ),
        every(
            lambda output, i, SIZE: tuple(output)[1:] == 2 * turns(i, SIZE)[1:2],
            "The writer waits for another phase than the reader. It waits for the phase before, since the slot's last tile must have been "
            "read. In the first round there is no such tile, so its wait must pass at once.",
        ),
        every(
            lambda output, i, SIZE: tuple(output)[1:] == (i // SIZE, i // SIZE + 1),
            "These are the numbers of the phases, or of their successors. A wait takes a parity, which is one bit: & 1.",
        ),
    ],
)

ring_column_sum = Exercise(
    id="hopper.ring_column_sum",
    entry="ring_column_sum",
    signature="ring_column_sum(x: (M, N) float16 or bfloat16, rows a multiple of 16 bytes apart) -> (N,) float32",
    minutes=45,
    difficulty=4,
    lines=34,
    language="Gluon",
    cases=[
        Case("640 x 64", "plain", matrix(640, 64)),
        Case("600 x 72", "ragged", matrix(600, 72)),
        Case("1 x 8", "ragged", matrix(1, 8)),
        Case("577 x 64, bfloat16, rows apart", "ragged", matrix(577, 64, BF16, spare=8)),
        Case("1024 x 128", "performance", matrix(1024, 128)),
    ],
    oracle=_sum_of_columns,
    budget=SUMS,
    gates=GATES,
    criteria=[
        Correct("ragged", 2, "right at the edges, and with few tiles"),
        Uses("TMA load", 1),
        Traffic(read_bytes, 1, title="each element is read once", programs=2),
        Overlapped(0.7, 2),
        SharedBytes(lambda x: STAGES * TILE * TILE * 2 + BARRIERS, 1, "at most four tiles in shared memory"),
    ],
    hints=[
        "Each slot has two barriers. Which partition arrives at `full`, which at `empty`, and which waits for each of them?",
        "fetch waits for empty, expects the bytes at full, and starts the copy. add_up waits for full, loads, and arrives at empty. "
        "phase_of has the parities.",
        "gl.warp_specialize([(add_up, (...)), (fetch, (...))], [1], [24]): the first function runs on the kernel's four warps, the second "
        "on one more. Give both the ring, and the number of tiles.",
    ],
    mistakes=[lesson],
)

# ----------------------------------------------------------------------------------------------- TMA, wgmma

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
        Correct("ragged", 1, "right at the edges"),
        Correct("strided", 1, "right where rows lie apart"),
        Uses("TMA load", 1),
        Uses("TMA store", 1),
        Traffic(copy_bytes, 1),
    ],
    hints=[
        "In which order does a program tell the barrier how many bytes to expect, start the load, wait, and start the store? And for what "
        "must it wait before it ends?",
        "expect(barrier, nbytes), tma_load(desc, [row, col], barrier, tile), wait(barrier, 0), tma_store(desc, [row, col], tile).",
        "The last line of the kernel is store_wait(0). If a tile reaches past an edge, TMA fills in zeros, counts them as bytes that "
        "came, and stores none of them. So always expect x_desc.block_type.nbytes.",
    ],
    mistakes=[lesson],
)


def tiled_bytes(a: torch.Tensor, b: torch.Tensor) -> int:
    """Bytes that programs with tiles of 64 x 64 read and write: a once for each column of tiles, b once for each row."""
    (M, _), N = a.shape, b.shape[1]
    return 2 * (a.numel() * -(-N // TILE) + b.numel() * -(-M // TILE)) + 4 * M * N


wgmma_matmul = Exercise(
    id="hopper.wgmma_matmul",
    entry="wgmma_matmul",
    signature="wgmma_matmul(a: (M, K), b: (K, N), float16 or bfloat16, contiguous, rows a multiple of 16 bytes) -> (M, N) float32",
    minutes=35,
    difficulty=4,
    lines=28,
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
        Correct("ragged", 2, "right at the edges"),
        Uses("TMA load", 1),
        Uses("wgmma", 2, needs=multiply_adds),
        Traffic(tiled_bytes, 1, title="reads no more than tiles of 64 x 64 need", programs=2),
    ],
    hints=[
        "Where do the operands of a wgmma lie, and where does its accumulator lie? For which of them must you wait before mma, and for "
        "which after it?",
        "gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]): four warps, 16 of the 64 rows each. acc = mma(a, b, acc, is_async=True), "
        "then acc = mma_wait(0, deps=[acc]), and only then may TMA fill a and b again.",
        "One barrier serves both copies: expect the bytes of the two tiles together. Step i waits for parity i & 1. A K that is no "
        "multiple of 64 needs nothing special, since TMA fills in zeros.",
    ],
    mistakes=[lesson],
)

EXERCISES: tuple[Exercise, ...] = (
    holder,
    shared_transpose,
    async_column_sum,
    phase_of,
    tma_copy,
    ring_column_sum,
    wgmma_matmul,
)
