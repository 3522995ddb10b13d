"""Steps of a launch: which elements each access of a program touches, lane by lane, and what becomes of them if the launch fails."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing

from tritontrace.tracing import KernelFault, trace


@triton.jit
def copy(x_ptr, o_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i * STRIDE, mask=i < n), mask=i < n)


def test_the_elements_and_bytes_of_each_program():
    x, o = torch.randn(200), torch.empty(100)
    with trace({"x": x}) as t:
        copy[(2,)](x, o, 100, STRIDE=2, BLOCK=64)
    (steps,) = t.steps
    assert [step.op for step in steps] == ["load", "store"] * 2
    assert [step.elements.tolist() for step in steps if step.op == "load"] == [
        list(range(0, 128, 2)),
        list(range(128, 200, 2)),
    ]
    assert [step.elements for step in steps if step.op == "store"] == [slice(0, 64), slice(64, 100)]
    assert [step.op for step in steps.of_program(1)] == ["load", "store"]
    assert steps.bytes_by_program().tolist() == [512, 288]
    assert t.launches[0].busiest_bytes == 512


def test_elements_are_those_of_the_narrowest_dtype():
    x = torch.arange(64, dtype=torch.int32)
    with trace({"x": x}) as t:
        copy[(1,)](x.view(torch.int16), torch.empty(16, dtype=torch.int16), 16, STRIDE=1, BLOCK=16)
        copy[(1,)](x, torch.empty(16, dtype=torch.int32), 16, STRIDE=2, BLOCK=16)
    load = t.steps[1][0]
    assert load.elements.tolist() == [4 * i + half for i in range(16) for half in range(2)]


@triton.jit
def store_twice(o_ptr, at):
    tl.store(o_ptr, 2.0)
    tl.store(o_ptr + at, 3.0)


def test_a_launch_that_fails_leaves_tensors_as_they_were():
    o = torch.ones(4)
    with refusing("trace.out_of_bounds.outside", KernelFault, element=9, tensor="`o_ptr`"), trace():
        store_twice[(1,)](o, 9)
    assert o.tolist() == [1] * 4
    with trace():
        store_twice[(1,)](o, 3)
    assert o.tolist() == [2, 1, 1, 3]


def test_the_widest_request_is_of_the_first_program_where_programs_differ():
    @triton.jit
    def gather(x_ptr, index_ptr, o_ptr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(o_ptr + i, tl.load(x_ptr + tl.load(index_ptr + i)))

    x, index = torch.randn(64), torch.cat([torch.arange(32), 1 + torch.arange(32)])
    index[40] = 60
    with trace({"x": x}) as t:
        gather[(2,)](x, index, torch.empty(64), BLOCK=32)
    load = next(access for access in t.launches[0].accesses if access.tensor == "x")
    assert load.request == list(range(0, 128, 4))


# ----------------------------------------------------------------------------------------------------- lanes and threads


@triton.jit
def through_memory(order_ptr, x_ptr, o_ptr, AGAIN: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    here = tl.program_id(0) * BLOCK
    at = tl.load(order_ptr + here + i)
    mask = (at % 8 != tl.program_id(0)) if MASKED else (at >= 0)
    tl.store(x_ptr + here + at, i, mask=mask)
    back = at if AGAIN else tl.load(order_ptr + here + BLOCK - 1 - i)
    tl.store(o_ptr + here + i, tl.load(x_ptr + here + back, mask=mask, other=0))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("again", [True, False])
def test_lanes_that_lie_anyhow_read_what_they_have_stored(again, masked):
    """Programs whose lanes lie in different ways; in each, a lane loads its own element, or another lane's."""
    g = torch.Generator().manual_seed(0)
    order = torch.cat([torch.randperm(128, generator=g) for _ in range(10)]).int()
    x, o = torch.zeros(1280, dtype=torch.int32), torch.empty(1280, dtype=torch.int32)
    with trace({"x": x}) as t:
        through_memory[(10,)](order, x, o, AGAIN=again, MASKED=masked, BLOCK=128)
    assert {fault.between for fault in t.faults} == (set() if again else {"threads"})


@triton.jit
def words_and_halves(x_ptr, half_ptr, o_ptr, at):
    if tl.program_id(0) == 0:
        tl.store(x_ptr + at, 7)
    else:
        tl.store(o_ptr, tl.load(half_ptr))


@pytest.mark.parametrize("at, racing", [(0, {"load and store"}), (1, set())])
def test_a_store_of_a_word_disturbs_both_of_its_halves(at, racing):
    x = torch.zeros(4, dtype=torch.int32)
    with trace() as t:
        words_and_halves[(2,)](x, x.view(torch.int16)[1:], torch.empty(1, dtype=torch.int16), at)
    assert {fault.between for fault in t.faults} == racing
