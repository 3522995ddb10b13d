"""Mistakes in numbers: every result is what some wrong formula gives, and where that differs from the right one, it is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from course_lib.exercise import Trial
from course_lib.mistakes import MistakeMatcher


def guessed(
    guess: Callable[..., Any], right: Callable[..., Any], sentence: str, place: int | None = None, group: str = ""
) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if all results are those of `guess`, and some of these are wrong.

    guess, right    a call's arguments -> the result, or its part at `place`;  group: the cases that are looked at, all if none is named
    """

    def look(trials: Sequence[Trial]) -> str:
        pairs = [(call, out) for t in trials if group in ("", t.case.group) for call, out in t.calls]
        parts = [(call, out if place is None else _part(out, place)) for call, out in pairs]
        if not parts or not all(alike(out, guess(**call)) for call, out in parts):
            return ""
        return "" if all(alike(out, right(**call)) for call, out in parts) else sentence

    return look


def _part(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, (list, tuple)) and len(value) > place else None


def alike(one: Any, other: Any) -> bool:
    """Whether two results are the same numbers, lists as tuples, up to a rounding."""
    if all(isinstance(each, (list, tuple)) for each in (one, other)):
        return len(one) == len(other) and all(map(alike, one, other))
    kinds: set[type] = {type(one), type(other)}
    if float in kinds:
        return kinds <= {int, float} and math.isclose(one, other, rel_tol=1e-6)
    return type(one) is type(other) and one == other
