"""Assertions on a trace fail where they should, and name the line."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace.testing import (
    assert_bytes_at_most,
    assert_efficiency_at_least,
    assert_launches_at_most,
    assert_no_faults,
    assert_no_races,
)
from tritontrace.tracing import trace


@triton.jit
def strided(x_ptr, out_ptr, stride, wrap, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs % wrap, tl.load(x_ptr + offs * stride))


def traced(stride=1, wrap=1024, x=None):
    x = torch.ones(1024 * stride) if x is None else x
    with trace() as t:
        strided[(8,)](x, torch.empty(1024), stride, wrap, BLOCK=128)
    return t


def test_a_clean_kernel_passes_them_all():
    t = traced()
    assert_no_faults(t)
    assert_no_races(t)
    assert_bytes_at_most(t, 8192)
    assert_efficiency_at_least(t, 1.0)
    assert_launches_at_most(t, 1)


def test_a_race():
    t = traced(wrap=128)
    for asserted in (assert_no_races, assert_no_faults):
        with pytest.raises(AssertionError, match=r"test_assertions\.py:\d+: race: kernel `strided`, line 3"):
            asserted(t)


def test_another_fault_is_no_race():
    with trace() as t:
        strided[(8,)](torch.empty(1024), torch.empty(1024), 1, 1024, BLOCK=128)
    assert_no_races(t)
    with pytest.raises(AssertionError, match="uninitialised"):
        assert_no_faults(t)


def test_too_many_bytes():
    with pytest.raises(AssertionError, match="8,192 bytes moved, 8,191 allowed"):
        assert_bytes_at_most(traced(), 8191)


def test_a_wasteful_line():
    with pytest.raises(
        AssertionError, match=r"`tl\.store.*` uses 12\.5% of the sectors that it touches, 50% asked for"
    ):
        assert_efficiency_at_least(traced(stride=8), 0.5)
    assert_efficiency_at_least(traced(stride=8), 0.125)


def test_too_many_launches():
    with pytest.raises(AssertionError, match="1 launch, 0 allowed"):
        assert_launches_at_most(traced(), 0)


@pytest.mark.parametrize(
    "asserted",
    [
        assert_no_races,
        assert_no_faults,
        lambda t: assert_bytes_at_most(t, 1),
        lambda t: assert_efficiency_at_least(t, 1),
    ],
)
def test_of_nothing_nothing_is_asserted(asserted):
    with trace() as t:
        pass
    with pytest.raises(AssertionError, match="No kernel was launched"):
        asserted(t)
