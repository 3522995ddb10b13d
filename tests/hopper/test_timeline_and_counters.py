"""The timeline's tensor cores next to an H100's counters: within ten points where products and copies decide, not where a softmax does.

Counted on 2026-11-25 with torch 2.11.0+cu130 and triton 3.6.0, one program on each SM, by Nsight Compute:
sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active.
"""

from __future__ import annotations

import pytest
import runs
import torch

from course_lib.hopper import simulate
from grader.audit.variants import published


def of_unit_12(name: str, M: int, K: int) -> float:
    a, b = torch.zeros(M, K, dtype=torch.float16), torch.zeros(K, 64, dtype=torch.float16)
    return simulate(published(f"hopper.{name}", on_the_cpu=True), a, b, orders=("timed",)).tensor_cores_busy


def of_attention(D: int) -> float:
    return runs.attention(runs.module_of(runs.ATTENTION), orders=("timed",), N=1024, D=D)[0].tensor_cores_busy


def of_persistent(K: int) -> float:
    return runs.persistent(runs.module_of(runs.MATMUL), orders=("timed",), shape=(512, 512, K))[0].tensor_cores_busy


@pytest.mark.parametrize(
    "counted,said",
    [
        pytest.param(0.096, lambda: of_unit_12("wgmma_matmul", 64, 2048), id="plain: one tile, one product"),
        pytest.param(0.205, lambda: of_unit_12("pipelined_matmul", 64, 2048), id="a ring of descriptors' copies"),
        pytest.param(0.407, lambda: of_unit_12("warp_specialised_matmul", 128, 2048), id="partitions that wait"),
        pytest.param(0.957, lambda: of_persistent(4096), id="persistent, stores beside products"),
    ],
)
def test_products_are_busy_for_as_long_as_counted(counted, said):
    assert said() == pytest.approx(counted, abs=0.1)


@pytest.mark.parametrize("counted,D", [(0.783, 128), (0.476, 64)])
def test_attention_is_said_to_be_busier_than_it_is(counted, D):
    """The docstring of timeline.py says so, and by how much. If this fails, the model knows more of a softmax: say it there."""
    assert 0.1 < of_attention(D) - counted < 0.3
