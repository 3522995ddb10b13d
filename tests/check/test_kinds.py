"""Kinds of wrong results that need no exercise: each on results made by hand, silent on right ones."""

import pytest
import torch
from sentences import says

from course_lib import common_mistakes, criteria
from course_lib.catalogue import say
from course_lib.evidence import Evidence
from course_lib.exercise import Case, Effort, Exercise, Trial
from tritontrace.results import Launch

X = torch.randn(12, 20, generator=torch.Generator().manual_seed(1))
COPY = Exercise("unit.copy", "copy(x)", Effort(1, 1, 1), [], lambda x: x.double(), budget=lambda x, *_: x.abs() * 1e-6)


def told(output, x=X, launches=1):
    trial = Trial(Case("a case", "plain", None), [{"x": x}], Evidence("a case", outputs=[output]))
    trial.evidence.launches = [Launch("k", (1, 1, 1), 1)] * launches
    found = criteria.GradedTrial.of(COPY, trial).difference
    return found.detail if found else None


def id_of(detail):
    return getattr(detail, "id", "")


TALL = torch.randn(20, 12)
WINDOW = torch.randn(40, 50)[3:15, 5:25]
STEPS = torch.randn(40, 50)[3:15, 0:40:2]


@pytest.mark.parametrize(
    "x, output, kind, parameters",
    [
        (TALL, TALL.as_strided((20, 12), (1, 12)), "strides_swapped", {"name": "x", "first": 0, "second": 1}),
        (WINDOW, WINDOW.as_strided((12, 20), (20, 1)), "contiguous", {"axis": 0}),
        (STEPS, STEPS.as_strided((12, 20), (50, 1)), "neighbours", {"axis": 1}),
        (X, X.mT.contiguous().reshape(12, 20), "across", {}),
        (X, 8 * X, "times", {"factor": pytest.approx(8)}),
        (X, X + 1, "more", {"difference": pytest.approx(1)}),
        (X, X - 0.5, "less", {"difference": pytest.approx(0.5)}),
        (X, X / 3, "times", {"factor": pytest.approx(1 / 3)}),
        (X, X.half().float(), "rounded", {"dtype": "float16"}),
    ],
)
def test_a_kind_is_told_by_what_it_computes(x, output, kind, parameters):
    assert says(told(output.contiguous(), x), f"criteria.kind.{kind}", **parameters)
    assert told(x.clone(), x) is None
    assert "kind" not in id_of(told(output.contiguous(), x, launches=0)), "torch's own results are another matter"


@pytest.mark.parametrize(
    "output", [torch.zeros_like(X), X * torch.rand_like(X), X.flip(0), torch.full_like(X, torch.nan)]
)
def test_other_results_are_none_of_these(output):
    assert "kind" not in id_of(told(output))


def test_nan_is_like_no_mistake():
    """A window's rows lie between NaN: sums that meet one are NaN, by whatever strides."""
    holes = TALL.clone()
    holes[0] = torch.nan
    assert "kind" not in id_of(told(torch.full_like(holes, torch.nan), holes))


@pytest.mark.filterwarnings("error")
def test_a_single_element_is_no_proof_of_a_factor():
    one = torch.ones(1, 1)
    assert "kind" not in id_of(told(3 * one, one))


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
        assert says(found, "criteria.kind.short", axis=say("criteria.kind.last"), name="x", right=64, wrong=65)


def test_a_parameter_that_no_line_uses_is_told_where_a_result_is_wrong():
    wrong, right = trial(8, False), trial(8, True)
    for one in (wrong, right):
        one.evidence.launches[0].unread = {"row_stride": 9, "M": 3}
    asked = Exercise(**(vars(COPY) | {"criteria": [criteria.Correct("ragged", 1)]}))
    # x has M rows: a length
    assert says(criteria.judge(asked, [wrong]).remark, "criteria.kind.unread", kernel="k", names=["`row_stride`"])
    assert criteria.judge(asked, [right]).remark == ""


@pytest.mark.parametrize(
    "grid, rows, columns, told",
    [
        ((2, 4, 1), 6, 20, True),
        ((4, 2, 1), 12, 10, True),
        ((4, 1, 1), 3, 20, False),  # that may have been (4,)
        ((2, 4, 1), 8, 20, False),  # no whole number of blocks along the rows has 4 of them
        ((2, 2, 1), 6, 20, False),
        ((2, 3, 1), 6, 20, False),
        ((2, 4, 1), 12, 20, False),
    ],
)
@pytest.mark.parametrize("before", [0.0, torch.nan])
def test_a_grid_the_other_way_round(grid, rows, columns, told, before):
    output = torch.full_like(X, before)
    output[:rows, :columns] = X[:rows, :columns]
    one = Trial(Case("a case", "plain", None), [{"x": X}], Evidence("a case", outputs=[output]))
    one.evidence.launches = [Launch("k", grid, 8)]
    found = common_mistakes.other_way_round([one])
    assert bool(found) == told
    if told:
        assert says(found, "criteria.kind.other_way_round", grid=str(grid[:2]), first=grid[0], second=grid[1])


def test_a_result_without_elements_shows_no_grid():
    one = Trial(Case("a case", "plain", None), [{"x": X}], Evidence("a case", outputs=[X[:0]]))
    one.evidence.launches = [Launch("k", (2, 4, 1), 8)]
    assert common_mistakes.other_way_round([one]) == ""


def test_a_dtype_that_is_asked_for_is_named_whatever_that_of_the_input():
    asked = Exercise(**(vars(COPY) | {"oracle": lambda x: x.float()}))
    one = Trial(Case("a case", "plain", None), [{"x": X.half()}], Evidence("a case", outputs=[X.half()]))
    one.evidence.launches = [Launch("k", (1, 1, 1), 1)]
    detail = criteria.GradedTrial.of(asked, one).difference.detail
    assert says(detail, "criteria.result.dtype_as_asked", right="torch.float32")


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
    asked = Exercise("unit.sum", "total(xs)", Effort(1, 1, 1), [], lambda iterable: sum(iterable), kind="formula")
    trials = [
        Trial(Case(f"{len(xs)}", "plain", None), [{"iterable": xs}], Evidence("", outputs=[len(xs)]))
        for xs in ([1, 2, 3, 4], [5, 6], [1], [3, 4, 5])
    ]
    assert "[5, 6]" in criteria.Correct("plain", 1).judge(asked, trials).seen
