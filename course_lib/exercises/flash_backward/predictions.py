"""Products of tiles in each pass, predicted."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.catalogue import say
from course_lib.criteria import Correct
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.mistakes import miscounted
from course_lib.workloads import torch_attention

ALL = "products of a tile, if one kernel made all three gradients"
FLOPS = "FLOPs of forward and backward, divided by B N² D"
LSE = "bytes of lse, 2 x 8 heads of 512 queries"

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
        ALL: counted(all_at_once),
        FLOPS: 2 * both,
        LSE: forward[1].nbytes,
    }


costs = Exercise(
    id="flash_backward.costs",
    signature="costs: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=6, difficulty=2),
    cases=[fixed("six numbers", "plain")],
    oracle=costs_counted,
    criteria=[Correct("plain", 3, say("flash_backward.costs.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("products of a tile, forward", 1): say("flash_backward.costs.scores_and_values"),
                ("products of a tile, dkdv", 2): say("flash_backward.costs.of_dkdv"),
                ("products of a tile, dkdv", 3): say("flash_backward.costs.of_dkdv"),
                ("products of a tile, dq", 1): say("flash_backward.costs.of_dq"),
                ("products of a tile, dq", 2): say("flash_backward.costs.of_dq"),
                (ALL, 7): say("flash_backward.costs.s_and_dp_once"),
                (ALL, 4): say("flash_backward.costs.one_each"),
                (ALL, 3): say("flash_backward.costs.one_each"),
                (FLOPS, 9): say("flash_backward.costs.a_product_is_two"),
                (FLOPS, 14): say("flash_backward.costs.of_all_kernels"),
                (LSE, 16_384): say("flash_backward.costs.float32"),
                (LSE, 8192): say("flash_backward.costs.elements"),
            }
        )
    ],
)
