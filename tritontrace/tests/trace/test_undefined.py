"""Masked lanes without `other` are undefined: told where they reach memory, and not where they reach nothing."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace.cli import main
from tritontrace.tracing import trace

KERNELS = """
@triton.jit
def double(x_ptr, o_ptr, n, MASKED: tl.constexpr, B: tl.constexpr = 32):
    offs = tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs, 2 * x, mask=(offs < n) | (not MASKED))
"""


@triton.jit
def double(x_ptr, o_ptr, n, MASKED: tl.constexpr, B: tl.constexpr = 32):
    offs = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs, 2 * x, mask=(offs < n) | (not MASKED))


@triton.jit
def total(x_ptr, o_ptr, n, CHOSEN: tl.constexpr, B: tl.constexpr = 32):
    offs = tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n)
    if CHOSEN:
        x = tl.where(offs < n, x, 0.0)
    tl.atomic_add(o_ptr, tl.sum(x))


@triton.jit
def copy_integers(x_ptr, o_ptr, n, MASKED: tl.constexpr, B: tl.constexpr = 32):
    offs = tl.arange(0, B)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(o_ptr + offs, x, mask=(offs < n) | (not MASKED))


@pytest.mark.parametrize("kernel, dtype, line", [
    (double, torch.float32, 4), (double, torch.float16, 4), (total, torch.float32, 6), (copy_integers, torch.int32, 4),
])  # fmt: skip
@pytest.mark.parametrize("harmless", [False, True])
def test_undefined_lanes_are_told_where_they_reach_memory(kernel, dtype, line, harmless):
    x, o = torch.ones(64, dtype=dtype), torch.zeros(64, dtype=dtype)
    with trace() as t:
        kernel[(1,)](x, o, 20, harmless)
    assert [(fault.kind, fault.line) for fault in t.faults] == ([] if harmless else [("undefined", line)])
    if not harmless:
        assert "line 3 loads" in t.faults[0].sentence
    assert ("without `other`" in t.table()) != harmless


def test_of_several_programs_only_those_that_are_undefined_are_told():
    x, o = torch.ones(64), torch.zeros(64)
    with trace() as t:
        double[(2,)](x, o, 40, False)
    (fault,) = t.faults
    assert "program 1 stores to element 40 " in fault.sentence and "(24 elements in all)" in fault.sentence


def test_other_may_be_zero_as_on_nvidias_gpus():
    x, o = torch.ones(64), torch.ones(64)
    with trace(other="zero") as t:
        double[(1,)](x, o, 20, False)
    assert t.faults == [] and o[:20].eq(2).all() and not o[20:32].any()


@pytest.mark.parametrize("options, status", [((), 1), (("--other", "zero"), 0)])
def test_on_the_command_line(options, status, tmp_path, capfd):
    script = tmp_path / "script.py"
    script.write_text(
        f"import torch, triton, triton.language as tl\n{KERNELS}\ndouble[(1,)](torch.ones(64), torch.zeros(64), 20, False)\n"
    )
    assert main([*options, str(script)]) == status
