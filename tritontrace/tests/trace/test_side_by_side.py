"""Programs run side by side, and nobody gets a barrier, an order or a branch that the kernel does not have."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace


@triton.jit
def nothing_then(o_ptr, n):
    p = tl.program_id(0)
    if p < n:
        pass
    else:
        tl.store(o_ptr + p, 1.0)


@triton.jit
def unused_then(o_ptr, n):
    p = tl.program_id(0)
    y = p
    if p < n:
        y = y * 2
    else:
        tl.store(o_ptr + p, 1.0)


@pytest.mark.parametrize("kernel", [nothing_then, unused_then])
@pytest.mark.parametrize("n", [0, 2, 4])
def test_an_empty_branch_is_a_branch(kernel, n):
    o = torch.zeros(4)
    with trace() as t:
        kernel[(4,)](o, n)
    assert o.tolist() == [float(p >= n) for p in range(4)] and t.stores.elements == 4 - n


@triton.jit
def softmax_by_atomics(x_ptr, most_ptr, sum_ptr, o_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    """Each row is several programs', which do not wait for one another."""
    row, cols = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols)
    tl.atomic_max(most_ptr + row, tl.max(x, 0))
    e = tl.exp(x - tl.load(most_ptr + row))
    tl.atomic_add(sum_ptr + row, tl.sum(e, 0))
    tl.store(o_ptr + row * N + cols, e / tl.load(sum_ptr + row))


def test_a_load_beside_atomics_of_others_is_a_race():
    x = torch.randn(8, 64)
    with trace() as t:
        softmax_by_atomics[(8, 4)](x, torch.full((8,), -1e9), torch.zeros(8), torch.empty(8, 64), N=64, BLOCK=16)
    assert {(fault.kind, fault.tensor) for fault in t.faults} == {("race", "most_ptr"), ("race", "sum_ptr")}


@triton.jit
def pretends_to_wait(part_ptr, count_ptr, o_ptr, PROGRAMS: tl.constexpr):
    p = tl.program_id(0)
    tl.store(part_ptr + p, 1.0)
    n = tl.atomic_add(count_ptr, 1)
    n += tl.atomic_add(count_ptr, 0)
    tl.store(o_ptr + p, tl.sum(tl.load(part_ptr + tl.arange(0, PROGRAMS) + (n - n))))


@pytest.mark.parametrize("programs", [2, 4, 64])
def test_atomics_without_waiting_are_no_barrier(programs):
    with trace() as t:
        part, count, o = torch.empty(programs), torch.zeros(1, dtype=torch.int32), torch.zeros(programs)
        pretends_to_wait[(programs,)](part, count, o, PROGRAMS=programs)
    assert "race" in {fault.kind for fault in t.faults}


@triton.jit
def under_a_lock(lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + 1)
    tl.atomic_xchg(lock_ptr, 0)


def test_who_waits_for_a_lock_looks_again_when_it_is_free():
    o = torch.zeros(16)
    with trace() as t:
        under_a_lock[(200,)](torch.zeros(1, dtype=torch.int32), o, BLOCK=16)
    assert (o == 200).all() and t.faults == []
    assert t.accesses_to("lock_ptr", "atomic").instructions <= 4 * 200  # not each program at each turn


@triton.jit
def a_ticket_for_each_tile(part_ptr, count_ptr, o_ptr, TILES: tl.constexpr):
    """Tile t is the sum of what programs t - 1 and t give; who comes last adds up."""
    p, t = tl.program_id(0), tl.arange(0, TILES)
    mine = (t >= p) & (t < p + 2)
    tl.store(part_ptr + t * 2 + (p - t + 1), (p + 1).to(tl.float32), mask=mine)
    n = tl.atomic_add(count_ptr + t, 1, mask=mine)
    last = mine & (n == 1)
    s = tl.load(part_ptr + t * 2, mask=last, other=0.0) + tl.load(part_ptr + t * 2 + 1, mask=last, other=0.0)
    tl.store(o_ptr + t, s, mask=last)


def test_tickets_under_masks_that_differ():
    with trace() as t:
        part, count, o = torch.empty(16), torch.zeros(8, dtype=torch.int32), torch.zeros(8)
        a_ticket_for_each_tile[(7,)](part, count, o, TILES=8)
    assert t.faults == [] and o[1:7].tolist() == [p + (p + 1) for p in range(1, 7)]


@triton.jit
def from_two(a_ptr, b_ptr, o_ptr, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o_ptr + i, tl.load(tl.where(i < n, a_ptr + i, b_ptr + (i - n))))


def test_pointers_into_two_tensors_in_one_block():
    a, b, o = torch.rand(6), torch.rand(10), torch.zeros(16)
    with trace() as t:
        from_two[(1,)](a, b, o, 6, N=16)
    assert torch.equal(o, torch.cat([a, b])) and t.faults == []
    assert (t.accesses_to("a_ptr", "load").bytes, t.accesses_to("b_ptr", "load").bytes) == (24, 40)


@triton.jit
def adds_ones(o_ptr, N: tl.constexpr):
    tl.atomic_add(o_ptr + tl.zeros((N,), tl.int32), tl.full((N,), 1.0, tl.float32).to(o_ptr.dtype.element_ty))


def test_halves_are_rounded_at_each_addition():
    o = torch.zeros(1, dtype=torch.bfloat16)
    with trace():
        adds_ones[(1,)](o, N=512)
    assert o.item() == 256


@triton.jit
def normalised_by_all(x_ptr, sum_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.atomic_add(sum_ptr, tl.sum(x))
    tl.store(out_ptr + i, x / tl.load(sum_ptr, volatile=True))


@triton.jit
def summed_through_a_buffer(x_ptr, buffer_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_xchg(buffer_ptr + tl.program_id(0) * BLOCK + i, tl.load(x_ptr + tl.program_id(0) * BLOCK + i))
    total = tl.zeros([BLOCK], tl.float32)
    for j in range(N):
        total += tl.load(buffer_ptr + j * BLOCK + i, volatile=True)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, total)


def test_a_volatile_load_sees_what_others_have_done_by_then_and_not_what_they_will_do():
    """Nobody waits here: on a GPU a program meets sums that lack those who come later."""
    x = torch.arange(1.0, 513)
    out, total = torch.zeros(512), torch.zeros(1)
    with trace():
        normalised_by_all[(8,)](x, total, out, BLOCK=64)
    assert total.item() == x.sum() and not torch.allclose(out, x / x.sum())
    out, buffer = torch.zeros(8, 64), torch.zeros(8, 64)
    with trace():
        summed_through_a_buffer[(8,)](x, buffer, out, N=8, BLOCK=64)
    assert not torch.equal(out, x.view(8, 64).sum(0).expand(8, 64))
