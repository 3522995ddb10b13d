"""Unit 05, tiling.

Oracles: torch in float64, traced kernels, and loops that deal out tiles one by one. None is a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from course_lib import throughput
from course_lib.answers import in_words
from course_lib.cases import fixed, integer, window
from course_lib.criteria import (
    Coalesced,
    Compiles,
    Correct,
    Holds,
    OnceRight,
    Rereads,
    Speed,
    Traffic,
    TritonDidTheWork,
    of_group,
    sum_budget,
)
from course_lib.exercise import Case, Exercise, Finding, Trial
from course_lib.mistakes import every, faulty
from course_lib.tracing import trace
from course_lib.tracing.cache import MissCurve, matmul_tiles, row_major

# ------------------------------------------------------------------------------------------------ inputs


def factors(
    M: int,
    N: int,
    K: int,
    dtype: torch.dtype = torch.float32,
    *,
    batch: int = 0,
    layout: str = "rows",
    shift: float = 0.0,
    whole: bool = False,
):
    """A drawing of a (M, K) and b (K, N), or batches of them: normal around `shift`, or whole numbers from -3 to 3.

    layout: "rows" is contiguous; "columns" has both transposed; "windows" are views into larger matrices full of NaN; "steps"
    takes every other row and column; "heads" has the batch between the axes, (M, batch, K); "shared" has one b for all.
    """

    def one(generator: torch.Generator, rows: int, columns: int, share: bool) -> torch.Tensor:
        place = dict(generator=generator, device=generator.device)
        lead = () if not batch else (1,) if share else (batch,)
        if whole:
            values = torch.randint(-3, 4, (*lead, rows, columns), **place).to(dtype)
        else:
            values = torch.randn(*lead, rows, columns, **place).add_(shift).to(dtype)
        if layout == "columns":
            values = values.mT.contiguous().mT
        if layout == "heads":
            values = values.transpose(0, 1).contiguous().transpose(0, 1)
        if layout in ("windows", "steps"):
            values = window(values, step=2 if layout == "steps" else 1)
        return values.expand(batch, -1, -1) if share else values

    def draw(generator: torch.Generator) -> dict[str, torch.Tensor]:
        return {"a": one(generator, M, K, False), "b": one(generator, K, N, layout == "shared")}

    return draw


def tiled(M: int, N: int, K: int, bm: int, bn: int, bk: int):
    """The same, with the sides of a tile."""
    return lambda g: factors(M, N, K)(g) | {"bm": bm, "bn": bn, "bk": bk}


# ------------------------------------------------------------------------------------------------ oracles


def product(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    return a.double() @ b.double()


def pieces(length: int, block: int) -> Iterator[int]:
    """How long each block is that a length is cut into; the last may be short."""
    return (min(block, length - start) for start in range(0, length, block))


@triton.jit
def probe(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Each program loads what a tile of a @ b needs, once, and stores something there: what counts is which bytes move."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    seen = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + rows * K + k[None, :], mask=(rows < M) & (k[None, :] < K), other=0)
        b = tl.load(b_ptr + k[:, None] * N + cols, mask=(k[:, None] < K) & (cols < N), other=0)
        seen += tl.sum(a, 1)[:, None] + tl.sum(b, 0)[None, :]
    tl.store(c_ptr + rows * N + cols, seen.to(c_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))


DTYPES = {2: torch.float16, 4: torch.float32}


@cache
def traced(m: int, n: int, k: int, bm: int, bn: int, bk: int = 64, itemsize: int = 4):
    """The probe's trace."""
    a, b, c = (torch.ones(shape, dtype=DTYPES[itemsize]) for shape in ((m, k), (k, n), (m, n)))
    with trace() as t:
        grid = (len(list(pieces(m, bm))), len(list(pieces(n, bn))))
        probe[grid](a, b, c, m, n, k, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk)
    return t


def moved(m: int, n: int, k: int, bm: int, bn: int) -> int:
    """Elements that the tiles of a product load, tile by tile."""
    return sum((rows + columns) * k for rows in pieces(m, bm) for columns in pieces(n, bn))


def dealt(m: int, n: int, bm: int, bn: int, sms: int) -> tuple[int, int]:
    """(tiles, waves): each SM takes one tile, and when all have, the next wave begins."""
    tiles = [(i, j) for i, _ in enumerate(pieces(m, bm)) for j, _ in enumerate(pieces(n, bn))]
    waves, left = 0, list(tiles)
    while left:
        left, waves = left[sms:], waves + 1
    return len(tiles), waves


def model_seconds(
    n: int, bm: int, bn: int, sms: int, flops_per_second: float, bytes_per_second: float, launch_seconds: float
) -> float:
    """What the unit's model says of an (n, n, n) product in 2-byte numbers, for n a multiple of 8: waves, or memory."""
    _, waves = dealt(n, n, bm, bn, sms)
    a_wave = 2 * bm * bn * n / (flops_per_second / sms)
    return launch_seconds + max(waves * a_wave, 3 * 2 * n * n / bytes_per_second)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Spearman's: 1 if both put the sizes in the same order."""

    def ranks(values: Sequence[float]) -> np.ndarray:
        _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        return (last - (counts - 1) / 2)[inverse]  # equal values share the mean of their ranks

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


# ------------------------------------------------------------------------------------------------ properties


def fits_and_moves_least(output: Any, m: int, n: int, k: int, shared_bytes: int) -> str:
    said = f"for {m} x {n} x {k} and {shared_bytes:,} bytes"
    sides = [1 << p for p in range(4, 9)]
    if not isinstance(output, list) or [type(side) for side in output] != [int, int]:
        return f"{said}: expected a pair of whole numbers, got {in_words(output)}"
    bm, bn = output
    if bm not in sides or bn not in sides:
        return f"{said}: ({bm}, {bn}) are not both one of 16, 32, 64, 128, 256"
    if not fits(bm, bn, shared_bytes):
        return f"{said}: a tile of {bm} x {bn} does not fit"
    best = min(
        (p for p in ((x, y) for x in sides for y in sides) if fits(*p, shared_bytes)), key=lambda p: moved(m, n, k, *p)
    )
    more = moved(m, n, k, bm, bn) / moved(m, n, k, *best)
    return "" if more == 1 else f"{said}: ({bm}, {bn}) loads {more:.3g} times what another tile that fits loads"


def fits(bm: int, bn: int, shared_bytes: int) -> bool:
    """Three stages of 64 columns of a and 64 rows of b, 2 bytes each, and an accumulator in half of an SM's registers."""
    return 3 * 64 * (bm + bn) * 2 <= shared_bytes and bm * bn <= 32768


def pads_least(output: Any, n: int, multiple: int) -> str:
    said = f"for n = {n}, multiple = {multiple}"
    if type(output) is not int:
        return f"{said}: expected a whole number, got {in_words(output)}"
    right = next(candidate for candidate in range(n, n + multiple) if candidate % multiple == 0)
    return "" if output == right else f"{said}: {output} is not it"


def is_a_curve(output: Any, sizes: Sequence[int], **_: Any) -> str:
    """ "" for a list of positive numbers, one for each size."""
    if not isinstance(output, list) or len(output) != len(sizes):
        return f"expected a list of {len(sizes)} numbers, one for each size, got {in_words(output)}"
    for n, speed in zip(sizes, output, strict=True):
        if type(speed) not in (int, float) or not math.isfinite(speed) or speed <= 0:
            return f"n = {n}: expected a speed, a number above 0, got {in_words(speed)}"
    return ""


def follows_the_model(output: Any, sizes: Sequence[int], **machine: Any) -> str:
    problem = is_a_curve(output, sizes)
    for n, found in zip(sizes, output if not problem else [], strict=False):
        expected = 2 * n**3 / model_seconds(n, **machine)
        if not math.isclose(found, expected, rel_tol=1e-6):
            _, waves = dealt(n, n, machine["bm"], machine["bn"], machine["sms"])
            said = "1 wave" if waves == 1 else f"{waves} waves"
            return f"n = {n} ({said}): expected {expected:.4g} FLOP/s, got {found:.4g}"
    return problem


def slows_down(output: Any, sizes: Sequence[int], **_: Any) -> str:
    """Sizes that 8 does not divide: slower than the same answer's speed at the next multiple of 8, which is among the sizes,
    and not by more than 20 times. Nothing is said of the waves."""
    problem = is_a_curve(output, sizes)
    speed = dict(zip(sizes, output if not problem else [], strict=False))
    for n, found in speed.items():
        aligned = -(-n // 8) * 8
        if n % 8 and not speed[aligned] / 20 <= found <= 0.9 * speed[aligned]:
            return (
                f"n = {n}: {found:.3g} FLOP/s is {found / speed[aligned]:.2g} of what your model says of n = {aligned}"
            )
    return problem


def ranks_the_measured(output: Any, sizes: Sequence[int], **_: Any) -> str:
    problem = is_a_curve(output, sizes)
    if problem:
        return problem
    found = with_the_measured(output, sizes)
    return (
        "" if found >= 0.95 else f"the rank correlation with the measured speeds of {len(sizes)} sizes is {found:.3f}"
    )


def with_the_measured(output: Sequence[float], sizes: Sequence[int]) -> float:
    """The rank correlation of these speeds with those of throughput.recorded()."""
    measured = dict(throughput.recorded()["curve"]["points"])
    return rank_correlation(output, [measured[n] for n in sizes])


def is_an_order(output: Any, grid_m: int, grid_n: int, **_: Any) -> str:
    """ "" if each tile of the grid has one program."""
    said = f"{grid_m} x {grid_n} tiles"
    wrong = [
        (pid, tile)
        for pid, tile in enumerate(output)
        if not (isinstance(tile, list) and [type(x) for x in tile] == [int, int])
    ]
    if wrong:
        return f"{said}: program {wrong[0][0]} gets {in_words(wrong[0][1])}, not a pair of whole numbers (m, n)"
    outside = [(pid, tile) for pid, tile in enumerate(output) if not (0 <= tile[0] < grid_m and 0 <= tile[1] < grid_n)]
    if outside:
        return f"{said}: program {outside[0][0]} gets tile {tuple(outside[0][1])}, outside of the grid"
    first: dict[tuple, int] = {}
    for pid, tile in enumerate(map(tuple, output)):
        if tile in first:
            return f"{said}: programs {first[tile]} and {pid} both get tile {tile}"
        first[tile] = pid
    return ""


def finishes_groups(output: Any, grid_m: int, grid_n: int, group: int, **_: Any) -> str:
    """Programs go through `group` rows of tiles before the next rows begin, column by column."""
    problem = is_an_order(output, grid_m, grid_n)
    for pid, tile in enumerate(output if not problem else []):
        m, n = tile
        done = sum(1 for other in output[:pid] if other[0] // group == m // group and other[1] < n)
        height = next(h for i, h in enumerate(pieces(grid_m, group)) if i == m // group)
        if any(other[0] // group > m // group for other in output[:pid]):
            return f"{grid_m} x {grid_n} tiles, group {group}: program {pid} goes back to row {m}"
        if done != n * height:
            return f"{grid_m} x {grid_n} tiles, group {group}: program {pid} is in column {n} before column {n - 1} is done"
    return problem


def saves_traffic(output: Any, **arguments: int) -> str:
    """DRAM bytes of the L2 model, against row order."""
    grid_m, grid_n = arguments.get("grid_m") or arguments["side"], arguments.get("grid_n") or arguments["side"]
    problem = is_an_order(output, grid_m, grid_n)
    if problem:
        return problem
    share = dram_share(output, grid_m, grid_n)
    return "" if share <= 0.65 else f"the L2 model fetches {share:.2f} of the bytes of row order; 0.65 is asked"


def dram_share(
    order: Sequence[Sequence[int]], M: int, N: int, K: int = 16, at_once: int = 132, tiles: int = 320
) -> float:
    """DRAM bytes that an order of tiles needs, by those that row order needs; an L2 of so many tiles of a and b."""
    ways = (np.array(order), row_major(M, N))
    own, rows = (MissCurve(matmul_tiles(way, K, at_once)).read_bytes(tiles) for way in ways)
    return own / rows


def is_an_order_of_a_square(output: Any, side: int, **_: int) -> str:
    return is_an_order(output, side, side)


def touches(output: Any, side: int, **_: int) -> str:
    """Each tile lies beside the one before it."""
    problem = is_an_order(output, side, side)
    for pid, (one, two) in enumerate(zip(output, output[1:], strict=False) if not problem else []):
        if abs(one[0] - two[0]) + abs(one[1] - two[1]) != 1:
            return (
                f"side {side}: program {pid} gets {tuple(one)} and program {pid + 1} {tuple(two)}, which do not touch"
            )
    return problem


def stays_near(output: Any, side: int, **_: int) -> str:
    """Every 4, 16, 64, ... programs in a row, from the start of such a piece, fill a square."""
    problem = is_an_order(output, side, side)
    width = 2
    while not problem and width < side:
        for start in range(0, side * side, width * width):
            piece = output[start : start + width * width]
            if max(np.ptp(np.array(piece), axis=0)) != width - 1:
                return (
                    f"side {side}: programs {start} to {start + width * width - 1} do not fill a square of side {width}"
                )
        width *= 2
    return problem


# ------------------------------------------------------------------------------------------------ criteria


@dataclass
class Counted(OnceRight):
    """Torch did certain operations so often. names: aten names; times: the arguments of a call -> how often."""

    names: frozenset[str]
    times: Callable[..., int]
    points: float
    title: str
    what: str  # in the plural
    group: str = "plain"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            expected = self.times(**trial.inputs[-1])
            seen = sum(name in self.names for name in trial.evidence.operations)
            if seen != expected:
                return self.lost(f"{seen} {self.what}", expected=f"{expected} {self.what} on {trial.case.name}")
        return self.earned(f"{seen} {self.what}")


# ------------------------------------------------------------------------------------------------ mistakes


def looks_like_tf32(trials: Sequence[Trial]) -> str:
    """A sentence, if float32 results are wrong by about 2^-10 of their size, and float16 ones right."""
    for trial in of_group(trials, "float32"):
        for arguments, output in zip(trial.inputs, trial.evidence.outputs, strict=False):
            right = product(**arguments)
            if isinstance(output, torch.Tensor) and output.shape == right.shape and right.numel():
                off = float((output.double() - right).abs().max() / (arguments["a"].abs() @ arguments["b"].abs()).max())
                if 2e-6 < off < 2e-3:
                    return (
                        'Float32 results have the precision of TF32: write tl.dot(..., input_precision="ieee") for them. '
                        "A GPU rounds the blocks of a float32 dot to 10 bits after the point unless you ask it not to."
                    )
    return ""


def small_tiles(trials: Sequence[Trial]) -> str:
    """A sentence, if a is read more than twice as often as tiles of 64 would read it."""
    for trial in of_group(trials, "performance"):
        N = trial.inputs[-1]["b"].shape[-1]
        for launch in trial.evidence.launches:
            for f in launch.footprints:
                if f.tensor == "a" and f.read_bytes > 2 * (N / 64) * max(1, f.read_distinct_bytes):
                    return (
                        "Each tile of c reads its rows of a and its columns of b once. Fewer, larger tiles read less."
                    )
    return ""


# ------------------------------------------------------------------------------------------------ in torch

in_float32 = sum_budget(lambda a, b, **_: a.double().abs() @ b.double().abs(), lambda a, b, **_: a.shape[-1])

OUTER = frozenset(["mul", "addcmul", "addcmul_", "addr", "addr_"])
outer_product_matmul = Exercise(
    id="tiling.outer_product_matmul",
    entry="outer_product_matmul",
    signature="outer_product_matmul(a: (M, K), b: (K, N)) -> (M, N)",
    minutes=5,
    difficulty=1,
    lines=4,
    cases=[
        Case("8 x 6 x 5", "plain", factors(8, 6, 5)),
        Case("33 x 7 x 20", "ragged", factors(33, 7, 20)),
        Case("1 x 9 x 1", "ragged", factors(1, 9, 1)),
        Case("20 x 31 x 40 around 3", "ragged", factors(20, 31, 40, shift=3.0)),
    ],
    oracle=product,
    budget=in_float32,
    allows=OUTER | {"add", "add_", "copy_"},
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 2, "any other sizes"),
        Counted(OUTER, lambda a, b: a.shape[1], 2, "one outer product for each k", "outer products"),
    ],
    hints=[
        "Column k of a is (M,), row k of b is (N,). Which matrix has the element a[m, k] * b[k, n] at (m, n)?",
        "torch.outer(x, y), or x[:, None] * y[None, :], is the outer product of two vectors.",
        "Begin with torch.zeros(M, N), and for each k add torch.outer(a[:, k], b[k, :]).",
    ],
)

PRODUCTS = frozenset(["mm", "addmm", "addmm_", "bmm", "baddbmm", "baddbmm_"])
tiled_matmul = Exercise(
    id="tiling.tiled_matmul",
    entry="tiled_matmul",
    signature="tiled_matmul(a: (M, K), b: (K, N), bm: int, bn: int, bk: int) -> (M, N)",
    minutes=10,
    difficulty=2,
    lines=7,
    cases=[
        Case("32 x 48 x 64, tiles of 16 x 16 x 32", "plain", tiled(32, 48, 64, 16, 16, 32)),
        Case("33 x 50 x 70, tiles of 16 x 32 x 32", "ragged", tiled(33, 50, 70, 16, 32, 32)),
        Case("5 x 7 x 9, tiles of 16", "ragged", tiled(5, 7, 9, 16, 16, 16)),
        Case("20 x 60 x 33, tiles of 8 x 32 x 1", "ragged", tiled(20, 60, 33, 8, 32, 1)),
    ],
    oracle=product,
    budget=in_float32,
    allows=PRODUCTS | {"add", "add_", "copy_", "zero_"},
    gates=[Correct("plain")],
    criteria=[
        Correct("ragged", 3, "sizes that tiles do not divide"),
        Counted(
            PRODUCTS,
            lambda a, b, bm, bn, bk: (
                len(list(pieces(a.shape[0], bm)))
                * len(list(pieces(b.shape[1], bn)))
                * len(list(pieces(a.shape[1], bk)))
            ),
            2,
            "one product for each triple of tiles",
            "products",
        ),
    ],
    hints=[
        "Three loops: over tiles of rows, over tiles of columns, and over the pieces of K that are added up.",
        "a[i : i + bm, k : k + bk] is a tile of a. A slice that reaches past the end is cut off by itself.",
        "c[i : i + bm, j : j + bn] += a[i : i + bm, k : k + bk] @ b[k : k + bk, j : j + bn], for i, j, k in steps.",
    ],
)

# ------------------------------------------------------------------------------------------------ counting

matmul_bytes = Exercise(
    id="tiling.matmul_bytes",
    entry="matmul_bytes",
    signature="matmul_bytes(m: int, n: int, k: int, bm: int, bn: int, itemsize: int) -> int",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=4,
    cases=[
        fixed("256 cubed, tiles of 64", "whole", m=256, n=256, k=256, bm=64, bn=64, itemsize=4),
        fixed("128 x 512 x 256, tiles of 32 x 128", "whole", m=128, n=512, k=256, bm=32, bn=128, itemsize=4),
        fixed("512 x 128 x 64, tiles of 128 x 64", "whole", m=512, n=128, k=64, bm=128, bn=64, itemsize=2),
        fixed("256 cubed, one tile", "whole", m=256, n=256, k=256, bm=256, bn=256, itemsize=2),
        fixed("257 x 300 x 100, tiles of 64", "ragged", m=257, n=300, k=100, bm=64, bn=64, itemsize=4),
        fixed("30 x 500 x 77, tiles of 64 x 128", "ragged", m=30, n=500, k=77, bm=64, bn=128, itemsize=2),
        Case(
            "drawn sizes",
            "ragged",
            lambda g: {
                "m": integer(g, 60, 250),
                "n": integer(g, 60, 250),
                "k": integer(g, 20, 90),
                "bm": 32,
                "bn": 64,
                "itemsize": 4,
            },
        ),
    ],
    oracle=lambda m, n, k, bm, bn, itemsize: traced(m, n, k, bm, bn, itemsize=itemsize).bytes,
    criteria=[
        Correct("whole", 3, "equal to the trace"),
        Correct("ragged", 2, "sizes that tiles do not divide"),
    ],
    hints=[
        "How many tiles of c lie in one row of tiles? Each of them loads the same rows of a.",
        "a is loaded once for each column of tiles, b once for each row of tiles, and c is stored once.",
        "itemsize * (m * k * cdiv(n, bn) + k * n * cdiv(m, bm) + m * n). Masked lanes move nothing.",
    ],
    mistakes=[
        every(
            lambda out, m, n, k, bm, bn, itemsize: out == traced(m, n, k, bm, bn, itemsize=itemsize).loads.bytes,
            "These are the bytes loaded. Where does the result go?",
        ),
    ],
)

SMALL = 256


def times_read() -> dict[str, int]:
    """Times each element is loaded, in products of 256 x 256 matrices."""
    square, flat = traced(SMALL, SMALL, SMALL, 64, 64, 32), traced(SMALL, SMALL, SMALL, 32, 128, 32)
    deep = traced(SMALL, SMALL, SMALL, 64, 64, 64)
    found = {
        "a, tiles of 64 x 64": square.reread("a_ptr"),
        "b, tiles of 64 x 64": square.reread("b_ptr"),
        "a, tiles of 32 x 128": flat.reread("a_ptr"),
        "b, tiles of 32 x 128": flat.reread("b_ptr"),
        "a, tiles of 64 x 64, BLOCK_K twice as large": deep.reread("a_ptr"),
    }
    return {name: int(times) for name, times in found.items()}


predictions = Exercise(
    id="tiling.predictions",
    entry="predicted_reads",
    signature="predicted_reads: dict[str, int]",
    kind="values",
    minutes=5,
    difficulty=2,
    lines=5,
    cases=[Case("five counts", "plain", lambda g: {})],
    oracle=times_read,
    criteria=[Correct("plain", 5, "times read, as the trace counts them")],
    hints=[
        "Which programs need row 0 of a? Those whose tile of c lies in the first row of tiles.",
        "There are 256 / BLOCK_N tiles side by side, and each loads its rows of a for itself.",
        "BLOCK_K says how many columns are loaded at a time; how often each is loaded does not depend on it.",
    ],
)

SHARED = {"A100": 163 << 10, "H200": 227 << 10, "T4": 64 << 10, "little": 20 << 10}
best_tile = Exercise(
    id="tiling.best_tile",
    entry="best_tile",
    signature="best_tile(m: int, n: int, k: int, shared_bytes: int) -> tuple[int, int]",
    kind="formula",
    minutes=10,
    difficulty=3,
    lines=8,
    cases=[
        *(
            fixed(f"4096 cubed, {name}", "large", m=4096, n=4096, k=4096, shared_bytes=nbytes)
            for name, nbytes in SHARED.items()
        ),
        fixed("16 rows", "other shapes", m=16, n=4096, k=4096, shared_bytes=SHARED["A100"]),
        fixed("4096 x 48", "other shapes", m=4096, n=48, k=512, shared_bytes=SHARED["A100"]),
        fixed("300 x 5000", "other shapes", m=300, n=5000, k=100, shared_bytes=SHARED["T4"]),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(fits_and_moves_least, 3, "large squares", "large"),
        Holds(fits_and_moves_least, 2, "other shapes", "other shapes"),
    ],
    hints=[
        "There are five sides for bm and five for bn: few enough to try them all.",
        "Leave out what does not fit: 3 * 64 * (bm + bn) * 2 > shared_bytes, or bm * bn > 32768.",
        "Of the rest take the smallest by matmul_bytes(m, n, k, bm, bn, 2): min(candidates, key=...).",
    ],
    mistakes=[
        every(
            lambda out, m, n, k, shared_bytes: isinstance(out, list) and len(out) == 2 and out[0] == out[1],
            "Squares have the highest intensity, unless a longer tile fits where the next square does not.",
        )
    ],
)

# ------------------------------------------------------------------------------------------------ the kernel

TILE = 64  # with tiles of this side or larger, all points can be had


def tile_traffic(a: torch.Tensor, b: torch.Tensor) -> int:
    """Bytes that a product in tiles of 64 x 64 moves, with room for a sum in two float32 parts, written and read."""
    M, K, N = a.shape[-2], a.shape[-1], b.shape[-1]
    return a.element_size() * (M * N + moved(M, N, K, TILE, TILE)) + 2 * 2 * 4 * M * N


def compulsory_bytes(a: torch.Tensor, b: torch.Tensor) -> int:
    """a and b read once, the result written once."""
    return a.element_size() * (a.numel() + b.numel() + a.shape[-2] * b.shape[-1])


HALF, BRAIN = torch.float16, torch.bfloat16

matmul = Exercise(
    id="tiling.matmul",
    entry="matmul",
    signature="matmul(a: (M, K) or (B, M, K), b: (K, N) or (B, K, N)) -> (M, N) or (B, M, N)",
    minutes=60,
    difficulty=4,
    lines=35,
    cases=[
        Case("128 x 128 x 64, float16", "plain", factors(128, 128, 64, HALF)),
        Case("1 x 1 x 1, float16", "ragged", factors(1, 1, 1, HALF)),
        Case("130 x 33 x 77, whole numbers, float16", "ragged", factors(130, 33, 77, HALF, whole=True)),
        Case("7 x 300 x 65, bfloat16", "ragged", factors(7, 300, 65, BRAIN)),
        Case("96 x 70 x 150, both transposed, float16", "strided", factors(96, 70, 150, HALF, layout="columns")),
        Case("45 x 61 x 100, slices, float16", "strided", factors(45, 61, 100, HALF, layout="windows")),
        Case("40 x 50 x 33, every other, bfloat16", "strided", factors(40, 50, 33, BRAIN, layout="steps")),
        Case("3 of 50 x 40 x 70, float16", "batched", factors(50, 40, 70, HALF, batch=3)),
        Case("4 heads of 33 x 65 x 32, float16", "batched", factors(33, 65, 32, HALF, batch=4, layout="heads")),
        Case("2 of 20 x 90 x 40, one b, bfloat16", "batched", factors(20, 90, 40, BRAIN, batch=2, layout="shared")),
        Case("20 x 30 x 1000, float16", "long", factors(20, 30, 1000, HALF)),
        Case("30 x 20 x 701 around 3, bfloat16", "long", factors(30, 20, 701, BRAIN, shift=3.0)),
        Case("70 x 50 x 90, float32", "float32", factors(70, 50, 90)),
        Case("33 x 40 x 500 around 3, float32", "float32", factors(33, 40, 500, shift=3.0)),
        Case("256 x 320 x 128, bfloat16", "performance", factors(256, 320, 128, BRAIN)),
        Case("384 x 512 x 256, float16", "performance", factors(384, 512, 256, HALF)),
    ],
    oracle=product,
    budget=in_float32,
    gates=[TritonDidTheWork(), Correct("plain"), Compiles()],
    criteria=[
        Correct("ragged", 3),
        Correct("strided", 3, "right on transposed matrices and slices"),
        Correct("batched", 2, "right on batches"),
        Correct("long", 2, "long sums keep their precision"),
        Correct("float32", 2, "float32 stays float32"),
        Rereads("a", lambda a, b: math.ceil(b.shape[-1] / TILE), 2, "a is read at most N / 64 times"),
        Rereads("b", lambda a, b: math.ceil(a.shape[-2] / TILE), 2, "b is read at most M / 64 times"),
        Traffic(tile_traffic, 1, title="no detour: about the bytes of tiles of 64 x 64"),
        Coalesced("load", 2),
        Coalesced("store", 1),
    ],
    bonus=[
        Speed(
            "torch's matmul",
            Case("4096 x 4096 x 4096, bfloat16", "speed", factors(4096, 4096, 4096, BRAIN)),
            compulsory_bytes,
            full=0.6,
            none=0.4,
            points=3,
            baseline=lambda a, b: lambda: torch.matmul(a, b),
            advice="Try larger tiles and more stages: see *Autotuning* below. The first configuration is the one that is timed.",
        )
    ],
    hints=[
        "A program keeps a tile of c in registers, (BLOCK_M, BLOCK_N) float32 zeros at first, and walks along K: it loads a "
        "tile of a and a tile of b, and adds their product with tl.dot.",
        "Two strides for each matrix, and one more for the batch: a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak. "
        "a[None] makes a batch of one of a single matrix, without a copy.",
        'acc = tl.dot(a, b, acc, input_precision="ieee"), with masks (rows < M) & (k < K) and (k < K) & (cols < N), other=0; '
        "then a store of acc.to(c_ptr.dtype.element_ty) under (rows < M) & (cols < N). Float32 tiles of 64 x 64 x 32, "
        "float16 of 128 x 256 x 64 with num_warps=8.",
    ],
    mistakes=[
        looks_like_tf32,
        faulty("race", "Several programs write one tile: each needs its own, or tl.atomic_add."),
        small_tiles,
    ],
)

# ------------------------------------------------------------------------------------------------ tiles and waves

tiles_and_waves = Exercise(
    id="tiling.tiles_and_waves",
    entry="tiles_and_waves",
    signature="tiles_and_waves(m: int, n: int, bm: int, bn: int, sms: int) -> tuple[int, int]",
    kind="formula",
    minutes=5,
    difficulty=1,
    lines=2,
    cases=[
        fixed("1024 squared, 128 x 128", "whole", m=1024, n=1024, bm=128, bn=128, sms=64),
        fixed("4096 squared, 128 x 256", "whole", m=4096, n=4096, bm=128, bn=256, sms=132),
        fixed("1792 on an A100", "cliffs", m=1792, n=1792, bm=256, bn=128, sms=108),
        fixed("1793 on an A100", "cliffs", m=1793, n=1793, bm=256, bn=128, sms=108),
        fixed("257 columns", "cliffs", m=100, n=257, bm=128, bn=256, sms=132),
        Case(
            "drawn sizes",
            "cliffs",
            lambda g: {
                "m": integer(g, 1, 3000),
                "n": integer(g, 1, 3000),
                "bm": 64,
                "bn": 128,
                "sms": integer(g, 1, 150),
            },
        ),
    ],
    oracle=dealt,
    criteria=[Correct("whole", 2, "whole tiles"), Correct("cliffs", 2, "tiles and waves that are not full")],
    hints=[
        "257 columns in tiles of 256: how many tiles?",
        "Round up twice in each direction: tiles down, tiles across; and then waves.",
        "tiles = cdiv(m, bm) * cdiv(n, bn); waves = cdiv(tiles, sms).",
    ],
    mistakes=[
        every(
            lambda out, m, n, bm, bn, sms: isinstance(out, list) and out[:1] == [math.ceil(m * n / (bm * bn))],
            "These are tiles by area. A tile that sticks out at the right does not help at the bottom: round up in each direction.",
        )
    ],
)

pad_to_multiple = Exercise(
    id="tiling.pad_to_multiple",
    entry="pad_to_multiple",
    signature="pad_to_multiple(n: int, multiple: int) -> int",
    kind="formula",
    minutes=2,
    difficulty=1,
    lines=1,
    cases=[
        fixed("GPT-2's vocabulary", "plain", n=50257, multiple=64),
        fixed("already one", "plain", n=4096, multiple=64),
        fixed("one more", "plain", n=257, multiple=256),
        Case("a drawn size", "plain", lambda g: {"n": integer(g, 1, 9000), "multiple": integer(g, 2, 200)}),
    ],
    oracle=lambda n, multiple: None,
    criteria=[Holds(pads_least, 2, "the next multiple, and no more")],
    hints=[
        "How many whole multiples does it take to cover n?",
        "Round the quotient up, not the number.",
        "-(-n // multiple) * multiple.",
    ],
    mistakes=[
        every(
            lambda out, n, multiple: out == (n // multiple + 1) * multiple,
            "A number that is a multiple already needs no padding.",
        )
    ],
)

H200 = {"sms": 132, "flops_per_second": 672e12, "bytes_per_second": 4.25e12, "launch_seconds": 5e-6}
A100 = {"sms": 108, "flops_per_second": 250e12, "bytes_per_second": 1.7e12, "launch_seconds": 4e-6}
SLOW = {"sms": 40, "flops_per_second": 50e12, "bytes_per_second": 0.02e12, "launch_seconds": 2e-6}

# each with the next multiple of 8, which has as many waves
MISALIGNED = [1025, 1026, 1028, 1032, 2047, 2048, 3002, 3008, 4100, 4104]


@cache
def measured_sizes() -> list[int]:
    return [n for n, _ in throughput.recorded()["curve"]["points"]]


predicted_throughput = Exercise(
    id="tiling.predicted_throughput",
    entry="predicted_throughput",
    signature="predicted_throughput(sizes, bm, bn, sms, flops_per_second, bytes_per_second, launch_seconds) -> list[float]",
    kind="formula",
    minutes=20,
    difficulty=3,
    lines=10,
    cases=[
        fixed("small sizes", "roofline", sizes=[8, 64, 128, 256], bm=128, bn=128, **SLOW),
        fixed("around a cliff", "waves", sizes=[1776, 1792, 1800, 2048, 4096], bm=256, bn=128, **A100),
        fixed("an H200", "waves", sizes=[1024, 1408, 1416, 2816, 3000], bm=128, bn=128, **H200),
        fixed("odd and even", "alignment", sizes=MISALIGNED, bm=128, bn=128, **H200),
        Case("230 sizes on an H200", "measured", lambda g: {"sizes": measured_sizes(), "bm": 128, "bn": 128, **H200}),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(follows_the_model, 2, "memory and the launch set the pace of small sizes", "roofline"),
        Holds(follows_the_model, 4, "waves of tiles set that of large ones", "waves"),
        Holds(slows_down, 2, "sizes that 8 does not divide are slower", "alignment"),
        Holds(
            ranks_the_measured,
            2,
            "rank correlation with the measurement of at least 0.95",
            "measured",
            told=lambda output, sizes, **_: f"{with_the_measured(output, sizes):.3f}",
        ),
    ],
    hints=[
        "How long does one SM take for one tile of c, all of K? How many of those times pass until the last tile is done?",
        "A wave takes 2 * bm * bn * n / (flops_per_second / sms). Waves come from tiles_and_waves(n, n, bm, bn, sms).",
        "seconds = launch_seconds + max(waves * wave, 6 * n * n / bytes_per_second), speed = 2 * n ** 3 / seconds; and for sizes "
        "that 8 does not divide times a share that you read off the plot: odd ones reach about 0.2.",
    ],
)

# ------------------------------------------------------------------------------------------------ orders


def order_case(title: str, group_of: str, grid_m: int, grid_n: int, group: int) -> Case:
    return fixed(title, group_of, programs=grid_m * grid_n, grid_m=grid_m, grid_n=grid_n, group=group)


grouped_order = Exercise(
    id="tiling.grouped_order",
    entry="grouped_order",
    signature="grouped_order(pid: int, grid_m: int, grid_n: int, group: int) -> tuple[int, int]",
    kind="formula",
    called="for every program",
    minutes=15,
    difficulty=3,
    lines=5,
    cases=[
        order_case("8 x 6 tiles, group 4", "plain", 8, 6, 4),
        order_case("6 x 9 tiles, group 1", "plain", 6, 9, 1),
        order_case("9 x 5 tiles, group 4", "ragged", 9, 5, 4),
        order_case("3 x 7 tiles, group 8", "ragged", 3, 7, 8),
        order_case("48 x 48 tiles, group 8", "cache", 48, 48, 8),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(is_an_order, 1, "each tile has one program"),
        Holds(finishes_groups, 2, "groups of rows, column by column"),
        Holds(finishes_groups, 2, "a last group that is not full", "ragged"),
        Holds(saves_traffic, 2, "at most 0.65 of row order's DRAM bytes", "cache"),
    ],
    hints=[
        "How many programs does one group have? Then which group is pid in, and which program of its group is it?",
        "Inside a group go down the columns: the row is what is left of a division by the group's height, the column the "
        "quotient. The last group may be less high.",
        "first = pid // (group * grid_n) * group; height = min(grid_m - first, group); within = pid % (group * grid_n); "
        "(first + within % height, within // height).",
    ],
    mistakes=[
        every(
            lambda out, grid_m, grid_n, **_: out == row_major(grid_m, grid_n).tolist(),
            "This is row order: programs that run together lie in one long row, and want all columns of b.",
        ),
        every(
            lambda out, grid_m, grid_n, group, **_: (
                out
                == [
                    [p // (group * grid_n) * group + p % (group * grid_n) % group, p % (group * grid_n) // group]
                    for p in range(len(out))
                ]
            ),
            "The last group may have fewer rows than `group`: how many are left?",
        ),
    ],
)

hilbert_order = Exercise(
    id="tiling.hilbert_order",
    entry="hilbert_order",
    signature="hilbert_order(pid: int, side: int) -> tuple[int, int]",
    kind="formula",
    called="for every program",
    minutes=30,
    difficulty=4,
    lines=12,
    cases=[
        fixed("side 2", "plain", programs=4, side=2),
        fixed("side 8", "plain", programs=64, side=8),
        fixed("side 1", "plain", programs=1, side=1),
        fixed("side 64", "cache", programs=4096, side=64),
    ],
    oracle=lambda **_: None,
    criteria=[
        Holds(touches, 2, "each tile once, beside the one before"),
        Holds(stays_near, 1, "squares within squares"),
        Holds(saves_traffic, 1, "at most 0.65 of row order's DRAM bytes", "cache"),
    ],
    hints=[
        "Side 2 is a U: (0, 0), (0, 1), (1, 1), (1, 0). A larger curve is four smaller ones, of which the first and the last are "
        "turned, so that each ends beside where the next begins.",
        "Which quarter: pid // (side * side / 4). Within it: the same function, with half the side and the rest of pid.",
        "For h = side // 2, quarter 0 is (n, m) of the smaller curve's (m, n); 1 is (m, n + h); 2 is (m + h, n + h); and 3 is "
        "(2 * h - 1 - n, h - 1 - m).",
    ],
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        outer_product_matmul,
        tiled_matmul,
        matmul_bytes,
        predictions,
        best_tile,
        matmul,
        tiles_and_waves,
        predicted_throughput,
        pad_to_multiple,
        grouped_order,
        hilbert_order,
    )
}
