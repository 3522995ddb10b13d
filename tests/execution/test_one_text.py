"""The front end is asked once what a kernel means: what a trace evaluated is what is compiled, for every GPU."""

import multiprocessing

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, says

from course_lib.evidence import Evidence
from course_lib.execution import record_all, replay_all, replay_each
from tritontrace.compiled import compile_all, compile_for, ptx_for
from tritontrace.replay import kernels, replay
from tritontrace.replay.wire import from_tree
from tritontrace.tracing import trace
from tritontrace.ttir import printed
from tritontrace.ttir.frontend import TARGET

pytestmark = pytest.mark.usefixtures("compile_every_time")

N = 64


@pytest.fixture
def asked(monkeypatch):
    """How often the front end was asked, in this process and in those that it forks."""
    count, make_module = multiprocessing.Value("i"), printed.make_module

    def counted(*arguments):
        with count:
            count.value += 1
        return make_module(*arguments)

    kernels._rebuild.cache_clear()  # kernels of other tests, about which it was asked there
    monkeypatch.setattr(printed, "make_module", counted)
    return count


@triton.jit
def clipped(x):
    return tl.where(x > 0, x, 0)


@triton.jit
def clip(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, clipped(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


def relu(x):
    out = torch.empty_like(x)
    clip[(triton.cdiv(N, 32),)](x, out, N, BLOCK=32)
    return out


def inputs(dtype):
    return [{"x": torch.randn(N, dtype=dtype)} for _ in range(2)]


@pytest.mark.parametrize("every", [False, True])
def test_once_for_each_set_of_dtypes_and_constants(asked, every):
    cases = [inputs(dtype) for dtype in (torch.float32, torch.float32, torch.float16)]
    logs = record_all(relu, cases)
    assert asked.value == 0
    part = {"logs": logs, "fresh": cases, "names": ["one", "two", "halves"], "kernel": True}
    trees = replay_each([part], 60)[0] if every else replay_all(**part, compile_seconds=60)
    found = [from_tree(Evidence, tree) for tree in trees]
    assert [(evidence.error, evidence.refused, evidence.faults) for evidence in found] == [("", "", [])] * 3
    facts = found[0].compiled
    assert all(fact.accepted for fact in facts) and {fact.gpu for fact in facts} == {"sm_80", "sm_90"}
    assert {case for fact in facts for case in fact.cases} == ({"one", "two", "halves"} if every else {"halves"})
    assert asked.value == 2


def test_once_for_all_gpus_and_ways_to_compile(asked):
    x = torch.zeros(N)
    for gpu in ("sm_80", "sm_90"):
        assert compile_for(clip, x, x, N, BLOCK=64, gpu=gpu).accepted
        assert ptx_for(clip, x, x, N, BLOCK=64, gpu=gpu)
    with trace():
        clip[(1,)](x, x.clone(), N, BLOCK=64)
    assert asked.value == 1


# ------------------------------------------------------------------------------------------- Python at compile time

TIMES = [0]


def at_first():
    TIMES[0] += 1
    return TIMES[0] == 1


if hasattr(triton, "constexpr_function"):  # from Triton 3.6 on
    at_first = triton.constexpr_function(at_first)


@triton.jit
def honest_at_first(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if at_first():
        tl.store(out_ptr + i, tl.load(x_ptr + i))


@pytest.mark.skipif(not hasattr(triton, "constexpr_function"), reason="this Triton runs no Python at compile time")
def test_a_kernel_cannot_answer_twice():
    x, out = torch.randn(N), torch.zeros(N)
    with trace() as t:
        honest_at_first[(1,)](x, out, BLOCK=N)
    assert torch.equal(out, x) and TIMES == [1]
    arguments = {"x_ptr": x, "out_ptr": out, "BLOCK": N}
    jobs = [(t.fronts[0], (), arguments, gpu, *rest) for gpu in ("sm_80", "sm_90") for rest in ((), (False,))]
    whole = [facts for facts in compile_all(jobs, 60) if facts.to_the_end]
    assert [(facts.gpu, facts.store_bits) for facts in whole] == [("sm_80", 32), ("sm_90", 32)]
    assert compile_for(honest_at_first, x, out, BLOCK=N).stores and TIMES == [1]
    # who asked again would be told otherwise
    again = printed.make_module(
        honest_at_first, {"x_ptr": "*fp32", "out_ptr": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": N}, {}, {}, TARGET
    )
    assert "tt.store" in t.fronts[0].text and "tt.store" not in again


# ------------------------------------------------------------------------------------------- a grid without programs


def nothing_to_do(BLOCK):
    def function(x):
        out = torch.zeros_like(x)
        clip[(0,)](x, out, 0, BLOCK=BLOCK)
        clip[(1,)](x, out, N, BLOCK=N)
        return out

    return function


def test_a_launch_of_no_programs_is_compiled_and_not_counted():
    launched = []
    (log,) = record_all(nothing_to_do(32), [inputs(torch.float32)])
    evidence = replay(log, inputs(torch.float32), case="c", launched=launched)
    assert [launch.grid for launch in evidence.launches] == [(1, 1, 1)]
    assert [arguments["BLOCK"] for _, _, arguments, *_ in launched] == [32, N]


def test_a_launch_of_no_programs_that_does_not_compile():
    (log,) = record_all(nothing_to_do(48), [inputs(torch.float32)])
    evidence = replay(log, inputs(torch.float32), case="c")
    assert says(evidence.error, "compiler.refusal.at", kernel="clip")
    assert mentions(evidence.error, "compiler.problem.block_size")
