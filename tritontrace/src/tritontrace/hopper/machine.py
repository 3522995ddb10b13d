"""One program on an SM: its partitions of warps, and the copies and products that are under way beside them.

A partition is a greenlet: it runs until it does something that others can see, and an order (orders.py) says who goes on.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod

from greenlet import getcurrent, greenlet

from tritontrace.hopper.agents import Agent, Flight
from tritontrace.hopper.barriers import Barrier, Passed
from tritontrace.hopper.clocks import Clock, join
from tritontrace.hopper.faults import Kind, Mistake, Spot, Waiting, mistake
from tritontrace.hopper.memory import Access, Shared, View
from tritontrace.hopper.orders import Order
from tritontrace.hopper.timeline import SPECIAL
from tritontrace.messages import say
from tritontrace.results import Counts
from tritontrace.tracing.work import Work


@dataclass(frozen=True)
class Product:
    """A wgmma at its issue. shape: M, N, K.

    copies    copies to shared memory that were under way then, or begun before it was waited for, and that served somebody later
    products  other products that were under way;  own  those of them that its own partition had issued
    stores    copies by TMA from shared memory that were under way
    """

    who: str
    spot: Spot
    shape: tuple[int, int, int]
    copies: int
    products: int
    own: int = 0
    stores: int = 0

    @property
    def multiply_adds(self) -> int:
        return prod(self.shape)


ENTRY = 40  # elements of tracing/work.py: what a clock's entry costs a flight, whose clock is copied and joined

MOST_BESIDE = (
    3  # products for which one copy counts as under way: of two partitions or three that multiply with what it brings
)


class Machine:
    """Simulator of one program. order: the execution order; loads: copies in flight that signal a barrier, as issued; work: its limit."""

    def __init__(self, order: Order, work: Work | None = None):
        self.order, self.work = order, work or Work()
        self.shared, self.counts = Shared(), Counts()
        self.barriers: dict[int, Barrier] = {}  # by address
        self.agents: list[Agent] = []
        self.loads: list[Flight] = []
        self._products: list[tuple[Product, list[Flight]]] = []  # with the copies that were under way
        self.ahead: list[Flight] = []  # copies to shared memory for which nobody has waited yet
        self._reads: list[tuple[int, list[Flight]]] = []  # bytes of a tile that threads loaded, the copies ahead of it
        self.sites: set[tuple[str, str, Spot, int]] = set()  # instructions that began a flight
        self.gates: set[object] = set()  # those of Code.gates that were reached
        self.exponentials = self.beside_products = (
            0.0  # cycles of them, and while a product of the same partition was under way
        )
        self._ids = 0

    # ------------------------------------------------------------------------------------------------- partitions

    def run(self, name: str, warps: int, body: Callable[[Agent], object]) -> None:
        """Run a program to its end. Raises Mistake."""
        self._hub = getcurrent()
        self.order.begin(self)
        self._start(name, warps, {}, body)
        while any(not agent.run.dead for agent in self.agents):
            chosen = self.order.choose(self, [agent for agent in self.agents if agent.awake])
            if chosen is None:
                raise self._deadlock()
            if isinstance(chosen, Flight):
                self.land(chosen)
            else:
                chosen.run.switch()
        self._look_what_is_left()

    def fork(self, parent: Agent, name: str, warps: int, body: Callable[[Agent], object]) -> Agent:
        """Start a partition whose clock is its parent's."""
        parent.tick()
        worker = self._start(name, warps, dict(parent.clock), body)
        worker.time = parent.time
        return worker

    def meet(self, agent: Agent, workers: list[Agent], spot: Spot) -> None:
        """Wait for the end of partitions (the join of warp_specialize)."""
        names = ", ".join(worker.name for worker in workers)
        self.event(agent)
        self.until(
            agent,
            lambda: all(worker.run.dead for worker in workers),
            lambda: Waiting(agent.name, spot, f"the end of {names}"),
        )
        for worker in workers:
            join(agent.clock, worker.clock)
            agent.time = max(agent.time, worker.time)

    def _start(self, name: str, warps: int, clock: Clock, body: Callable[[Agent], object]) -> Agent:
        agent = Agent(self._new_id(), name, warps, clock)
        agent.tick()

        def run() -> None:
            body(agent)
            self.order.settle(self, agent)

        agent.run = greenlet(run, parent=self._hub)
        agent.run.gr_context = contextvars.copy_context()  # numpy's silence among others
        self.agents.append(agent)
        return agent

    def _new_id(self) -> int:
        self._ids += 1
        return self._ids

    def event(self, agent: Agent) -> None:
        """Yield to the execution order before an action that others can observe: they may go first."""
        self.order.settle(self, agent)
        while self.order.gives_way(self, agent):
            self.give_way()

    def give_way(self) -> None:
        """Switch to whichever partition the execution order chooses; maybe the same."""
        self._hub.switch()

    def until(self, agent: Agent, ready: Callable[[], bool], waits: Callable[[], Waiting]) -> None:
        agent.waits = waits
        while not ready():
            agent.ready = ready
            self.give_way()
        agent.ready = agent.waits = None

    def _deadlock(self) -> Mistake:
        waiting = [(agent.waits(), agent) for agent in self.agents if agent.waits and not agent.run.dead]
        waiting.sort(key=lambda each: (each[0].wanted is None, len(each[0].who_came)))  # the loneliest first
        found = tuple(account for account, _ in waiting)
        first = next((w for w in found if w.bytes), found[0])
        kind = Kind.DEADLOCK
        if first.bytes > 0 and first.arrived:
            kind = Kind.BYTES
        elif first.bytes < 0:
            kind = Kind.NO_EXPECT
        facts = {"second": first.spot, "buffer": first.what, "who": first.who} if kind is not Kind.DEADLOCK else {}
        ordered = (first, *(account for account in found if account is not first))
        others = [say("hopper.waiting.other", waiting=each.briefly) for each in ordered[1:]]
        sentence = say("hopper.waiting.deadlock", first=first.sentence, others=others)
        return mistake(kind, sentence, waiting=ordered, **facts)

    def _look_what_is_left(self) -> None:
        for kind, flights in (
            (Kind.STORE, [flight for agent in self.agents for flight in agent.stores]),
            (Kind.PRODUCT, [flight for agent in self.agents for flight in agent.products]),
            (Kind.LOAD, [flight for flight in self.loads if not flight.arrives]),
        ):
            for flight in flights:
                raise mistake(
                    kind,
                    say("hopper.use.under_way", who=flight.who, spot=str(flight.spot)),
                    second=flight.spot,
                    who=flight.who,
                )

    # ------------------------------------------------------------------------------------------------- under way

    def multiplies(self, flight: Flight, shape: tuple[int, int, int]) -> None:
        """Record a product that is issued now."""
        agent = flight.issuer
        others = sum(len(one.products) for one in self.agents)
        stores = sum(len(one.stores) for one in self.agents)
        made = Product(agent.name, flight.spot, shape, 0, others, len(agent.products), stores)
        flight.beside = list(self.ahead)
        self._products.append((made, flight.beside))

    def computes(self, agent: Agent, takes: Mapping[str, float], reduces: bool = False) -> None:
        """Record arithmetic of a partition: cycles of each pipe. What follows a reduction waits for it."""
        self.exponentials += takes.get(SPECIAL, 0.0)
        self.beside_products += takes.get(SPECIAL, 0.0) if agent.products else 0.0
        self.order.computes(agent, takes)
        if reduces:
            self.order.reduced(self, agent)

    @property
    def products(self) -> list[Product]:
        """Return the products so far. A copy for which nobody ever waits, or which nobody reads, has served for none; any other one for as
        many as it may be beside in a ring, and not for all that are issued before somebody waits for it."""
        may: dict[int, int] = {}  # of each copy, for how many more products it counts
        products = []
        for made, copies in self._products:
            beside = [f for f in copies if f.used and f not in self.ahead and may.setdefault(f.id, MOST_BESIDE)]
            for flight in beside[:1]:
                may[flight.id] -= 1
            products.append(replace(made, copies=len(beside)))
        return products

    def reads(self, nbytes: int) -> None:
        """Record that threads load a tile."""
        self.counts.threads_read += nbytes
        self._reads.append((nbytes, list(self.ahead)))

    def account(self) -> Counts:
        """Return the counts of the whole program. A copy that nobody reads has been ahead of nothing, and one of as many bytes as it
        brings: one that is fetched first and waited for last overlaps with no more than another."""
        covers = {flight.id: flight.bytes for _, ahead in self._reads for flight in ahead if flight.used}
        self.counts.threads_read_ahead = 0
        for nbytes, ahead in self._reads:
            for flight in ahead:
                covered = min(nbytes, covers.get(flight.id, 0))
                covers[flight.id] = covers.get(flight.id, 0) - covered
                self.counts.threads_read_ahead += covered
                nbytes -= covered
        return self.counts

    def flight(self, agent: Agent, what: str, spot: Spot, operation: object, do: Callable[[], None]) -> Flight:
        """Create an asynchronous operation. operation: the instruction of the kernel that issues it."""
        agent.tick()
        self.work.spend((ENTRY * len(agent.clock), 0), 1)
        self.sites.add((what, agent.name, spot, id(operation)))
        made = Flight(self._new_id(), what, agent, spot, dict(agent.clock), do)
        made.clock[made.id] = 1
        return made

    def access(
        self,
        agent: Agent,
        view: View,
        what: str,
        spot: Spot,
        *,
        write: bool,
        generic: bool,
        flight: Flight | None = None,
    ) -> None:
        """Record an access of a partition, or of its flight, to a tile. Raises Mistake."""
        me, tick, clock = (flight.id, 1, flight.clock) if flight else (agent.id, agent.tick(), agent.clock)
        self.shared.access(Access(me, tick, write, generic, what, spot, view, agent, flight), clock)

    def issue(self, flight: Flight, queue: list[Flight]) -> None:
        """Issue a flight, which stays in `queue` until it is waited for, or completes."""
        queue.append(flight)
        if flight.fetches:
            self.ahead.append(flight)
            for product in (product for agent in self.agents for product in agent.products):
                product.beside.append(flight)
        self.order.issued(self, flight)

    def move(self, flight: Flight) -> None:
        """Move a flight's data, after those of the products that its partition issued before."""
        if flight.done:
            return
        products = flight.issuer.products
        for earlier in products[: products.index(flight)] if flight in products else ():
            self.move(earlier)
        flight.done = True
        flight.do()

    def land(self, flight: Flight) -> None:
        """Complete a copy that signals a barrier."""
        self.loads.remove(flight)
        self.move(flight)
        assert flight.barrier is not None
        flight.barrier.pending -= flight.arrives
        flight.barrier.landed(flight.id, flight.bytes, flight.clock, flight.end)

    def finish(self, agent: Agent, queue: list[Flight], spot: Spot, outstanding: int = 0) -> None:
        """Wait at a line for all but the last `outstanding` flights of a partition's queue."""
        while len(queue) > outstanding:
            self.move(queue[0])
            flight = queue.pop(0)
            flight.joined = True
            if flight.fetches:
                self.ahead.remove(flight)
            join(agent.clock, flight.clock)
            self.order.waited(self, agent, flight.end, flight.what)
        for flight in queue:
            flight.spared = spot

    # ------------------------------------------------------------------------------------------------- barriers

    def barrier(self, view: View, spot: Spot) -> Barrier:
        found = self.barriers.get(view.ends[0])
        if found is None:
            raise mistake(
                Kind.NO_BARRIER,
                say("hopper.barrier.no_init", barrier=view.name, spot=str(spot)),
                second=spot,
                buffer=view.name,
            )
        found.name = view.name  # an allocation gets its full name after its barriers are made
        return found

    def arrive(self, agent: Agent, barrier: Barrier, spot: Spot, count: int = 1) -> None:
        agent.tick()
        for flight in (*agent.products, *agent.stores):
            flight.arrivals.append((barrier, spot))
        barrier.arrive(agent.name, spot, count, agent.clock, agent.time)

    def wait(self, agent: Agent, barrier: Barrier, parity: int, spot: Spot) -> None:
        if parity not in (0, 1):
            raise mistake(
                Kind.PHASE,
                say("hopper.barrier.parity", who=agent.name, parity=parity, barrier=barrier.name, spot=str(spot)),
                second=spot,
                buffer=barrier.name,
                who=agent.name,
            )
        at_once = barrier.open_for(parity)
        self.until(agent, lambda: barrier.open_for(parity), lambda: barrier.waited_for(agent.name, spot, parity))
        self.order.waited(self, agent, barrier.opened_at, f"wait for {barrier.name}")
        join(agent.clock, barrier.clock)
        self.ahead = [f for f in self.ahead if f.barrier is not barrier or f.phase >= barrier.completed]
        before, phase = agent.passed.get(barrier), barrier.completed - 1
        stale = at_once and (phase < 0 or (before is not None and before.phase == phase))
        agent.newest = Passed(barrier, phase, parity, at_once, stale, spot, agent.tick())
        agent.passed[barrier] = agent.newest
