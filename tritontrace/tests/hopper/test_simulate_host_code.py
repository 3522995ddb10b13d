"""Host code that allocates is simulated as well: each order makes tensors of its own."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import says
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl

from tritontrace.hopper import simulate


@gluon.jit
def double(x_ptr, o_ptr):
    offs = ttgl.arange(0, 128, layout=ttgl.BlockedLayout([1], [32], [4], [0]))
    ttgl.store(o_ptr + offs, 2 * ttgl.load(x_ptr + offs))


@triton.jit
def add(x_ptr, o_ptr, B: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + tl.load(x_ptr + offs))


def quadruple(x, keep):
    once = torch.empty_like(x)
    double[(1,)](x, once)
    twice = torch.empty(1000)  # most of it nobody writes
    double[(1,)](once, twice)
    keep.append(twice[:128])
    return twice


def of_random_numbers(x, keep):
    noise = torch.rand(128)
    out = torch.zeros(128)
    double[(1,)](noise, out)
    add[(1,)](x, out, B=128)
    keep.append(out)


def in_place(x, keep):
    add[(1,)](torch.ones(128), x, B=128)
    for _ in range(3):
        double[(1,)](x.clone(), x)
    keep.append(x.clone())


@pytest.mark.parametrize("host", [quadruple, of_random_numbers, in_place])
def test_host_code_that_allocates_is_right(host):
    x, keep = torch.arange(128.0), []
    report = simulate(host, x, keep)
    assert report.right, report.faults
    assert all(left.equal(keep[0]) for left in keep)
    if host is quadruple:
        assert keep[0].equal(4 * x)


def test_every_order_begins_with_what_tensors_held():
    x, keep = torch.arange(128.0), []
    simulate(in_place, x, keep)
    assert keep[-1].equal(8 * (torch.arange(128.0) + 1))


def test_orders_that_launch_something_else_are_told():
    calls = []

    def host(x):
        calls.append(1)
        for _ in range(len(calls)):
            double[(1,)](x, torch.empty_like(x))

    report = simulate(host, torch.zeros(128))
    assert not report.right and report.faults[0].sentence.id == "hopper.order.launches"


def test_what_an_order_stores_otherwise_is_found_in_tensors_of_its_own():
    calls = []

    def host(x):
        calls.append(1)
        out = torch.empty(128)
        double[(1,)](x + len(calls), out)

    report = simulate(host, torch.zeros(128))
    assert not report.right and says(report.faults[0].sentence, "hopper.order.numbers", element=0, size=128)
