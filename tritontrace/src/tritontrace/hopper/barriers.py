"""An mbarrier: arrivals and bytes of one phase, and what whoever waits for it learns."""

from __future__ import annotations

from dataclasses import dataclass, field

from tritontrace.hopper.clocks import Clock, join
from tritontrace.hopper.faults import Kind, Mistake, Spot, Waiting, mistake, state_of


@dataclass(eq=False)
class Barrier:
    """A phase is over when `count` arrivals are in and all expected bytes have come.

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
                f"{who} arrives at `{self.name}` in {spot}, and its phase wants no more arrivals. "
                f"{state_of(self.waited_for(who, spot))}",
                second=spot,
                buffer=self.name,
                who=who,
            )
        self.arrivals[who, spot] = self.completed
        self.pending -= count
        join(self.gathering, clock)
        self.advance(time)

    def landed(self, copy: int, bytes: int, clock: Clock, time: float) -> None:
        """The copy of this number has moved its bytes."""
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
        told = f" {who} told it in {spot} how many to expect." if spot else ""
        return mistake(
            Kind.BYTES,
            f"{-self.bytes:,} bytes more came to `{self.name}` than its phase expected.{told}",
            second=spot,
            buffer=self.name,
            who=who,
        )

    def waited_for(self, who: str, spot: Spot, parity: int = 0) -> Waiting:
        """The state of the barrier for somebody who waits, as data."""
        arrived = self.count - self.pending
        came = tuple(self.arrivals)
        return Waiting(who, spot, self.name, parity, self.completed, arrived, self.count, self.bytes, came)


@dataclass(frozen=True)
class Passed:
    """A wait that a partition has passed.

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

    def __str__(self) -> str:
        how = "at once, " if self.at_once else ""
        phase = f"with phase {self.phase}" if self.phase >= 0 else "since no phase was over yet"
        return f"waited for parity {self.parity} of `{self.barrier.name}` in {self.spot}, and passed {how}{phase}"
