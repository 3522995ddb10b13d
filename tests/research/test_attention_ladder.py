"""benchmarks/attention.py and its ladder: the faster kernels are right, as traced, and the tables say what was measured."""

from __future__ import annotations

import pytest
import torch
from scripts import imported

from course_lib import trace
from course_lib.exercises import attention as A
from course_lib.exercises import flash as F


@pytest.fixture(scope="module")
def scripts():
    with imported("attention", "attention_ladder") as modules:
        yield modules


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["by_pointers", "by_descriptors"])
@pytest.mark.parametrize("shape", [(64, 64, 4, 3), (64, 128, 4, 2), (128, 64, 8, 3)])
def test_the_faster_kernels_are_right(scripts, name, shape, causal):
    _, ladder = scripts
    given = A.cases.qkv(128, 128, 64, torch.bfloat16, lead=(1, 2), scores="rising")(torch.Generator().manual_seed(2))
    with trace() as t:
        o, lse = ladder.launch(getattr(ladder, name), shape, **given, causal=causal)
    assert t.faults == []
    arguments = given | {"causal": causal}
    for got, right in zip((o, lse), F.oracles.attend(**arguments), strict=True):
        assert ((got.double() - right).abs() <= F.oracles.kernel_budget(right, torch.bfloat16, arguments)).all()


def test_tuned_shapes_are_launched_by_the_benchmark(scripts):
    _, ladder = scripts
    assert set(ladder.TUNED) == {(d, causal) for d in (64, 128) for causal in (False, True)}
    assert all(kernel in (ladder.by_pointers, ladder.by_descriptors) for kernel, _ in ladder.TUNED.values())
    assert next(iter(ladder.STEPS)) == "unit 09"


def test_flops_are_those_of_two_products(scripts):
    attention, _ = scripts
    q = torch.empty(2, 3, 100, 16)
    assert attention.flops(q, False) == 2 * 3 * 2 * (2 * 100 * 100 * 16)
    assert attention.flops(q, True) == attention.flops(q, False) / 2


def test_a_table_has_ratios_and_reasons(scripts):
    attention, _ = scripts
    contenders = {
        "FlashAttention-2": {"tflops": 300.0, "peak_bytes": 10**6},
        "cuDNN": {"tflops": 600.0, "peak_bytes": 10**6},
        "naive": {"failed": "out of memory"},
        "unit 09": {"tflops": 450.0, "peak_bytes": 2 * 10**6},
    }
    row = {"d": 128, "length": 4096, "causal": True, "contenders": contenders}
    record = {"machine": "a GPU", "date": "today", "torch": "2", "triton": "3", "ceiling": 900.0, "forward": [row]}
    line = next(line for line in attention.report(record).splitlines() if line.startswith("| 128 |"))
    assert line == "| 128 | 4096 | causal | 300 | 600 | out of memory | 450 | 0.50 | 1.50 | 0.75 | 2 |"


def test_flash_attention_4_has_a_column_of_ratios_and_its_version(scripts):
    attention, _ = scripts
    contenders = {
        name: {"tflops": speed, "peak_bytes": 10**6}
        for name, speed in {
            "FlashAttention-2": 300.0,
            "cuDNN": 600.0,
            "FlashAttention-4": 750.0,
            "unit 09": 450.0,
        }.items()
    }
    row = {"d": 128, "length": 4096, "causal": False, "contenders": contenders}
    record = {"machine": "a GPU", "date": "today", "torch": "2", "triton": "3", "ceiling": 900.0, "forward": [row]}
    shown = attention.report(record | {"peers": {"forward": {"FlashAttention-4": "4.0.0b36"}}})
    assert "| of the ceiling | of FA-2 | of cuDNN | of FA-4 | peak MB |" in shown
    assert "| 300 | 600 | 750 | 450 | 0.50 | 1.50 | 0.75 | 0.60 | 1 |" in shown
    assert "Peers: FlashAttention-4 4.0.0b36." in shown
