"""A learner looks into a running kernel: the values of a variable in one program, and what a kernel prints."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace


@triton.jit
def doubled(x):
    twice = x * 2
    return twice


@triton.jit
def running_sum(x_ptr, o_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + cols)
        acc += doubled(x)
    tl.store(o_ptr + row * BLOCK + cols, acc)


@pytest.mark.skipif(triton.__version__.startswith("3.4"), reason="values have no names in Triton 3.4's modules")
def test_a_variable_shows_each_value_with_its_line():
    x, o = torch.arange(64.0).reshape(4, 16), torch.zeros(4, 4)
    with trace() as t:
        acc, loaded = t.watch("acc", program=2), t.watch("x", program=(2,))
        twice, nothing = t.watch("twice", program=3), t.watch("missing")
        running_sum[(4,)](x, o, N=16, BLOCK=4)
    assert [value.line for value in acc] == [3, 6, 6, 6, 6]
    assert acc[-1].source == "acc += doubled(x)"
    np.testing.assert_array_equal(acc[-1].block, 2 * x[2].reshape(4, 4).sum(0))
    np.testing.assert_array_equal([value.block for value in loaded], x[2].reshape(4, 4))
    np.testing.assert_array_equal([value.block for value in twice], 2 * x[3].reshape(4, 4))  # in a helper, too
    assert "line 6: `acc += doubled(x)`  acc [4] =\n[" in repr(acc)
    assert "`missing` was given no value in program 0" in repr(nothing)
    assert t.bytes == x.nbytes + o.nbytes  # watching counts nothing


def test_watching_changes_no_count_and_ends_with_the_trace():
    x, o = torch.arange(64.0).reshape(4, 16), torch.zeros(4, 4)
    counted = []
    for watched in (True, False, True):
        with trace() as t:
            values = t.watch("acc") if watched else []
            running_sum[(4,)](x, o, N=16, BLOCK=4)
        counted.append((t.bytes, t.flops, len(values)))
    assert counted[0] == counted[2] and counted[0][:2] == counted[1][:2] and counted[1][2] == 0


@triton.jit
def prints(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    print("x", x)
    tl.device_print("program", tl.program_id(0))


def test_programs_print_one_after_the_other(capsys):
    with trace():
        prints[(2,)](torch.arange(4.0), N=4)
    assert capsys.readouterr().out.splitlines() == [
        "(0, 0, 0) x: [0. 1. 2. 3.]",
        "(0, 0, 0) program: [0]",
        "(1, 0, 0) x: [0. 1. 2. 3.]",
        "(1, 0, 0) program: [1]",
    ]


@triton.jit
def asserts(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.device_assert(x >= 0, "x is negative")
    tl.store(x_ptr + tl.arange(0, N), x)


def test_a_device_assert_is_left_out_as_on_a_gpu_unless_it_is_debugged():
    with trace():
        asserts[(1,)](-torch.ones(4), N=4)
