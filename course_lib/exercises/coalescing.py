"""Unit 04, memory coalescing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.cases import integer, window
from course_lib.criteria import (
    GATES,
    Coalesced,
    Correct,
    Holds,
    Programs,
    Speed,
    Traffic,
    accesses,
    copy_bytes,
    sum_budget,
)
from course_lib.exercise import Case, Exercise, Trial
from course_lib.mistakes import Mistake, faulty
from course_lib.tracing import trace
from course_lib.words import in_words


def against_copy(name: str, draw: Callable, needed: Callable) -> Speed:
    """Extra credit for this unit's kernels: full at 0.8 of the speed of a device copy of the needed bytes."""
    return Speed("copy", Case(name, "speed", draw), needed, full=0.8, none=0.5, points=2)


DTYPES = {1: torch.int8, 2: torch.float16, 4: torch.float32, 8: torch.float64}

# ------------------------------------------------------------------------------------------------ inputs


def matrix(M: int, N: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows", shift: float = 0.0):
    """A drawing of x (M, N), normal around `shift`. layout: "rows" is contiguous; "columns" is transposed; "window" is a
    view into a larger matrix full of NaN, so that an element read from outside shows."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        values = torch.randn(M, N, generator=generator, device=generator.device).add_(shift).to(dtype)
        if layout == "columns":
            values = values.T.contiguous().T
        if layout == "window":
            values = window(values)
        return {"x": values}

    return draw


def matrix_and_index(M: int, N: int, K: int, dtype: torch.dtype = torch.float32, *, layout: str = "rows"):
    """A drawing of x (M, N) and index (K,): row numbers, no two alike where K <= M allows it."""

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        order = torch.randperm(max(M, K), generator=generator, device=generator.device)[:K] % M
        return matrix(M, N, dtype, layout=layout)(generator) | {"index": order}

    return draw


def vector(length: int, dtype: torch.dtype = torch.float32):
    """A drawing of x (length,)."""
    return lambda g: {"x": torch.randn(length, generator=g, device=g.device).to(dtype)}


def read_bytes(x: torch.Tensor) -> int:
    """Every element read once; the result is small."""
    return x.numel() * x.element_size()


def gather_bytes(x: torch.Tensor, index: torch.Tensor) -> int:
    """K rows read and written, and the index read."""
    return index.numel() * (2 * x.shape[1] * x.element_size() + index.element_size())


# ------------------------------------------------------------------------------------------------ oracles


@triton.jit
def probe(x_ptr, out_ptr, STEP: tl.constexpr, START: tl.constexpr, EVERY: tl.constexpr, LANES: tl.constexpr):
    """Lane i reads element i * STEP + START, if EVERY divides i."""
    i = tl.arange(0, LANES)
    x = tl.load(x_ptr + i * STEP + START, mask=i % EVERY == 0, other=0)
    tl.store(out_ptr + i, x)


@lru_cache(maxsize=256)  # a class asks for the same ones again and again
def traced(itemsize: int, *, step: int = 1, start: int = 0, every: int = 1, lanes: int = 1024):
    """The loads of the probe, as the trace counts them."""
    x = torch.ones(lanes * step + start, dtype=DTYPES[itemsize])
    with trace() as t:
        probe[(1,)](x, torch.empty(lanes, dtype=x.dtype), STEP=step, START=start, EVERY=every, LANES=lanes)
    return t.of("x_ptr", "load")


@triton.jit
def read_rows(x_ptr, out_ptr, n, row_stride, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row * BLOCK + i, tl.load(x_ptr + row * row_stride + i, mask=i < n, other=0))


def starts_sectors(output: Any, n: int, itemsize: int) -> str:
    """ "" if four rows of n elements, `output` apart, are read with the fewest sectors; else a sentence."""
    if type(output) is float and output.is_integer():
        output = int(output)  # math.ceil and np.ceil differ in this alone
    if type(output) is float:
        return f"for n = {n}, itemsize = {itemsize}: {in_words(output)} is no row stride, a whole number: divide with //, not with /"
    if type(output) is not int or not n <= output <= 2 * n + 64:
        return (
            f"for n = {n}, itemsize = {itemsize}: {in_words(output)} is no row stride that serves; rows of {n} start at least {n} and at "
            f"most about {n + 32} elements apart"
        )
    rows, BLOCK = 4, triton.next_power_of_2(n)
    x = torch.ones(rows * output, dtype=DTYPES[itemsize])
    with trace() as t:
        read_rows[(rows,)](x, torch.empty(rows * BLOCK, dtype=x.dtype), n, output, BLOCK=BLOCK)
    sectors, fewest = t.of("x_ptr", "load").sectors, rows * math.ceil(n * itemsize / 32)
    rows_of = f"4 rows of {n} elements of {itemsize} bytes, {output} elements apart"
    return "" if sectors == fewest else f"{rows_of}, touch {sectors} sectors; {fewest} would do"


def passes(taken: Sequence[bool], warp: int = 32) -> int:
    """Each warp makes a pass for the if where a lane takes it, and one for the else where a lane does not."""
    warps = [taken[start : start + warp] for start in range(0, len(taken), warp)]
    return sum(any(lanes) + any(not lane for lane in lanes) for lanes in warps)


# ------------------------------------------------------------------------------------------------ mistakes


def wasteful(op: str, sentence: str, times: float = 4.0) -> Mistake:
    """`sentence`, if the loads (or stores) touch that many times the sectors that they need."""

    def look(trials: Sequence[Trial]) -> str:
        found = accesses([t for t in trials if t.case.group == "performance"], op)
        return sentence if sum(a.sectors for a in found) * 32 >= times * sum(a.useful_bytes for a in found) > 0 else ""

    return look


def the_last_rows_alone(trials: Sequence[Trial]) -> str:
    """A sentence, if every sum is that of the last rows of x, and not of all of them."""
    left_out = []
    for t in trials:
        for arguments, output in zip(t.inputs, t.evidence.outputs, strict=False):
            x = arguments["x"].double()
            if not isinstance(output, torch.Tensor) or output.shape != x.shape[1:]:
                return ""
            sums = x.flip(0).cumsum(0)  # of the last row, the last two, ...
            alike = ((sums - output.double()).abs() <= 1e-3 * (1 + sums.abs())).all(1)
            if not alike.any():
                return ""
            left_out.append(not alike[-1])
    return "This is the sum of the last rows alone: `total =` where `total +=` is meant?" if any(left_out) else ""


ONE_ELEMENT = (
    "32 lanes, 32 sectors: neighbouring lanes of this access are not neighbours in memory. Which axis has stride 1?"
)

# ------------------------------------------------------------------------------------------------ formulas

sectors_touched = Exercise(
    id="coalescing.sectors_touched",
    entry="sectors_touched",
    signature="sectors_touched(addresses: list[int], itemsize: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=3,
    cases=[
        Case("32 neighbours", "strides", lambda g: {"addresses": [4 * i for i in range(32)], "itemsize": 4}),
        Case("stride 2", "strides", lambda g: {"addresses": [128 + 8 * i for i in range(32)], "itemsize": 4}),
        Case("stride 8, doubles", "strides", lambda g: {"addresses": [64 * i for i in range(32)], "itemsize": 8}),
        Case("one address", "strides", lambda g: {"addresses": [96] * 32, "itemsize": 2}),
        Case(
            "any order",
            "order",
            lambda g: {"addresses": (4 * torch.randint(0, 500, (32,), generator=g)).tolist(), "itemsize": 4},
        ),
        Case("no lane", "order", lambda g: {"addresses": [], "itemsize": 4}),
        Case("one that just fits", "straddling", lambda g: {"addresses": [24], "itemsize": 8}),
        Case("one that straddles", "straddling", lambda g: {"addresses": [30], "itemsize": 4}),
        Case(
            "unaligned",
            "straddling",
            lambda g: {"addresses": torch.randint(0, 2000, (24,), generator=g).tolist(), "itemsize": 8},
        ),
    ],
    # every byte that is wanted, one by one
    oracle=lambda addresses, itemsize: len({b // 32 for a in addresses for b in range(a, a + itemsize)}),
    criteria=[
        Correct("strides", 2, "neighbours, strides, repeats"),
        Correct("order", 1, "any order, no lane at all"),
        Correct("straddling", 2, "elements that straddle sectors"),
    ],
    hints=[
        "Which sector holds byte 100? Which holds byte 127, and byte 128?",
        "A set keeps each sector once. Put the sector of each lane's first byte into it, and look at its length.",
        "The last byte that a lane wants is address + itemsize - 1. If its sector is another one, that one counts too.",
    ],
)

strided_efficiency = Exercise(
    id="coalescing.strided_efficiency",
    entry="strided_efficiency",
    signature="strided_efficiency(stride: int, itemsize: int) -> float",
    kind="formula",
    minutes=5,
    difficulty=2,
    lines=3,
    cases=[
        *(
            Case(f"float32, stride {s}", "float32", lambda g, s=s: {"stride": s, "itemsize": 4})
            for s in (1, 2, 4, 8, 32)
        ),
        *(
            Case(f"stride {s}, {b} bytes", "other dtypes", lambda g, s=s, b=b: {"stride": s, "itemsize": b})
            for s, b in ((3, 4), (5, 2), (7, 1), (33, 1), (3, 8), (16, 2))
        ),
        Case("a drawn stride", "other dtypes", lambda g: {"stride": integer(g, 1, 40), "itemsize": 2}),
    ],
    oracle=lambda stride, itemsize: traced(itemsize, step=stride, lanes=32).efficiency,
    criteria=[
        Correct("float32", 2, "equal to the trace in float32"),
        Correct("other dtypes", 2, "odd strides, other dtypes"),
    ],
    hints=[
        "At which byte does lane i start? How many bytes are useful in all?",
        "You have a function that counts sectors: give it the 32 addresses i * stride * itemsize.",
        "Useful bytes are 32 * itemsize. Moved bytes are 32 * sectors_touched(addresses, itemsize).",
    ],
)

PROBES = {
    "neighbours": {"itemsize": 4},
    "every_fourth": {"itemsize": 2, "step": 4},
    "shifted": {"itemsize": 4, "start": 1},
    "half_masked": {"itemsize": 4, "every": 2},
    "column": {"itemsize": 4, "step": 1000, "lanes": 64},
}

predictions = Exercise(
    id="coalescing.predictions",
    entry="predicted_sectors",
    signature="predicted_sectors: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=5,
    cases=[Case("five kernels", "plain", lambda g: {})],
    oracle=lambda: {name: traced(**options).sectors for name, options in PROBES.items()},
    criteria=[Correct("plain", 5, "sectors, as the trace counts them")],
    hints=[
        "Take one group of 32 lanes. How many sectors does it touch? How many groups are there?",
        "A sector holds 8 floats or 16 halves. A masked lane touches nothing, but its neighbour may want the same sector.",
        "shifted: a group starts 4 bytes into a sector and is 128 bytes long, so it ends 4 bytes into a fifth.",
    ],
)

padded_stride = Exercise(
    id="coalescing.padded_stride",
    entry="padded_stride",
    signature="padded_stride(n: int, itemsize: int) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=2,
    cases=[
        *(
            Case(f"{n} elements of {b} bytes", "plain", lambda g, n=n, b=b: {"n": n, "itemsize": b})
            for n, b in ((1001, 4), (1000, 4), (1, 4), (17, 2), (20, 1), (31, 1), (13, 8), (64, 2))
        ),
        Case("a drawn length", "plain", lambda g: {"n": integer(g, 1, 600), "itemsize": 4}),
    ],
    oracle=lambda n, itemsize: next(s for s in itertools.count(n) if s * itemsize % 32 == 0),
    criteria=[
        Holds(starts_sectors, 2, "every row starts a sector"),
        Correct("plain", 2, "no larger than that takes"),
    ],
    hints=[
        "How many elements fill a sector?",
        "The stride must be a multiple of that number.",
        "Round n up: triton.cdiv(n, per_sector) * per_sector, with per_sector = 32 // itemsize.",
    ],
)

divergence_passes = Exercise(
    id="coalescing.divergence_passes",
    entry="divergence_passes",
    signature="divergence_passes(taken: list[bool], warp: int = 32) -> int",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=2,
    cases=[
        Case("two that agree", "whole warps", lambda g: {"taken": [True] * 32 + [False] * 32}),
        Case("every other lane", "whole warps", lambda g: {"taken": [i % 2 == 0 for i in range(128)]}),
        Case("one lane of 64", "whole warps", lambda g: {"taken": [i == 40 for i in range(64)]}),
        Case(
            "drawn lanes",
            "whole warps",
            lambda g: {"taken": (torch.rand(256, generator=g) < 0.03).tolist()},
        ),
        Case("50 threads", "short warps", lambda g: {"taken": [i < 40 for i in range(50)]}),
        Case("warps of 8", "short warps", lambda g: {"taken": [i < 20 for i in range(61)], "warp": 8}),
        Case("40 that agree", "short warps", lambda g: {"taken": [True] * 40}),
        Case("no thread", "short warps", lambda g: {"taken": []}),
    ],
    oracle=passes,
    criteria=[
        Correct("whole warps", 2, "whole warps"),
        Correct("short warps", 2, "short warps, other sizes, none"),
    ],
    hints=[
        "Cut the list into pieces of `warp`. What can the lanes of one piece say?",
        "A piece makes as many passes as there are different answers in it.",
        "len(set(piece)) is 1 or 2; add it up over taken[start : start + warp] for every start.",
    ],
)

# ------------------------------------------------------------------------------------------------ kernels

row_copy = Exercise(
    id="coalescing.row_copy",
    entry="row_copy",
    signature="row_copy(x: (M, N), column stride 1) -> (M, N), contiguous",
    minutes=15,
    difficulty=3,
    lines=12,
    cases=[
        Case("256 x 128", "plain", matrix(256, 128)),
        Case("1 x 1", "ragged", matrix(1, 1)),
        Case("37 x 1031", "ragged", matrix(37, 1031)),
        Case("203 x 7, float16", "ragged", matrix(203, 7, torch.float16)),
        Case("45 x 100, a window", "strided", matrix(45, 100, layout="window")),
        Case("9 x 70, a window, float16", "strided", matrix(9, 70, torch.float16, layout="window")),
        Case("128 x 512", "performance", matrix(128, 512)),
        Case("64 x 512, float16", "performance", matrix(64, 512, torch.float16)),
    ],
    oracle=lambda x: x.double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 2, "right where rows lie apart"),
        Coalesced("load", 2),
        Coalesced("store", 1),
        Traffic(copy_bytes, 1),
    ],
    bonus=[against_copy("8192 x 8192", matrix(8192, 8192), copy_bytes)],
    hints=[
        "A tile has rows and columns: which of the two should `tl.arange` run along with neighbours in memory?",
        "rows[:, None] * row_stride + cols[None, :] addresses a whole tile of x; out has row stride N.",
        "Mask with (rows < M) & (cols < N) in both the load and the store, and start triton.cdiv(M, BLOCK_M) by "
        "triton.cdiv(N, BLOCK_N) programs of some thousand elements each.",
    ],
    mistakes=[wasteful("load", ONE_ELEMENT), wasteful("store", ONE_ELEMENT)],
)

gather_rows = Exercise(
    id="coalescing.gather_rows",
    entry="gather_rows",
    signature="gather_rows(x: (M, N), column stride 1, index: (K,) int64) -> (K, N)",
    minutes=5,
    difficulty=2,
    lines=13,
    cases=[
        Case("256 of 300 rows", "plain", matrix_and_index(300, 256, 256)),
        Case("1 of 1", "ragged", matrix_and_index(1, 1, 1)),
        Case("40 of 300 rows of 3", "ragged", matrix_and_index(300, 3, 40)),
        Case("17 of 50 rows of 1031", "ragged", matrix_and_index(50, 1031, 17)),
        Case("77 of 90 rows of 5, float16", "ragged", matrix_and_index(90, 5, 77, torch.float16)),
        Case("60 of 13, repeated", "strided", matrix_and_index(13, 40, 60)),
        Case("20 of 30, a window", "strided", matrix_and_index(30, 100, 20, layout="window")),
        Case("128 of 300 rows of 512", "performance", matrix_and_index(300, 512, 128)),
        Case("64 of 300 rows of 512, float16", "performance", matrix_and_index(300, 512, 64, torch.float16)),
    ],
    oracle=lambda x, index: x[index].double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 2, "repeated rows, rows that lie apart"),
        Coalesced("load", 2),
        Coalesced("store", 1),
        Traffic(gather_bytes, 1, title="no more bytes than are returned"),
    ],
    bonus=[against_copy("8192 of 8192 rows", matrix_and_index(8192, 8192, 8192), gather_bytes)],
    hints=[
        "It is row_copy with one more step: where does row k of the result come from?",
        "Load BLOCK_K row numbers as a block, and use them as you used `rows`: (BLOCK_K, 1) against (1, BLOCK_N).",
        "rows = tl.load(index_ptr + k, mask=k < K, other=0)[:, None]; then load x_ptr + rows * row_stride + cols.",
    ],
    mistakes=[wasteful("load", ONE_ELEMENT), wasteful("store", ONE_ELEMENT)],
)

transpose = Exercise(
    id="coalescing.transpose",
    entry="transpose",
    signature="transpose(x: (M, N), any strides) -> (N, M), contiguous",
    minutes=25,
    difficulty=3,
    lines=10,
    cases=[
        Case("256 x 128", "plain", matrix(256, 128)),
        Case("1 x 1", "ragged", matrix(1, 1)),
        Case("130 x 33", "ragged", matrix(130, 33)),
        Case("7 x 200, float16", "ragged", matrix(7, 200, torch.float16)),
        Case("70 x 41, column-major", "strided", matrix(70, 41, layout="columns")),
        Case("45 x 100, a window", "strided", matrix(45, 100, layout="window")),
        Case("256 x 256", "performance", matrix(256, 256)),
        Case("128 x 256, float16", "performance", matrix(128, 256, torch.float16)),
    ],
    oracle=lambda x: x.T.contiguous().double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1),
        Coalesced("load", 3),
        Coalesced("store", 3),
        Traffic(copy_bytes, 1),
    ],
    bonus=[against_copy("8192 x 8192", matrix(8192, 8192), copy_bytes)],
    hints=[
        "What does each lane of your store write, and how far apart in memory do neighbouring lanes write?",
        "Give one program a two-dimensional tile: rows[:, None] and cols[None, :], with at least 32 of each.",
        "Load x_ptr + rows * stride_m + cols * stride_n and store the same tile at out_ptr + cols * M + rows: element "
        "(m, n) of x is element (n, m) of the result. The mask (rows < M) & (cols < N) serves both.",
    ],
    mistakes=[
        wasteful(
            "store", "Each store goes down a column: 32 lanes, 32 sectors. What if the program held more than one row?"
        ),
        wasteful(
            "load", "Each load goes down a column: 32 lanes, 32 sectors. What if the program held more than one column?"
        ),
    ],
)

column_sum = Exercise(
    id="coalescing.column_sum",
    entry="column_sum",
    signature="column_sum(x: (M, N), column stride 1) -> (N,) float32",
    minutes=30,
    difficulty=4,
    lines=20,
    cases=[
        Case("512 x 256", "plain", matrix(512, 256)),
        Case("1 x 1", "ragged", matrix(1, 1)),
        Case("37 x 300", "ragged", matrix(37, 300)),
        Case("1201 x 33, a window", "ragged", matrix(1201, 33, layout="window")),
        Case("3001 x 20 around 1, float16", "float16", matrix(3001, 20, torch.float16, shift=1.0)),
        Case("1024 x 256", "performance", matrix(1024, 256)),
        Case("1024 x 512, float16", "performance", matrix(1024, 512, torch.float16)),
        Case("4096 x 128", "tall", matrix(4096, 128)),
    ],
    oracle=lambda x: x.double().sum(0).float(),
    budget=sum_budget(lambda x: x.double().abs().sum(0), lambda x: x.shape[0]),
    gates=GATES,
    criteria=[
        Correct("ragged", 2, "ragged sizes, rows that lie apart"),
        Correct("float16", 2, "long columns in float16"),
        Coalesced("load", 3),
        Traffic(read_bytes, 1, at_most=1.15, title="reads once"),
        Programs(8, 2),
    ],
    bonus=[against_copy("8192 x 8192", matrix(8192, 8192), read_bytes)],
    hints=[
        "Which axis has stride 1? Let the lanes run along that one, whatever axis you add along.",
        "Keep a (BLOCK_M, BLOCK_N) tile of float32 zeros, add tile after tile of the band to it, and tl.sum it once.",
        "Cut the rows into parts of 512: program (band, part) adds up its part and ends with tl.atomic_add(out_ptr + "
        "cols, tl.sum(total, axis=0), mask=cols < N) into torch.zeros.",
    ],
    mistakes=[
        the_last_rows_alone,
        faulty("uninitialised", "atomic_add adds to what is there: start from torch.zeros, not torch.empty."),
        faulty("race", "Several programs write one sum: tl.atomic_add, or a row of partial sums for each part."),
        wasteful("load", ONE_ELEMENT),
    ],
)

deinterleave = Exercise(
    id="coalescing.deinterleave",
    entry="deinterleave",
    signature="deinterleave(x: (2 N,), contiguous) -> (N,), (N,)",
    minutes=10,
    difficulty=3,
    lines=11,
    cases=[
        Case("2 x 4096", "plain", vector(8192)),
        Case("2 x 1", "ragged", vector(2)),
        Case("2 x 777", "ragged", vector(1554)),
        Case("2 x 5001", "ragged", vector(10002)),
        Case("2 x 999, float16", "float16", vector(1998, torch.float16)),
        Case("2 x 32768", "performance", vector(1 << 16)),
        Case("2 x 32768, float16", "performance", vector(1 << 16, torch.float16)),
    ],
    oracle=lambda x: (x[0::2].double(), x[1::2].double()),
    gates=GATES,
    criteria=[
        Correct("ragged", 1),
        Correct("float16", 1, "right in float16"),
        Coalesced("load", 3),
        Coalesced("store", 2),
        Traffic(copy_bytes, 1),
    ],
    bonus=[against_copy("2 x 33554432", vector(1 << 26), copy_bytes)],
    hints=[
        "How many bytes does one sector hold for `even`, and how many for `odd`? Could one load serve both?",
        "Load 2 * BLOCK neighbours, then take the block apart without memory: tl.reshape and tl.split.",
        "even, odd = tl.split(tl.reshape(tl.load(x_ptr + j, mask=j < 2 * N), (BLOCK, 2))), with j = pid * 2 * BLOCK + "
        "tl.arange(0, 2 * BLOCK).",
    ],
    mistakes=[wasteful("load", "Each load skips every other element: half of every sector is thrown away.", times=1.8)],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        sectors_touched,
        strided_efficiency,
        predictions,
        row_copy,
        gather_rows,
        transpose,
        column_sum,
        deinterleave,
        padded_stride,
        divergence_passes,
    )
}
