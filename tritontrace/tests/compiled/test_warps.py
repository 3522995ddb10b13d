"""Requests, sectors and bank conflicts of warps as the compiler lays them out, against counts by hand."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, refusing

from tritontrace import warps_for
from tritontrace.compiled import warps_all
from tritontrace.compiled.warps import from_data, passes_of, programs_of
from tritontrace.tracing import KernelError, trace
from tritontrace.tracing.pattern import LAST_OF_EQUALS

X = torch.zeros(1 << 18)
ARCHITECTURES = ["sm_80", "sm_90"]


@triton.jit
def copy(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(o_ptr + i, x, mask=i < n)


@triton.jit
def transpose(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    cols = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    x = tl.load(x_ptr + rows * N + cols)
    tl.store(o_ptr + cols * M + rows, x)


@triton.jit(do_not_specialize=["s0", "s1", "t0", "t1"])
def transpose_unseen(x_ptr, o_ptr, s0, s1, t0, t1, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    cols = (tl.program_id(1) * BLOCK + tl.arange(0, BLOCK))[None, :]
    x = tl.load(x_ptr + rows * s0 + cols * s1)
    tl.store(o_ptr + rows * t0 + cols * t1, x)


@triton.jit
def gather(x_ptr, index_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.load(index_ptr + i)
    x = tl.load(x_ptr + at)
    tl.atomic_add(o_ptr + i, x)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, STEP: tl.constexpr):
    m, n, total = tl.arange(0, M), tl.arange(0, N), tl.zeros((M, N), tl.float32)
    for k in range(0, K, STEP):
        ks = k + tl.arange(0, STEP)
        a = tl.load(a_ptr + m[:, None] * K + ks[None, :])
        b = tl.load(b_ptr + ks[:, None] * N + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


@triton.jit
def branches(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) < n:
        x = tl.load(x_ptr + i)
        tl.store(o_ptr + i, x)


# of axes that the compiler does not see to be contiguous, it lays lanes along the last, or the first before Triton 3.7
SEEN, UNSEEN = ((512, 1), (1, 512)) if LAST_OF_EQUALS else ((1, 512), (512, 1))


def counts(kernel, *args, **more):
    """(line, op) -> bytes per lane, requests, sectors, and those needed."""
    found = warps_for(kernel, *args, **more)
    assert not found.complaint
    return {
        (int(each.line.split()[1].rstrip(":")), each.op): (each.lane_bytes, each.requests, each.sectors, each.needed)
        for each in found.requests
    }


def slow(found):
    from tritontrace.compiled.show import slow_lines

    return [(each.kind, int(each.line.split()[1].rstrip(":")), each.op, each.times) for each in slow_lines(found)]


@pytest.mark.parametrize("gpu", ARCHITECTURES)
@pytest.mark.parametrize(
    "dtype, block, lane_bytes, requests",
    [
        (torch.float32, 1024, 16, 8),  # 4 KiB, 512 bytes a request: 4 warps have 2 each
        (torch.float16, 1024, 16, 4),
        (torch.float64, 1024, 16, 16),
        (torch.float32, 256, 8, 4),  # no more than 2 elements for each of 128 threads
    ],
)
def test_a_dense_vector(gpu, dtype, block, lane_bytes, requests):
    x = X.to(dtype)
    sectors = block * x.element_size() // 32
    each = lane_bytes, requests, sectors, sectors
    assert counts(copy, x, x, 1024, BLOCK=block, gpu=gpu) == {(3, "load"): each, (4, "store"): each}


def test_programs_are_counted_together_and_few_of_them_by_default():
    of_one = counts(copy, X, X, 1 << 16, BLOCK=1024)[3, "load"]
    for grid, programs in (((3,), 3), ((64,), 4)):
        found = warps_for(copy, X, X, 1 << 16, BLOCK=1024, grid=grid)
        assert found.programs == programs and found.requests[0].requests == programs * of_one[1]
    assert warps_for(copy, X, X, 1 << 16, BLOCK=1024, grid=(40,), programs=None).requests[0].requests == 40 * of_one[1]
    assert programs_of((2, 3, 2), None)[[0, 1, 2, 11]].tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 2, 1]]
    assert programs_of((2, 3, 2), 3)[:, 2].tolist() == [0, 0, 1]


def test_masked_requests_are_none():
    """Of the second program 76 of 1,024 elements are there: 608 bytes of the first warp's first and a little of its second."""
    found = warps_for(copy, X, X, 1104, BLOCK=1024, grid=(2,))  # 1,104 is a multiple of 16
    assert found.requests[0].requests == 8 + 1 and found.requests[0].sectors == 128 + 80 * 4 // 32


def test_a_size_that_is_no_multiple_of_16_makes_lanes_narrow():
    """Each of 4 instructions of a lane moves every 4th element: 15 or 16 sectors, where 4 hold its bytes."""
    found = warps_for(copy, X, X, 1000, BLOCK=1024)
    load, _ = found.requests
    assert (load.lane_bytes, load.beside_bytes, load.requests, load.sectors, load.needed) == (4, 16, 32, 500, 128)
    assert slow(found) == [("narrow", 3, "load", 4.0), ("narrow", 4, "store", 4.0)]
    assert load.joinable and found.unaligned == ["n"]


@pytest.mark.parametrize("x, n, unaligned", [(X, 1023, ["n"]), (X[1:], 1024, ["x_ptr"])])
def test_what_lies_side_by_side_but_is_cut_or_not_aligned_cannot_be_joined(x, n, unaligned):
    found = warps_for(copy, x, X, n, BLOCK=1024)
    load = found.requests[0]
    assert load.narrow and not load.joinable and found.unaligned == unaligned
    assert slow(found)[0] == ("narrow", 3, "load", 4.0)


@triton.jit
def rows(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + i, mask=i < N)
    tl.store(o_ptr + tl.program_id(0) * N + i, x, mask=i < N)


@pytest.mark.parametrize("n, lane_bytes, requests", [(1008, 16, 4), (1000, 2, 32), (1023, 2, 32)])
def test_lanes_are_narrow_where_rows_are_no_multiple_of_16(n, lane_bytes, requests):
    """1,024 halves for 4 warps: 4 requests of 512 bytes, or 32 of 64, of which none is all masked."""
    x = X.to(torch.float16)
    found = warps_for(rows, x, x, n, BLOCK=1024)
    assert [(each.lane_bytes, each.beside_bytes, each.requests) for each in found.requests] == [
        (lane_bytes, lane_bytes, requests)
    ] * 2
    narrow = n % 16 > 0
    assert slow(found) == [("narrow", 3, "load", 8.0), ("narrow", 4, "store", 8.0)] * narrow
    assert [each.aligned_bytes for each in found.requests] == [16 * narrow] * 2


def test_lanes_that_would_be_no_wider_are_not_told():
    """Two elements for each of 128 threads, whatever the size; and every second element."""
    assert not [kind for kind, *_ in slow(warps_for(rows, X, X, 1001, BLOCK=128)) if kind == "narrow"]
    assert not warps_for(every_second, X, X, 1001, BLOCK=1024).requests[0].narrow


@triton.jit
def every_second(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * N + 2 * i)
    tl.store(o_ptr + i, x)


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_a_transpose_that_the_compiler_sees_through_is_quiet(gpu):
    """64 x 64 floats: 16 KiB, in requests of 512 bytes; each word crosses shared memory in a pass of 32."""
    found = warps_for(transpose, X, X, 512, 512, BLOCK=64, gpu=gpu)
    assert [(each.lane_bytes, each.requests, each.sectors) for each in found.requests] == [(16, 32, 512)] * 2
    assert [(each.op, each.passes, each.needed) for each in found.passes] == [("store", 128, 128), ("load", 128, 128)]
    assert slow(found) == []


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_a_transpose_whose_strides_the_compiler_does_not_see_is_named(gpu):
    """Each lane stores to a row of its own, 2,048 bytes apart. The block as a whole fills its sectors: a trace says 100%."""
    found = warps_for(transpose_unseen, X, X, *SEEN, *UNSEEN, BLOCK=64, gpu=gpu)
    load, store = found.requests
    assert (load.requests, load.sectors, load.needed, load.apart) == (128, 512, 512, 4)
    assert (store.requests, store.sectors, store.needed, store.apart) == (128, 4096, 512, 2048)
    assert slow(found) == [("strided", 5, "store", 8.0)]
    with trace() as t:
        transpose_unseen[(1,)](X, torch.empty(1 << 18), *SEEN, *UNSEEN, BLOCK=64)
    assert t.stores.efficiency == 1.0


def test_columns_are_strided_and_a_vector_of_them_does_not_hide_it():
    found = warps_for(transpose_unseen, X, X, *SEEN, *SEEN, BLOCK=64)
    assert slow(found) == []
    assert [kind for kind, *_ in slow(warps_for(transpose_unseen, X, X, *UNSEEN, *UNSEEN, BLOCK=64))] == ["strided"] * 2


@triton.jit
def computed(x_ptr, y_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = (tl.load(y_ptr + i) * 7).to(tl.int32)
    tl.store(o_ptr + i, tl.load(x_ptr + at))


@pytest.mark.parametrize("step, sectors", [(0, 1), (8, 32)])
def test_an_index_is_what_stands_in_its_tensor(step, sectors):
    """32 lanes in one sector, or in one each; atomics are counted as well."""
    found = warps_for(gather, X, step * torch.arange(1024, dtype=torch.int32), X, BLOCK=1024)
    index, data, update = found.requests
    assert (index.lane_bytes, index.requests, index.sectors) == (16, 8, 128)
    assert (data.lane_bytes, data.requests, data.by_data, data.sectors) == (4, 32, False, 32 * sectors)
    assert (update.op, update.requests, update.by_data) == ("atomic", 32 // (update.lane_bytes // 4), False)


def test_addresses_that_depend_on_floats_are_said_to_be_unknown():
    data = next(each for each in warps_for(computed, X, X, X, BLOCK=1024).requests if each.by_data)
    assert (data.op, data.requests, data.sectors) == ("load", 32, 0)
    assert "to addresses that are not known" in str(warps_for(computed, X, X, X, BLOCK=1024))


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_loops_are_followed(gpu):
    """64 x 32 of fp16 are 4 KiB, 8 requests of 16 sectors, in each of 8 turns; what is copied ahead is among them."""
    half = X.half()
    found = counts(product, half, half, X, 256, M=64, N=64, STEP=32, gpu=gpu)
    assert found[5, "load"] == found[6, "load"] == (16, 64, 1024, 1024)
    assert counts(product, half, half, X, 512, M=64, N=64, STEP=32, gpu=gpu)[5, "load"] == (16, 128, 2048, 2048)


def test_float32_that_wgmma_reads_turned_is_stored_with_conflicts():
    """An sm_90 multiplies TF32 from tiles that lie K after K. B lies the other way: 4 bytes a lane, and several to one bank."""
    found = warps_for(product, X, X, X, 256, M=64, N=64, STEP=32, gpu="sm_90")
    (b,) = [each for each in found.passes if each.line.startswith("line 6") and each.op == "store"]
    assert b.passes == 8 * b.needed and ("conflicts", 6, "store", 8.0) in slow(found)
    assert "conflicts" not in {
        kind for kind, *_ in slow(warps_for(product, X, X, X, 256, M=64, N=64, STEP=32, gpu="sm_80"))
    }


@triton.jit
def row_of_each_lane(x_ptr, o_ptr, K, BLOCK: tl.constexpr):
    i, total = tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K):
        total += tl.load(x_ptr + i * K + k)
    tl.store(o_ptr + i, total)


def test_turns_of_a_loop_are_not_taken_for_neighbours():
    found = warps_for(row_of_each_lane, X, X, 64, BLOCK=128)
    assert (found.requests[0].beside_bytes, found.requests[0].apart, found.requests[0].requests) == (4, 256, 4 * 64)
    assert slow(found) == [("strided", 4, "load", 8.0)]


def test_a_grid_without_programs_moves_nothing():
    found = warps_for(copy, X, X, 1024, BLOCK=1024, grid=(0,))
    assert (found.programs, found.requests, found.whole) == (0, [], True)


def test_programs_that_take_no_branch_move_nothing():
    assert warps_for(branches, X, X, 2, BLOCK=1024, grid=(4,), programs=None).requests[0].requests == 2 * 8


def test_passes_by_hand():
    lanes, every = np.arange(32)[None], np.ones((1, 32), bool)
    for apart, size, passes in [
        (4, 4, (1, 1)),  # a word of each bank
        (8, 4, (2, 1)),  # every other bank twice
        (128, 4, (32, 1)),  # one bank
        (0, 4, (1, 1)),  # one word
        (1, 1, (1, 1)),  # 4 lanes share a word
        (8, 8, (2, 2)),  # half a warp fills the banks
        (16, 16, (4, 4)),
        (128, 16, (32, 4)),  # 8 lanes at a time want the same four banks
        (144, 16, (4, 4)),  # rows padded by 16 bytes
    ]:
        assert passes_of(lanes * apart, every, size) == passes, (apart, size)
    assert passes_of(lanes * 128, lanes < 5, 4) == (5, 1)  # those that are masked want nothing


def test_what_is_refused_is_a_complaint_and_bad_input_one_sentence():
    found = warps_for(copy, X, X, 1000, BLOCK=1000)
    assert (
        mentions(found.complaint, "compiler.problem.block_size")
        and found.programs == 0
        and found.complaint in str(found)
        and "BLOCK" in found._repr_html_()
    )
    with refusing("compiler.asked.gpu", gpu="'sm_1'"):
        warps_for(copy, X, X, 1000, BLOCK=1024, gpu="sm_1")
    with refusing("launch.grid.no_tuple", KernelError, grid="4"):
        warps_for(copy, X, X, 1000, BLOCK=1024, grid=4)
    with refusing("compiler.asked.no_kernel", TypeError, type="builtin_function_or_method"):
        warps_for(len, X)


def test_several_in_children_and_as_data():
    jobs = [(copy, (X, X, n), {"BLOCK": block}, "sm_80", (1,)) for n, block in ((1024, 1024), (1000, 1000))]
    dense, refused = warps_all(jobs, seconds=120)
    assert dense == from_data(asdict(warps_for(copy, X, X, 1024, BLOCK=1024, gpu="sm_80")))
    assert refused.complaint
    (late,) = warps_all(jobs[:1], seconds=0)
    assert late.complaint and not late.requests


def test_it_shows_itself():
    found = warps_for(copy, X, X, 1000, BLOCK=1024)
    for shown in (str(found), found._repr_html_()):
        assert "4 bytes per lane, 32 requests of 15.6 sectors, 4 needed" in shown
