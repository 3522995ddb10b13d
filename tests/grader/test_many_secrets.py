"""A published solution keeps its points whatever the secret draws: no budget is near what honest arithmetic needs.

The kill matrix judges with one secret. Here are others, without the compiler, which the numbers do not concern.
More of them: `SECRETS=40 pytest tests/grader/test_many_secrets.py`.
"""

import os
from importlib import import_module

import pytest

from course_lib import criteria, observe
from course_lib.exercises import UNITS
from grader.audit import variants
from grader.judging.judge import all_cases

SECRETS = int(os.environ.get("SECRETS", "3"))
EXERCISES = [e for unit in UNITS.values() for e in import_module(f"course_lib.exercises.{unit}").EXERCISES.values()]


@pytest.mark.slow
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_the_published_solution_loses_nothing(exercise):
    entry = variants.published(exercise.id)
    for secret in range(SECRETS):
        seed = observe.derived(secret, exercise.id)
        cases = all_cases(exercise, seed)
        calls, fresh = observe.draw(exercise, cases, seed)
        logs = observe.record_apart(exercise, entry, calls, seconds=60)
        trees = observe.replay_all(
            logs,
            fresh,
            [case.name for case in cases],
            kernel=exercise.kind == "kernel",
            allows=sorted(exercise.allows),
            language=exercise.language,
            compile_seconds=0,
        )
        verdict = criteria.judge(exercise, observe.trials(cases, fresh, trees))
        lost = [f"{f.title}: {f.seen}" for f in verdict.findings if f.judged and not f.passed and not f.bonus]
        assert verdict.points == exercise.points, f"secret {secret}: {lost}"
