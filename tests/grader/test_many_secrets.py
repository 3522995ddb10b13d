"""A published solution keeps its points whatever the secret draws: no budget is near what honest arithmetic needs.

The kill matrix judges with one secret. Here is another one, without the compiler, which the numbers do not concern.
More of them: `SECRETS=40 pytest tests/grader/test_many_secrets.py`.
"""

import os
from dataclasses import replace
from importlib import import_module

import pytest
from sampling import sampled

from course_lib import criteria, execution
from course_lib.exercises import UNITS
from grader.judging.cases import all_cases
from grader.published import published

SECRETS = int(os.environ.get("SECRETS", "1"))
EXERCISES = [e for unit in UNITS.values() for e in import_module(f"course_lib.exercises.{unit}").EXERCISES.values()]


@pytest.mark.slow
@pytest.mark.parametrize("exercise", sampled(EXERCISES), ids=lambda exercise: exercise.id)
def test_the_published_solution_loses_nothing(exercise):
    entry = published(exercise.id)
    for secret in range(SECRETS):
        seed = execution.derived(secret, exercise.id)
        trials = execution.observe(
            replace(exercise, cases=all_cases(exercise, seed)), entry, seed, seconds=60, compile_seconds=0
        )
        verdict = criteria.judge(exercise, trials)
        lost = [f"{f.title}: {f.seen}" for f in verdict.findings if f.judged and not f.passed and not f.bonus]
        assert verdict.points == exercise.points, f"secret {secret}: {lost}"
