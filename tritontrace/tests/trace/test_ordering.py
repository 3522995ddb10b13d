"""Locks, tickets and flags order programs; the trace knows, and calls them no races. Those that are wrong, it finds."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace

PROGRAMS = 4


def zeros(*shape: int) -> torch.Tensor:
    """Locks, counters and flags."""
    return torch.zeros(*shape, dtype=torch.int32)


def races(t) -> list[str]:
    """The tensors that are told to race, each once, in alphabetical order."""
    assert all(fault.kind == "race" for fault in t.faults)
    return sorted({fault.tensor for fault in t.faults})


def advice(t) -> dict[str, set]:
    """What is told of the atomics that would order the accesses of a race; {} where none would."""
    facts = [fault.sentence.parameters for fault in t.faults if fault.sentence.id == "trace.race.weak"]
    return {name: {each for fact in facts for each in fact[name]} for name in ("lines", "options")} if facts else {}


# ----------------------------------------------------------------------------------------------------- a lock


@triton.jit
def add_under_a_lock(
    x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr, LOCK: tl.constexpr = "acq_rel", UNLOCK: tl.constexpr = "acq_rel"
):  # fmt: skip
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr, 0, 1, sem=LOCK) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)
    tl.atomic_xchg(lock_ptr, 0, sem=UNLOCK)


@triton.jit
def add_beside_a_lock(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)


@triton.jit
def store_after_the_lock(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    x += tl.load(o_ptr + offs)
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(o_ptr + offs, x)


@triton.jit
def load_before_the_lock(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs) + tl.load(o_ptr + offs)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, x)
    tl.atomic_xchg(lock_ptr, 0)


@triton.jit
def add_under_a_lock_of_its_own(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr + tl.program_id(0), 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)
    tl.atomic_xchg(lock_ptr + tl.program_id(0), 0)


@triton.jit
def add_under_two_locks(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    mine = lock_ptr + tl.program_id(0) % 2
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(mine, 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)
    tl.atomic_xchg(mine, 0)


@triton.jit
def unlock_by_a_store(x_ptr, lock_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + offs)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)
    tl.store(lock_ptr, 0)


@pytest.mark.parametrize(
    "kernel, how, racing",
    [
        (add_under_a_lock, {}, []),
        (add_under_a_lock, {"LOCK": "acquire", "UNLOCK": "release"}, []),
        (add_under_a_lock, {"LOCK": "relaxed", "UNLOCK": "relaxed"}, ["o_ptr"]),
        (add_under_a_lock, {"LOCK": "acquire", "UNLOCK": "acquire"}, ["o_ptr"]),
        (add_beside_a_lock, {}, ["o_ptr"]),
        (store_after_the_lock, {}, ["o_ptr"]),
        (load_before_the_lock, {}, ["o_ptr"]),
        (add_under_a_lock_of_its_own, {}, ["o_ptr"]),
        (add_under_two_locks, {}, ["o_ptr"]),
        (unlock_by_a_store, {}, ["lock_ptr", "o_ptr"]),
    ],
)
@pytest.mark.parametrize("order", [None, "shuffled"])
def test_a_lock_orders_what_lies_within_it(kernel, how, racing, order):
    x, o = torch.randn(PROGRAMS, 16), torch.zeros(16)
    with trace(order=order) as t:
        kernel[(PROGRAMS,)](x, zeros(PROGRAMS), o, BLOCK=16, **how)
    assert races(t) == racing
    if not racing:
        torch.testing.assert_close(o, x.sum(0))


@pytest.mark.parametrize("how, lines, options", [
    ({"LOCK": "relaxed"}, {6}, {'sem="relaxed"'}),
    ({"UNLOCK": "relaxed"}, {9}, {'sem="relaxed"'}),
    ({"LOCK": "relaxed", "UNLOCK": "relaxed"}, {6, 9}, {'sem="relaxed"'}),
    ({"LOCK": "acquire", "UNLOCK": "acquire"}, {9}, {'sem="acquire"'}),
    ({"LOCK": "release"}, {6}, {'sem="release"'}),
])  # fmt: skip
def test_a_lock_that_is_too_weak_is_named(how, lines, options):
    with trace() as t:
        add_under_a_lock[(PROGRAMS,)](torch.randn(PROGRAMS, 16), zeros(1), torch.zeros(16), BLOCK=16, **how)
    assert advice(t) == {"lines": lines, "options": options}


@pytest.mark.parametrize("kernel", [add_beside_a_lock, load_before_the_lock, add_under_two_locks])
def test_a_strong_lock_in_the_wrong_place_is_not_called_weak(kernel):
    with trace() as t:
        kernel[(PROGRAMS,)](torch.randn(PROGRAMS, 16), zeros(PROGRAMS), torch.zeros(16), BLOCK=16)
    assert advice(t) == {}


# ----------------------------------------------------------------------------------------------------- several locks


@triton.jit
def add_rows(x_ptr, lock_ptr, o_ptr, APART: tl.constexpr, BANDS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    for turn in range(BANDS):
        band = (p + turn) % BANDS
        offs = band * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + p * BANDS * BLOCK + offs)
        mine = lock_ptr + band + APART * BANDS * (p % 2)
        while tl.atomic_cas(mine, 0, 1) == 1:
            pass
        tl.store(o_ptr + offs, tl.load(o_ptr + offs) + x)
        tl.atomic_xchg(mine, 0)


@pytest.mark.parametrize("apart, racing", [(0, []), (1, ["o_ptr"])])
def test_a_lock_for_each_band_of_columns(apart, racing):
    x, o = torch.randn(8, 4 * 16), torch.zeros(4 * 16)
    with trace() as t:
        add_rows[(8,)](x, zeros(8), o, APART=apart, BANDS=4, BLOCK=16)
    assert races(t) == racing
    torch.testing.assert_close(o, x.sum(0))


@triton.jit
def layer_norm_dw_db(x_ptr, dy_ptr, dw_ptr, db_ptr, lock_ptr, N, GROUP_SIZE_M: tl.constexpr, BLOCK: tl.constexpr):
    """How Triton's tutorial sums dW and dB: rows share a partial sum and its lock; the first one finds it empty."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0).to(tl.float32)
    lock_id = row % GROUP_SIZE_M
    lock_ptr += lock_id
    count_ptr = lock_ptr + GROUP_SIZE_M
    dw_ptr = dw_ptr + lock_id * N + cols
    db_ptr = db_ptr + lock_id * N + cols
    partial_dw = (dy * x).to(tl.float32)
    partial_db = dy.to(tl.float32)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    count = tl.load(count_ptr)
    if count == 0:
        tl.atomic_xchg(count_ptr, 1)
    else:
        partial_dw += tl.load(dw_ptr, mask=mask)
        partial_db += tl.load(db_ptr, mask=mask)
    tl.store(dw_ptr, partial_dw, mask=mask)
    tl.store(db_ptr, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@pytest.mark.parametrize("M, group", [(8, 2), (12, 3), (5, 8), (6, 1)])
def test_layer_norm_of_the_tutorial_has_no_race(M, group):
    x, dy, N = torch.randn(M, 20), torch.randn(M, 20), 20
    with trace() as t:
        dw, db = torch.empty(group, N), torch.empty(group, N)
        layer_norm_dw_db[(M,)](x, dy, dw, db, zeros(2 * group), N, GROUP_SIZE_M=group, BLOCK=32)
    used = min(M, group)
    torch.testing.assert_close(dw[:used].sum(0), (dy * x).sum(0))
    torch.testing.assert_close(db[:used].sum(0), dy.sum(0))
    assert t.faults == []


# ----------------------------------------------------------------------------------------------------- a ticket


@triton.jit
def last_one_sums(
    x_ptr, count_ptr, partial_ptr, o_ptr,
    PROGRAMS: tl.constexpr, BLOCK: tl.constexpr, SEM: tl.constexpr = "acq_rel", SCOPE: tl.constexpr = "gpu",
):  # fmt: skip
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.sum(tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK))))
    if tl.atomic_add(count_ptr, 1, sem=SEM, scope=SCOPE) == PROGRAMS - 1:
        tl.store(o_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def last_one_sums_too_early(x_ptr, count_ptr, partial_ptr, o_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    ticket = tl.atomic_add(count_ptr, 1)
    tl.store(partial_ptr + p, tl.sum(tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK))))
    if ticket == PROGRAMS - 1:
        tl.store(o_ptr, tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS))))


@triton.jit
def every_one_sums(x_ptr, count_ptr, partial_ptr, o_ptr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    tl.store(partial_ptr + p, tl.sum(tl.load(x_ptr + p * BLOCK + tl.arange(0, BLOCK))))
    tl.atomic_add(count_ptr, 1)
    total = tl.sum(tl.load(partial_ptr + tl.arange(0, PROGRAMS)))
    if p == PROGRAMS - 1:
        tl.store(o_ptr, total)


@pytest.mark.parametrize(
    "kernel, how, racing",
    [
        (last_one_sums, {}, []),
        (last_one_sums, {"SEM": "relaxed"}, ["partial_ptr"]),
        (last_one_sums, {"SEM": "release"}, ["partial_ptr"]),
        (last_one_sums, {"SCOPE": "cta"}, ["partial_ptr"]),
        (last_one_sums_too_early, {}, ["partial_ptr"]),
        (every_one_sums, {}, ["partial_ptr"]),
    ],
)
def test_a_ticket_orders_what_was_stored_before_it(kernel, how, racing):
    x, o = torch.randn(PROGRAMS, 16), torch.zeros(1)
    with trace() as t:
        kernel[(PROGRAMS,)](x, zeros(1), torch.zeros(PROGRAMS), o, PROGRAMS=PROGRAMS, BLOCK=16, **how)
    assert races(t) == racing
    assert advice(t).get("options", set()) == {f'{name.lower()}="{value}"' for name, value in how.items()}
    if not racing:
        torch.testing.assert_close(o[0], x.sum())


@triton.jit
def split_k(a_ptr, b_ptr, part_ptr, count_ptr, c_ptr, K, TILES: tl.constexpr, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    """c = a @ b in tiles of columns; the last program of each tile to arrive adds up what all of them left."""
    tile, part = tl.program_id(0), tl.program_id(1)
    rows, lanes = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    k = part * BLOCK + lanes
    cols = tile * BLOCK + lanes
    a = tl.load(a_ptr + rows[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * (TILES * BLOCK) + cols[None, :])
    inner = rows[:, None] * BLOCK + lanes[None, :]
    mine = part_ptr + tile * SPLIT * BLOCK * BLOCK + inner
    tl.store(mine + part * BLOCK * BLOCK, tl.dot(a, b, input_precision="ieee"))
    if tl.atomic_add(count_ptr + tile, 1) == SPLIT - 1:
        c = tl.zeros((BLOCK, BLOCK), tl.float32)
        for i in range(SPLIT):
            c += tl.load(mine + i * BLOCK * BLOCK)
        tl.store(c_ptr + rows[:, None] * (TILES * BLOCK) + cols[None, :], c)


def test_a_ticket_for_each_tile():
    a, b, c = torch.randn(16, 48), torch.randn(48, 32), torch.zeros(16, 32)
    with trace() as t:
        parts = torch.empty(2, 3, 16, 16)
        split_k[(2, 3)](a, b, parts, zeros(2), c, 48, TILES=2, SPLIT=3, BLOCK=16)
    torch.testing.assert_close(c, a @ b)
    assert t.faults == []


@triton.jit
def read_then_overwrite(x_ptr, count_ptr, o_ptr, PROGRAMS: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o_ptr + p, tl.load(x_ptr))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        tl.store(x_ptr, 0.0)


@triton.jit
def overwrite_before_the_others_have_read(x_ptr, count_ptr, o_ptr, PROGRAMS: tl.constexpr):
    p = tl.program_id(0)
    tl.store(o_ptr + p, tl.load(x_ptr))
    if tl.atomic_add(count_ptr, 1) == PROGRAMS // 2:
        tl.store(x_ptr, 0.0)


@pytest.mark.parametrize(
    "kernel, racing", [(read_then_overwrite, []), (overwrite_before_the_others_have_read, ["x_ptr"])]
)
def test_the_last_may_overwrite_what_all_have_read(kernel, racing):
    with trace() as t:
        kernel[(PROGRAMS,)](torch.ones(1), zeros(1), torch.empty(4), PROGRAMS=4)
    assert races(t) == racing


# ----------------------------------------------------------------------------------------------------- flags


@triton.jit
def running_sum(x_ptr, flag_ptr, sum_ptr, o_ptr, BLOCK: tl.constexpr):
    """Each program waits for the one before it. The last one sees what the first one stored, through all the others."""
    p = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + p * BLOCK + offs)
    before = 0.0
    if p > 0:
        while tl.atomic_add(flag_ptr + p - 1, 0, sem="acquire") == 0:
            pass
        before = tl.load(sum_ptr + p - 1)
        before += 0 * tl.load(sum_ptr)
    tl.store(o_ptr + p * BLOCK + offs, before + tl.cumsum(x, 0))
    tl.store(sum_ptr + p, before + tl.sum(x))
    tl.atomic_xchg(flag_ptr + p, 1, sem="release")


@triton.jit
def running_sum_flag_first(x_ptr, flag_ptr, sum_ptr, o_ptr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + p * BLOCK + offs)
    before = 0.0
    if p > 0:
        while tl.atomic_add(flag_ptr + p - 1, 0) == 0:
            pass
        before = tl.load(sum_ptr + p - 1)
    tl.store(o_ptr + p * BLOCK + offs, before + tl.cumsum(x, 0))
    tl.atomic_xchg(flag_ptr + p, 1)
    tl.store(sum_ptr + p, before + tl.sum(x))


@triton.jit
def running_sum_without_acquire(x_ptr, flag_ptr, sum_ptr, o_ptr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + p * BLOCK + offs)
    before = 0.0
    if p > 0:
        while tl.load(flag_ptr + p - 1, volatile=True) == 0:
            pass
        before = tl.load(sum_ptr + p - 1)
    tl.store(o_ptr + p * BLOCK + offs, before + tl.cumsum(x, 0))
    tl.store(sum_ptr + p, before + tl.sum(x))
    tl.atomic_xchg(flag_ptr + p, 1)


@triton.jit
def running_sum_looks_too_far(x_ptr, flag_ptr, sum_ptr, o_ptr, BLOCK: tl.constexpr):
    """Waits for the program before the one whose sum it takes."""
    p = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + p * BLOCK + offs)
    before = 0.0
    if p > 0:
        while (p > 1) & (tl.atomic_add(flag_ptr + tl.maximum(p - 2, 0), 0) == 0):
            pass
        before = tl.load(sum_ptr + p - 1)
    tl.store(o_ptr + p * BLOCK + offs, before + tl.cumsum(x, 0))
    tl.store(sum_ptr + p, before + tl.sum(x))
    tl.atomic_xchg(flag_ptr + p, 1)


@pytest.mark.parametrize(
    "kernel, racing",
    [
        (running_sum, []),
        (running_sum_flag_first, ["sum_ptr"]),
        (running_sum_without_acquire, ["sum_ptr"]),
        (running_sum_looks_too_far, ["sum_ptr"]),
    ],
)
def test_a_flag_orders_what_was_stored_before_it(kernel, racing):
    x, o = torch.randn(PROGRAMS, 16), torch.zeros(PROGRAMS, 16)
    with trace() as t:
        kernel[(PROGRAMS,)](x, zeros(PROGRAMS), torch.zeros(PROGRAMS), o, BLOCK=16)
    assert races(t) == racing
    if not racing:
        torch.testing.assert_close(o.reshape(-1), x.reshape(-1).cumsum(0), atol=1e-5, rtol=1e-5)


@triton.jit
def hand_over(x_ptr, flag_ptr, o_ptr, RIGHT: tl.constexpr):
    """x goes from 0 to 1 and from 1 to 2, under flags at two addresses; 2 changes what 0 stored."""
    p = tl.program_id(0)
    if p == 0:
        tl.store(x_ptr, 1.0)
        tl.atomic_xchg(flag_ptr, 1)
    if p == 1:
        while tl.atomic_cas(flag_ptr, 1, 1) == 0:
            pass
        tl.store(o_ptr, 5.0)
        tl.atomic_xchg(flag_ptr + 1, 1)
    if p == 2:
        while tl.atomic_cas(flag_ptr + RIGHT, 1, 1) == 0:
            pass
        tl.store(x_ptr, tl.load(x_ptr) + 1)
        tl.store(o_ptr, tl.load(o_ptr) + 1)


@pytest.mark.parametrize("right, racing", [(1, []), (0, ["o_ptr"])])
def test_order_goes_through_several_addresses(right, racing):
    x, o = torch.zeros(1), torch.zeros(1)
    with trace() as t:
        hand_over[(3,)](x, zeros(2), o, RIGHT=right)
    assert races(t) == racing
    assert racing or (x == 2 and o == 6)


@triton.jit
def told_by_a_swap(x_ptr, flag_ptr, o_ptr, WAS: tl.constexpr):
    """Program 0 tells by a swap that takes place, or by one that does not; its flag is raised all the same."""
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 7.0)
        tl.atomic_cas(flag_ptr, WAS, 1)
        tl.atomic_xchg(flag_ptr, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag_ptr, 0) != 1:
            pass
        tl.store(o_ptr, tl.load(x_ptr))


@pytest.mark.parametrize("was, racing", [(0, []), (3, ["x_ptr"])])
def test_a_swap_tells_of_what_was_stored_if_it_takes_place(was, racing):
    with trace() as t:
        told_by_a_swap[(2,)](torch.zeros(1), zeros(1), torch.zeros(1), WAS=was)
    assert [tensor for tensor in races(t) if tensor != "flag_ptr"] == racing


@triton.jit
def one_of_many_flags(x_ptr, flag_ptr, FLAGS: tl.constexpr, AT: tl.constexpr):
    """Program 0 raises all flags in one atomic; program 1 waits for one of them."""
    if tl.program_id(0) == 0:
        tl.store(x_ptr, 1)
        tl.atomic_add(flag_ptr + tl.arange(0, 32), 1, mask=tl.arange(0, 32) < FLAGS)
    else:
        while tl.atomic_add(flag_ptr + AT, 0) == 0:
            pass
        tl.store(x_ptr + 1, tl.load(x_ptr))


@pytest.mark.parametrize("flags, at, racing", [(16, 15, []), (17, 15, []), (17, 16, ["x_ptr"])])
def test_the_first_sixteen_addresses_of_an_atomic_order(flags, at, racing):
    """More are a sum into many elements, and no flags."""
    x = zeros(2)
    with trace() as t:
        one_of_many_flags[(2,)](x, zeros(32), FLAGS=flags, AT=at)
    assert races(t) == racing and x.tolist() == [1, 1]


# ----------------------------------------------------------------------------------------------------- a barrier


@triton.jit
def turn_around(x_ptr, count_ptr, PROGRAMS: tl.constexpr, SEM: tl.constexpr, BARRIERS: tl.constexpr):
    """Each program takes over its neighbour's element, in place: once all have stored, and once all have loaded."""
    p = tl.program_id(0)
    tl.store(x_ptr + p, p)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0, sem=SEM) < PROGRAMS:
        pass
    x = tl.load(x_ptr + (p + 1) % PROGRAMS)
    if BARRIERS == 2:
        tl.atomic_add(count_ptr + 1, 1)
        while tl.atomic_add(count_ptr + 1, 0, sem=SEM) < PROGRAMS:
            pass
    tl.store(x_ptr + p, x)


@pytest.mark.parametrize(
    "sem, barriers, racing",
    [
        ("acq_rel", 2, []),
        ("acquire", 2, []),
        ("acq_rel", 1, ["x_ptr"]),
        ("relaxed", 2, ["x_ptr"]),
        ("release", 2, ["x_ptr"]),
    ],
)
@pytest.mark.parametrize("order", [None, "shuffled"])
def test_a_barrier_orders_all_programs(sem, barriers, racing, order):
    x = zeros(PROGRAMS)
    with trace(order=order) as t:
        turn_around[(PROGRAMS,)](x, zeros(2), PROGRAMS=PROGRAMS, SEM=sem, BARRIERS=barriers)
    assert races(t) == racing
    if not racing:
        assert x.tolist() == [1, 2, 3, 0]


# ----------------------------------------------------------------------------------------------------- no order at all


@triton.jit
def histogram(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + tl.load(x_ptr + offs, mask=offs < n), 1, mask=offs < n, sem="relaxed")


@triton.jit
def histogram_by_stores(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = o_ptr + tl.load(x_ptr + tl.program_id(0))
    tl.store(at, tl.load(at) + 1)


def test_atomics_are_no_race_with_atomics():
    x, o = torch.randint(0, 8, (64,), dtype=torch.int32), zeros(8)
    with trace() as t:
        histogram[(4,)](x, o, 64, BLOCK=16)
    assert t.faults == [] and o.tolist() == torch.bincount(x, minlength=8).tolist()
    with trace() as t:
        histogram_by_stores[(64,)](x, zeros(8), 64, BLOCK=16)
    assert races(t) == ["o_ptr"]


@triton.jit
def last_one_stays(x_ptr, o_ptr):
    tl.atomic_xchg(o_ptr + tl.arange(0, 4), tl.load(x_ptr + tl.program_id(0)) + tl.zeros((4,), tl.int32))


@triton.jit
def first_one_stays(x_ptr, o_ptr):
    tl.atomic_cas(o_ptr, 0, tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def begun_by_one(x_ptr, o_ptr):
    if tl.program_id(0) == 0:
        tl.atomic_xchg(o_ptr, 0)
    tl.atomic_add(o_ptr, tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def by_turns(x_ptr, o_ptr):
    while tl.atomic_add(o_ptr, 0) != tl.program_id(0):
        pass
    tl.atomic_xchg(o_ptr, tl.program_id(0) + 1)


@pytest.mark.parametrize("kernel", [last_one_stays, first_one_stays, begun_by_one])
def test_an_atomic_in_place_of_a_store_is_one(kernel):
    with trace() as t:
        kernel[(4,)](torch.arange(1, 5, dtype=torch.int32), zeros(4))
    assert races(t) == ["o_ptr"]


def test_exchanges_by_turns_are_no_race():
    with trace() as t:
        by_turns[(4,)](zeros(4), zeros(4))
    assert t.faults == []
