"""What looks like a race and is none: a number that one thread counts up, guesses of a compare-and-swap, equal values."""

from contextlib import nullcontext

import pytest
import torch
import triton
import triton.language as tl
from sentences import says

from tritontrace.messages import say
from tritontrace.tracing import KernelFault, accesses, trace


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int32)


# ----------------------------------------------------------------------------------------------------- one thread's number


@triton.jit
def count_in_memory(x_ptr, o_ptr, N: tl.constexpr, HOW: tl.constexpr):
    for i in range(N):
        seen = tl.load(o_ptr)
        if HOW == "block":
            tl.store(o_ptr + 1 + tl.arange(0, 16), tl.zeros((16,), tl.int32) + seen)
        if HOW == "branch" and seen > 3:
            tl.store(o_ptr + 1, 1)
        if HOW == "one address":
            tl.store(x_ptr + 32 + i, tl.load(x_ptr + seen))
        if HOW == "addresses":
            tl.store(x_ptr + 32 + tl.arange(0, 16), tl.load(x_ptr + seen + tl.arange(0, 16)))
        tl.store(o_ptr, seen + 1)


@pytest.mark.parametrize(
    "how, right", [("", True), ("one address", True), ("block", False), ("branch", False), ("addresses", False)]
)
def test_a_number_that_one_thread_counts_up_needs_no_barrier(how, right):
    x, o = zeros(64), zeros(32)
    with trace() as t:
        count_in_memory[(1,)](x, o, N=8, HOW=how)
    assert o[0] == 8
    assert {fault.between for fault in t.faults} == (set() if right else {"threads"})


# ----------------------------------------------------------------------------------------------------- compare and swap


@triton.jit
def multiply(x_ptr, o_ptr, B: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0))
    seen = tl.load(o_ptr)
    done = False
    while not done:
        before = tl.atomic_cas(o_ptr, seen, seen * x)
        done = before == seen
        seen = before


@triton.jit
def multiply_blocks(x_ptr, o_ptr, B: tl.constexpr):
    offs = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0))
    done = tl.zeros((B,), tl.int1)
    left = True
    while left:
        seen = tl.load(o_ptr + offs, mask=~done, other=0)
        before = tl.atomic_cas(o_ptr + offs, seen, tl.where(done, seen, seen * x))
        done |= before == seen
        left = tl.sum(done.to(tl.int32)) < B


@triton.jit
def guess_that_is_kept(x_ptr, o_ptr, B: tl.constexpr):
    seen = tl.load(o_ptr)
    tl.atomic_cas(o_ptr, seen, seen * 2)
    tl.store(x_ptr + tl.program_id(0), seen)


@triton.jit
def guess_that_leads_on(x_ptr, o_ptr, B: tl.constexpr):
    seen = tl.load(o_ptr)
    tl.atomic_cas(o_ptr, seen, seen * 2)
    tl.store(x_ptr + tl.program_id(0), tl.load(x_ptr + 8 + seen))


@triton.jit
def guess_of_a_store(x_ptr, o_ptr, B: tl.constexpr):
    """Another program stores plainly what this one guesses."""
    if tl.program_id(0) == 0:
        tl.store(o_ptr, 3)
    else:
        seen = tl.load(o_ptr)
        tl.atomic_cas(o_ptr, seen, seen * 2)


@pytest.mark.parametrize(
    "kernel, right",
    [
        (multiply, True),
        (multiply_blocks, True),
        (guess_that_is_kept, False),
        (guess_that_leads_on, False),
        (guess_of_a_store, False),
    ],
)
def test_a_load_that_only_guesses_what_a_swap_will_find_is_no_race(kernel, right):
    x, o = zeros(64) + 2, zeros(16) + 1
    with trace() as t:
        kernel[(4,)](x, o, B=16)
    assert bool(t.faults) != right
    if right:
        assert o[0] == 16
    plain = [fault for fault in t.faults if fault.sentence.id == "trace.race.loads_stored"]
    assert not plain or kernel is guess_of_a_store


# ----------------------------------------------------------------------------------------------------- equal values


@triton.jit
def several_store(x_ptr, o_ptr, LANES: tl.constexpr, SAME: tl.constexpr):
    p, offs = tl.program_id(0), tl.arange(0, 16)
    value = tl.full((16,), 7, tl.int32) if SAME else tl.arange(0, 16) + p
    tl.store(o_ptr + (offs // 4 + 4 * p if LANES else offs), value)


@pytest.mark.parametrize("lanes", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_several_may_store_the_same_value(lanes, same):
    with trace() as t:
        several_store[(3,)](zeros(16), zeros(16), LANES=lanes, SAME=same)
    assert [fault.between for fault in t.faults] == ([] if same else ["lanes" if lanes else "stores"])
    assert [note.kind for note in t.notes] == ["same values"] * same
    assert [note.sentence.id for note in t.notes if note.sentence in t.table()] == ["trace.note.same_values"] * same


@triton.jit
def same_but_for_one(o_ptr):
    offs = tl.arange(0, 16)
    tl.store(o_ptr + offs, tl.where(offs == 5, tl.program_id(0), 3))


@triton.jit
def half_of_each(o_ptr):
    """Two programs store 1 where a third one stores 2, in halves of the width."""
    p, offs = tl.program_id(0), tl.arange(0, 16)
    if p < 2:
        tl.store(o_ptr + offs, 1)
    else:
        tl.store(o_ptr.to(tl.pointer_type(tl.int16)) + 8, tl.full((), 2, tl.int16))


def test_only_elements_that_differ_are_told():
    with trace() as t:
        same_but_for_one[(2,)](zeros(16))
    (fault,) = t.faults
    assert says(fault.sentence, "trace.race.stores", element=5, elements=1)
    with trace() as t:
        half_of_each[(3,)](zeros(16))
    assert {fault.between for fault in t.faults} == {"stores"}


# ----------------------------------------------------------------------------------------------------- worth a remark


@triton.jit
def product(a_ptr, o_ptr, HOW: tl.constexpr, B: tl.constexpr = 16):
    offs = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    a = tl.load(a_ptr + offs)
    for _ in range(2):
        a = tl.dot(a, a, input_precision=HOW)
    tl.store(o_ptr + offs, a)


@pytest.mark.parametrize("how", ["tf32", "ieee", "tf32x3"])
def test_a_product_as_tf32_is_said_once_with_its_line(how):
    with trace() as t:
        for _ in range(2):
            product[(1,)](torch.zeros(256), torch.zeros(256), HOW=how)
    assert [(note.line, note.kind) for note in t.notes if note.kind == "tf32"] == [(5, "tf32")] * (how == "tf32")
    assert t.faults == []


@triton.jit
def far_away(x_ptr, o_ptr, stride, n, MODULO: tl.constexpr, B: tl.constexpr = 16):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    offs = rows * 65536 * stride
    if MODULO:
        offs = offs % n
    tl.store(o_ptr + rows, tl.load(x_ptr + offs))


@pytest.mark.parametrize(
    "stride, modulo, inside", [(65536, False, True), (65537, False, False), (65536, True, True), (0, False, True)]
)
def test_a_product_that_wraps_is_named_wherever_it_lands(stride, modulo, inside):
    """rows * 65536 * 65536 is 0 in 32 bits. What is reduced to a range of its own may wrap: so do hashes."""
    named = bool(stride) and not modulo
    with trace() as t, nullcontext() if inside else pytest.raises(KernelFault):
        far_away[(2,)](zeros(64), zeros(64), stride, 64, MODULO=modulo)
    products = [say("trace.in_line", line=3)]
    assert inside or says(t.faults[0].sentence, "trace.out_of_bounds.wrapped", products=products)
    assert [(note.kind, note.line) for note in t.notes if note.kind == "int32"] == [("int32", 3)] * named


@triton.jit
def double(x_ptr, o_ptr):
    offs = tl.arange(0, 16)
    tl.store(o_ptr + offs, 2 * tl.load(x_ptr + 16 * tl.program_id(0) + offs))


def test_equal_results_of_one_value_everywhere_say_nothing():
    for unread in (zeros(0), torch.arange(16, dtype=torch.int32)):
        with trace() as t:
            double[(2,)](torch.cat([zeros(32), unread]), zeros(16))
        assert [fault.between for fault in t.faults] == ["stores"]
    with trace() as t:
        double[(2,)](torch.arange(32, dtype=torch.int32) % 16, zeros(16))
    assert t.faults == [] and [note.kind for note in t.notes] == ["same values"]


@triton.jit
def copy_to_one_place(x_ptr, o_ptr):
    i = tl.arange(0, 16)
    tl.store(o_ptr + i, tl.load(x_ptr + i))


@pytest.mark.parametrize("kept, compared", [(64, True), (63, False)])
def test_what_is_more_than_a_launch_keeps_is_not_compared(kept, compared, monkeypatch):
    monkeypatch.setattr(accesses, "KEPT_BYTES", kept)  # 16 values of 4 bytes are stored
    with trace() as t:
        copy_to_one_place[(2,)](torch.arange(16, dtype=torch.int32), zeros(16))
    assert [fault.between for fault in t.faults] == ([] if compared else ["stores"])


# ----------------------------------------------------------------------------------------------------- values that nobody reads


@triton.jit
def of_its_shape(x, value):
    return tl.full(x.shape, value, x.dtype)


@triton.jit
def of_itself(x, value):
    return x + value


@triton.jit
def filled(x_ptr, o_ptr, value, READ: tl.constexpr):
    i = tl.arange(0, 16)
    x = tl.load(x_ptr + i).to(tl.float32)
    tl.store(o_ptr + i, of_itself(x, value) if READ else of_its_shape(x, value))


@pytest.mark.parametrize("read", [False, True])
def test_what_nobody_wrote_may_be_loaded_for_nobody(read):
    with trace() as t:
        filled[(1,)](torch.empty(16), torch.zeros(16), 3.0, READ=read)
    assert [fault.kind for fault in t.faults] == (["uninitialised"] if read else [])
    assert t.loads.bytes == 64
