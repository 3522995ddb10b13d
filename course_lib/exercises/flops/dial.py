"""A first kernel with an arithmetic intensity to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import EPS32, GATES, Correct, CostCriterion, Traffic, copy_bytes, roundings
from course_lib.exercise import Case, Effort, Exercise, Finding, Trial
from course_lib.exercises.cases import BF16, FP32
from course_lib.exercises.misconceptions import Misconception
from tritontrace.results import Cause

FACTOR = 0.75


def steps(x: torch.Tensor, n: int) -> torch.Tensor:
    """Compute y = FACTOR * y + x, n times, in float64, beginning with y = x."""
    y = x = x.double()
    for _ in range(n):
        y = FACTOR * y + x
    return y


def one_rounding(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the error bound: a rounding to the result's dtype, doubled, and float32 in the steps, whose errors fade like FACTOR ** k."""
    lasting = 1 / (1 - FACTOR)  # steps' errors, and the largest y / x
    return roundings(expected, dtype, 1) + lasting * EPS32 * lasting * arguments["x"].double().abs()


def multiply_adds(N: int, n: int, dtype: torch.dtype = FP32):
    """Return a function that draws x (N,) and n, the number of steps for each of its elements."""
    return lambda g: {"x": torch.randn(N, generator=g, device=g.device).to(dtype), "n": n}


@dataclass
class FlopsAnElement(CostCriterion):
    """Criterion: two FLOPs for each step of each element, and hardly any more; fewer do not do the steps."""

    missed = say("flops.dial.missed")
    points: float
    group: str = "performance"
    title: str = say("flops.dial.title_made")

    def count(self, group: Sequence[Trial]) -> Finding:
        seen = ""
        for trial in group:
            given = trial.inputs[-1]
            wanted = 2 * given["n"] * given["x"].numel()
            done = sum(launch.flops.total for launch in trial.evidence.launches)
            seen = say("flops.dial.seen", done=done)
            if not wanted <= done <= 1.05 * wanted:
                expected = say("flops.dial.expected", wanted=wanted, case=trial.case.name)
                if done < wanted:  # nothing is wasted
                    cause = Cause("wrong", trial.case.name)
                    return self.lost(seen, expected=expected, detail=say("flops.dial.fewer"), cause=cause)
                return self.lost(seen, expected=expected)
        return self.earned(seen)


def off_by(steps_more: int) -> Any:
    """Make the wrong formula with `steps_more` more steps."""
    return lambda x, n: steps(x, n + steps_more) if n + steps_more >= 0 else None


dial = Exercise(
    id="flops.dial",
    signature="dial(x: (N,), contiguous, n: int) -> (N,): y = 0.75 y + x, n times, beginning with y = x",
    effort=Effort(minutes=15, lines=5, difficulty=2),
    cases=[
        Case("4096 elements, n = 3", "plain", multiply_adds(4096, 3)),
        Case("1 element, n = 1", "ragged", multiply_adds(1, 1)),
        Case("1000 elements, n = 0", "ragged", multiply_adds(1000, 0)),
        Case("5555 elements, n = 5", "ragged", multiply_adds(5555, 5)),
        Case("777 elements, n = 40, bfloat16", "ragged", multiply_adds(777, 40, BF16)),
        Case("65,536 elements, n = 8", "performance", multiply_adds(65536, 8)),
        Case("131,072 elements, n = 16", "performance", multiply_adds(131072, 16)),
    ],
    oracle=steps,
    budget=one_rounding,
    gates=GATES,
    criteria=[Correct("ragged", 3, say("flops.dial.title_ragged")), FlopsAnElement(3), Traffic(copy_bytes, 2)],
    mistakes=[
        Misconception(off_by(-1), say("flops.dial.one_step_too_few"), steps, each=True),
        Misconception(off_by(1), say("flops.dial.one_step_too_many"), steps, each=True),
        Misconception(lambda x, n: FACTOR**n * x.double(), say("flops.dial.x_is_never_added"), steps),
        Misconception(lambda x, n: (1 + FACTOR) ** n * x.double(), say("flops.dial.a_launch_for_each_step"), steps),
    ],
)
