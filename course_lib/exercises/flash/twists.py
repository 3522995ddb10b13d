"""Tasks that unit 09's kernels may ask of one student in place of their own."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from course_lib.catalogue import say
from course_lib.exercise import ErrorBudget
from course_lib.exercises.flash.oracles import attend, causal_budget, kernel_budget
from course_lib.exercises.twists import Twist

SHARES = (0.5, 0.25, 0.75, 0.125, 0.375, 0.625)  # scores are smaller, and so is what float32 may err


def _scaled(n: float, oracle: Callable[..., Any], budget: ErrorBudget) -> Twist:
    """Make the twist with n times the usual scale. Oracle and budget know a scale of one's own."""

    def with_scale(arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments | {"scale": n / math.sqrt(arguments["q"].shape[-1])}

    return Twist(
        f"scale times {n}",
        say("flash.flash_attention_forward.asks_scale", n=n),
        lambda **arguments: oracle(**with_scale(arguments)),
        {"budget": lambda expected, dtype, arguments: budget(expected, dtype, with_scale(arguments))},
    )


TWISTS = {
    "flash.one_head": [_scaled(n, attend, kernel_budget) for n in SHARES],
    "flash.causal_one_head": [_scaled(n, partial(attend, causal=True), causal_budget) for n in SHARES],
}
