"""Tasks that unit 06's kernels may ask of one student in place of their own."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from course_lib.catalogue import say
from course_lib.exercises.twists import Twist

DIVISORS = (2, 3, 4, 5, 6, 8)  # a temperature makes scores smaller, and what float32 may err with them


def _cooler(n: int) -> Twist:
    return Twist(f"divided by {n}", say("fusion.softmax.asks_divided", n=n), lambda x: torch.softmax(x.double() / n, 1))


def _cooler_loss(n: int) -> Twist:
    return Twist(
        f"divided by {n}",
        say("fusion.cross_entropy.asks_divided", n=n),
        lambda logits, target: F.cross_entropy(logits.double() / n, target, reduction="none").float(),
    )


def _weighed(n: float) -> Twist:
    return Twist(
        f"sine times {n}",
        say("fusion.sin2_plus_cos2.asks_times", n=n),
        lambda x, y: n * x.double().sin().square() + y.double().cos().square(),
    )


SOFTMAXES = [
    *map(_cooler, DIVISORS),
    Twist("powers of 2", say("fusion.softmax.asks_powers_of_2"), lambda x: torch.softmax(x.double() * math.log(2), 1)),
]

TWISTS = {
    "fusion.sin2_plus_cos2": [
        *map(_weighed, (0.5, 0.25, -0.5, -1)),
        Twist(
            "exchanged",
            say("fusion.sin2_plus_cos2.asks_exchanged"),
            lambda x, y: x.double().cos().square() + y.double().sin().square(),
        ),
        Twist(
            "product",
            say("fusion.sin2_plus_cos2.asks_product"),
            lambda x, y: x.double().sin().square() * y.double().cos().square(),
        ),
    ],
    "fusion.softmax": SOFTMAXES,
    "fusion.online_softmax": SOFTMAXES,
    "fusion.cross_entropy": [*map(_cooler_loss, DIVISORS)],
}
