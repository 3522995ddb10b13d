"""Whether a wrong result comes of its formula or of its numbers, on variants of kernels from several units."""

from __future__ import annotations

import dataclasses

import pytest

from course_lib import checking, criteria, execution, judging
from course_lib.exercises import find
from grader.audit import variants
from tritontrace.replay import load

SEED = 7


def judged(exercise_id: str, name: str, group: str):
    """(the variant's verdict on the small cases of a group, and its formula, if any)."""
    variant = next(
        v for v in variants.of_unit(exercise_id.partition(".")[0]) if (v.exercise, v.name) == (exercise_id, name)
    )
    exercise = find(exercise_id)
    exercise = dataclasses.replace(
        exercise,
        cases=[case for case in exercise.cases if case.group == group][:2],
        gates=(),
        bonus=(),
        criteria=[criteria.Correct(group, 1)],
    )
    entry = load(variant.cells(), exercise.entry)
    trials = execution.observe(exercise, entry, SEED, compile_seconds=0)
    found = judging.judge(exercise, trials, SEED, list, evaluate=checking._evaluating(exercise, entry, SEED))
    return found, next((t.evidence.formula for t in trials if t.evidence.formula), None)


@pytest.mark.parametrize(
    "exercise_id, name, group",
    [
        ("fusion.softmax", "exponentials in float16", "plain"),
        ("attention.attention", "scores in half precision", "half"),
    ],
)
def test_numbers_alone_are_wrong(exercise_id, name, group):
    found, formula = judged(exercise_id, name, group)
    assert found.points == 0 and formula is not None and formula.right
    (finding,) = found.findings
    cases = [case.name for case in find(exercise_id).cases if case.group == group]
    assert found.remark.id == "criteria.formula.right" and finding.detail == ""
    assert found.remark.parameters["case"] in cases


def test_another_formula_is_no_matter_of_numbers():
    found, formula = judged("coalescing.transpose", "x taken as contiguous", "strided")
    assert found.points == 0 and formula is not None and not formula.right and not formula.like
    assert found.remark or found.findings[0].detail


@pytest.mark.parametrize("name", ["no scale", "no mask", "a softmax along the queries", "a scale of 1 / D"])
def test_a_known_mistake_is_recognised_in_the_ring(name):
    exercise = find("attention.attention")
    group = "causal" if name == "no mask" else "plain"
    found, formula = judged(exercise.id, name, group)
    assert formula is not None and [getattr(exercise.mistakes[n], "says", "") for n in formula.like] == [found.remark]


def refuses(trial):
    raise RuntimeError("the engine refuses")


def test_a_hint_that_raises_leaves_the_verdict_as_it_was(monkeypatch):
    before, _ = judged("fusion.softmax", "no division", "plain")
    monkeypatch.setattr(checking, "_evaluating", lambda *_: refuses)
    after, formula = judged("fusion.softmax", "no division", "plain")
    assert formula is None and (after.points, after.remark) == (before.points, before.remark)
