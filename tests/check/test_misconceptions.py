"""A slip is data: what the mistake gives, and what is said of it. One matcher finds it in results."""

import itertools
from dataclasses import replace

import torch
from sentences import says

from course_lib.criteria import GradedTrial
from course_lib.evidence import Evidence
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.misconceptions import Misconception, multiplied_in_tf32
from course_lib.mistakes import as_tf32
from tritontrace.results import Launch

X = torch.rand(64, generator=torch.Generator().manual_seed(1)) + 0.5


def twice(x):
    return 2 * x.double()


def thrice(x):
    return 3 * x.double()


DOUBLE = Exercise(
    "toy.double", "double(x)", Effort(1, 1, 1), (), twice, budget=lambda right, *_: torch.full_like(right, 1e-6)
)
THRICE = Misconception(thrice, "Three times.", twice)


def judged(*outputs, group="plain", **evidence):
    """A trial with a call for each output."""
    case = Case(f"a {group}", group, lambda generator: {"x": X})
    return GradedTrial(case, [{"x": X}] * len(outputs), Evidence(case.name, outputs=list(outputs), **evidence), DOUBLE)


def test_a_slip_is_found_in_what_it_gives_and_in_nothing_else():
    assert THRICE([judged(3 * X)]) == THRICE.says == "Three times."
    for other in (2 * X, 7 * X, 0 * X, X[:3], None):
        assert THRICE([judged(other)]) == ""


def test_one_result_is_enough_unless_each_must_be_so():
    everywhere = Misconception(thrice, "Three times.", twice, each=True)
    assert THRICE([judged(3 * X, 7 * X)]) and not everywhere([judged(3 * X, 7 * X)])
    assert everywhere([judged(3 * X, 3 * X)])


def test_a_wrong_result_that_a_guess_gives_right_is_none_of_a_strict_slip():
    either = Misconception([twice, thrice], "Twice or three times.", twice, each=True)
    strict = replace(either, strict=True)
    assert either([judged(3 * X), judged(7 * X)]) and not strict([judged(3 * X), judged(7 * X)])
    assert strict([judged(3 * X), judged(3 * X)])


def test_a_trial_is_compared_with_a_slip_once_and_so_is_its_copy():
    asked = []

    def counted(x):
        asked.append(x)
        return thrice(x)

    slip, trial = Misconception(counted, "Three times.", twice), judged(7 * X)
    assert [slip([again]) for again in (trial, trial, replace(trial))] == ["", "", ""] and len(asked) == 1
    assert slip([judged(3 * X)]) and len(asked) == 2, "another trial is another matter"


def test_a_right_result_tells_nothing_where_the_slip_gives_the_same():
    turns = itertools.cycle([twice, thrice])  # the first call of two shows nothing
    sometimes = Misconception(lambda x: next(turns)(x), "Three times.", twice, each=True)
    assert sometimes([judged(2 * X, 3 * X)])
    assert not sometimes([judged(7 * X, 3 * X)])


def test_a_slip_that_cannot_be_seen_says_nothing():
    nowhere = Misconception(lambda x: None, "Three times.", twice, each=True)
    assert nowhere([judged(3 * X)]) == ""
    assert Misconception([lambda x: None, thrice], "Three times.", twice)([judged(3 * X)])


def test_plain_results_that_are_wrong_are_looked_at_alone():
    assert THRICE([judged(7 * X), judged(3 * X, group="ragged")]) == ""
    assert THRICE([judged(2 * X), judged(3 * X, group="ragged")])


def test_the_result_at_its_place_is_looked_at():
    second = Misconception(lambda x: (x, thrice(x)), "Three times.", lambda x: (x, twice(x)), place=1)
    assert second([judged([X, 3 * X])]) and not second([judged([3 * X, X])])


def test_tf32_is_known_by_where_the_errors_point():
    look = multiplied_in_tf32(lambda x: [thrice(x), twice(as_tf32(x))], twice)
    rounded, launches = twice(as_tf32(X)).float(), [Launch("k", (1, 1, 1), tf32=True)]
    assert says(look([judged(rounded, launches=launches)]), "criteria.kind.tf32")
    assert look([judged(rounded)]) == ""  # no launch multiplies in it
    for other in (2 * X * (1 + 2e-4), (2 * X).half().float(), rounded.half(), X * torch.nan):
        assert look([judged(other, launches=launches)]) == ""
    second = multiplied_in_tf32(lambda x: [twice(as_tf32(x))], lambda x: (x, twice(x)), place=1)
    assert second([judged([X, rounded], launches=launches)])
