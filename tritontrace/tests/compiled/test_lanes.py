"""The lanes of a request are neighbours in the order in which Triton's Coalesce pass lays them: asked of the compiler itself."""

import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tritontrace import compiled
from tritontrace.tracing import trace


@triton.jit
def window(
    x_ptr, o_ptr, masked: tl.constexpr, SA: tl.constexpr, SB: tl.constexpr, SC: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, C: tl.constexpr,
):  # fmt: skip
    a, b, c = tl.arange(0, A)[:, None, None], tl.arange(0, B)[None, :, None], tl.arange(0, C)[None, None, :]
    offs = a * SA + b * SB + c * SC
    if masked:  # programs whose lanes have nothing in common
        offs += tl.program_id(0) * tl.program_id(0) * a * 8
    tl.store(o_ptr + a * B * C + b * C + c, tl.load(x_ptr + offs))


# strides and lengths of the three axes of a block, which has an element for each of a program's 128 threads
BLOCKS = [
    ((0, 1, 1), (1, 4, 64)),  # windows: a row begins one element after the row above
    ((0, 1, 1), (1, 64, 4)),
    ((1, 8, 1), (4, 8, 4)),
    ((1, 1, 8), (8, 8, 2)),
    ((1, 1, 64), (4, 8, 4)),
    ((1, 1, 1), (4, 16, 2)),
    ((8, 1, 1), (2, 8, 16)),
    ((1, 4, 16), (4, 4, 8)),
    ((9, 10, 11), (4, 4, 8)),
    ((64, 8, 1), (2, 8, 8)),
]


@pytest.mark.parametrize("strides, lengths", BLOCKS)
def test_requests_hold_the_lanes_that_the_compiler_lays_side_by_side(strides, lengths):
    x, o = torch.zeros(4096), torch.zeros(int(np.prod(lengths)))
    text = compiled._assembled(window, (x, o, False, *strides, *lengths), {}, "sm_90").asm["ttgir"]
    layout = re.search(r"tt\.load .*tensor<[^,]*, (#\w+)>", text)[1]
    fastest_first = re.search(rf"^{layout} = .*order = \[([\d, ]+)\]", text, re.MULTILINE)[1].split(", ")
    grid = np.indices(lengths)
    sectors = sum(index * step for index, step in zip(grid, strides, strict=True)) * 4 // 32
    requests = sectors.transpose([int(axis) for axis in reversed(fastest_first)]).reshape(-1, 32)
    with trace() as t:
        window[(1,)](x, o, False, *strides, *lengths)
    assert t.loads.sectors == sum(len(set(request)) for request in requests.tolist())


def test_programs_that_differ_are_counted_along_the_same_axis():
    x, o = torch.zeros(65536), torch.zeros(256)
    with trace() as t:
        window[(3,)](x, o, True, 0, 1, 1, 1, 64, 4)
    assert (
        t.loads.sectors == 3 * 38
    )  # 4 columns of 64 rows, 2 requests each: 4 sectors, or 5 where one begins in the middle
