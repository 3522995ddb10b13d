"""Exercises with a forward and a backward half: what is kept between them is read off the log, and believed to nobody."""

import dataclasses
from typing import ClassVar

import pytest
import torch
import triton
import triton.language as tl
from sentences import says

from course_lib.catalogue import say
from course_lib.checking import verdict
from course_lib.criteria import Correct, DotFlops, Launches, NoAtomics, Rereads, Saves, TritonDidTheWork, judge
from course_lib.execution import calls, draw, record_all, replay_all, trials
from course_lib.exercise import Case, Effort, Exercise

N = 200


def inputs(g):
    return {"x": torch.rand(N, generator=g) + 0.5, "scale": 3.0, "dy": torch.randn(N, generator=g)}


def oracle(x, scale, dy):
    x, dy = x.double(), dy.double()
    return scale * x**3, 3 * scale * x**2 * dy


cube = Exercise(
    "toy.cube", "Cube.apply(x, scale)", Effort(1, 1, 1),
    cases=[Case("200", "plain", inputs)],
    oracle=oracle,
    called="forward and backward",
    budget=lambda expected, dtype, arguments: 1e-5 * expected.abs() + 1e-6,
    gates=[TritonDidTheWork(), Correct("plain")],
    criteria=[
        Saves(lambda x, scale, dy: 0, 2, "nothing kept", group="plain"),
        Launches(1, 1, group="plain", phase=0),
        Launches(1, 1, group="plain", phase=1),
        NoAtomics(1, group="plain"),
        Rereads("x", lambda x, scale, dy: 2, 1, "x read once each way", group="plain", programs=0),
    ],
)  # fmt: skip


@triton.jit
def forward_kernel(x_ptr, y_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, scale * x * x * x, mask=i < n)


@triton.jit
def backward_kernel(x_ptr, dy_ptr, dx_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0.0)
    tl.store(dx_ptr + i, 3 * scale * x * x * dy, mask=i < n)


@triton.jit
def slope_kernel(x_ptr, slope_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(slope_ptr + i, 3 * scale * x * x, mask=i < n)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(a_ptr + i, mask=i < n, other=0.0), tl.load(b_ptr + i, mask=i < n, other=0.0)
    tl.store(c_ptr + i, a * b, mask=i < n)


@triton.jit
def atomic_kernel(x_ptr, dy_ptr, dx_ptr, n, scale, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0) + 0 * tl.load(x_ptr + i, mask=i < n, other=0.0)
    dy = tl.load(dy_ptr + i, mask=i < n, other=0.0)
    tl.atomic_add(dx_ptr + i, 3 * scale * x * x * dy, mask=i < n)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        y = torch.empty_like(x)
        forward_kernel[(2,)](x, y, x.numel(), scale, BLOCK=128)
        return y

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        backward_kernel[(2,)](x, dy, dx, x.numel(), ctx.scale, BLOCK=128)
        return dx, None


class KeepsTheSlope(Cube):
    """Hidden in a plain attribute, where no hook of autograd's sees it."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.slope, y = torch.empty_like(x), torch.empty_like(x)
        slope_kernel[(2,)](x, ctx.slope, x.numel(), scale, BLOCK=128)
        forward_kernel[(2,)](x, y, x.numel(), scale, BLOCK=128)
        return y

    @staticmethod
    def backward(ctx, dy):
        dx = torch.empty_like(dy)
        product_kernel[(2,)](ctx.slope, dy, dx, dy.numel(), BLOCK=128)
        return dx, None


class Atomic(Cube):
    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dx = torch.zeros_like(x)
        atomic_kernel[(2,)](x, dy, dx, x.numel(), ctx.scale, BLOCK=128)
        return dx, None


def as_a_function(x, scale):
    return Cube.apply(x, scale)


def lost(found):
    return [f.title for f in found.findings if not f.passed and f.judged]


@pytest.mark.parametrize(
    "entry, expected",
    [
        (Cube, []),
        (as_a_function, []),
        (KeepsTheSlope, ["nothing kept", "one launch forward"]),
        (Atomic, ["no atomics: the same bits in every run", "x read once each way"]),
    ],
)
def test_each_criterion_sees_its_own(entry, expected):
    assert lost(verdict(cube, entry)) == expected


def test_what_was_kept_is_named():
    (finding,) = [f for f in verdict(cube, KeepsTheSlope).findings if f.title == "nothing kept"]
    kept = say("criteria.saves.tensor", shape=(200,), bytes=800)
    assert says(finding.seen, "criteria.saves.kept", bytes=800) and says(
        finding.detail, "criteria.saves.reads", tensors=[kept]
    )


def test_reading_twice_names_the_lines():
    (finding,) = [f for f in verdict(cube, Atomic).findings if f.title == "x read once each way"]
    assert (
        says(finding.seen, "criteria.reads.too_often", tensor="x", times=3) and "line 3 `x = tl.load" in finding.detail
    )


class Wrong(Cube):
    @staticmethod
    def backward(ctx, dy):
        return Cube.backward(ctx, dy)[0] * 2, None


def test_a_wrong_gradient_is_the_second_output():
    found = verdict(dataclasses.replace(cube, allows=frozenset(["mul"])), Wrong)
    (finding,) = [f for f in found.findings if not f.passed and f.judged]
    assert finding.seen.parameters["part"].startswith("result 2 ")


def forged(entry, move):
    """Findings on a log whose mark was moved: move(events) -> events."""
    recorded, fresh = draw(cube, cube.cases, 1)
    (log,) = record_all(entry, recorded, called=cube.called)
    for call in log["calls"]:
        call["events"] = move(call["events"])
    trees = replay_all([log], fresh, ["200"], kernel=True)
    return judge(cube, trials(cube.cases, fresh, trees))


def marks_last(events):
    return [e for e in events if "mark" not in e] + [e for e in events if "mark" in e]


def marks_first(events):
    return [e for e in events if "mark" in e] + [e for e in events if "mark" not in e]


def marks_never(events):
    return [e for e in events if "mark" not in e]


def marks_twice(events):
    return [*marks_last(events), {"mark": "backward"}]


@pytest.mark.parametrize("move", [marks_last, marks_first, marks_never, marks_twice])
def test_a_forged_border_saves_nothing(move):
    assert "nothing kept" in [f.title for f in forged(KeepsTheSlope, move).findings if not f.passed]
    assert lost(forged(Cube, lambda events: events)) == []


def test_inputs_may_be_used_both_ways_and_dy_as_a_name_means_nothing_elsewhere():
    """A plain function with a parameter dy has no halves."""
    plain = dataclasses.replace(cube, called="", criteria=[Correct("plain", 1)], oracle=lambda **a: oracle(**a)[1])

    def backward(x, scale, dy):
        dx = torch.empty_like(x)
        backward_kernel[(2,)](x, dy, dx, x.numel(), scale, BLOCK=128)
        return dx

    assert lost(verdict(plain, backward)) == []


def test_gradients_of_several_outputs_and_of_views():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x + 1, x.sum()

        @staticmethod
        def backward(ctx, dy, dsum):
            return dy + dsum, None

    x = torch.arange(6.0).reshape(2, 3).T
    marked = []
    out, total, dx = calls.forward_and_backward(
        Two, {"x": x, "k": 2, "dy": [torch.ones(3, 2), torch.tensor(10.0)]}, lambda: marked.append(1)
    )
    assert torch.equal(out, x + 1) and total == 15 and torch.equal(dx, torch.full((3, 2), 11.0)) and marked == [1]
    assert not out.requires_grad


@pytest.mark.parametrize("shared", ["no", "first", "last", "queue"])
def test_other_applications_change_no_gradient_but_that_of_shared_state(shared):
    class Kept(torch.autograd.Function):
        seen: ClassVar[list[int]] = []

        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            Kept.seen.append(k)
            return k * x

        @staticmethod
        def backward(ctx, dy):
            return {"no": ctx.k, "first": Kept.seen[0], "last": Kept.seen[-1], "queue": Kept.seen.pop(0)}[
                shared
            ] * dy, None

    x, dy = torch.ones(2), torch.ones(2)
    found = calls.forward_and_backward(Kept, {"between": [x, 5], "x": x, "k": 3, "dy": dy}, lambda: None)
    assert found[1].tolist() == ([3, 3] if shared == "no" else [5, 5])


@triton.jit
def dot_kernel(a_ptr, c_ptr, N: tl.constexpr):
    i = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + i)
    tl.store(c_ptr + i, tl.dot(a, a, input_precision="ieee"))


@pytest.mark.parametrize("allowed, passes", [(2 * 16**3, True), (2 * 16**3 - 1, False)])
def test_dot_flops_are_counted(allowed, passes):
    square = Exercise(
        "toy.square", "square(a)", Effort(1, 1, 1),
        cases=[Case("16", "plain", lambda g: {"a": torch.randn(16, 16, generator=g)})],
        oracle=lambda a: a.double() @ a.double(),
        budget=lambda expected, dtype, arguments: 1e-4 + 0 * expected.abs(),
        gates=[Correct("plain")],
        criteria=[DotFlops(lambda a: allowed, lambda a: 2 * 16**3, 1, "no dot too many", group="plain")],
    )  # fmt: skip

    def entry(a):
        c = torch.empty_like(a)
        dot_kernel[(1,)](a, c, N=16)
        return c

    assert lost(verdict(square, entry)) == ([] if passes else ["no dot too many"])
