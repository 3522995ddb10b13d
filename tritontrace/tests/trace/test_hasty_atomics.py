"""An atomic is no barrier: what a program's threads stored before it is told to others only behind one, or by the thread itself.

Each kernel comes with a barrier and without. What the trace says of it is compared with what the compiler makes of it for an
sm_90, without a GPU: whether a `bar.sync` stands between the store and the atomic.
"""

import pytest
import torch
import triton
import triton.language as tl
from sentences import says

from tritontrace.compiled import ptx_for
from tritontrace.tracing import trace


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape, dtype=torch.int32)


@triton.jit
def flag(x_ptr, flag_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    offs = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + offs, offs + 1.0)
        if MEET == "barrier":
            tl.debug_barrier()
        if MEET == "sum":
            tl.store(o_ptr + 2 * B, tl.sum(tl.load(o_ptr + offs)))
        if MEET == "gather":
            turned = tl.gather(tl.load(o_ptr + offs), B - 1 - offs, 0)
            tl.store(o_ptr + 2 * B + offs, turned, mask=turned > 0)  # of no thread
        tl.atomic_xchg(flag_ptr, 1)
    else:
        while tl.atomic_cas(flag_ptr, 2, 2) == 0:
            pass
        tl.store(o_ptr + B + offs, tl.load(x_ptr + offs))


@triton.jit
def flag_of_one_thread(x_ptr, flag_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 1.0)
        tl.atomic_xchg(flag_ptr, 1)
    else:
        while tl.atomic_cas(flag_ptr, 2, 2) == 0:
            pass
        tl.store(o_ptr, tl.load(x_ptr))


@triton.jit
def ticket(x_ptr, count_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(x_ptr + tl.program_id(0) * B + offs, offs + 1.0)
    if MEET == "barrier":
        tl.debug_barrier()
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:
        acc = tl.zeros((B,), tl.float32)
        for i in range(tl.num_programs(0)):
            acc += tl.load(x_ptr + i * B + offs)
        tl.store(o_ptr + offs, acc)


@triton.jit
def ticket_after_a_sum(x_ptr, count_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    """What the atomic hands to all threads goes where the sum has been: the compiler lets them meet before that."""
    offs = tl.arange(0, B)
    x = offs + tl.program_id(0)
    x -= tl.sum(x) // B
    if MEET == "too early":
        tl.debug_barrier()
    tl.store(x_ptr + tl.program_id(0) * B + offs, x)
    if tl.atomic_add(count_ptr, 1) == tl.num_programs(0) - 1:
        acc = tl.zeros((B,), tl.float32)
        for i in range(tl.num_programs(0)):
            acc += tl.load(x_ptr + i * B + offs)
        tl.store(o_ptr + offs, acc)


@triton.jit
def lock(x_ptr, lock_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    offs = tl.arange(0, B)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + tl.program_id(0) + 1.0)
    if MEET == "barrier":
        tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def split_k_with_a_lock(x_ptr, lock_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    rows, cols = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    x = tl.load(x_ptr + rows * 16 + cols)
    part = tl.dot(x, x, input_precision="ieee")
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    mine = o_ptr + rows * 16 + cols
    tl.store(mine, tl.load(mine) + part)
    if MEET == "barrier":
        tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


def met(ptx: str) -> bool:
    """Whether the threads meet between the last store that all of them do and the atomic that tells of it."""
    lines = ptx.splitlines()
    tells = [i for i, line in enumerate(lines) if "atom.global" in line and ".cas" not in line][-1]
    stores = [i for i, line in enumerate(lines[:tells]) if "st.global" in line and "@" not in line][-1]
    return any("bar.sync" in line for line in lines[stores:tells])


@pytest.mark.parametrize(
    "kernel, meet, warps, right",
    [
        (flag, "", 4, False),
        (flag, "", 1, True),
        (flag, "barrier", 4, True),
        (flag, "sum", 4, True),
        (flag, "gather", 4, True),
        (flag_of_one_thread, "", 4, True),
        (ticket, "", 4, False),
        (ticket, "barrier", 4, True),
        (ticket_after_a_sum, "", 4, True),
        (ticket_after_a_sum, "too early", 4, False),
        (lock, "", 4, False),
        (lock, "barrier", 4, True),
        (split_k_with_a_lock, "", 4, False),
        (split_k_with_a_lock, "barrier", 4, True),
    ],
)
def test_an_atomic_speaks_for_its_own_thread(kernel, meet, warps, right):
    size = 256
    arguments = torch.ones(4 * size), zeros(1), torch.zeros(4 * size)
    settings = {"B": size, "MEET": meet, "num_warps": warps}
    with trace() as t:
        kernel[(2,)](*arguments, **settings)
    assert {(fault.kind, fault.between) for fault in t.faults} == (set() if right else {("race", "load and store")})
    if kernel is not flag_of_one_thread and warps > 1:
        assert met(ptx_for(kernel, *arguments, **settings)) == right


def test_the_sentence_names_both_lines_and_the_barrier():
    with trace() as t:
        ticket[(2,)](torch.zeros(512), zeros(1), torch.zeros(256), B=256, MEET="")
    (fault,) = t.faults
    assert fault.line == 9 and says(fault.sentence, "trace.race.hasty_other", line=3)


@pytest.mark.parametrize("block, right", [(32, True), (64, False)])
def test_up_to_32_elements_lie_in_the_warp_of_the_thread_that_tells(block, right):
    with trace() as t:
        flag[(2,)](torch.ones(4 * block), zeros(1), torch.zeros(4 * block), B=block, MEET="")
    assert [fault.tensor for fault in t.faults] == ([] if right else ["x_ptr"])


@triton.jit
def another_meets_first(x_ptr, flag_ptr, o_ptr, B: tl.constexpr):
    """The threads of program 1 meet before program 0 stores: those of program 0 do not."""
    offs = tl.arange(0, B)
    if tl.program_id(0) == 1:
        tl.debug_barrier()
    if tl.program_id(0) == 0:
        tl.store(x_ptr + offs, offs + 1.0)
        tl.atomic_xchg(flag_ptr, 1)
    else:
        while tl.atomic_cas(flag_ptr, 2, 2) == 0:
            pass
        tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@pytest.mark.parametrize("order", [None, lambda n: [1, 0]])
def test_a_barrier_is_of_one_program(order):
    with trace(order=order) as t:
        another_meets_first[(2,)](torch.zeros(256), zeros(1), torch.zeros(256), B=256)
    assert [fault.tensor for fault in t.faults] == ["x_ptr"]


@triton.jit
def gathered_by(x_ptr, flag_ptr, o_ptr, TELL: tl.constexpr):
    """Program 1 stores over what threads of program 0 have gathered: each tells of its own elements, or one of all."""
    rows, cols = tl.arange(0, 8), tl.arange(0, 32)
    offs = rows[:, None] * 32 + cols[None, :]
    if tl.program_id(0) == 0:
        x = tl.make_tensor_descriptor(x_ptr, [8, 32], [32, 1], [1, 32])
        tl.store(o_ptr + offs, x.gather(rows, 0))
        if TELL == "each":
            tl.atomic_add(flag_ptr + offs % 8, 1)
        else:
            tl.atomic_add(flag_ptr, 1)
    else:
        if TELL != "never":
            while tl.atomic_cas(flag_ptr, -1, -1) == 0:
                pass
        tl.atomic_add(x_ptr + offs, 7.0)


@pytest.mark.parametrize("tell, right", [("each", True), ("one", False), ("never", False)])
def test_lanes_tell_of_what_a_descriptor_gathered(tell, right):
    with trace() as t:
        gathered_by[(2,)](torch.zeros(256), zeros(8), torch.zeros(256), TELL=tell)
    assert {fault.tensor for fault in t.faults} == (set() if right else {"x_ptr"})


@triton.jit
def loaded_by(x_ptr, flag_ptr, o_ptr, ALL: tl.constexpr, B: tl.constexpr):
    """Program 1 stores over what threads of program 0 have loaded: all of them, or the one that tells of it."""
    offs = tl.arange(0, B)
    if tl.program_id(0) == 0:
        seen = tl.load(x_ptr)
        if ALL:
            tl.store(o_ptr + offs, offs + seen)
        else:
            tl.store(o_ptr, seen)
        tl.atomic_xchg(flag_ptr, 1)
    else:
        while tl.atomic_cas(flag_ptr, 2, 2) == 0:
            pass
        tl.store(x_ptr, 7.0)


@pytest.mark.parametrize("every", [False, True])
def test_one_thread_does_not_speak_for_what_all_have_loaded(every):
    with trace() as t:
        loaded_by[(2,)](torch.zeros(1), zeros(1), torch.zeros(256), ALL=every, B=256)
    assert [fault.tensor for fault in t.faults] == ["x_ptr"] * every


# ----------------------------------------------------------------------------------------------------- within a program


@triton.jit
def store_count_load(x_ptr, c_ptr, o_ptr, B: tl.constexpr, HOW: tl.constexpr):
    offs = tl.arange(0, B)
    tl.store(x_ptr + offs, offs + 1.0)
    if HOW == "unused":
        tl.atomic_add(c_ptr, 1)
    if HOW == "used":
        tl.store(c_ptr + 1, tl.atomic_add(c_ptr, 1))
    if HOW == "each":
        tl.store(c_ptr + 2 + offs, tl.atomic_add(c_ptr + 2 + B + offs, 1))
    tl.store(o_ptr + offs, tl.load(x_ptr + B - 1 - offs))


@pytest.mark.parametrize("how, right", [("unused", False), ("used", True), ("each", False)])
def test_within_a_program_an_atomic_is_a_barrier_where_its_result_goes_to_all(how, right):
    with trace() as t:
        store_count_load[(1,)](torch.zeros(256), zeros(600), torch.zeros(256), B=256, HOW=how)
    assert [fault.between for fault in t.faults] == ([] if right else ["threads"])


@triton.jit
def load_of_one_that_meets(x_ptr, o_ptr, B: tl.constexpr, MEET: tl.constexpr):
    """Of four programs the first one meets by itself, and so does the last one: each counts its own barriers."""
    offs = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + offs, offs + 1.0)
        if MEET:
            tl.debug_barrier()
    if tl.program_id(0) == 3:
        tl.debug_barrier()
    if tl.program_id(0) == 0:
        tl.store(o_ptr + offs, tl.load(x_ptr + B - 1 - offs))


@pytest.mark.parametrize("meet", [True, False])
def test_programs_count_their_barriers_apart(meet):
    with trace() as t:
        load_of_one_that_meets[(4,)](torch.zeros(256), torch.zeros(256), B=256, MEET=meet)
    assert [fault.between for fault in t.faults] == ([] if meet else ["threads"])


@triton.jit
def through_shapes(x_ptr, o_ptr, HOW: tl.constexpr):
    """Lane after lane, an element is stored by the block of one shape, and loaded by that of another."""
    i = tl.arange(0, 128)
    if HOW == "a row":
        tl.store(x_ptr + i[None, :], i[None, :] + 1.0)
        tl.store(o_ptr + i, tl.load(x_ptr + i))
    else:
        two, many = tl.arange(0, 2), tl.arange(0, 64)
        tl.store(x_ptr + two[:, None] * 64 + many[None, :], two[:, None] + many[None, :] + 1.0)
        there = many[:, None] * 2 + two[None, :]
        tl.store(o_ptr + there, tl.load(x_ptr + there))


@pytest.mark.parametrize("how, right", [("a row", True), ("turned", False)])
def test_blocks_of_one_shape_lie_in_the_same_threads(how, right):
    with trace() as t:
        through_shapes[(1,)](torch.zeros(128), torch.zeros(128), HOW=how)
    assert [fault.between for fault in t.faults] == ([] if right else ["threads"])


@triton.jit
def tell_by_one_lane(x_ptr, c_ptr, o_ptr, B: tl.constexpr, ALONE: tl.constexpr):
    """Each lane tells of its own element, or one lane of all of them."""
    offs = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(x_ptr + offs, offs + 1.0)
        tl.atomic_add(c_ptr + offs % 8, 1, mask=(offs == 0) | (not ALONE))
    else:
        while tl.atomic_add(c_ptr, 0) == 0:
            pass
        tl.store(o_ptr + offs, tl.load(x_ptr + offs))


@pytest.mark.parametrize("alone", [False, True])
def test_one_lane_does_not_speak_for_the_others(alone):
    with trace() as t:
        tell_by_one_lane[(2,)](torch.zeros(256), zeros(8), torch.zeros(256), B=256, ALONE=alone)
    assert [fault.kind for fault in t.faults] == ["race"] * alone


@triton.jit
def tell_of_even(x_ptr, y_ptr, c_ptr, o_ptr, B: tl.constexpr):
    """Even lanes store to one tensor and odd lanes to another; even lanes tell of it."""
    offs = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(tl.where(offs % 2 == 0, x_ptr, y_ptr) + offs, offs + 1.0)
        tl.atomic_add(c_ptr + offs % 8, 1, mask=offs % 2 == 0)
    else:
        while tl.atomic_add(c_ptr, 0) == 0:
            pass
        tl.store(o_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))


def test_lanes_speak_for_themselves_where_a_block_goes_to_two_tensors():
    with trace() as t:
        tell_of_even[(2,)](torch.zeros(256), torch.zeros(256), zeros(8), torch.zeros(256), B=256)
    assert [fault.tensor for fault in t.faults] == ["y_ptr"]
