"""Hidden cases of unit 07: odd sizes, seeds and probabilities that differ from student to student."""

from __future__ import annotations

import random

import torch

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed
from course_lib.exercises.recomputation.cases import dropped, dropped_at, elementwise, logits, normed, step, traffic
from course_lib.exercises.rounds import versions


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N, K = rng.randrange(65, 160, 2), rng.randrange(33, 120, 2), rng.randrange(3, 30)
    low = rng.choice((torch.float16, torch.bfloat16))
    p, seed = rng.randrange(5, 95) / 100, rng.randrange(1, 1 << 30)
    match exercise_id.split(".")[1]:
        case "gradient_log":
            length = 1024 * rng.randrange(30, 120)
            return versions(str(length), elementwise((length,)))
        case "saved_bytes":
            return [
                fixed("a hidden chain", "plain", name=rng.choice(("gelu by parts", "layer norm")), sizes=[M, N]),
                fixed("a hidden product", "inputs", name="gelu of a product", sizes=[M, N, K]),
                fixed("hidden views", "shared", name=rng.choice(("a product of views", "attention")), sizes=[M, N]),
                fixed("a hidden half", "shared", name="a product with half", sizes=[M, K]),
                fixed("a hidden long chain", "shared", name="twenty sigmoids", sizes=[M, N]),
                fixed("hidden sizes", "others", name="sigmoid in half precision", sizes=[M, N]),
            ]
        case "sigmoid3_traffic":
            return [traffic(M * N, rng.choice((2, 4, 8)), recompute) for recompute in (False, True)]
        case "sigmoid3":
            return [
                Case(f"{M} x {N}", "ragged", elementwise((M, N), low)),
                Case(f"{K} x {M}, large", "hard", elementwise((K, M), scale=40)),
            ]
        case "recomputed_gelu":
            return [
                Case(f"{M} x {N}", "ragged", elementwise((M, N), low, names="x gate dy")),
                Case(f"{K} x {M}, large", "hard", elementwise((K, M), scale=6, names="x gate dy")),
            ]
        case "cross_entropy_backward":
            return [
                Case(f"{K} rows of {30 * N}", "ragged", logits(K, 30 * N, low)),
                Case(f"{K} rows of {M}, shifted", "hard", logits(K, M, mean=rng.choice((-300.0, 90.0, 150.0)))),
                Case(f"{K} rows of {M}, some -inf", "hard", logits(K, M, ban=0.6)),
            ]
        case "rmsnorm_backward":
            return [
                Case(f"{M} rows of {N}", "ragged", normed(M, N, low)),
                Case(f"{1100 + M} rows of 5", "ragged", normed(1100 + M, 5, low)),  # more sums than a block adds up
                Case(f"{2 * M} rows of {K}, float16", "hard", normed(2 * M, K, torch.float16, scale=100.0)),
            ]
        case "seeded_dropout":
            return [
                Case(f"{M} x {N}", "ragged", dropped((M, N), p, seed, low)),
                Case("a hidden seed", "probabilities", dropped((K, M), p, seed + 1)),
                Case("a hidden number that is drawn", "probabilities", dropped_at((K, M), 7 * K, seed + 2)),
            ]
        case "checkpoint":
            sizes = {"rows": K + 5, "width": rng.randrange(3, 9), "seed": seed}
            return [
                step("a hidden layer", "plain", p=0.0, **sizes),
                step("hidden sizes", "memory", rows=M, width=32, calls=rng.choice((1, 2)), seed=seed),
                step("a hidden p", "dropout", p=p, calls=2, **sizes),
                step("a hidden seed", "after", p=p, **sizes),
            ]
        case "segments_for":
            sizes = {"layers": M, "boundary": rng.randrange(50, 500), "inside": rng.randrange(500, 9000)}
            return [fixed("a hidden model", "plain", **sizes)]
    return []  # kept_tensors: its questions stand in the notebook
