"""benchmarks/right.py: what a tool of compute-sanitizer reports is told of, unless it is explained."""

from __future__ import annotations

import pytest
from scripts import imported

INVALID = """========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at persistent+0x2f0 in matmul_persistent.py:120
=========
attention_decode, 300 keys, q times 1: right
========= ERROR SUMMARY: 1 error
"""
TRITONS = """========= COMPUTE-SANITIZER
========= Error: Race reported between Read access at in_turns+0x150 LDS.U8 and Write access at in_turns+0x90
=========     offset 0xf0 in shared memory, at gl.warp_specialize
=========
"""


@pytest.fixture(scope="module")
def right():
    with imported("right") as (module,):
        yield module


def test_a_report_is_told_of_unless_it_is_tritons_own(right):
    assert right.complaints(INVALID) == ["Invalid __global__ read of size 4 bytes"]
    assert right.complaints(TRITONS) == []
    assert right.complaints(TRITONS + TRITONS.replace("LDS.U8", "LDS.32").replace("warp_specialize", "load")) != []


def test_a_check_that_is_not_right_is_told_of(right):
    said = "attention_decode, 300 keys, q times 1: right\nattention_decode, 1 keys, q times 1: wrong"
    assert right.complaints(said) == ["attention_decode, 1 keys, q times 1: wrong"]


def test_a_check_that_raises_is_wrong_and_the_others_go_on(right, monkeypatch, capsys):
    def broken(seed):
        raise RuntimeError("an illegal access\nof memory")

    monkeypatch.setattr(right, "checks", lambda few: [("one", broken), ("two", lambda seed: seed == 7)])
    assert right.alone(7, few=False) == ["one: an illegal access of memory"]
    assert capsys.readouterr().out.splitlines()[1] == "two: right"


def test_there_are_checks_of_every_kernel_of_record(right):
    names = {what.split(",")[0] for few in (False, True) for what, _ in right.checks(few)}
    kernels = {path.stem for path in (right.ROOT / "research").glob("*.py")} - {"attention_ladder"}
    assert names == kernels | {"tiling.matmul"}
