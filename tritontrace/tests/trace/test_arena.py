"""Where the tensors of a launch lie, and to which of them an address belongs. All by hand."""

from itertools import pairwise

import pytest
import torch

from tritontrace.tracing.memory import ALIGNMENT, GUARD, Arena, Region

SIZES = 3 << 20, 3, 0, 1000  # bytes


@pytest.fixture
def arena():
    regions = [Region(torch.empty(size, dtype=torch.uint8).untyped_storage(), 1, True, 0) for size in SIZES]
    for name, region in zip("abcd", regions, strict=True):
        region.names[name] = None
    return Arena(regions)


def test_tensors_lie_far_apart_on_boundaries(arena):
    starts = arena.starts.tolist()
    assert starts == [region.start for region in arena.regions] == sorted(starts)
    assert arena.ends.tolist() == [start + size for start, size in zip(starts, SIZES, strict=True)]
    assert all(start % ALIGNMENT == 0 for start in starts)
    assert [later - earlier for earlier, later in pairwise(starts)] == [
        (3 << 20) + GUARD, GUARD + ALIGNMENT, GUARD,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "region, low, high, expected",
    [
        ("a", 0, 1, "a"),
        ("a", 0, 3 << 20, "a"),
        ("a", -1, 1, None),
        ("a", (3 << 20) - 4, (3 << 20) + 1, None),
        ("b", 0, 3, "b"),
        ("b", 1, 4, None),
        ("c", 0, 1, None),
        ("d", 999, 1000, "d"),
        ("d", 1000, 1001, None),
    ],
)
def test_which_tensor_holds_all_bytes(arena, region, low, high, expected):
    start = arena.regions["abcd".index(region)].start
    there = arena.find(start + low, start + high)
    assert (there and there.name) == expected


def test_the_nearest_tensor(arena):
    a, b, c, d = (region.start for region in arena.regions)
    end = a + (3 << 20) - 1  # the last byte of `a`; `b` begins GUARD + 1 bytes later
    half = GUARD // 2
    assert b - end == GUARD + 1
    between = (c - (b + 2)) // 2  # as far from the last byte of `b` as from `c`: the first of two that are as near
    assert b + 2 + 2 * between == c
    nearest = [
        (a - 10**9, "a"), (a, "a"), (a + 5, "a"), (end, "a"),
        (end + half, "a"), (end + half + 1, "b"), (b - 1, "b"), (b, "b"), (b + 2 + between, "b"),
        (b + 3 + between, "c"), (d + 500, "d"), (d + 10**12, "d"),
    ]  # fmt: skip
    assert [(address, arena.nearest(address, arena.regions).name) for address, _ in nearest] == nearest
