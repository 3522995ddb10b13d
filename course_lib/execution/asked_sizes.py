"""The sizes that an exercise asks about, read from its cases: an answer need not be right for others, however many numbers those have.

A size along which some case is no power of two is free: it is any multiple of what divides it in all cases, from the smallest on.
Others (the width of a head, which is a multiple of 8, and a row that is one block) have the values that cases have. Where one size is
never less than another, it never is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from math import gcd
from typing import Any

import torch

from course_lib.exercise import Case

MOST_ELEMENTS = 100_000  # of all tensors of an example
WIDEST_HEAD, HEADS_STEP = 256, 8
Axis = tuple[str, int]  # an argument and one of its axes
Shapes = Mapping[Axis, int]
AskedSizes = dict[str, Any]
"""Plain data. free: [argument, axis, least, step];  ordered: [argument, axis, argument, axis], the first being no less than the second;
fixed: [argument, axis];  values: for each case, those of the fixed ones."""


def example(cases: Sequence[Case], seed: int = 0) -> dict[str, Any] | None:
    """Draw example arguments for a search, contiguous, with as many axes as most cases have: the smallest of those whose sizes differ most
    and are least often powers of two; None if there are none."""
    drawn = [case.arguments(seed) for case in cases]
    alike = Counter(frozenset(sizes(one)) for one in drawn)
    handy = [one for one in drawn if 0 < _elements(one) <= MOST_ELEMENTS and all(map(_is_dense, _tensors(one)))]

    def worth(one: dict[str, Any]) -> tuple[int, ...]:
        some = [size for size in sizes(one).values() if size > 1]
        return alike[frozenset(sizes(one))], len({*some}), sum(is_ragged(size) for size in some), -_elements(one)

    return max(handy, key=worth, default=None)


def asked(cases: Sequence[Case], arguments: Mapping[str, Any], seed: int = 0) -> AskedSizes:
    """Return the ranges of sizes that the cases cover, among cases whose tensors have the same axes as `arguments`."""
    axes = sizes(arguments)
    alike = [shapes for case in cases if (shapes := sizes(case.arguments(seed))).keys() == axes.keys()]
    free = [axis for axis in axes if _is_free([shapes[axis] for shapes in alike])]
    fixed = [axis for axis in axes if axis not in free]
    return {
        "free": [[*a, min(s[a] for s in alike), gcd(*(s[a] for s in alike))] for a in free],
        "ordered": [[*a, *b] for a, b in permutations(free, 2) if all(s[a] >= s[b] for s in alike)],
        "fixed": [[*axis] for axis in fixed],
        "values": [list(values) for values in dict.fromkeys(tuple(s[axis] for axis in fixed) for s in alike)],
    }


def within(of: AskedSizes, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function so that it raises ValueError for arguments of sizes that the cases do not cover."""

    def limited(**arguments: Any) -> Any:
        def size(name: str, axis: int) -> int:
            return arguments[name].shape[axis]

        for name, axis, least, step in of["free"]:
            if (least > 1 and size(name, axis) < least) or (step > 1 and size(name, axis) % step):
                raise ValueError("no case has such a size")
        for name, axis, other, of_other in of["ordered"]:
            if size(name, axis) < size(other, of_other):
                raise ValueError("no case has such sizes")
        fixed = [size(*axis) for axis in of["fixed"]]
        if not any(all(a == b for a, b in zip(fixed, values, strict=True)) for values in of["values"]):
            raise ValueError("no case has such sizes")
        return function(**arguments)

    return limited


def sizes(arguments: Mapping[str, Any]) -> dict[Axis, int]:
    """Map (argument, axis) to the size, for each axis of the tensors among arguments."""
    return {
        (name, axis): size
        for name, value in arguments.items()
        if isinstance(value, torch.Tensor)
        for axis, size in enumerate(value.shape)
    }


def is_ragged(size: int) -> bool:
    """Whether a size is no power of two, so that a block is larger than it."""
    return size & (size - 1) != 0


def _is_free(some: Sequence[int]) -> bool:
    head = max(some) <= WIDEST_HEAD and not any(size % HEADS_STEP for size in some)
    return not head and any(map(is_ragged, some))


def _tensors(arguments: Mapping[str, Any]) -> list[torch.Tensor]:
    return [value for value in arguments.values() if isinstance(value, torch.Tensor)]


def _elements(arguments: Mapping[str, Any]) -> int:
    return sum(tensor.numel() for tensor in _tensors(arguments))


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.is_contiguous()
