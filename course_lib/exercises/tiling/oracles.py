"""Oracles of unit 05: torch in float64, traced kernels, tiles dealt out one by one, and properties."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl

from course_lib.catalogue import say
from course_lib.criteria import sum_budget
from course_lib.hardware.measurements import measured
from course_lib.words import in_words
from tritontrace.tracing import MissCurve, matmul_tiles, row_major, trace

# ------------------------------------------------------------------------------------------------ oracles


def product(a: torch.Tensor, b: torch.Tensor, **_: int) -> torch.Tensor:
    """Compute a @ b in float64."""
    return a.double() @ b.double()


in_float32 = sum_budget(lambda a, b, **_: a.double().abs() @ b.double().abs(), lambda a, b, **_: a.shape[-1])


def pieces(length: int, block: int) -> Iterator[int]:
    """Yield the length of each block into which a length is cut; the last may be short."""
    return (min(block, length - start) for start in range(0, length, block))


@triton.jit
def probe(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    """Load what a tile of a @ b needs, once, in each program, and store something there: only the bytes moved count."""
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
    """Trace the probe kernel on an (m, n, k) product and return the trace."""
    a, b, c = (torch.ones(shape, dtype=DTYPES[itemsize]) for shape in ((m, k), (k, n), (m, n)))
    with trace() as t:
        grid = (len(list(pieces(m, bm))), len(list(pieces(n, bn))))
        probe[grid](a, b, c, m, n, k, BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk)  # pyright: ignore[reportArgumentType]
    return t


def moved(m: int, n: int, k: int, bm: int, bn: int) -> int:
    """Count the elements that the tiles of a product load, tile by tile."""
    rows, columns = (np.array(list(pieces(length, block))) for length, block in ((m, bm), (n, bn)))
    return int(np.add.outer(rows, columns).sum()) * k


def dealt(m: int, n: int, bm: int, bn: int, sms: int) -> tuple[int, int]:
    """Return (tiles, waves): each SM takes one tile, and when all have, the next wave begins."""
    tiles = [(i, j) for i, _ in enumerate(pieces(m, bm)) for j, _ in enumerate(pieces(n, bn))]
    waves, left = 0, list(tiles)
    while left:
        left, waves = left[sms:], waves + 1
    return len(tiles), waves


def model_seconds(
    n: int, bm: int, bn: int, sms: int, flops_per_second: float, bytes_per_second: float, launch_seconds: float
) -> float:
    """Predict the seconds of an (n, n, n) product of 2-byte numbers by the unit's model, n a multiple of 8: waves, or memory."""
    _, waves = dealt(n, n, bm, bn, sms)
    a_wave = 2 * bm * bn * n / (flops_per_second / sms)
    return launch_seconds + max(waves * a_wave, 3 * 2 * n * n / bytes_per_second)


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Compute Spearman's rank correlation: 1 if both put the sizes in the same order."""

    def ranks(values: Sequence[float]) -> np.ndarray:
        _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        return (last - (counts - 1) / 2)[inverse]  # equal values share the mean of their ranks

    return float(np.corrcoef(ranks(x), ranks(y))[0, 1])


# ------------------------------------------------------------------------------------------------ properties


def fits_and_moves_least(output: Any, m: int, n: int, k: int, shared_bytes: int) -> str:
    """Return "" if a tile (bm, bn) fits and no other moves less, else a message."""
    said = say("tiling.best_tile.task", m=m, n=n, k=k, shared_bytes=shared_bytes)
    sides = [1 << p for p in range(4, 9)]
    if not isinstance(output, list) or [type(side) for side in output] != [int, int]:
        return say("tiling.best_tile.no_pair", given=said, got=in_words(output))
    bm, bn = output
    if bm not in sides or bn not in sides:
        return say("tiling.best_tile.sides", given=said, bm=bm, bn=bn)
    if not fits(bm, bn, shared_bytes):
        return say("tiling.best_tile.does_not_fit", given=said, bm=bm, bn=bn)
    best = min(
        (p for p in ((x, y) for x in sides for y in sides) if fits(*p, shared_bytes)), key=lambda p: moved(m, n, k, *p)
    )
    more = moved(m, n, k, bm, bn) / moved(m, n, k, *best)
    return "" if more == 1 else say("tiling.best_tile.more", given=said, bm=bm, bn=bn, more=more)


def fits(bm: int, bn: int, shared_bytes: int) -> bool:
    """Whether three stages of 64 columns of a and 64 rows of b fit, 2 bytes each, and an accumulator in half of an SM's registers."""
    return 3 * 64 * (bm + bn) * 2 <= shared_bytes and bm * bn <= 32768


def pads_least(output: Any, n: int, multiple: int) -> str:
    """Return "" if a padded size is the next multiple, else a message."""
    said = say("tiling.pad_to_multiple.task", n=n, multiple=multiple)
    if type(output) is not int:
        return say("tiling.pad_to_multiple.no_number", given=said, got=in_words(output))
    right = next(candidate for candidate in range(n, n + multiple) if candidate % multiple == 0)
    return "" if output == right else say("tiling.pad_to_multiple.wrong", given=said, output=output)


def is_a_curve(output: Any, sizes: Sequence[int], **_: Any) -> str:
    """Return "" for a list of positive numbers, one for each size, else a message."""
    if not isinstance(output, list) or len(output) != len(sizes):
        return say("tiling.predicted_throughput.no_list", sizes=len(sizes), got=in_words(output))
    for n, speed in zip(sizes, output, strict=True):
        if type(speed) not in (int, float) or not math.isfinite(speed) or speed <= 0:
            return say("tiling.predicted_throughput.no_speed", n=n, got=in_words(speed))
    return ""


def follows_the_model(output: Any, sizes: Sequence[int], **machine: Any) -> str:
    """Return "" if a curve of FLOP/s is that of the unit's model, else a message."""
    problem = is_a_curve(output, sizes)
    for n, found in zip(sizes, output if not problem else [], strict=False):
        expected = 2 * n**3 / model_seconds(n, **machine)
        if not math.isclose(found, expected, rel_tol=1e-6):
            _, waves = dealt(n, n, machine["bm"], machine["bn"], machine["sms"])
            return say("tiling.predicted_throughput.other", n=n, waves=waves, right=expected, got=found)
    return problem


def slows_down(output: Any, sizes: Sequence[int], **_: Any) -> str:
    """Return "" if each size that 8 does not divide is slower than the next multiple of 8 in the same answer, by at most 20 times; else a
    message. That multiple is among the sizes. Waves are not checked."""
    problem = is_a_curve(output, sizes)
    speed = dict(zip(sizes, output if not problem else [], strict=False))
    for n, found in speed.items():
        aligned = -(-n // 8) * 8
        if n % 8 and not speed[aligned] / 20 <= found <= 0.9 * speed[aligned]:
            return say(
                "tiling.predicted_throughput.not_slower", n=n, got=found, share=found / speed[aligned], aligned=aligned
            )
    return problem


def ranks_the_measured(output: Any, sizes: Sequence[int], **_: Any) -> str:
    """Return "" if a curve ranks sizes nearly as the measured speeds do, else a message."""
    problem = is_a_curve(output, sizes)
    if problem:
        return problem
    found = with_the_measured(output, sizes)
    return "" if found >= 0.95 else say("tiling.predicted_throughput.ranks", sizes=len(sizes), correlation=found)


def with_the_measured(output: Sequence[float], sizes: Sequence[int]) -> float:
    """Return the rank correlation of these speeds with those measured on an H200."""
    speeds = dict(measured("mystery_plot")["curve"]["points"])
    return rank_correlation(output, [speeds[n] for n in sizes])


def is_an_order(output: Any, grid_m: int, grid_n: int, **_: Any) -> str:
    """Return "" if each tile of the grid has one program, else a message."""
    said = say("tiling.order.grid", grid_m=grid_m, grid_n=grid_n)
    wrong = [
        (pid, tile)
        for pid, tile in enumerate(output)
        if not (isinstance(tile, list) and [type(x) for x in tile] == [int, int])
    ]
    if wrong:
        return say("tiling.order.no_tile", given=said, program=wrong[0][0], got=in_words(wrong[0][1]))
    outside = [(pid, tile) for pid, tile in enumerate(output) if not (0 <= tile[0] < grid_m and 0 <= tile[1] < grid_n)]
    if outside:
        return say("tiling.order.outside", given=said, program=outside[0][0], tile=str(tuple(outside[0][1])))
    first: dict[tuple, int] = {}
    for pid, tile in enumerate(map(tuple, output)):
        if tile in first:
            return say("tiling.order.twice", given=said, one=first[tile], other=pid, tile=str(tile))
        first[tile] = pid
    return ""


def finishes_groups(output: Any, grid_m: int, grid_n: int, group: int, **_: Any) -> str:
    """Return "" if programs go through `group` rows of tiles, column by column, before the next rows begin; else a message."""
    problem = is_an_order(output, grid_m, grid_n)
    for pid, tile in enumerate(output if not problem else []):
        m, n = tile
        done = sum(1 for other in output[:pid] if other[0] // group == m // group and other[1] < n)
        height = next(h for i, h in enumerate(pieces(grid_m, group)) if i == m // group)
        if any(other[0] // group > m // group for other in output[:pid]):
            return say("tiling.grouped_order.goes_back", grid_m=grid_m, grid_n=grid_n, group=group, program=pid, row=m)
        if done != n * height:
            return say(
                "tiling.grouped_order.column",
                grid_m=grid_m,
                grid_n=grid_n,
                group=group,
                program=pid,
                column=n,
                before=n - 1,
            )
    return problem


def saves_traffic(output: Any, **arguments: int) -> str:
    """Return "" if the L2 model reads few enough DRAM bytes, against row order; else a message."""
    grid_m, grid_n = arguments.get("grid_m") or arguments["side"], arguments.get("grid_n") or arguments["side"]
    problem = is_an_order(output, grid_m, grid_n)
    if problem:
        return problem
    share = dram_share(output, grid_m, grid_n)
    return "" if share <= 0.65 else say("tiling.order.dram", share=share)


def dram_share(
    order: Sequence[Sequence[int]], M: int, N: int, K: int = 16, at_once: int = 132, tiles: int = 320
) -> float:
    """Return the DRAM bytes that an order of tiles needs, divided by those of row order, with an L2 that holds `tiles` tiles of a and b."""
    own = MissCurve(matmul_tiles(np.array(order), K, at_once)).read_bytes(tiles)
    return float(own / _bytes_by_rows(M, N, K, at_once, tiles))


@lru_cache(maxsize=64)
def _bytes_by_rows(M: int, N: int, K: int, at_once: int, tiles: int) -> float:
    return float(MissCurve(matmul_tiles(row_major(M, N), K, at_once)).read_bytes(tiles))


def touches(output: Any, side: int, **_: int) -> str:
    """Return "" if each tile lies next to the one before it, else a message."""
    problem = is_an_order(output, side, side)
    for pid, (one, two) in enumerate(itertools.pairwise(output) if not problem else []):
        if abs(one[0] - two[0]) + abs(one[1] - two[1]) != 1:
            return say(
                "tiling.hilbert_order.apart",
                side=side,
                program=pid,
                one=str(tuple(one)),
                next=pid + 1,
                two=str(tuple(two)),
            )
    return problem


def stays_near(output: Any, side: int, **_: int) -> str:
    """Return "" if every 4, 16, 64, ... programs in a row, from the start of such a piece, fill a square; else a message."""
    problem = is_an_order(output, side, side)
    width = 2
    while not problem and width < side:
        for start in range(0, side * side, width * width):
            piece = output[start : start + width * width]
            if max(np.ptp(np.array(piece), axis=0)) != width - 1:
                return say(
                    "tiling.hilbert_order.no_square", side=side, start=start, end=start + width * width - 1, width=width
                )
        width *= 2
    return problem
