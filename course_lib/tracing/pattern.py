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
    distinct_sectors  32-byte sectors, each once
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
    distinct_sectors: int
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


class Shape:
    """How the lanes of an access lie to one another. Where the lowest one falls in a line then makes it a Pattern.

    relative   bytes from the lowest active lane, as unsigned numbers: those of masked lanes below it wrap around
    mask       the active lanes, None for all
    lane       the position of the lowest active lane;  extent  bytes from it to the end of the highest one
    """

    def __init__(self, pointers: np.ndarray, mask: np.ndarray | None, itemsize: int):
        active = pointers.reshape(-1) if mask is None else pointers[mask]
        lowest = active.min()
        self.itemsize, self.mask = itemsize, None if mask is None else mask.copy()
        self.relative = pointers - lowest
        self.lane = int(np.flatnonzero((self.relative == 0) if mask is None else (self.relative == 0) & mask)[0])
        self.extent = int(active.max() - lowest) + itemsize
        self._patterns: dict[int, Pattern] = {}

    def fits(self, pointers: np.ndarray, mask: np.ndarray | None, itemsize: int) -> bool:
        """Whether this access is the same one, somewhere else."""
        if self.relative.shape != pointers.shape or self.itemsize != itemsize:
            return False
        if (mask is None) != (self.mask is None) or mask is not None and not (mask == self.mask).all():
            return False
        return bool((pointers - pointers.reshape(-1)[self.lane] == self.relative).all())

    def lowest(self, pointers: np.ndarray) -> int:
        return int(pointers.reshape(-1)[self.lane])

    def at(self, address: int) -> Pattern:
        """The pattern of this access when its lowest lane is at `address`."""
        phase = address % LINE
        if phase not in self._patterns:
            active = np.ones(self.relative.shape, bool) if self.mask is None else self.mask
            self._patterns[phase] = _analyse(self.relative.astype(np.int64), active, phase, self.itemsize)
        return self._patterns[phase]


MAX_SEEN = 2_000  # shapes remembered at a time


class Shapes:
    """Recognises accesses: programs repeat the same few at other addresses, and a line of a kernel mostly the same one."""

    def __init__(self):
        self._last: dict[object, Shape] = {}  # by the place in the kernel
        self._seen: dict[tuple, Shape] = {}

    def of(self, place: object, pointers: np.ndarray, mask: np.ndarray | None, itemsize: int) -> Shape:
        """pointers: addresses, one per lane. mask: the active lanes, at least one; None for all."""
        shape = self._last.get(place)
        if shape is None or not shape.fits(pointers, mask, itemsize):
            shape = self._last[place] = self._recall(Shape(pointers, mask, itemsize))
        return shape

    def _recall(self, shape: Shape) -> Shape:
        mask = None if shape.mask is None else shape.mask.tobytes()
        key = (shape.relative.shape, shape.itemsize, shape.relative.tobytes(), mask)
        if len(self._seen) >= MAX_SEEN:
            self._seen.clear()  # a gather makes one for each program
        return self._seen.setdefault(key, shape)


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
        distinct_sectors=1 + int(np.count_nonzero(np.diff((distinct + phase) // SECTOR))),
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
