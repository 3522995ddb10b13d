"""Hidden cases of unit 11: optimizers, data, accounting, checkpoints, kernels in a model, gradients."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16, FP16, FP32
from course_lib.exercises.training.accounting import run_of, sized
from course_lib.exercises.training.block import trained
from course_lib.exercises.training.checkpoints import stopped
from course_lib.exercises.training.data import batches
from course_lib.exercises.training.operators import normed
from course_lib.exercises.training.optimizer import steps, weights
from course_lib.exercises.training.shared_heads import shared_heads
from course_lib.exercises.training.steps import at, clipped, micro
from course_lib.workloads.gpt import Config


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    N = rng.randrange(4100, 9000, 2) + 1
    match exercise_id.split(".")[1]:
        case "update":
            gradients = [round(rng.uniform(-2, 2), 3) for _ in range(rng.randrange(4, 8))]
            rules = ("sgd", "momentum", "adagrad", "rmsprop", "adam")
            return [steps(f"hidden gradients, {rule}", rule, gradients, lr=0.03, start=-0.5) for rule in rules]
        case "adamw_step":
            step, decay = rng.randrange(2, 20), rng.randrange(5, 40) / 100
            return [
                Case(f"{N}", "ragged", weights(N)),
                Case(f"step {step}", "first", weights(N // 3, step=step)),
                Case(f"decay {decay}", "decay", weights(N // 5, decay=decay)),
                Case("small gradients, early", "small", weights(N // 7, step=rng.randrange(1, 5), small=True)),
                Case("half-precision weights", "half", weights(N // 2, rng.choice((FP16, BF16)))),
            ]
        case "get_batch":
            split, tokens = rng.choice(("train", "val")), rng.randrange(150, 400)
            return [
                batches("a hidden file", "plain", tokens=tokens, split=split, context=rng.randrange(5, 13), seed=N),
                batches("a hidden short file", "every", tokens=rng.randrange(60, 75), context=30, draws=120, seed=N),
                batches(
                    "a hidden long file",
                    "large",
                    tokens=rng.randrange(50_000, 65_000),
                    times=400,
                    batch=256,
                    draws=1,
                    split="val",
                    seed=N,
                ),
            ]
        case "accumulate":
            return [
                micro("hidden micro-batches", "plain", parts=rng.choice((2, 3, 6)), rows=6, seed=N),
                micro("hidden padding", "padded", parts=3, rows=6, padded=True, seed=N, empty=rng.random() < 0.5),
            ]
        case "clip":
            sizes = [rng.randrange(3, 30) for _ in range(4)]
            return [
                clipped("hidden gradients", "plain", sizes=sizes, scale=3.0, largest=0.7, seed=N),
                clipped("small hidden gradients", "below", sizes=sizes, scale=1e-3, seed=N),
            ]
        case "learning_rate":
            steps_, warm_up = rng.randrange(300, 900), rng.randrange(20, 60)
            hidden = {"steps": steps_, "peak": 1e-3, "warm_up": warm_up}
            return [
                at(rng.randrange(1, warm_up), "warm-up", **hidden),
                at(rng.randrange(warm_up, steps_), "cosine", **hidden),
                at(steps_ + rng.randrange(2, 99), "after", **hidden),
            ]
        case "training_memory":
            return [sized("a hidden model", "plain", _model(rng), batch=rng.randrange(1, 4), n=rng.randrange(7, 20))]
        case "run_cost":
            run = run_of(mfu=rng.randrange(30, 60) / 100, dollars=rng.randrange(2, 9))
            return [
                sized("a hidden model", "plain", _model(rng), batch=rng.randrange(1, 4), n=rng.randrange(7, 20), **run)
            ]
        case "checkpoint":
            return [stopped("a hidden run", rng.randrange(2, 9), rng.randrange(4, 8), rng.getrandbits(32))]
        case "swap_in":
            heads, factor = rng.choice((2, 4)), rng.choice((0.75, 1.25, 1.5))
            return [
                trained("a hidden model", kv_heads=heads, length=rng.randrange(5, 12), seed=N),
                trained(
                    "hidden kernels", kv_heads=heads, length=rng.randrange(5, 12), seed=N, factor=factor, share=0.5
                ),
                trained("hidden steps", "steps", layers=1, kv_heads=heads, steps=10, seed=N, factor=factor),
            ]
        case "grouped_backward":
            texts, heads = rng.randrange(1, 4), rng.randrange(1, 5)
            group, nq, nk = rng.choice((2, 3, 4)), rng.randrange(5, 40), rng.randrange(41, 110)
            return [
                Case(f"{heads * group} heads for {heads}", "grouped", shared_heads(texts, heads, group, nq, nq, 16)),
                Case(f"{nq} queries, {nk} keys", "ragged", shared_heads(texts, heads, group, nq, nk, 32, across=True)),
                Case("hidden, bfloat16", "half", shared_heads(1, heads, group, nk, nk, 16, BF16)),
            ]
        case "operator_norm":
            rows, columns, dtype = rng.randrange(2, 33), rng.randrange(3, 90), rng.choice((BF16, FP32))
            return [
                Case(f"{rows} x {columns}", "ragged", normed(rows, columns, dtype)),
                Case(f"{columns} x {rows}, without data, too", "fake", normed(columns, rows, dtype, fake=True)),
            ]
    return []


def _model(rng: random.Random) -> Config:
    """Draw the sizes of a small model."""
    heads, kv_heads = rng.choice(((4, 2), (6, 3), (4, 1), (2, 2)))
    sizes = {"vocab": rng.randrange(40, 90), "layers": rng.randrange(2, 6), "hidden": 8 * rng.randrange(3, 9)}
    return Config(width=8 * heads, heads=heads, kv_heads=kv_heads, **sizes)
