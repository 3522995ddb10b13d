"""Kinds of wrong results that need no exercise: each on results made by hand, silent on right ones."""

import pytest
import torch

from course_lib import common_mistakes, criteria
from course_lib.evidence import Evidence
from course_lib.exercise import Case, Exercise, Trial
from tritontrace.results import Launch

X = torch.randn(12, 20, generator=torch.Generator().manual_seed(1))
COPY = Exercise("unit.copy", "copy(x)", 1, 1, 1, [], lambda x: x.double(), budget=lambda x, *_: x.abs() * 1e-6)


def told(output, x=X, launches=1):
    trial = Trial(Case("a case", "plain", None), [{"x": x}], Evidence("a case", outputs=[output]))
    trial.evidence.launches = [Launch("k", (1, 1, 1), 1)] * launches
    found = criteria.GradedTrial.of(COPY, trial).difference
    return found.detail if found else None


TALL = torch.randn(20, 12)
WINDOW = torch.randn(40, 50)[3:15, 5:25]
STEPS = torch.randn(40, 50)[3:15, 0:40:2]


@pytest.mark.parametrize(
    "x, output, words",
    [
        (TALL, TALL.as_strided((20, 12), (1, 12)), "its strides 0 and 1 swapped"),
        (WINDOW, WINDOW.as_strided((12, 20), (20, 1)), "as if it were contiguous"),
        (STEPS, STEPS.as_strided((12, 20), (50, 1)), "as if elements along axis 1 were neighbours"),
        (X, X.mT.contiguous().reshape(12, 20), "stored where its transpose has them"),
        (X, 8 * X, "8 times the right one"),
        (X, X + 1, "1 more than the right one"),
        (X, X - 0.5, "0.5 less than the right one"),
        (X, X / 3, "0.3333 times the right one"),
        (X, X.half().float(), "rounded to float16"),
    ],
)
def test_a_kind_is_told_by_what_it_computes(x, output, words):
    assert words in told(output.contiguous(), x)
    assert told(x.clone(), x) is None
    assert words not in told(output.contiguous(), x, launches=0), "torch's own results are another matter"


@pytest.mark.parametrize(
    "output", [torch.zeros_like(X), X * torch.rand_like(X), X.flip(0), torch.full_like(X, torch.nan)]
)
def test_other_results_are_none_of_these(output):
    assert not any(words in told(output) for words in ("This is the result for", "its transpose", "the right one"))


def test_nan_is_like_no_mistake():
    """A window's rows lie between NaN: sums that meet one are NaN, by whatever strides."""
    holes = TALL.clone()
    holes[0] = torch.nan
    assert "This is the result for" not in told(torch.full_like(holes, torch.nan), holes)


@pytest.mark.filterwarnings("error")
def test_a_single_element_is_no_proof_of_a_factor():
    one = torch.ones(1, 1)
    assert "times the right one" not in told(3 * one, one)


def trial(K, right):
    x = torch.randn(3, K)
    trial = Trial(
        Case(f"{K}", "ragged", None), [{"x": x}], Evidence(f"{K}", outputs=[x if right else x * torch.rand(3, K)])
    )
    trial.evidence.launches = [Launch("k", (1, 1, 1), 1, unread={})]
    return criteria.GradedTrial.of(COPY, trial)


@pytest.mark.parametrize(
    "right, wrong, said",
    [
        ((8, 64), (65, 100), True),
        ((8, 64), (64, 100), False),
        ((8, 100), (65, 200), False),
        ((64,), (65, 100), False),
        ((8, 64), (65,), False),
    ],
)
def test_right_while_short(right, wrong, said):
    found = common_mistakes.right_while_short([trial(k, True) for k in right], [trial(k, False) for k in wrong])
    assert bool(found) == said
    if said:
        assert "last axis of `x` has at most 64 elements, and wrong from 65 on" in found


def test_a_parameter_that_no_line_uses_is_told_where_a_result_is_wrong():
    wrong, right = trial(8, False), trial(8, True)
    for one in (wrong, right):
        one.evidence.launches[0].unread = {"row_stride": 9, "M": 3}
    asked = Exercise(**(vars(COPY) | {"criteria": [criteria.Correct("ragged", 1)]}))
    assert "never uses its parameter `row_stride`" in criteria.judge(asked, [wrong]).remark
    assert "`M`" not in criteria.judge(asked, [wrong]).remark  # x has as many rows: a length
    assert criteria.judge(asked, [right]).remark == ""


def test_a_warning_is_shown_once():
    """Triton's own words came six times with one check, each time with a line about tracemalloc."""
    warning = "/a/core.py:12: UserWarning: Logical operators are deprecated\n  warn(\n"
    again = warning + "UserWarning: Enable tracemalloc to get the object allocation traceback\n"
    one = trial(8, True)
    one.evidence.printed = "mine\n" + again + again + "mine\n"
    asked = Exercise(**(vars(COPY) | {"criteria": [criteria.Correct("ragged", 1)]}))
    printed = criteria.judge(asked, [one]).printed
    assert printed.count("deprecated") == 1 and printed.count("mine") == 2 and "tracemalloc" not in printed


def test_of_numbers_the_smallest_case_that_is_wrong_is_shown():
    """A reader of a list of 32 addresses was shown the first few, and three dots."""
    asked = Exercise("unit.sum", "total(xs)", 1, 1, 1, [], lambda iterable: sum(iterable), kind="formula")
    trials = [
        Trial(Case(f"{len(xs)}", "plain", None), [{"iterable": xs}], Evidence("", outputs=[len(xs)]))
        for xs in ([1, 2, 3, 4], [5, 6], [1], [3, 4, 5])
    ]
    assert "[5, 6]" in criteria.Correct("plain", 1).judge(asked, trials).seen
