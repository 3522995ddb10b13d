"""A sample of a launch's programs: fewer run, and everything that shows counts says so."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing

from tritontrace import KernelError, as_data, from_data, trace
from tritontrace.testing import assert_bytes_at_most


@triton.jit
def copied(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def in_turns(lock_ptr, y_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(y_ptr, tl.load(y_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


def launched(sample, programs=100):
    x, y = torch.arange(64 * programs - 3.0), torch.zeros(64 * programs - 3)
    with trace(sample=sample) as t:
        copied[(programs,)](x, y, len(x), BLOCK=64)
    return t, x, y


def test_the_first_the_last_and_others_evenly_between_run():
    t, x, y = launched(5)
    assert [int(p) for p in (y.nonzero().flatten() // 64).unique()] == [0, 24, 49, 74, 99]
    (launch,) = t.launches
    assert (launch.programs, launch.sampled_from) == (5, 100)
    assert sum(a.elements for a in launch.accesses if a.op == "store") == 5 * 64 - 3


def test_a_launch_that_is_no_larger_runs_whole():
    t, x, y = launched(100)
    assert torch.equal(x, y) and t.launches[0].sampled_from == 0 and "*" not in str(t)


def test_every_number_says_that_it_is_of_a_sample():
    t, *_ = launched(5)
    for seen in (t, from_data(as_data(t))):
        rows = [line.split() for line in str(seen).splitlines() if line.startswith("  ") and "_ptr" in line]
        assert rows and all(cell.endswith("*") for row in rows for cell in row[3:])
        assert "5 of 100 programs*" in str(seen) and as_data(seen)["launches"][0]["sampled_from"] == 100


def test_what_a_sample_cannot_tell_is_refused():
    t, *_ = launched(5)
    with pytest.raises(AssertionError, match="sample"):
        assert_bytes_at_most(t, 1 << 30)
    with refusing("launch.waiting.sampled", KernelError, kernel="in_turns"), trace(sample=2):
        in_turns[(4,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1))
