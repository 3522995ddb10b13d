"""Masked positions that were loaded without `other` explain a result only where a kernel stores what became of them."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib.evidence import Evidence
from course_lib.execution import record_all, replay_all
from tritontrace.replay.wire import from_tree


@triton.jit
def copy(x_ptr, out_ptr, loaded, stored, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, mask=i < loaded), mask=i < stored)


@pytest.mark.parametrize("loaded, stored, reach", [(40, 64, True), (40, 40, False), (64, 64, False)])
def test_masked_positions_are_told_where_they_reach_memory(loaded, stored, reach):
    def copied(x):
        out = torch.empty_like(x)
        copy[(1,)](x, out, loaded, stored, BLOCK=64)
        return out

    calls = [{"x": torch.randn(64)}]
    (tree,) = replay_all(record_all(copied, [calls]), [calls], ["c"], kernel=True, compile_seconds=0)
    assert bool(from_tree(Evidence, tree).poisoned) == reach
