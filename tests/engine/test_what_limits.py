"""Limits that `profile` names of ten kernels of known ones, from what a GPU counted of them: benchmarks/limits.py recorded it."""

import pytest

from course_lib.hardware.measurements import measured
from tritontrace.profiling.profiled import WASTE, Profiled, Roofline

LAUNCHES = {row["name"]: row for row in measured("limits")["launches"]}


def profiled(name):
    row = {key: value for key, value in LAUNCHES[name].items() if key not in ("name", "limit")}
    return Profiled(**{**row, "roofline": Roofline(**row["roofline"])})


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_limit_is_the_one_that_is_known(name):
    assert profiled(name).limit == LAUNCHES[name]["limit"]


def test_advice_on_waste_is_given_where_a_counter_shows_some():
    assert profiled("every eighth float").waste > 4
    wasteful = {name for name in LAUNCHES if profiled(name).limit in ("dram", "l2") and profiled(name).waste >= WASTE}
    assert wasteful == {"every eighth float"}


def test_there_are_ten():
    assert len(LAUNCHES) == 10 and len({row["limit"] for row in LAUNCHES.values()}) == 6
