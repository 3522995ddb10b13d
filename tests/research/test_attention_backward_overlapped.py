"""research/attention_backward_overlapped.py, as far as it goes without a GPU: it compiles for Hopper, and nothing is spilled."""

from __future__ import annotations

import pytest
import torch
from hopper import SHARED_BYTES, compiled_for_hopper
from scripts import imported


@pytest.fixture(scope="module")
def script():
    with imported("attention_backward_overlapped") as [module]:
        yield module


@pytest.mark.parametrize(
    "D, causal, deterministic", [(64, False, True), (64, True, False), (128, False, False), (128, True, True)]
)
def test_the_kernel_fits_on_a_hopper_gpu(script, D, causal, deterministic):
    x, m = torch.empty(1, 2, 512, D, dtype=torch.bfloat16), script.block_m(D)
    stats, dq_sum, locks = (
        torch.empty(2 * 1024 // m, m),
        torch.empty(1024, D),
        torch.empty(1024 // m, dtype=torch.int32),
    )
    values = (*script.descriptors(x, x, x, x, stats, dq_sum, x, x), locks, D**-0.5, 512, 4)
    kernel = compiled_for_hopper(script.backward, *values, CAUSAL=causal, DETERMINISTIC=deterministic)
    assert kernel.metadata.shared <= SHARED_BYTES
    assert "wgmma.mma_async" in kernel.asm["ptx"] and "cp.reduce.async.bulk.tensor" in kernel.asm["ptx"]


@pytest.mark.parametrize(
    "keys, sms, found", [(128, 132, 128), (256, 132, 128), (1, 132, 1), (96, 64, 48), (257, 132, 1)]
)
def test_only_programs_that_run_together_wait_for_one_another(script, keys, sms, found):
    assert script.at_once(keys, sms) == found
