"""Tasks that unit 05's kernels may ask of one student in place of their own."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.exercises.tiling.oracles import product
from course_lib.exercises.twists import Twist


def _times(n: float) -> Twist:
    return Twist(f"times {n}", say("tiling.matmul.asks_times", n=n), lambda a, b: n * product(a, b))


PRODUCTS = [
    *map(_times, (-1, 0.5, -0.5, 0.25)),
    Twist("positive parts", say("tiling.matmul.asks_positive_parts"), lambda a, b: product(a, b).clamp_min(0)),
    Twist("absolute values", say("tiling.matmul.asks_absolute_values"), lambda a, b: product(a, b).abs()),
]

TWISTS = {"tiling.one_step": PRODUCTS, "tiling.matmul": PRODUCTS}
