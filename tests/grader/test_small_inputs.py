"""Sentences of the judge of an answer that reaches outside a tensor: it runs where answers are recorded."""

import pytest

pytest.importorskip("z3")

from messages import within

from course_lib.exercises import find
from grader.audit.variants import of_unit


@pytest.mark.parametrize("name, told", [("no mask on the load", "(1, 1)"), ("one row a program", "")])
def test_a_small_input_that_shows_a_missing_mask_is_told_and_takes_no_point(judge, name, told):
    exercise = find("coalescing.transpose")
    variant = next(v for v in of_unit("coalescing") if (v.exercise, v.name) == (exercise.id, name))
    verdict = judge.judge(exercise, variant.cells(), 1)
    shown = [each for each in within(verdict.remark) if each.id == "criteria.smallest.load"]
    shapes = [shape.parameters["shape"] for each in shown for shape in each.parameters["shapes"]]
    assert shapes == [told] * bool(told)
    assert {f.key for f in verdict.findings if f.lost and not f.bonus} == set(variant.loses)
