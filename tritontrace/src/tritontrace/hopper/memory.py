"""Shared memory of one program: tiles, what was done to them, and whether two accesses can meet.

Every partition of warps, every copy and every product under way is an agent with a vector clock: for each agent, the last event
of it that this one knows to be over. Two accesses to the same bytes, one of them a write, must be ordered by what the later one
knows; otherwise they are a race, even if the values happen to be right in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tritontrace.gpu import SHARED_BYTES
from tritontrace.hopper.agents import Agent, Flight
from tritontrace.hopper.clocks import Clock
from tritontrace.hopper.faults import Fault, Kind, Mistake, Spot, mistake
from tritontrace.messages import Message, say
from tritontrace.ttir.elements import dtype_of, itemsize

LIMIT = SHARED_BYTES["sm_90"][1]  # bytes, of one program


@dataclass
class Barriers:
    """Barriers of one allocation. made: the line of the first; stand: how many are not invalidated; used: whether one was waited for,
    arrived at or signalled by a copy; last: how many buffers existed when one was last touched.
    arrives or has a copy tell it;  last: how many buffers there were when one was touched last."""

    made: Spot
    stand: int = 0
    used: bool = False
    last: int = 0


@dataclass(eq=False)
class Allocation:
    """Shared memory that the kernel allocated at one place. depth: how many calls away from the kernel it has its name from."""

    data: np.ndarray
    element: str
    name: str
    depth: int
    site: object = None  # the operation that makes it
    accesses: list[Access] = field(default_factory=list)
    barriers: Barriers | None = None

    @property
    def bytes(self) -> int:
        return self.data.size * itemsize(self.element)


@dataclass(eq=False)
class View:
    """A tile, or a part of an allocation: what a shared_memory_descriptor stands for. array: a view of the allocation's data."""

    allocation: Allocation
    array: np.ndarray
    index: str = ""

    @property
    def name(self) -> str:
        return self.allocation.name + self.index

    @property
    def bytes(self) -> int:
        return self.array.size * itemsize(self.allocation.element)

    @property
    def ends(self) -> tuple[int, int]:
        return np.lib.array_utils.byte_bounds(self.array)

    def part(self, array: np.ndarray, index: str = "") -> View:
        return View(self.allocation, array, self.index + index)


class Outside(View):
    """A view at an index outside of its ring. It is a fault once it is used, which a predicate may keep it from."""

    def __init__(self, allocation: Allocation, index: str, found: Mistake) -> None:
        self.allocation, self.index, self._found = allocation, index, found

    @property
    def array(self) -> np.ndarray:
        raise self._found


@dataclass(eq=False)
class Access:
    """A read or a write of a tile in shared memory.

    agent, tick   whose it is, and when: its event
    generic       by threads or cp.async; else by TMA or wgmma, whose proxy sees threads' writes after a fence alone
    flight        the copy or product that does it, None if the partition's own threads do
    fences        events at which threads that knew of it ran a fence
    """

    agent: int
    tick: int
    write: bool
    generic: bool
    what: str
    spot: Spot
    view: View
    partition: Agent
    flight: Flight | None = None
    fences: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ends, self.name = self.view.ends, self.view.name

    def meets(self, other: Access) -> bool:
        if self.ends[1] <= other.ends[0] or other.ends[1] <= self.ends[0]:
            return False
        return self.ends == other.ends or np.shares_memory(self.view.array, other.view.array)

    def fenced(self, clock: Clock) -> bool:
        """Whether a fence after this write is visible in `clock`."""
        return any(clock.get(agent, 0) >= tick for agent, tick in self.fences)

    @property
    def message(self) -> Message:
        return say("hopper.access", what=self.what, buffer=self.name, who=self.partition.name, spot=str(self.spot))


class Shared:
    """All shared memory of one program."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.unwritten: list[Fault] = []  # reads of what nobody has written: the run goes on with unknown numbers
        self.most = 0  # bytes that were in use at a time
        self.asked: list[tuple[Allocation, Spot]] = []  # the kernel itself for them, no partition, in that order
        self.partitions = 0  # warp_specialize is under way, so many deep

    def allocate(
        self, shape: Sequence[int], element: str, name: str, depth: int, spot: Spot, site: object = None
    ) -> View:
        """Allocate a tile at a source line. site: the operation; in a loop it is one buffer, in which the last turn's numbers lie."""
        for before in self.allocations:
            if before.site is site is not None:
                return View(before, before.data)
        data = np.zeros(shape, dtype_of(element))
        found = Allocation(data, element, name or "shared memory", depth, site)
        self.allocations.append(found)
        if not self.partitions:
            self.asked.append((found, spot))
        total = sum(one.bytes for one in self.allocations)
        self.most = max(self.most, total)
        if total > LIMIT:
            raise mistake(
                Kind.SHARED,
                say("hopper.memory.too_much", buffer=found.name, spot=str(spot), bytes=total, limit=LIMIT),
                second=spot,
                buffer=found.name,
            )
        view = View(found, data)
        unknown(view)
        return view

    def free(self, view: View) -> None:
        if view.allocation in self.allocations:
            self.allocations.remove(view.allocation)

    def access(self, now: Access, clock: Clock) -> None:
        """Record an access in the vector clock `clock`. Raises Mistake if it races with another one."""
        log = now.view.allocation.accesses
        if not now.write and not any(before.write and before.meets(now) for before in log):
            self.unwritten.append(_nothing_there(now).fault)  # and on: what is behind it is told as well
        for before in log:
            if not (now.write or before.write) or not before.meets(now):
                continue
            if clock.get(before.agent, 0) < before.tick:
                raise _race(before, now)
            if before.write and before.generic and not (now.write or now.generic) and not before.fenced(clock):
                raise _unfenced(before, now)
            if before.flight and not now.write:
                before.flight.used = True
            elif before.flight and before.write and now.flight and before.ends == now.ends:
                now.flight.too_soon = not before.flight.used
        if now.write:  # whoever is ordered after this write is ordered after what came before
            log[:] = [before for before in log if before.ends != now.ends]
        else:
            log[:] = [b for b in log if b.write or b.ends != now.ends or b.agent != now.agent]
        log.append(now)

    def fence(self, agent: Agent, tick: int) -> None:
        """Run a fence: writes that the partition's threads know of become visible to tensor cores and TMA."""
        for allocation in self.allocations:
            for access in allocation.accesses:
                if access.write and access.generic and agent.clock.get(access.agent, 0) >= access.tick:
                    access.fences.append((agent.id, tick))


def unknown(view: View) -> None:
    """Fill a tile whose contents are unknown with a value that shows in a result."""
    kind = view.array.dtype.kind
    view.array.fill(np.nan if kind == "f" else False if kind == "b" else np.iinfo(view.array.dtype).min // 3)


# ------------------------------------------------------------------------------------------------- why they meet


def _nothing_there(now: Access) -> Mistake:
    last = now.partition.newest
    kind = Kind.PHASE if last and last.stale else Kind.READ_EARLY
    who = now.partition.name
    return mistake(
        kind,
        say(
            "hopper.memory.nothing_there",
            now=now.message,
            why=last.by(who) if last else say("hopper.passed.nothing", who=who),
        ),
        second=now.spot,
        first=last.spot if last else None,
        buffer=now.name,
        who=now.partition.name,
        phase_passed=last.phase if last else None,
        phase_wanted=last.phase + 1 if last and last.stale else None,
    )


def _unfenced(before: Access, now: Access) -> Mistake:
    return mistake(
        Kind.FENCE,
        say("hopper.memory.unfenced", now=now.message, before=before.message),
        second=now.spot,
        first=before.spot,
        buffer=now.name,
        who=now.partition.name,
        other=before.partition.name,
    )


def _race(before: Access, now: Access) -> Mistake:
    facts = {
        "second": now.spot,
        "first": before.spot,
        "buffer": now.name,
        "who": now.partition.name,
        "other": before.partition.name,
    }
    if before.write and now.write:
        kind, name, parameters, phases = Kind.TWO_WRITES, "two_writes", {}, {}
    else:
        kind, name, parameters, phases = (_overwritten if now.write else _read_early)(before, now)
    sentence = say(f"hopper.memory.{name}", now=now.message, before=before.message, **parameters)
    return mistake(kind, sentence, **facts | phases)


Found = tuple[Kind, str, dict[str, Any], dict[str, int]]
"""The kind, the sentence's name and its parameters, and the phases if they are wrong."""


def _read_early(before: Access, now: Access) -> Found:
    who = now.partition
    if before.flight is None:
        return Kind.READ_EARLY, "read_early", {}, {}
    if before.flight.barrier is None:
        if before.flight.too_soon:
            return Kind.OVERWRITTEN, "too_soon", {"who": before.flight.who}, {}
        return Kind.READ_EARLY, "read_early_why", {"why": before.flight.unwaited()}, {}
    barrier, phase = before.flight.barrier, before.flight.phase
    last = who.passed.get(barrier)
    reads = [a.flight.clock[who.id] if a.flight else a.tick for a in _reads_by(who, now)]
    if last is None or (reads and last.tick < max(reads)):
        return Kind.READ_EARLY, "not_waited", {"who": who.name, "barrier": barrier.name}, {}
    facts: dict[str, Any] = {"barrier": barrier.name, "phase": phase}
    if phase <= last.phase:
        told = [str(spot) for (_, spot), late in barrier.arrivals.items() if late >= phase]
        return Kind.BYTES, "fewer_bytes_in" if told else "fewer_bytes", facts | ({"spot": told[0]} if told else {}), {}
    if not last.stale:
        writer = before.partition
        facts |= {"who": who.name, "waited": last.phase, "spot": str(last.spot), "writer": writer.name}
        return Kind.OVERWRITTEN, "overtaken_itself" if writer is who else "overtaken", facts, {}
    phases = {"phase_passed": last.phase, "phase_wanted": phase}
    return Kind.PHASE, "wrong_phase", {"passed": last.by(who.name), "phase": phase}, phases


def _overwritten(before: Access, now: Access) -> Found:
    reader, writer = before.partition, now.partition
    last = reader.passed.get(now.flight.barrier) if now.flight and now.flight.barrier else None
    if last is not None and last.stale:
        phases = {"phase_passed": last.phase, "phase_wanted": last.phase + 1}
        return Kind.PHASE, "overwritten_phase", {"passed": last.by(reader.name)}, phases
    gate = writer.newest.barrier if writer.newest else None
    early = [(b, spot) for b, spot in (before.flight.arrivals if before.flight else ()) if b is gate]
    if early and reader is not writer:
        barrier, spot = early[-1]
        facts = {"reader": reader.name, "barrier": barrier.name, "spot": str(spot), "what": before.what}
        return Kind.OVERWRITTEN, "arrived_early", facts, {}
    if before.flight is not None and not before.flight.joined:
        return Kind.OVERWRITTEN, "overwritten_why", {"why": before.flight.unwaited()}, {}
    return Kind.OVERWRITTEN, "not_told", {"writer": writer.name, "reader": reader.name}, {}


def _reads_by(who: Agent, now: Access) -> list[Access]:
    return [a for a in now.view.allocation.accesses if a.name == now.name and a.partition is who and not a.write]
