"""docs/limits.md says what cannot be seen: here it is not seen. A limit that is lifted fails here, and leaves the page.

Not tried: that torch.compile ends a script, which takes half a minute; last bits, other hardware, what ptxas does.
"""

import math

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions

from tritontrace import KernelError, KernelFault, simulate, trace
from tritontrace.cli import main
from tritontrace.messages import say
from tritontrace.testing import as_on_a_gpu


@triton.jit
def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@pytest.fixture
def x():
    return torch.ones(64)


def test_time(x):
    with as_on_a_gpu(), trace():
        took = triton.testing.do_bench(lambda: copy[(1,)](x, x, 64, BLOCK=64))
    assert math.isnan(took)


@triton.jit
def by_ticket(count_ptr, y_ptr):
    first = tl.atomic_add(count_ptr, 1) == 0
    if first & (tl.program_id(0) == 3):
        tl.store(y_ptr + 100, 1.0)


def test_a_branch_of_another_order():
    def run(order):
        with trace(order=order) as t:
            by_ticket[(4,)](torch.zeros(1, dtype=torch.int32), torch.zeros(8))
        return t.faults

    assert run(None) == []
    with pytest.raises(KernelFault):
        run(lambda n: range(n)[::-1])


@triton.jit
def where_positive(x_ptr, y_ptr):
    if tl.load(x_ptr) > 0:
        tl.store(y_ptr, 1.0)


def test_values_that_change_the_path(x):
    moved = []
    for sign in (1, -1):
        with trace() as t:
            where_positive[(1,)](sign * x, torch.empty(1))
        moved.append(t.bytes)
    assert moved == [8, 4]


@triton.jit
def turned_after(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, i.to(tl.float32))
    tl.store(x_ptr + N + i, tl.load(x_ptr + (N - 1 - i)))


@triton.jit
def turned_before(x_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, tl.load(x_ptr + (N - 1 - i)))


@pytest.mark.parametrize("kernel, seen", [(turned_after, ["threads"]), (turned_before, [])])
def test_threads_of_one_program(kernel, seen):
    with trace() as t:
        kernel[(1,)](torch.zeros(2048), N=1024)
    assert [fault.between for fault in t.faults] == seen


def test_streams(x):
    y = torch.empty(64)
    with as_on_a_gpu(), trace() as t:
        for _ in range(2):
            with torch.cuda.stream(torch.cuda.Stream()):
                copy[(1,)](x, y, 64, BLOCK=64)
    assert len(t.launches) == 2 and not t.faults


def test_other_configurations(x):
    tuned = triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 64})], key=["n"])(copy)
    with trace() as t:
        tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, torch.empty(64), 64)
    assert [launch.grid for launch in t.launches] == [(4, 1, 1)]


def test_a_graph_ends_a_script(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import torch\ntorch.cuda.CUDAGraph()\n")
    assert main([str(script)]) == 2
    assert say("launch.run.graph") in capsys.readouterr().err


def test_clusters(x):
    found = []
    for ctas in (1, 2):
        with trace() as t:
            copy[(2,)](x, torch.empty(64), 64, BLOCK=32, num_ctas=ctas)
        found.append(t.launches[0].accesses)
    assert found[0] == found[1]


@triton.jit
def by_assembly(x_ptr):
    i = tl.arange(0, 16)
    more = tl.inline_asm_elementwise("add.s32 $0, $1, 1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x_ptr + i, more)


def test_an_operation_without_a_known_form_is_refused():
    with pytest.raises(KernelError, match="line 3") as refused, trace():
        by_assembly[(1,)](torch.zeros(16, dtype=torch.int32))
    assert mentions(refused.value, "launch.lacking.assembly")


def test_products_in_gluon_are_no_flops_of_lines():
    pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    from right_kernels import by_cp_async

    a, b, c = torch.ones(64, 128).half(), torch.ones(128, 64).half(), torch.empty(64, 64)
    report = simulate(by_cp_async[(1,)], a, b, c, 128, 64, 2, orders=("lazy",), num_warps=4)
    assert report.counts.multiply_adds == 64 * 64 * 128 and report.trace.flops.total == 0
