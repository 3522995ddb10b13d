"""research/attention_backward_overlapped.py is right in every order, and copies of it with a mistake are not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from runs import MANY_ORDERS, module_of
from sampling import first_ones

from tritontrace.compiled import ptx_for
from tritontrace.hopper import ORDERS, Kind, simulate
from tritontrace.hopper.orders import seeds

FILE = Path(__file__).resolve().parents[2] / "research" / "attention_backward_overlapped.py"


def gradients(q, k, v, do, causal):
    """(o, lse, dq, dk, dv) in float32."""
    q, k, v, do = (x.float() for x in (q, k, v, do))
    n, scale = q.shape[-2], q.shape[-1] ** -0.5
    s = q @ k.mT * scale
    if causal:
        s = s.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -torch.inf)
    p, lse = s.softmax(-1), s.logsumexp(-1)
    o = p @ v
    ds = p * (do @ v.mT - (do * o).sum(-1, keepdim=True)) * scale
    return o, lse, ds @ k, ds.mT @ q, p.mT @ do


def in_rows(total, scale):
    """dq of a sum in the order of registers, as `finish` brings it."""
    n, d = total.shape
    tiles = total.reshape(n // 64, d // 64, 8, 4, 8, 4, 2, 2).permute(0, 3, 6, 4, 1, 2, 5, 7)
    return tiles.reshape(n, d) * scale


def run(module, orders, N=256, D=128, causal=False, together=None):
    """(report, whether the gradients are torch's)."""
    g = torch.Generator().manual_seed(N)
    q, k, v, do = (torch.randn(1, 1, N, D, generator=g).half() for _ in range(4))
    o, lse, *rights = gradients(q, k, v, do, causal)
    m = module.block_m(D)
    stats = torch.stack([lse.view(-1, m) * module.LOG2_E.value, (o * do.float()).sum(-1).view(-1, m)], 1).reshape(-1, m)
    total, dk, dv = torch.zeros(N, D), torch.full_like(k, torch.nan), torch.full_like(v, torch.nan)
    locks = torch.zeros(N // m, dtype=torch.int32)
    values = (*module.descriptors(q, k, v, do, stats, total, dk, dv), locks, D**-0.5, N, together or N // 128)
    constants = {"CAUSAL": causal, "DETERMINISTIC": False, "num_warps": 4}
    report = simulate(module.backward[(N // 128,)], *values, **constants, orders=orders)
    found = (in_rows(total, D**-0.5), dk[0, 0].float(), dv[0, 0].float())
    return report, all(float((x - y[0, 0]).abs().max()) < 0.01 for x, y in zip(found, rights, strict=True))


@pytest.fixture
def changed(monkeypatch):
    """A function that makes the module with some of its text replaced."""
    monkeypatch.syspath_prepend(str(FILE.parent))
    return lambda *edits: module_of(FILE, *edits)


@pytest.mark.parametrize("D, causal", first_ones([(64, True), (64, False), (128, False), (128, True)]))
def test_no_false_alarm_and_torchs_numbers(changed, D, causal):
    report, equal = run(changed(), ("lazy",), D=D, causal=causal)
    assert report.right, report.fault
    assert equal
    report, _ = run(changed(), (*ORDERS, *seeds(5)), D=D, causal=causal)
    assert report.right, report.fault


@pytest.mark.slow
def test_no_false_alarm_in_many_orders_of_a_longer_walk(changed):
    for causal in (False, True):
        report, equal = run(changed(), seeds(MANY_ORDERS), N=512, causal=causal)
        assert report.right and equal, report.fault


def offsets_of_barriers(ptx):
    """The offset of each barrier in shared memory."""
    offsets = dict(re.findall(r"add\.s32\s+(%r\d+), %r\d+, (\d+);", ptx))
    return [int(offsets[at]) for at in re.findall(r"mbarrier\.init\S* \[(%r\d+)\]", ptx)]


@pytest.mark.parametrize("D, causal", first_ones([(64, True), (64, False), (128, False), (128, True)]))
def test_no_barrier_shares_memory_with_a_tile(changed, D, causal):
    """Triton gives away the memory of a barrier that is not used after its beginning; then the barriers do not lie side by side."""
    module, q = changed(), torch.zeros(1, 1, 256, D, dtype=torch.bfloat16)
    m = module.block_m(D)
    given = module.descriptors(q, q, q, q, torch.zeros(512 // m, m), torch.zeros(256, D), q, q)
    values = (*given, torch.zeros(256 // m, dtype=torch.int32), 0.1, 256, 2)
    found = offsets_of_barriers(ptx_for(module.backward, *values, CAUSAL=causal, DETERMINISTIC=True, num_warps=4))
    assert len(found) == len(set(found)) >= 12
    assert max(found) - min(found) < 256


def test_barriers_for_turns_that_nobody_takes_are_named(changed):
    """Name what was wrong with this kernel at D 128, full, on a GPU with several processes (its docstring tells)."""
    always = ("    if (\n        CAUSAL or D == 64\n    ):  # turns", "    if D > 0:  # turns")
    module = changed(always, ("TURNS: gl.constexpr = len(exchange) == 4", "TURNS: gl.constexpr = CAUSAL"))
    assert run(module, ("lazy",), causal=True)[0].right
    for order in ORDERS:
        report, equal = run(module, (order,))
        assert equal
        assert report.fault.kind is Kind.UNUSED
        assert report.fault.second.function == "new_barriers"
        assert report.fault.second.caller.source == "exchange += (new_barriers(STAGES, 1),)"


WRONG = {
    "a place is filled while TMA reads it": (("    mbarrier.wait(empty.index(GROUP), (i + 1) & 1)\n", ""), {Kind.OVERWRITTEN}),
    "it is handed over at once": (("            tma.store_wait(1)  # the other", "            # the other"), {Kind.OVERWRITTEN}),
    "TMA is not fenced off": (
        ("store(as_registers_hold(dq))\n    fence_async_shared()\n", "store(as_registers_hold(dq))\n"), {Kind.FENCE}
    ),
    "dQ is added before it is there": (("            mbarrier.wait(full.index(g), i & 1)\n", ""), {Kind.READ_EARLY, Kind.OVERWRITTEN}),
    "dS of the other consumer is not waited for": (
        ("    mbarrier.wait(ds_full.index(i % STAGES), i // STAGES & 1)\n", ""), {Kind.READ_EARLY, Kind.OVERWRITTEN}
    ),
    "k is overwritten while the other consumer reads it": (
        ("    mbarrier.wait(exchange[2], 0)  # both are done with k\n", ""), {Kind.OVERWRITTEN, Kind.READ_EARLY}
    ),
    "a place is never given back": (("            mbarrier.arrive(empty.index(1 - g), pred=i + g > 0)\n    ", "    "), {Kind.DEADLOCK}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_named(changed, name):
    edit, kinds = WRONG[name]
    report, _ = run(changed(edit), ORDERS)
    assert report.fault is not None
    assert report.fault.kind in kinds, report.fault
