"""Kernels in Gluon on the chip that is simulated elsewhere: launched instead of simulated, they give torch's numbers.

The right kernels of tritontrace/tests/shared, the published answers of units 13 and 14, and the speed for which these get extra credit.
"""

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton

from course_lib.checking import verdict
from course_lib.exercises import find
from course_lib.exercises.hopper import EXERCISES
from grader.judging.cases import all_cases
from grader.published import published

sys.path.insert(0, str(Path(__file__).resolve().parent))
import alone
import runs

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="they are written for sm_90")]

IN_GLUON = [exercise.id for exercise in EXERCISES.values() if exercise.language == "Gluon"]
TIMED = [exercise.id for exercise in EXERCISES.values() if exercise.bonus]


def launched(kernel, *arguments, orders=(), work=None, **options):
    """Launch what would be simulated; there is nothing to report."""
    kernel(*arguments, **options)
    return SimpleNamespace(right=True)


@pytest.mark.parametrize("name", runs.RIGHT)
def test_right_kernels_are_right_on_a_gpu(name, monkeypatch):
    monkeypatch.setattr(runs, "simulate", launched)
    path, run = runs.RIGHT[name]
    with torch.device("cuda"):
        torch.full((1 << 25,), torch.nan)  # freed at once: what is not stored shows
        _, equal = run(runs.module_of(path))
    torch.cuda.synchronize()
    assert equal


def compiles(case) -> bool:
    """Whether Triton 3.6.0 can compile for it: a mask on one row, whose number is a constant then, ends it at an assertion of its own."""
    return triton.__version__ > "3.6.0" or case.name != "1 x 40"


@pytest.mark.parametrize("name", IN_GLUON)
def test_published_answers_are_right_on_a_gpu(name):
    exercise = find(name)
    everywhere = dataclasses.replace(exercise, cases=list(filter(compiles, all_cases(exercise, 42))))
    assert alone.first_wrong(everywhere, published(name, on_the_cpu=False)) == ""


@pytest.mark.parametrize("name", TIMED)
def test_published_answers_earn_their_extra_credit(name):
    found = verdict(find(name), published(name))
    assert found.points == found.out_of and found.bonus == find(name).bonus[0].points, found.findings[-1]
