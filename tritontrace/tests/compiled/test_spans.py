"""The elements that one instruction of a warp covers: Triton's choice, read in TTGIR, against layouts worked out by hand."""

import pytest
import torch
import triton
import triton.language as tl

from tritontrace import compile_for
from tritontrace.compiled import assembly

X = torch.zeros(1 << 16)


@triton.jit
def vector(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def matrix(x_ptr, y_ptr, s0, s1, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows, cols = tl.arange(0, ROWS), tl.arange(0, COLS)
    at = rows[:, None] * s0 + cols[None, :] * s1
    x = tl.load(x_ptr + at)
    bias = tl.load(y_ptr + cols)
    tl.store(y_ptr + at, x + bias[None, :])


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    m, n, total = tl.arange(0, M), tl.arange(0, N), tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        ks = k + tl.arange(0, STEP)
        a = tl.load(a_ptr + m[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


def spans(kernel, *args, **more):
    """Number of a line -> its span, and the instructions that move it."""
    found = compile_for(kernel, *args, **more)
    assert found.accepted and found.spans.keys() == found.passes.keys()
    return {int(place.split()[1].rstrip(":")): (each, found.passes[place]) for place, each in found.spans.items()}


@pytest.mark.parametrize(
    "dtype, n, block, elements, passes",
    [
        (torch.float32, 1024, 1024, 128, 1),  # 16 bytes a lane
        (torch.float16, 1024, 1024, 256, 1),
        (torch.float32, 1024, 256, 64, 1),  # no more than 2 for each of 128 threads
        (torch.float32, 1023, 1024, 128, 4),  # the mask may cut anywhere: each lane moves its 4 one by one
        (torch.float64, 1024, 1024, 64, 1),
        (torch.float32, 1024, 16, 16, 1),  # half a warp has nothing to do
    ],
)
def test_of_a_vector_a_warp_covers_what_its_lanes_move(dtype, n, block, elements, passes):
    x = X.to(dtype)
    assert spans(vector, x, x, n, BLOCK=block) == {3: ([elements], passes)}


@pytest.mark.parametrize(
    "strides, tile, covered",
    [
        ((1024, 1), (32, 32), [4, 32]),  # rows: 8 lanes of 4 floats each
        ((1, 1024), (32, 32), [32, 4]),  # columns: lanes go down them
        ((1024, 1), (8, 128), [1, 128]),
        ((1024, 3), (32, 32), [1, 32]),  # nothing is dense: lanes go along the last axis all the same
        ((3, 1024), (32, 32), [1, 32]),  # and here too, though 3 is the smaller step
    ],
)
def test_of_a_tile_it_is_where_the_compiler_lays_the_lanes(strides, tile, covered):
    rows, cols = tile
    assert spans(matrix, X, X, *strides, ROWS=rows, COLS=cols)[4][0] == covered


def test_a_vector_beside_a_tile_lies_as_the_tile_does():
    """A slice of the tile's layout: the lanes along the other axis load the same again."""
    assert spans(matrix, X, X, 1, 1024, ROWS=32, COLS=32)[5][0] == [4]


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_copies_into_shared_memory_have_spans(gpu):
    half = X.half()
    found = spans(product, half, half, X, 256, M=64, N=64, STEP=32, gpu=gpu)
    assert found == {5: ([8, 32], 1), 6: ([4, 64], 1), 8: ([2, 64], 1)}


def test_what_is_of_another_kind_has_none():
    text = """#linear = #ttg.linear<{register = [], lane = [[1]], warp = [], block = []}>
    %x = tt.load %p : tensor<32x!tt.ptr<f32>, #linear> loc(#loc1)
#loc1 = loc("a.py":3:4)
"""
    assert list(assembly.spans(text)) == [] and list(assembly.spans("")) == []


def test_the_table_says_it():
    found = compile_for(matrix, X, X, 1024, 1, ROWS=32, COLS=32)
    assert "4 x 32 elements in one" in str(found) and "4 x 32 elements in one" in found._repr_html_()
    assert "128 elements in 4" in str(compile_for(vector, X, X, 1023, BLOCK=1024))
