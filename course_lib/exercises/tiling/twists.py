"""Tasks that unit 05's kernels may ask of one student in place of their own."""

from __future__ import annotations

from course_lib.exercises.tiling.oracles import product
from course_lib.exercises.twists import Twist


def _times(n: float) -> Twist:
    return Twist(f"times {n}", f"`c = {n} * (a @ b)`, multiplied in float32.", lambda a, b: n * product(a, b))


PRODUCTS = [
    *map(_times, (-1, 0.5, -0.5, 0.25)),
    Twist(
        "positive parts",
        "`c = max(a @ b, 0)`, element by element, in float32.",
        lambda a, b: product(a, b).clamp_min(0),
    ),
    Twist("absolute values", "`c = abs(a @ b)`, element by element, in float32.", lambda a, b: product(a, b).abs()),
]

TWISTS = {"tiling.one_step": PRODUCTS, "tiling.matmul": PRODUCTS}
