"""research/attention_decode_registers.py, compiled: its keys go from memory to the tensor cores, past shared memory."""

import re

import pytest
import torch
from hopper import compiled_for_hopper

from research import attention_decode_registers


@pytest.mark.parametrize("page", [0, 16])
def test_a_warp_waits_for_no_other_one_in_the_loop(page):
    q, k, table = torch.empty(1, 32, 128).bfloat16(), torch.empty(4, 8, 512, 128).bfloat16(), torch.empty(1, 4).int()
    room = attention_decode_registers.room(32, 16, 128, 8, k.device)
    values = (q, k, k, table, 512, q, *room, k.stride(), 4, 0.1)
    constants = {"GROUP": 4, "D": 128, "PAGE": page, "ALIKE": True, "SPLITS": 16, "POLICY": "evict_first"}
    ptx = compiled_for_hopper(attention_decode_registers.decode, *values, **constants).asm["ptx"]
    products = [at.start() for at in re.finditer("mma.sync", ptx)]
    loop = ptx[products[0] : products[-1]]
    assert len(products) == 16 + 8  # of 16 keys: two halves of 128 numbers of k, 128 of v
    assert "evict_first" in loop and "bar.sync" not in loop and ".shared" not in loop
    assert ptx.count("bar.sync") < 8
