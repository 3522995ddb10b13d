"""How the addresses of one load or store fall on memory: requests and sectors.

A GPU issues an instruction in requests of 32 lanes and fetches sectors of 32 bytes. Triton gives neighbouring lanes
neighbouring addresses where a block has an axis of unit stride (its Coalesce pass), so lanes are counted along that axis
first, else along the last; along the first where Triton is older than 3.7. In Gluon whoever writes a kernel lays them out: `along`
is the axis that they have chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import triton

from tritontrace.tracing.sums import Lanes, Sum

LANES = 32  # of a warp: they share a request
SECTOR = 32  # bytes
# trap: of axes that are contiguous for equally long, Coalesce lays lanes along the last from Triton 3.7 on, before along the first
LAST_OF_EQUALS = tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 7)


@dataclass(frozen=True, eq=False)
class Pattern:
    """Counts of one access, wherever it starts: requests, sectors, bytes.

    elements     active lanes
    requests     groups of 32 lanes with an active one
    sectors      32-byte sectors, counted per request
    distinct_sectors  32-byte sectors, each once
    useful_bytes distinct bytes, counted per request
    duplicates   whether two lanes have the same address
    contiguous   whether the active lanes fill one range of addresses
    offsets      element index of each active lane, from the lowest one, counted in items of `itemsize` bytes
    widest       bytes of the active lanes from the lowest one, in the request that touches most sectors
    """

    itemsize: int
    elements: int
    requests: int
    sectors: int
    distinct_sectors: int
    useful_bytes: int
    duplicates: bool
    contiguous: bool
    offsets: np.ndarray
    widest: np.ndarray

    def units(self, start: int, size: int) -> np.ndarray:
        """Return the numbers of the distinct units of `size` bytes touched when the lowest address is `start`, ascending."""
        key = (start % size, size)
        if key not in self._units:
            self._units[key] = np.unique((self.offsets * self.itemsize + start % size) // size)
        return self._units[key] + start // size

    @cached_property
    def _units(self) -> dict[tuple[int, int], np.ndarray]:
        return {}


class Shape:
    """How the lanes of an access lie to one another, in one program. Where the lowest one falls in a sector then makes it a
    Pattern.

    relative   (lanes,) bytes from the lowest active lane; masked positions may lie below it
    mask       (lanes,) the active lanes, None for all;  axes, along  the block that they are, for `_lane_order`
    lane       the position of the lowest active lane;  extent  bytes from it to the end of the highest one
    active     (active lanes,) their bytes from the lowest one;  aligned  whether these are multiples of the item's size
    """

    def __init__(
        self,
        addresses: np.ndarray,
        mask: np.ndarray | None,
        itemsize: int,
        axes: tuple[int, ...],
        along: int | None = None,
    ):
        active = addresses if mask is None else addresses[mask]
        lowest = active.min()
        self.itemsize, self.mask, self.axes, self.along = itemsize, mask, axes, along
        self.relative = addresses - lowest
        self.active = active - lowest
        self.lane = int(np.argmax((self.relative == 0) if mask is None else (self.relative == 0) & mask))
        self.extent = int(self.active.max()) + itemsize
        self.aligned = not (self.active % itemsize).any()
        self._patterns: dict[int, Pattern] = {}
        self._sums: set[Lanes] = set()  # those of sums that lie like this

    def same_lanes(self, addresses: np.ndarray | Sum) -> bool:
        """addresses: (programs, lanes). Whether the lanes of each program lie like this."""
        if isinstance(addresses, np.ndarray):
            return bool((addresses - addresses[:, self.lane, None] == self.relative).all())
        if addresses.lanes is None or addresses.lanes in self._sums:
            return addresses.lanes is not None
        same = self.same_lanes(addresses.of_program(0)[None])
        if same:
            self._sums.add(addresses.lanes)
        return same

    def at(self, address: int) -> Pattern:
        """Return the pattern of this access when its lowest lane is at `address`."""
        phase = address % SECTOR
        if phase not in self._patterns:
            active = np.ones(self.relative.shape, bool) if self.mask is None else self.mask
            self._patterns[phase] = _analyse(
                self.relative.reshape(self.axes), active.reshape(self.axes), phase, self.itemsize, self.along
            )
        return self._patterns[phase]

    @cached_property
    def items(self) -> np.ndarray:
        """(lanes,) the items from the lowest active lane to each one."""
        return self.relative // self.itemsize

    @cached_property
    def run(self) -> int:
        """Return the length of runs in which neighbouring lanes lie side by side in memory: all lanes, a row, or 1. Where lanes are masked,
        1."""
        if self.mask is not None:
            return 1
        steps = np.diff(self.relative) == self.itemsize
        for length in (self.relative.size, self.axes[-1] if self.axes else 1):
            if length > 1 and np.count_nonzero(steps) >= self.relative.size // length * (length - 1):
                inside = np.ones(self.relative.size, bool)
                inside[length - 1 :: length] = False
                if steps[inside[:-1]].all():
                    return length
        return 1

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the ranges that the active lanes fill: where they begin and end, in bytes from the lowest one. A lane that is there twice
        is a range of its own."""
        offsets = np.sort(self.active)
        first = np.flatnonzero(np.diff(offsets, prepend=offsets[0] - 2 * self.itemsize) != self.itemsize)
        last = np.append(first[1:], offsets.size) - 1
        return offsets[first], offsets[last] + self.itemsize


MAX_LANES = 1 << 21  # of all shapes remembered at a time: some 50 MB
_seen: dict[tuple, Shape] = {}  # by all that a shape is made of, so that launches, and kernels, share them


class Shapes:
    """Cache of Shapes: a line of a kernel mostly makes the same access, at other addresses.

    lanes   of all shapes that are remembered now
    """

    lanes = 0

    def __init__(self):
        self._last: dict[object, Shape] = {}  # by the place in the kernel

    def of(
        self,
        place: object,
        addresses: np.ndarray | Sum,
        mask: np.ndarray | None,
        itemsize: int,
        axes: tuple[int, ...],
        along: int | None = None,
    ) -> Shape | None:
        """Return the shape of an access of several programs; None where their lanes do not lie alike.

        addresses: (programs, lanes). mask: (lanes,) the active ones of each program, at least one; None for all.
        """
        shape = self._last.get(place)
        if shape is not None and (mask is None) == (shape.mask is None):
            same = mask is None or shape.mask is None or np.array_equal(mask, shape.mask)
            if same and shape.same_lanes(addresses):
                return shape
        first = addresses.of_program(0) if isinstance(addresses, Sum) else addresses[0]
        shape = Shape(first, mask, itemsize, axes, along)
        key = (axes, along, itemsize, shape.relative.tobytes(), None if mask is None else mask.tobytes())
        if key not in _seen:
            if Shapes.lanes >= MAX_LANES:
                _seen.clear()  # a gather makes one for each program
                Shapes.lanes = 0
            _seen[key] = shape
            Shapes.lanes += shape.relative.size
        shape = self._last[place] = _seen[key]
        return shape if shape.same_lanes(addresses) else None


def _analyse(relative: np.ndarray, active: np.ndarray, phase: int, itemsize: int, along: int | None) -> Pattern:
    offsets = relative[active]
    ascending = np.sort(offsets)  # np.unique looks each of them up in a table, which takes four times as long
    distinct = ascending[_fresh(ascending)]
    duplicates = distinct.size < offsets.size
    order = _lane_order(relative, itemsize, along)
    lanes, on = (_in_requests(x.transpose(order)) for x in (relative, active))
    sectors = _distinct_in_rows((lanes + phase) // SECTOR, on)
    widest = int(sectors.argmax())
    useful = int(_distinct_in_rows(lanes, on).sum()) if duplicates else distinct.size
    return Pattern(
        itemsize=itemsize,
        elements=offsets.size,
        requests=int(on.any(1).sum()),
        sectors=int(sectors.sum()),
        distinct_sectors=1 + int(np.count_nonzero(np.diff((distinct + phase) // SECTOR))),
        useful_bytes=useful * itemsize,
        duplicates=duplicates,
        contiguous=not duplicates and int(distinct[-1]) == (distinct.size - 1) * itemsize,
        offsets=offsets // itemsize,
        widest=lanes[widest][on[widest]],
    )


class PatternCounts(NamedTuple):
    """The counters of a Pattern for each program of a batch, as arrays."""

    elements: np.ndarray
    requests: np.ndarray
    sectors: np.ndarray
    distinct_sectors: np.ndarray
    useful_bytes: np.ndarray


def count_each(
    addresses: np.ndarray, mask: np.ndarray | None, itemsize: int, axes: tuple[int, ...], along: int | None = None
) -> tuple[PatternCounts, bool]:
    """Return the counters of accesses that have nothing in common, and whether any of them has two lanes at one address.

    addresses: (programs, lanes), multiples of `itemsize`. mask: (programs, lanes), or None for all
    """
    programs = len(addresses)
    on = np.ones(addresses.shape, bool) if mask is None else mask
    inactive = np.int64(-1)
    items = np.sort(np.where(on, addresses // itemsize, inactive), axis=1)
    elements = np.count_nonzero(on, axis=1)
    duplicates = _fresh(items).sum(1) < elements
    useful = elements.astype(np.int64)
    requests, sectors = np.zeros((2, programs), np.int64)
    laid: dict[tuple[int, ...], list[int]] = {}  # programs, by the order of their lanes
    if len(axes) > 1:
        for program, row in enumerate(addresses):
            laid.setdefault(_lane_order(row.reshape(axes), itemsize, along), []).append(program)
    else:
        laid[tuple(range(len(axes)))] = list(range(programs))
    for order, chosen in laid.items():
        turned = (0, *(axis + 1 for axis in order))
        lanes, active = (
            values[chosen].reshape(len(chosen), *axes).transpose(turned).reshape(len(chosen), -1)
            for values in (addresses, on)
        )
        spare = (0, 0), (0, -lanes.shape[1] % LANES)
        lanes, active = (np.pad(values, spare).reshape(len(chosen), -1, LANES) for values in (lanes, active))
        requests[chosen] = active.any(2).sum(1)
        sectors[chosen] = _fresh(np.sort(np.where(active, lanes // SECTOR, inactive), axis=2)).sum((1, 2))
        if duplicates[chosen].any():
            useful[chosen] = _fresh(np.sort(np.where(active, lanes, inactive), axis=2)).sum((1, 2))
    size = max(1, SECTOR // itemsize)
    units = np.where(items >= 0, items // size, inactive)
    counted = PatternCounts(elements, requests, sectors, _fresh(units).sum(1), useful * itemsize)
    return counted, bool(duplicates.any())


def _fresh(ascending: np.ndarray) -> np.ndarray:
    """A boolean array that marks the numbers that are the first of their kind along the last axis; -1 is no number."""
    fresh = ascending >= 0
    fresh[..., 1:] &= ascending[..., 1:] != ascending[..., :-1]
    return fresh


def _lane_order(relative: np.ndarray, itemsize: int, along: int | None) -> tuple[int, ...]:
    """The axes of a block as lanes lie along them, the fastest last: `along`, or as Triton lays them, the longest of unit stride, of
    equals LAST_OF_EQUALS."""
    if along is not None:
        return (*(axis for axis in range(relative.ndim) if axis != along), along)
    origin = (0,) * relative.ndim

    def contiguous(axis: int) -> int:
        length = relative.shape[axis]
        neighbour = (*origin[:axis], 1, *origin[axis + 1 :])
        return length if length > 1 and relative[neighbour] - relative[origin] == itemsize else 1

    axes = range(relative.ndim)
    return tuple(sorted(axes if LAST_OF_EQUALS else reversed(axes), key=contiguous))


def _in_requests(values: np.ndarray) -> np.ndarray:
    """One row per request; lanes that fill up the last one are 0, inactive."""
    flat = values.reshape(-1)
    return (np.pad(flat, (0, spare)) if (spare := -flat.size % LANES) else flat).reshape(-1, LANES)


def _distinct_in_rows(units: np.ndarray, active: np.ndarray) -> np.ndarray:
    """(rows,): how many numbers stand in each row of (rows, lanes), of active lanes alone, each counted once."""
    units = np.where(active, units, -1)
    units.sort(axis=1)
    fresh = units >= 0
    fresh[:, 1:] &= units[:, 1:] != units[:, :-1]
    return fresh.sum(1)
