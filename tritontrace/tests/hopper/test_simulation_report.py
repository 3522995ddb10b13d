"""A Report: facts for criteria, text, HTML and the picture; and what is refused."""

import re

import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.text import Text
from mistakes import ATTENTION as WRONG
from runs import (
    ATTENTION,
    KERNELS,
    MATMUL,
    attention,
    by_cp_async,
    by_tma,
    copied,
    module_of,
    persistent,
    relayed,
    specialised,
    turned,
)
from sentences import mentions, refusing, says

from tritontrace.hopper import Kind, simulate, simulation
from tritontrace.hopper.language import gl, gluon, mbarrier, mma, new_barriers, tma_load
from tritontrace.hopper.machine import Machine
from tritontrace.hopper.orders import ORDERS
from tritontrace.hopper.timeline import Costs
from tritontrace.picture import SMALLEST, WIDTH
from tritontrace.tracing.work import TooSlow, Work
from tritontrace.ttir.launching import KernelError

MODULE = module_of(KERNELS)


def test_counts_and_bytes():
    report, _ = copied(MODULE, orders=("lazy", "eager"))
    counts = report.counts
    assert (counts.barriers, counts.tma_loads, counts.tma_stores, counts.wgmma, counts.fences) == (4, 5, 5, 0, 5)
    assert counts.bytes_to_shared == counts.bytes_from_shared == report.trace.loads.bytes == 5 * 64 * 64 * 2
    assert report.trace.stores.bytes == 5 * 64 * 64 * 2
    assert (report.trace.loads.described_bytes, report.trace.stores.described_bytes) == (5 * 64 * 64 * 2,) * 2
    assert report.shared_bytes == 3 * 64 * 64 * 2 + 4 * 8
    assert report.run("eager").counts == counts
    # of a partition its own lines count, in a cell, too: the kernel's is but the `def`
    assert {(each.op, each.function) for each in report.trace.launches[0].accesses} == {
        ("load", "fetch_tiles"),
        ("store", "double_tiles"),
    }

    report, _ = by_cp_async(MODULE, orders=("lazy",))
    assert report.trace.loads.bytes > 0 == report.trace.loads.described_bytes, "threads copy by pointers"

    report, _ = specialised(MODULE, orders=("lazy",))
    assert (report.counts.wgmma, report.counts.tma_loads, report.instructions["TMA load"]) == (10, 15, 3)
    assert {product.shape for product in report.products} == {(64, 64, 64)}
    assert {product.who for product in report.products} == {"multiply#0", "multiply#1"}


def test_what_can_go_one_way_alone_is_run_in_one_order_and_timed(monkeypatch):
    machines = []
    monkeypatch.setattr(simulation, "Machine", lambda *args: machines.append(Machine(*args)) or machines[-1])
    report, equal = turned(MODULE)
    assert report.right and equal and len(machines) == 2
    assert [run.order for run in report.runs] == list(ORDERS)
    assert all(
        run.counts == report.counts and (run.timeline is not None) == (run.order == "timed") for run in report.runs
    )
    machines.clear()
    relayed(MODULE)
    assert len(machines) == len(ORDERS), "two partitions"
    machines.clear()
    copied(MODULE)
    assert len(machines) == len(ORDERS), "copies are under way"


def test_who_multiplies_while_copies_are_under_way():
    for run in (by_cp_async, by_tma):
        assert run(MODULE)[0].overlapped == 0.8  # there is nothing more to fetch at the last of five
    begin, go_on = (f"start_tma(a_desc, b_desc, a_tiles, b_tiles, full, {i}, STEPS)\n" for i in ("1", "i + 2"))
    loop = "    for i in range(STEPS):\n"
    one_by_one = module_of(
        KERNELS,
        (f"    {begin.replace('1', '0')}", ""),
        (f"    {begin}{loop}", f"{loop}        {begin.replace('1', 'i')}"),
        (f"        acc = mma_wait(1, deps=[acc])\n        {go_on}", "        acc = mma_wait(0, deps=[acc])\n"),
    )
    report, equal = by_tma(one_by_one)
    assert report.right
    assert equal
    assert report.overlapped == 0


def test_a_copy_that_begins_while_a_product_runs_is_beside_it():
    two = module_of(
        KERNELS,
        ("    start_tma(a_desc, b_desc, a_tiles, b_tiles, full, 1, STEPS)\n", ""),
        (
            "a_tiles, b_tiles, full, i + 2, STEPS)\n    acc = mma_wait(0",
            "a_tiles, b_tiles, full, i + 1, STEPS)\n    acc = mma_wait(0",
        ),
    )
    report, equal = by_tma(two)
    assert report.right
    assert equal
    assert report.overlapped == 0.8


def each_waits():
    """The attention whose consumers wait for each product where they issue it."""
    s, wait_s = "none, use_acc=False, is_async=True)\n            ", "s = mma_wait(0, deps=[s])\n            "
    acc = "acc = mma(p, tile_of(vs, i - 1), acc, is_async=True)\n            "
    return module_of(
        ATTENTION,
        (f"{s}wait_full(vs", f"{s}{wait_s}wait_full(vs"),
        (f"{acc}s = mma_wait(1, deps=[s])", f"{acc}acc = mma_wait(0, deps=[acc])"),
    )


def test_products_that_overlap_keep_the_tensor_cores_busier():
    busy = []
    for module in (module_of(ATTENTION), each_waits()):
        report, equal = attention(module, orders=("timed",), N=512, D=128)
        assert report.right
        assert equal
        busy.append(report.tensor_cores_busy)
    assert busy[0] > busy[1]


def test_text_and_html():
    report, _ = specialised(MODULE)
    assert str(report).startswith("No mistake in 6 orders: lazy, timed, eager, random:0, random:1, random:2\n")
    assert "15 by TMA to shared memory; 122,880 bytes in" in str(report)
    assert "49,184 of 232,448 bytes" in report._repr_html_()
    wrong, _ = attention(module_of(ATTENTION, *WRONG["no fence"].edits), orders=("lazy", "eager"))
    assert str(wrong).startswith("Mistakes in 2 of 2 orders\nmissing fence (lazy, eager): the TMA store of `qs.tiles[")
    assert "<code>fence_async" not in wrong._repr_html_()
    assert re.search(r"<code>q\.store\(.*?</code>", wrong._repr_html_())


def test_the_picture():
    report, _ = specialised(MODULE, orders=("timed",))
    picture = report.timeline()
    assert picture.get_figwidth() <= WIDTH
    assert min(text.get_fontsize() for text in picture.findobj(Text) if text.get_text()) >= SMALLEST
    (ax,) = picture.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "copies", "fetch_operands", "multiply#0", "multiply#1", "tensor cores",
    ]  # fmt: skip
    assert "Tensor cores are busy" in repr(picture)
    with refusing("asked.simulation.no_program", program=3, count=1):
        report.timeline(3)
    with refusing("asked.simulation.no_timeline"):
        specialised(MODULE, orders=("lazy",))[0].timeline()
    plt.close("all")


def test_what_is_refused_is_said_in_a_sentence():
    with refusing("asked.simulation.no_order", name="'backwards'"):
        copied(MODULE, orders=("backwards",))

    x = torch.zeros(64, 64, dtype=torch.float16)
    with pytest.raises(KernelError) as refused:
        simulate(MODULE.copied[(1,)], MODULE.tiles_of(x), MODULE.tiles_of(x), COUNTS=5)
    assert says(refused.value, "launch.arguments.unknown", parameter="COUNTS")
    assert mentions(refused.value, "launch.arguments.near", near="COUNT")


@gluon.jit
def halves_alone(x_desc, N: gl.constexpr):
    tile = gl.allocate_shared_memory(gl.float16, [N, N], x_desc.layout)
    come = new_barriers(1, 1)
    mbarrier.expect(come.index(0), x_desc.block_type.nbytes)
    tma_load(x_desc, [0, 0], come.index(0), tile)


@gluon.jit
def hurries(N: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(gl.float16, [N, N], gl.NVMMASharedLayout.get_default_for([N, N], gl.float16))
    acc = mma(a, a, gl.zeros((N, N), gl.float32, layout), is_async=True)
    acc = acc * 2


def test_what_only_the_verifier_refuses_has_its_line_and_reason():
    x = MODULE.tiles_of(torch.zeros(64, 64, dtype=torch.bfloat16))
    with pytest.raises(KernelError, match=r"line 5: `tma_load") as refused:
        simulate(halves_alone[(1,)], x, N=64, num_warps=4)
    assert mentions(refused.value, "compiler.problem.tma_converts", one="bf16", other="f16")


def test_arithmetic_with_a_product_under_way_is_refused_by_name():
    with refusing("compiler.problem.not_waited_for", KernelError):
        simulate(hurries[(1,)], N=64, num_warps=4)


@gluon.jit
def meddles(x_ptr, N: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    offs = gl.arange(0, N, layout)
    gl.store(x_ptr + offs, gl.load(x_ptr + (offs + gl.program_id(0)) % N, mask=offs < N, other=0.0) + 1)


def test_global_memory_is_looked_at_as_in_a_trace():
    report = simulate(meddles[(2,)], torch.zeros(128), N=128, orders=("lazy",), num_warps=4)
    assert not report.right
    assert report.fault is None
    assert report.memory_faults
    assert report.memory_faults[0].sentence in str(report)


def test_each_order_begins_with_the_same_numbers():
    x = torch.zeros(128)
    report = simulate(meddles[(1,)], x, N=128, num_warps=4)
    assert not any(fault.kind is Kind.ORDER for fault in report.faults)
    assert (x == 1).all()


@gluon.jit
def writes(x_ptr, seen, SIDE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    mbarrier.arrive(seen.index(SIDE))  # here the other one may go first
    gl.store(x_ptr + 7 + gl.arange(0, 128, layout), gl.full((128,), SIDE + 1, gl.float32, layout))


@gluon.jit
def both_write(x_ptr):
    seen = new_barriers(2, 1)
    gl.warp_specialize([(writes, (x_ptr, seen, 0)), (writes, (x_ptr, seen, 1))], [4], [24])


def test_two_partitions_that_store_to_one_element_are_told_which():
    fault = simulate(both_write[(1,)], torch.zeros(200), num_warps=4).fault
    assert fault is not None
    assert fault.kind is Kind.ORDER
    assert says(fault.sentence, "hopper.order.numbers", element=7, size=200)


def test_a_copy_for_nobody_overlaps_with_nothing():
    """A tile that is fetched beside the others, and never waited for, makes no product one that overlaps."""
    first = "    start_copies(a_ptr, b_ptr, a_tiles, b_tiles, 0, K, N, STEPS)\n"
    rows, cols = (f"gl.arange(0, TILE, gl.SliceLayout({axis}, SQUARE))" for axis in (1, 0))
    module = module_of(
        KERNELS,
        (
            first,
            "    more = gl.allocate_shared_memory(gl.float16, [TILE, TILE], LAYOUT)\n"
            f"    at = {rows}[:, None] + {cols}[None, :]\n{first}",
        ),
        ("wait_group(1)", "wait_group(0)\n        if i == STEPS - 1:\n            copy_async(more, a_ptr + at)"),
    )
    report, equal = by_cp_async(module)
    assert report.right
    assert equal
    assert report.counts.async_copies == 11
    assert report.overlapped == 0


def test_work_is_limited():
    with pytest.raises(TooSlow):
        copied(MODULE, work=Work(1e5))


def test_costs_of_copies_may_be_others():
    busy = []
    for latency in (100, 3000):
        a, b, c = torch.ones(64, 320).half(), torch.ones(320, 64).half(), torch.empty(64, 64)
        tiles = MODULE.tiles_of(a), MODULE.tiles_of(b)
        report = simulate(
            MODULE.by_tma[(1,)],
            *tiles,
            c,
            64,
            STEPS=5,
            num_warps=4,
            orders=("timed",),
            costs=Costs(copy_latency=latency),
        )
        busy.append(report.tensor_cores_busy)
    assert busy[0] > 2 * busy[1]


def test_exponentials_beside_products_and_products_beside_one_another():
    report, _ = attention(module_of(ATTENTION), orders=("lazy", "eager"))
    waiting, _ = attention(each_waits(), orders=("lazy",))
    assert report.run("eager").beside_products == report.run("lazy").beside_products
    assert report.exponentials_beside_products > 0.5
    assert waiting.exponentials_beside_products < 0.01  # the logarithm of l, beside the last product
    beside = [product for product in report.products if product.own]
    assert len(beside) == 12  # of 2 consumers with 3 x 3 tiles, all but the first of each three
    assert not any(product.own for product in waiting.products)


def test_products_beside_stores():
    report, _ = persistent(module_of(MATMUL), orders=("lazy",))
    assert any(product.stores for product in report.products)
    assert not any(product.stores for product in specialised(MODULE, orders=("lazy",))[0].products)
