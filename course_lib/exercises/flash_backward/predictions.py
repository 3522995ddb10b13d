"""Products of tiles in each pass, predicted."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.catalogue import say
from course_lib.criteria import Correct
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.workloads import torch_attention

Q, K, V, DO = (torch.empty(16, 16) for _ in range(4))


def forward_tile() -> None:
    """Do the products of a tile in the forward pass."""
    (Q @ K.T) @ V


def dkdv_tile() -> None:
    """Do the products of a tile in a kernel for dk and dv."""
    p, dp = Q @ K.T, DO @ V.T
    (p.T @ DO, (p * dp).T @ Q)


def dq_tile() -> None:
    """Do the products of a tile in a kernel for dq."""
    p, dp = Q @ K.T, DO @ V.T
    (p * dp) @ K


def all_at_once() -> None:
    """Do the products of a tile in one kernel for all three gradients."""
    p, dp = Q @ K.T, DO @ V.T
    (p.T @ DO, (p * dp).T @ Q, (p * dp) @ K)


def counted(*tiles: Callable[[], None]) -> int:
    """Count products of 16 x 16 matrices, from torch's count of FLOPs."""
    with FlopCounterMode(display=False) as counter:
        for tile in tiles:
            tile()
    return counter.get_total_flops() // (2 * 16**3)


def costs_counted() -> dict[str, int]:
    """Count the products of each kernel, by the names that the exercise uses."""
    both = counted(forward_tile, dkdv_tile, dq_tile)
    q, k, v = (torch.empty(2, 8, 512, 64, device="meta") for _ in range(3))
    forward = torch_attention.flash_attention_forward(q, k, v)
    return {
        "products of a tile, forward": counted(forward_tile),
        "products of a tile, dkdv": counted(dkdv_tile),
        "products of a tile, dq": counted(dq_tile),
        "products of a tile, if one kernel made all three gradients": counted(all_at_once),
        "FLOPs of forward and backward, divided by B N² D": 2 * both,
        "bytes of lse, 2 x 8 heads of 512 queries": forward[1].nbytes,
    }


costs = Exercise(
    id="flash_backward.costs",
    signature="costs: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=6, difficulty=2),
    cases=[fixed("six numbers", "plain")],
    oracle=costs_counted,
    criteria=[Correct("plain", 3, say("flash_backward.costs.title_plain"))],
)
