"""A small input for which a kernel reaches outside a tensor: of sizes that the exercise asks about, and seen in a call."""

import pytest
import torch
import triton
import triton.language as tl

pytest.importorskip("z3")

from course_lib.execution import asked_sizes, smallest
from course_lib.execution.calls import CALLS
from course_lib.exercise import Case
from course_lib.exercises import find
from grader.published import answer, published, solution_cell
from tritontrace.proving import prove
from tritontrace.replay import load


def cases(*shapes):
    """Cases of x and y, by the shapes of both."""
    return [
        Case(str(pair), "plain", lambda g, pair=pair: dict(zip("xy", map(torch.empty, pair), strict=True)))
        for pair in shapes
    ]


def test_sizes_are_free_where_a_case_is_ragged_and_otherwise_those_of_the_cases():
    some = cases(((64, 16), (64, 16)), ((130, 32), (6, 32)), ((20, 16), (20, 16)))
    arguments = asked_sizes.example(some)
    assert asked_sizes.sizes(arguments) == {("x", 0): 130, ("x", 1): 32, ("y", 0): 6, ("y", 1): 32}
    asked = asked_sizes.asked(some, arguments)
    assert asked["free"] == [["x", 0, 20, 2], ["y", 0, 6, 2]]
    assert asked["ordered"] == [["x", 0, "y", 0]]
    assert (asked["fixed"], asked["values"]) == ([["x", 1], ["y", 1]], [[16, 16], [32, 32]])


def test_the_width_of_a_head_is_one_of_those_that_cases_have():
    some = cases(*(((2, n, d), (2, n, d)) for n, d in ((64, 24), (70, 80), (33, 64))))
    asked = asked_sizes.asked(some, asked_sizes.example(some))
    assert [axis[:2] for axis in asked["free"]] == [["x", 1], ["y", 1]]
    assert asked["values"] == [[2, 24, 2, 24], [2, 80, 2, 80], [2, 64, 2, 64]]


@pytest.mark.parametrize(
    "shapes, inside",
    [
        (((22, 16), (6, 16)), True),
        (((21, 16), (6, 16)), False),
        (((18, 16), (6, 16)), False),
        (((22, 16), (24, 16)), False),
        (((22, 64), (6, 64)), False),
        (((22, 16), (6, 32)), False),
    ],
)
def test_a_function_is_called_for_sizes_that_are_asked_about(shapes, inside):
    some = cases(((64, 16), (64, 16)), ((130, 32), (6, 32)), ((20, 16), (20, 16)))
    asked = asked_sizes.asked(some, asked_sizes.example(some))
    limited = asked_sizes.within(asked, lambda x, y: "called")
    arguments = dict(zip("xy", map(torch.empty, shapes), strict=True))
    if inside:
        assert limited(**arguments) == "called"
    else:
        with pytest.raises(ValueError, match="no case"):
            limited(**arguments)


def looked_for(exercise, entry):
    return smallest.looked_for(entry, **smallest.asked_of(find(exercise)))


def changed(exercise, old, new):
    """The published answer with another text in one place."""
    source = solution_cell(exercise)
    assert source.count(old) == 1
    return load(answer(exercise, source.replace(old, new)), find(exercise).entry, on_the_cpu=True)


@pytest.mark.parametrize(
    "exercise, old, new, shapes",
    [
        ("coalescing.column_sum", "mask=(rows < M) & (cols < N)", "mask=cols < N", [["x", [1, 1]]]),
        (
            "flash.one_head",
            "mask=(offs_m < Nq)[:, None], other=0",
            "",
            [["q", [1, 32]], ["k", [1, 32]], ["v", [1, 32]]],
        ),
        (
            "flash.flash_attention_forward",
            "inside & (rows < N)[:, None]",
            "inside & (rows <= N)[:, None]",
            [["q", [1, 1, 32]], ["k", [1, 3, 32]], ["v", [1, 3, 32]]],
        ),
        (
            "flash.flash_attention_forward",
            "whole, stop = tl.min(sees, 0) // BLOCK_N * BLOCK_N",
            "whole, stop = tl.cdiv(tl.min(sees, 0), BLOCK_N) * BLOCK_N",
            [["q", [1, 1, 32]], ["k", [1, 3, 32]], ["v", [1, 3, 32]]],
        ),
        (
            "flash_backward.delta",
            "o = load_rows(o_ptr, o_strides, batch, head, offs_m, N,",
            "o = load_rows(o_ptr, o_strides, batch, head, offs_m, N + 1,",
            [["o", [2, 50, 128]], ["do", [2, 50, 128]]],
        ),
        (
            "flash_backward.dkdv",
            "lse = tl.load(lse_ptr + offs_m, mask=offs_m < Nq, other=0.0)",
            "lse = tl.load(lse_ptr + offs_m)",
            [[name, [2, 1, 16]] for name in ("q", "k", "v", "do")] + [["lse", [2, 1]], ["delta", [2, 1]]],
        ),
        (
            "flash_backward.dkdv",
            "do = load_rows(do_ptr, do_strides, batch, head, offs_m, Nq, D, BLOCK_D)",
            "do = load_rows(do_ptr, do_strides, batch, head, offs_m, Nq, BLOCK_D, BLOCK_D)",
            [[name, [2, 1, 24]] for name in ("q", "k", "v", "do")] + [["lse", [2, 1]], ["delta", [2, 1]]],
        ),
        (
            "flash_backward.dq",
            "v = load_rows(v_ptr, v_strides, batch, head, offs_n, Nk,",
            "v = load_rows(v_ptr, v_strides, batch, head, offs_n, Nk + 1,",
            [[name, [2, 1, 16]] for name in ("q", "k", "v", "do")] + [["lse", [2, 1]], ["delta", [2, 1]]],
        ),
    ],
)
def test_a_missing_mask_is_told_by_a_small_input_of_the_exercise(exercise, old, new, shapes):
    found = looked_for(exercise, changed(exercise, old, new))
    assert found and found["shapes"] == shapes and found["op"] == "load"
    assert smallest.read(found).line == found["line"]


def proved(exercise):
    """The proof of the published answer, for all sizes that the exercise asks about."""
    of = smallest.asked_of(find(exercise))
    entry = published(exercise)
    return prove(
        asked_sizes.within(of["sizes"], lambda **given: CALLS[of["called"]](entry, given, str)), **of["arguments"]
    )


@pytest.mark.parametrize(
    "exercise", ["flash.flash_attention_forward", "flash_backward.delta", "flash_backward.dkdv", "flash_backward.dq"]
)
def test_a_published_kernel_with_tuples_of_strides_is_proved(exercise):
    proof = proved(exercise)
    assert proof, [claim.because for launch in proof.launches for claim in launch.claims if claim.outcome != "proved"]
    assert all(launch.claims for launch in proof.launches)


@pytest.mark.parametrize("exercise", ["coalescing.column_sum", "flash.one_head"])
def test_of_a_right_kernel_nothing_is_told(exercise):
    assert looked_for(exercise, published(exercise)) is None


@triton.jit
def kernel(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < N, other=0.0))


def test_what_a_call_does_not_show_is_not_told(monkeypatch):
    """Called once more, the answer masks its store: only what is seen is told."""
    calls = []

    def copied(x):
        y = torch.empty(triton.cdiv(x.numel(), 32) * 32 if calls else x.numel())
        kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
        return y[: x.numel()]

    def recorded(*arguments):
        calls.append(arguments)
        return record(*arguments)

    record = smallest.record
    of = {"arguments": {"x": torch.ones(100)}, "sizes": asked_sizes.asked(one(100, 70), {"x": torch.ones(100)})}
    assert smallest.looked_for(copied, **of, called="", allows=())["shapes"] == [["x", [70]]]
    monkeypatch.setattr(smallest, "record", recorded)
    assert smallest.looked_for(copied, **of, called="", allows=()) is None


def one(*sizes):
    return [Case(str(n), "plain", lambda g, n=n: {"x": torch.ones(n)}) for n in sizes]


@pytest.mark.parametrize(
    "forged",
    [
        {"shapes": [["x", [1]]], "line": 3, "tensor": "x`, and the secret", "op": "load"},
        {"shapes": [["x", ["many"]]], "line": 3, "tensor": "x", "op": "load"},
        {"shapes": [["x", [1]]], "line": 3, "tensor": "x", "op": "another"},
        {"shapes": [["x", [1]]], "tensor": "x", "op": "load"},
    ],
)
def test_what_an_answer_forges_is_not_read(forged):
    with pytest.raises((ValueError, KeyError, TypeError)):
        smallest.read(forged)
