"""An mbarrier: arrivals and bytes of one phase, and what whoever waits for it learns."""

from __future__ import annotations

from dataclasses import dataclass, field

from tritontrace.hopper.clocks import Clock, join
from tritontrace.hopper.faults import Kind, Mistake, Spot, Waiting, mistake, state_of
from tritontrace.messages import Message, say


@dataclass(eq=False)
class Barrier:
    """A simulated mbarrier: a phase ends when `count` arrivals and all expected bytes have come.

    pending     arrivals that the current phase still wants;  bytes  bytes that it still expects
    completed   phases that are over: its parity is what a wait asks for
    clock       what is known to whoever has waited;  gathering  to those who have arrived, in the current phase, too
    copies      under way that will tell it, by number
    made        the line of its mbarrier.init
    """

    name: str
    count: int
    pending: int
    made: Spot
    bytes: int = 0
    completed: int = 0
    clock: Clock = field(default_factory=dict)
    gathering: Clock = field(default_factory=dict)
    arrivals: dict[tuple[str, Spot], int] = field(default_factory=dict)  # who and where -> in which phase last
    copies: set[int] = field(default_factory=set)
    opened_at: float = 0.0

    def open_for(self, parity: int) -> bool:
        """Whether a wait for this parity passes: the phase of this parity is not the current one."""
        return self.completed & 1 != parity

    def arrive(self, who: str, spot: Spot, count: int, clock: Clock, time: float) -> None:
        if count > self.pending:
            raise mistake(
                Kind.ARRIVALS,
                say(
                    "hopper.barrier.arrivals",
                    who=who,
                    barrier=self.name,
                    spot=str(spot),
                    state=state_of(self.waited_for(who, spot)),
                ),
                second=spot,
                buffer=self.name,
                who=who,
            )
        self.arrivals[who, spot] = self.completed
        self.pending -= count
        join(self.gathering, clock)
        self.advance(time)

    def landed(self, copy: int, bytes: int, clock: Clock, time: float) -> None:
        """Record that the copy of this number has moved its bytes."""
        self.copies.remove(copy)
        self.bytes -= bytes
        join(self.gathering, clock)
        self.advance(time)

    def advance(self, time: float) -> None:
        if self.pending:
            return
        if self.bytes < 0 and not self.copies:
            raise self.too_many_bytes()
        if self.bytes == 0:
            self.completed, self.pending, self.opened_at = self.completed + 1, self.count, time
            join(self.clock, self.gathering)

    def too_many_bytes(self) -> Mistake:
        who, spot = next(reversed(self.arrivals), ("nobody", None))
        facts = {"bytes": -self.bytes, "barrier": self.name}
        return mistake(
            Kind.BYTES,
            say("hopper.barrier.bytes_told", **facts, who=who, spot=str(spot))
            if spot
            else say("hopper.barrier.bytes", **facts),
            second=spot,
            buffer=self.name,
            who=who,
        )

    def waited_for(self, who: str, spot: Spot, parity: int = 0) -> Waiting:
        """Return the state of the barrier for an agent that waits, as data."""
        arrived = self.count - self.pending
        came = tuple(self.arrivals)
        return Waiting(who, spot, self.name, parity, self.completed, arrived, self.count, self.bytes, came)


@dataclass(frozen=True)
class Passed:
    """A wait that a partition has passed, with its phase.

    phase   the last phase that was over then, -1 if none was;  parity  what the wait asked for
    stale   it passed at once, with a phase that this partition had passed before, or with none
    tick    the partition's event
    """

    barrier: Barrier
    phase: int
    parity: int
    at_once: bool
    stale: bool
    spot: Spot
    tick: int

    def by(self, who: str) -> Message:
        """Return the message on how this partition waited."""
        facts = {"who": who, "parity": self.parity, "barrier": self.barrier.name, "spot": str(self.spot)}
        if self.phase < 0:
            return say("hopper.passed.no_phase", **facts, at_once=self.at_once)
        return say("hopper.passed.phase", **facts, at_once=self.at_once, phase=self.phase)
