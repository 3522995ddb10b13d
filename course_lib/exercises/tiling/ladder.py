"""The ladder to a matmul: a loop along K without a product, one masked step with it, and what each rung moves."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.catalogue import say
from course_lib.criteria import GATES, Coalesced, Correct, Programs, Traffic, correct, sum_budget
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import FP16, FP32, Drawing, cases_of, fixed
from course_lib.exercises.coalescing import cases as coalescing
from course_lib.exercises.coalescing.mistakes import added_in_float16, one_element_apart
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.tiling.cases import factors
from course_lib.exercises.tiling.oracles import in_float32, product
from course_lib.mistakes import on_race
from tritontrace.tracing import Trace, trace

# ------------------------------------------------------------------------------------------------ the loop along K


def matrix(M: int, K: int, dtype: torch.dtype = FP32, **how: Any) -> Drawing:
    """Draw a (M, K) as unit 04 draws x."""
    drawing = coalescing.matrix(M, K, dtype, **how)
    return Drawing(drawing.name, lambda g: {"a": drawing(g)["x"]})


def sums(a: torch.Tensor) -> torch.Tensor:
    """Compute the sum of each row, (M,) float32, in float64."""
    return a.double().sum(1).float()


def last_blocks(side: int):
    """Make the wrong formula that sums the last block of columns alone."""
    return lambda a: a[:, (a.shape[1] - 1) // side * side :].double().sum(1) if a.shape[1] > side else None


def first_blocks(side: int):
    """Make the wrong formula in which each step adds the first block of columns."""
    return lambda a: -(-a.shape[1] // side) * a[:, :side].double().sum(1)


def all_but_the_first(side: int):
    """Make the wrong formula that leaves the first block of columns out."""
    return lambda a: a[:, side:].double().sum(1)


def windows(side: int):
    """Make the wrong formula in which each step begins one column after the step before."""
    return lambda a: sum(a[:, start : start + side].double().sum(1) for start in range(-(-a.shape[1] // side)))


def sums_of_blocks(height: int):
    """Make the wrong formula in which each row of a block has the sum of all its rows."""
    return lambda a: torch.cat([part.sum().expand(len(part)) for part in a.double().split(height)])


def first_block(side: int):
    """Make the wrong formula that sums the first block of columns alone, or every `side`-th block from it on."""
    return lambda a: sum(a[:, start : start + side].double().sum(1) for start in range(0, a.shape[1], side * side))


def one_apart(a: torch.Tensor) -> torch.Tensor | None:
    """Sum rows of which each begins one element after the one before it; None where they reach between the rows, as others do."""
    wrong = one_element_apart(a).double().sum(1)
    return None if wrong.isnan().any() else wrong


SUMS = sum_budget(lambda a: a.double().abs().sum(1), lambda a: a.shape[1])


def packed(a: torch.Tensor) -> torch.Tensor:
    """Sum rows that are taken to follow one another."""
    return a.as_strided(a.shape, (a.shape[1], 1)).double().sum(1)


row_sums = Exercise(
    id="tiling.row_sums",
    signature="row_sums(a: (M, K), column stride 1) -> (M,) float32",
    effort=Effort(minutes=15, lines=9, difficulty=2),
    cases=cases_of(
        plain=[matrix(64, 512)],
        ragged=[matrix(1, 1), matrix(37, 300), matrix(5, 5001), matrix(130, 77, layout="window")],
        float16=[matrix(40, 3001, FP16, mean=1.0)],
        performance=[matrix(512, 1024), matrix(256, 2048, FP16)],
    ),
    oracle=sums,
    budget=SUMS,
    gates=GATES,
    criteria=[
        *correct("tiling.row_sums", {"ragged": 3, "float16": 1}),
        Coalesced("load", 1),
        Traffic(lambda a: a.nbytes + 4 * len(a), 1, title=say("tiling.row_sums.title_traffic"), once=True),
    ],
    mistakes=[
        *(
            Misconception(last_blocks(side), say("tiling.row_sums.the_last_block_alone"), sums)
            for side in (32, 64, 128, 256)
        ),
        *(
            Misconception([slip(2**k) for k in powers], says, sums, each=True, strict=True)
            for slip, powers, says in (
                (first_blocks, range(4, 11), say("tiling.row_sums.the_first_block_each_time")),
                (all_but_the_first, range(4, 11), say("tiling.row_sums.the_first_block_is_missing")),
                (windows, range(4, 11), say("tiling.row_sums.windows_overlap")),
                (sums_of_blocks, range(9), say("tiling.row_sums.the_whole_block")),
                (first_block, range(4, 11), say("tiling.row_sums.the_first_block_alone")),
            )
        ),
        Misconception(lambda a: a.double().mean(1), say("tiling.row_sums.the_mean"), sums, each=True),
        Misconception(packed, say("tiling.row_sums.packed_rows"), sums),
        Misconception(one_apart, say("tiling.row_sums.one_element_apart"), sums, each=True),
        added_in_float16(SUMS, say("tiling.row_sums.adds_in_float16"), axis=1),
        on_race(say("tiling.row_sums.one_sum_of_several")),
    ],
)

# ------------------------------------------------------------------------------------------------ one step with a product

one_step = Exercise(
    id="tiling.one_step",
    signature="one_step(a: (M, K), b: (K, N), contiguous float16, K at most 64) -> (M, N)",
    effort=Effort(minutes=15, lines=16, difficulty=3),
    cases=[
        Case("64 x 64 x 64", "plain", factors(64, 64, 64, FP16)),
        Case("1 x 1 x 1", "ragged", factors(1, 1, 1, FP16)),
        Case("100 x 70 x 64", "ragged", factors(100, 70, 64, FP16)),
        Case("33 x 130 x 64, whole numbers", "ragged", factors(33, 130, 64, FP16, whole=True)),
        Case("64 x 64 x 20", "short", factors(64, 64, 20, FP16)),
        Case("50 x 90 x 7", "short", factors(50, 90, 7, FP16)),
        Case("70 x 40 x 33, whole numbers", "short", factors(70, 40, 33, FP16, whole=True)),
        Case("1000 x 40 x 64", "tall", factors(1000, 40, 64, FP16)),
    ],
    oracle=product,
    budget=in_float32,
    gates=GATES,
    criteria=[
        *correct("tiling.one_step", {"ragged": 2, "short": 2}),
        Programs(8, 1),
    ],
)

# ------------------------------------------------------------------------------------------------ what each rung moves


@triton.jit
def naive(a_ptr, b_ptr, c_ptr, N, K, BLOCK_K: tl.constexpr):
    """Compute one element of c in each program: a row of a, times a column of b."""
    m, n = tl.program_id(0), tl.program_id(1)
    acc = 0.0
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        acc += tl.sum(tl.load(a_ptr + m * K + k).to(tl.float32) * tl.load(b_ptr + k * N + n).to(tl.float32))
    tl.store(c_ptr + m * N + n, acc.to(c_ptr.dtype.element_ty))  # pyright: ignore[reportAttributeAccessIssue] - a scalar has it


@triton.jit
def strip(a_ptr, b_ptr, c_ptr, N, K, BLOCK_N: tl.constexpr):
    """Compute a strip of a row of c in each program: one number of a, times a piece of a row of b, for each k."""
    m, cols = tl.program_id(0), tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_N,), tl.float32)
    for k in range(0, K):
        acc += tl.load(a_ptr + m * K + k).to(tl.float32) * tl.load(b_ptr + k * N + cols).to(tl.float32)
    tl.store(c_ptr + m * N + cols, acc.to(c_ptr.dtype.element_ty))


@triton.jit
def tile(a_ptr, b_ptr, c_ptr, N, K, BLOCK: tl.constexpr):
    """Compute a square tile of c in each program."""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        acc = tl.dot(tl.load(a_ptr + rows * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + cols), acc)
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty))


SIDE = 128


def rungs() -> dict[str, Trace]:
    """Trace each rung of the ladder of kernels, on 128 x 128 halves."""
    found = {}
    for name, launch in {
        "naive": lambda a, b, c: naive[(SIDE, SIDE)](a, b, c, SIDE, SIDE, BLOCK_K=64),  # pyright: ignore[reportArgumentType]
        "strips": lambda a, b, c: strip[(SIDE, SIDE // 64)](a, b, c, SIDE, SIDE, BLOCK_N=64),  # pyright: ignore[reportArgumentType]
        "tiles": lambda a, b, c: tile[(SIDE // 32, SIDE // 32)](a, b, c, SIDE, SIDE, BLOCK=32),  # pyright: ignore[reportArgumentType]
    }.items():
        a, b, c = (torch.ones(SIDE, SIDE, dtype=torch.float16) for _ in range(3))
        with trace() as t:
            launch(a, b, c)
        found[name] = t
    return found


def ladder_counted() -> dict[str, int]:
    """Return the right answers about the rungs, by the names that the exercise uses."""
    found = rungs()
    return {
        "times a is read, naive": int(found["naive"].reread("a_ptr")),
        "times b is read, naive": int(found["naive"].reread("b_ptr")),
        "sectors of a load of b, naive": found["naive"].accesses_to("b_ptr", "load").sectors
        // found["naive"].accesses_to("b_ptr", "load").instructions,
        "times a is read, strips of 64": int(found["strips"].reread("a_ptr")),
        "times b is read, strips of 64": int(found["strips"].reread("b_ptr")),
        "times a is read, tiles of 32": int(found["tiles"].reread("a_ptr")),
        "bytes in all, tiles of 32": found["tiles"].bytes,
    }


ladder = Exercise(
    id="tiling.ladder",
    signature="predicted_ladder: dict[str, int]",
    kind="values",
    effort=Effort(minutes=12, lines=7, difficulty=3),
    track="more",
    kernels=[naive, strip, tile],
    cases=[fixed("three rungs", "plain")],
    oracle=ladder_counted,
    criteria=[Correct("plain", 7, say("tiling.ladder.title_plain"))],
)
