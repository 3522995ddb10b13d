"""Loads, stores and atomics of many programs at once: each is checked, counted, and done on the arena.

Programs that do the same thing at other addresses are looked at once: their lanes lie alike (pattern.Shape), and only where
in a line the lowest one falls tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tritontrace.results import Access
from tritontrace.tracing.arithmetic import FLOATS, Arithmetic
from tritontrace.tracing.blocks import spread
from tritontrace.tracing.cache import occurrence
from tritontrace.tracing.faults import Faults
from tritontrace.tracing.memory import Arena, Batch, Region, layout_of, threads_of
from tritontrace.tracing.ordering import MAX_SYNCHRONISING, Sync, Weak
from tritontrace.tracing.pattern import SECTOR, Shape, Shapes, count_each
from tritontrace.tracing.sums import Sum, whole
from tritontrace.ttir import elements
from tritontrace.ttir.launching import KernelFault, Op, Site

REPLACING = ("exch", "cas")  # kinds of atomics: the others may come in any order
KEPT_BYTES = 1 << 28  # of values that a launch stores: what is more is not compared
EVERYONE = slice(None)  # all rows of an access
TOGETHER = 1 << 16  # lanes that are counted together
MANY = 256  # values for one address in one operation: more are added at once, in the order of lanes, if nobody asks for each


@dataclass(frozen=True, eq=False)
class Instruction:
    """A load, store or atomic of a kernel, as an instruction.

    element   the type of its elements;  axes  the shape of its block, () for a scalar;  volatile  of a load that
              looks at what others do meanwhile, as the kernel says, or since it only guesses
    described whether a tensor descriptor gives its addresses
    asks      of an atomic, whether the value before it is used
    by_all    of a load of one element, whether all threads make use of it: see unused.for_all
    again     whether it stands in a loop
    unread    of a load, whether nothing comes of its value
    along     the axis along which lanes lie, where a layout says it
    """

    op: Op
    site: Site
    element: str
    axes: tuple[int, ...]
    described: bool = False
    volatile: bool = False
    asks: bool = False
    by_all: bool = False
    again: bool = False
    unread: bool = False
    along: int | None = None
    itemsize: int = field(init=False)
    lanes: int = field(init=False)
    layout: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "itemsize", elements.itemsize(self.element))
        object.__setattr__(self, "lanes", prod(self.axes))
        object.__setattr__(self, "layout", layout_of(self.axes, self.itemsize))


@dataclass
class Hit:
    """The part of an access that falls into one region.

    rows       which of the access's rows: a slice, or their numbers. A row stands for one program, or for all if they do the same
    shape      how the lanes of each row lie, if all rows are alike;  lowest  (rows,) the lowest active one, as an offset in bytes
    addresses  (rows, lanes) the offset in bytes of each lane, where rows are not alike;  mask  (rows, lanes) the active ones, None for all
    """

    region: Region
    itemsize: int
    rows: Any
    shape: Shape | None
    lowest: np.ndarray
    addresses: np.ndarray | None = None
    mask: np.ndarray | None = None

    def in_runs(self, rows: int) -> np.ndarray | None:
        """View memory as (rows, runs, items of a run), if every lane of each row is active and lanes lie in runs; else None."""
        shape = self.shape
        if shape is None or shape.run == 1 or len(self.lowest) < rows:
            return None
        return self.region.items(self.itemsize, shape.run)[self._runs()]

    def _runs(self) -> np.ndarray:
        """(rows, runs): the item at which each run begins."""
        assert self.shape is not None
        return self._items(self.shape.items[:: self.shape.run])

    def _items(self, items: np.ndarray) -> np.ndarray:
        """Return (rows, items): those so many items from each row's lowest lane. An item begins there, or _look has refused it."""
        return (self.lowest // self.itemsize)[:, None] + items

    def load_to(self, bits: np.ndarray) -> None:
        """Load the lanes that hit this region into `bits` (rows of the access, lanes)."""
        shape = self.shape
        if shape is not None and shape.run > 1:
            bits[self.rows] = self.region.items(self.itemsize, shape.run)[self._runs()].reshape(len(self.lowest), -1)
        elif shape is not None and shape.mask is None:
            bits[self.rows] = self.region.items(self.itemsize).take(self._items(shape.items))
        else:
            lanes, places = self.lanes(bits.shape)
            bits[lanes] = self.region.items(self.itemsize).take(places)

    def store_from(self, bits: np.ndarray) -> None:
        """Write the lanes that hit this tensor into it. bits: (rows of the access, lanes), as integers of the item's size."""
        shape = self.shape
        if shape is not None and shape.run > 1:
            runs = self._runs()
            self.region.items(self.itemsize, shape.run)[runs] = bits[self.rows].reshape(*runs.shape, shape.run)
        elif shape is not None and shape.mask is None:
            self.region.items(self.itemsize)[self._items(shape.items)] = bits[self.rows]
        else:
            lanes, places = self.lanes(bits.shape)
            self.region.items(self.itemsize)[places] = bits[lanes]

    def lanes(self, access: tuple[int, ...]) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Return the active lanes, by row of the access and lane, and the item of each. access: how many rows and lanes it has."""
        rows = np.arange(access[0])[self.rows]
        if self.shape is not None:
            lane = np.arange(access[1]) if self.shape.mask is None else np.flatnonzero(self.shape.mask)
            return (np.repeat(rows, lane.size), np.tile(lane, len(rows))), self._items(self.shape.items[lane]).reshape(
                -1
            )
        assert self.addresses is not None
        if self.mask is None:
            row, lane = np.divmod(np.arange(self.addresses.size), access[1])
            return (rows[row], lane), self.addresses.reshape(-1) // self.itemsize
        row, lane = np.nonzero(self.mask)
        return (rows[row], lane), self.addresses[self.mask] // self.itemsize

    def askew(self) -> bool:
        """Whether an active lane is misaligned: no item begins there."""
        if self.shape is not None:
            return not self.shape.aligned or bool((self.lowest % self.itemsize).any())
        return self.first_askew() is not None

    def first_askew(self) -> tuple[int, int] | None:
        """Return (row, offset in bytes) of the first misaligned lane, or None."""
        if self.shape is not None:
            addresses = self.lowest[:, None] + self.shape.active
        else:
            assert self.addresses is not None
            addresses = self.addresses if self.mask is None else np.where(self.mask, self.addresses, 0)
        row, lane = np.nonzero(addresses % self.itemsize)
        return (int(row[0]), int(addresses[row[0], lane[0]])) if row.size else None


class CountedAlike(NamedTuple):
    """Accesses that are counted alike, wherever they begin. times: programs of each row."""

    at: Instruction
    tensor: str
    region: Region
    shape: Shape
    times: int


class Accesses:
    """Performs and counts the memory accesses of one launch. Addresses are offsets in its arena.

    counted   an Access for each tensor, operation and line;  batches  what was done, in order;  syncs  what orders programs
    weak      the atomics that would order more without an option of theirs
    passed    how many barriers the threads of each program have passed, up to the last program that has passed any
    poisoned  (kernel, line) of each load that left lanes out and gave no `other`
    """

    def __init__(
        self, arena: Arena, faults: Faults, shapes: Shapes, arithmetic: Arithmetic = FLOATS, zeros: bool = False
    ):
        self._arithmetic, self._zeros = arithmetic, zeros
        self.arena, self.batches, self.syncs = arena, [], []
        self.weak: list[Weak] = []
        self.counted: dict[tuple[str, Op, str, int], Access] = {}
        self.poisoned: set[tuple[str, int]] = set()
        self.passed = np.zeros(0, np.int32)
        self.wrapped: dict[Site, int] = {}  # products of int32 that wrapped on the way to an address: the first program
        self._uncounted: dict[CountedAlike, list[np.ndarray]] = {}  # the lowest addresses of accesses, each a row
        self._kept = 0  # bytes of values that were stored
        self._met = np.zeros(0, np.int64)  # of each program, the turn after which its threads last met
        self._read = np.zeros(0, bool)  # whether its threads have read shared memory since
        self.turn = 0  # of the operation that is done now
        self.changes = 0  # how often memory was changed
        self.asked: Asked | None = None  # where programs wait for one another: what each has seen
        self._faults, self._shapes = faults, shapes

    # ------------------------------------------------------------------------------------------------- operations

    def load(
        self,
        at: Instruction,
        programs: np.ndarray,
        pointers: np.ndarray | Sum,
        mask: np.ndarray | None = None,
        other: np.ndarray | None = None,
    ) -> np.ndarray:
        """Load values (programs or 1, *block). A lane that is masked out gets `other`, or else poison.

        programs: their numbers. pointers, mask, other: (programs or 1, *block), an axis of the block may be 1.
        """
        addresses, mask = _spread(at, pointers, mask)
        if mask is not None and other is None:
            self.poisoned.add((at.site.kernel, at.site.line))
            other = self._arithmetic.poison(at.element)
            other = np.zeros_like(other) if self._zeros else other
        hits = self._look(at, programs, addresses, mask)
        if self.asked is not None:
            self.asked.note(int(programs[0]), hits, (len(addresses), at.lanes))
        if len(hits) == 1 and (rows := hits[0].in_runs(len(addresses))) is not None:
            return self._arithmetic.from_memory(rows, at.element).reshape(-1, *at.axes)
        bits = np.zeros((len(addresses), at.lanes), self._arithmetic.held(at.element))
        for hit in hits:
            hit.load_to(bits)
        values = self._arithmetic.from_memory(bits, at.element).reshape(-1, *at.axes)
        return values if mask is None or other is None else np.where(mask.reshape(-1, *at.axes), values, other)

    def store(
        self,
        at: Instruction,
        programs: np.ndarray,
        pointers: np.ndarray | Sum,
        values: np.ndarray,
        mask: np.ndarray | None = None,
    ) -> None:
        """Store values (programs or 1, *block). Where several go to one address, the last one stays."""
        addresses, mask = _spread(at, pointers, mask, len(values))
        hits = self._look(at, programs, addresses, mask)
        bits = spread(self._arithmetic.to_memory(values, at.element), at.axes, len(addresses))
        bits = bits.reshape(len(addresses), at.lanes)
        self.changes += 1
        self._look_for_poison(hits, values, at, len(addresses))
        for hit in hits:
            hit.store_from(bits)
        self._kept += values.nbytes
        if self._kept <= KEPT_BYTES:
            for hit, batch in zip(hits, self.batches[len(self.batches) - len(hits) :], strict=True):
                batch.puts = partial(_in_lanes, bits, hit)
        if self.asked is not None:
            self.asked.changed(int(programs[0]))

    def update(
        self,
        at: Instruction,
        programs: np.ndarray,
        kind: str,
        sem: str,
        pointers: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray | None = None,
        expected: np.ndarray | None = None,
        scope: str = "gpu",
    ) -> np.ndarray:
        """Update (programs, *block) elements, program after program, lane after lane; return the values before.

        kind   "fadd", "add", "max", "exch", "cas", ...;  sem  "relaxed", "acquire", "release" or "acq_rel";  scope  "cta" says
               nothing to other programs. An atomic that is not asked for the values before waits for nobody
        """
        addresses, mask = _spread(at, pointers, mask, len(programs))
        assert isinstance(addresses, np.ndarray)  # of a load or a store alone it may be a sum
        tells_all = at.asks and at.lanes == 1  # one thread does it, and all get its result, by way of shared memory
        if tells_all and (waiting := programs[at.again | _known(self._read, programs, False)]).size:
            self.barrier(waiting)
        hits = self._look(at, programs, addresses, mask)

        def in_lanes(x: np.ndarray) -> np.ndarray:
            return np.broadcast_to(x, (len(programs), *at.axes)).reshape(addresses.shape)

        new, want = in_lanes(values), None if expected is None else in_lanes(expected)
        before = np.zeros(addresses.shape, self._arithmetic.poison(at.element).dtype)
        if kind in REPLACING and not at.asks:
            for hit, batch in zip(hits, self.batches[len(self.batches) - len(hits) :], strict=True):
                batch.puts = partial(_in_lanes, self._arithmetic.to_memory(new, at.element), hit)
        changes = self.changes
        self._look_for_poison(hits, values, at, len(addresses))
        for hit in hits:
            self._update(at, hit, kind, before, new, want, at.asks)
        self._synchronise(at, programs, addresses, mask, sem, scope, None if want is None else (before == want).any(1))
        if tells_all:
            self.meet(programs)
        if self.asked is not None:
            self.asked.note(int(programs[0]), hits, addresses.shape)
            if self.changes > changes:
                self.asked.changed(int(programs[0]))
        return before.reshape(len(programs), *at.axes)

    def barrier(self, programs: np.ndarray) -> None:
        """Record that all threads of each program wait for one another."""
        if (last := int(programs.max())) >= self.passed.size:
            more = (0, 2 * last + 1 - self.passed.size)
            self.passed = np.pad(self.passed, more)
            self._met = np.pad(self._met, more, constant_values=-1)
            self._read = np.pad(self._read, more)
        self.passed[programs] += 1
        self._met[programs] = self.turn
        self._read[programs] = False

    def meet(self, programs: np.ndarray) -> None:
        """Record an exchange through shared memory: all threads write, wait for one another, and read. What writes there next waits until
        all have read."""
        self.barrier(programs)
        self._read[programs] = True

    def _passed(self, programs: np.ndarray) -> np.ndarray:
        return _known(self.passed, programs, 0)

    def _update(self, at, hit: Hit, kind: str, before, new, want, used: bool) -> None:
        """Update memory for one hit, in rounds: each address comes once in each round."""
        lanes, places = hit.lanes(before.shape)
        items = hit.region.items(at.itemsize)
        turn = occurrence(places)
        new, want = new[lanes], None if want is None else want[lanes]
        exact = at.element in ("f16", "bf16")  # which round each time
        if turn.max() >= MANY and not used and kind in ("fadd", "add") and not exact:
            distinct, inverse = np.unique(places, return_inverse=True)
            sums = self._arithmetic.added(
                self._arithmetic.from_memory(items[distinct], at.element), inverse, new, at.element
            )
            items[distinct] = self._arithmetic.to_memory(sums, at.element)
            self.changes += 1
            return
        by_round = np.argsort(turn, kind="stable")
        for chosen in np.split(by_round, np.cumsum(np.bincount(turn)[:-1])):
            old = self._arithmetic.from_memory(items[places[chosen]], at.element)
            changed = self._arithmetic.updated(
                kind, old, new[chosen], None if want is None else want[chosen], at.element
            )
            items[places[chosen]] = self._arithmetic.to_memory(changed, at.element)
            before[lanes[0][chosen], lanes[1][chosen]] = old
            self.changes += bool((changed != old).any())

    # ------------------------------------------------------------------------------------------------- looking

    def _look(
        self, at: Instruction, programs: np.ndarray, addresses: np.ndarray | Sum, mask: np.ndarray | None
    ) -> list[Hit]:
        """Count an access before it is done. Raises KernelFault if a GPU would stop here."""
        self.turn += 1
        hits = []
        for rows, mine, lanes in _alike(addresses, mask, one_by_one=at.op == "atomic"):
            shape = None
            if lanes is None or lanes.ndim == 1:
                shape = self._shapes.of(at, mine, lanes, at.itemsize, at.axes, at.along)
            numbers = programs if rows is EVERYONE else programs[rows]
            if shape is not None:
                low = mine.of_lane(shape.lane) if isinstance(mine, Sum) else mine[:, shape.lane]
                high = low + shape.extent
            else:
                mine = _flat(mine)
                lanes = None if lanes is None else np.broadcast_to(lanes, mine.shape)
                low, high = _ends(mine, lanes)
                high += at.itemsize
            for region, chosen, on in self._regions(at, numbers, mine, lanes, low, high):
                one_for_all = len(mine) < len(numbers)
                whose = numbers if one_for_all or chosen is EVERYONE else numbers[chosen]
                if shape is not None and on is lanes:
                    hit = Hit(region, at.itemsize, _these(rows, chosen), shape, lowest=low[chosen] - region.start)
                else:
                    mine = _flat(mine)
                    offsets = mine[chosen] - region.start
                    on = lanes[chosen] if lanes is not None and on is lanes else on
                    lowest = _ends(offsets, on)[0]
                    hit = Hit(region, at.itemsize, _these(rows, chosen), None, lowest, offsets, on)
                if hit.askew():
                    self._refuse_askew(at, hit, whose)
                if at.op != "load":
                    region.change()
                self._count(at, hit, whose)
                hits.append(hit)
        return hits

    def _look_for_poison(self, hits: Sequence[Hit], values: np.ndarray, at: Instruction, rows: int) -> None:
        """Tell of lanes whose values come from a load that left them out, and that reach memory. rows: of the access."""
        if not self.poisoned or self._zeros:
            return
        lost = self._arithmetic.is_poison(values, at.element)
        if not lost.any():
            return
        every = spread(lost, at.axes, rows).reshape(-1, at.lanes)
        for hit, batch in zip(hits, self.batches[len(self.batches) - len(hits) :], strict=True):
            elements, programs, mine = batch.of_each(_in_lanes(every, hit))
            if mine.any():
                self._faults.undefined(batch, elements[mine], programs[mine], sorted(self.poisoned))

    def _regions(self, at, numbers, addresses, lanes, low, high) -> Iterator[tuple[Region, Any, np.ndarray | None]]:
        """Each region with the rows that touch it, and their lanes that do: `lanes` as they are, where a row lies in one region.
        Raises KernelFault if a lane lies in none."""
        region = self.arena.find(int(low.min()), int(high.max()))
        if region is not None:
            yield region, EVERYONE, lanes
            return
        which = self.arena.which(low)
        if self._in_one(which, high).all():
            for number in np.unique(which):
                yield self.arena.regions[int(number)], np.flatnonzero(which == number), lanes
            return
        addresses = _flat(addresses)
        active = np.ones(addresses.shape, bool) if lanes is None else np.broadcast_to(lanes, addresses.shape)
        which = self.arena.which(addresses)
        outside = active & ~self._in_one(which, addresses + at.itemsize)
        if outside.any():
            row = int(np.argmax(outside.any(1)))
            touched, number = addresses[row][active[row]], int(numbers[row])
            mine = [batch for batch in self.batches if batch.instruction is at]
            raise KernelFault(
                self._faults.out_of_bounds(at.op, at.site, touched, at.itemsize, number, mine, self.wrapped)
            )
        which = np.where(active, which, -1)  # pointers into several tensors, in one block
        for number in np.unique(which[active]):
            rows = np.flatnonzero((which == number).any(1))
            yield self.arena.regions[int(number)], rows, which[rows] == number

    def _in_one(self, which: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Whether all bytes up to and without `high` lie in the region of that number, where the lowest ones begin; -1: in none."""
        if not len(self.arena.ends):
            return np.zeros(which.shape, bool)
        return (which >= 0) & (high <= self.arena.ends[which])

    def _refuse_askew(self, at: Instruction, hit: Hit, numbers: np.ndarray) -> None:
        askew = hit.first_askew()
        assert askew is not None
        row, address = askew
        raise KernelFault(self._faults.misaligned(at.op, at.site, hit.region, int(numbers[row]), address, at.itemsize))

    def _count(self, at: Instruction, hit: Hit, numbers: np.ndarray) -> None:
        """numbers: of the programs whose access this is; they may be more than its rows, if one row is all of theirs."""
        region = hit.region
        times = len(numbers) // len(hit.lowest)
        tensor = region.parameters.at(int(hit.lowest[0])).name
        access = self._access(tensor, at)
        if not access.request:
            access.request = _widest(hit, at)
        region.refine(at.itemsize)
        if hit.shape is not None:
            duplicates = hit.shape.at(int(hit.lowest[0])).duplicates
            self._add_later(CountedAlike(at, tensor, region, hit.shape, times), hit.lowest)
        else:
            assert hit.addresses is not None
            counted, duplicates = count_each(hit.addresses, hit.mask, at.itemsize, at.axes, at.along)
            _add(access, at, times, *[int(counter.sum()) for counter in counted], instructions=len(hit.lowest))
            offsets = hit.addresses if hit.mask is None else hit.addresses[hit.mask]
            region.count_each(at.op == "load", offsets, 0, at.itemsize, times)

        def of_all(values: np.ndarray) -> np.ndarray:
            return values if times == 1 else np.broadcast_to(values, (len(numbers), *values.shape[1:]))

        addresses, mask = (None if values is None else of_all(values) for values in (hit.addresses, hit.mask))
        self._note(
            Batch(
                at.op,
                at.site,
                region,
                numbers,
                self.turn,
                of_all(hit.lowest),
                hit.shape,
                addresses,
                mask,
                itemsize=at.itemsize,
                axes=at.axes,
                duplicates=duplicates,
                passed=self._passed(numbers),
                volatile=at.volatile,
                asked=at.asks,
                by_all=at.by_all,
                tensor=tensor,
                instruction=at,
            ),
            at.unread,
        )

    def _add_later(self, what: CountedAlike, lowest: np.ndarray) -> None:
        """Keep where an access begins in each row, until there are many to be counted together."""
        rows = self._uncounted.setdefault(what, [])
        rows.append(lowest)
        if len(rows) * lowest.size * what.shape.active.size > TOGETHER:
            self._add_up(what, self._uncounted.pop(what))

    def settle(self) -> None:
        """Bring `counted`, and the counts of regions, up to date."""
        while self._uncounted:
            self._add_up(*self._uncounted.popitem())

    def _add_up(self, what: CountedAlike, rows: list[np.ndarray]) -> None:
        at, tensor, region, shape, times = what
        lowest = np.concatenate(rows) if len(rows) > 1 else rows[0]
        access, phases = self._access(tensor, at), np.bincount(lowest % SECTOR)
        for phase in np.flatnonzero(phases).tolist():
            p = shape.at(phase)
            counted = p.elements, p.requests, p.sectors, p.distinct_sectors, p.useful_bytes
            _add(access, at, int(phases[phase]) * times, *counted)
        begins, ends = shape.ranges
        if 2 * begins.size <= shape.active.size:
            region.count(at.op == "load", lowest, begins, ends, times)
        else:
            region.count_each(at.op == "load", lowest[:, None], shape.active, at.itemsize, times)

    def _access(self, tensor: str, at: Instruction) -> Access:
        key = (tensor, at.op, at.site.kernel, at.site.line)
        access = self.counted.get(key)
        if access is None:
            access = self.counted[key] = Access(tensor, at.op, at.site.line, at.site.source, function=at.site.kernel)
        return access

    def _note(self, batch: Batch, unread: bool) -> None:
        region = batch.region
        self.batches.append(batch)
        if batch.op != "load" and region.read_only:
            self._faults.input_changed(batch)
        if region.ready is None:
            return
        elements, rows = batch.touched()
        if batch.op == "load":
            raw = ~region.ready[elements]
            if raw.any() and not unread:
                self._faults.uninitialised(batch, elements[raw], rows[raw])
        else:
            region.ready[elements] = True

    # ------------------------------------------------------------------------------------------------- order

    def _synchronise(
        self,
        at: Instruction,
        programs: np.ndarray,
        addresses: np.ndarray,
        mask: np.ndarray | None,
        sem: str,
        scope: str,
        swapped: np.ndarray | None,
    ) -> None:
        """Note what an atomic orders. swapped: for atomic_cas, the programs in which it took place. One that did not take place
        releases nothing."""
        option = 'scope="cta"' if scope == "cta" else f'sem="{sem}"' if sem != "acq_rel" else ""
        relaxed = sem == "relaxed" or scope == "cta"
        acquire, release = at.asks and sem != "release", sem != "acquire"
        met = _known(self._met, programs, -1).tolist()
        for row, number in enumerate(programs.tolist()):
            active = addresses[row] if mask is None else addresses[row][mask[row]]
            took_place = swapped is None or bool(swapped[row])
            told = release and took_place
            threads = threads_of(at.layout, None if mask is None else mask[row])
            for address in np.unique(active)[:MAX_SYNCHRONISING].tolist():
                if not relaxed:
                    self.syncs.append(Sync(self.turn, number, address, acquire, told, met[row], threads))
                if option:
                    strong = Sync(self.turn, number, address, at.asks, took_place)
                    self.weak.append(Weak(strong, at.site.line, option))


class Asked:
    """The memory that each waiting program has read since it last polled. While that stays the same, polling again is useless."""

    def __init__(self) -> None:
        self._seen: dict[
            int, list[tuple[np.ndarray, np.ndarray, np.ndarray]] | None
        ] = {}  # None: it changed something itself

    def note(self, program: int, hits: Sequence[Hit], access: tuple[int, ...]) -> None:
        seen = self._seen.setdefault(program, [])
        if seen is not None:
            for hit in hits:
                items, places = hit.region.items(hit.itemsize), hit.lanes(access)[1]
                seen.append((items, places, items[places]))

    def changed(self, program: int) -> None:
        self._seen[program] = None

    def take(self, program: int) -> Callable[[], bool]:
        """Return a function that tells whether the memory that a program has read has changed, and forget what it read."""
        seen = self._seen.pop(program, None)
        if not seen:
            return lambda: True
        return lambda: any((items[places] != values).any() for items, places, values in seen)


def _in_lanes(bits: np.ndarray, hit: Hit) -> np.ndarray:
    """The bits of an access's active lanes that fall into one region."""
    return bits[hit.lanes(bits.shape)[0]]


def _known(values: np.ndarray, programs: np.ndarray, otherwise: int | bool) -> np.ndarray:
    """values[program] of each; `otherwise` where there is none."""
    if not values.size:
        return np.full(programs.shape, otherwise)
    if programs.max() < values.size:
        return values[programs]
    there = programs < values.size
    return np.where(there, values[np.where(there, programs, 0)], otherwise)


def _spread(
    at: Instruction, pointers: np.ndarray | Sum, mask: np.ndarray | None, programs: int = 1
) -> tuple[np.ndarray | Sum, np.ndarray | None]:
    """Addresses and mask as (programs or 1, lanes), or a sum as it is; the mask is None where all lanes are active."""
    if mask is not None and mask.all():
        mask = None
    programs = max(programs, len(pointers), 1 if mask is None else len(mask))
    if isinstance(pointers, Sum) and pointers.shape == (programs, *at.axes):
        addresses = pointers
    else:
        addresses = spread(whole(pointers), at.axes, programs).reshape(programs, -1)
    if mask is not None:
        mask = spread(mask, at.axes, programs).reshape(programs, -1)
    return addresses, mask


def _flat(addresses: np.ndarray | Sum) -> np.ndarray:
    """(programs, lanes), all added up."""
    return whole(addresses).reshape(len(addresses), -1)


def _alike(
    addresses: np.ndarray | Sum, mask: np.ndarray | None, one_by_one: bool
) -> Iterator[tuple[Any, np.ndarray | Sum, np.ndarray | None]]:
    """Rows by their masks: (which rows, their addresses, their active lanes). Rows that have no lane at all are left out.

    The active lanes are None if all are, (lanes,) if they are the same in all rows, else (rows, lanes).
    one_by_one: rows whose masks differ stay in order.
    """
    if mask is None:
        yield EVERYONE, addresses, None
    elif (mask == mask[0]).all():
        if mask[0].any():
            yield EVERYONE, addresses, None if mask[0].all() else mask[0]
    else:
        alike: dict[bytes, list[int]] = {}
        for row, bits in enumerate(np.packbits(mask, axis=1)):
            alike.setdefault(bits.tobytes(), []).append(row)
        if one_by_one or 4 * len(alike) > len(mask) > 8:  # hardly two alike
            rows = np.flatnonzero(mask.any(1))
            yield rows, addresses[rows], mask[rows]
            return
        for rows in map(np.array, alike.values()):
            lanes = mask[rows[0]]
            if lanes.any():
                yield rows, addresses[rows], None if lanes.all() else lanes


def _these(rows: Any, chosen: Any) -> Any:
    """Some of these rows."""
    if isinstance(chosen, slice):
        return rows
    return chosen if isinstance(rows, slice) else rows[chosen]


def _ends(addresses: np.ndarray, mask: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """(rows,) the lowest and the highest address of each row's active lanes."""
    if mask is None:
        return addresses.min(1), addresses.max(1)
    limits = np.iinfo(np.int64)
    return np.where(mask, addresses, limits.max).min(1), np.where(mask, addresses, limits.min).max(1)


def _widest(hit: Hit, at: Instruction) -> list[int]:
    """The lanes of the request that touches most sectors, in bytes from the beginning of the region: of all rows, or of the
    first one where they are not alike."""
    if hit.shape is None:
        assert hit.addresses is not None
        lanes = None if hit.mask is None else hit.mask[0]
        shape, lowest = Shape(hit.addresses[0], lanes, at.itemsize, at.axes, at.along), hit.lowest[:1]
    else:
        shape, lowest = hit.shape, hit.lowest
    starts = np.full(SECTOR, -1)  # for each place in a sector, the first row
    starts[lowest[::-1] % SECTOR] = lowest[::-1]
    worst = max(np.flatnonzero(starts >= 0).tolist(), key=lambda phase: shape.at(phase).sectors)
    return (starts[worst] + shape.at(worst).widest).tolist()


def _add(access, at, times, elements, requests, sectors, distinct_sectors, useful_bytes, instructions=1) -> None:
    access.instructions += instructions * times
    access.requests += requests * times
    access.elements += elements * times
    access.bytes += elements * at.itemsize * times
    access.masked += (at.lanes * instructions - elements) * times
    access.useful_bytes += useful_bytes * times
    access.sectors += sectors * times
    access.l2_sectors += (distinct_sectors if at.op == "load" else sectors) * times
    if at.asks:
        access.asked_bytes += elements * at.itemsize * times
    if at.described:
        access.described_bytes += elements * at.itemsize * times
    if at.lanes == 1:
        access.single_bytes += elements * at.itemsize * times
