"""Locks and tickets order programs; the trace knows, and calls them no races."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib.tracing import trace

PROGRAMS = 4


@triton.jit
def add_under_a_lock(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def add_beside_a_lock(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)


@pytest.mark.parametrize("kernel, races", [(add_under_a_lock, 0), (add_beside_a_lock, 1)])
def test_a_lock_orders_what_lies_within_it(kernel, races):
    x, o = torch.randn(PROGRAMS, 16), torch.zeros(16)
    with trace() as t:
        kernel[(PROGRAMS,)](x, torch.zeros(1, dtype=torch.int32), o, BLOCK=16)
    torch.testing.assert_close(o, x.sum(0))
    assert len({fault.line for fault in t.faults}) == races


@triton.jit
def last_one_sums(x_ptr, count_ptr, partial_ptr, o_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.sum(tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK))))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        tl.store(o_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def last_one_sums_too_early(x_ptr, count_ptr, partial_ptr, o_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    ticket = tl.atomic_add(count_ptr, 1)
    tl.store(partial_ptr + p, tl.sum(tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK))))
    if ticket == PROGRAMS - 1:
        tl.store(o_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def last_one_sums_relaxed(x_ptr, count_ptr, partial_ptr, o_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.sum(tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK))))
    if tl.atomic_add(count_ptr, 1, sem="relaxed") == PROGRAMS - 1:
        tl.store(o_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@pytest.mark.parametrize(
    "kernel, tensors",
    [(last_one_sums, []), (last_one_sums_too_early, ["partial_ptr"]), (last_one_sums_relaxed, ["partial_ptr"])],
)
def test_a_ticket_orders_what_was_stored_before_it(kernel, tensors):
    x, o = torch.randn(PROGRAMS, 16), torch.zeros(1)
    with trace() as t:
        partial = torch.empty(PROGRAMS)
        kernel[(PROGRAMS,)](x, torch.zeros(1, dtype=torch.int32), partial, o, PROGRAMS=PROGRAMS, BLOCK=16)
    torch.testing.assert_close(o[0], x.sum())
    assert [fault.tensor for fault in t.faults] == tensors


@triton.jit
def read_then_overwrite(x_ptr, count_ptr, o_ptr, PROGRAMS: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o_ptr + p, tl.load(x_ptr))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        tl.store(x_ptr, 0.0)


def test_the_last_may_overwrite_what_all_have_read():
    with trace() as t:
        read_then_overwrite[(PROGRAMS,)](torch.ones(1), torch.zeros(1, dtype=torch.int32), torch.empty(4), PROGRAMS=4)
    assert t.faults == []
