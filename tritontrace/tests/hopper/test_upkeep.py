"""A barrier that nobody uses is named, and one that stands where Triton may put another buffer; on right kernels nothing is said."""

import pytest
import torch
from runs import KERNELS, by_tma, module_of, relayed

from tritontrace.hopper import Kind, simulate
from tritontrace.hopper.language import gl, gluon, mbarrier, new_barriers
from tritontrace.hopper.orders import ORDERS, seeds

SPARE = ("    bars = new_barriers(2, 1)\n", "    bars = new_barriers(2, 1)\n    spare = new_barriers(1, 1)\n")
STARTS = "        start_tma(a_desc, b_desc, a_tiles, b_tiles, full, i + 2, STEPS)\n"
LOOP_ENDS = f"{STARTS}    acc = mma_wait(0, deps=[acc])\n"
OUT = "    out = gl.allocate_shared_memory(gl.float32, [TILE, TILE], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))\n"
THROUGH = f"{OUT}    out.store(acc)\n    barrier()\n    acc = out.load(ACC)\n"
INVALIDATED = "    for i in gl.static_range(3):\n        mbarrier.invalidate(full.index(i))\n"
WAITS = "    mbarrier.wait(bars.index(1), 0)\n"


def with_a_tile_at_the_end(before=""):
    """by_tma, whose result goes through shared memory when all copies have come."""
    return module_of(KERNELS, (LOOP_ENDS, f"{LOOP_ENDS}{before}{THROUGH}"))


@pytest.mark.parametrize("order", [*ORDERS, *seeds(3)])
def test_a_barrier_that_nobody_uses_is_named(order):
    report, equal = relayed(module_of(KERNELS, SPARE), orders=(order,))
    assert equal
    assert report.fault.kind is Kind.UNUSED
    assert report.fault.buffer == "spare"
    (spot,) = report.fault.lines
    assert spot.function == "new_barriers" and "mbarrier.init" in spot.source
    assert (spot.caller.function, spot.caller.source) == ("relayed", "spare = new_barriers(1, 1)")


def test_one_that_is_invalidated_harms_nobody():
    edit = (SPARE[0], f"{SPARE[1]}    mbarrier.invalidate(spare.index(0))\n")
    assert relayed(module_of(KERNELS, edit))[0].right


def test_nothing_is_said_where_an_instruction_on_barriers_was_not_reached():
    """The one that was not reached may be the one that uses it."""
    later = (WAITS, f"{WAITS}    for _ in range(LATER):\n        mbarrier.wait(bars.index(1), 1)\n")
    passed = ("(write_out, (y_ptr, tile, bars))", "(write_out, (y_ptr, tile, bars, n - 5))")
    known = ("def write_out(y_ptr, tile, bars):", "def write_out(y_ptr, tile, bars, LATER):")
    assert relayed(module_of(KERNELS, SPARE, later, passed, known))[0].right


@pytest.mark.parametrize("order", [*ORDERS, *seeds(3)])
def test_a_barrier_that_stands_where_a_tile_may_lie_is_named(order):
    report, equal = by_tma(with_a_tile_at_the_end(), orders=(order,))
    assert equal
    assert report.fault.kind is Kind.STANDS
    assert report.fault.buffer == "full"
    first, second = report.fault.lines
    assert first.function == "new_barriers" and first.caller.function == "by_tma"
    assert (second.function, second.source) == ("by_tma", OUT.strip())


def test_it_is_right_when_it_is_invalidated():
    report, equal = by_tma(with_a_tile_at_the_end(INVALIDATED), orders=(*ORDERS, *seeds(20)))
    assert report.right, report.fault
    assert equal


@gluon.jit
def made_in_a_loop(y_ptr, TURNS: gl.constexpr, INVALIDATE: gl.constexpr):
    gate = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    for _ in range(TURNS):
        mbarrier.init(gate, count=1)
        mbarrier.arrive(gate)
        mbarrier.wait(gate, 0)
        if INVALIDATE:
            mbarrier.invalidate(gate)
    gl.store(y_ptr, TURNS)


@pytest.mark.parametrize("turns, invalidate, right", [(3, True, True), (1, False, True), (3, False, False)])
def test_a_barrier_is_not_made_where_one_stands(turns, invalidate, right):
    y = torch.zeros(1, dtype=torch.int32)
    report = simulate(made_in_a_loop[(1,)], y, TURNS=turns, INVALIDATE=invalidate, num_warps=4)
    assert report.right == right
    if not right:
        assert (report.fault.kind, report.fault.buffer) == (Kind.STANDS, "gate")
        assert [spot.line for spot in report.fault.lines] == [4, 4]


@gluon.jit
def two_barriers(y_ptr, n):
    first = new_barriers(1, 1)
    second = new_barriers(1, 1)
    mbarrier.arrive(first.index(0))
    mbarrier.wait(first.index(0), 0)
    if gl.program_id(0) == 1:
        mbarrier.arrive(second.index(0))
        mbarrier.wait(second.index(0), 0)
    gl.store(y_ptr + gl.program_id(0), n)


@pytest.mark.parametrize("programs", [1, 2])
def test_a_barrier_that_one_program_uses_is_used(programs):
    """Say nothing with one program: the branch is not reached, and nothing is known."""
    assert simulate(two_barriers[(programs,)], torch.zeros(2, dtype=torch.int32), 7, num_warps=4).right
