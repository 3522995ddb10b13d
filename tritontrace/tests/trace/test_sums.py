"""Offsets that are kept as sums of rows and columns are what they would be if they were added up at once."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import says

from tritontrace.messages import say
from tritontrace.tracing import sums, trace
from tritontrace.ttir.launching import KernelFault


@pytest.fixture(params=["sums", "added up"], autouse=True)
def kept(request, monkeypatch):
    """Each test once with sums, however small the block, and once without any."""
    monkeypatch.setattr(sums, "FEW", 1 if request.param == "sums" else 1 << 40)


@triton.jit
def overflowing(x_ptr, o_ptr, FAR: tl.constexpr):
    """rows * FAR fits into 32 bits, and so do the columns; their sum does not, and comes out where the tile begins."""
    rows, cols = tl.arange(0, 4), tl.arange(0, 64)
    offsets = rows[:, None] * 64 + (cols[None, :] + FAR)
    offsets = offsets + FAR  # 2 * 2**31 in all: 0 modulo 2**32
    offsets = offsets + FAR + FAR
    tl.store(o_ptr + rows[:, None] * 64 + cols[None, :], tl.load(x_ptr + offsets))


def test_offsets_of_32_bits_wrap():
    x, o = torch.randn(4, 64), torch.empty(4, 64)
    with trace():
        overflowing[(1,)](x, o, FAR=2**30)
    assert torch.equal(o, x)


@triton.jit
def apart(x_ptr, o_ptr, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A sum from before a branch is used in it, by some of the programs, with masks that differ."""
    program = tl.program_id(0)
    rows, cols = program * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    offsets = rows[:, None] * N + cols[None, :]
    if program % 2 == 0:
        x = tl.load(x_ptr + offsets, mask=(rows % 3 > 0)[:, None] & (cols < N)[None, :], other=-1.0)
        tl.store(o_ptr + offsets, x, mask=(cols < N)[None, :])
    else:
        tl.store(o_ptr + offsets, offsets, mask=cols[None, :] < N - program)


def test_programs_part_ways_with_a_sum():
    x, o = torch.randn(64, 60), torch.zeros(64, 60)
    with trace() as t:
        apart[(8,)](x, o, 60, ROWS=8, BLOCK=64)
    want = torch.zeros(64, 60)
    for program in range(8):
        mine = slice(8 * program, 8 * program + 8)
        number = torch.arange(64.0)[mine]
        if program % 2 == 0:
            want[mine] = torch.where((number % 3 > 0)[:, None], x[mine], -1.0)
        else:
            want[mine, : 60 - program] = (number[:, None] * 60 + torch.arange(60.0))[:, : 60 - program]
    assert torch.equal(o, want)
    loads = sum(60 for program in range(0, 8, 2) for row in range(8 * program, 8 * program + 8) if row % 3)
    assert (t.loads.elements, t.stores.elements) == (loads, 4 * 8 * 60 + 8 * sum(60 - p for p in range(1, 8, 2)))


@triton.jit
def carried(x_ptr, o_ptr, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Pointers that a loop moves on, and a sum of offsets that comes out of a branch."""
    rows, cols = tl.arange(0, ROWS), tl.arange(0, BLOCK)
    pointers = x_ptr + rows[:, None] * N + cols[None, :]
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for _ in range(0, N, BLOCK):
        total += tl.load(pointers)
        pointers += BLOCK
    if tl.program_id(0) == 0:
        where = rows[:, None] * BLOCK + cols[None, :]
    else:
        where = ROWS * BLOCK + rows[:, None] + cols[None, :] * ROWS
    tl.store(o_ptr + where, total)


def test_sums_go_through_loops_and_branches():
    x, o = torch.randn(16, 128), torch.empty(2, 16, 32)
    with trace() as t:
        carried[(2,)](x, o, 128, ROWS=16, BLOCK=32)
    want = x.view(16, 4, 32).sum(1)
    torch.testing.assert_close(o[0], want)
    torch.testing.assert_close(o[1].view(32, 16).T, want)
    assert t.loads.elements == 2 * 16 * 128 and not t.faults


@triton.jit
def askew(x_ptr, o_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """The rows of each program are further apart than those of the one before."""
    program, rows, cols = tl.program_id(0), tl.arange(0, ROWS), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows[:, None] * BLOCK * (program + 1) + cols[None, :])
    tl.store(o_ptr + program * ROWS * BLOCK + rows[:, None] * BLOCK + cols[None, :], x)


def test_rows_that_lie_differently_in_each_program():
    x, o = torch.randn(32, 16), torch.empty(4, 8, 16)
    with trace() as t:
        askew[(4,)](x, o, ROWS=8, BLOCK=16)
    assert torch.equal(o, torch.stack([x[: 8 * p : p] for p in range(1, 5)]))
    assert t.loads.sectors == 4 * 8 * 2 and t.stores.sectors == 4 * 8 * 2


@triton.jit
def masks_added(o_ptr, N: tl.constexpr):
    rows, cols = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(o_ptr + rows * N + cols, ((rows < 8) + (cols < 4)).to(tl.int32))


def test_truth_values_are_no_sum():
    """1 + 1 is 0 in one bit."""
    o = torch.empty(16, 16, dtype=torch.int32)
    with trace():
        masks_added[(1,)](o, N=16)
    at = torch.arange(16)
    assert torch.equal(o, ((at[:, None] < 8) ^ (at < 4)).int())


@triton.jit
def too_far(x_ptr, o_ptr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows, cols = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    offsets = rows[:, None] * BLOCK + cols[None, :]
    tl.store(o_ptr + offsets, tl.load(x_ptr + offsets))


def test_a_sum_out_of_bounds_is_a_fault():
    with trace(), pytest.raises(KernelFault) as outside:
        too_far[(5,)](torch.randn(32, 16), torch.empty(40, 16), ROWS=8, BLOCK=16)
    facts = {"program": say("trace.program", index=4), "element": 512, "tensor": "`x_ptr`"}
    assert says(outside.value, "trace.out_of_bounds.outside", **facts)
