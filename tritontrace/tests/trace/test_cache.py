"""The L2 model equals a plain LRU, counts made by hand, and the Triton tutorial's example."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from sentences import refusing

from tritontrace.tracing import trace
from tritontrace.tracing.cache import (
    MissCurve,
    Stream,
    grouped,
    hilbert,
    larger_before,
    matmul_tiles,
    row_major,
    stream,
)

MiB = 1 << 20
TILE = 128 * 64 * 2  # bytes of an fp16 tile of A or of B in a matmul with 128 x 128 x 64 tiles


def made(units, ops=None) -> Stream:
    """A stream of units of 1 byte; ops: one letter an access, l(oad), s(tore) or a(tomic)."""
    ops = np.array(list(ops or "l" * len(units)), dtype="<U1")
    return Stream(np.array(units, np.int64), 1, ops != "s", ops != "l")


# ------------------------------------------------------------------------------------------------- program orders


def tutorial_order(num_pid_m, num_pid_n, GROUP_SIZE_M):
    """The lines of Triton's tutorial 03, program by program."""
    for pid in range(num_pid_m * num_pid_n):
        num_pid_in_group = GROUP_SIZE_M * num_pid_n
        group_id = pid // num_pid_in_group
        first_pid_m = group_id * GROUP_SIZE_M
        group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
        yield first_pid_m + ((pid % num_pid_in_group) % group_size_m), (pid % num_pid_in_group) // group_size_m


@pytest.mark.parametrize("M, N, group", [(9, 9, 3), (10, 4, 3), (5, 7, 8), (4, 6, 4), (1, 5, 2), (6, 1, 4)])
def test_grouped_is_the_tutorials_order(M, N, group):
    assert [tuple(tile) for tile in grouped(M, N, group)] == list(tutorial_order(M, N, group))


def test_the_last_group_may_be_short():
    tiles = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
    assert grouped(3, 2, 2).tolist() == [list(tile) for tile in tiles]


def test_row_major():
    assert row_major(2, 3).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


def test_hilbert_by_hand():
    assert hilbert(2, 2).tolist() == [[0, 0], [0, 1], [1, 1], [1, 0]]
    assert hilbert(2, 4).tolist() == [[0, 0], [1, 0], [1, 1], [0, 1], [0, 2], [1, 2], [1, 3], [0, 3]]


@pytest.mark.parametrize("M, N", [(1, 1), (1, 7), (7, 1), (2, 5), (3, 3), (9, 9), (5, 12), (12, 5), (33, 4), (16, 64)])
def test_every_order_visits_each_tile_once(M, N):
    tiles = {(m, n) for m in range(M) for n in range(N)}
    for order in row_major(M, N), grouped(M, N, 4), hilbert(M, N):
        assert order.shape == (M * N, 2)
        assert {tuple(tile) for tile in order.tolist()} == tiles


@pytest.mark.parametrize("M, N", [(1, 1), (2, 2), (8, 8), (32, 32), (4, 16), (16, 4), (8, 24), (1, 5)])
def test_hilbert_walks_to_a_neighbour(M, N):
    assert (np.abs(np.diff(hilbert(M, N), axis=0)).sum(axis=1) == 1).all()


# ------------------------------------------------------------------------------------------------- the cache


def plain_lru(stream: Stream, capacity: int) -> tuple[int, int]:
    """Units fetched and units written, by a cache that keeps them in a list; the oracle."""
    cache: OrderedDict[int, bool] = OrderedDict()  # unit -> whether DRAM lacks what was stored there
    fetched = written = 0
    for unit, load, store in zip(stream.units.tolist(), stream.loads, stream.stores, strict=True):
        fetched += bool(load) and unit not in cache
        cache[unit] = cache.get(unit, False) or bool(store)
        cache.move_to_end(unit)
        if len(cache) > capacity:
            written += cache.popitem(last=False)[1]
    return fetched, written + sum(cache.values())


accesses = st.lists(st.tuples(st.integers(0, 12), st.sampled_from("lllsa")), max_size=120)


@given(accesses)
@settings(max_examples=150, deadline=None)
def test_the_curve_is_lru_at_every_size(accesses):
    stream = made([unit for unit, _ in accesses], "".join(op for _, op in accesses))
    curve = MissCurve(stream)
    capacities = np.arange(15)
    lru = np.array([plain_lru(stream, capacity) for capacity in capacities])
    assert curve.read_bytes(capacities).tolist() == lru[:, 0].tolist()
    assert curve.written_bytes(capacities).tolist() == lru[:, 1].tolist()


def test_the_curve_is_lru_on_a_long_stream():
    rng = np.random.default_rng(3)
    units = (rng.zipf(1.2, 6000) % 700).tolist()
    stream = made(units, "".join(rng.choice(list("lllsa"), 6000)))
    curve = MissCurve(stream)
    for capacity in (1, 2, 30, 64, 333, 699, 1000):
        assert (curve.read_bytes(capacity), curve.written_bytes(capacity)) == plain_lru(stream, capacity)


@given(st.permutations(range(11)), st.integers(0, 11))
def test_larger_before(permutation, n):
    values = [value for value in permutation if value < n]
    counts = [sum(other > value for other in values[:i]) for i, value in enumerate(values)]
    assert larger_before(np.array(values, np.int64)).tolist() == counts


def test_loads_by_hand():
    # others used since:  a -  b -  c -  a 2  b 2  b 0  d -  a 2
    curve = MissCurve(made([1, 2, 3, 1, 2, 2, 4, 1]))
    assert [curve.misses(size) for size in (0, 1, 2, 3, 4)] == [8, 7, 7, 4, 4]
    assert [curve.hit_rate(size) for size in (0, 1, 3)] == [0.0, 1 / 8, 4 / 8]
    assert curve.sizes.tolist() == [0, 1, 3]
    assert curve.dram_bytes(curve.sizes).tolist() == [8, 7, 4]
    assert curve.compulsory_bytes == 4


def test_stores_by_hand():
    # unit 1 is stored, dropped if fewer than 2 fit, loaded again, stored again; unit 2 is updated by an atomic
    curve = MissCurve(made([1, 2, 1, 1], "sals"))
    assert [curve.read_bytes(size) for size in (0, 1, 2)] == [2, 2, 1]
    assert [curve.written_bytes(size) for size in (0, 1, 2)] == [3, 3, 2]
    assert curve.dram_bytes(1) == 5
    assert curve.compulsory_bytes == 3  # unit 1 came from nowhere: its store was first


def test_a_line_is_written_once_for_each_stay():
    stay = MissCurve(made([1, 1, 1, 2, 1], "sslls"))
    assert [stay.written_bytes(size) for size in (0, 1, 2)] == [3, 2, 1]


def test_nothing_and_one_access():
    nothing, one = MissCurve(made([])), MissCurve(made([7]))
    assert (nothing.dram_bytes(9), nothing.compulsory_bytes, nothing.hit_rate(9)) == (0, 0, 1.0)
    assert nothing.sizes.tolist() == [0]
    assert (one.dram_bytes(0), one.dram_bytes(9), one.compulsory_bytes) == (1, 1, 1)


# ------------------------------------------------------------------------------------------------- orders of a matmul


@pytest.mark.parametrize("order, tiles", [(row_major(9, 9), 90), (grouped(9, 9, 3), 54)])
def test_the_tutorials_90_tiles_against_54(order, tiles):
    """9 x 9 x 9 tiles, the first 9 of C: one row needs 9 + 81 tiles, a square of 3 x 3 needs 27 + 27."""
    first = matmul_tiles(order[:9], K=9, at_once=9)
    assert first.units.size == 2 * 81
    assert first.distinct == MissCurve(first).compulsory_bytes == tiles


def test_programs_in_lock_step():
    # C is 2 x 2, K = 2, two programs at once; A's tiles are 0 .. 3, row by row, and B's are 4 .. 7
    tiles = matmul_tiles(row_major(2, 2), K=2, at_once=2).units
    assert tiles.tolist() == [0, 0, 4, 5, 1, 1, 6, 7, 2, 2, 4, 5, 3, 3, 6, 7]


def panels(order, at_once):
    """Rows of A's tiles and columns of B's that each wave of programs needs, added up over the waves."""
    waves = [order[first : first + at_once] for first in range(0, len(order), at_once)]
    return sum(np.unique(wave[:, 0]).size + np.unique(wave[:, 1]).size for wave in waves)


def fetched(order, K, at_once, size):
    return MissCurve(matmul_tiles(order, K, at_once, TILE)).dram_bytes(size) / MiB


def test_grouping_helps_a_wide_product():
    """8192 x 8192 x 8192, H100 with 50 MiB; a panel, 128 tiles, is 2 MiB.

    Row order: 31 waves use all 64 columns, the last one 4; 64 rows, and 30 waves begin inside one. 2082 panels; a wave
    leaves behind next to nothing that the next could use. A grouped wave is 8 x 17 tiles: 25 panels, 50 MiB. A cache
    that holds them keeps the 8 rows for the next wave, a smaller one does not.
    """
    sizes = np.array([45, 50]) * MiB
    row, group = row_major(64, 64), grouped(64, 64, 8)
    assert panels(row, 132) == 31 * 64 + 4 + 64 + 30
    assert fetched(row, 128, 132, sizes) == pytest.approx([2 * 2082, 2 * 2082], rel=1e-3)
    smaller, larger = fetched(group, 128, 132, sizes)
    assert smaller == pytest.approx(2 * panels(group, 132), rel=0.01)
    assert smaller / larger == pytest.approx(25 / (25 - 4), rel=0.01)
    assert int(larger) == 1388


def test_hilbert_needs_no_group_size():
    """8192 x 8192: grouping by 8 suits 132 programs, and 16 programs are 8 x 2 tiles in it. Hilbert's are 4 x 4."""
    group, curve = grouped(64, 64, 8), hilbert(64, 64)
    assert (panels(group, 16), panels(curve, 16)) == (256 * (8 + 2), 256 * (4 + 4))
    assert panels(curve, 132) < 1.06 * panels(group, 132)


def test_grouping_hurts_where_all_of_b_fits():
    """8192 x 4096 x 4096, A100 with 40 MiB: a panel, 64 tiles, is 1 MiB. All 32 columns of B and the 5 rows of A of a
    wave fit: row order fetches A and B once. Grouped order comes back to a column only after 8 old and 8 new rows.
    """
    sizes = np.array([32, 40, 64]) * MiB
    row, group = (fetched(order, 64, 108, sizes) for order in (row_major(64, 32), grouped(64, 32, 8)))
    assert row == pytest.approx([panels(row_major(64, 32), 108), 64 + 32, 64 + 32], rel=1e-3)
    assert group == pytest.approx(
        [320, 290, 64 + 32], rel=1e-3
    )  # helps a smaller cache, does not matter to a larger one


def test_grouping_hurts_a_narrow_product():
    """8192 x 1024 x 8192, T4 with 4 MiB: in row order 40 programs are 5 x 8 tiles, 13 panels of 2 MiB.

    512 programs make 12.8 such waves, the last of 4 rows. Groups of 32 rows make most waves 32 x 2 tiles.
    """
    orders = row_major(64, 8), grouped(64, 8, 8), grouped(64, 8, 32)
    assert panels(orders[0], 40) == 12 * (5 + 8) + 4 + 8 == 168
    assert [panels(order, 40) for order in orders] == [168, 216, 449]
    assert [fetched(order, 128, 40, 4 * MiB) for order in orders] == [2 * 168, 2 * 216, 2 * 449]


# ------------------------------------------------------------------------------------------------- traced launches


@triton.jit
def add_kernel(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, x + y, mask=mask)


def added(programs, lines=1, tail=0):
    n = programs * lines * 32 - tail
    x, y, o = (torch.ones(n) for _ in range(3))
    with trace() as t:
        add_kernel[(programs,)](x, y, o, n, BLOCK=32 * lines)
    return t.steps[0]


def named(stream: Stream, steps) -> list[str]:
    """Lines as x0, x1, y0, ...: the tensor and its line."""
    regions = {step.region.name[0]: step.region for step in steps}
    numbers = {
        region.base // stream.unit_bytes + i: f"{name}{i}"
        for name, region in regions.items()
        for i in range(-(-region.nbytes // stream.unit_bytes))
    }
    return [numbers[unit] for unit in stream.units.tolist()]


def test_a_traced_launch_in_lock_step():
    steps = added(programs=3)
    lines = stream(steps, at_once=2)
    assert named(lines, steps) == ["x0", "x1", "y0", "y1", "o0", "o1", "x2", "y2", "o2"]
    assert lines.stores.tolist() == [name[0] == "o" for name in named(lines, steps)]
    assert (lines.loads != lines.stores).all()
    curve = MissCurve(lines)
    assert (curve.read_bytes(0), curve.written_bytes(0), curve.hit_rate(99999)) == (6 * 128, 3 * 128, 0.0)


def test_an_access_of_several_lines():
    steps = added(programs=2, lines=2, tail=32)
    assert named(stream(steps, at_once=9), steps) == ["x0", "x1", "x2", "y0", "y1", "y2", "o0", "o1", "o2"]
    sectors = stream(steps, at_once=1, line=32)
    assert named(sectors, steps)[:9] == ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "y0"]
    assert MissCurve(sectors).compulsory_bytes == 9 * 128


def test_programs_in_another_order():
    steps = added(programs=4)
    assert named(stream(steps, at_once=2, order=[3, 0, 2, 1]), steps)[:4] == ["x3", "x0", "y3", "y0"]
    tiles = grouped(2, 2, 2)  # (0, 0), (1, 0), (0, 1), (1, 1): programs 0, 2, 1, 3
    assert named(stream(steps, at_once=4, order=tiles), steps)[:4] == ["x0", "x2", "x1", "x3"]


def test_a_program_without_accesses_takes_its_place():
    steps = [step for step in added(programs=3) if step.program != 1]
    assert named(stream(steps, at_once=2), steps) == ["x0", "y0", "o0", "x2", "y2", "o2"]
    assert named(stream(steps, at_once=2, order=[0, 2, 1]), steps)[:2] == ["x0", "x2"]


@triton.jit
def count_kernel(o_ptr):
    tl.atomic_add(o_ptr + tl.program_id(0) * 0, 1)


def test_an_atomic_loads_and_stores():
    o = torch.zeros(1, dtype=torch.int32)
    with trace() as t:
        count_kernel[(5,)](o)
    curve = MissCurve(stream(t.steps[0], at_once=1))
    assert (curve.read_bytes(0), curve.written_bytes(0)) == (5 * 128, 5 * 128)
    assert (curve.read_bytes(128), curve.written_bytes(128)) == (128, 128)
    assert curve.hit_rate(128) == 4 / 5


def test_a_launch_finds_what_the_last_one_left():
    x, y, z = (torch.ones(128) for _ in range(3))
    with trace() as t:
        add_kernel[(4,)](x, x, y, 128, BLOCK=32)
        add_kernel[(4,)](y, y, z, 128, BLOCK=32)
    first, second = (stream(steps, at_once=4) for steps in t.steps)
    both = MissCurve(first.then(second))
    assert (both.read_bytes(8 * 128), both.written_bytes(8 * 128)) == (512, 1024)  # x; y and z
    assert [both.read_bytes(lines * 128) for lines in (3, 4)] == [4 * 512, 512]  # x twice and y twice; x once
    assert MissCurve(second).compulsory_bytes == 2 * 512


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid, columns = tl.program_id(0), N // TILE_N
    first = pid // (GROUP_M * columns) * GROUP_M
    rows = min(M // TILE_M - first, GROUP_M)
    m = (first + pid % (GROUP_M * columns) % rows) * TILE_M + tl.arange(0, TILE_M)[:, None]
    n = pid % (GROUP_M * columns) // rows * TILE_N + tl.arange(0, TILE_N)[None, :]
    c = tl.zeros((TILE_M, TILE_N), tl.float32)
    for start in range(0, K, TILE_K):
        k = start + tl.arange(0, TILE_K)
        a = tl.load(a_ptr + m * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + n)
        c = tl.dot(a, b, c, input_precision="ieee")
    tl.store(c_ptr + m * N + n, c)


@pytest.fixture(scope="module")
def matmuls():
    """Steps of a product of 5 x 3 by 3 x 4 tiles of 32 x 32 floats, 32 lines each: {GROUP_M: steps}."""
    a, b = torch.randn(5 * 32, 3 * 32), torch.randn(3 * 32, 4 * 32)
    steps = {}
    for group in (1, 2):
        c = torch.zeros(5 * 32, 4 * 32)
        with trace() as t:
            matmul_kernel[(20,)](a, b, c, 160, 128, 96, TILE_M=32, TILE_N=32, TILE_K=32, GROUP_M=group)
        torch.testing.assert_close(c, a @ b)
        steps[group] = t.steps[0]
    return steps


def of_loads(steps):
    return [step for step in steps if step.op == "load"]


@pytest.mark.parametrize("group, order", [(1, row_major(5, 4)), (2, grouped(5, 4, 2))])
@pytest.mark.parametrize("at_once", [1, 6, 20])
def test_a_traced_matmul_is_its_tiles(matmuls, group, order, at_once):
    tile = 32 * 128  # bytes, and lines of a tile are used one after another: n tiles fit where 32 n lines do
    lines = MissCurve(stream(of_loads(matmuls[group]), at_once))
    tiles = MissCurve(matmul_tiles(order, K=3, at_once=at_once, tile_bytes=tile))
    sizes = np.arange(30) * tile
    assert lines.dram_bytes(sizes).tolist() == tiles.dram_bytes(sizes).tolist()
    assert len(set(lines.dram_bytes(sizes))) >= 3
    assert lines.compulsory_bytes == (5 * 3 + 3 * 4) * tile


def test_a_traced_matmul_can_be_started_in_another_order(matmuls):
    regrouped = MissCurve(stream(of_loads(matmuls[1]), at_once=6, order=grouped(5, 4, 2)))
    grouped_by_itself = MissCurve(stream(of_loads(matmuls[2]), at_once=6))
    sizes = np.arange(0, 1000) * 128
    assert (regrouped.dram_bytes(sizes) == grouped_by_itself.dram_bytes(sizes)).all()


def test_a_matmul_reads_its_inputs_and_writes_its_output_at_least(matmuls):
    curve = MissCurve(stream(matmuls[1], at_once=6))
    assert curve.compulsory_bytes == (5 * 3 + 3 * 4 + 5 * 4) * 32 * 128
    assert curve.written_bytes(0) == curve.written_bytes(1 << 30) == 5 * 4 * 32 * 128


# ------------------------------------------------------------------------------------------------- what is refused


def test_errors():
    steps = added(programs=2)
    with refusing("asked.cache.lacking", program=1):
        stream(steps, at_once=2, order=[0])
    with refusing("asked.cache.twice", program=0):
        stream(steps, at_once=2, order=[0, 1, 0])
    with refusing("asked.cache.too_few", name="at_once", number=0):
        stream(steps, at_once=0)
    with refusing("asked.cache.too_few", name="at_once", number=0):
        matmul_tiles(row_major(2, 2), K=1, at_once=0)
    with refusing("asked.cache.too_few", name="group", number=0):
        grouped(2, 2, 0)
    with refusing("asked.cache.units", bytes=128, other=32):
        stream(steps, at_once=2).then(stream(steps, at_once=2, line=32))
    assert stream([], at_once=2).units.size == 0


def test_a_trace_gives_its_own_curve():
    """Four programs copy 64 floats each, in two launches: 8 lines, which a cache that keeps them reads once."""
    x, o = torch.randn(256), torch.empty(256)
    with trace() as t:
        for _ in range(2):
            copy_64[(4,)](x, o)
    curve = t.l2(at_once=2)
    assert curve.read_bytes(1 << 20) == 256 * 4
    assert curve.read_bytes(0) == 2 * 256 * 4
    assert t.l2(at_once=2, launch=0).read_bytes(0) == 256 * 4
    assert repr(curve) == (  # each launch writes its 8 lines; in a cache of all 16 the second time replaces the first
        "MissCurve: 4,096 bytes to and from DRAM without a cache, 2,048 with one of 2,048 bytes or more"
    )


@triton.jit
def copy_64(x_ptr, o_ptr):
    i = tl.program_id(0) * 64 + tl.arange(0, 64)
    tl.store(o_ptr + i, tl.load(x_ptr + i))
