"""research/attention_in_turns.py, as far as it goes without a GPU: it compiles for Hopper, its walks meet every query once, shared ones
every key, and the course's simulation of a Hopper GPU finds nothing wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hopper import SHARED_BYTES, compiled_for_hopper
from scripts import imported

from tritontrace.hopper import simulate
from tritontrace.hopper.language import gl, gluon
from tritontrace.testing import assert_no_faults
from tritontrace.tracing import trace


@pytest.fixture(scope="module")
def in_turns():
    with imported("attention_in_turns") as [module]:
        yield module


@pytest.mark.parametrize("D, groups, causal, sharing", [
    (64, 3, False, (None, None)), (64, 3, True, (None, None)),
    (128, 2, False, (None, None)), (128, 2, True, (None, None)), (128, 2, False, (5, 7)),
])  # fmt: skip
def test_the_kernel_fits_on_a_hopper_gpu(in_turns, D, groups, causal, sharing):
    x = torch.empty(1, 2, 512, D, dtype=torch.bfloat16)
    counter = torch.zeros(1, dtype=torch.int32)
    values = (*in_turns.descriptors(x, x, x, x), torch.empty(1, 2, 512), counter, D**-0.5, 512, 2, 2, *sharing)
    kernel = compiled_for_hopper(in_turns.in_turns, *values, C=in_turns.consumers(D), CAUSAL=causal)
    ptx = kernel.asm["ptx"]
    assert kernel.metadata.shared <= SHARED_BYTES
    assert "wgmma.mma_async" in ptx and "cp.async.bulk.tensor" in ptx
    for group in range(groups):  # each waits for its turn, and another one gives it
        assert f"bar.sync {8 + group}, 256" in ptx and f"bar.arrive {8 + group}, 256" in ptx
    assert f"bar.sync {8 + groups}," not in ptx


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("C", [2, 3])
@pytest.mark.parametrize("N, heads, together", [(128, 6, 2), (384, 4, 4), (1024, 3, 1)])
def test_walks_meet_every_query_once_and_all_keys_that_it_sees(in_turns, monkeypatch, N, heads, together, C, causal):
    for name in ("GROUP_M", "BLOCK_N"):  # as plain Python reads them
        monkeypatch.setattr(in_turns, name, getattr(in_turns, name).value)
    walks = [in_turns.walk.fn(at, N, together, C, causal) for at in range(in_turns.walks.fn(N, heads, C))]
    met = []
    for head_row, first, tiles in walks:
        rows = [row for row in range(first, first + C * 64) if 0 <= row < N]
        met += [head_row + row for row in rows]
        assert tiles * 128 >= max(rows) + 1 if causal else tiles * 128 == N
        assert not causal or tiles * 128 <= N
    assert sorted(met) == list(range(heads * N))


def test_heads_that_go_together_divide_all_heads_and_fit_in_l2(in_turns):
    mib = 1 << 20
    assert in_turns.heads_together(512, mib // 4) == 64
    assert in_turns.heads_together(48, mib) == 16
    assert in_turns.heads_together(7, 8 * mib) == 1
    assert in_turns.heads_together(2, 64 * mib) == 1


def test_a_last_round_is_shared_where_that_saves_more_than_it_costs(in_turns):
    assert in_turns.sharing(2048, 128, 132) == (
        68,
        132,
    )  # 16,384 tokens of 16 heads: 66 tiles for each program, not 128
    assert in_turns.sharing(2048, 32, 132) == (68, 132)
    assert in_turns.sharing(2048, 8, 132) == (None, None)  # 1024 tokens: 3 tiles would be saved
    assert in_turns.sharing(2112, 128, 132) == (None, None)  # whole rounds
    assert in_turns.sharing(130, 128, 132) == (None, None)  # nearly one
    assert in_turns.sharing(1, 1, 132) == (None, None)
    assert in_turns.sharing(12, 16, 132) == (12, 48)  # less than one: 4 tiles for each of 48 programs


CASES = [
    (640, 3, 4, 3, 4),
    (640, 1, 7, 5, 7),
    (640, 1, 9, 5, 6),
    (896, 2, 5, 4, 5),
]  # N, heads, programs, shared, sharers


@pytest.mark.parametrize("N, heads, programs, shared, sharers", CASES)
def test_parts_of_shared_walks_meet_every_key_once(in_turns, monkeypatch, N, heads, programs, shared, sharers):
    for name in ("GROUP_M", "BLOCK_N"):
        monkeypatch.setattr(in_turns, name, getattr(in_turns, name).value)
    for name in ("share", "walk", "walks"):
        monkeypatch.setattr(in_turns, name, getattr(in_turns, name).fn)
    tiles, places, whole = {}, [], set()
    for p in range(programs):
        plain = SimpleNamespace(
            program_id=lambda _, p=p: p,
            num_programs=lambda _: programs,
            where=lambda x, a, b: a if x else b,
            maximum=max,
            minimum=min,
        )
        monkeypatch.setattr(in_turns, "gl", plain)
        sizes = (N, heads, 1, shared, sharers)
        at, end = in_turns.begin_and_end.fn(sizes, 2)
        assert end == heads * N // 128 - shared and (at < 0) == (p < sharers)
        while at < 0:
            head_row, first, start, count, o_row = in_turns.work.fn(at, end, sizes, 2, False)
            assert count > 0
            tiles.setdefault(head_row + first, []).extend(range(start, start + count))
            places.append(o_row)
            at += programs
        assert at == p
        for place in range(p, end, programs):
            head_row, first, start, count, o_row = in_turns.work.fn(place, end, sizes, 2, False)
            assert (start, count, o_row) == (0, N // 128, head_row + first)
            whole.add(o_row)
    assert sorted([*tiles, *whole]) == list(range(0, heads * N, 128))
    assert all(sorted(met) == list(range(N // 128)) for met in tiles.values())
    assert len(set(places)) == len(places)
    assert min(places) >= heads * N and max(places) < heads * N + (shared + sharers - 1) * 128


@gluon.jit
def no_turn(ACTION: gl.constexpr, GROUP: gl.constexpr):
    """A turn is an instruction of PTX, which the simulation does not know. It decides when something is done, not what."""
    pass


@gluon.jit
def no_pin():
    pass


@pytest.mark.parametrize("N, heads, programs, shared, sharers", CASES)
def test_the_simulation_finds_nothing_wrong(in_turns, monkeypatch, N, heads, programs, shared, sharers):
    monkeypatch.setattr(in_turns, "turn", no_turn)
    monkeypatch.setattr(in_turns, "pin", no_pin)
    g, rows, D = torch.Generator().manual_seed(N), heads * N, 64
    q, k, v = (torch.randn(1, heads, N, D, generator=g).half() for _ in range(3))
    o, lse = (torch.full((rows + (shared + sharers - 1) * 128, *n), torch.nan) for n in ((D,), ()))
    o = o.half()
    values = (
        *in_turns.descriptors(q, k, v, o),
        lse,
        torch.zeros(1, dtype=torch.int32),
        D**-0.5,
        N,
        heads,
        1,
        shared,
        sharers,
    )
    report = simulate(
        in_turns.in_turns[(programs,)], *values, C=2, CAUSAL=False, num_warps=4, orders=("lazy", "random:3")
    )
    assert report.right, report.fault
    with trace() as traced:
        in_turns.merge[(shared, 8)](o, lse, rows // 128 - shared, shared, sharers, rows, N, D=D, QUERIES=128, ROWS=16)
    assert_no_faults(traced)
    s = q.float() @ k.float().mT * D**-0.5
    assert ((o[:rows].view(q.shape).float() - s.softmax(-1) @ v.float()).abs() <= 2e-3).all()
    assert ((lse[:rows].view(1, heads, N) - s.logsumexp(-1)).abs() <= 1e-4).all()
