"""Mistakes in what runs at the same time: their names, and each one as data with a sentence made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tritontrace.messages import Message, say


class Kind(Enum):
    """A kind of concurrency fault, by its displayed name. Those that say more about the cause come first.

    >>> wrong.fault.kind is Kind.READ_EARLY, Kind("deadlock").rank > Kind.READ_EARLY.rank  # a deadlock says less of its cause
    (True, True)
    """

    NO_BARRIER = "barrier not initialised"
    NO_EXPECT = "missing expect"
    BYTES = "wrong number of bytes"
    FENCE = "missing fence"
    ACCUMULATOR = "accumulator used before its wait"
    REGISTERS = "registers of other warps"
    SHARED = "out of shared memory"
    WARPGROUP = "not a warpgroup"
    SHAPES = "shapes differ"
    INDEX = "index outside of its ring"
    PHASE = "wrong phase"
    ARRIVALS = "too many arrivals"
    STORE = "TMA store not waited for"
    OVERWRITTEN = "overwritten while it is read"
    READ_EARLY = "read before it is there"
    TWO_WRITES = "two writes at once"
    PRODUCT = "wgmma not waited for"
    LOAD = "TMA load not waited for"
    UNUSED = "barrier that nobody uses"
    STANDS = "barrier not invalidated"
    DEADLOCK = "deadlock"
    ORDER = "result depends on the order"

    @property
    def rank(self) -> int:
        """Return the place among the kinds: 0 is the most specific."""
        return list(Kind).index(self)


@dataclass(frozen=True)
class Spot:
    """A source line of the kernel or of a function that it calls. `line` is numbered as Source.line says; `caller` is where that was
    called.

    >>> print(wrong.fault.second)
    `fetch`, line 11: `gl.store(y_ptr + i, tile.load(i.type.layout))`
    """

    function: str
    line: int
    source: str
    caller: Spot | None = None

    def __str__(self) -> str:
        here = f"`{self.function}`, line {self.line}: `{self.source}`"
        return f"{here} (called in `{self.caller.function}`, line {self.caller.line})" if self.caller else here


@dataclass(frozen=True)
class Waiting:
    """A partition that waits in a deadlock.

    who, spot   the partition, and its line
    what        the name of the barrier, or of what else it waits for
    wanted      the parity that it waits for; None if it waits for no barrier
    completed   how many phases of the barrier are over
    arrived     how many arrivals of the current phase are in, of `count`
    bytes       bytes that are expected and have not come; negative if more came than were expected
    who_came    (partition, spot) of all who ever arrived there, each once
    """

    who: str
    spot: Spot
    what: str
    wanted: int | None = None
    completed: int = 0
    arrived: int = 0
    count: int = 0
    bytes: int = 0
    who_came: tuple[tuple[str, Spot], ...] = ()

    @property
    def sentence(self) -> Message:
        facts = {"who": self.who, "what": self.what, "spot": str(self.spot)}
        if self.wanted is None:
            return say("hopper.waiting.end", **facts)
        facts |= {"parity": self.wanted, "state": state_of(self)}
        if self.who_came:
            places = [say("hopper.waiting.place", who=who, spot=str(spot)) for who, spot in self.who_came[:3]]
            return say("hopper.waiting.came", **facts, places=places)
        return say(f"hopper.waiting.never{'_free' if self.wanted == 0 and not self.bytes else ''}", **facts)

    @property
    def briefly(self) -> Message:
        if self.wanted is None:
            return say("hopper.waiting.end_briefly", who=self.who, what=self.what)
        state = {"opened": self.completed, "arrived": self.arrived, "count": self.count}
        facts = {"who": self.who, "parity": self.wanted, "what": self.what, "spot": str(self.spot)}
        return say("hopper.waiting.briefly", **facts, **state)


def state_of(barrier: Waiting) -> Message:
    """Return a message on the state of a barrier."""
    facts = {"phases": barrier.completed, "arrived": barrier.arrived, "count": barrier.count}
    if barrier.bytes == 0:
        return say("hopper.barrier.state", **facts)
    return say(f"hopper.barrier.state_{'fewer' if barrier.bytes > 0 else 'more'}", **facts, bytes=abs(barrier.bytes))


@dataclass(frozen=True)
class Fault:
    """A concurrency fault of a Gluon kernel, as data.

    kind             its name
    sentence         what happened, for people: a Message
    second, first    the line at which it showed, and the earlier one that it disagrees with, if there is one
    buffer           the tile or barrier, as the source calls it: `ks.tiles[0]`
    who, other       the partition at `second`, and the one at `first`
    phase_passed     of a wait that lets a partition go too early: the number of the phase that was over, -1 if none was
    phase_wanted     the phase in which its data come
    waiting          of a deadlock: who waits for what
    order, program   when it was found

    >>> wrong.fault.kind, wrong.fault.buffer, wrong.fault.first.line, wrong.fault.second.line
    (<Kind.READ_EARLY: 'read before it is there'>, 'tile', 6, 11)
    """

    kind: Kind
    sentence: Message
    second: Spot | None = None
    first: Spot | None = None
    buffer: str = ""
    who: str = ""
    other: str = ""
    phase_passed: int | None = None
    phase_wanted: int | None = None
    waiting: tuple[Waiting, ...] = ()
    order: str = ""
    program: int = 0

    @property
    def lines(self) -> tuple[Spot, ...]:
        """Return the lines that the fault is about, those of a deadlock among them."""
        own = tuple(spot for spot in (self.first, self.second) if spot)
        return own or tuple(each.spot for each in self.waiting)

    def found(self, order: str, program: int) -> Fault:
        """Return a copy with the execution order and the program in which it occurred."""
        return replace(self, order=order, program=program)

    @property
    def message(self) -> Message:
        return say("hopper.hazard", kind=self.kind.value, what=self.sentence)

    def __str__(self) -> str:
        return str(self.message)


class Mistake(Exception):
    """Raised to end a simulated program; `fault` says why."""

    def __init__(self, fault: Fault):
        super().__init__(str(fault))
        self.fault = fault


def mistake(kind: Kind, sentence: Message, **facts) -> Mistake:
    """Make the exception of a fault; facts: Fault's other fields."""
    return Mistake(Fault(kind, sentence, **facts))
