"""What a verdict tells of hidden inputs: shapes and places, and never a value, whatever the program does to learn one."""

import pytest

from course_lib import render
from course_lib.exercise import find
from grader import judge as judging
from grader.variants import program, solution_cell

EFFICIENCY = find("coalescing.strided_efficiency")
STUDENT = "ada"


def hidden_numbers(judge, exercise):
    """The parameters of the exercise's hidden cases, as this student gets them."""
    seed = judging.seed_of(judge.secret, STUDENT, exercise.id)
    public = {repr(case.arguments(0)) for case in exercise.cases}
    cases = [case for case in judging.all_cases(exercise, seed) if case.hidden]
    return [a for a in (case.arguments(seed) for case in cases) if repr(a) not in public]


def shown(judge, exercise, source):
    verdict = judge.verdict(exercise, program(exercise.id, source), STUDENT)
    return verdict, render.text(verdict)


TELLTALE = """
def strided_efficiency(stride, itemsize):
    mark = f"<<{stride}|{itemsize}>>"
    LEAK
    useful = itemsize
    fetched = min(32, stride * itemsize)
    return useful / max(fetched, itemsize)
"""


@pytest.mark.parametrize(
    "leak",
    [
        "print(mark)",
        "raise ValueError(mark)",
        "raise type(mark, (Exception,), {})()",
        "return stride * 1000 + itemsize",
        "return mark",
    ],
)
def test_a_formula_learns_no_hidden_number(judge, leak):
    public = {tuple(c.arguments(0).values()) for c in EFFICIENCY.cases if repr(c.arguments(0)) == repr(c.arguments(1))}
    source = TELLTALE.replace("LEAK", f"if (stride, itemsize) not in {public}:\n        {leak}")
    assert all(tuple(a.values()) not in public for a in hidden_numbers(judge, EFFICIENCY)) and hidden_numbers(
        judge, EFFICIENCY
    )
    _, text = shown(judge, EFFICIENCY, source)
    assert "<<" not in text
    for arguments in hidden_numbers(judge, EFFICIENCY):
        stride, itemsize = arguments.values()
        assert str(stride * 1000 + itemsize) not in text and f"stride = {stride}" not in text


def test_a_formula_wrong_on_hidden_numbers_alone_is_told_where_and_not_what(judge):
    public = {tuple(c.arguments(0).values()) for c in EFFICIENCY.cases if repr(c.arguments(0)) == repr(c.arguments(1))}
    solution = solution_cell(EFFICIENCY.id).replace("def strided_efficiency", "def honest")
    source = f"{solution}\n\ndef strided_efficiency(stride, itemsize):\n    right = honest(stride, itemsize)\n"
    source += f"    return right if (stride, itemsize) in {public} else right / 2\n"
    verdict, text = shown(judge, EFFICIENCY, source)
    assert verdict.points < verdict.out_of and "not right for numbers that stay hidden" in text


def test_a_kernel_s_feedback_names_shapes_and_places_and_no_value(judge):
    exercise = find("coalescing.transpose")
    source = solution_cell(exercise.id)
    at = source.index("tl.store(")
    source = f"{source[:at]}tile = tile + (rows == 129).to(tile.dtype)\n    {source[at:]}"
    verdict, text = shown(judge, exercise, source)
    assert "elements differ, first at [" in text and "expected " not in text.split("elements differ")[1].split("\n")[0]
    assert "on 256 x 128" in text


def test_fixed_public_numbers_are_told(judge):
    _, text = shown(judge, EFFICIENCY, "def strided_efficiency(stride, itemsize):\n    return 2.0\n")
    assert "for stride = 1, itemsize = 4: expected 1.0, got 2.0" in text
