"""FLOPs and bytes of products, and a counter of FLOPs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed, integer
from course_lib.exercises.flops.cases import named, sizes
from course_lib.exercises.flops.mistakes import MATMUL_BYTES, elements, every, one_addition_less, swapped, times
from course_lib.exercises.flops.oracles import counted, gives_back_the_flops, is_the_earliest, meta, product_cost
from course_lib.mistakes import miscounted, on_exception
from course_lib.workloads.counted import workload

# ------------------------------------------------------------------------------------------------ counting


matmul_cost = Exercise(
    id="flops.matmul_cost",
    signature="matmul_cost(m: int, n: int, k: int, itemsize: int) -> tuple[int, int]",
    kind="formula",
    without=["torch.utils.flop_counter", "torch.autograd.profiler"],
    effort=Effort(minutes=5, lines=1, difficulty=1),
    cases=[
        fixed("64 cubed, float32", "square", **sizes(64, 64, 64, 4)),
        fixed("4096 cubed, 2 bytes", "square", **sizes(4096, 4096, 4096, 2)),
        fixed("(3, 5) @ (5, 7)", "other", **sizes(3, 7, 5, 4)),
        fixed("a matrix and a vector", "other", **sizes(1, 1000, 300, 2)),
        Case("drawn sizes", "other", lambda g: sizes(integer(g, 1, 900), integer(g, 1, 900), integer(g, 1, 900), 8)),
    ],
    oracle=product_cost,
    criteria=correct("flops.matmul_cost", {"square": 2, "other": 2}),
    mistakes=[
        swapped(product_cost),
        times(0.5, say("flops.matmul_cost.multiplications_alone"), product_cost, part=0),
        one_addition_less,
        elements(product_cost),
        *MATMUL_BYTES,
    ],
)

intensity = Exercise(
    id="flops.intensity",
    signature="intensity(cost: tuple[int, int]) -> float",
    kind="formula",
    effort=Effort(minutes=2, lines=2, difficulty=1),
    cases=[
        fixed("a product", "plain", cost=(524288, 49152)),
        fixed("an addition", "plain", cost=(1000, 12000)),
        Case("a drawn cost", "plain", lambda g: {"cost": (integer(g, 1, 10**9), integer(g, 1, 10**6))}),
    ],
    oracle=lambda cost: None,
    criteria=[Holds(gives_back_the_flops, 2, say("flops.intensity.title_plain"))],
    mistakes=[
        every(
            lambda out, cost: math.isclose(out * cost[0], cost[1], rel_tol=1e-9),
            say("flops.intensity.the_wrong_way_round"),
        )
    ],
)

PEAK, BANDWIDTH = 989.4e12, 4.8e12
roofline_seconds = Exercise(
    id="flops.roofline_seconds",
    signature="roofline_seconds(cost, flops_per_second: float, bytes_per_second: float) -> float",
    kind="formula",
    effort=Effort(minutes=5, lines=2, difficulty=2),
    cases=[
        fixed(
            "much arithmetic",
            "compute",
            cost=(2 * 8192**3, 6 * 8192**2),
            flops_per_second=PEAK,
            bytes_per_second=BANDWIDTH,
        ),
        fixed("a slow GPU", "compute", cost=(10**12, 10**9), flops_per_second=1e12, bytes_per_second=3e11),
        fixed("an addition", "memory", cost=(1 << 26, 12 << 26), flops_per_second=PEAK, bytes_per_second=BANDWIDTH),
        fixed("a copy", "memory", cost=(0, 1 << 31), flops_per_second=PEAK, bytes_per_second=BANDWIDTH),
        Case(
            "a drawn cost",
            "memory",
            lambda g: {
                "cost": (integer(g, 1, 10**9), integer(g, 10**9, 10**12)),
                "flops_per_second": 1e14,
                "bytes_per_second": 2e12,
            },
        ),
    ],
    oracle=lambda cost, flops_per_second, bytes_per_second: None,
    criteria=[
        Holds(is_the_earliest, 2, say("flops.roofline_seconds.title_compute"), group="compute"),
        Holds(is_the_earliest, 2, say("flops.roofline_seconds.title_memory"), group="memory"),
    ],
)


# ------------------------------------------------------------------------------------------------ predictions


def predicted() -> dict[str, int]:
    """Return the FLOPs that torch's counter gives for the six predicted computations."""
    x, w = meta(100, 64), meta(64, 32, grad=True)
    y = x @ w
    return {
        "product": counted(lambda: meta(100, 64) @ meta(64, 32)),
        "batch of 8": counted(lambda: meta(8, 100, 64) @ meta(8, 64, 32)),
        "gram matrix": counted(lambda: x.T @ x),
        "relu": counted(lambda: torch.relu(x)),
        "backward": counted(lambda: y.backward(torch.empty_like(y))),
        "left to right": counted(lambda: (meta(1000, 1000) @ meta(1000, 1000)) @ meta(1000, 1)),
    }


predictions = Exercise(
    id="flops.predictions",
    signature="predicted_flops: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=6, difficulty=2),
    cases=[fixed("six pieces of torch", "plain")],
    oracle=predicted,
    criteria=[Correct("plain", 6, say("flops.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("product", 100 * 64 * 32): say("flops.predictions.a_multiply_add_is_two"),
                ("batch of 8", 2 * 100 * 64 * 32): say("flops.predictions.one_of_eight"),
                ("gram matrix", 2 * 100 * 100 * 64): say("flops.predictions.rows_with_rows"),
                ("relu", 100 * 64): say("flops.predictions.no_product"),
                ("backward", 2 * 2 * 100 * 64 * 32): say("flops.predictions.two_gradients"),
                ("left to right", 2 * 2 * 1000**2): say("flops.predictions.right_to_left"),
                ("left to right", 2 * 1000**3): say("flops.predictions.without_v"),
            }
        )
    ],
)


# ------------------------------------------------------------------------------------------------ count_flops


def torch_count(name: str, sizes: Sequence[int]) -> int:
    """Count the FLOPs that torch's counter finds in a workload."""
    fn, args = workload(name, sizes)
    return counted(lambda: fn(*args))


count_flops = Exercise(
    id="flops.count_flops",
    signature="count_flops(fn, *args) -> int",
    kind="formula",
    called="on work",
    without=["torch.utils.flop_counter", "torch.autograd.profiler"],
    effort=Effort(minutes=20, lines=14, difficulty=3),
    track="more",
    cases=[
        named("matmul", "products", 3, 4, 5),
        named("transposed", "products", 30, 8),
        named("batched", "batches", 2, 3, 4, 5),
        named("einsum", "batches", 3, 4, 5, 6),
        named("attention", "batches", 2, 9, 8),
        named("added", "with an addition", 3, 4, 5),
        named("added batches", "with an addition", 2, 3, 4, 5),
        named("mlp", "with an addition", 5, 4, 6),
        named("recurrent", "whole programs", 4, 3, 5),
        named("mlp_step", "whole programs", 6, 4, 5),
        named("elementwise", "whole programs", 100),
    ],
    oracle=torch_count,
    criteria=correct("flops.count_flops", {"products": 3, "batches": 2, "with an addition": 2, "whole programs": 3}),
    mistakes=[
        times(0.5, say("flops.count_flops.multiplications_alone"), torch_count),
        times(0, say("flops.count_flops.calls_without_the_mode"), torch_count),
        on_exception("NotImplementedError", say("flops.count_flops.no_torch_dispatch")),
        on_exception("takes from", say("flops.count_flops.parameters_of_the_method")),
        on_exception("Tensor but got None", say("flops.count_flops.returns_nothing_from_the_mode")),
    ],
)
