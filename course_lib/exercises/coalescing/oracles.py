"""Oracles of unit 04: traced probes, and warps followed step by step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl

from course_lib.catalogue import say
from course_lib.exercises.coalescing.cases import DTYPES
from course_lib.words import in_words
from tritontrace.tracing import trace


@triton.jit
def probe(x_ptr, out_ptr, STEP: tl.constexpr, START: tl.constexpr, EVERY: tl.constexpr, LANES: tl.constexpr):
    """Read element i * STEP + START in lane i, if EVERY divides i."""
    i = tl.arange(0, LANES)
    x = tl.load(x_ptr + i * STEP + START, mask=i % EVERY == 0, other=0)
    tl.store(out_ptr + i, x)


@lru_cache(maxsize=256)  # a class asks for the same ones again and again
def traced(itemsize: int, *, step: int = 1, start: int = 0, every: int = 1, lanes: int = 1024):
    """Trace the probe kernel, and return its loads."""
    x = torch.ones(lanes * step + start, dtype=DTYPES[itemsize])
    with trace() as t:
        probe[(1,)](x, torch.empty(lanes, dtype=x.dtype), STEP=step, START=start, EVERY=every, LANES=lanes)  # pyright: ignore[reportArgumentType]
    return t.accesses_to("x_ptr", "load")


@triton.jit
def read_rows(x_ptr, out_ptr, n, row_stride, BLOCK: tl.constexpr):
    """Copy a row of n elements in each program."""
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(out_ptr + row * BLOCK + i, tl.load(x_ptr + row * row_stride + i, mask=i < n, other=0))


FARTHEST = 1 << 16  # that rows may start apart, in elements: what a check lays out


def starts_sectors(output: Any, n: int, itemsize: int) -> str:
    """Return "" if four rows of n elements, `output` elements apart, are read with the fewest sectors, else a message."""
    if type(output) is float and output.is_integer():
        output = int(output)  # math.ceil and np.ceil differ in this alone
    given = say("coalescing.padded_stride.given", n=n, itemsize=itemsize, got=in_words(output))
    if type(output) is float:
        return say("coalescing.padded_stride.not_whole", given=given)
    if type(output) is not int:
        return say("coalescing.padded_stride.no_stride", given=given)
    if output < n:
        return say("coalescing.padded_stride.too_small", given=given, n=n)
    if output > FARTHEST:
        return say("coalescing.padded_stride.too_large", given=given, farthest=FARTHEST)
    rows, BLOCK = 4, int(triton.next_power_of_2(n))
    x = torch.ones(rows * output, dtype=DTYPES[itemsize])
    with trace() as t:
        read_rows[(rows,)](x, torch.empty(rows * BLOCK, dtype=x.dtype), n, output, BLOCK=BLOCK)  # pyright: ignore[reportArgumentType]
    sectors, fewest = t.accesses_to("x_ptr", "load").sectors, rows * math.ceil(n * itemsize / 32)
    rows_of = say("coalescing.padded_stride.rows", n=n, itemsize=itemsize, output=output)
    return (
        ""
        if sectors == fewest
        else say("coalescing.padded_stride.sectors", rows=rows_of, sectors=sectors, fewest=fewest)
    )


def passes(taken: Sequence[bool], warp: int = 32) -> int:
    """Count the passes of warps through an if: one where some lane takes it, and one for the else where some lane does not."""
    warps = [taken[start : start + warp] for start in range(0, len(taken), warp)]
    return sum(any(lanes) + any(not lane for lane in lanes) for lanes in warps)
