"""research/attention_overlapped.py, as far as it goes without a GPU: it compiles for Hopper, within its shared memory."""

from __future__ import annotations

import pytest
import torch
from hopper import SHARED_BYTES, compiled_for_hopper

from research import attention_overlapped
from tritontrace.compiled import ptx_for


@pytest.mark.parametrize("D, causal", [(64, False), (128, True)])
def test_the_kernel_fits_on_a_hopper_gpu(D, causal):
    x = torch.empty(1, 2, 512, D, dtype=torch.bfloat16)
    values = (*attention_overlapped.descriptors(x, x, x, x), torch.empty(1, 2, 512), D**-0.5, 512, 2)
    kernel = compiled_for_hopper(attention_overlapped.overlapped, *values, CAUSAL=causal)
    assert kernel.metadata.shared <= SHARED_BYTES
    assert "wgmma.mma_async" in kernel.asm["ptx"] and "cp.async.bulk.tensor" in kernel.asm["ptx"]


def test_compile_for_makes_the_same_of_it():
    """compile_for takes the text that the front end wrote, which is also what a simulation evaluates."""
    x = torch.empty(1, 2, 512, 64, dtype=torch.bfloat16)
    values = (*attention_overlapped.descriptors(x, x, x, x), torch.empty(1, 2, 512), 0.125, 512, 2)
    ours = ptx_for(attention_overlapped.overlapped, *values, CAUSAL=True, num_warps=4)
    gluons = compiled_for_hopper(attention_overlapped.overlapped, *values, CAUSAL=True).asm["ptx"]
    for instruction in (
        "wgmma.mma_async",
        "wgmma.wait_group",
        "cp.async.bulk.tensor",
        "mbarrier.init",
        "fence.proxy.async",
    ):
        assert ours.count(instruction) == gluons.count(instruction) > 0
