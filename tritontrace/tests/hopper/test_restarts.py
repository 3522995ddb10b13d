"""Loops in helpers that Triton begins at the same number each time are named; others are not."""

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from tritontrace.hopper import simulate
from tritontrace.hopper.facts import simulated


@gluon.jit
def _carried(x_ptr, rounds, steps):
    done = 0
    for _ in range(0, rounds):
        for i in range(done, done + steps):
            gl.store(x_ptr + i, i)
        done += steps


@gluon.jit
def _counted(x_ptr, rounds, steps):
    done = 0
    for _ in range(0, rounds):
        for i in range(0, steps):
            gl.store(x_ptr + done + i, done + i)
        done += steps


@gluon.jit
def _of_the_induction_variable(x_ptr, rounds, steps):
    for start in range(0, rounds):
        for i in range(start, start + steps):
            gl.store(x_ptr + start * steps + i - start, start * steps + i - start)


@gluon.jit
def kernel(x_ptr, rounds, steps, WAY: gl.constexpr):
    if WAY == 0:
        _carried(x_ptr, rounds, steps)
    elif WAY == 1:
        _counted(x_ptr, rounds, steps)
    else:
        _of_the_induction_variable(x_ptr, rounds, steps)


@pytest.mark.parametrize("way, named", [(0, ["_carried"]), (1, []), (2, [])])
def test_only_a_loop_that_begins_at_a_carried_number_is_named(way, named):
    x = torch.zeros(12, dtype=torch.int32)
    report = simulate(kernel[(1,)], x, 3, 4, WAY=way, orders=("lazy",), num_warps=1)
    assert report.right, report.fault
    assert x.tolist() == [*range(12)]
    lines = simulated(report).restarts
    assert [name for name in ("_carried", "_counted", "_of_the_induction_variable") if name in "".join(lines)] == named
