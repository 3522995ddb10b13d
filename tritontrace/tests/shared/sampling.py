"""Which of many cases alike run when: the first ones in `make test`, some more in `make verify`, all of them at night."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest

SHARE = int(
    os.environ.get("SHARE", "12")
)  # of what is said to be sampled one in so many runs in `make verify`; at night SHARE=1


def first_ones(cases: Iterable, count: int = 1) -> list:
    """Parameters of which the first `count` run in `make test`, the others in `make verify`. A tuple is several arguments."""
    found = list(cases)
    later = [case if type(case) is tuple else (case,) for case in found[count:]]
    return found[:count] + [pytest.param(*values, marks=pytest.mark.slow) for values in later]


def sampled(cases: Iterable) -> list:
    """One in SHARE of these cases, the first among them."""
    return list(cases)[::SHARE]
