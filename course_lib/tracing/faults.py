"""What a GPU would get wrong: accesses outside tensors, races between programs, values that nobody wrote.

Programs run one after the other here, so nothing goes wrong by itself: who did what to each element is written down,
and each access is asked whether a program running beside it could have disturbed it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from course_lib.exercise import Fault
from course_lib.tracing.hooks import Op, Site
from course_lib.tracing.memory import NOBODY, SEVERAL, Arena, Region, Step
from course_lib.tracing.pattern import Pattern

MAX_SYNCHRONISING = 16  # addresses of one atomic that are remembered; more is a sum, not a lock
VERB = {"load": "loads from", "store": "stores to", "atomic": "updates"}


@dataclass
class _Sighting:
    """A fault as first seen, and how many elements of a tensor it concerned, at most, in all programs."""

    fault: Fault
    advice: str
    region: Region | None = None  # the last one in which it was seen: each call has tensors of its own
    concerned: np.ndarray | None = None  # of its elements, each once
    most: int = 0

    def note(self, region: Region, places: np.ndarray) -> None:
        if region is not self.region:
            self.most = self._elements
            self.region, self.concerned = region, np.zeros(region.size, bool)
        self.concerned[places] = True

    @property
    def _elements(self) -> int:
        return self.most if self.concerned is None else max(self.most, int(np.count_nonzero(self.concerned)))

    def report(self) -> Fault:
        in_all = f" ({self._elements} elements in all)" if self._elements > 1 else ""
        return replace(self.fault, sentence=f"{self.fault.sentence}{in_all}. {self.advice}")


class Ordering:
    """Which program's accesses come before which other's on a GPU too, because atomics order them.

    A program that updates an address after its own stores hands them to whoever updates the same address before looking:
    so do locks (atomic_cas, then atomic_xchg) and tickets (the last to count sums up what the others stored).
    """

    def __init__(self):
        self._clock = 0
        self._updates: dict[int, dict[int, int]] = {}  # program -> address -> when it was last updated

    def tick(self) -> int:
        self._clock += 1
        return self._clock

    def update(self, program: int, addresses: np.ndarray) -> None:
        mine = self._updates.setdefault(program, {})
        now = self.tick()
        for address in np.unique(addresses)[:MAX_SYNCHRONISING].tolist():
            mine[address] = now

    def before(self, accesses: dict[int, int], others: Iterable[int], program: int) -> bool:
        """Whether all that `others` did at the times in `accesses` comes before what `program` does now."""
        mine = self._updates.get(program, {})
        return all(
            any(when > accesses.get(other, 0) for a, when in self._updates.get(other, {}).items() if a in mine)
            for other in others
        )


class Faults:
    """Looks at each access of each launch; `report()` tells what was found, each fault once for its line and tensor."""

    def __init__(self):
        self._sightings: dict[tuple[str, str, int, str], _Sighting] = {}
        self._program, self._index = 0, (0, 0, 0)

    def report(self) -> list[Fault]:
        return [sighting.report() for sighting in self._sightings.values()]

    def begin_launch(
        self, grid: tuple[int, int, int], arena: Arena, parameters: dict[str, Region], steps: list[Step]
    ) -> None:
        """steps: the accesses of this launch, as they come."""
        self._grid, self._arena, self._parameters, self._steps = grid, arena, parameters, steps
        self._ordering = Ordering()

    def begin_program(self, program: int, index: tuple[int, int, int]) -> None:
        self._program, self._index = program, index

    def synchronised(self, addresses: np.ndarray) -> None:
        self._ordering.update(self._program, addresses)

    # ------------------------------------------------------------------------------------------------- accesses

    def loaded(self, site: Site, region: Region, elements: slice | np.ndarray) -> None:
        if region.ready is not None:
            raw = ~region.ready[elements]
            if raw.any():
                self._see(
                    "uninitialised",
                    site,
                    region,
                    _places(elements, raw),
                    f"loads element {_first(elements, raw)} of {self._called(region)}, which torch.empty made and nothing has written",
                    "Write it first, or start from torch.zeros.",
                )
        if region.reader is not None:
            _note_reader(region, elements, self._program)
        if self._others(region.last_store):
            writer = region.writer[elements]
            others = (writer != NOBODY) & (writer != self._program) & ~region.by_atomic[elements]
            if others.any() and not self._ordered(region.last_store, writer[others]):
                self._see(
                    "race",
                    site,
                    region,
                    _places(elements, others),
                    f"loads element {_first(elements, others)} of {self._called(region)}, to which "
                    f"{self._other(writer, others)} stores in the same launch",
                    "On a GPU nobody knows which comes first: use two launches, or another output tensor.",
                )
        region.last_load[self._program] = self._ordering.tick()

    def stored(self, site: Site, region: Region, elements: slice | np.ndarray, pattern: Pattern, atomic: bool) -> None:
        if region.read_only:
            self._see(
                "input changed",
                site,
                region,
                elements,
                f"stores to {self._called(region)}, which is an input",
                "Write to a tensor of your own.",
            )
        writer, stored = self._stored_by_others(region, elements, atomic)
        reader, loaded = (None, np.False_) if atomic else self._loaded_by_others(region, elements)
        if stored.any() and not self._ordered(region.last_store, writer[stored]):
            self._see(
                "race",
                site,
                region,
                _places(elements, stored),
                f"stores to element {_first(elements, stored)} of {self._called(region)}, and so does "
                f"{self._other(writer, stored)}",
                "On a GPU nobody knows which comes last: give each program its own elements, or use an atomic.",
            )
        elif loaded.any() and not self._ordered(region.last_load, reader[loaded]):
            self._see(
                "race",
                site,
                region,
                _places(elements, loaded),
                f"stores to element {_first(elements, loaded)} of {self._called(region)}, which {self._other(reader, loaded)} "
                "loads in the same launch",
                "On a GPU nobody knows which comes first: use two launches, or another output tensor.",
            )
        elif pattern.duplicates and not atomic:
            values, counts = np.unique(elements, return_counts=True)
            twice = values[counts > 1]
            self._see(
                "race",
                site,
                region,
                twice,
                f"stores to element {int(twice[0])} of {self._called(region)} from several lanes at once",
                "Only one of the values stays: give each lane its own element, or reduce first.",
            )
        region.note_writer(elements, self._program, atomic)
        region.last_store[self._program] = self._ordering.tick()

    def out_of_bounds(self, op: Op, site: Site, active: np.ndarray, itemsize: int) -> Fault:
        """active: the addresses of the active lanes."""
        region = self._meant(op, site, active, itemsize)
        if region is None:
            what, name = f"{VERB[op]} memory, but was given no tensor", ""
        else:
            outside = (active < region.start) | (active > region.start + region.nbytes - itemsize)
            first = (int(active[outside][0]) - region.start) // itemsize
            name = region.name
            elements, lanes = region.nbytes // itemsize, f"{active.size} lane{'s' * (active.size != 1)}"
            what = (
                f"{VERB[op]} element {first} of {self._called(region)}, which has {elements} element{'s' * (elements != 1)} "
                f"({outside.sum()} of {lanes} {'is' if outside.sum() == 1 else 'are'} outside)"
            )
        fault = Fault("out of bounds", f"{site}: {self._who()} {what}", site.kernel, site.line, name)
        sighting = _Sighting(fault, "Is a mask missing, or a stride or an offset wrong?")
        self._sightings[fault.kind, fault.kernel, fault.line, fault.tensor] = sighting
        return sighting.report()

    def _meant(self, op: Op, site: Site, active: np.ndarray, itemsize: int) -> Region | None:
        """The tensor that a wild access was meant for: an address alone does not say."""
        for address in (int(active.min()), int(active.max())):
            if region := self._arena.find(address, address + itemsize):
                return region
        here = {step.region.name for step in self._steps if (step.op, step.line) == (op, site.line)}
        named = {region.name for parameter, region in self._parameters.items() if _mentions(site.source, parameter)}
        for names in (here, named):
            if len(names) == 1:
                return next(region for region in self._arena.regions if region.name in names)
        return self._arena.nearest(int(active[0])) if self._arena.regions else None

    # ------------------------------------------------------------------------------------------------- other programs

    def _others(self, accesses: dict[int, int]) -> bool:
        """Whether another program is among these."""
        return len(accesses) > (self._program in accesses)

    def _stored_by_others(self, region: Region, elements: slice | np.ndarray, atomic: bool) -> tuple:
        """The last program that stored to each element, and where that was another one. Atomics do not disturb atomics."""
        if not self._others(region.last_store):
            return None, np.False_
        writer = region.writer[elements]
        return writer, (writer != NOBODY) & (writer != self._program) & ~(region.by_atomic[elements] & atomic)

    def _loaded_by_others(self, region: Region, elements: slice | np.ndarray) -> tuple:
        """The program that loaded each element in this launch, and where that was another one."""
        if not self._others(region.last_load):
            return None, np.False_
        if region.reader is None:  # few kernels store to what they load: the readers are looked up when one does
            region.reader = np.full(region.size, NOBODY, np.int32)
            for step in self._steps:
                if step.region is region and step.op == "load":
                    _note_reader(region, step.elements, step.program)
        reader = region.reader[elements]
        return reader, (reader != NOBODY) & (reader != self._program)

    def _ordered(self, accesses: dict[int, int], programs: np.ndarray) -> bool:
        """Whether atomics put what these programs did before what this one does now."""
        others = set(np.unique(programs).tolist())
        if SEVERAL in others:
            others = accesses.keys() - {self._program}
        return self._ordering.before(accesses, others, self._program)

    # ------------------------------------------------------------------------------------------------- sentences

    def _see(self, kind, site: Site, region: Region, places: slice | np.ndarray, what: str, advice: str) -> None:
        """Note a fault once for each kind, line and tensor, and the elements that it concerns."""
        key = (kind, site.kernel, site.line, region.name)
        if key not in self._sightings:
            fault = Fault(kind, f"{site}: {self._who()} {what}", site.kernel, site.line, region.name)
            self._sightings[key] = _Sighting(fault, advice)
        self._sightings[key].note(region, places)

    def _called(self, region: Region) -> str:
        """Its name; of a buffer, or of one result of several, also the kernel's name for it."""
        if region.name.startswith(("out[", "buffer ")):
            mine = [f" (`{name}`)" for name, each in self._parameters.items() if each is region]
            return f"`{region.name}`{''.join(mine[:1])}"
        return f"`{region.name}`"

    def _who(self) -> str:
        return f"program {_program_text(self._index, self._grid)}"

    def _other(self, programs: np.ndarray, concerned: np.ndarray) -> str:
        program = int(programs[concerned][0])
        if program == SEVERAL:
            return "more than one other program"
        columns, rows, _ = self._grid
        index = (program % columns, program // columns % rows, program // (columns * rows))
        return f"program {_program_text(index, self._grid)}"


def _note_reader(region: Region, elements: slice | np.ndarray, program: int) -> None:
    reader = region.reader[elements]
    region.reader[elements] = np.where((reader == NOBODY) | (reader == program), program, SEVERAL)


def _program_text(index: tuple[int, int, int], grid: tuple[int, int, int]) -> str:
    used = max([1] + [axis + 1 for axis in range(3) if grid[axis] > 1])
    return str(index[0]) if used == 1 else str(index[:used])


def _mentions(source: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", source) is not None


def _places(elements: slice | np.ndarray, concerned: np.ndarray) -> np.ndarray:
    return elements.start + np.flatnonzero(concerned) if isinstance(elements, slice) else elements[concerned]


def _first(elements: slice | np.ndarray, concerned: np.ndarray) -> int:
    return int(_places(elements, concerned)[0])
