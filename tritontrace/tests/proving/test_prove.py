"""Proofs for all sizes: right kernels are proved, wrong ones refuted by the smallest sizes, which a launch confirms."""

import doctest
import os
import subprocess
import sys

import pytest
import torch
import triton
import triton.language as tl

pytest.importorskip("z3")

from tritontrace.proving import counterexample, decide, formulas, prove, sizes, solver
from tritontrace.proving.host_runs import sized_launches
from tritontrace.proving.proofs import proof_of
from tritontrace.proving.shapes import SizedShapes
from tritontrace.proving.solver import _of_a_power
from tritontrace.testing import as_on_a_gpu


@triton.jit
def scaled(x_ptr, y_ptr, n, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside, also_n = i < n, i <= n
    x = tl.load(x_ptr + i, mask=inside if LOAD == "inside" else also_n if LOAD == "also n" else i >= 0)
    tl.store(y_ptr + (i // 2 if STORE == "halves" else i), 2 * x, mask=inside)


def scale(x, BLOCK=32, LOAD="inside", STORE="each", multiple=1, grid=triton.cdiv):
    y, n = torch.empty_like(x), x.numel()
    assert n % multiple == 0
    scaled[(grid(n, BLOCK),)](x, y, n, BLOCK=BLOCK, LOAD=LOAD, STORE=STORE)
    return y


def outcomes(proof):
    return {(claim.op, claim.about): claim.outcome for launch in proof.launches for claim in launch.claims}


def refuted(proof):
    return [(c.op, c.about, c.sizes, c.fault.kind) for launch in proof.launches for c in launch.claims if c.fault]


@triton.jit
def counted(x_ptr, c_ptr, n, G: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(c_ptr + pid % G, tl.sum(tl.load(x_ptr + i, mask=i < n, other=0.0), 0))


INSIDE, ALONE = "inside its tensor", "one program for each element"


@pytest.mark.parametrize("settings", [
    {},
    {"grid": lambda n, block: n // block},
    {"LOAD": "none", "multiple": 32},
    {"LOAD": "also n", "multiple": 32},  # no lane is n
])  # fmt: skip
def test_each_access_of_a_right_kernel_is_proved(settings):
    proof = prove(scale, torch.randn(96), **settings)
    assert proof and set(outcomes(proof)) == {("load", INSIDE), ("store", INSIDE), ("store", ALONE)}


@triton.jit
def masked_the_wrong_way_round(x_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    rows, cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    offs, mask = rows[:, None] * N + cols[None, :], (rows < N)[:, None] & (cols < M)[None, :]
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=mask), mask=mask)


def copied_the_wrong_way_round(x):
    (M, N), y = x.shape, torch.empty_like(x)
    masked_the_wrong_way_round[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, y, M, N, BLOCK=32)


def test_sizes_that_are_equal_in_the_example_are_said_to_be_taken_for_one():
    (square,) = prove(copied_the_wrong_way_round, torch.ones(64, 64)).launches
    assert [c.outcome for c in square.claims] == ["proved"] * 3 and square.domain == ["M == N, as in the example"]
    assert not prove(copied_the_wrong_way_round, torch.ones(64, 60))
    assert all(launch.domain == [] for launch in prove(scale, torch.ones(64)).launches)


@pytest.mark.parametrize("settings, op, about, n, kind", [
    ({"LOAD": "none"}, "load", INSIDE, 1, "out of bounds"),
    ({"LOAD": "also n"}, "load", INSIDE, 1, "out of bounds"),
    ({"LOAD": "none", "multiple": 16}, "load", INSIDE, 16, "out of bounds"),
    ({"STORE": "halves", "BLOCK": 1}, "store", ALONE, 2, "race"),
    ({"grid": lambda n, block: 2 * triton.cdiv(n, block), "LOAD": "none", "multiple": 32}, "load", INSIDE, 32, "out of bounds"),
])  # fmt: skip
def test_a_wrong_kernel_is_refuted_by_the_smallest_size(settings, op, about, n, kind):
    (found, *_) = refuted(prove(scale, torch.randn(96), **settings))
    assert found == (op, about, {"n": n}, kind)


def two_ways(x, limit=100):
    """Right where the example is; beyond the limit the load has no mask."""
    return scale(x, LOAD="inside" if x.numel() <= limit else "none")


def test_ways_that_the_example_does_not_take_are_taken():
    ((op, about, sizes, kind),) = refuted(prove(two_ways, torch.randn(96)))
    assert (op, about, sizes, kind) == ("load", INSIDE, {"n": 101}, "out of bounds")


def padded(x):
    """Each power of two has a kernel of its own."""
    assert x.numel() <= 64
    return scale(x, BLOCK=triton.next_power_of_2(x.numel()))


def test_a_constant_that_depends_on_a_size_makes_several_kernels():
    proof = prove(padded, torch.randn(50))
    assert proof and len(proof.launches) == 7 and not proof.unseen


def test_a_search_for_a_counterexample_ends_with_the_first_way_that_has_one():
    claim = counterexample(two_ways, torch.randn(96))
    assert (claim.sizes, claim.shapes, claim.fault.kind) == ({"n": 101}, [(101,)], "out of bounds")
    assert counterexample(two_ways, torch.randn(96), limit=1).shapes == [(2,)]  # the example's own way
    assert counterexample(scale, torch.randn(96)) is None


@triton.jit
def gathered(x_ptr, i_ptr, y_ptr, K, N, BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr):
    k, n = tl.arange(0, BLOCK)[:, None] + tl.program_id(0) * BLOCK, tl.arange(0, BLOCK)[None, :]
    rows = tl.load(i_ptr + k, mask=k < K, other=0)
    inside = (k < K) & (n < N)
    x = tl.load(x_ptr + rows * N + n, mask=inside if LOAD == "inside" else k < K, other=0.0)
    tl.store(y_ptr + k * N + n, x, mask=inside if STORE == "inside" else n < N)


def gather(x, index, LOAD="inside", STORE="inside"):
    K, N = index.numel(), x.shape[1]
    assert N <= 16
    gathered[(triton.cdiv(K, 16),)](x, index, torch.empty(K, N), K, N, BLOCK=16, LOAD=LOAD, STORE=STORE)


@pytest.mark.parametrize("settings, op, shapes", [
    ({"LOAD": "rows alone"}, "load", [(1, 1), (1,)]),
    ({"STORE": "columns alone"}, "store", [(1, 1), (1,)]),
])  # fmt: skip
def test_a_missing_mask_beside_loaded_indices_is_refuted_with_indices_of_0(settings, op, shapes):
    x, index = torch.randn(30, 9), torch.arange(0, 30, 3)
    claim = counterexample(gather, x, index, **settings)
    assert (claim.op, claim.shapes) == (op, shapes)
    assert counterexample(gather, x, index) is None and prove(gather, x, index).outcome == "not decided"


@triton.jit
def part_of_a_column(x_ptr, part_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    part, n = tl.program_id(0), tl.arange(0, BLOCK)[None, :]
    m = part * ROWS + tl.arange(0, ROWS)[:, None]
    x = tl.load(x_ptr + m * N + n, mask=(m < M) & (n < N), other=0.0)
    tl.store(part_ptr + part * N + n, tl.sum(x, 0)[None, :], mask=n < N)


def parts(x):
    """A buffer of P rows, as many as there are programs: for some sizes P is N, for others 1."""
    (M, N), ROWS = x.shape, 4
    assert N <= 8
    P = triton.cdiv(M, ROWS)
    part_of_a_column[(P,)](x, torch.empty((P, N)), M, N, ROWS=ROWS, BLOCK=triton.next_power_of_2(N))


def test_numbers_of_a_shape_that_are_equal_for_some_sizes_are_two():
    proof = prove(parts, torch.randn(18, 7))
    assert proof and proof.complete and len(proof.launches) >= 4


def test_products_that_no_tensor_has_are_no_way_through_the_host_code():
    proof = prove(scale, torch.randn(5, 7))  # the number of all elements fits into 32 bits
    assert proof and proof.complete and not proof.unseen and len(proof.launches) == 1


@triton.jit
def triangle(x_ptr, y_ptr, N, BLOCK: tl.constexpr, HOW: tl.constexpr):
    """Row m adds up its first m + 1 numbers; blocks before `whole` need no mask."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sees = N - tl.maximum(N - m - 1, 0) if HOW == "falls" else tl.minimum(m + 1, N)
    first, stop = tl.min(sees, 0), tl.max(sees, 0)
    whole = (tl.min(sees * sees, 0) if HOW == "a square" else first) // BLOCK * BLOCK
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, whole, BLOCK):
        n = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + m[:, None] * N + n[None, :], mask=(m < N)[:, None], other=0.0), 1)
    for start in range(whole, stop, BLOCK):
        n = start + tl.arange(0, BLOCK)
        seen = (m < N)[:, None] & (n[None, :] < sees[:, None])
        total += tl.sum(tl.load(x_ptr + m[:, None] * N + n[None, :], mask=seen, other=0.0), 1)
    tl.store(y_ptr + m, total, mask=m < N)


def row_sums(x, HOW):
    N = x.shape[0]
    assert x.shape[1] == N
    triangle[(triton.cdiv(N, 16),)](x, torch.empty(N), N, BLOCK=16, HOW=HOW)


@pytest.mark.parametrize("how, outcome", [
    ("rises", "proved"),
    ("falls", "proved"),
    ("a square", "not decided"),  # of a product nobody knows whether it rises
])  # fmt: skip
def test_the_least_of_some_lanes_is_the_first_or_the_last_where_they_rise_or_fall(how, outcome):
    assert prove(row_sums, torch.randn(40, 40), HOW=how).outcome == outcome


@triton.jit
def of_heads(x_ptr, y_ptr, strides, H, N, D: tl.constexpr, BLOCK: tl.constexpr, HOW: tl.constexpr):
    """Row sums of heads of (1, H, N, D), some rows for each program: a program's number is divided twice."""
    tiles = tl.cdiv(N, BLOCK)
    tile, head = tl.program_id(0) % tiles, tl.program_id(0) // tiles
    n = tile * BLOCK + tl.arange(0, BLOCK)
    x_ptr += (head // H) * strides[0] + (head % H) * strides[1]
    rows = n <= N if HOW == "one row too many" else n < N
    at = n[:, None] * strides[2] + tl.arange(0, D)[None, :] * strides[3]
    x = tl.load(x_ptr + at, mask=rows[:, None], other=0.0)
    tl.store(y_ptr + (0 if HOW == "one head" else head) * N + n, tl.sum(x, 1), mask=n < N)


def head_sums(x, HOW="right"):
    y, x = torch.empty(x.shape[:-1]), x[None]
    B, H, N, D = x.shape
    assert D == 8
    of_heads[(triton.cdiv(N, 16) * B * H,)](x, y, x.stride(), H, N, D=D, BLOCK=16, HOW=HOW)


@pytest.mark.parametrize("how, wrong", [
    ("right", set()),
    ("one row too many", {("load", INSIDE, 2)}),
    ("one head", {("store", ALONE, 3)}),
])  # fmt: skip
def test_strides_in_a_tuple_are_followed_and_so_is_a_head_s_number(how, wrong):
    """The last of them is a constant of the kernel, and no number of the launch."""
    proof = prove(head_sums, torch.randn(3, 20, 8), HOW=how)
    assert {(op, about, sizes["H"] + sizes["N"]) for op, about, sizes, _ in refuted(proof)} == wrong
    assert bool(proof) == (not wrong)


def lost(x):
    """The grid has lost its formula."""
    return scale(x, grid=lambda n, block: int(n) // 32, LOAD="none")


def test_what_is_not_followed_is_no_constant():
    proof = prove(lost, torch.randn(96))
    assert proof.outcome == "not decided" and not refuted(proof)


def test_a_part_of_a_tensor_is_proved_but_not_refuted():
    assert prove(lambda x: scale(x[1:]), torch.randn(96)).outcome != "counterexample"
    proof = prove(lambda x: scale(x[1:], LOAD="none"), torch.randn(96))
    assert proof.outcome == "not decided" and not refuted(proof)


def test_examples_of_modules_that_are_not_public():
    names = {
        "symbol": formulas.symbol,
        "both": formulas.both,
        "at_most": formulas.at_most,
        "at_least": formulas.at_least,
        "smaller": formulas.smaller,
        "of": formulas.of,
        "Symbol": formulas.Symbol,
        "direction": formulas.direction,
    }
    for module in (formulas, sizes):
        assert doctest.testmod(module, extraglobs=names).failed == 0


@pytest.mark.parametrize("counters, outcome", [(8, "proved"), (3, "counterexample")])
def test_a_buffer_of_which_no_number_says_its_size_keeps_that_of_the_script(counters, outcome):
    with as_on_a_gpu(), sized_launches(SizedShapes(literals=True)) as launcher:
        x, c = torch.randn(1200), torch.zeros(counters)
        counted[(triton.cdiv(1200, 128),)](x, c, 1200, G=4, BLOCK=128)
    (launch,) = proof_of(launcher.launches).launches
    assert {claim.outcome for claim in launch.claims if claim.tensor == "c_ptr"} == {outcome}
    assert f"c_ptr.shape[0] == {counters}" in launch.domain


@pytest.mark.parametrize("factor", [1, 2, 3, -1, -2, -3])
@pytest.mark.parametrize("kind", ["<=", "=="])
def test_a_power_of_two_against_a_number_is_between_bounds(kind, factor):
    n = formulas.symbol("n")
    for constant in range(-20, 21):
        formula = factor * formulas.power_of_two(n) + constant
        _, low, high = _of_a_power(formula, kind)
        for number in range(1, 40):
            value = factor * triton.next_power_of_2(number) + constant
            between = (low is None or number >= low) and (high is None or number <= high)
            assert between == (value <= 0 if kind == "<=" else value == 0)


def copied_by_rows(x):
    """Some rows for each program, so many as fit into a block of 4,096."""
    y, columns = torch.empty(x.shape), triton.next_power_of_2(x.shape[1])
    rows = max(1, 4096 // columns)
    row_tiles[(triton.cdiv(x.shape[0], rows),)](x, y, *x.shape, ROWS=rows, COLUMNS=columns)
    return y


@triton.jit
def row_tiles(x_ptr, y_ptr, M, N, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    at = rows[:, None] * N + columns[None, :]
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=mask), mask=mask)


def test_each_block_of_rows_is_proved_with_sizes_that_differ():
    """A result's shape knows which size it has, though some of the sizes that are tried could be equal; z3 is asked of bounds alone."""
    proof = prove(copied_by_rows, torch.randn(128, 512))
    assert proof.outcome == "proved", [claim.because for launch in proof.launches for claim in launch.claims]
    assert len(proof.launches) >= 10


def scaled_by_len(x, LOAD):
    scaled[(triton.cdiv(len(x), 32),)](x, torch.empty(len(x)), len(x), BLOCK=32, LOAD=LOAD, STORE="each")


def test_the_length_of_a_tensor_is_a_size():
    assert prove(scaled_by_len, torch.randn(96), "inside")
    assert refuted(prove(scaled_by_len, torch.randn(96), "none")) == [("load", INSIDE, {"n": 1}, "out of bounds")]


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=[])
@triton.jit
def tuned(x_ptr, y_ptr, n, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (i < n) | (BLOCK > LARGEST)
    tl.store(y_ptr + i, 2 * tl.load(x_ptr + i, mask=i < n), mask=inside)


def scaled_by_a_tuned_kernel(x, LARGEST):
    n = x.numel()
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, torch.empty_like(x), n, LARGEST)


def test_each_configuration_of_an_autotuned_kernel_is_proved():
    proof = prove(scaled_by_a_tuned_kernel, torch.randn(96), 64)
    assert proof and {launch.grid for launch in proof.launches} == {"(cdiv(n, 32),)", "(cdiv(n, 64),)"}
    assert refuted(prove(scaled_by_a_tuned_kernel, torch.randn(96), 32)) == [
        ("store", INSIDE, {"n": 1}, "out of bounds")
    ]


@triton.jit
def row_shares(x_ptr, y_ptr, M, N, each, BLOCK: tl.constexpr):
    first = tl.program_id(0) * each
    for row in range(first, min(M, first + each)):
        at, inside = row * N + tl.arange(0, BLOCK), tl.arange(0, BLOCK) < N
        tl.store(y_ptr + at, tl.load(x_ptr + at, mask=inside), mask=inside)


def copied_in_shares(x):
    (M, N), y = x.shape, torch.empty_like(x)
    assert N <= 64 and M > 256
    each = triton.cdiv(M, 256)
    row_shares[(triton.cdiv(M, each),)](x, y, M, N, each, BLOCK=64)


class WithoutProducts(solver.Translation):
    """Gives up where a product of sizes would have to be known."""

    def ask(self, conditions, effort=solver.EFFORT):
        return super().ask(conditions, effort) if self.linear else (None, None)


def test_shares_that_depend_on_a_size_lie_inside_whatever_products_are(monkeypatch):
    monkeypatch.setattr(decide, "Translation", WithoutProducts)
    proof = prove(copied_in_shares, torch.randn(600, 40))
    assert {o for (_, about), o in outcomes(proof).items() if about == INSIDE} == {"proved"}
    monkeypatch.undo()
    assert prove(copied_in_shares, torch.randn(600, 40))


ASKED = """
import torch, triton, triton.language as tl
from tritontrace.proving import prove, solver

@triton.jit
def rows(x_ptr, y_ptr, M, N, stride, BLOCK: tl.constexpr):
    i, j = tl.program_id(0) * 4 + tl.arange(0, 4)[:, None], tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (i < M) & (j < N)
    tl.store(y_ptr + i * stride + j, tl.load(x_ptr + i * N + j, mask=inside), mask=inside)

def copied(x):
    M, N = x.shape
    y = torch.empty_like(x)
    rows[(triton.cdiv(M, 4), triton.cdiv(N, 32))](x, y, M, N, y.stride(0), BLOCK=32)

asked, ask = [], solver.Translation.ask
def listed(self, conditions, *effort):
    asked.append(repr(conditions := list(conditions)))
    return ask(self, conditions, *effort)
solver.Translation.ask = listed
print(prove(copied, torch.ones(5, 70)).outcome, *asked, sep="\\n")
"""


def test_what_one_proof_asks_z3_says_nothing_to_another():
    one, other = (solver.Translation(True, {})._number("n") for _ in range(2))
    assert one.ctx is not other.ctx


def test_a_proof_asks_the_same_in_each_process(tmp_path):
    """Python's hashes differ from one process to the next, and z3 may give up on what is asked in another order."""
    script = tmp_path / "asked.py"
    script.write_text(ASKED)
    first, second = (
        subprocess.run(
            [sys.executable, script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    )
    assert first.startswith("proved\n") and "program_id" in first
    assert first == second
