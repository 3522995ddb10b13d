"""Proofs against traces of every small size: what is proved has no fault in any, and a counterexample is the smallest that has one."""

from itertools import product

import pytest
import torch
import triton
import triton.language as tl

pytest.importorskip("z3")

from tritontrace import KernelError, KernelFault, trace
from tritontrace.proving import prove

UP_TO = 11  # each size, so that several blocks of 4, ragged and not, are there


@triton.jit
def copied_tile(x_ptr, y_ptr, M, N, B: tl.constexpr, HOW: tl.constexpr):
    m = tl.program_id(0) * B + tl.arange(0, B)[:, None]
    n = tl.program_id(1) * B + tl.arange(0, B)[None, :]
    inside = (m < M) & (n < N)
    if HOW == "rows alone":
        mask = (m < M) & (n >= 0)
    elif HOW == "columns alone":
        mask = (n < N) & (m >= 0)
    elif HOW == "other axes":
        mask = (m < N) & (n < M)
    elif HOW == "one too many":
        mask = (m < M) & (n <= N)
    elif HOW == "or":
        mask = (m < M) | (n < N)
    elif HOW == "product":
        mask = m * N + n < M * N
    else:
        mask = inside
    x = tl.load(x_ptr + m * N + n, mask=inside, other=0.0)
    if HOW == "transposed":
        tl.store(y_ptr + n * M + m, x, mask=mask)
    elif HOW == "stride of the other axis":
        tl.store(y_ptr + m * M + n, x, mask=mask)
    elif HOW == "turned round":
        tl.store(y_ptr + (M - 1 - m) * N + (N - 1 - n), x, mask=mask)
    elif HOW == "turned too far":
        tl.store(y_ptr + (M - m) * N + n, x, mask=mask)
    else:
        tl.store(y_ptr + m * N + n, x, mask=mask)


def tile(x, HOW="right", swapped=False):
    (M, N), B = x.shape, 4
    y = torch.empty(M, N)
    grid = (triton.cdiv(M, B), triton.cdiv(N, B))
    copied_tile[grid[::-1] if swapped else grid](x, y, M, N, B=B, HOW=HOW)


@triton.jit
def summed(x_ptr, y_ptr, M, N, B: tl.constexpr, HOW: tl.constexpr):
    row = tl.program_id(0)
    if HOW == "returns early":  # noqa: SIM102 - one is known when it is compiled, the other when it runs
        if row >= M:
            return
    acc = tl.zeros((B,), tl.float32)
    pointers = x_ptr + row * N + tl.arange(0, B)
    for start in range(0, N // B * B if HOW == "whole blocks" else N, B):
        k = start + tl.arange(0, B)
        if HOW == "unmasked" or HOW == "whole blocks":
            acc += tl.load(pointers)
        elif HOW == "left":
            acc += tl.load(pointers, mask=tl.arange(0, B) < N - start)
        elif HOW == "first block's mask":
            acc += tl.load(pointers, mask=tl.arange(0, B) < N)
        else:
            acc += tl.load(x_ptr + row * N + k, mask=k < N)
        pointers += B
    if HOW == "two rows":
        tl.store(y_ptr + row // 2, tl.sum(acc, 0))
    elif HOW == "odd":  # two programs meet if there is an odd number of rows, and more than one
        tl.store(y_ptr + row % ((M + 1) // 2 * 2 - M % 2), tl.sum(acc, 0), mask=row < M)
    elif HOW == "odd alone":
        tl.store(y_ptr + (row * 2) % (M + 1 - M % 2), tl.sum(acc, 0))
    else:
        tl.store(y_ptr + row, tl.sum(acc, 0))


def row_sums(x, HOW="right", grid=lambda M: M):
    M, N = x.shape
    summed[(grid(M),)](x, torch.empty(M), M, N, B=4, HOW=HOW)


@triton.jit
def walked(x_ptr, y_ptr, M, N, programs, B: tl.constexpr, HOW: tl.constexpr):
    columns = tl.cdiv(N, B)
    tiles = tl.cdiv(M, B) * columns
    for t in range(
        tl.program_id(0),
        tiles + 1 if HOW == "one tile too many" else tiles,
        programs - 1 if HOW == "meets" else programs,
    ):
        m = t // columns * B + tl.arange(0, B)[:, None]
        n = t % columns * B + tl.arange(0, B)[None, :]
        mask = (n < N) & (m >= 0) if HOW == "one tile too many" else (m < M) & (n < N)
        tl.store(y_ptr + m * N + n, tl.load(x_ptr + m * N + n, mask=mask), mask=mask)


def persistent(x, HOW="right"):
    M, N = x.shape
    programs = min(3, triton.cdiv(M, 4) * triton.cdiv(N, 4))
    walked[(programs,)](x, torch.empty(M, N), M, N, 3, B=4, HOW=HOW)


@triton.jit
def grouped(y_ptr, M, N, B: tl.constexpr, GROUP: tl.constexpr, HOW: tl.constexpr):
    pid = tl.program_id(0)
    grid_m, grid_n = tl.cdiv(M, B), tl.cdiv(N, B)
    first = pid // (GROUP * grid_n) * GROUP
    height = GROUP if HOW == "no last group" else min(grid_m - first, GROUP)
    within = pid % (GROUP * grid_n)
    m = (first + within % height) * B + tl.arange(0, B)[:, None]
    n = within // height * B + tl.arange(0, B)[None, :]
    tl.store(y_ptr + m * N + n, m + n, mask=(m < M) & (n < N))


def in_groups(x, HOW="right"):
    M, N = x.shape
    grouped[(triton.cdiv(M, 4) * triton.cdiv(N, 4),)](torch.empty(M, N, dtype=torch.int32), M, N, B=4, GROUP=2, HOW=HOW)


@triton.jit
def looked_up(x_ptr, index_ptr, y_ptr, n, size, B: tl.constexpr, HOW: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    at = tl.load(index_ptr + i, mask=i < n, other=0)
    good = (at >= 0) & (at < size) if HOW == "asked" else at < size
    tl.store(y_ptr + i, tl.load(x_ptr + at, mask=(i < n) & good), mask=i < n)


def gather(x, HOW="asked"):
    n = x.shape[0]
    index = torch.zeros(n, dtype=torch.int64)
    looked_up[(triton.cdiv(n, 4),)](x[:, 0].clone(), index, torch.empty(n), n, n, B=4, HOW=HOW)


@triton.jit
def shared_out(x_ptr, y_ptr, M, N, each, B: tl.constexpr, HOW: tl.constexpr):
    first = tl.program_id(0) * each
    last = first + each + 1 if HOW == "one row more" else first + each
    end = last if HOW == "whole shares" else min(M, last)
    for row in range(first, end):
        for start in range(0, N, B):
            n = start + tl.arange(0, B)
            tl.store(y_ptr + row * N + n, tl.load(x_ptr + row * N + n, mask=n < N), mask=n < N)


def shares(x, HOW="right"):
    """A few programs, with as many rows each as that takes."""
    M, N = x.shape
    each = triton.cdiv(M, 3)
    shared_out[(triton.cdiv(M, each),)](x, torch.empty(M, N), M, N, each, B=4, HOW=HOW)


ZOO = [
    *((tile, {"HOW": how}) for how in (
        "right", "rows alone", "columns alone", "other axes", "one too many", "or", "product", "transposed", "stride of the other axis",
        "turned round", "turned too far",
    )),
    (tile, {"swapped": True}),
    *((row_sums, {"HOW": how}) for how in (
        "right", "unmasked", "whole blocks", "left", "first block's mask", "two rows", "odd", "odd alone",
    )),
    (row_sums, {"grid": lambda M: M + 1}),
    (row_sums, {"grid": lambda M: M + 1, "HOW": "returns early"}),
    (row_sums, {"grid": lambda M: max(1, M - 1)}),
    (row_sums, {"grid": lambda M: int(M)}),
    (row_sums, {"grid": lambda M: int(M) + 1}),
    (row_sums, {"grid": lambda M: 4}),
    *((persistent, {"HOW": how}) for how in ("right", "one tile too many", "meets")),
    *((in_groups, {"HOW": how}) for how in ("right", "no last group")),
    *((gather, {"HOW": how}) for how in ("asked", "not asked")),
    *((shares, {"HOW": how}) for how in ("right", "one row more", "whole shares")),
]  # fmt: skip
NAMES = [f"{function.__name__}, {settings.get('HOW', 'right')}, {n}" for n, (function, settings) in enumerate(ZOO)]


def faults(function, sizes, settings):
    """(kind, line) of what goes wrong for these sizes; None if the host code does not run there."""
    with trace() as found:
        try:
            function(torch.ones(sizes), **settings)
        except KernelFault:
            pass
        except KernelError:
            return set()
    return {(f.kind, f.line) for f in found.faults if f.kind == "out of bounds" or f.between == "stores"}


@pytest.mark.slow
@pytest.mark.parametrize("function, settings", ZOO, ids=NAMES)
def test_proofs_hold_for_every_small_size(function, settings):
    proof = prove(function, torch.ones(10, 7), **settings)
    wrong: dict = {}
    for sizes in product(range(1, UP_TO), repeat=2):
        for fault in faults(function, sizes, settings):
            wrong.setdefault(fault, []).append(sizes)
    claims = [claim for launch in proof.launches for claim in launch.claims]
    for kind, line in wrong:
        about = "inside its tensor" if kind == "out of bounds" else "one program for each element"
        mine = [claim for claim in claims if (claim.about, claim.site.line) == (about, line)]
        refuted = [sum(claim.sizes.values()) for claim in mine if claim.outcome == "counterexample" and claim.smallest]
        sure = all(claim.outcome != "not decided" for claim in mine) and proof.complete
        assert any(claim.outcome != "proved" for claim in mine)
        assert not refuted or not sure or min(refuted) <= min(map(sum, wrong[kind, line]))
    for claim in claims:
        if claim.outcome == "counterexample":
            assert (claim.fault.kind, claim.site.line) in wrong
    assert (proof.outcome == "proved") <= (not wrong)
