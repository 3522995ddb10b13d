"""Tasks that unit 10's kernels may ask of one student in place of their own."""

from __future__ import annotations

from typing import Any

from course_lib.catalogue import say
from course_lib.exercises.flash_backward.oracles import KeysAndValues, gradient_budget, keys_and_values
from course_lib.exercises.twists import Twist


def _times(n: float) -> Twist:
    def oracle(**arguments: Any) -> KeysAndValues:
        return KeysAndValues(*(n * gradient for gradient in keys_and_values(**arguments)))

    def budget(expected: Any, dtype: Any, arguments: dict[str, Any]) -> Any:
        return abs(n) * gradient_budget(expected / n, dtype, arguments)

    return Twist(f"times {n}", say("flash_backward.dkdv.asks_times", n=n), oracle, {"budget": budget})


TWISTS = {"flash_backward.dkdv_one_head": [*map(_times, (-1, 0.5, -0.5, 2, -2, 4))]}
