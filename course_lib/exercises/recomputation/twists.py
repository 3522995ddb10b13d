"""Tasks that unit 07's kernels may ask of one student in place of their own."""

from __future__ import annotations

import torch
from torch.nn.functional import one_hot

from course_lib.catalogue import say
from course_lib.exercises.recomputation.kernels import cross_entropy_backward
from course_lib.exercises.twists import Twist


def _smoothed(percent: int) -> Twist:
    share = percent / 100

    def oracle(x: torch.Tensor, target: torch.Tensor, lse: torch.Tensor, dloss: torch.Tensor) -> torch.Tensor:
        V, sharp = x.shape[1], cross_entropy_backward.oracle(x, target, lse, dloss)
        return sharp + share * dloss.double()[:, None] * (one_hot(target, V) - 1 / V)

    return Twist(
        f"smoothed by {percent} %",
        say("recomputation.cross_entropy_backward.asks_smoothed", share=share, rest=1 - share),
        oracle,
    )


TWISTS = {"recomputation.cross_entropy_backward": [*map(_smoothed, (10, 20, 25, 30, 40, 50))]}
