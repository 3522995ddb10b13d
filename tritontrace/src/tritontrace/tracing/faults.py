"""Faults, which a GPU would get wrong: accesses outside tensors, races, values that nobody wrote, promises that are not kept.

Nothing of it goes wrong here by itself. When a launch has ended, races.py finds races between programs (ordering.py what atomics
order), threads.py those within one, hints.py what was promised; tuning.py runs an autotuned launch again. Here it is put into
sentences, and each fault is told once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tritontrace.results import Between, Fault, FaultKind, Launch, Note, NoteKind
from tritontrace.tracing import races, threads
from tritontrace.tracing.memory import Arena, Batch, Region
from tritontrace.tracing.ordering import Sync
from tritontrace.tracing.races import NOBODY, SEVERAL, Hasty, Race
from tritontrace.ttir.hints import ASSUME, CONSTANT, CONTIGUOUS, FUNCTIONS, MULTIPLE, Promise
from tritontrace.ttir.launching import Grid, Op, Site

VERB = {"load": "loads from", "store": "stores to", "atomic": "updates"}
DONE = {"load": "loaded", "store": "stored", "atomic": "updated"}
HARMLESS = "and all the same value: harmless here"
NO_ORDER = "On a GPU nobody knows which comes first: use two launches, or another output tensor."

FAR = 1 << 44  # bytes from a tensor: no offset that is merely wrong goes there, and addresses of real memory do


@dataclass
class _Sighting:
    """A fault as first seen, and how many elements of a tensor it concerned, at most, in all programs.

    seen      in which launch, and in which place of its programs
    harmless  whether all that was stored each time was the same value
    """

    fault: Fault
    advice: str
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
        in_all = f" ({self._elements} elements in all)" if self._elements > 1 else ""
        return replace(self.fault, sentence=f"{self.fault.sentence}{in_all}. {self.advice}")


class Faults:
    """Collects what may be wrong in each launch. `report()` tells what was wrong, each fault once for its line and tensor."""

    def __init__(self):
        self._sightings: dict[tuple[str, str, int, str], _Sighting] = {}
        self._launch = 0
        self.notes: list[Note] = []

    def report(self) -> list[Fault]:
        return [sighting.report() for sighting in self._sightings.values() if not sighting.harmless]

    def with_equal_values(self) -> list[Fault]:
        """`report`, and the races of stores that all left the same value: with other data they may not."""
        return [sighting.report() for sighting in self._sightings.values()]

    def remark(self, kind: NoteKind, site: Site, what: str) -> None:
        """Note once what is no fault."""
        note = Note(kind, f"{site}: {what}.", site.kernel, site.line)
        if note not in self.notes:
            self.notes.append(note)

    def first_seen(self) -> list[int]:
        """The number of the launch in which each fault of `report` was seen first, from 0."""
        return [sighting.seen[0] for sighting in self._sightings.values() if not sighting.harmless]

    def begin_launch(
        self, number: int, grid: Grid, arena: Arena, parameters: dict[str, Region], position: np.ndarray | None = None
    ) -> None:
        """position[program]: its place in the order in which programs run; None: by number."""
        self._grid, self._arena, self._parameters, self._position = grid, arena, parameters, position
        self._launch = number

    # ------------------------------------------------------------------------------------------------- between programs

    def races(self, batches: Sequence[Batch], syncs: Sequence[Sync], threads: bool = False) -> None:
        """Look for races when a launch has ended, and the `reads` and `writes` of its regions are settled.

        threads: whether a program has several warps, which may lag behind one another."""
        for race in races.find(self._arena.regions, batches, syncs, self._position, threads):
            harmless = race.alike and self._by_their_data()
            if harmless:
                who = "several positions of a block" if race.other == NOBODY else "several programs"
                self.remark("same values", race.site, f"{who} store to one element of `{race.region.name}`, {HARMLESS}")
            between, what, advice = self._race(race)
            self._see("race", race.site, race.region, race.elements, race.program, what, advice, between, harmless)

    def _by_their_data(self) -> bool:
        """Whether equal results are more than chance: what the launch loaded, if anything, was not one value."""
        loaded = [region for region in self._arena.regions if region.loaded is not None]
        return not loaded or any(region.varied() for region in loaded)

    def _race(self, race: Race) -> tuple[Between, str, str]:
        """(Fault.between, what, advice)"""
        element = f"element {race.element} of {self._called(race.region)}"
        other = "more than one other program" if race.other == SEVERAL else self.who(race.other)
        if race.other == NOBODY:
            return (
                "lanes",
                f"stores to {element} from several positions of a block at once",
                "Only one of the values stays: give each its own element, or reduce first.",
            )
        if race.hasty:
            return self._hasty(race, race.hasty, element, other)
        if race.op == "load":
            does = f"which {other} updates" if race.updated else f"to which {other} stores"
            return "load and store", f"loads {element}, {does} in the same launch", NO_ORDER
        if race.other_op == "load":
            return "load and store", f"{VERB[race.op]} {element}, which {other} loads in the same launch", NO_ORDER
        if race.other_op == "atomic":
            return (
                "stores",
                f"updates {element}, and so does {other}; one of the two replaces what is there, as a store does",
                "On a GPU nobody knows which comes last: give each program its own elements, or add with tl.atomic_add.",
            )
        return (
            "stores",
            f"stores to {element}, and so does {other}",
            "On a GPU nobody knows which comes last: give each program its own elements, or use an atomic.",
        )

    def _hasty(self, race: Race, hasty: Hasty, element: str, other: str) -> tuple[Between, str, str]:
        """The same of a race that an atomic would order if it were a barrier."""
        between: Between = "load and store" if "load" in (race.op, race.other_op) else "stores"
        early = f"tells other programs so, by an atomic, before all of its threads have {DONE[hasty.op]}"
        if hasty.program == race.program:
            what = f"{VERB[hasty.op]} {element}, and {early}; then {other} touches it"
        else:
            what = f"{VERB[race.op]} {element}, which {self.who(hasty.program)} {DONE[hasty.op]} in line {hasty.line}; that one {early}"
        return (
            between,
            what,
            f"An atomic is no barrier: write tl.debug_barrier() between line {hasty.line} and the atomic.",
        )

    # ------------------------------------------------------------------------------------------------- within a program

    def early_loads(self, batches: Sequence[Batch]) -> None:
        """Look, when a launch has ended, for what one thread of a program stores and another one loads."""
        for early in threads.find(self._arena.regions, batches, self._position):
            line = f"line {early.stored.line}{early.stored.inner}" if early.stored != early.site else "this line"
            what = (
                f"loads element {early.element} of {self._called(early.region)}, which another of its threads may store in {line}, "
                "and no barrier stands between the two"
            )
            advice = (
                "The compiler chooses who holds what; on a GPU the load may come first: keep the values in a variable, or write "
                "tl.debug_barrier() between the two, and in a loop behind the load, too."
            )
            self._see("race", early.site, early.region, early.elements, early.program, what, advice, "threads")

    def not_kept(self, broken: Mapping[Promise, tuple[int, int]]) -> None:
        """Tell of false promises that the compiler makes use of, each with the first program that breaks it, and a value."""
        for promise, (program, value) in broken.items():
            what, advice = self._not_kept(promise, value)
            self._stops("hint", promise.site, "", program, what, advice)

    def _not_kept(self, promise: Promise, value: int) -> tuple[str, str]:
        advice = "The compiler takes hints at their word, and its code then stops a GPU or reaches other elements: leave it out."
        if promise.kind == ASSUME:
            return "finds what `tl.assume` says to be false", advice
        along = f" along axis {promise.axis}" if len(promise.type.shape) > 1 else ""
        size, hint = promise.size, f"the hint `{FUNCTIONS[promise.kind]}` of {promise.size}{along}"
        if promise.kind == MULTIPLE and not promise.type.shape:
            what = f"{value}, which is no multiple of {size}"
            if promise.type.element == "ptr":
                what = f"an address that is no multiple of {size} bytes"
        else:
            fails = {
                MULTIPLE: "runs that begin elsewhere",
                CONTIGUOUS: "elements that do not follow one another",
                CONSTANT: "elements that differ",
            }[promise.kind]
            what = f"a block with {fails}"
        return f"computes {what}, against {hint}", advice

    def not_repeated(self, launch: Launch, error: str, region: Region | None = None, zeroed: bool = False) -> None:
        """Tell of an autotuned launch that leaves other numbers in a tensor when it runs once more, or ends in an error.

        zeroed: the tuner sets that tensor to 0 between the two, which it was not at first"""
        name = region.name if region is not None else ""
        mine = [a for a in launch.accesses if name in ("", a.tensor)]  # none of what is reset and not used
        at = min(
            mine or launch.accesses, key=lambda access: (["atomic", "store", "load"].index(access.op), access.line)
        )
        site = Site(launch.kernel, at.line, at.source)
        found = (
            f"leaves other numbers in {self._called(region)}" if region is not None else f"ends in an error ({error})"
        )
        fault = Fault(
            "tuning",
            f"{site}: the first call of an autotuned kernel runs all configurations on the same tensors, and a second run {found}",
            site.kernel,
            site.line,
            name,
        )
        advice = "Name each tensor that a run changes for the next one in reset_to_zero, if it starts as zeros, or in restore_value."
        if zeroed and region is not None:
            what = f"an autotuned kernel runs all configurations first, and reset_to_zero sets {self._called(region)} to 0 before each"
            fault = replace(fault, sentence=f"{site}: {what}, though it does not start as zeros")
            advice = "Name there only what starts as zeros and a run adds to; what else a run changes belongs in restore_value."
        self._sightings["tuning", site.kernel, site.line, name] = _Sighting(fault, advice, (self._launch, 0))

    # ------------------------------------------------------------------------------------------------- batch by batch

    def uninitialised(self, batch: Batch, elements: np.ndarray, rows: np.ndarray) -> None:
        """Tell of elements that a batch loads and nobody wrote. rows: positions in batch.programs."""
        row = self._first(batch, rows)
        self._see(
            "uninitialised",
            batch.site,
            batch.region,
            elements,
            int(batch.programs[row]),
            f"loads element {int(elements[rows == row][0])} of {self._called(batch.region)}, which torch.empty made and "
            "nothing has written",
            "Write it first, or start from torch.zeros.",
        )

    def undefined(self, batch: Batch, elements: np.ndarray, rows: np.ndarray, loads: Sequence[tuple[str, int]]) -> None:
        """Tell of elements to which a batch stores what a load left undefined. loads: (kernel, line) of those without `other`."""
        row = self._first(batch, rows)
        lines = ", ".join(str(line) for _, line in loads)
        self._see(
            "undefined",
            batch.site,
            batch.region,
            elements,
            int(batch.programs[row]),
            f"{VERB[batch.op]} element {int(elements[rows == row][0])} of {self._called(batch.region)} what comes of masked positions, "
            f"which line {lines} loads without `other`",
            "On a GPU they hold anything: give the load an `other` (a block pointer a padding_option), or mask the store.",
        )

    def input_changed(self, batch: Batch) -> None:
        """Tell of a batch that stores to an input."""
        elements, rows = batch.touched()
        self._see(
            "input changed",
            batch.site,
            batch.region,
            elements,
            int(batch.programs[self._first(batch, rows)]),
            f"stores to {self._called(batch.region)}, which is an input",
            "Write to a tensor of your own.",
        )

    def _first(self, batch: Batch, rows: np.ndarray) -> int:
        """The one of these rows whose program runs first."""
        places = batch.programs if self._position is None else self._position[batch.programs]
        return int(rows[np.argmin(places[rows])])

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
        """active: the addresses of the active lanes. batches: those of this launch so far; wrapped: products of int32 that wrapped
        on the way to some address."""
        region = self._meant(op, site, active, itemsize, batches)
        wild = int(active[0])
        if region is not None and abs(wild - region.start) > FAR:
            what = f"{VERB[op]} address {wild:#x}, where none of the tensors lies that it was given"
            advice = "An address that comes as a number leads nowhere here: pass the tensor itself, and offsets in it."
            return self._stops("out of bounds", site, "", program, what, advice)
        wrap, advice = "", "Is a mask missing, or a stride or an offset wrong?"
        if region is None:
            what, name = f"{VERB[op]} memory, but was given no tensor", ""
        else:
            outside = (active < region.start) | (active > region.start + region.nbytes - itemsize)
            first = (int(active[outside][0]) - region.start) // itemsize
            name = region.name
            if wrapped or _wrapped(first, region.nbytes // itemsize):
                where = "".join(f" in line {each.line}" for each in wrapped)
                wrap = f"; the offset is a product or a sum of int32 that wrapped around{where}"
                advice = "Convert a factor to int64 before the multiplication: x.to(tl.int64)."
            elements, positions = region.nbytes // itemsize, f"{active.size} position{'s' * (active.size != 1)}"
            held = "which has" if region.elements == region.size else "whose memory holds"
            what = (
                f"{VERB[op]} element {first} of {self._called(region)}, {held} {elements} element{'s' * (elements != 1)} "
                f"({outside.sum()} of {positions} {'is' if outside.sum() == 1 else 'are'} outside){wrap}"
            )
        return self._stops("out of bounds", site, name, program, what, advice)

    def misaligned(self, op: Op, site: Site, region: Region, program: int, offset: int, itemsize: int) -> Fault:
        """Tell of an access of `itemsize` bytes whose offset from the start of a region is not a multiple of that."""
        what = (
            f"{VERB[op]} an element of {itemsize} bytes at byte {offset} of {self._called(region)}, which is no "
            f'multiple of {itemsize}: a GPU stops with "misaligned address"'
        )
        advice = f"Is a pointer cast to a wider type? It may move by multiples of {itemsize} bytes alone."
        return self._stops("misaligned", site, region.name, program, what, advice)

    def _stops(self, kind: FaultKind, site: Site, tensor: str, program: int, what: str, advice: str) -> Fault:
        fault = Fault(kind, f"{site}: {self.who(program)} {what}", site.kernel, site.line, tensor)
        sighting = _Sighting(fault, advice, (self._launch, self._place(program)))
        self._sightings[kind, site.kernel, site.line, tensor] = sighting
        return sighting.report()

    def _meant(self, op: Op, site: Site, active: np.ndarray, itemsize: int, batches: Sequence[Batch]) -> Region | None:
        """The tensor that a wild access was meant for: an address alone does not say."""
        for address in (int(active.min()), int(active.max())):
            if region := self._arena.find(address, address + itemsize):
                return region
        here = {batch.region.name for batch in batches if (batch.op, batch.site.line) == (op, site.line)}
        named = {region.name for parameter, region in self._parameters.items() if _mentions(site.source, parameter)}
        for names in (here, named):
            if len(names) == 1:
                return next(region for region in self._arena.regions if region.name in names)
        return self._arena.nearest(int(active[0])) if self._arena.regions else None

    # ------------------------------------------------------------------------------------------------- sentences

    def _see(
        self,
        kind: FaultKind,
        site: Site,
        region: Region,
        places: np.ndarray,
        program: int,
        what: str,
        advice: str,
        between: Between = "",
        harmless: bool = False,
    ) -> None:
        """Note a fault once for each kind, line and tensor, and the elements that it concerns."""
        key, seen = (kind, site.kernel, site.line, region.name), (self._launch, self._place(program))
        sighting = self._sightings.get(key)
        if sighting is not None and sighting.harmless and not harmless:
            sighting = None
        if sighting is None or seen < sighting.seen:  # of the programs of a launch, the first one is told of
            fault = Fault(kind, f"{site}: {self.who(program)} {what}", site.kernel, site.line, region.name, between)
            if sighting is None:
                sighting = self._sightings[key] = _Sighting(fault, advice, seen, harmless=harmless)
            sighting.fault, sighting.advice, sighting.seen = fault, advice, seen
        sighting.note(region, places)

    def _place(self, program: int) -> int:
        return program if self._position is None else int(self._position[program])

    def _called(self, region: Region) -> str:
        """The region's name; for a buffer, or for one result of several, also the kernel's name for it."""
        if region.name.startswith(("out[", "buffer ")):
            mine = [f" (`{name}`)" for name, each in self._parameters.items() if each is region]
            return f"`{region.name}`{''.join(mine[:1])}"
        return f"`{region.name}`"

    def who(self, program: int) -> str:
        columns, rows, _ = self._grid
        index = (program % columns, program // columns % rows, program // (columns * rows))
        used = max([1] + [axis + 1 for axis in range(3) if self._grid[axis] > 1])
        return f"program {index[0] if used == 1 else index[:used]}"


def _wrapped(element: int, elements: int) -> bool:
    """Whether it lies in the tensor once 2**32 is added as often as it takes."""
    return not 0 <= element < elements and 0 <= element % (1 << 32) < elements


def _mentions(source: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", source) is not None
