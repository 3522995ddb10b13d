"""Programs that do one operation in different ways: in other tensors, with other masks, at other places. All is counted by hand."""

import random

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from sentences import says

from tritontrace.messages import say
from tritontrace.tracing import KernelFault, trace

N = 8  # elements of each tensor that is gathered from


@triton.jit
def gather_from_either(x_ptr, y_ptr, index_ptr, o_ptr, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    index = tl.load(index_ptr + p * B + i)
    source = tl.where(p % 2 == 0, x_ptr, y_ptr)
    tl.store(o_ptr + p * B + i, tl.load(source + index, mask=index >= 0, other=-1))


def places(programs: int, lanes: int) -> list[list[int]]:
    """Where each lane of each program looks, -1 where it does not: in no two programs alike, and one of them looks nowhere."""
    draw = random.Random(0)
    rows = [[draw.randrange(-3, N) for _ in range(lanes)] for _ in range(programs)]
    rows = [[max(-1, at) for at in row] for row in rows]
    rows[-1] = [-1] * lanes
    assert len({tuple(at < 0 for at in row) for row in rows}) > programs // 2, "hardly two masks alike"
    return rows


@pytest.mark.parametrize("dtype, itemsize", [(torch.int32, 4), (torch.int8, 1)])
@pytest.mark.parametrize("programs", [4, 12])
def test_each_program_gathers_from_one_of_two_tensors(programs, dtype, itemsize):
    index = places(programs, 16)
    x, y = torch.arange(N).to(dtype), 10 + torch.arange(N).to(dtype)
    o = torch.zeros(programs, 16, dtype=dtype)
    with trace({"x": x, "y": y}) as t:
        gather_from_either[(programs,)](x, y, torch.tensor(index, dtype=torch.int32), o, B=16)
    assert o.tolist() == [
        [-1 if at < 0 else at + 10 * (p % 2) for at in row] for p, row in enumerate(index)
    ]  # y holds 10 more
    for tensor, values, first in (("x", x, 0), ("y", y, 1)):
        mine = [[at for at in row if at >= 0] for row in index[first::2]]
        counted = t.accesses_to(tensor)
        looking = [row for row in mine if row]
        assert counted.elements == sum(map(len, mine))
        assert counted.bytes == itemsize * counted.elements
        assert (counted.instructions, counted.masked) == (len(looking), 16 * len(looking) - counted.elements)
        assert counted.sectors == len(looking), "all of a tensor lies in one sector"
        assert t.read_counts(values).tolist() == [sum(row.count(at) for row in mine) for at in range(N)]
        (access,) = [a for a in t.launches[0].accesses if a.tensor == tensor]
        assert access.request == [itemsize * at for at in mine[0]]
    moved = [64 + itemsize * (16 + sum(at >= 0 for at in row)) for row in index]
    (steps,) = t.steps
    assert steps.bytes_by_program().tolist() == moved
    for program, row in enumerate(index):
        touched = [
            (
                step.program,
                step.region.name,
                sorted(step.pattern.offsets + (step.address - step.region.base) // itemsize),
            )
            for step in steps.of_program(program)
            if step.region.name in ("x", "y")
        ]
        looked = sorted(at for at in row if at >= 0)
        assert touched == [(program, "xy"[program % 2], looked)] * bool(looked)
    assert t.faults == []


def test_one_lane_of_one_program_is_outside():
    index = places(12, 16)
    index[5][3] = N
    with trace() as t, pytest.raises(KernelFault) as outside:
        gather_from_either[(12,)](
            torch.zeros(N), torch.zeros(N), torch.tensor(index, dtype=torch.int32), torch.zeros(12, 16), B=16
        )
    facts = {"program": say("trace.program", index=5), "element": N, "tensor": "`y_ptr`", "size": N}
    assert says(outside.value, "trace.out_of_bounds.outside", **facts)
    assert [(fault.line, fault.source.split(" ")[0]) for fault in t.faults] == [(5, "tl.store(o_ptr")]


@triton.jit
def from_either(x_ptr, y_ptr, o_ptr, LANES: tl.constexpr, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    if LANES == "alike":
        tl.store(o_ptr + p * B + i, tl.load(tl.where(p % 2 == 0, x_ptr, y_ptr) + p * B + i))
    else:
        tl.store(o_ptr + p * B + i, tl.load(tl.where(p % 2 == 0, x_ptr, y_ptr) + (p // 2) * i))


@pytest.mark.parametrize("lanes", ["alike", "apart"])
@pytest.mark.parametrize("programs", [2, 4])
def test_each_program_loads_from_one_of_two_tensors(programs, lanes):
    x, y, o = torch.arange(64.0), 100 + torch.arange(64.0), torch.zeros(programs, 16)
    with trace({"x": x, "y": y}) as t:
        from_either[(programs,)](x, y, o, LANES=lanes, B=16)
    at = [[16 * p + i if lanes == "alike" else p // 2 * i for i in range(16)] for p in range(programs)]
    assert o.tolist() == [[100.0 * (p % 2) + place for place in row] for p, row in enumerate(at)]
    for values, first in ((x, 0), (y, 1)):
        assert t.accesses_to(values).bytes == 64 * programs // 2
        assert t.read_counts(values).tolist() == [sum(row.count(e) for row in at[first::2]) for e in range(64)]
    assert {step.region.name for step in t.steps[0].of_program(1)} == {"y", "o_ptr"}


@triton.jit
def from_both(x_ptr, y_ptr, o_ptr, n, PARTED: tl.constexpr, LESS: tl.constexpr, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    of_x = i < 4 * p if PARTED else i % 2 == 0
    tl.store(o_ptr + p * B + i, tl.load(tl.where(of_x, x_ptr, y_ptr) + i, mask=i < n - LESS * p, other=-1.0))


@pytest.mark.parametrize("less", [0, 1])  # active lanes that a program has less than the one before
@pytest.mark.parametrize("parted", [False, True])
def test_one_block_from_two_tensors(parted, less):
    """Every other lane looks at each of them; or those of program 0 all look at `y`, half of those of program 1, and none of 2."""
    x, y, o = torch.arange(8.0), 10 + torch.arange(8.0), torch.zeros(3, 8)
    with trace({"x": x, "y": y}) as t:
        from_both[(3,)](x, y, o, 7, PARTED=parted, LESS=less, B=8)
    looked = [["xy"[i >= 4 * p if parted else i % 2] for i in range(7 - less * p)] for p in range(3)]
    assert o.tolist() == [[i + 10.0 * (row[i] == "y") if i < len(row) else -1.0 for i in range(8)] for row in looked]
    for values, name in ((x, "x"), (y, "y")):
        assert t.read_counts(values).tolist() == [sum(row[i : i + 1] == [name] for row in looked) for i in range(8)]
    loads = [(s.program, s.region.name, np.arange(8)[s.elements].tolist()) for s in t.steps[0] if s.op == "load"]
    places = [[[i for i, one in enumerate(row) if one == name] for name in "xy"] for row in looked]
    assert loads == [(p, name, at) for p, row in enumerate(places) for name, at in zip("xy", row, strict=True) if at]
    assert t.steps[0].bytes_by_program().tolist() == [32 + 4 * len(row) for row in looked]


@triton.jit
def some_of_a_tile(x_ptr, o_ptr, N: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, N)
    offs = i[:, None] * N + i[None, :]
    tl.store(o_ptr + p, tl.sum(tl.load(x_ptr + offs, mask=offs < 300 * p, other=0.0)))


def test_each_program_takes_more_of_one_tile():
    x, o = torch.ones(64 * 64), torch.zeros(12)
    with trace() as t:
        some_of_a_tile[(12,)](x, o, N=64)
    assert o.tolist() == [300.0 * p for p in range(12)]
    assert t.read_counts(x).tolist() == [sum(e < 300 * p for p in range(12)) for e in range(64 * 64)]


@triton.jit
def scatter(index_ptr, o_ptr, B: tl.constexpr):
    p, i = tl.program_id(0), tl.arange(0, B)
    index = tl.load(index_ptr + p * B + i)
    tl.store(o_ptr + index, p, mask=index >= 0)


def test_the_one_element_to_which_two_programs_store_is_told():
    index = [[4 * p + i if (p >> i) & 1 else -1 for i in range(4)] for p in range(12)]
    assert index[3][:2] == [12, 13] and index[7][2] == 30
    index[7][2] = 13
    with trace() as t:
        scatter[(12,)](torch.tensor(index, dtype=torch.int32), torch.zeros(64, dtype=torch.int32), B=4)
    (fault,) = t.faults
    facts = {"program": say("trace.program", index=7), "other": say("trace.program", index=3), "element": 13}
    assert says(fault.sentence, "trace.race.stores", tensor="`o_ptr`", **facts)


@triton.jit
def all_the_same(x_ptr, o_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + tl.program_id(0) * B + i, tl.load(x_ptr + i))


def test_two_programs_that_do_the_same_are_two():
    with trace() as t:
        all_the_same[(2,)](torch.ones(16), torch.zeros(32), B=16)
    (steps,) = t.steps
    assert [(s.program, s.op, s.address - s.region.base) for s in steps] == [
        (0, "load", 0), (0, "store", 0), (1, "load", 0), (1, "store", 64),
    ]  # fmt: skip


@triton.jit
def does_nothing(x_ptr):
    pass


def test_a_program_that_touches_nothing_moves_nothing():
    with trace() as t:
        does_nothing[(4,)](torch.ones(4))
    assert t.steps[0].bytes_by_program().tolist() == [] and t.launches[0].busiest_bytes == 0


@triton.jit
def masked_out(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n, other=5.0))


def test_a_load_of_no_lane_at_all():
    o = torch.zeros(16)
    with trace() as t:
        masked_out[(2,)](torch.zeros(0), o, 0, B=16)
    assert o.tolist() == [5.0] * 16 and t.loads.bytes == t.loads.instructions == 0
