"""Workspaces that a host keeps between calls: their memory is there in a replay, what they held is not."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions
from test_record_replay import N, doubled_into, evidence_of, is_doubled

KEPT = {}


@triton.jit
def into_parts(x_ptr, parts_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts_ptr + tl.program_id(0), tl.sum(tl.load(x_ptr + i, mask=i < n, other=0), axis=0))


@triton.jit
def doubled_if_counted(x_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.atomic_add(count_ptr + tl.program_id(0), 1)
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=i < n, other=0) * (2 + before), mask=i < n)
    tl.atomic_add(count_ptr + tl.program_id(0), -1)


@triton.jit
def added_up(x_ptr, sums_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0)
    tl.atomic_add(sums_ptr + i, x, mask=i < n)
    tl.atomic_add(sums_ptr + i, x, mask=i < n)
    tl.debug_barrier()
    tl.store(out_ptr + i, tl.load(sums_ptr + i, mask=i < n), mask=i < n)


def kept(name, make):
    """Keep the object that `make` makes, once for all calls and cases."""
    return KEPT[name] if name in KEPT else KEPT.setdefault(name, make())


def through_a_workspace(x):
    parts = kept("parts", lambda: torch.empty(4))
    into_parts[(4,)](x, parts, N, BLOCK=32)
    return doubled_into(torch.empty_like(x), x)


def with_a_counter_that_is_reset(x):
    count, out = kept("count", lambda: torch.zeros(4, dtype=torch.int32)), torch.empty_like(x)
    doubled_if_counted[(4,)](x, count, out, N, BLOCK=32)
    return out


def with_sums_that_are_cleared(x):
    sums, out = kept("sums", lambda: torch.empty(N)), torch.empty_like(x)
    sums.zero_()
    added_up[(1,)](x, sums, out, N, BLOCK=128)
    return out


@pytest.fixture(autouse=True)
def nothing_kept():
    KEPT.clear()


@pytest.mark.parametrize("function", [through_a_workspace, with_a_counter_that_is_reset, with_sums_that_are_cleared])
def test_a_workspace_of_an_earlier_case_is_memory_like_any(function):
    for _ in range(3):  # the first finds none
        assert is_doubled(*evidence_of(function))


def test_one_that_was_made_before_any_check_too():
    KEPT["parts"], KEPT["count"] = torch.randn(4), torch.zeros(4, dtype=torch.int32)
    assert is_doubled(*evidence_of(through_a_workspace))
    assert is_doubled(*evidence_of(with_a_counter_that_is_reset))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(N),
        lambda: torch.from_numpy(np.ones(N, np.float32)),
        lambda: torch.frombuffer(bytearray(b"one." * N), dtype=torch.float32),
        lambda: torch.ones(3, N)[1],
    ],
)
def test_what_it_held_is_gone(make):
    KEPT["answers"] = make()
    evidence, _ = evidence_of(lambda x: doubled_into(torch.empty_like(x), KEPT["answers"]))
    assert {fault.kind for fault in evidence.faults} == {"uninitialised"}
    assert "`buffer 2, made before the call`" in evidence.faults[0].sentence
    assert all(out.isnan().all() for out in evidence.outputs)


def test_sums_that_nobody_clears_are_those_of_two_calls():
    def function(x):
        sums, out = kept("sums", lambda: torch.zeros(N)), torch.empty_like(x)
        added_up[(1,)](x, sums, out, N, BLOCK=128)
        return out

    evidence_of(function)
    evidence, fresh = evidence_of(function)
    first, second = (call["x"] for call in fresh)
    assert torch.allclose(evidence.outputs[1], 2 * (first + second)) and torch.equal(evidence.outputs[0], 2 * first)


def test_it_counts_as_what_the_call_uses():
    before, _ = evidence_of(through_a_workspace)
    after, _ = evidence_of(through_a_workspace)
    alone, _ = evidence_of(through_a_workspace, calls=1)
    assert before.buffers == after.buffers == alone.buffers == before.largest_buffer == 16


def test_a_kept_result_is_no_result():
    KEPT["answers"] = torch.ones(N)
    evidence, _ = evidence_of(lambda x: KEPT["answers"])
    assert mentions(evidence.refused, "replay.value.not_own")
