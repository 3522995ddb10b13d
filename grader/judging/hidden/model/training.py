"""Hidden cases of unit 11's exercises on training."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import BF16, FP16
from course_lib.exercises.model.optimizer import steps, weights


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
                Case("float16 weights", "half", weights(N // 2, rng.choice((FP16, BF16)), step=step, decay=decay)),
            ]
    return []
