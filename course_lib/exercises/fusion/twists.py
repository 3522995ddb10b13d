"""Tasks that unit 06's kernels may ask of one student in place of their own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib.exercises.twists import Twist

DIVISORS = (2, 3, 4, 5, 6, 8)  # a temperature makes scores smaller, and what float32 may err with them


def _cooler(n: int) -> Twist:
    return Twist(
        f"divided by {n}",
        f"the softmax of `x / {n}` in each row, divided in float32.",
        lambda x: torch.softmax(x.double() / n, 1),
    )


def _cooler_loss(n: int) -> Twist:
    return Twist(
        f"divided by {n}",
        f"the loss of `logits / {n}`, divided in float32.",
        lambda logits, target: F.cross_entropy(logits.double() / n, target, reduction="none").float(),
    )


def _weighed(n: float) -> Twist:
    return Twist(
        f"sine times {n}",
        f"`{n} * sin(x)**2 + cos(y)**2`.",
        lambda x, y: n * x.double().sin().square() + y.double().cos().square(),
    )


SOFTMAXES = [
    *map(_cooler, DIVISORS),
    Twist(
        "powers of 2",
        "`2**x[m, n]` divided by the sum of such powers along the row.",
        lambda x: torch.softmax(x.double() * math.log(2), 1),
    ),
]

TWISTS = {
    "fusion.sin2_plus_cos2": [
        *map(_weighed, (0.5, 0.25, -0.5, -1)),
        Twist(
            "exchanged", "`cos(x)**2 + sin(y)**2`.", lambda x, y: x.double().cos().square() + y.double().sin().square()
        ),
        Twist(
            "product", "`sin(x)**2 * cos(y)**2`.", lambda x, y: x.double().sin().square() * y.double().cos().square()
        ),
    ],
    "fusion.softmax": SOFTMAXES,
    "fusion.online_softmax": SOFTMAXES,
    "fusion.cross_entropy": [*map(_cooler_loss, DIVISORS)],
}
