"""Programs that wait for one another take turns; who waits for what nobody does is told so."""

import contextlib

import pytest
import torch
import triton
import triton.language as tl
from sentences import says

from tritontrace.messages import say
from tritontrace.tracing import KernelError, trace


@triton.jit
def waits_for_the_next(flag_ptr, o_ptr, PROGRAMS: tl.constexpr):
    """Program 0 waits for the last one, which comes after it in every order but the reverse."""
    program = tl.program_id(0)
    if program == PROGRAMS - 1:
        tl.store(o_ptr + 1, 7)
        tl.atomic_xchg(flag_ptr, 1)
    if program == 0:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
        tl.store(o_ptr, tl.load(o_ptr + 1))


def test_a_program_may_wait_for_a_later_one():
    o = torch.zeros(2, dtype=torch.int32)
    with trace() as t:
        waits_for_the_next[(5,)](torch.zeros(1, dtype=torch.int32), o, PROGRAMS=5)
    assert o.tolist() == [7, 7] and t.faults == []


@triton.jit
def barrier_of_all(count_ptr, x_ptr, o_ptr, PROGRAMS: tl.constexpr):
    """Every program stores, waits for all, then loads what its neighbour stored."""
    program = tl.program_id(0)
    tl.store(x_ptr + program, program)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < PROGRAMS:
        pass
    tl.store(o_ptr + program, tl.load(x_ptr + (program + 1) % PROGRAMS))


def test_a_barrier_of_all_programs():
    o = torch.zeros(300, dtype=torch.int32)
    with trace() as t:
        barrier_of_all[(300,)](torch.zeros(1, dtype=torch.int32), torch.empty(300, dtype=torch.int32), o, PROGRAMS=300)
    assert o.tolist() == [*range(1, 300), 0] and t.faults == []


@triton.jit
def lock_nobody_opens(lock_ptr, o_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + tl.program_id(0), 1.0)


def test_who_waits_for_ever_is_told_for_what():
    o = torch.zeros(3)
    with pytest.raises(KernelError) as raised, trace():
        lock_nobody_opens[(3,)](torch.zeros(1, dtype=torch.int32), o)
    site = "kernel `lock_nobody_opens`, line 2: `while tl.atomic_cas(lock_ptr, 0, 1) == 1:`"
    facts = {"site": site, "element": 0, "tensor": "lock_ptr", "waits": False, "waiting": 2}
    programs = {"program": say("trace.program", index=1), "last": say("trace.program", index=0)}
    assert says(raised.value, "launch.waiting.changed", **facts, **programs)
    assert (o == 0).all()  # a launch that does not end wrote nothing


@triton.jit
def each_waits_for_the_other(flag_ptr):
    while tl.atomic_add(flag_ptr + 1 - tl.program_id(0), 0) == 0:
        pass
    tl.atomic_xchg(flag_ptr + tl.program_id(0), 1)


def test_two_that_wait_for_each_other():
    with pytest.raises(KernelError) as raised, trace():
        each_waits_for_the_other[(2,)](torch.zeros(2, dtype=torch.int32))
    facts = {"program": say("trace.program", index=0), "element": 1, "tensor": "flag_ptr"}
    assert says(raised.value, "launch.waiting.unchanged", **facts)


@triton.jit
def counts_while_another_waits(flag_ptr, count_ptr, o_ptr, HOW: tl.constexpr):
    """The loop of program 1 carries nothing: that it gets on shows in memory alone."""
    i = tl.arange(0, 512)
    if tl.program_id(0) == 0:
        while tl.atomic_add(flag_ptr, 0) == 0:
            pass
        tl.store(o_ptr, tl.load(count_ptr))
    else:
        while tl.load(count_ptr, volatile=True) < 512 * 20:
            if HOW == "store":
                tl.store(count_ptr, tl.load(count_ptr) + 512)
            if HOW == "one atomic":
                tl.atomic_add(count_ptr, 512)
            if HOW == "many lanes":
                tl.atomic_add(count_ptr + 0 * i, 1)
        tl.debug_barrier()
        tl.atomic_xchg(flag_ptr, 1)


@pytest.mark.parametrize("how", ["store", "one atomic", "many lanes"])
def test_whoever_changes_memory_gets_on(how):
    flag, count, o = (torch.zeros(1, dtype=torch.int32) for _ in range(3))
    with trace():
        counts_while_another_waits[(2,)](flag, count, o, HOW=how)
    assert o.item() == 512 * 20


@triton.jit
def unlucky_order(flag_ptr, o_ptr):
    """Takes its turn when it comes: program p waits until p programs are done."""
    while tl.atomic_add(flag_ptr, 0) != tl.num_programs(0) - 1 - tl.program_id(0):
        pass
    tl.store(o_ptr + tl.program_id(0), tl.program_id(0))
    tl.atomic_add(flag_ptr, 1)


@pytest.mark.parametrize("order", [None, "shuffled", lambda n: range(n - 1, -1, -1)])
def test_turns_in_any_order(order):
    o = torch.zeros(20, dtype=torch.int32)
    with trace(order=order) as t:
        unlucky_order[(20,)](torch.zeros(1, dtype=torch.int32), o)
    assert o.tolist() == list(range(20)) and t.faults == []


@triton.jit
def counts_first(count_ptr, x_ptr):
    """Atomics that nobody asks order nothing."""
    tl.atomic_add(count_ptr, 1)
    tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.atomic_add(count_ptr, 1)


def test_an_atomic_whose_result_nobody_uses_orders_nothing():
    with trace() as t:
        counts_first[(8,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
    assert {(fault.kind, fault.tensor) for fault in t.faults} == {("race", "x_ptr")}


@triton.jit
def counts_and_pretends(count_ptr, x_ptr):
    if tl.atomic_add(count_ptr, 1) >= 0:  # always so
        tl.store(x_ptr, tl.load(x_ptr) + 1)
    tl.atomic_add(count_ptr, 1)


def test_a_result_that_is_asked_for_nothing_orders_nothing():
    with trace() as t:
        counts_and_pretends[(8,)](torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32))
    assert {(fault.kind, fault.tensor) for fault in t.faults} == {("race", "x_ptr")}


@triton.jit
def waits_two_turns(x_ptr, sum_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.atomic_add(sum_ptr, tl.sum(x))
    turn = 0
    while (turn < 2) & (tl.load(sum_ptr, volatile=True) < 1e30):
        turn += 1
    tl.store(out_ptr + i, x / tl.load(sum_ptr, volatile=True))


def test_a_loop_that_ends_whatever_it_sees_is_no_barrier():
    x, total, out = torch.arange(1.0, 513), torch.zeros(1), torch.zeros(512)
    with trace():
        waits_two_turns[(8,)](x, total, out, BLOCK=64)
    assert total.item() == x.sum() and not torch.allclose(out, x / x.sum())


@triton.jit
def waits_a_hundred_turns(x_ptr, sum_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.atomic_add(sum_ptr, tl.sum(x))
    turn = 0
    while (turn < 100) & (tl.atomic_add(sum_ptr, 0.0) < 1e30):
        turn += 1
    tl.store(out_ptr + i, x / tl.load(sum_ptr, volatile=True))


@triton.jit
def running_maximum(x_ptr, maximum_ptr, rises_ptr, N):
    rises = 0
    for j in range(N):
        x = tl.load(x_ptr + tl.program_id(0) * N + j)
        rises += (tl.atomic_max(maximum_ptr, x) < x).to(tl.int32)
    tl.store(rises_ptr + tl.program_id(0), rises)


def test_a_counted_loop_round_an_atomic_is_no_barrier_either():
    x, total, out = torch.arange(1.0, 513), torch.zeros(1), torch.zeros(512)
    with trace():
        waits_a_hundred_turns[(8,)](x, total, out, BLOCK=64)
    assert not torch.allclose(out, x / x.sum())


def test_atomics_that_change_nothing_for_long_are_no_waiting():
    x = torch.randint(0, 50, (4, 500), dtype=torch.int32)
    maximum, rises = torch.zeros(1, dtype=torch.int32), torch.zeros(4, dtype=torch.int32)
    with trace():
        running_maximum[(4,)](x, maximum, rises, 500)
    assert maximum.item() == x.max() and rises.sum() >= 1


# ----------------------------------------------------------------------------------------------------- who takes turns


@triton.jit
def adds_unasked(c_ptr, x_ptr):
    tl.atomic_add(c_ptr, 1)


@triton.jit
def adds_and_asks(c_ptr, x_ptr):
    tl.store(x_ptr + tl.program_id(0), tl.atomic_add(c_ptr, 1))


@triton.jit
def adds_in_a_while(c_ptr, x_ptr):
    i = 0
    while i < tl.load(x_ptr):
        tl.atomic_add(c_ptr, 1)
        i += 1


@triton.jit
def adds_in_a_for(c_ptr, x_ptr):
    for _ in range(2):
        tl.atomic_add(c_ptr, 1)


@triton.jit
def looks(c_ptr, x_ptr):
    tl.store(x_ptr + tl.program_id(0), tl.load(c_ptr, volatile=True))


@triton.jit
def looks_and_adds(c_ptr, x_ptr):
    tl.store(x_ptr + tl.program_id(0), tl.load(c_ptr, volatile=True))
    tl.atomic_add(c_ptr, 1)


@triton.jit
def adds_and_looks(c_ptr, x_ptr):
    tl.atomic_add(c_ptr, 1)
    tl.store(x_ptr + tl.program_id(0), tl.load(c_ptr, volatile=True))


@triton.jit
def counts_in_a_while(c_ptr, x_ptr):
    i = 0
    while i < tl.load(x_ptr):
        i += tl.load(c_ptr + 1)


@triton.jit
def looks_in_a_while(c_ptr, x_ptr):
    i = 0
    while i < tl.load(c_ptr, volatile=True):
        i += 1
    tl.store(x_ptr + tl.program_id(0), i)


@triton.jit(noinline=True)
def looked_up(c_ptr):
    return tl.load(c_ptr, volatile=True)


@triton.jit
def has_it_looked_up_in_a_while(c_ptr, x_ptr):
    i = 0
    while i < looked_up(c_ptr):
        i += 1
    tl.store(x_ptr + tl.program_id(0), i)


@pytest.mark.parametrize(
    "kernel, waits",
    [
        (adds_unasked, False),
        (adds_and_asks, True),
        (adds_in_a_while, True),
        (adds_in_a_for, False),
        (looks, False),
        (looks_and_adds, True),
        (adds_and_looks, True),
        (counts_in_a_while, False),
        (looks_in_a_while, True),
        (has_it_looked_up_in_a_while, True),
    ],
)
def test_who_may_learn_of_others_takes_turns(kernel, waits):
    """Of programs that do, no sample is taken."""
    c, x = torch.ones(2, dtype=torch.int32), torch.ones(4, dtype=torch.int32)
    with contextlib.ExitStack() as stack:
        if waits:
            refused = stack.enter_context(pytest.raises(KernelError))
        t = stack.enter_context(trace(sample=2))
        kernel[(4,)](c, x)
    assert not waits or says(refused.value, "launch.waiting.sampled")
    assert t.launches[0].sampled_from == (0 if waits else 4)
