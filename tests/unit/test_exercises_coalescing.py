"""Mistakes that unit 04 recognises in results."""

import math

import pytest
import torch
from messages import id_of
from sentences import says

from course_lib.evidence import Evidence
from course_lib.exercise import Trial
from course_lib.exercises import coalescing as C


def trials(sum_of):
    found = []
    for case in C.column_sum.cases[:5]:
        arguments = case.arguments(3)
        found.append(Trial(case, [arguments], Evidence(case.name, outputs=[sum_of(arguments["x"].float())])))
    return found


def test_a_total_that_is_replaced_is_the_sum_of_the_last_rows():
    last = C.mistakes.the_last_rows_alone(trials(lambda x: x[(len(x) - 1) // 32 * 32 :].sum(0)))
    assert "`total =` where `total +=` is meant?" in last
    for other in (lambda x: x.sum(0), lambda x: x[:64].sum(0), lambda x: x.sum(1), lambda x: None):
        assert C.mistakes.the_last_rows_alone(trials(other)) == ""


def lost(verdict):
    return [f.title for f in verdict.findings if not f.passed]


@pytest.mark.parametrize("unit", [128, 256])
def test_a_row_stride_that_is_larger_than_needed_still_starts_sectors(answered, unit):
    def padded(n, itemsize):
        each = unit // itemsize if unit == 128 else unit
        return -(-n // each) * each

    assert lost(answered("coalescing.padded_stride", padded)) == ["no larger than it must be"]


@pytest.mark.parametrize(
    "output, says",
    [
        (1024, ""),
        (1024.0, ""),
        (1000, "coalescing.padded_stride.too_small"),
        (1 << 20, "coalescing.padded_stride.too_large"),
        (1001.5, "coalescing.padded_stride.not_whole"),
        ("8", "coalescing.padded_stride.no_stride"),
    ],
)
def test_what_a_row_stride_is_refused_for(output, says):
    said = C.oracles.starts_sectors(output, 1001, 4)
    assert id_of(said) == says


def test_an_efficiency_computed_in_float32_is_right(answered):
    def in_float32(stride, itemsize):
        right = C.strided_efficiency.oracle(stride, itemsize)
        return torch.tensor(right, dtype=torch.float32).item()

    assert lost(answered("coalescing.strided_efficiency", in_float32)) == []
    for wrong in (lambda right: 1.0001 * right, lambda right: 10**400, lambda right: math.nan, lambda right: "1"):
        found = answered(
            "coalescing.strided_efficiency", lambda w=wrong, **given: w(C.strided_efficiency.oracle(**given))
        )
        assert len(lost(found)) == 2


def test_an_efficiency_that_calls_the_stub_before_it_is_asked_about_that():
    from course_lib import checking

    verdict = checking.verdict(C.strided_efficiency, lambda stride, itemsize: itemsize / None, seed=1)
    assert verdict.points == 0 and says(verdict.remark, "coalescing.strided_efficiency.unsolved")
