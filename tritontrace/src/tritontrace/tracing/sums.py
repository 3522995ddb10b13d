"""Blocks of integers that are kept as sums: the addresses of a tile are those of its rows and of its columns, added.

Most of what is known of a tile's addresses is known of its rows and columns, which are fewer; so they are added up only for
an operation that needs every lane.
"""

from __future__ import annotations

from functools import cached_property, lru_cache, reduce
from math import prod
from typing import Any

import numpy as np

FEW = 4_096  # elements: fewer are added up at once
Lanes = tuple[tuple[tuple[int, ...], bytes], ...]


class Sum:
    """A block of offsets (programs, *block) as a lazy sum of parts, which broadcast against one another.

    parts   int64, without overflow;  shape  of their sum;  dtype  of the integers that they stand for
    """

    def __init__(self, parts: list[np.ndarray], dtype: np.dtype):
        self.parts, self.dtype = parts, dtype
        self.shape = reduce(_joined, [part.shape for part in parts])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Sum:
        """The sum for some of the programs. rows: slice(None), numbers or a mask."""
        if isinstance(rows, slice):
            return self
        return Sum([part if len(part) == 1 else part[rows] for part in self.parts], self.dtype)

    def of_program(self, row: int) -> np.ndarray:
        """Return the sum for one program: (lanes,)."""
        return Sum([part[min(row, len(part) - 1)][None] for part in self.parts], self.dtype).whole.reshape(-1)

    def of_lane(self, lane: int) -> np.ndarray:
        """Return the sum at one position of the block, for each program: (programs,)."""
        place = []
        for length in reversed(self.shape[1:]):
            lane, at = divmod(lane, length)
            place.append(at)
        total: Any = self.dtype.type(0)
        for part in self.parts:
            there = tuple(0 if n == 1 else i for n, i in zip(part.shape[1:], reversed(place), strict=True))
            total = total + part[:, *there].astype(self.dtype, copy=False)  # what wraps comes back
        return total if len(total) == len(self) else np.broadcast_to(total, len(self))

    @cached_property
    def lanes(self) -> Lanes | None:
        """How the lanes of each part lie to its first one, if they do so in all programs; else None. Sums for which this is equal
        differ by a number for each program. Others could be alike, too, where parts make up for one another; they do not count."""
        found = []
        for part in self.parts:
            flat = part.reshape(len(part), -1)
            relative = flat[0] - flat[0, 0]
            if len(flat) > 1 and not (flat - flat[:, :1] == relative).all():
                return None
            found.append((part.shape[1:], relative.tobytes()))
        return tuple(found)

    @cached_property
    def whole(self) -> np.ndarray:
        first, *others = (part.astype(self.dtype, copy=False) for part in self.parts)  # what wraps comes back
        return sum(others, start=first)


@lru_cache(4096)
def _joined(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of two blocks together. numpy asks in a slower way, and a loop asks for the same ones at each step."""
    return one if one == other else np.broadcast_shapes(one, other)


def whole(value: Any) -> Any:
    """Materialise a value if it is a Sum."""
    return value.whole if isinstance(value, Sum) else value


def added(a: np.ndarray | Sum, b: np.ndarray | Sum) -> np.ndarray | Sum:
    """Compute a + b, integers of one dtype: as a Sum, if that saves many elements and nothing overflows."""
    size = prod(_joined(a.shape, b.shape))
    if size < FEW:
        return whole(a) + whole(b)
    parts: list[np.ndarray] = []
    for part in (*_parts(a), *_parts(b)):
        for i, other in enumerate(parts):
            if _joined(part.shape, other.shape) in (part.shape, other.shape):
                parts[i] = part.astype(np.int64, copy=False) + other
                break
        else:
            parts.append(part)
    if 2 * sum(part.size for part in parts) > size or _overflows(a.dtype, parts):
        return whole(a) + whole(b)
    return Sum([part.astype(np.int64, copy=False) for part in parts], a.dtype)


def moved(pointers: np.ndarray | Sum, offsets: np.ndarray | Sum, size: int) -> np.ndarray | Sum:
    """Compute pointers + offsets * size."""
    if isinstance(offsets, Sum):
        return added(pointers, Sum([part * size for part in offsets.parts], pointers.dtype))
    return added(pointers, np.multiply(offsets, np.int64(size), dtype=np.int64))


def _parts(value: np.ndarray | Sum) -> list[np.ndarray]:
    return value.parts if isinstance(value, Sum) else [value]


def _overflows(dtype: np.dtype, parts: list[np.ndarray]) -> bool:
    """Whether a sum of the parts may lie outside of the dtype. Of addresses, which are offsets in an arena, it cannot."""
    if dtype == np.int64:
        return False
    limits = np.iinfo(dtype)
    return sum(int(part.max()) for part in parts) > limits.max or sum(int(part.min()) for part in parts) < limits.min
