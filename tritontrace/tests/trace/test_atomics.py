"""Atomics: what they leave and what they return, program after program and lane after lane. All by hand."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace

LANES = 512  # more than are added one by one where nobody asks for each sum


@triton.jit
def add_all(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Two lanes in three go to the first element, the others to the second."""
    i = tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + (i % 3) // 2, tl.load(x_ptr + i))


@pytest.mark.parametrize(
    "dtype, start, one, expected",
    [
        (torch.float32, 3.0, 1.0, [3 + 342, 3 + 170]),
        (torch.int32, 3, 1, [3 + 342, 3 + 170]),
        (torch.float32, 2.0**24, 1.0, [2.0**24, 2.0**24]),  # rounded each time, half to even
        (torch.float16, 2048.0, 1.0, [2048.0, 2048.0]),  # likewise, and not only when all are added
        (torch.bfloat16, 256.0, 1.0, [256.0, 256.0]),
    ],
)
def test_many_lanes_add_to_one_element(dtype, start, one, expected):
    o = torch.full((3,), start, dtype=dtype)
    with trace() as t:
        add_all[(1,)](torch.full((LANES,), one, dtype=dtype), o, BLOCK=LANES)
    assert o.tolist() == [*expected, start]
    assert t.atomics.elements == LANES and t.faults == []


@triton.jit
def count_all(o_ptr, seen_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(seen_ptr + i, tl.atomic_add(o_ptr + i % 2, 1 + i % 2))


def test_many_lanes_are_told_what_was_there_before_each():
    o, seen = torch.tensor([5, 7], dtype=torch.int32), torch.zeros(2 * LANES, dtype=torch.int32)
    with trace():
        count_all[(1,)](o, seen, BLOCK=2 * LANES)
    assert o.tolist() == [5 + LANES, 7 + 2 * LANES]
    assert seen.tolist() == [5 + i // 2 if i % 2 == 0 else 7 + 2 * (i // 2) for i in range(2 * LANES)]


@triton.jit
def largest(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_max(o_ptr + 0 * i, tl.load(x_ptr + i))


def test_many_lanes_have_a_maximum():
    x, o = torch.arange(LANES, dtype=torch.int32), torch.full((1,), 7, dtype=torch.int32)
    with trace():
        largest[(1,)](x, o, BLOCK=LANES)
    assert o.item() == LANES - 1


@triton.jit
def add_by_turns(x_ptr, o_ptr, BLOCK: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + i, tl.load(x_ptr + p), mask=(p % 2 == 0) | (i < 2))


def test_programs_whose_masks_differ_come_in_their_order():
    """1 + 1 + 2**24 is more than 1 + 2**24 + 1: there each 1 is rounded away."""
    o = torch.zeros(4)
    with trace():
        add_by_turns[(3,)](torch.tensor([1.0, 1.0, 2.0**24]), o, BLOCK=4)
    assert o.tolist() == [2.0**24 + 2] * 2 + [2.0**24] * 2
