"""Agents of an SM: partitions of warps, and the copies and products that they have under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from greenlet import greenlet

from tritontrace.hopper.barriers import Barrier, Passed
from tritontrace.hopper.clocks import Clock
from tritontrace.hopper.faults import Spot, Waiting
from tritontrace.messages import say


@dataclass(eq=False)
class Agent:
    """A partition of warps, as the simulator runs it, with its vector clock.

    clock     what it knows of every agent, itself included
    ready     tells whether it can go on, None if it waits for nothing;  waits  makes the account of what it waits for
    passed    its last wait for each barrier;  newest  the last one of all
    products, stores   under way, oldest first;  copies  by cp.async, not yet in a group;  groups  of these
    time      cycles, in the order "timed";  work  cycles of arithmetic since its last event, which are not in `time` yet
    """

    id: int
    name: str
    warps: int
    clock: Clock
    run: greenlet = field(init=False, repr=False)
    ready: Callable[[], bool] | None = None
    waits: Callable[[], Waiting] | None = None
    passed: dict[Barrier, Passed] = field(default_factory=dict)
    newest: Passed | None = None
    products: list[Flight] = field(default_factory=list)
    stores: list[Flight] = field(default_factory=list)
    copies: list[Flight] = field(default_factory=list)
    groups: list[list[Flight]] = field(default_factory=list)
    time: float = 0.0
    work: dict[str, float] = field(default_factory=dict)

    @property
    def awake(self) -> bool:
        return not self.run.dead and (self.ready is None or self.ready())

    def tick(self) -> int:
        self.clock[self.id] = self.clock.get(self.id, 0) + 1
        return self.clock[self.id]


@dataclass(eq=False)
class Flight:
    """An asynchronous copy or product in flight. It is an agent with the clock of its issuer.

    do        moves the data, once: then it is `done`;  joined  its issuer has waited for it;  used  what it wrote has been read
    barrier   that a copy tells, of `bytes`, in this phase;  arrives  how many arrivals it makes there
    fetches   it is a copy to shared memory;  cycles  of a product, on the tensor cores
    too_soon  of a copy: what another one had brought to the same place was not read yet when it began
    arrivals  (barrier, line) at which its issuer arrived before it had waited for this
    spared    the line of its issuer's last wait that let it go on, as one of the newest
    beside    of a product: copies to shared memory that were under way with it
    end       the cycle at which it ends, in the order "timed"
    """

    id: int
    what: str
    issuer: Agent
    spot: Spot
    clock: Clock
    do: Callable[[], None]
    barrier: Barrier | None = None
    bytes: int = 0
    phase: int = -1
    arrives: int = 0
    cycles: float = 0.0
    fetches: bool = False
    done: bool = False
    joined: bool = False
    used: bool = False
    too_soon: bool = False
    arrivals: list[tuple[Barrier, Spot]] = field(default_factory=list)
    beside: list[Flight] = field(default_factory=list)
    spared: Spot | None = None
    end: float = 0.0

    def __post_init__(self) -> None:
        self.who = self.issuer.name

    def unwaited(self) -> str:
        """Return a message on why it may still be in flight, for one that signals no barrier."""
        if self.joined:
            return say("hopper.unwaited.joined", who=self.who, what=self.what)
        if self in self.issuer.copies:
            return say("hopper.unwaited.no_group", what=self.what)
        if self.spared:
            return say("hopper.unwaited.spared", who=self.who, spot=str(self.spared), what=self.what)
        return say("hopper.unwaited.never", who=self.who, what=self.what)
