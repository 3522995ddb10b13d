"""Mistakes that are known by what they make of a call's arguments, and the one way to find them in results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial
from course_lib.exercises.cases import FP32
from course_lib.mistakes import MistakeMatcher, in_tf32

Wrong = Callable[..., Any] | Sequence[Callable[..., Any]]


def failing(trials: Sequence[GradedTrial]) -> list[GradedTrial]:
    """Select the trials that are not right; only those of group "plain" if there are such, since they close a gate."""
    wrong = [t for t in trials if t.case.group == "plain" and t.difference]
    return wrong or [t for t in trials if t.difference]


def results(trials: Sequence[GradedTrial], place: int = 0) -> Iterator[tuple[dict[str, Any], torch.Tensor]]:
    """Yield (arguments, result) of each call of the failing trials; of several results the one at `place`."""
    for t in failing(trials):
        for call, out in t.calls:
            found = nth(out, place)
            if isinstance(found, torch.Tensor) and found.is_floating_point():
                yield call, found


def nth(value: Any, place: int) -> Any:
    """Return the result at that place, of several; or the only one."""
    return value[place] if isinstance(value, (list, tuple)) and len(value) > place else value


def is_closer_to(found: torch.Tensor, guess: torch.Tensor, right: torch.Tensor, times: float = 10) -> bool:
    """Whether the result `found` is at least `times` times nearer to the guess than to the right result, and nearer than 0 is.

    A NaN is near only to a NaN. A result that is right but for its rounding is like no guess, and only zeros are like a
    guess of zeros.
    """
    if not found.shape == guess.shape == right.shape:
        return False

    def apart(x: torch.Tensor, y: torch.Tensor) -> float:
        same = (x == y) | (x.isnan() & y.isnan())
        return float((x.double() - y).masked_fill(same, 0).nan_to_num(math.inf).norm())

    off, stored = apart(found, right), guess.to(found.dtype)
    if off <= 2 * apart(right.to(found.dtype), right) or apart(found, guess) >= off / times:
        return False
    return apart(found, stored) <= apart(stored, torch.zeros_like(stored)) / 2


@dataclass(frozen=True)
class Misconception:
    """A mistake known by the results that it gives. Called with trials, it returns its remark if they match, else "".

    wrong    a call's arguments -> the result, or all of them, as this mistake makes it; None where there is nothing to compare
             with. Of several functions, each result may be another's
    says     the sentence about it, if a result is rather that than the right one (is_closer_to)
    right    a call's arguments -> the right result, or all of them; None: the exercise's oracle says it
    place    which of several results is looked at
    each     every result must be so in which all of these would be seen; else one is enough
    times    how many times nearer than to the right one a result must be
    strict   with several functions, too, a wrong result that one of them gives right is none of this mistake
    """

    wrong: Wrong
    says: str
    right: Callable[..., Any] | None = None
    place: int = 0
    each: bool = False
    times: float = 10
    strict: bool = False

    def __call__(self, trials: Sequence[GradedTrial]) -> str:
        looks = (self._looks(t, call, found) for t in failing(trials) for call, found in results([t], self.place))
        alike = (like for like in looks if like is not None)
        if self.each:
            alike = list(alike)
            return self.says if alike and all(alike) else ""
        return self.says if any(alike) else ""

    def _looks(self, trial: GradedTrial, call: dict[str, Any], found: torch.Tensor) -> bool | None:
        """Whether a result of a trial looks like the mistake; None if it could not be seen there."""
        return trial.once(partial(self._compared, trial, call, found), self, call, found)

    def _compared(self, trial: GradedTrial, call: dict[str, Any], found: torch.Tensor) -> bool | None:
        wrongs = several(self.wrong)
        guesses = [nth(one(**call), self.place) for one in wrongs]
        given = [guess for guess in guesses if guess is not None]
        if not given:
            return None if guesses else False
        right_of = self.right or trial.exercise.oracle
        right = nth(trial.once(partial(right_of, **call), right_of, call), self.place)
        if any(is_closer_to(found, guess, right, self.times) for guess in given):
            return True
        known_by_others = len(wrongs) > 1 and not self.strict
        harmless = any(_near(guess, right) for guess in given) and (known_by_others or _near(found, right))
        return None if harmless or len(given) < len(guesses) else False


def row_0(of_call: Callable[..., Any], name: str) -> Misconception:
    """Make the Misconception that every row is computed from row 0 of this argument."""

    def wrong(**call: Any) -> Any:
        return of_call(**call | {name: call[name][:1].expand_as(call[name])})

    # sums of long rows are nearly alike, so what is computed from another row is compared closely
    return Misconception(wrong, say("criteria.kind.of_row_0", name=name), each=True, times=1000)


def _near(one: torch.Tensor, right: torch.Tensor) -> bool:
    return one.shape == right.shape and bool((one - right).norm() < 0.01 * right.norm())


def several(wrong: Wrong) -> Sequence[Callable[..., Any]]:
    """Return a list of functions, of which there may be only one."""
    return [wrong] if callable(wrong) else wrong


TF32 = say("criteria.kind.tf32")
OF_THE_OTHER = say("criteria.twice.of_the_other")


def multiplied_in_tf32(
    guesses: Callable[..., Sequence[torch.Tensor]], right: Callable[..., Any], place: int = 0
) -> MistakeMatcher:
    """Make a matcher of TF32 products: kernels use TF32, and errors of float32 results point where those of one of the guesses do.

    guesses    a call's arguments -> its result at that place if one product is in TF32, or another, or several; as many for
               each call
    """

    def look(trials: Sequence[GradedTrial]) -> str:
        if not in_tf32(failing(trials)):
            return ""
        sums: Any = 0  # for each guess: seen times guessed, and the squares of each
        for call, found in results(trials, place):
            true = nth(right(**call), place)
            if found.shape != true.shape or not _in_float32([found, *call.values()]):
                continue
            seen, guessed = across(found - true, true), [across(guess - true, true) for guess in guesses(**call)]
            products = [((seen * one).sum(), seen.square().sum(), one.square().sum()) for one in guessed]
            sums = sums + torch.tensor(products, dtype=torch.float64)
        if not isinstance(sums, torch.Tensor):
            return ""
        along, seen, guessed = sums.unbind(1)
        return TF32 if bool((along > 0.7 * (seen * guessed).sqrt()).any()) else ""  # of a NaN it is not

    return look


def _in_float32(values: Sequence[Any]) -> bool:
    return all(x.dtype == FP32 for x in values if isinstance(x, torch.Tensor) and x.is_floating_point())


def across(error: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Return the part of an error that is not proportional to the row: what divides a row by a wrong number leaves none."""
    size = right.square().sum(-1, keepdim=True)
    return error - (error * right).sum(-1, keepdim=True) / torch.where(size == 0, 1, size) * right
