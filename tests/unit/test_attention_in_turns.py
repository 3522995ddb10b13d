"""benchmarks/attention_in_turns.py, as far as it goes without a GPU: it compiles for Hopper, and its walks meet every query once."""

from __future__ import annotations

import pytest
import torch
from hopper import SHARED_BYTES, compiled_for_hopper
from scripts import imported


@pytest.fixture(scope="module")
def in_turns():
    with imported("attention_in_turns") as [module]:
        yield module


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("D, groups", [(64, 3), (128, 2)])
def test_the_kernel_fits_on_a_hopper_gpu(in_turns, D, groups, causal):
    x = torch.empty(1, 2, 512, D, dtype=torch.bfloat16)
    counter = torch.zeros(1, dtype=torch.int32)
    values = (*in_turns.descriptors(x, x, x, x), torch.empty(1, 2, 512), counter, D**-0.5, 512, 2, 2)
    kernel = compiled_for_hopper(in_turns.in_turns, *values, C=in_turns.consumers(D), CAUSAL=causal)
    ptx = kernel.asm["ptx"]
    assert kernel.metadata.shared <= SHARED_BYTES
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx
    for group in range(groups):  # each waits for its turn, and another one gives it
        assert f"bar.sync {8 + group}, 256" in ptx and f"bar.arrive {8 + group}, 256" in ptx
    assert f"bar.sync {8 + groups}," not in ptx


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("N, heads, together", [(128, 6, 2), (384, 4, 4), (1024, 3, 1)])
def test_walks_meet_every_query_once_and_all_keys_that_it_sees(in_turns, monkeypatch, N, heads, together, C, causal):
    for name in ("GROUP_M", "BLOCK_N"):  # as plain Python reads them
        monkeypatch.setattr(in_turns, name, getattr(in_turns, name).value)
    walks = [in_turns.walk.fn(at, N, together, C, causal) for at in range(in_turns.walks.fn(N, heads, C))]
    met = []
    for head_row, first, tiles in walks:
        rows = [row for row in range(first, first + C * 64) if 0 <= row < N]
        met += [head_row + row for row in rows]
        assert tiles * 128 >= max(rows) + 1 if causal else tiles * 128 == N
        assert not causal or tiles * 128 <= N
    assert sorted(met) == list(range(heads * N))


def test_heads_that_go_together_divide_all_heads_and_fit_in_l2(in_turns):
    mib = 1 << 20
    assert in_turns.heads_together(512, mib // 4) == 64
    assert in_turns.heads_together(48, mib) == 16
    assert in_turns.heads_together(7, 8 * mib) == 1
    assert in_turns.heads_together(2, 64 * mib) == 1
