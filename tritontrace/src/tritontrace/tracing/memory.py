"""Memory of a traced kernel: where tensors lie, and what was done to each of their elements.

The storages of a launch get addresses of their own, each on a 512-byte boundary with a wide guard around it. So counts
do not depend on where torch allocated, and an address outside every storage is recognised before it is used.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch.utils._python_dispatch import _disable_current_modes

from tritontrace.tracing.parameters import Parameter, Parameters
from tritontrace.tracing.pattern import Pattern, Shape
from tritontrace.ttir.launching import WARP, Op, Site

ALIGNMENT = 512  # bytes, as cudaMalloc gives
GUARD = 1 << 20  # bytes between two storages: numbers, no memory
ORIGIN = (
    1 << 50
)  # where they begin: no memory of a machine has such an address, so one that a kernel got as a number shows


class Region:
    """One torch storage: its address in the arena, and what programs did to its elements.

    names      what kernels call it, and its parts, in the order in which they first did
    parameters   of the kernel that has it now, and whose its elements are
    itemsize   bytes of the elements that are counted
    base       an address that stays the same over all launches of a trace, as if cudaMalloc had given it
    start      its address in this launch: see Arena
    reads      times each element was loaded, in the whole trace;  writes  likewise stored or updated
    loaded     the same in this launch, once it has ended; None if nothing was;  stored  likewise
    ready      False where nothing was ever written; None if all of it has a value
    changed    whether something was stored in this launch
    read_only  an input, to which no kernel should store
    elements   those of the tensor as a kernel was given it last: fewer than the storage holds, or more, if its strides say so
    """

    start: int
    changed: bool
    read_only: bool
    elements: int
    parameters: Parameters

    def __init__(self, storage: torch.UntypedStorage, itemsize: int, initialised: bool, base: int):
        self.names: dict[str, None] = {}
        self.storage = storage  # held, so that its address is not given to another tensor during the trace
        self.nbytes = storage.nbytes()
        self.itemsize = itemsize
        self.base = base
        self.reads: np.ndarray | None = None  # until something is loaded
        self.writes: np.ndarray | None = None
        self.loaded: np.ndarray | None = None
        self.stored: np.ndarray | None = None
        self.ready = None if initialised else np.zeros(self.size, bool)
        self._edges: dict[bool, np.ndarray] = {}  # load? -> by how much its number rises from one element to the next
        self._single: dict[bool, np.ndarray] = {}  # load? -> number of each element, besides that

    @property
    def size(self) -> int:
        return -(-self.nbytes // self.itemsize)

    @property
    def name(self) -> str:
        """Return the name that the first kernel with this storage gives it."""
        return next(iter(self.names))

    def place(self, element: int) -> tuple[Parameter, int]:
        """Return the parameter that holds an element, and the number of the element there: of all memory, if there is but one parameter."""
        parameter = self.parameters.at(element * self.itemsize)
        several = len(self.parameters.each) > 1
        return parameter, element - parameter.start // self.itemsize * several

    # ------------------------------------------------------------------------------------------------- memory

    def begin_launch(self) -> None:
        self.changed, self.loaded, self.stored = False, None, None
        self._edges.clear()
        self._single.clear()
        self._bytes = _bytes_of(self.storage).cpu().numpy()
        self._before: np.ndarray | None = None
        self._views: dict[tuple[int, int], np.ndarray] = {}

    def items(self, itemsize: int, run: int = 0) -> np.ndarray:
        """View the storage as integers of that many bytes; with `run`, from each of these on the next `run` of them."""
        view = self._views.get((itemsize, run))
        if view is None:
            view = _integers(self._bytes, itemsize)
            if run:
                view = np.lib.stride_tricks.sliding_window_view(view, run, writeable=True)
            self._views[itemsize, run] = view
        return view

    def change(self) -> None:
        """Prepare for a store, keeping a copy of the contents before the first one."""
        if not self.changed:
            self.changed, self._before = True, self._bytes.copy()

    def end_launch(self, completed: bool) -> None:
        """Sum the counts of a launch. One that was not completed leaves the storage as it was."""
        self.loaded, self.stored = self._counted(True), self._counted(False)
        for totals, counted in (("reads", self.loaded), ("writes", self.stored)):
            if counted is not None:
                before = getattr(self, totals)
                setattr(self, totals, counted if before is None else _narrow(np.add(before, counted, dtype=np.uint32)))
        if self.changed and not completed:
            self._bytes[:] = self._before
        elif self.changed and self.storage.device.type != "cpu":
            with quietly():
                _bytes_of(self.storage).copy_(torch.from_numpy(self._bytes))
        del self._bytes, self._before, self._views

    # ------------------------------------------------------------------------------------------------- counting

    def count(self, load: bool, lowest: np.ndarray, begins: np.ndarray, ends: np.ndarray, times: int) -> None:
        """Count ranges that were loaded, or stored, in each row: in bytes from its lowest one, an offset from the region's start."""
        edges = self._edges.get(load)
        if edges is None:
            edges = self._edges[load] = np.zeros(self.size + 1, np.int32)
        first = (lowest // self.itemsize)[:, None]  # where elements begin: accesses.py refuses others
        np.add.at(edges, (first + begins // self.itemsize).reshape(-1), np.int32(times))
        np.add.at(edges, (first + ends // self.itemsize).reshape(-1), np.int32(-times))

    def count_each(self, load: bool, offsets: np.ndarray, more: np.ndarray | int, itemsize: int, times: int) -> None:
        """Count items that were loaded, or stored, one by one: offsets and more, which broadcast, add up to bytes."""
        counts = self._single.get(load)
        if counts is None:
            counts = self._single[load] = np.zeros(self.size, np.uint32)
        at = offsets // self.itemsize + more // self.itemsize
        if at.ndim == 2 and at[0, -1] > at[-1, 0]:  # a column's lanes are far from one another, its programs are not:
            at = at.T  # memory in the order in which it lies
        at = at.reshape(-1)
        for part in range(itemsize // self.itemsize):
            np.add.at(counts[part:], at, np.uint32(times))

    def _counted(self, load: bool) -> np.ndarray | None:
        """The counts of each element, once: of a large tensor each array more is felt, so what they were made of goes."""
        edges, single = self._edges.pop(load, None), self._single.pop(load, None)
        if edges is None:
            return None if single is None else _narrow(single)
        counts = np.cumsum(edges[:-1], dtype=np.int32, out=edges[:-1]).view(np.uint32)
        return _narrow(counts if single is None else np.add(counts, single, out=counts))

    def refine(self, itemsize: int) -> None:
        """Switch to counting smaller elements: the storage is also accessed through a narrower dtype."""
        if itemsize >= self.itemsize:
            return
        parts = self.itemsize // itemsize
        kept = {load: self._counted(load) for load in (True, False)}
        self.itemsize = itemsize

        def fine(counts: np.ndarray) -> np.ndarray:
            return np.repeat(counts, parts)[: self.size]

        for name in ("reads", "writes", "ready"):
            if (values := getattr(self, name)) is not None:
                setattr(self, name, fine(values))
        self._single = {load: fine(counts).astype(np.uint32) for load, counts in kept.items() if counts is not None}

    def varied(self) -> bool:
        """Whether the values that this launch loaded, once it has ended, differ: of equal ones, equal results say nothing."""
        assert self.loaded is not None
        items = _integers(_bytes_of(self.storage).cpu().numpy(), self.itemsize)
        items = items[self.loaded[: items.size] > 0]
        return bool((items != items[:1]).any())

    def times_read(self) -> np.ndarray:
        """Return `reads` with a number for each element."""
        return np.zeros(self.size, np.uint32) if self.reads is None else self.reads.astype(np.uint32)

    def in_shape_of(self, tensor: torch.Tensor, values: np.ndarray) -> np.ndarray:
        """Return values[i] of each element, in the shape of a tensor that lies here; where its elements are wider, the largest."""
        parts = max(1, tensor.element_size() // self.itemsize)
        values = values[: self.size // parts * parts].reshape(-1, parts).max(axis=1)
        values = np.repeat(values, max(1, self.itemsize // tensor.element_size()))
        strides = [values.itemsize * stride for stride in tensor.stride()]
        return np.lib.stride_tricks.as_strided(values[tensor.storage_offset() :], tensor.shape, strides).copy()


# ------------------------------------------------------------------------------------------------- what was done


class Batch:
    """One load, store or atomic of one place in a kernel, done by several programs together.

    tensor     what the kernel calls the tensor
    instruction    which one did it: a line may have several loads
    programs   (n,) their numbers in start order, x fastest
    turn       its turn in this launch: one for all, since programs that learn of one another run one by one
    lowest     (n,) the address of each program's lowest active lane, in bytes from the start of the region
    shape      how the lanes lie from there, if all do alike; else
    passed     (n,) how many barriers each program has passed
    volatile   a load that looks at what other programs do meanwhile;  asked  an atomic whose value before it is used
    by_all     a load of one element whose value all threads make use of: otherwise the first thread's load alone counts
    puts       what makes the bits that it puts there, for each item: of stores until the launch has ended, unless they are too many,
               and of atomics that replace what is there and ask for nothing
    addresses  (n, lanes) of each lane, likewise from the start, and `mask` (n, lanes) the active ones, None for all
    """

    def __init__(
        self,
        op: Op,
        site: Site,
        region: Region,
        programs: np.ndarray,
        turn: int,
        lowest: np.ndarray,
        shape: Shape | None,
        addresses: np.ndarray | None = None,
        mask: np.ndarray | None = None,
        *,
        itemsize: int,
        axes: tuple[int, ...],
        duplicates: bool,
        passed: np.ndarray,
        volatile: bool = False,
        asked: bool = False,
        by_all: bool = False,
        tensor: str = "",
        instruction: object = None,
    ):
        self.op: Op = op
        self.site, self.region, self.programs, self.turn = site, region, programs, turn
        self.lowest, self.shape, self.addresses, self.mask = lowest, shape, addresses, mask
        self.itemsize, self.axes, self.duplicates, self.volatile = itemsize, axes, duplicates, volatile
        self.passed, self.asked, self.by_all = passed, asked, by_all
        self.tensor, self.instruction = tensor, instruction
        self.puts: Callable[[], np.ndarray] | None = None

    @property
    def turns(self) -> np.ndarray:
        """(n,) the turn of each program."""
        return np.full(self.programs.size, self.turn)

    @property
    def apart(self) -> np.ndarray:
        """Return the addresses where not all programs' lanes lie alike."""
        assert self.addresses is not None
        return self.addresses

    def touched(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the elements of the region that are touched, and the position in `programs` of each one's program. Both flat."""
        if self.shape is not None:
            at = self.lowest[:, None] + self.shape.active
            rows = np.repeat(np.arange(len(at)), at.shape[1])
            at = at.reshape(-1)
        elif self.mask is None:
            rows = np.repeat(np.arange(len(self.apart)), self.apart.shape[1])
            at = self.apart.reshape(-1)
        else:
            rows, at = np.nonzero(self.mask)[0], self.apart[self.mask]
        elements, parts = at // self.region.itemsize, self.itemsize // self.region.itemsize
        if parts > 1:
            elements, rows = (elements[:, None] + np.arange(parts)).reshape(-1), np.repeat(rows, parts)
        return elements, rows

    def exchanged(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `touched`, and the values stored there, where `puts` is known."""
        assert self.puts is not None
        return self.of_each(self.puts())

    def of_each(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `touched`, and the items' values for each element. values: of the items of all programs, or of one where all are alike."""
        elements, rows = self.touched()
        values = np.repeat(values, self.itemsize // self.region.itemsize)
        return elements, rows, np.tile(values, elements.size // max(1, values.size))

    def lanes(self) -> np.ndarray:
        """Return the position in the block of each element of `touched`."""
        if self.shape is not None:
            lanes = np.arange(self.shape.relative.size) if self.shape.mask is None else np.flatnonzero(self.shape.mask)
            lanes = np.tile(lanes, len(self.lowest))
        elif self.mask is None:
            lanes = np.tile(np.arange(self.apart.shape[1]), len(self.apart))
        else:
            lanes = np.nonzero(self.mask)[1]
        parts = self.itemsize // self.region.itemsize
        return np.repeat(lanes, parts)

    @property
    def layout(self) -> tuple[int, ...]:
        """Return a key that tells layouts apart; () for an access of one element."""
        return layout_of(self.axes, self.itemsize)

    def threads(self) -> np.ndarray:
        """Return a number (n,) for the threads that do each program's access: see threads_of."""
        if self.by_all:
            return np.full(self.programs.size, ALL_THREADS)
        if self.shape is None and self.mask is not None:
            return np.array([threads_of(self.layout, row) for row in self.mask], np.int64)
        mask = None if self.shape is None else self.shape.mask
        return np.full(self.programs.size, threads_of(self.layout, mask))

    def bytes_each(self) -> int | np.ndarray:
        """Bytes that each program moves: a number where all move as many, else (n,)."""
        if self.shape is not None:
            return self.shape.active.size * self.itemsize
        return (
            self.apart.shape[1] * self.itemsize
            if self.mask is None
            else np.count_nonzero(self.mask, axis=1) * self.itemsize
        )

    def pattern(self, row: int) -> Pattern:
        """Return the pattern of one program's access."""
        shape = self.shape
        if shape is None:
            mask = None if self.mask is None else self.mask[row]
            shape = Shape(self.apart[row], mask, self.itemsize, self.axes)
        return shape.at(int(self.lowest[row]))


FIRST_WARP, ALL_THREADS = 0, 1


def layout_of(axes: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a key that tells layouts of blocks apart; () for an access of one element."""
    shape = tuple(extent for extent in axes if extent > 1)
    return (*shape, itemsize) if shape else ()


def threads_of(layout: tuple[int, ...], active: np.ndarray | None) -> int:
    """Return a number for the threads that do an access: those of one number are the same. active: (lanes,), None for all.

    Up to 32 elements lie in the first warp, whose first thread does what concerns one element. Lanes of one layout lie in the
    same threads.
    """
    if prod(layout[:-1]) <= WARP:
        return FIRST_WARP
    lanes = b"" if active is None or active.all() else np.packbits(active).tobytes()
    return hash((layout, lanes)) | 1 << 62  # neither of the two above


class Step(NamedTuple):
    """One load, store or atomic of one program.

    program   its number in start order, x fastest;  tensor  what the kernel calls it
    address   of its lowest lane, in the addresses of Region.base;  pattern  how the lanes lie from there
    """

    program: int
    op: Op
    line: int
    region: Region
    tensor: str
    address: int
    pattern: Pattern

    @property
    def elements(self) -> slice | np.ndarray:
        """Return the indices of the elements of `region` that it touches."""
        first, per_item = (
            (self.address - self.region.base) // self.region.itemsize,
            self.pattern.itemsize // self.region.itemsize,
        )
        if self.pattern.contiguous:
            return slice(first, first + self.pattern.elements * per_item)
        indices = first + self.pattern.offsets * per_item
        return indices if per_item == 1 else (indices[:, None] + np.arange(per_item)).ravel()


class Steps(Sequence[Step]):
    """All accesses of one launch, program after program, those of a program in the order in which it made them.

    batches    as they came;  position  of each program, by its number: its place among them; None: the programs' own order
    """

    def __init__(self):
        self.batches: list[Batch] = []
        self.position: np.ndarray | None = None

    def of_program(self, number: int) -> list[Step]:
        """List the accesses of one program."""
        rows = ((batch, row) for batch in self.batches for row in np.flatnonzero(batch.programs == number))
        return [_step(batch, int(row)) for batch, row in rows]

    def bytes_by_program(self) -> np.ndarray:
        """Bytes that each program moved, by its number."""
        totals: dict[int, tuple[np.ndarray, int | np.ndarray]] = {}
        for batch in self.batches:
            _, total = totals.get(id(batch.programs), (None, 0))  # in a loop they are the same
            totals[id(batch.programs)] = batch.programs, total + batch.bytes_each()
        moved = np.zeros(max((int(programs.max()) for programs, _ in totals.values()), default=-1) + 1, np.int64)
        for programs, total in totals.values():
            np.add.at(moved, programs, total)
        return moved

    @cached_property
    def _steps(self) -> list[Step]:
        if not self.batches:
            return []
        programs = np.concatenate([batch.programs for batch in self.batches])
        batch = np.repeat(np.arange(len(self.batches)), [len(b.programs) for b in self.batches])
        row = np.concatenate([np.arange(len(b.programs)) for b in self.batches])
        place = programs if self.position is None else self.position[programs]
        order = np.argsort(place, kind="stable")
        return [_step(self.batches[b], r) for b, r in zip(batch[order].tolist(), row[order].tolist(), strict=True)]

    def __len__(self) -> int:
        return sum(len(batch.programs) for batch in self.batches)

    def __getitem__(self, index):
        return self._steps[index]

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)


def _step(batch: Batch, row: int) -> Step:
    address = batch.region.base + int(batch.lowest[row])
    return Step(
        int(batch.programs[row]), batch.op, batch.site.line, batch.region, batch.tensor, address, batch.pattern(row)
    )


# ------------------------------------------------------------------------------------------------- the arena


def storage_key(tensor: torch.Tensor) -> int:
    """Return a number that two tensors share if they share memory."""
    storage = tensor.untyped_storage()
    return storage.data_ptr() or id(storage)


class Arena:
    """Addresses for the storages of one launch: each on a 512-byte boundary, with a wide guard around it.

    starts, ends   (regions,) of each region, ascending
    """

    def __init__(self, regions: Iterable[Region]):
        self.regions = list(regions)
        offset = ORIGIN
        for region in self.regions:
            region.start = offset
            region.begin_launch()
            offset = -(-(offset + region.nbytes + GUARD) // ALIGNMENT) * ALIGNMENT
        self.starts = np.array([region.start for region in self.regions], np.int64)
        self.ends = np.array([region.start + region.nbytes for region in self.regions], np.int64)
        self._starts, self._ends = self.starts.tolist(), self.ends.tolist()

    def which(self, addresses: ArrayLike) -> np.ndarray:
        """Return the number of the last region that begins at each address or before it; -1 if none does."""
        return np.searchsorted(self.starts, addresses, "right") - 1

    def find(self, low: int, high: int) -> Region | None:
        """The region that holds all bytes from `low` up to and without `high`."""
        i = bisect(self._starts, low) - 1
        return self.regions[i] if i >= 0 and high <= self._ends[i] else None

    @staticmethod
    def nearest(address: int, regions: Iterable[Region]) -> Region | None:
        """The nearest of these regions; None if there are none."""
        return min(regions, key=lambda r: max(r.start - address, address - (r.start + r.nbytes - 1)), default=None)

    def end_launch(self, completed: bool) -> None:
        for region in self.regions:
            region.end_launch(completed)


def bytes_behind(tensor: torch.Tensor) -> torch.Tensor:
    """Return all memory that a tensor is a view of, as bytes (n,)."""
    return _bytes_of(tensor.untyped_storage())


def _bytes_of(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def _narrow(counts: np.ndarray) -> np.ndarray:
    """The same numbers in as few bytes as hold the largest."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))), copy=False)


def _integers(raw: np.ndarray, itemsize: int) -> np.ndarray:
    """Bytes as integers of so many bytes each: those that do not fill one are left out."""
    return raw[: raw.size // itemsize * itemsize].view(f"i{itemsize}")


def quietly() -> ExitStack:
    """Return a context that hides a trace's own torch operations from autograd and dispatch modes."""
    stack = ExitStack()
    stack.enter_context(_disable_current_modes())
    stack.enter_context(torch.no_grad())
    return stack
