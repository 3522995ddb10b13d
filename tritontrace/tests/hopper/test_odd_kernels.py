"""Honest kernels that do things in an unusual way are right, too; what is not simulated is said in a sentence."""

import pytest
import torch
from sentences import mentions, refusing

from tritontrace.hopper import simulate
from tritontrace.hopper.faults import Kind
from tritontrace.hopper.language import (
    TensorDescriptor,
    barrier,
    copy_async,
    fence_async_shared,
    gl,
    gluon,
    mbarrier,
    mma,
    new_barriers,
    store_wait,
    tma_store,
)
from tritontrace.hopper.orders import ORDERS, seeds
from tritontrace.ttir.launching import KernelError, KernelFault

LINE = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
SQUARE = gl.constexpr(gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0]))
ACC = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 8]))


@gluon.jit
def halves(x_ptr, y_ptr):
    """Two partitions write the halves of one tile; it is allocated with its first contents."""
    offs = gl.arange(0, 128, LINE)
    tile = gl.allocate_shared_memory(gl.float32, [128], FLAT, gl.load(x_ptr + offs))
    done = new_barriers(1, 2)
    gl.warp_specialize([(add_to, (tile, done, 0)), (add_to, (tile, done, 1))], [4], [32])
    mbarrier.wait(done.index(0), 0, deps=[tile])
    mbarrier.invalidate(done.index(0))
    gl.store(y_ptr + offs, tile.load(LINE))


@gluon.jit
def add_to(tile, done, HALF: gl.constexpr):
    mine = tile.slice(64 * HALF, 64)
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    mine.store(mine.load(layout) + HALF + 1)
    mbarrier.arrive(done.index(0))


def test_two_halves_of_a_tile():
    x, y = torch.randn(128), torch.empty(128)
    report = simulate(halves[(1,)], x, y, num_warps=4, orders=(*ORDERS, *seeds(20)))
    assert report.right, report.fault
    assert torch.allclose(y, x + torch.tensor([1.0, 2.0]).repeat_interleave(64))


@gluon.jit
def tile_of_each_turn(y_desc, TURNS: gl.constexpr, WAIT: gl.constexpr):
    """A tile that is asked for in a loop: one buffer, which the last turn's store may still be reading."""
    for turn in range(TURNS):
        tile = gl.allocate_shared_memory(gl.float32, [64, 64], y_desc.layout)
        tile.store(gl.full((64, 64), turn, gl.float32, SQUARE))
        fence_async_shared()
        tma_store(y_desc, [turn * 64, 0], tile)
        if WAIT:
            store_wait(0)
    store_wait(0)


def test_a_tile_that_is_made_in_a_loop_is_one_buffer():
    y = torch.empty(20 * 64, 64)  # twenty tiles of 16 KiB are more than an SM has
    y_desc = TensorDescriptor.from_tensor(y, [64, 64], gl.NVMMASharedLayout.get_default_for([64, 64], gl.float32))
    report = simulate(tile_of_each_turn[(1,)], y_desc, TURNS=20, WAIT=True, num_warps=4)
    assert report.right, report.fault
    assert report.shared_bytes == 64 * 64 * 4
    assert torch.equal(y[:, 0], torch.arange(20.0).repeat_interleave(64))
    report = simulate(tile_of_each_turn[(1,)], y_desc, TURNS=2, WAIT=False, num_warps=4)
    assert report.fault.kind is Kind.OVERWRITTEN


@gluon.jit
def in_tf32(a_ptr, b_ptr, c_ptr):
    """A product of float32 whose operands threads store, and which is waited for where it is issued."""
    SHARED: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float32)
    TURNED: gl.constexpr = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float32, transposed=True)
    rows = gl.arange(0, 64, gl.SliceLayout(1, SQUARE))
    cols = gl.arange(0, 64, gl.SliceLayout(0, SQUARE))
    offs = rows[:, None] * 64 + cols[None, :]
    a = gl.allocate_shared_memory(gl.float32, [64, 64], SHARED, gl.load(a_ptr + offs))
    b = gl.allocate_shared_memory(gl.float32, [64, 64], TURNED, gl.load(b_ptr + offs))
    fence_async_shared()
    barrier()
    acc = mma(a, b, gl.zeros((64, 64), gl.float32, ACC))
    gl.store(c_ptr + offs, gl.convert_layout(acc, SQUARE))


def test_a_product_of_float32():
    a, b, c = torch.randn(64, 64), torch.randn(64, 64), torch.empty(64, 64)
    report = simulate(in_tf32[(1,)], a, b, c, num_warps=4)
    assert report.right, report.fault
    assert ((c - a @ b).abs() < 64 * 2**-10).all()
    assert not torch.equal(c, a @ b)  # as TF32, whose numbers have 10 bits behind the point


@gluon.jit
def sums(x_ptr, y_ptr, N):
    """A partition that hands back what it has computed, a loop whose turns are known late, an early choice."""
    gl.warp_specialize([(count, (x_ptr, y_ptr, N)), (idle, ())], [1], [24])


@gluon.jit
def count(x_ptr, y_ptr, N):
    offs = gl.arange(0, 128, LINE)
    acc = gl.zeros((128,), gl.float32, LINE)
    i = 0
    while i < N:
        acc += gl.load(x_ptr + offs + 128 * i)
        i += 1
    if N > 2:
        acc = acc * 2
    gl.atomic_add(y_ptr + offs * 0, acc)


@gluon.jit
def idle():
    pass


@pytest.mark.parametrize("N", [2, 3])
def test_loops_and_choices(N):
    x, y = torch.ones(128 * N), torch.zeros(1)
    report = simulate(sums[(2,)], x, y, N, num_warps=4)
    assert report.right, str(report)
    assert y.item() == 2 * 128 * N * (2 if N > 2 else 1)


@gluon.jit
def reinterprets(x_ptr):
    tile = gl.allocate_shared_memory(gl.int32, [128], FLAT)
    tile._reinterpret(gl.float32, [128], FLAT).store(gl.load(x_ptr + gl.arange(0, 128, LINE)))


@gluon.jit
def beyond(x_ptr, N: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float32, [128], FLAT)
    copy_async(tile, x_ptr + gl.arange(0, 128, LINE) + N)


def test_what_is_not_simulated_is_said():
    with pytest.raises(KernelError, match=r"^kernel `reinterprets`, line 3: ") as refused:
        simulate(reinterprets[(1,)], torch.zeros(128), num_warps=4)
    assert mentions(refused.value, "launch.lacking.gluon", operation="memdesc_reinterpret")


def test_a_copy_beyond_a_tensor_is_a_fault_of_memory():
    with pytest.raises(KernelFault, match="beyond"):
        simulate(beyond[(1,)], torch.zeros(128), N=64, num_warps=4, orders=("eager",))


@gluon.jit
def waits_for_a_number(phase):
    bars = new_barriers(1, 1)
    mbarrier.arrive(bars.index(0))
    mbarrier.wait(bars.index(0), phase)


def test_a_phase_is_a_parity():
    report = simulate(waits_for_a_number[(1,)], 2, num_warps=4, orders=("lazy",))
    assert report.fault.kind.value == "wrong phase"
    assert report.fault.sentence.id == "hopper.barrier.parity"
    assert simulate(waits_for_a_number[(1,)], 0, num_warps=4).right


@gluon.jit
def arrivals_behind(y_ptr, TURNS: gl.constexpr, BEHIND: gl.constexpr, ALWAYS: gl.constexpr):
    """A turn arrives at the barrier of the turn before it, and the first turn at none."""
    done = new_barriers(2, 1)
    for turn in range(TURNS):
        mbarrier.arrive(done.index((turn - BEHIND) % 2), pred=ALWAYS or turn >= BEHIND)
    gl.store(y_ptr + gl.arange(0, 128, LINE), 1.0)


def test_an_index_outside_of_a_ring_is_a_mistake_once_it_is_used():
    y = torch.empty(128)
    assert simulate(arrivals_behind[(1,)], y, 2, 1, False, num_warps=4).right
    report = simulate(arrivals_behind[(1,)], y, 2, 1, True, num_warps=4)
    assert report.fault.kind is Kind.INDEX
    assert [spot.line for spot in report.fault.lines] == [5]


def test_a_cluster_is_refused_by_name():
    with refusing("launch.run.clusters", KernelError, ctas=2):
        simulate(arrivals_behind[(1,)], torch.empty(128), 2, 1, False, num_warps=4, num_ctas=2)
