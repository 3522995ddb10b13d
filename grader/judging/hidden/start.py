"""Hidden cases of unit 00, and the plain text of its true-or-false statements.

course_lib holds each explanation sealed with its right answer, so that nobody reads it by accident. After a change of start.toml,
`python -m grader.judging.hidden.start` prints what belongs into course_lib/exercises/start.toml.
"""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed
from course_lib.exercises.sealed import sealed as seal
from course_lib.exercises.start import vector

MYTHS: dict[str, tuple[bool, str]] = {
    key: (each["answer"], each["text"])
    for key, each in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""Answer and explanation of each statement."""


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    n, block = rng.randrange(200, 5000), rng.choice((16, 32, 128))
    latency, work = rng.randrange(50, 700), rng.randrange(3, 60)
    large = rng.randrange(70_001, 140_000)  # more than a grid that was made for the public cases reaches
    match exercise_id.split(".")[1]:
        case "num_programs":
            return [fixed("a hidden n", "ragged", n=n * block + 1 + rng.randrange(block - 1), block=block)]
        case "warps_needed":
            return [fixed("a hidden wait", "ragged", latency=latency, work=work)]
        case "add_one":
            return [
                Case(f"{n} elements", "ragged", vector(n)),
                Case(f"{large} elements", "ragged", vector(large)),
                Case(f"{n} elements, float16", "float16", vector(n, "float16")),
            ]
        case "fixed_copy":
            return [
                Case(f"{n} elements", "ragged", vector(n)),
                Case(f"{3 * n + 1} elements", "ragged", vector(3 * n + 1)),
                Case(f"{large} elements", "ragged", vector(large)),
            ]
    return []  # true or false, and the predictions: their questions stand in the notebook


def sealed() -> dict[str, str]:
    """Seal the explanation of each statement with its answer, as course_lib/exercises/start.toml has them."""
    return {key: seal(f"start.myths/{key}", answer, text) for key, (answer, text) in MYTHS.items()}


if __name__ == "__main__":
    print("\n".join(f'{key} = "{text}"' for key, text in sealed().items()))
