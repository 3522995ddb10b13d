"""A kernel as an operator of torch: what autograd, fake tensors and torch.compile must be told."""

from __future__ import annotations

from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, GATES, Launches, Saves, correct, roundings
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import BF16, FP32, operations
from course_lib.exercises.misconceptions import Misconception
from course_lib.workloads.gradients import dotted
from tritontrace.results import described


def normed(M: int, N: int, dtype: torch.dtype = FP32, fake: bool = False):
    """Return a function that draws x (M, N), weight (N,), fake (whether the operator is also called on fake tensors), and dy."""

    def draw(g: torch.Generator) -> dict[str, Any]:
        x, dy = (torch.randn(M, N, generator=g, device=g.device).to(dtype) for _ in range(2))
        return {
            "x": x,
            "weight": (1 + torch.randn(N, generator=g, device=g.device) / 2).to(dtype),
            "fake": fake,
            "dy": dy,
        }

    return draw


def with_gradients(x, weight, fake: bool, dy) -> tuple[Any, ...]:
    """Compute (y, dx, dweight) in float64 and, with `fake`, the shape that the operator must return for fake tensors."""
    with torch.enable_grad():
        leaves = [t.double().detach().requires_grad_() for t in (x, weight)]
        y = leaves[0] * torch.rsqrt(leaves[0].square().mean(-1, keepdim=True) + 1e-6) * leaves[1]
        found = (y.detach(), *torch.autograd.grad(dotted(y, dy), leaves))
    return (*found, *(number for like in (x, x, weight) for number in described(like)), 0) if fake else found


def norm_budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: a rounding of the result, and sums in float32, along a row, or of a column down all rows."""
    x, weight, dy = (arguments[name].double() for name in ("x", "weight", "dy"))
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    error = (2 * sum(x.shape) ** 0.5 + 8) * EPS32
    if expected.dim() == 1:
        return roundings(expected, dtype, 1) + error * (dy * x * rstd).abs().sum(0)
    size = (weight * rstd * dy).abs() + (x * rstd**3).abs() * (dy * weight * x).abs().mean(-1, keepdim=True)
    return roundings(expected, dtype, 1) + error * (size + (x * rstd * weight).abs())


def without(name: str) -> Any:
    """Make the wrong formula of a gradient without one of dy, weight."""

    def wrong(x, weight, fake: bool, dy) -> tuple[Any, ...]:
        return with_gradients(x, weight, False, torch.ones_like(dy) if name == "dy" else dy)

    return wrong


operator_norm = Exercise(
    id="training.operator_norm",
    signature="operator_norm(x: (M, N), weight: (N,)) -> (M, N), an operator of torch with a fake and a backward",
    called="as an operator",
    effort=Effort(minutes=20, lines=20, difficulty=3),
    cases=[
        Case("8 x 32", "plain", normed(8, 32)),
        Case("13 x 40", "ragged", normed(13, 40)),
        Case("1 x 7", "ragged", normed(1, 7)),
        Case("20 x 64, bfloat16", "ragged", normed(20, 64, BF16)),
        Case("6 x 24, without data, too", "fake", normed(6, 24, fake=True)),
        Case("5 x 16, bfloat16, without data, too", "fake", normed(5, 16, BF16, fake=True)),
        Case("256 x 128", "performance", normed(256, 128)),
    ],
    oracle=with_gradients,
    budget=norm_budget,
    allows=operations("_to_copy clone"),
    gates=GATES,
    criteria=[
        *correct("training.operator_norm", {"ragged": 2, "fake": 3}),
        Saves(lambda x, **_: 4 * x.shape[0], 1, say("training.operator_norm.title_saves")),
        Launches(1, 1, phase=0, programs=8),
        Launches(2, 1, phase=1),
    ],
    mistakes=[
        lambda trials: (
            say("training.operator_norm.none_for_the_weight")
            if any(
                isinstance(out, list) and len(out) > 2 and out[0] is not None and out[2] is None
                for t in trials
                for out in t.evidence.outputs
            )
            else ""
        ),
        lambda trials: (
            say("training.operator_norm.a_fake_of_another_shape")
            if any(
                isinstance(out, list) and len(out) > 3 and -1 not in out[3:-1] and out[-1]
                for t in trials
                if t.case.group == "fake"
                for out in t.evidence.outputs
            )
            else ""
        ),
        lambda trials: (
            say("training.operator_norm.an_autograd_function_no_operator")
            if any(
                isinstance(out, list) and len(out) > 3 and list(out[3:]) != list(with_gradients(**call)[3:])
                for t in trials
                if t.case.group == "fake"
                for call, out in t.calls
            )
            else ""
        ),
        Misconception(without("dy"), say("training.operator_norm.the_gradient_of_a_sum"), with_gradients, place=1),
    ],
)
