"""Faults, which a GPU would get wrong: accesses outside tensors, races, values that nobody wrote, promises that are not kept.

Nothing of it goes wrong here by itself. When a launch has ended, races.py finds races between programs (ordering.py what atomics
order), threads.py those within one, hints.py what was promised; tuning.py runs an autotuned launch again. Here each fault is told
once, in a sentence of catalogue/trace.toml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tritontrace.messages import Message, say
from tritontrace.results import Between, Fault, FaultKind, Launch, Note, NoteKind
from tritontrace.tracing import races, threads
from tritontrace.tracing.memory import Arena, Batch, Region
from tritontrace.tracing.ordering import Sync, Weak
from tritontrace.tracing.races import NOBODY, SEVERAL, Hasty, Race
from tritontrace.ttir.hints import ASSUME, CONSTANT, CONTIGUOUS, FUNCTIONS, MULTIPLE, Promise
from tritontrace.ttir.launching import Grid, Op, Site

BLOCKS = {MULTIPLE: "begins", CONTIGUOUS: "follow", CONSTANT: "differ"}  # what is told of a block, by the promise
FAR = 1 << 44  # bytes from a tensor: no offset that is merely wrong goes there, and addresses of real memory do


@dataclass
class _Sighting:
    """A fault as first seen, and how many elements of a tensor it concerned, at most, in all programs.

    id, parameters   of its sentence, the number of elements left out
    seen             in which launch, and in which place of its programs
    harmless         whether all that was stored each time was the same value
    """

    fault: Fault
    id: str
    parameters: dict[str, Any]
    seen: tuple[int, int]
    region: Region | None = None  # the last one in which it was seen: each call has tensors of its own
    concerned: np.ndarray | None = None  # of its elements, each once
    itemsize: int = 1  # of these
    most: int = 0
    harmless: bool = False

    def note(self, region: Region, places: np.ndarray) -> None:
        if region is not self.region or self.concerned is None:
            self.most = self._elements
            self.region, self.itemsize, self.concerned = region, region.itemsize, np.zeros(region.size, bool)
        if self.itemsize != region.itemsize:  # smaller ones are counted by now
            self.concerned = np.repeat(self.concerned, self.itemsize // region.itemsize)[: region.size]
            self.itemsize = region.itemsize
        self.concerned[places] = True

    @property
    def _elements(self) -> int:
        return self.most if self.concerned is None else max(self.most, int(np.count_nonzero(self.concerned)))

    def report(self) -> Fault:
        elements = {} if self.region is None else {"elements": self._elements}
        return replace(self.fault, sentence=say(self.id, **self.parameters, **elements))


class Faults:
    """Collects suspected faults of each launch; `report()` returns the confirmed ones, each once for its line and tensor."""

    def __init__(self):
        self._sightings: dict[tuple[str, str, int, str], _Sighting] = {}
        self._launch = 0
        self.notes: list[Note] = []

    def report(self) -> list[Fault]:
        return [sighting.report() for sighting in self._sightings.values() if not sighting.harmless]

    def with_equal_values(self) -> list[Fault]:
        """Return `report`, and the races of stores that all left the same value: with other data they may not."""
        return [sighting.report() for sighting in self._sightings.values()]

    def remark(self, kind: NoteKind, site: Site, **parameters: Any) -> None:
        """Record a note, once, on what is no fault."""
        sentence = say(f"trace.note.{kind.replace(' ', '_')}", site=str(site), **parameters)
        note = Note(kind, sentence, site.kernel, site.line)
        if note not in self.notes:
            self.notes.append(note)

    def first_seen(self) -> list[int]:
        """List the number of the launch in which each fault of `report` was seen first, from 0."""
        return [sighting.seen[0] for sighting in self._sightings.values() if not sighting.harmless]

    def begin_launch(
        self, number: int, grid: Grid, arena: Arena, parameters: dict[str, Region], position: np.ndarray | None = None
    ) -> None:
        """Begin a launch. position[program]: its place in the order in which programs run; None: by number."""
        self._grid, self._arena, self._parameters, self._position = grid, arena, parameters, position
        self._launch = number

    # ------------------------------------------------------------------------------------------------- between programs

    def races(
        self, batches: Sequence[Batch], syncs: Sequence[Sync], threads: bool = False, weak: Sequence[Weak] = ()
    ) -> None:
        """Find races when a launch has ended, and the `reads` and `writes` of its regions are settled.

        threads: whether a program has several warps, which may lag behind one another. weak: atomics that order less than they could."""
        for race in races.find(self._arena.regions, batches, syncs, self._position, threads, weak):
            harmless = race.alike and self._by_their_data()
            if harmless:
                parameter, _ = race.region.place(race.element)
                self.remark("same values", race.site, lanes=race.other == NOBODY, tensor=parameter.name)
            between, name, parameters = self._race(race)
            self._see(
                "race",
                f"race.{name}",
                race.site,
                race.region,
                race.elements,
                race.program,
                between,
                harmless,
                **parameters,
            )

    def _by_their_data(self) -> bool:
        """Whether equal results are more than chance: what the launch loaded, if anything, was not one value."""
        loaded = [region for region in self._arena.regions if region.loaded is not None]
        return not loaded or any(region.varied() for region in loaded)

    def _race(self, race: Race) -> tuple[Between, str, dict[str, Any]]:
        """(Fault.between, the sentence's name, its parameters)"""
        if race.other == NOBODY:
            return "lanes", "lanes", {"element": race.element}
        other = say("trace.several") if race.other == SEVERAL else self.who(race.other)
        facts = {"element": race.element, "other": other}
        if race.hasty:
            return self._hasty(race, race.hasty, facts)
        if race.weak:
            return self._weak(race, facts)
        if race.op == "load":
            return "load and store", "loads_updated" if race.updated else "loads_stored", facts
        if race.other_op == "load":
            return "load and store", "writes_loaded", {**facts, "does": _verb(race.op)}
        return "stores", "replaces" if race.other_op == "atomic" else "stores", facts

    def _weak(self, race: Race, facts: dict[str, Any]) -> tuple[Between, str, dict[str, Any]]:
        """The same of a race that an atomic would order if it were stronger."""
        between: Between = "load and store" if "load" in (race.op, race.other_op) else "stores"
        did = "atomic" if race.updated else race.other_op
        weak = {
            "lines": [each.line for each in race.weak],
            "options": list(dict.fromkeys(each.option for each in race.weak)),
        }
        return between, "weak", {**facts, **weak, "does": _verb(race.op), "done": say(f"trace.done.{did}")}

    def _hasty(self, race: Race, hasty: Hasty, facts: dict[str, Any]) -> tuple[Between, str, dict[str, Any]]:
        """The same of a race that an atomic would order if it were a barrier."""
        between: Between = "load and store" if "load" in (race.op, race.other_op) else "stores"
        done = {"done": say(f"trace.done.{hasty.op}"), "line": hasty.line}
        if hasty.program == race.program:
            return between, "hasty", {**facts, **done, "does": _verb(hasty.op)}
        return between, "hasty_other", {**facts, **done, "does": _verb(race.op), "other": self.who(hasty.program)}

    # ------------------------------------------------------------------------------------------------- within a program

    def early_loads(self, batches: Sequence[Batch]) -> None:
        """Find, when a launch has ended, what one thread of a program stores and another one loads."""
        for early in threads.find(self._arena.regions, batches, self._position):
            elsewhere = early.stored != early.site
            stored = (
                say("trace.line", line=f"{early.stored.line}{early.stored.inner}")
                if elsewhere
                else say("trace.this_line")
            )
            facts = {"element": early.element, "stored": stored}
            where = (early.site, early.region, early.elements, early.program)
            self._see("race", "race.threads", *where, "threads", **facts)

    def not_kept(self, broken: Mapping[Promise, tuple[int, int]]) -> None:
        """Record false promises that the compiler relies on, each with the first program that breaks it, and a value."""
        for promise, (program, value) in broken.items():
            name, parameters = _not_kept(promise, value)
            self._stops("hint", f"hint.{name}", promise.site, "", program, **parameters)

    def not_repeated(self, launch: Launch, error: str, region: Region | None = None, zeroed: bool = False) -> None:
        """Record an autotuned launch that leaves other numbers in a tensor when it runs once more, or ends in an error.

        zeroed: the tuner sets that tensor to 0 between the two, which it was not at first"""
        names = [each.name for each in region.parameters.each] if region is not None else [""]
        mine = [a for a in launch.accesses if region is None or a.tensor in names]  # none of what is reset and not used
        at = min(
            mine or launch.accesses, key=lambda access: (["atomic", "store", "load"].index(access.op), access.line)
        )
        site, name = Site(launch.kernel, at.line, at.source), at.tensor if at.tensor in names else names[0]
        parameters = {"error": error} if region is None else {"tensor": self._called(region, name)}
        message = "error" if region is None else "no_zeros" if zeroed else "other_numbers"
        self._sightings["tuning", site.kernel, site.line, name] = _Sighting(
            Fault("tuning", "", site.kernel, site.line, name, source=site.source),
            f"trace.tuning.{message}",
            {"site": str(site), **parameters},
            (self._launch, 0),
        )

    # ------------------------------------------------------------------------------------------------- batch by batch

    def uninitialised(self, batch: Batch, elements: np.ndarray, rows: np.ndarray) -> None:
        """Record elements that a batch loads and that were never written. rows: positions in batch.programs."""
        program, element = self._first(batch, elements, rows)
        self._see("uninitialised", "value.uninitialised", batch.site, batch.region, elements, program, element=element)

    def undefined(self, batch: Batch, elements: np.ndarray, rows: np.ndarray, loads: Sequence[tuple[str, int]]) -> None:
        """Record elements to which a batch stores what a load left undefined. loads: (kernel, line) of those without `other`."""
        program, element = self._first(batch, elements, rows)
        facts = {"does": _verb(batch.op), "element": element, "lines": [line for _, line in loads]}
        self._see("undefined", "value.undefined", batch.site, batch.region, elements, program, **facts)

    def input_changed(self, batch: Batch) -> None:
        """Record a batch that stores to an input."""
        elements, rows = batch.touched()
        program, _ = self._first(batch, elements, rows)
        self._see("input changed", "value.input_changed", batch.site, batch.region, elements, program)

    def _first(self, batch: Batch, elements: np.ndarray, rows: np.ndarray) -> tuple[int, int]:
        """Find, of these elements, each in the row of its program, the program that runs first, and the first element of its."""
        places = batch.programs if self._position is None else self._position[batch.programs]
        row = rows[np.argmin(places[rows])]
        return int(batch.programs[row]), int(elements[rows == row][0])

    # ------------------------------------------------------------------------------------------------- what stops a GPU

    def out_of_bounds(
        self,
        op: Op,
        site: Site,
        active: np.ndarray,
        itemsize: int,
        program: int,
        batches: Sequence[Batch] = (),
        wrapped: Iterable[Site] = (),
    ) -> Fault:
        """active: the addresses of the active lanes. batches: those of the same instruction in this launch so far; wrapped: products of
        int32 that wrapped on the way to some address."""
        region = self._meant(site, active, itemsize, batches)
        wild = int(active[0])
        if region is None:
            return self._stops("out of bounds", "out_of_bounds.no_tensor", site, "", program, does=_verb(op))
        if abs(wild - region.start) > FAR:
            return self._stops("out of bounds", "out_of_bounds.far", site, "", program, does=_verb(op), address=wild)
        outside = (active < region.start) | (active > region.start + region.nbytes - itemsize)
        name = self._meant_of(region, site)
        facts = {
            "does": _verb(op),
            "element": (int(active[outside][0]) - region.start) // itemsize,
            "tensor": self._called(region, name),
            "whole": region.elements == region.size,
            "size": region.nbytes // itemsize,
            "outside": int(outside.sum()),
            "positions": active.size,
        }
        message = "out_of_bounds.outside"
        if wrapped or _wrapped(facts["element"], facts["size"]):
            message, facts["products"] = (
                "out_of_bounds.wrapped",
                [say("trace.in_line", line=each.line) for each in wrapped],
            )
        return self._stops("out of bounds", message, site, name, program, **facts)

    def misaligned(self, op: Op, site: Site, region: Region, program: int, offset: int, itemsize: int) -> Fault:
        """Return the fault of an access of `itemsize` bytes whose offset from the start of a region is not a multiple of that."""
        name = region.parameters.at(offset).name
        facts = {"does": _verb(op), "itemsize": itemsize, "byte": offset, "tensor": self._called(region, name)}
        return self._stops("misaligned", "out_of_bounds.misaligned", site, name, program, **facts)

    def _stops(self, kind: FaultKind, message: str, site: Site, name: str, program: int, **parameters: Any) -> Fault:
        """name: the tensor's, if there is one."""
        sighting = _Sighting(
            Fault(kind, "", site.kernel, site.line, name, source=site.source),
            f"trace.{message}",
            {"site": str(site), "program": self.who(program), **parameters},
            (self._launch, self._place(program)),
        )
        self._sightings[kind, site.kernel, site.line, name] = sighting
        return sighting.report()

    def _meant(self, site: Site, active: np.ndarray, itemsize: int, batches: Sequence[Batch]) -> Region | None:
        """The tensor that a wild access was meant for: an address alone does not say."""
        for address in (int(active.min()), int(active.max())):
            if region := self._arena.find(address, address + itemsize):
                return region
        here = {id(batch.region): batch.region for batch in batches if batch.site.line == site.line}
        named = {id(r): r for parameter, r in self._parameters.items() if _mentions(site.source, parameter)}
        for regions in (here, named):
            if len(regions) == 1:
                return next(iter(regions.values()))
        return self._arena.nearest(int(active[0]), [*named.values()] or self._arena.regions)

    def _meant_of(self, region: Region, site: Site) -> str:
        """The parameter that an access which left a region was meant for: the one that the line names, or else the first."""
        names = [each.name for each in region.parameters.each]
        return next((name for name in names if _mentions(site.source, name.partition("#")[0])), names[0])

    # ------------------------------------------------------------------------------------------------- sentences

    def _see(
        self,
        kind: FaultKind,
        message: str,
        site: Site,
        region: Region,
        places: np.ndarray,
        program: int,
        between: Between = "",
        harmless: bool = False,
        **parameters: Any,
    ) -> None:
        """Note a fault once for each kind, line and tensor, and the elements that it concerns."""
        parameter, element = region.place(parameters.get("element", places[0]))
        if "element" in parameters:
            parameters["element"] = element
        name = parameter.name
        key, seen = (kind, site.kernel, site.line, name), (self._launch, self._place(program))
        sighting = self._sightings.get(key)
        if sighting is not None and sighting.harmless and not harmless:
            sighting = None
        if sighting is None or seen < sighting.seen:  # of the programs of a launch, the first one is told of
            fault = Fault(kind, "", site.kernel, site.line, name, between, site.source)
            facts = {
                "site": str(site),
                "program": self.who(program),
                "tensor": self._called(region, name),
                **parameters,
            }
            if sighting is None:
                sighting = self._sightings[key] = _Sighting(fault, "", {}, seen, harmless=harmless)
            sighting.fault, sighting.id, sighting.parameters, sighting.seen = fault, f"trace.{message}", facts, seen
        sighting.note(region, places)

    def _place(self, program: int) -> int:
        return program if self._position is None else int(self._position[program])

    def _called(self, region: Region, name: str) -> str:
        """The name; for a buffer, or for one result of several, also the kernel's name for it."""
        if name.startswith(("out[", "buffer ")):
            mine = [f" (`{parameter}`)" for parameter, each in self._parameters.items() if each is region]
            return f"`{name}`{''.join(mine[:1])}"
        return f"`{name}`"

    def who(self, program: int) -> Message:
        columns, rows, _ = self._grid
        index = (program % columns, program // columns % rows, program // (columns * rows))
        used = max([1] + [axis + 1 for axis in range(3) if self._grid[axis] > 1])
        return say("trace.program", index=index[0] if used == 1 else index[:used])


def _verb(op: Op) -> Message:
    return say(f"trace.verb.{op}")


def _not_kept(promise: Promise, value: int) -> tuple[str, dict[str, Any]]:
    """(the sentence's name, its parameters)"""
    if promise.kind == ASSUME:
        return "assume", {}
    size, shape = promise.size, promise.type.shape
    if promise.kind == MULTIPLE and not shape:
        address = promise.type.element == "ptr"
        computed = say("trace.hint.address", size=size) if address else say("trace.hint.number", value=value, size=size)
    else:
        computed = say(f"trace.hint.{BLOCKS[promise.kind]}")
    along = say("trace.hint.axis", axis=promise.axis) if len(shape) > 1 else ""
    return "broken", {"computed": computed, "function": FUNCTIONS[promise.kind], "size": size, "along": along}


def _wrapped(element: int, elements: int) -> bool:
    """Whether it lies in the tensor once 2**32 is added as often as it takes."""
    return not 0 <= element < elements and 0 <= element % (1 << 32) < elements


def _mentions(source: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", source) is not None
