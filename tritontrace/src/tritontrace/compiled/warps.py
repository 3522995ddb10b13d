"""The loads and stores of warps, counted: requests and sectors at global memory, passes at shared memory.

A warp sends each instruction as one request, which touches sectors of 32 bytes. Shared memory has 32 banks, each 4 bytes wide, and
word w lies in bank w mod 32. A warp reads or writes one word of each bank in a pass; of two different words of one bank, the second
waits for another pass. CUDA C++ Programming Guide, "Shared Memory".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from math import prod
from typing import Any, TypeVar

import numpy as np

from tritontrace.compiled import ptx
from tritontrace.compiled.places import Places
from tritontrace.results import Passes, Requests, Warps

BANKS, WORD, LANES = 32, 4, 32  # banks, bytes of a word, lanes of a warp
SECTOR, WIDEST = 32, 16  # bytes: of a sector, and of what a lane moves in one instruction at most


def passes_of(addresses: np.ndarray, active: np.ndarray, size: int) -> tuple[int, int]:
    """Count the passes of warps through shared memory for one instruction, and those without bank conflicts.

    addresses   (warps, lanes) in bytes;  active  the lanes that take part;  size  bytes that a lane moves
    """
    words = max(1, size // WORD)
    rows = addresses.reshape(-1, LANES // words)  # lanes whose words fill the banks once
    wanted = rows[:, :, None] // WORD + np.arange(words)
    wanted = np.where(active.reshape(rows.shape)[:, :, None], wanted, -1).reshape(len(rows), -1)
    fresh = _fresh(wanted)
    row, _ = np.nonzero(fresh)
    busy = np.bincount(row * BANKS + wanted[fresh] % BANKS, minlength=len(rows) * BANKS).reshape(-1, BANKS).max(1)
    return int(busy.sum()), int(np.count_nonzero(busy))


def _fresh(numbers: np.ndarray) -> np.ndarray:
    """Sort each row in place, and mark the first of each number; -1 is no number."""
    numbers.sort(axis=1)
    fresh = numbers >= 0
    fresh[:, 1:] &= numbers[:, 1:] != numbers[:, :-1]
    return fresh


# ----------------------------------------------------------------------------------------------------- of a kernel


def _touched(access: ptx.Access) -> tuple[int, int, dict[int, int]]:
    """The sectors of an access, those that would hold its bytes, and how often lanes are so many bytes apart."""
    at, active = access.addresses, access.active
    assert at is not None
    ends = np.concatenate([at, at + access.bytes - 1], 1) // SECTOR  # what is aligned lies in no more than two
    sectors = _fresh(np.where(np.tile(active, 2), ends, -1)).sum()
    lanes = _fresh(np.where(active, at // access.bytes, -1)).sum(1)
    steps, times = np.unique(abs(np.diff(at, axis=1))[active[:, 1:] & active[:, :-1]], return_counts=True)
    needed = (-(-lanes * access.bytes // SECTOR)).sum()
    return int(sectors), int(needed), dict(zip(steps.tolist(), times.tolist(), strict=True))


def _passed(access: ptx.Access) -> tuple[int, int]:
    assert access.addresses is not None
    return passes_of(access.addresses, access.active, access.bytes)


T = TypeVar("T")


class _Seen:
    """Result for the last access of each instruction, which the next turn of a loop makes again, a little further on."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], tuple[ptx.Access, Any]] = {}

    def of(self, access: ptx.Access, unit: int, look: Callable[[ptx.Access], T]) -> T:
        """Result of `look`, which is the same if each warp's addresses are so many whole units further on."""
        key = access.number, access.space
        last, result = self._last.get(key, (None, None))
        if last is None or not self._alike(last, access, unit):
            result = look(access)
            self._last[key] = access, result
        return result  # pyright: ignore[reportReturnType] - what `look` returned

    @staticmethod
    def _alike(a: ptx.Access, b: ptx.Access, unit: int) -> bool:
        assert a.addresses is not None and b.addresses is not None
        if not np.array_equal(a.active, b.active):
            return False
        further = b.addresses - a.addresses
        return bool((further == further[:, :1]).all() and not (further[:, 0] % unit).any())


class _Line:
    """The requests of one line and operation, and how wide its instructions could be."""

    def __init__(self, line: str, first: ptx.Access) -> None:
        self.counted = Requests(line, first.op, first.bytes, first.bytes)
        self._apart: Counter[int] = Counter()  # distances from lane to lane
        self._runs: Counter[int] = Counter()  # bytes that lie side by side in each lane
        self._run: list[ptx.Access] = []  # the last instructions, each of which goes on where the one before ended

    def add(self, access: ptx.Access, seen: _Seen) -> None:
        counted = self.counted
        counted.lane_bytes = min(counted.lane_bytes, access.bytes)
        counted.requests += int(access.active.any(1).sum())
        if access.addresses is None:
            counted.by_data = True
        elif access.active.any():
            sectors, needed, apart = seen.of(access, SECTOR, _touched)
            counted.sectors += sectors
            counted.needed += needed
            self._apart.update(apart)
            if not self._goes_on(access):
                self._end()
            self._run.append(access)

    def _goes_on(self, access: ptx.Access) -> bool:
        """Whether it begins, in each lane, where the instruction before ended."""
        if not self._run or (before := self._run[-1]).active.shape != access.active.shape:
            return False
        if access.number <= before.number:  # of the next turn of a loop
            return False
        both = before.active & access.active
        assert before.addresses is not None and access.addresses is not None
        return bool(both.any() and (access.addresses == before.addresses + before.bytes)[both].all())

    def _end(self) -> None:
        if not self._run:
            return
        first, *others = self._run
        together = sum(each.bytes for each in self._run)
        assert first.addresses is not None
        aligned = not (first.addresses[first.active] % min(together, WIDEST)).any()
        self._runs[together] += 1
        self.counted.joinable &= aligned and all(np.array_equal(first.active, each.active) for each in others)
        self._run = []

    def result(self) -> Requests:
        self._end()
        counted = self.counted
        counted.beside_bytes = max(self._runs, key=self._runs.__getitem__, default=counted.lane_bytes)
        counted.apart = max(self._apart, key=self._apart.__getitem__, default=0)
        return counted


def counted(places: Places, accesses: Iterable[ptx.Access]) -> tuple[list[Requests], list[Passes]]:
    """Count the requests and the passes of each line, in the order of lines; "" is a line that the compiler does not name."""
    lines: dict[tuple[str, str], _Line] = {}
    shared: dict[tuple[str, str], Passes] = {}
    seen, known = _Seen(), cache(places.of_lines)
    for access in accesses:
        place = known(access.frames)
        key = place, access.op
        if access.space == "global":
            lines.setdefault(key, _Line(place, access)).add(access, seen)
        elif access.op != "atomic" and access.addresses is not None:
            passes, needed = seen.of(access, WORD, _passed)
            before = shared.setdefault(key, Passes(place, access.op, 0, 0))
            before.passes += passes
            before.needed += needed
    in_order = sorted(lines, key=lambda key: Places.line(key[0]) if key[0] else 0)
    return [lines[key].result() for key in in_order], list(shared.values())


def from_data(data: Mapping[str, Any]) -> Warps:
    """Rebuild a Warps from the result of dataclasses.asdict."""
    made = Warps(**{each.name: data[each.name] for each in fields(Warps) if each.name in data})
    made.requests = [Requests(**each) for each in data["requests"]]
    made.passes = [Passes(**each) for each in data["passes"]]
    return made


def programs_of(grid: Sequence[int], most: int | None) -> np.ndarray:
    """Return the grid places (n, 3) of up to `most` programs, evenly spread; x runs fastest. None: of all."""
    together = prod(grid)
    numbers = np.linspace(0, together - 1, min(together, most or together)).astype(np.int64)
    return np.stack([numbers % grid[0], numbers // grid[0] % grid[1], numbers // (grid[0] * grid[1])], 1)
