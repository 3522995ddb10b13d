"""The trace's counts equal counts by hand."""

import tracemalloc

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing

from tritontrace.tracing import KernelFault, accesses, trace

F32, F16 = torch.float32, torch.float16


@triton.jit
def add_kernel(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, x + y, mask=mask)


@pytest.mark.parametrize("n, block", [(65536, 1024), (1000, 256)])
def test_vector_add(n, block):
    x, y = torch.randn(n), torch.randn(n)
    with trace() as t:
        o = torch.empty(n)
        add_kernel[(triton.cdiv(n, block),)](x, y, o, n, BLOCK=block)
    programs = -(-n // block)
    assert torch.equal(o, x + y)
    assert t.programs == programs
    assert (t.loads.bytes, t.stores.bytes, t.bytes) == (8 * n, 4 * n, 12 * n)
    assert t.loads.requests == 2 * -(-n // 32)
    assert t.loads.sectors == 2 * -(-4 * n // 32)
    assert t.loads.masked == 2 * (programs * block - n)
    assert t.accesses_to("x_ptr").elements == t.accesses_to(x, "load").elements == n
    assert t.accesses_to(x, "store").bytes == 0
    assert t.faults == []
    (launch,) = t.launches
    assert (launch.kernel, launch.grid, launch.programs) == ("add_kernel", (programs, 1, 1), programs)
    assert [(a.tensor, a.op, a.line) for a in launch.accesses] == [
        ("x_ptr", "load", 4),
        ("y_ptr", "load", 5),
        ("o_ptr", "store", 6),
    ]
    assert launch.accesses[2].source == "tl.store(o_ptr + offs, x + y, mask=mask)"
    assert launch.footprints[0].read_distinct_bytes == 4 * n
    assert launch.footprints[2].written_bytes == launch.footprints[2].written_distinct_bytes == 4 * n


@triton.jit
def strided_copy(x_ptr, o_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs * STRIDE, mask=mask), mask=mask)


@pytest.mark.parametrize("dtype, itemsize", [(F32, 4), (F16, 2)])
@pytest.mark.parametrize("stride", [1, 2, 4, 8, 32])
def test_strided_copy(stride, dtype, itemsize):
    n = 4096
    x = torch.randn(n * stride).to(dtype)
    with trace() as t:
        o = torch.empty(n, dtype=dtype)
        strided_copy[(n // 1024,)](x, o, n, STRIDE=stride, BLOCK=1024)
    step = stride * itemsize  # bytes from lane to lane
    assert torch.equal(o, x[::stride])
    assert t.loads.bytes == t.loads.useful_bytes == n * itemsize
    assert t.loads.sectors / t.loads.requests == min(32, step)
    assert t.loads.efficiency == itemsize / min(32, step)
    assert t.stores.sectors / t.stores.requests == itemsize
    assert t.stores.efficiency == 1.0
    assert t.read_counts(x).tolist() == ([1] + [0] * (stride - 1)) * n


@triton.jit
def copy_vector(x_ptr, o_ptr, step, along, n, BLOCK: tl.constexpr):
    """One program copies n elements that lie `along` apart; programs start `step` apart."""
    offs = tl.program_id(0) * step + tl.arange(0, BLOCK) * along
    mask = tl.arange(0, BLOCK) < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


@pytest.mark.parametrize("by_rows, sectors_per_request", [(True, 4), (False, 32)])
def test_rows_and_columns(by_rows, sectors_per_request):
    x = torch.randn(128, 128)
    with trace() as t:
        o = torch.empty(128, 128)
        copy_vector[(128,)](x, o, 128 if by_rows else 1, 1 if by_rows else 128, 128, BLOCK=128)
    assert torch.equal(o, x)
    assert t.loads.sectors / t.loads.requests == sectors_per_request
    assert t.stores.sectors / t.stores.requests == sectors_per_request
    assert t.reread(x) == 1.0


@triton.jit
def transpose_by_address(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    rm = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rn = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rm[:, None] * N + rn[None, :])
    tl.store(o_ptr + rm[:, None] + rn[None, :] * M, x)


@triton.jit
def transpose_by_T(x_ptr, o_ptr, M, N, BLOCK: tl.constexpr):
    rm = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rn = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rm[:, None] * N + rn[None, :])
    tl.store(o_ptr + rn[:, None] * M + rm[None, :], x.T)


@pytest.mark.parametrize("kernel", [transpose_by_address, transpose_by_T])
@pytest.mark.parametrize("dtype, itemsize", [(F32, 4), (F16, 2)])
def test_tiles_are_dense_however_they_are_turned(kernel, dtype, itemsize):
    x = torch.randn(64, 128).to(dtype)
    with trace() as t:
        o = torch.empty(128, 64, dtype=dtype)
        kernel[(2, 4)](x, o, 64, 128, BLOCK=32)
    assert torch.equal(o, x.T)
    assert t.loads.sectors == t.stores.sectors == x.numel() * itemsize // 32
    assert t.launches[0].grid == (2, 4, 1)


@triton.jit
def gather(x_ptr, index_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + tl.load(index_ptr + offs)))


@pytest.mark.parametrize(
    "index, sectors, useful",
    [
        (torch.arange(32), 4, 128),
        (torch.arange(32).flip(0), 4, 128),  # order within a request does not matter
        (torch.zeros(32, dtype=torch.int64), 1, 4),  # one element for all lanes
        (torch.arange(32) * 8, 32, 128),
        (torch.arange(32) + 1, 5, 128),  # off by one element: a fifth sector
    ],
)
def test_gather(index, sectors, useful):
    x = torch.randn(256)
    with trace({"x": x}) as t:
        o = torch.empty(32)
        gather[(1,)](x, index, o, BLOCK=32)
    assert torch.equal(o, x[index])
    assert t.accesses_to("x").sectors == sectors
    assert t.accesses_to("x").useful_bytes == useful
    assert t.accesses_to("x").bytes == 128


def test_the_request_that_touches_most_is_kept_with_its_lanes():
    """Rows of 33 elements: the first starts a sector, and the others do not."""
    x = torch.randn(4, 33)
    with trace({"x": x}) as t:
        o = torch.empty(4, 33)
        copy_vector[(4,)](x, o, 33, 1, 32, BLOCK=32)
    (launch,) = t.launches
    load = next(a for a in launch.accesses if a.op == "load")
    assert load.request == [132 + 4 * lane for lane in range(32)] and load.sectors == 4 + 3 * 5
    with trace({"x": x}) as t:
        gather[(1,)](x, torch.tensor([5, 0, 9, 9] * 8), torch.empty(32), BLOCK=32)
    assert next(a for a in t.launches[0].accesses if a.tensor == "x").request == [20, 0, 36, 36] * 8
    with trace({"x": x}) as t:
        copy_vector[(1,)](x, torch.empty(4, 33), 0, 8, 3, BLOCK=32)
    assert t.launches[0].accesses[0].request == [0, 32, 64], "active lanes alone"


@triton.jit
def matmul_naive(a_ptr, b_ptr, c_ptr, N, K, BLOCK_K: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    acc = 0.0
    for k in range(0, K, BLOCK_K):
        ks = k + tl.arange(0, BLOCK_K)
        a = tl.load(a_ptr + i * K + ks)
        b = tl.load(b_ptr + ks * N + j)
        acc += tl.sum(a * b, axis=0)
    tl.store(c_ptr + i * N + j, acc)


def test_matmul_one_element_a_program():
    M, N, K = 8, 16, 64
    a, b = torch.randn(M, K), torch.randn(K, N)
    with trace() as t:
        c = torch.empty(M, N)
        matmul_naive[(M, N)](a, b, c, N, K, BLOCK_K=32)
    torch.testing.assert_close(c, a @ b)
    assert t.loads.bytes == 2 * M * N * K * 4
    assert (t.reread(a), t.reread(b)) == (N, M)
    assert t.accesses_to(a).sectors / t.accesses_to(a).requests == 4
    assert t.accesses_to(b).sectors / t.accesses_to(b).requests == 32
    assert t.stores.single_bytes == t.stores.bytes == M * N * 4
    assert t.loads.single_bytes == 0


@triton.jit
def matmul_tiled(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK):
        a = tl.load(a_ptr + rm[:, None] * K + (k + rk)[None, :], (rm[:, None] < M) & (k + rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + (k + rk)[:, None] * N + rn[None, :], (k + rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@pytest.mark.parametrize("M, N, K, tile", [(64, 64, 64, 16), (64, 64, 64, 32), (100, 90, 70, 32)])
def test_matmul_by_tiles(M, N, K, tile):
    a, b = torch.randn(M, K), torch.randn(K, N)
    rows, columns = -(-M // tile), -(-N // tile)
    with trace() as t:
        c = torch.empty(M, N)
        matmul_tiled[(rows, columns)](a, b, c, M, N, K, BM=tile, BN=tile, BK=tile)
    torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)
    assert t.accesses_to(a).bytes == M * K * columns * 4
    assert t.accesses_to(b).bytes == K * N * rows * 4
    assert (t.reread(a), t.reread(b)) == (columns, rows)
    assert t.stores.bytes == M * N * 4
    assert t.faults == []
    if M % tile == 0:
        assert t.loads.efficiency == 1.0


@triton.jit
def softmax_rows(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < N
    x = tl.load(x_ptr + row * N + offs, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(o_ptr + row * N + offs, e / e.sum(axis=0), mask=mask)


def test_softmax_reads_and_writes_once():
    x = torch.randn(16, 200)
    with trace() as t:
        o = torch.empty(16, 200)
        softmax_rows[(16,)](x, o, 200, BLOCK=256)
    torch.testing.assert_close(o, x.softmax(1))
    assert t.loads.bytes == t.stores.bytes == x.numel() * 4
    assert t.reread(x) == 1.0
    assert t.poisoned == set()
    assert (t.read_counts(x) == 1).all()


@triton.jit
def double_by_descriptor(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [M, N], [N, 1], [BM, BN])
    i = tl.program_id(0) * BM
    o.store([i, 0], x.load([i, 0]) * 2)


@triton.jit
def double_by_host_descriptor(x, o, BM: tl.constexpr):
    i = tl.program_id(0) * BM
    o.store([i, 0], x.load([i, 0]) * 2)


@pytest.mark.parametrize("host", [False, True])
def test_descriptors(host):
    from triton.tools.tensor_descriptor import TensorDescriptor

    x = torch.randn(30, 48)
    with trace({"x": x}) as t:
        o = torch.empty(30, 48)
        if host:
            descriptors = [TensorDescriptor.from_tensor(tensor, [16, 64]) for tensor in (x, o)]
            double_by_host_descriptor[(2,)](*descriptors, BM=16)
        else:
            double_by_descriptor[(2,)](x, o, 30, 48, BM=16, BN=64)
    assert torch.equal(o, 2 * x)
    assert (t.loads.bytes, t.stores.bytes) == (30 * 48 * 4, 30 * 48 * 4)
    assert t.accesses_to("x").bytes == 30 * 48 * 4
    assert t.poisoned == set()  # a descriptor pads with zeros


@triton.jit
def add_by_descriptor(x_ptr, o_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BM, BN])
    o = tl.make_tensor_descriptor(o_ptr, [M, N], [N, 1], [BM, BN])
    o.atomic_add([0, 0], x.load([0, 0]))


def test_a_descriptor_that_adds():
    x, o = torch.rand(30, 48), torch.zeros(30, 48)
    with trace() as t:
        add_by_descriptor[(3,)](x, o, 30, 48, BM=32, BN=64)
    torch.testing.assert_close(o, 3 * x)
    assert sum(a.bytes for a in t.launches[0].accesses if a.op == "atomic") == 3 * o.nbytes and not t.faults
    assert t.faults == []


@triton.jit
def turn_rows(x_ptr, o_ptr, M, ROWS: tl.constexpr, COLS: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, 2 * COLS], [2 * COLS, 1], [1, COLS])
    o = tl.make_tensor_descriptor(o_ptr, [M, 2 * COLS], [2 * COLS, 1], [1, COLS])
    rows = tl.arange(0, ROWS)
    o.scatter(x.gather(ROWS - rows, COLS), rows, 0)


def test_a_descriptor_gathers_and_scatters_rows():
    x, o = torch.randn(10, 64), torch.zeros(10, 64)
    with trace() as t:
        turn_rows[(1,)](x, o, 10, ROWS=8, COLS=32)
    assert torch.equal(o[:8, :32], x[1:9, 32:].flip(0)) and not o[8:].any() and not o[:, 32:].any()
    assert t.loads.described_bytes == t.loads.bytes == t.stores.described_bytes == t.stores.bytes == 8 * 32 * 4
    assert t.loads.asked_bytes == 0 and t.faults == []
    with trace() as t:
        turn_rows[(1,)](torch.empty(10, 64), o, 10, ROWS=8, COLS=32)
    assert [fault.kind for fault in t.faults] == ["uninitialised"]


@triton.jit
def load_at(pointer, offs):
    value = tl.load(pointer + offs)
    return value


@triton.jit
def uses_helper(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.softmax(load_at(x_ptr, offs)))


def test_helper_functions():
    x = torch.randn(64)
    with trace() as t:
        o = torch.empty(64)
        uses_helper[(1,)](x, o, BLOCK=64)
    torch.testing.assert_close(o, x.softmax(0))
    assert t.bytes == 512
    assert t.launches[0].accesses[0].line == 3  # of the kernel, where the helper is called


@triton.jit
def sum_by_atomics(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr, tl.sum(tl.load(x_ptr + offs)))


def test_atomics_are_no_race():
    x = torch.randn(64)
    with trace() as t:
        total = torch.zeros(1)
        sum_by_atomics[(4,)](x, total, BLOCK=16)
    torch.testing.assert_close(total[0], x.sum())
    assert (t.atomics.instructions, t.atomics.bytes, t.stores.bytes) == (4, 16, 0)
    assert t.faults == []


@triton.jit
def copy_3d(x_ptr, o_ptr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr):
    a = tl.arange(0, A)[:, None, None]
    b = tl.arange(0, B)[None, :, None]
    c = tl.arange(0, C)[None, None, :]
    base = tl.program_id(2) * A * B * C
    tl.store(o_ptr + base + (c * B + b) * A + a, tl.load(x_ptr + base + (a * B + b) * C + c))


def test_three_dimensional_blocks_and_grids():
    x = torch.randn(3, 8, 4, 16)
    with trace() as t:
        o = torch.empty(3, 16, 4, 8)
        copy_3d[(1, 1, 3)](x, o, A=8, B=4, C=16)
    assert torch.equal(o, x.permute(0, 3, 2, 1))
    assert t.loads.sectors == t.stores.sectors == x.numel() * 4 // 32
    assert t.programs == 3


@triton.jit
def count_down(o_ptr, n):
    steps = 0
    while n > 0:
        n = n // 2
        steps += 1
    if steps > 3 and n == 0:
        tl.store(o_ptr, steps)


def test_while_loops_and_scalar_conditions():
    with trace() as t:
        o = torch.zeros(1, dtype=torch.int32)
        count_down[(1,)](o, 100)
    assert o.item() == 7
    assert t.stores.single_bytes == 4


@triton.jit
def scale_kernel(x_ptr, o_ptr, scale, flag, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs) * scale
    if flag:
        x = x + 1
    tl.store(o_ptr + offs, x)


def test_scalar_arguments_have_the_types_of_a_launch():
    x = torch.full((16,), 2049.0).half()
    with trace():
        o = torch.empty(16)
        scale_kernel[(1,)](x, o, 1.0001, True, BLOCK=16)
    # fp16 times an fp32 scalar is fp32: in fp16 the factor would round to 1
    assert torch.equal(o, x.float() * torch.tensor(1.0001) + 1)


def test_counts_do_not_depend_on_where_torch_allocates():
    base = torch.randn(4096 + 8)
    sectors = []
    for _ in range(3):
        x = base[1:4097].clone()
        with trace() as t:
            o = torch.empty(4096)
            strided_copy[(4,)](x, o, 4096, STRIDE=1, BLOCK=1024)
        sectors.append(t.loads.sectors)
    with trace() as t:  # a view that starts 4 bytes into its storage does cost sectors
        o = torch.empty(4096)
        strided_copy[(4,)](base[1:4097], o, 4096, STRIDE=1, BLOCK=1024)
    assert sectors == [512] * 3
    assert t.loads.sectors == 512 + 4096 // 32


def test_a_storage_seen_through_two_dtypes():
    x = torch.arange(32, dtype=torch.int32)
    with trace() as t:
        o = torch.empty(32, dtype=torch.int32)
        strided_copy[(1,)](x, o, 32, STRIDE=1, BLOCK=32)
        half = torch.empty(16, dtype=torch.int16)
        strided_copy[(1,)](x.view(torch.int16)[:16], half, 16, STRIDE=1, BLOCK=16)
        wide = torch.empty(16, dtype=torch.int64)
        strided_copy[(1,)](x.view(torch.int64), wide, 16, STRIDE=1, BLOCK=16)
    assert torch.equal(half, x.view(torch.int16)[:16]) and torch.equal(wide, x.view(torch.int64))
    assert t.footprint(x).read_bytes == 128 + 32 + 128
    assert t.footprint(x).read_distinct_bytes == 128
    assert t.read_counts(x).tolist() == [3] * 8 + [2] * 24
    assert t.faults == []


@triton.jit
def words_and_halves(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    words = tl.load(x_ptr + 2 * i)
    halves = tl.load(x_ptr.to(tl.pointer_type(tl.int16)) + i)
    tl.store(o_ptr + i, words + halves + tl.load(x_ptr + 2 * i) + tl.load(x_ptr + i))


def test_one_launch_sees_a_storage_through_two_dtypes():
    x = torch.arange(8, dtype=torch.int32) + 65536
    o = torch.empty(4, dtype=torch.int32)
    with trace() as t:
        words_and_halves[(1,)](x, o, BLOCK=4)
    assert o.tolist() == [2 * x[2 * i] + x[i] + x.view(torch.int16)[i] for i in range(4)]
    # words 0, 2, 4, 6 twice, words 0 to 3 once, and the halves of words 0 and 1 once
    assert t.read_counts(x).tolist() == [4, 2, 3, 1, 2, 0, 2, 0]
    halves = [4, 4, 2, 2, 3, 3, 1, 1, 2, 2, 0, 0, 2, 2, 0, 0]
    assert t.read_counts(x.view(torch.int16)).tolist() == halves


@triton.jit
def first_word(x_ptr, o_ptr):
    words = x_ptr.to(tl.pointer_type(tl.int32))
    tl.store(o_ptr, tl.load(words))


def test_a_storage_that_is_no_whole_number_of_words():
    x, o = torch.tensor([1, 2, 3], dtype=torch.int16), torch.empty(1, dtype=torch.int32)
    with trace() as t:
        first_word[(1,)](x, o)
    assert o.item() == 1 + 2 * 65536
    assert t.read_counts(x).tolist() == [1, 1, 0]
    assert t.read_counts(x[:2].view(torch.int32)).tolist() == [1]


def test_names_and_second_tensors_of_one_name():
    x = torch.randn(64)
    with trace() as t:
        first, second = torch.empty(64), torch.empty(64)
        strided_copy[(1,)](x, first, 64, STRIDE=1, BLOCK=64)
        strided_copy[(1,)](first, second, 64, STRIDE=1, BLOCK=64)
    assert [f.tensor for f in t.launches[1].footprints] == ["x_ptr#2", "o_ptr#2"]
    assert t.accesses_to(first, "load").bytes == t.accesses_to("o_ptr", "load").bytes == 256
    assert t.accesses_to(first).bytes == t.accesses_to("x_ptr#2").bytes == 512  # two names of one tensor
    with refusing("asked.trace.no_name", KeyError, name="'z'", names="x_ptr, o_ptr, x_ptr#2, o_ptr#2"):
        t.accesses_to("z")
    assert t.accesses_to(torch.zeros(1)).bytes == 0


@triton.jit
def turned(source_ptr, target_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(target_ptr + i, tl.load(source_ptr + i))


def test_each_kernel_names_its_tensors_by_its_own_parameters():
    """Two kernels, and a launch that swaps both tensors of the one before it."""
    a, b, other = torch.randn(64), torch.randn(64), torch.empty(64)
    with trace() as t:
        strided_copy[(1,)](a, b, 64, STRIDE=1, BLOCK=64)
        strided_copy[(1,)](b, a, 64, STRIDE=1, BLOCK=64)
        turned[(1,)](b, other, BLOCK=64)
        with pytest.raises(KernelFault) as stopped:
            turned[(1,)](b, torch.empty(32), BLOCK=64)
    names = [[access.tensor for access in launch.accesses] for launch in t.launches[:3]]
    assert names == [["x_ptr", "o_ptr"], ["x_ptr#2", "o_ptr#2"], ["source_ptr", "target_ptr"]]
    assert stopped.value.fault.tensor == "target_ptr#2"
    assert t.footprint("source_ptr").read_bytes == t.footprint(b).read_bytes == 4 * 3 * 64


@triton.jit
def parts(q_ptr, k_ptr, o_ptr, ROW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * ROW + tl.arange(0, BLOCK)
    tl.store(o_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(q_ptr + at) + tl.load(k_ptr + at))
    tl.store(k_ptr + ROW + tl.arange(0, BLOCK), 1.0)


def test_views_of_one_storage_bear_their_own_names():
    """Columns of one matrix: their elements lie between one another, and each counts as its own parameter's."""
    both, o = torch.randn(4, 32), torch.empty(4, 16)
    with trace() as t:
        parts[(4,)](both[:, :16], both[:, 16:], o, ROW=32, BLOCK=16)
    (launch,) = t.launches
    assert {(a.tensor, a.op, a.bytes) for a in launch.accesses} == {
        ("q_ptr", "load", 256), ("k_ptr", "load", 256), ("k_ptr", "store", 256), ("o_ptr", "store", 256),
    }  # fmt: skip
    found = {f.tensor: (f.read_bytes, f.read_distinct_bytes, f.written_distinct_bytes) for f in launch.footprints}
    assert found == {"q_ptr": (256, 256, 0), "k_ptr": (256, 256, 64), "o_ptr": (0, 0, 256)}
    assert {fault.tensor for fault in t.faults} == {"k_ptr"}
    told = {(fault.between, fault.line, fault.sentence.parameters["element"]) for fault in t.faults}
    assert ("load and store", 3, 32) in told  # the second row of k_ptr, counted from where k_ptr begins
    assert t.accesses_to(both).bytes == t.accesses_to("k_ptr").bytes == 768  # the memory is one


def test_one_tensor_given_twice_has_one_name():
    x = torch.randn(64)
    with trace() as t:
        turned[(1,)](x, x, BLOCK=64)
    assert [(a.tensor, a.op) for a in t.launches[0].accesses] == [("source_ptr", "load"), ("source_ptr", "store")]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_second_look_at_the_same_data_is_counted_over_launches(stride):
    x = torch.randn(64)
    with trace() as t:
        for _ in range(3):
            strided_copy[(1,)](x, torch.empty(32), 32, STRIDE=stride, BLOCK=32)
    assert t.reread(x) == 3.0
    assert t.footprint(x).read_bytes == 3 * 128
    assert t.read_counts(x).tolist() == ([3] * 32 + [0] * 32 if stride == 1 else [3, 0] * 32)
    assert len(t.launches) == 3


def test_views_and_inplace_results_reach_torch():
    x = torch.zeros(8, 16)
    with trace():
        strided_copy[(1,)](torch.ones(16), x[3], 16, STRIDE=1, BLOCK=16)
    assert x.sum() == 16 and (x[3] == 1).all()


def test_requires_grad_and_inference_tensors():
    x = torch.randn(64, requires_grad=True)
    with trace():
        o = torch.empty(64)
        strided_copy[(1,)](x, o, 64, STRIDE=1, BLOCK=64)
    assert torch.equal(o, x.detach())


@triton.jit
def read_by_atomics(x_ptr, buffer_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(buffer_ptr + i, tl.load(x_ptr + i))
    tl.store(out_ptr + i, tl.atomic_add(buffer_ptr + i, 0.0))


def test_an_atomic_whose_result_is_used_reads():
    x, buffer, out = torch.randn(64), torch.zeros(64), torch.zeros(64)
    with trace() as t:
        read_by_atomics[(1,)](x, buffer, out, BLOCK=64)
    (footprint,) = [f for f in t.launches[0].footprints if f.tensor == "buffer_ptr"]
    assert footprint.read_bytes == 256 and footprint.written_bytes == 512
    assert [a.asked_bytes for a in t.launches[0].accesses if a.op == "atomic"] == [0, 256]


@triton.jit
def half_described_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [N, 1], [BLOCK, BLOCK])
    tile = x.load([tl.program_id(0) * BLOCK, 0])
    rows, cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(out_ptr + rows * N + cols, tile, mask=(rows < M) & (cols < N))


def test_bytes_that_descriptors_move():
    x, out = torch.randn(20, 12), torch.empty(20, 12)
    with trace() as t:
        half_described_kernel[(2,)](x, out, 20, 12, BLOCK=16)
    assert torch.equal(out, x)
    assert t.loads.described_bytes == t.loads.bytes == 4 * 20 * 12
    assert t.stores.described_bytes == 0 and t.stores.bytes == 4 * 20 * 12


@triton.jit
def walk(x_ptr, o_ptr, T, step, W, BLOCK: tl.constexpr):
    p, lanes = tl.program_id(0), tl.arange(0, BLOCK)
    for i in range(0, T + p):  # each program has another number of turns
        x = tl.load(x_ptr + p * 70 + i * step + lanes)
        x += tl.load(x_ptr + 400 - i * 3 - lanes * (1 + i % 2), mask=lanes < W + i, other=0.0)
        tl.store(o_ptr + p * BLOCK + lanes, x)


@pytest.mark.parametrize("together", [0, 100, 1 << 16])
@pytest.mark.parametrize("step", [-5, 0, 1, 32])
def test_accesses_of_a_loop_that_are_counted_together(monkeypatch, step, together):
    """Loads that go on by `step` elements in each turn, and others with another mask and, every second turn, another stride."""
    monkeypatch.setattr(accesses, "TOGETHER", together)
    x, o = torch.randn(900), torch.empty(3 * 64)
    reads, sectors, lanes = np.zeros(900, int), [0, 0], np.arange(64)
    for p, i in [(program, turn) for program in range(3) for turn in range(9 + program)]:
        on = lanes < 20 + i
        for number, at in enumerate((100 + p * 70 + i * step + lanes, (500 - i * 3 - lanes * (1 + i % 2))[on])):
            np.add.at(reads, at, 1)
            sectors[number] += sum(np.unique(warp // 8).size for warp in (at[:32], at[32:]))
    with trace() as t:
        walk[(3,)](x[100:], o, 9, step, 20, BLOCK=64)
    assert t.read_counts(x).tolist() == reads.tolist()
    first, second, store = t.launches[0].accesses
    assert [first.sectors, second.sectors] == sectors
    assert (first.instructions, second.instructions, store.bytes) == (30, 30, 30 * 256)
    assert first.elements + second.elements == reads.sum() and t.launches[0].busiest_bytes == 4 * (
        11 * 128 + sum(20 + i for i in range(11))
    )
    with trace() as t, pytest.raises(KernelFault):
        walk[(3,)](x[100:], o, 900, max(step, 1), 20, BLOCK=64)  # what was done until then is counted
    assert t.loads.elements == t.read_counts(x).sum() > 3000


@triton.jit
def doubled_in_place(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, 2 * tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


def test_a_large_tensor_takes_a_bounded_number_of_bytes_for_each_element():
    x = torch.ones(1 << 22, dtype=F16)
    tracemalloc.start()
    try:
        with trace() as t:
            for _ in range(2):
                doubled_in_place[(x.numel() // 4096,)](x, x.numel(), BLOCK=4096)
            kept, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert x.eq(4).all() and t.faults == []
    assert kept < 6 * x.numel()  # a byte for loads and for stores, of this launch and of all
    assert peak < 20 * x.numel()


@triton.jit
def loaded_often(x_ptr, o_ptr, TIMES: tl.constexpr):
    total = 0.0
    for _ in range(TIMES):
        total += tl.load(x_ptr)
    tl.store(o_ptr + tl.program_id(0), total)


def test_counts_grow_beyond_what_one_byte_and_two_hold():
    x, o = torch.ones(1), torch.zeros(128)
    with trace() as t:
        counts = []
        for programs in (2, 1, 128, 128):
            loaded_often[(programs,)](x, o, TIMES=200 if programs < 128 else 256)
            counts.append(int(t.read_counts(x)[0]))
    assert counts == [400, 600, 600 + 128 * 256, 600 + 2 * 128 * 256]
    assert counts[-1] > 2**16 and t.read_counts(x).dtype == np.uint32
