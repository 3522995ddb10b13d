"""Sectors between L1 and L2, and the steps from which they can be recounted: all by hand."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tritontrace.tracing import trace


@triton.jit
def copy_block(x_ptr, o_ptr, start, to, STRIDE: tl.constexpr, SPREAD: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + to + i * SPREAD, tl.load(x_ptr + start + i * STRIDE))


def copied(dtype, start=0, to=0, stride=1, spread=1, block=1024):
    x, o = torch.ones(block * max(1, stride) + start, dtype=dtype), torch.zeros(block * spread + to, dtype=dtype)
    with trace() as t:
        copy_block[(1,)](x, o, start, to, STRIDE=stride, SPREAD=spread, BLOCK=block)
    return t


# dtype, elements before the first, stride; sectors as 32 lanes ask for them, sectors that come from L2
LOADS = [
    (torch.float32, 0, 1, 128, 128),
    (torch.float32, 1, 1, 160, 129),  # 32 groups touch 5 each; they share the borders
    (torch.float32, 7, 1, 160, 129),
    (torch.float32, 8, 1, 128, 128),  # 32 bytes: a sector's start
    (torch.float16, 0, 1, 64, 64),
    (torch.float16, 1, 1, 96, 65),  # 64 bytes a group: 3 sectors instead of 2
    (torch.float16, 8, 1, 96, 65),
    (torch.float16, 16, 1, 64, 64),
    (torch.float64, 1, 1, 288, 257),
    (torch.int8, 1, 1, 64, 33),
    (torch.float32, 0, 0, 32, 1),  # all lanes read one element
    (torch.float32, 0, 2, 256, 256),
    (torch.float32, 1, 2, 256 + 0, 256),  # bytes 4 to 8188: the same sectors
    (torch.float32, 7, 2, 288, 257),
    (torch.float32, 0, 8, 1024, 1024),
    (torch.float32, 3, 32, 1024, 1024),
    (torch.float16, 0, 4, 256, 256),
    (torch.float16, 15, 16, 1024, 1024),
]


@pytest.mark.parametrize("dtype, start, stride, asked, fetched", LOADS)
def test_loads(dtype, start, stride, asked, fetched):
    loads = copied(dtype, start=start, stride=stride).loads
    assert (loads.sectors, loads.l2_sectors) == (asked, fetched)


# a store writes through: what two groups share is sent twice
STORES = [
    (torch.float32, 0, 1, 128),
    (torch.float32, 1, 1, 160),
    (torch.float16, 8, 1, 96),
    (torch.float32, 0, 2, 256),
    (torch.float32, 0, 8, 1024),
]


@pytest.mark.parametrize("dtype, to, spread, sent", STORES)
def test_stores(dtype, to, spread, sent):
    stores = copied(dtype, to=to, spread=spread).stores
    assert stores.sectors == stores.l2_sectors == sent


@triton.jit
def tile(x_ptr, o_ptr, row_stride, start, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m, n = tl.arange(0, BLOCK_M)[:, None], tl.arange(0, BLOCK_N)[None, :]
    tl.store(o_ptr + m * BLOCK_N + n, tl.load(x_ptr + start + m * row_stride + n))


# rows of a tile, floats in each, row stride, first element: sectors from L2
TILES = [
    (16, 8, 8, 0, 16),  # dense
    (16, 8, 100, 0, 16 * 1 + 8),  # every other row starts 16 bytes into a sector and needs two
    (16, 32, 1024, 0, 64),
    (16, 32, 1025, 0, 64 + 14),  # of rows starting at byte 4 m mod 32, only those with 0 (m = 0, 8) need 4
    (16, 4, 1024, 0, 16),  # half of each sector is wasted
    (16, 4, 4, 0, 8),  # and here two rows share one
    (16, 4, 4, 2, 9),
    (32, 1, 1, 5, 5),  # 32 floats from byte 20 to 147
]


@pytest.mark.parametrize("rows, width, stride, start, fetched", TILES)
def test_tiles(rows, width, stride, start, fetched):
    x = torch.ones(rows * stride + width + start)
    with trace() as t:
        tile[(1,)](x, torch.empty(rows, width), stride, start, BLOCK_M=rows, BLOCK_N=width)
    assert t.loads.l2_sectors == fetched


def test_masked_lanes_fetch_nothing():
    @triton.jit
    def first_of_each_line(x_ptr, o_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i % 32 == 0, other=0.0))

    with trace() as t:
        first_of_each_line[(1,)](torch.ones(1024), torch.empty(1024), BLOCK=1024)
    assert (t.loads.elements, t.loads.masked, t.loads.l2_sectors, t.loads.sectors) == (32, 992, 32, 32)


def test_each_program_fetches_for_itself():
    @triton.jit
    def same_block(x_ptr, o_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(o_ptr + tl.program_id(0) * BLOCK + i, tl.load(x_ptr + i))

    with trace() as t:
        same_block[(5,)](torch.ones(64), torch.empty(5 * 64), BLOCK=64)
    assert t.loads.l2_sectors == 5 * 8


def test_steps_are_in_order_and_place_each_access():
    @triton.jit
    def twice(x_ptr, y_ptr, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.zeros((BLOCK,), tl.float32)
        for _ in range(2):
            x = tl.load(x_ptr + i)
        tl.store(y_ptr + i, x)

    with trace() as t:
        twice[(3,)](torch.ones(48), torch.empty(48), BLOCK=16)
    (steps,) = t.steps
    assert [(s.program, s.op, s.line) for s in steps[:3]] == [(0, "load", 5), (0, "load", 5), (0, "store", 6)]
    assert [s.program for s in steps] == [0] * 3 + [1] * 3 + [2] * 3
    assert [s.address - s.region.base for s in steps] == [0, 0, 0, 64, 64, 64, 128, 128, 128]
    assert {s.region.name: s.region.base % 512 for s in steps} == {"x_ptr": 0, "y_ptr": 0}
    x, y = steps[0].region, steps[2].region
    assert x.base + x.nbytes <= y.base or y.base + y.nbytes <= x.base
    assert steps[3].pattern.units(steps[3].address, 32).tolist() == [x.base // 32 + 2, x.base // 32 + 3]
    assert steps[3].pattern.units(steps[3].address, 128).tolist() == [x.base // 128]


def test_a_tensor_keeps_its_base_over_launches():
    x = torch.ones(1024)
    with trace() as t:
        for start in (0, 256):
            copy_block[(1,)](x, torch.empty(256), start, 0, STRIDE=1, SPREAD=1, BLOCK=256)
    first, second = t.steps[0][0], t.steps[1][0]
    assert second.address - first.address == 1024


@pytest.mark.parametrize("size", [4, 32, 64, 128])
@pytest.mark.parametrize("start", [0, 4, 60, 132])
def test_units_equal_a_count_by_brute_force(size, start):
    with trace() as t:
        tile[(1,)](torch.ones(4000), torch.empty(8, 16), 77, 0, BLOCK_M=8, BLOCK_N=16)
    pattern = t.steps[0][0].pattern
    addresses = start + 4 * (77 * np.arange(8)[:, None] + np.arange(16)[None, :])
    assert pattern.units(start, size).tolist() == sorted(set((addresses // size).ravel().tolist()))
