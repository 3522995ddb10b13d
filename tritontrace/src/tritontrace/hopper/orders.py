"""Orders in which what is under way at the same time may come to pass. Each is one of those that a GPU may take.

eager      copies and products are done as soon as they are issued; the partition that began first goes first
lazy       they are done as late as possible, when somebody waits for them and nobody else can go on
random:7   at random moments, and partitions interleaved at random; 7 is the seed
timed      by the costs in timeline.py
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Protocol

from tritontrace.hopper.agents import Agent, Flight
from tritontrace.hopper.timeline import CHUNK, COMPUTES, OWN, SPECIAL, Costs, Timeline
from tritontrace.messages import say

ORDERS = (
    "lazy",
    "timed",
    "eager",
    "random:0",
    "random:1",
    "random:2",
)  # of simulate(); where there are several cases, orders_of(case)
LAND, MOVE, PAUSE = 0.3, 0.2, 0.5  # chances of "random", for each decision


class Ordered(Protocol):
    """Interface of the machine that an order drives: machine.Machine. agents: partitions; loads: copies in flight that signal a barrier."""

    agents: list[Agent]
    loads: list[Flight]

    def land(self, flight: Flight) -> None:
        """Complete a copy that signals a barrier."""
        ...

    def move(self, flight: Flight) -> None:
        """Move a flight's data."""
        ...

    def give_way(self) -> None:
        """Switch to whichever partition the execution order chooses."""
        ...


class Order:
    """Execution order of a simulated program: base class, and the order "eager"."""

    timeline: Timeline | None = None

    def begin(self, machine: Ordered) -> None:
        """Reset for another program."""

    def choose(self, machine: Ordered, ready: list[Agent]) -> Agent | Flight | None:
        """Return the partition that runs next, or the copy that completes; None if there is neither."""
        return ready[0] if ready else None

    def gives_way(self, machine: Ordered, agent: Agent) -> bool:
        """Whether others go first, before a partition does something that they can observe."""
        return False

    def issued(self, machine: Ordered, flight: Flight) -> None:
        """Hook: a flight was issued."""
        machine.land(flight) if flight in machine.loads else machine.move(flight)

    def waited(self, machine: Ordered, agent: Agent, until: float, why: str) -> None:
        """Hook: a partition has waited for something that ended at a cycle."""

    def spend(self, agent: Agent, cycles: float, what: str) -> None:
        """Hook: a partition was busy for some cycles."""

    def computes(self, agent: Agent, takes: Mapping[str, float]) -> None:
        """Hook: a partition does arithmetic, with cycles of each pipe."""

    def reduced(self, machine: Ordered, agent: Agent) -> None:
        """Hook: a partition has reduced a block, and waits for the result."""

    def settle(self, machine: Ordered, agent: Agent) -> None:
        """Hook: put the arithmetic since the last event on the clock."""


class Lazy(Order):
    """Execution order in which the partitions that began last go first, and the newest copy completes first."""

    def choose(self, machine: Ordered, ready: list[Agent]) -> Agent | Flight | None:
        return ready[-1] if ready else machine.loads[-1] if machine.loads else None

    def issued(self, machine: Ordered, flight: Flight) -> None:
        pass


class Seeded(Lazy):
    """Execution order in which everything happens at random moments."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)

    def choose(self, machine: Ordered, ready: list[Agent]) -> Agent | Flight | None:
        chance = self._random
        if machine.loads and (not ready or chance.random() < LAND):
            return chance.choice(machine.loads)
        if chance.random() < MOVE:
            agent = chance.choice(machine.agents)
            under_way = [*agent.products[:1], *agent.stores]
            if under_way:
                machine.move(chance.choice(under_way))
        return chance.choice(ready) if ready else None

    def gives_way(self, machine: Ordered, agent: Agent) -> bool:
        return self._random.random() < PAUSE


class Timed(Lazy):
    """Execution order by a model of costs: the agent with the lowest time goes first. timeline: what was busy when."""

    def __init__(self, costs: Costs | None = None):
        self.timeline: Timeline = Timeline(costs or Costs())

    def begin(self, machine: Ordered) -> None:
        self.timeline.begin()

    def choose(self, machine: Ordered, ready: list[Agent]) -> Agent | Flight | None:
        load = min(machine.loads, key=lambda flight: flight.end, default=None)
        first = min(ready, key=lambda agent: agent.time, default=None)
        return load if load and (first is None or load.end <= first.time) else first

    def gives_way(self, machine: Ordered, agent: Agent) -> bool:
        others = any(a is not agent and a.awake and a.time < agent.time for a in machine.agents)
        return others or any(flight.end < agent.time for flight in machine.loads)

    def issued(self, machine: Ordered, flight: Flight) -> None:
        self.timeline.issued(flight)

    def waited(self, machine: Ordered, agent: Agent, until: float, why: str) -> None:
        if until > agent.time:
            self.timeline.bar(agent.name, agent.time, until, why)
            agent.time = until

    def spend(self, agent: Agent, cycles: float, what: str) -> None:
        self.timeline.bar(agent.name, agent.time, agent.time + cycles, what)
        agent.time += cycles

    def computes(self, agent: Agent, takes: Mapping[str, float]) -> None:
        for pipe, cycles in takes.items():
            agent.work[pipe] = agent.work.get(pipe, 0.0) + cycles

    def reduced(self, machine: Ordered, agent: Agent) -> None:
        self.settle(machine, agent)
        self.spend(agent, self.timeline.costs.reduction, COMPUTES)

    def settle(self, machine: Ordered, agent: Agent) -> None:
        work, agent.work = agent.work, {}
        cycles = [n / agent.warps if pipe == OWN else n for pipe, n in work.items()]
        chunks = ceil(max(cycles, default=0.0) / CHUNK)
        for _ in range(chunks):
            while self.gives_way(machine, agent):
                machine.give_way()
            self.timeline.compute(agent, {pipe: cycles / chunks for pipe, cycles in work.items()})
        if SPECIAL in work:
            self.spend(agent, self.timeline.costs.special_latency, COMPUTES)


def order_of(name: str, costs: Costs | None = None) -> Order:
    """Return the execution order of that name; costs: of "timed". Raises ValueError if there is none."""
    kind, colon, seed = name.partition(":")
    if kind == "random" and colon and seed.isdecimal():
        return Seeded(int(seed))
    plain = {"eager": Order, "lazy": Lazy}
    if name == "timed":
        return Timed(costs)
    if name not in plain:
        raise ValueError(say("asked.simulation.no_order", name=repr(name)))
    return plain[name]()


def orders_of(case: str) -> tuple[str, ...]:
    """Return the execution orders for one of several cases: ORDERS, with random ones seeded by the case's name, so that many are tried."""
    first = zlib.crc32(case.encode()) % 10_000
    named = [name for name in ORDERS if not name.startswith("random")]
    return (*named, *(f"random:{first + i}" for i in range(len(ORDERS) - len(named))))


def seeds(count: int) -> Sequence[str]:
    """Return the names of `count` random execution orders."""
    return [f"random:{seed}" for seed in range(count)]
