"""Where tensors lie while a kernel is traced, and what was done to each of their elements.

All storages of a launch are copied into one arena, each on a 512-byte boundary with a wide guard around it. So counts
do not depend on where torch allocated, and an address outside every storage is recognised before it is used.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from course_lib.tracing.pattern import Pattern

ALIGNMENT = 512  # bytes, as cudaMalloc gives
GUARD = 1 << 20  # bytes between two storages; never touched, so it costs address space alone
NOBODY = -1  # values of `reader` and `writer` that are not a program
SEVERAL = -2


class Region:
    """One torch storage: where it lies in the arena and what programs did to its elements.

    itemsize   bytes of the elements that are counted
    base       an address that stays the same over all launches of a trace, as if cudaMalloc had given it
    reads      times each element was loaded, in the whole trace;  writes likewise
    ready      False where nothing was ever written; None if all of it has a value
    reads_before  `reads` when this launch began;  writes_before  likewise
    reader     the program that loaded each element in this launch, NOBODY or SEVERAL; None until someone stores here
    writer     the last program that stored to it in this launch, or NOBODY; None until someone stores here
    by_atomic  whether that was an atomic, likewise
    last_load  when each program last loaded from here in this launch (see Ordering);  last_store  likewise
    """

    def __init__(self, name: str, storage: torch.UntypedStorage, itemsize: int, initialised: bool, base: int):
        self.name = name
        self.storage = storage  # held, so that its address is not given to another tensor during the trace
        self.nbytes = storage.nbytes()
        self.itemsize = itemsize
        self.base = base
        self.start = 0  # address in the arena of this launch
        self.changed = False  # in this launch
        self.read_only = False  # an input, to which no kernel should store
        size = -(-self.nbytes // itemsize)
        self.reads = np.zeros(size, np.uint32)
        self.writes = np.zeros(size, np.uint32)
        self.ready = None if initialised else np.zeros(size, bool)

    @property
    def size(self) -> int:
        return self.reads.size

    def begin_launch(self) -> None:
        self.changed = False
        self.reads_before, self.writes_before = self.reads.copy(), self.writes.copy()
        self.reader: np.ndarray | None = None
        self.writer: np.ndarray | None = None
        self.by_atomic: np.ndarray | None = None
        self.last_load: dict[int, int] = {}
        self.last_store: dict[int, int] = {}

    def count_load(self, elements: slice | np.ndarray, duplicates: bool) -> None:
        _increment(self.reads, elements, duplicates)

    def count_store(self, elements: slice | np.ndarray, duplicates: bool) -> None:
        _increment(self.writes, elements, duplicates)
        self.changed = True
        if self.ready is not None:
            self.ready[elements] = True

    def note_writer(self, elements: slice | np.ndarray, program: int, atomic: bool) -> None:
        if self.writer is None:
            self.writer, self.by_atomic = np.full(self.size, NOBODY, np.int32), np.zeros(self.size, bool)
        self.writer[elements] = program
        self.by_atomic[elements] = atomic

    def elements(self, offset: int, pattern: Pattern) -> slice | np.ndarray:
        """Indices of the elements that an access touches whose lowest lane is `offset` bytes from the start."""
        if pattern.itemsize < self.itemsize:
            self._refine(self.itemsize // pattern.itemsize)
        per_item = pattern.itemsize // self.itemsize
        first = offset // self.itemsize
        if pattern.contiguous:
            return slice(first, first + pattern.elements * per_item)
        indices = first + pattern.offsets * per_item
        return indices if per_item == 1 else (indices[:, None] + np.arange(per_item)).ravel()

    def in_shape_of(self, tensor: torch.Tensor, values: np.ndarray) -> np.ndarray:
        """values[i] of each element, in the shape of a tensor that lies here; where its elements are wider, the largest."""
        parts = max(1, tensor.element_size() // self.itemsize)
        values = values[: self.size // parts * parts].reshape(-1, parts).max(axis=1)
        values = np.repeat(values, max(1, self.itemsize // tensor.element_size()))
        strides = [values.itemsize * stride for stride in tensor.stride()]
        return np.lib.stride_tricks.as_strided(values[tensor.storage_offset() :], tensor.shape, strides).copy()

    def _refine(self, parts: int) -> None:
        """Count smaller elements from now on: the storage is also seen through a narrower dtype."""
        self.itemsize //= parts
        for name in ("reads", "reads_before", "writes", "writes_before", "ready", "reader", "writer", "by_atomic"):
            values = getattr(self, name)
            if values is not None:
                setattr(self, name, np.repeat(values, parts)[: -(-self.nbytes // self.itemsize)])


def _increment(counts: np.ndarray, elements: slice | np.ndarray, duplicates: bool) -> None:
    if duplicates:
        np.add.at(counts, elements, 1)
    else:
        counts[elements] += 1


class Step(NamedTuple):
    """One load, store or atomic of one program, as it came.

    program   its number in start order, x fastest
    address   of its lowest lane, in the addresses of Region.base;  pattern  how the lanes lie from there
    """

    program: int
    op: Literal["load", "store", "atomic"]
    line: int
    region: Region
    address: int
    pattern: Pattern

    @property
    def elements(self) -> slice | np.ndarray:
        """Indices of the elements of `region` that it touches."""
        return self.region.elements(self.address - self.region.base, self.pattern)


def storage_key(tensor: torch.Tensor) -> int:
    """A number that two tensors share if they share memory."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() or id(storage)


class Arena:
    """Copies of the storages of one launch. `find` tells in which of them an address range lies."""

    def __init__(self, regions: Iterable[Region]):
        self.regions = list(regions)
        offset, offsets = GUARD, []
        for region in self.regions:
            offsets.append(offset)
            offset = -(-(offset + region.nbytes + GUARD) // ALIGNMENT) * ALIGNMENT
        with _quietly():
            self._memory = torch.empty(offset + ALIGNMENT, dtype=torch.uint8)
            shift = -self._memory.data_ptr() % ALIGNMENT
            for region, offset in zip(self.regions, offsets, strict=True):
                region.begin_launch()
                region.start = self._memory.data_ptr() + offset + shift
                self._copy_of(region).copy_(_bytes_of(region.storage))
        self._starts = [region.start for region in self.regions]

    def _copy_of(self, region: Region) -> torch.Tensor:
        offset = region.start - self._memory.data_ptr()
        return self._memory[offset : offset + region.nbytes]

    def find(self, low: int, high: int) -> Region | None:
        """The region that holds all bytes from `low` up to and without `high`."""
        i = bisect.bisect_right(self._starts, low) - 1
        region = self.regions[i] if i >= 0 else None
        return region if region and high <= region.start + region.nbytes else None

    def nearest(self, address: int) -> Region:
        return min(self.regions, key=lambda r: max(r.start - address, address - (r.start + r.nbytes - 1), 0))

    def copy_back(self) -> None:
        """Write what the launch changed into the tensors themselves."""
        with _quietly():
            for region in self.regions:
                if region.changed:
                    _bytes_of(region.storage).copy_(self._copy_of(region))


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _quietly():
    """The arena's own copies are no business of autograd or of whoever records torch operations."""
    stack = ExitStack()
    stack.enter_context(_disable_current_modes())
    stack.enter_context(torch.no_grad())
    return stack
