"""Hidden cases of unit 03: sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import FP16, fixed
from course_lib.exercises.flops.cases import CONFIG, GB, NAIVE, layer_sizes, named, run_of, sizes, timed
from course_lib.exercises.flops.dial import multiply_adds
from course_lib.exercises.flops.modules import net, normals


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    a, b, c, d = (rng.randrange(3, 60) for _ in range(4))
    match exercise_id.split(".")[1]:
        case "matmul_cost":
            return [fixed("hidden sizes", "other", **sizes(a, b, c, rng.choice((1, 2, 8))))]
        case "count_flops":
            return [
                named("matmul", "products", a, b, c),
                named("batched", "batches", 3, a, b, c),
                named("mlp", "with an addition", a, b, c),
                named("mlp_step", "whole programs", a, b, c),
                named("recurrent", "whole programs", 6, b, c),
            ]
        case "backward_flops":
            return [
                fixed("hidden sizes", "with", **layer_sizes(a, b, c, d, True)),
                fixed("hidden sizes", "without", **layer_sizes(a, b, c, d, False)),
            ]
        case "attention_cost":
            return [
                fixed("a hidden head", "one head", **dict(zip(NAIVE, (1, 1, a, a, c, 2), strict=True))),
                fixed("hidden sizes", "many", **dict(zip(NAIVE, (2, 3, a, b, d, 4), strict=True))),
            ]
        case "block_cost":
            heads = rng.choice((4, 8))
            own, shared = (3, 10 * a, 64 * heads, heads, heads, 32 * b), (1, 20 * c, 32 * heads, heads, 2, 64 * d)
            return [
                fixed("a hidden block", "plain", **dict(zip(CONFIG, own, strict=True))),
                fixed("a hidden block", "shared keys", **dict(zip(CONFIG, shared, strict=True))),
            ]
        case "init_scale":
            return [fixed("a hidden width", "one", fan_in=10 * a + 40)]
        case "truncated_init":
            return [Case("hidden noise", "rounds", normals(20 + a, 10 * b, c, spread=2.5))]
        case "deep_linear":
            return [net(2 + a % 3, 32 + b, 2 + c % 4, "plain"), net(2 + b % 3, 40 + a, 2 + d % 4, "other")]
        case "intensity":
            return [fixed("a hidden cost", "plain", cost=[a * 10**9, b * 10**6])]
        case "roofline_seconds":
            rates = {"flops_per_second": c * 1e12, "bytes_per_second": d * 1e10}
            return [
                fixed("a hidden task", "compute", cost=[a * 10**15, b * 10**6], **rates),
                fixed("a hidden task", "memory", cost=[a * 10**6, b * 10**9], **rates),
            ]
        case "dial":
            return [
                Case(f"{97 * a} elements, n = {b}", "ragged", multiply_adds(97 * a, b)),
                Case(f"{31 * c} elements, n = {d}, float16", "ragged", multiply_adds(31 * c, d, FP16)),
                Case(f"65,536 elements, n = {b}", "performance", multiply_adds(65536, b)),
            ]
        case "utilisation":
            run = {"parameters": a * 1e9, "tokens_per_second": b * 1e3, "gpus": c, "peak_flops": 4e14}
            return [
                fixed("a hidden run", "plain", **run, recompute=False),
                fixed("a hidden run", "recompute", **run, recompute=True),
            ]
        case "training_days":
            run = {"parameters": a * 1e9, "tokens": b * 1e12, "gpus": 10 * c, "peak_flops": 9e14, "mfu": 0.01 * d}
            return [fixed("a hidden run", "plain", **run)]
        case "largest_model":
            cluster = {"gpus": a, "memory_bytes": b * GB + c, "bytes_per_parameter": rng.randrange(3, 30)}
            return [fixed("a hidden cluster", "plain", **cluster)]
        case "training_memory":
            return [
                fixed("a hidden run", "sgd", **run_of(rng.randrange(2, 6), a, b, "sgd")),
                fixed("a hidden run", "states", **run_of(rng.randrange(2, 6), c, d, rng.choice(("adagrad", "adam")))),
            ]
        case "measure":
            truth = 600.0 + 10 * a
            return [
                timed("hidden work", "steady", truth, runs=7),
                timed("hidden work", "cold", truth, hot=truth / 2, runs=11),
                timed("hidden work", "warm-up", truth, slow_start=4, warm_up=4, runs=5),
                timed("hidden work", "warm-up", truth, slow_start=2, stamina=9, warm_up=2, runs=7),
                timed("hidden work", "median", truth, noise=True, warm_up=4, runs=31),
            ]
    return []  # predictions: their questions stand in the notebook
