"""Values of programs that take different branches: split into groups, and joined again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tritontrace.tracing.blocks import Descriptor

Registers = list  # of one function that runs: the value of each number that was given out


def taken(value: Any, which: np.ndarray) -> Any:
    """Select the rows of a value that belong to some of the programs."""
    if isinstance(value, Descriptor):
        return value.map(lambda part: taken(part, which))
    return value if value is None or value.shape[0] == 1 else value[which]


def selected(registers: Registers, numbers: Iterable[int], which: np.ndarray) -> Registers:
    """Copy the registers for some of the programs."""
    mine = list(registers)
    for i in numbers:
        mine[i] = taken(registers[i], which)
    return mine


def merged(programs: int, parts: Sequence[tuple[np.ndarray, Any]]) -> Any:
    """Merge the values of disjoint sets of programs into one."""
    first = parts[0][1]
    if len(parts) == 1 and (first is None or isinstance(first, Descriptor) or first.shape[0] == 1):
        return first
    if isinstance(first, Descriptor):
        return first.merge(
            lambda *values: merged(programs, list(zip([w for w, _ in parts], values, strict=True))),
            [v for _, v in parts[1:]],
        )
    shape = np.broadcast_shapes(*[value.shape[1:] for _, value in parts])
    whole = np.empty((programs, *shape), first.dtype)
    for which, value in parts:
        whole[which] = value
    return whole
