"""Finds what a program stores and another of its threads loads, with no barrier between.

Which thread holds which element is the compiler's choice. The rule here is what holds for all of its choices:

* An access of one block shape has one layout, so what lane i of a block stores, lane i of a block of that shape may load. Axes of
  one element are left out of shapes, for they change nothing.
* Of an access of one element all threads do the same, but one thread alone stores. Whoever loads it is another, unless the
  value that was loaded goes nowhere but into such stores: then the load of that one thread counts.
* Threads meet at tl.debug_barrier(), where values go from lane to lane (reductions, scans, products, histograms, gathers), and
  behind an atomic of one element whose result is used, which all threads get from the one that asked. The compiler puts
  barriers there. It puts one before such an atomic, too, if threads may still read in shared memory what they got the last
  time that they met. Any other atomic is none.
* The threads of one warp go step by step: a program of one warp has nothing to wait for.

Volatile loads look at what others do meanwhile, and are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tritontrace.tracing.memory import Batch, Region
from tritontrace.ttir.launching import Site

NOBODY = -1


class Early(NamedTuple):
    """A load that may come before the store that it needs. program, element: the first one; elements: all, in all programs."""

    site: Site
    region: Region
    program: int
    element: int
    elements: np.ndarray
    stored: Site


def find(regions: Iterable[Region], batches: Sequence[Batch], position: np.ndarray | None = None) -> list[Early]:
    """Find the loads of what another thread of the program stores without a barrier: one for each line and tensor, in order.

    position[program]: its place in the order in which programs are told; None: by number.
    """
    both = [
        region
        for region in regions
        if region.stored is not None and region.loaded is not None and ((region.stored > 0) & (region.loaded > 0)).any()
    ]
    if not both:
        return []
    stores: dict[int, list[Batch]] = {id(region): [] for region in both}
    for batch in batches:
        if batch.op == "store" and id(batch.region) in stores:
            stores[id(batch.region)].append(batch)
    stored = {id(region): _Stored(region, stores[id(region)]) for region in both}
    found: dict[tuple, list[tuple[Batch, np.ndarray, np.ndarray, np.ndarray]]] = {}
    for batch in batches:
        known = stored.get(id(batch.region))
        if known is None or batch.volatile or batch.op == "atomic":
            continue
        if batch.op == "store":
            known.note(batch)
            continue
        elements, programs, by = known.loaded_elsewhere(batch)
        if elements.size:
            key = (id(batch.region), batch.site.kernel, batch.site.line)
            found.setdefault(key, []).append((batch, elements, programs, by))
    return [_first(mine, stored[key[0]], position) for key, mine in found.items()]


class _Stored:
    """The last store to each element of a tensor: its lane, and the number of its row, which is what one program did in one batch.

    program, passed, line   of each row: who, how many barriers that had passed, and a number in `lines`
    """

    def __init__(self, region: Region, stores: Sequence[Batch]):
        self.row, self.lane = np.full(region.size, NOBODY, np.int32), np.zeros(region.size, np.int32)
        sizes = [batch.programs.size for batch in stores]
        self.base = dict(zip(map(id, stores), np.cumsum([0, *sizes]).tolist(), strict=False))
        nobody = np.array([NOBODY])  # the last row, of what no program stored
        self.program = np.concatenate([*(batch.programs for batch in stores), nobody])
        self.passed = np.concatenate([*(batch.passed for batch in stores), nobody])
        keys = [(batch.site, batch.layout) for batch in stores]
        self.lines = list(dict.fromkeys(keys))
        self.line = np.repeat([*map(self.lines.index, keys), 0], [*sizes, 1])

    def note(self, batch: Batch) -> None:
        elements, rows = batch.touched()
        self.row[elements] = self.base[id(batch)] + rows
        self.lane[elements] = batch.lanes()

    def loaded_elsewhere(self, batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(elements, programs, numbers of lines that stored them) of what a batch loads in other threads than those."""
        elements, rows = batch.touched()
        by = self.row[elements]
        own = (self.program[by] == batch.programs[rows]) & (self.passed[by] == batch.passed[rows])
        if not own.any():
            return elements[own], rows[own], rows[own]
        alike = bool(batch.layout) or not batch.by_all
        same = np.array([alike and layout == batch.layout for _, layout in self.lines])
        elsewhere = own & ~(same[self.line[by]] & (self.lane[elements] == batch.lanes()))
        return elements[elsewhere], batch.programs[rows[elsewhere]], self.line[by[elsewhere]]


def _first(mine: list, stored: _Stored, position: np.ndarray | None) -> Early:
    elements, programs, lines = (np.concatenate([part[i] for part in mine]) for i in (1, 2, 3))
    at = int(np.argmin(programs if position is None else position[programs]))
    site = stored.lines[int(lines[at])][0]
    batch = mine[0][0]
    return Early(batch.site, batch.region, int(programs[at]), int(elements[at]), np.unique(elements), site)
