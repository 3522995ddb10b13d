"""How the addresses of one load or store fall on memory: requests, sectors, lines.

A GPU issues an instruction in requests of 32 lanes and fetches sectors of 32 bytes, four to a line of 128. Triton gives
neighbouring lanes neighbouring addresses where a block has an axis of unit stride (its Coalesce pass), so lanes are
counted along that axis, else along the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

LANES = 32  # of a warp: they share a request
SECTOR = 32  # bytes
LINE = 128  # bytes


@dataclass(frozen=True, eq=False)
class Pattern:
    """What one access does, wherever it starts.

    elements     active lanes
    requests     groups of 32 lanes with an active one
    sectors      32-byte sectors, counted per request;  lines = 128-byte lines, likewise
    useful_bytes distinct bytes
    duplicates   whether two lanes have the same address
    contiguous   whether the active lanes fill one range of addresses
    offsets      element index of each active lane, from the lowest one, counted in items of `itemsize` bytes
    """

    itemsize: int
    elements: int
    requests: int
    sectors: int
    lines: int
    useful_bytes: int
    duplicates: bool
    contiguous: bool
    offsets: np.ndarray

    def units(self, start: int, size: int) -> np.ndarray:
        """The distinct units of `size` bytes touched when the lowest address is `start`: numbers, ascending."""
        key = (start % size, size)
        if key not in self._units:
            self._units[key] = np.unique((self.offsets * self.itemsize + start % size) // size)
        return self._units[key] + start // size

    @cached_property
    def _units(self) -> dict[tuple[int, int], np.ndarray]:
        return {}


MAX_SEEN = 2_000  # patterns remembered at a time


class Patterns:
    """Analyses accesses, and remembers: programs repeat the same few patterns at other addresses."""

    def __init__(self):
        self._seen: dict[tuple, Pattern] = {}

    def of(self, pointers: np.ndarray, mask: np.ndarray | None, lowest: int, itemsize: int) -> Pattern:
        """pointers: addresses, one per lane. mask: the active lanes, None for all. lowest: the least active address."""
        relative = pointers - np.uint64(lowest)  # wraps around for masked lanes below; those are not counted
        phase = lowest % LINE
        key = (pointers.shape, itemsize, phase, relative.tobytes(), None if mask is None else mask.tobytes())
        if key not in self._seen:
            active = np.ones(pointers.shape, bool) if mask is None else mask
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()  # a gather makes a pattern for each program
            self._seen[key] = _analyse(relative.astype(np.int64), active, phase, itemsize)
        return self._seen[key]


def _analyse(relative: np.ndarray, active: np.ndarray, phase: int, itemsize: int) -> Pattern:
    offsets = relative[active]
    distinct = np.unique(offsets)
    duplicates = distinct.size < offsets.size
    axis = _lane_axis(relative, itemsize)
    lanes, on = (_in_requests(np.moveaxis(x, axis, -1) if x.ndim else x) for x in (relative, active))
    return Pattern(
        itemsize=itemsize,
        elements=offsets.size,
        requests=int(on.any(1).sum()),
        sectors=_distinct_per_row((lanes + phase) // SECTOR, on),
        lines=_distinct_per_row((lanes + phase) // LINE, on),
        useful_bytes=distinct.size * itemsize,
        duplicates=duplicates,
        contiguous=not duplicates and int(distinct[-1]) == (distinct.size - 1) * itemsize,
        offsets=offsets // itemsize,
    )


def _lane_axis(relative: np.ndarray, itemsize: int) -> int:
    origin = (0,) * relative.ndim
    for axis in reversed(range(relative.ndim)):
        if relative.shape[axis] > 1:
            neighbour = origin[:axis] + (1,) + origin[axis + 1 :]
            if relative[neighbour] - relative[origin] == itemsize:
                return axis
    return -1


def _in_requests(values: np.ndarray) -> np.ndarray:
    """One row per request; lanes that fill up the last one are 0, inactive."""
    flat = values.reshape(-1)
    return np.pad(flat, (0, -flat.size % LANES)).reshape(-1, LANES)


def _distinct_per_row(units: np.ndarray, active: np.ndarray) -> int:
    units = np.where(active, units, -1)
    units.sort(axis=1)
    fresh = units >= 0
    fresh[:, 1:] &= units[:, 1:] != units[:, :-1]
    return int(fresh.sum())
