"""Hints that do not hold, threads that do not wait, configurations that run on what others left: faults; honest ones are none."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing, says

from tritontrace.messages import say
from tritontrace.tracing import KernelError, trace
from tritontrace.ttir.hints import CONTIGUOUS, MULTIPLE, Promise, without
from tritontrace.ttir.ir import Type
from tritontrace.ttir.launching import Site

SIZE = 1 << 15


def faults_of(kernel, *numbers, grid=(1,), n=1001, **options):
    x, o = torch.arange(SIZE, dtype=torch.float32), torch.zeros(SIZE)
    with trace() as t:
        kernel[grid](x, o, n, *numbers, BLOCK=1024, **options)
    return t.faults


# ----------------------------------------------------------------------------------------------------- hints


@triton.jit
def rows_hinted(x_ptr, o_ptr, n, stride, BLOCK: tl.constexpr):
    first = tl.multiple_of(tl.program_id(0) * stride, 16)
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + tl.program_id(0) * BLOCK + i, tl.load(x_ptr + first + i))


def test_a_multiple_that_is_none_and_makes_loads_wider():
    (fault,) = faults_of(rows_hinted, 1031, grid=(3,))
    assert (fault.kind, fault.line) == ("hint", 2)
    facts = {"program": say("trace.program", index=1), "computed": say("trace.hint.number", value=1031, size=16)}
    assert says(fault.sentence, "trace.hint.broken", function="tl.multiple_of", size=16, **facts)
    assert faults_of(rows_hinted, 1040, grid=(3,)) == []


@triton.jit
def one_lane_a_thread(x_ptr, o_ptr, n, stride, BLOCK: tl.constexpr):
    first = tl.multiple_of(tl.program_id(0) * stride, 16)
    i = tl.arange(0, 128)
    tl.store(o_ptr + tl.program_id(0) * BLOCK + i, tl.load(x_ptr + first + i))


def test_a_hint_that_changes_no_access_costs_nothing():
    assert faults_of(one_lane_a_thread, 1031, grid=(3,)) == []


@triton.jit
def neighbours_hinted(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    j = tl.max_contiguous(tl.multiple_of(2 * i, 16), 16)
    tl.store(o_ptr + i, tl.load(x_ptr + j))


@triton.jit
def masks_hinted(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = tl.max_constancy(i < n, 16)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=inside), mask=inside)


@triton.jit
def length_hinted(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    inside = i < tl.multiple_of(tl.minimum(n, 5000), 16)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=inside), mask=inside)


@triton.jit
def assumes(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n > 2000)
    if n > 500:
        tl.store(o_ptr + tl.arange(0, BLOCK), 1.0)


@pytest.mark.parametrize(
    "kernel, id, parameters",
    [
        (
            neighbours_hinted,
            "broken",
            {"computed": say("trace.hint.follow"), "function": "tl.max_contiguous", "size": 16},
        ),
        (masks_hinted, "broken", {"computed": say("trace.hint.differ"), "function": "tl.max_constancy", "size": 16}),
        (length_hinted, "broken", {"computed": say("trace.hint.number", value=1001, size=16)}),
        (assumes, "assume", {}),
    ],
)
def test_other_hints_that_do_not_hold(kernel, id, parameters):
    (fault,) = faults_of(kernel)
    assert fault.kind == "hint" and says(fault.sentence, f"trace.hint.{id}", **parameters)


@triton.jit
def as_tutorials_have_it(x_ptr, o_ptr, n, stride, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * 32 + tl.arange(0, 32)
    kept = tl.max_contiguous(tl.multiple_of(tl.where(rows < n, rows, 0), 32), 32)
    cols = tl.max_contiguous(tl.multiple_of(tl.arange(0, 256), 256), 256)
    pointers = tl.multiple_of(x_ptr + kept[:, None] * stride + cols[None, :], [16, 16])
    tl.store(o_ptr + rows[:, None] * 256 + cols[None, :], tl.load(pointers), mask=(rows < n)[:, None])


def test_what_holds_where_the_compiler_looks_is_kept():
    assert faults_of(as_tutorials_have_it, 256, grid=(2,), n=40) == []


TEXT = """
    %a = arith.addi %b, %c {tt.contiguity = dense<16> : tensor<1xi32>, tt.divisibility = dense<16> : tensor<1xi32>} : tensor<64xi32>
    %p = tt.addptr %a, %b {tt.divisibility = dense<[16, 8]> : tensor<2xi32>} : tensor<8x8x!tt.ptr<f32>>, tensor<8x8xi32>
"""


def promise(value, kind, axis=0):
    return Promise("k", value, kind, axis, 16, Type("i32", (64,)), Site("k", 1, ""), 1)


def test_text_without_promises():
    assert without(TEXT, []) == TEXT
    bare = without(TEXT, [promise("%a", CONTIGUOUS)])
    assert "%a = arith.addi %b, %c {} : " in bare and "dense<[16, 8]>" in bare
    assert "{tt.contiguity = dense<16> : tensor<1xi32>}" in without(TEXT, [promise("%a", MULTIPLE)])
    assert "dense<[1, 8]>" in without(TEXT, [promise("%p", MULTIPLE, axis=0)])


# ----------------------------------------------------------------------------------------------------- threads


@triton.jit
def turned(x_ptr, o_ptr, n, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, 32)[:, None], tl.arange(0, 32)[None, :]
    tl.store(o_ptr + i * 32 + j, tl.load(x_ptr + i * 32 + j))
    if BARRIER:
        tl.debug_barrier()
    tl.store(o_ptr + BLOCK + i * 32 + j, tl.load(o_ptr + j * 32 + i))


def test_a_load_of_what_other_threads_stored():
    (fault,) = faults_of(turned, False)
    assert (fault.kind, fault.between, fault.line) == ("race", "threads", 6)
    stored = say("trace.line", line="3")
    assert says(fault.sentence, "trace.race.threads", element=32, tensor="`o_ptr`", stored=stored, elements=992)
    assert faults_of(turned, True) == []
    assert faults_of(turned, False, num_warps=1) == []  # a warp's threads go step by step


@triton.jit
def one_number(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    tl.store(o_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))))
    tl.store(o_ptr + 1 + tl.arange(0, BLOCK), tl.load(o_ptr))


@triton.jit
def neighbours(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(2):
        tl.store(o_ptr + 1 + i, tl.load(x_ptr + i) + tl.load(o_ptr + i))


@triton.jit
def other_blocks(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    tl.store(o_ptr + tl.arange(0, BLOCK), 1.0)
    for start in range(0, BLOCK, 256):
        tl.store(o_ptr + BLOCK + start + tl.arange(0, 256), tl.load(o_ptr + start + tl.arange(0, 256)))


@triton.jit
def behind_an_atomic(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i))
    tl.atomic_add(o_ptr + 2 * BLOCK, 1.0)  # one thread does it, and nobody asks for the result: no barrier
    tl.store(o_ptr + BLOCK + i, tl.load(o_ptr + BLOCK - 1 - i))


@pytest.mark.parametrize("kernel", [one_number, neighbours, other_blocks, behind_an_atomic])
def test_other_threads_are_other_lanes_and_other_blocks(kernel):
    assert {fault.between for fault in faults_of(kernel)} == {"threads"}


@triton.jit
def own_lanes(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for _ in range(3):
        tl.store(o_ptr + i[None, :], tl.load(o_ptr + i)[None, :] + 1)


@triton.jit
def behind_a_sum(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, x)
    tl.store(o_ptr + BLOCK + i, tl.sum(x) + tl.load(o_ptr + BLOCK - 1 - i))


@pytest.mark.parametrize("kernel", [own_lanes, behind_a_sum])
def test_threads_that_have_their_own_or_have_met(kernel):
    assert faults_of(kernel) == []


# ----------------------------------------------------------------------------------------------------- tuning

TWO = [triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})]


@triton.jit
def adds(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(o_ptr + i % 16, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def doubles(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(o_ptr + i, mask=i < n) * 2 + 1, mask=i < n)


@triton.jit
def takes_a_ticket(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    ticket = tl.atomic_add(o_ptr, 1.0)
    tl.store(o_ptr + 1 + ticket.to(tl.int32) * 45, 1.0)


def tuned(kernel, configs=TWO, start=0.0, **options):
    out, x = torch.full((100,), start), torch.arange(100.0)
    with trace() as t:
        triton.autotune(configs, key=["n"], **options)(kernel)[lambda c: (triton.cdiv(100, c["BLOCK"]),)](x, out, 100)
    assert len(t.launches) == 1
    return t.faults, out


@pytest.mark.parametrize(
    "kernel, start, options",
    [
        (adds, 0.0, {}),
        (adds, 1.0, {"reset_to_zero": ["o_ptr"]}),
        (adds, 0.0, {"reset_to_zero": ["x_ptr"]}),
        (doubles, 1.0, {}),
    ],
)
def test_a_tuned_launch_that_would_leave_other_numbers(kernel, start, options):
    found, out = tuned(kernel, start=start, **options)
    assert {fault.kind for fault in found} == {"tuning"}
    assert found[0].sentence.id == f"trace.tuning.{'no_zeros' if options else 'other_numbers'}"
    with trace():
        alone = torch.full((100,), start)
        kernel[(2,)](torch.arange(100.0), alone, 100, BLOCK=64)
    assert torch.equal(out, alone)  # what is left is one run's


@pytest.mark.parametrize(
    "kernel, start, options",
    [
        (adds, 0.0, {"reset_to_zero": ["o_ptr"]}),
        (adds, 1.0, {"restore_value": ["o_ptr"]}),
        (doubles, 1.0, {"restore_value": ["o_ptr"]}),
        (adds, 0.0, {"configs": TWO[:1]}),  # nothing to choose among
        (adds, 0.0, {"pre_hook": lambda arguments, reset_only=False: arguments["o_ptr"].zero_()}),
        (
            adds,
            0.0,
            {"configs": [triton.Config({"BLOCK": b}, pre_hook=lambda a: a["o_ptr"].zero_()) for b in (64, 128)]},
        ),
    ],
)
def test_a_tuned_launch_that_resets(kernel, start, options):
    assert tuned(kernel, start=start, **options)[0] == []


def test_a_tuned_launch_that_ends_the_second_time():
    (fault,) = tuned(takes_a_ticket)[0]
    assert fault.kind == "tuning" and fault.sentence.id == "trace.tuning.error"
    assert fault.sentence.parameters["error"].startswith("kernel `takes_a_ticket`")


@pytest.mark.parametrize("warps", [0, -4, 3, 48, 2.0, "4"])
def test_a_number_of_warps_that_is_no_power_of_2(warps):
    with refusing("launch.warps.no_power_of_2", KernelError, warps=repr(warps)):
        faults_of(own_lanes, num_warps=warps)
