"""Programs that ask one another: each runs in a greenlet of its own, and they take turns.

A program gives its turn away before each atomic and at each turn of a `while`, so that locks are fought for as on a GPU, where
programs run side by side, and whoever waits lets the others go on. Every third program gives its turn away only when it waits: it
runs ahead of the others. So whoever believes that all have come as far as itself, without waiting for them, is found out; and so
is whoever believes that nobody else is there.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from typing import NamedTuple

from greenlet import getcurrent, greenlet

from tritontrace.messages import Message, say
from tritontrace.tracing.accesses import Accesses, Asked
from tritontrace.tracing.memory import Batch
from tritontrace.ttir.launching import Site

AHEAD = 3  # one in this many programs runs ahead
# the first HASTY of those ahead: a loop of theirs that counts its turns may look LOOKS times before it gives its turn away
HASTY, LOOKS = 8, 1000
SMS, WARPS, BLOCKS = 108, 64, 32  # of an A100: its SMs, and the warps and programs that one of them holds
PATIENCE = 3  # rounds in which everybody repeats itself, and nobody changes anything


class Stuck(Exception):
    """Raised for a deadlock: programs wait for one another. `waiting`: (number, place) of each, in the order of their numbers."""

    def __init__(self, waiting: list[tuple[int, Site]]):
        super().__init__("stuck")
        self.waiting = sorted(waiting, key=lambda one: one[0])


def what_waits(stuck: Stuck, batches: Sequence[Batch], called: Callable[[int], Message]) -> Message:
    """Return the message on programs that wait for one another. called: how to call a program in words."""
    number, site = stuck.waiting[0]
    asked = next(b for b in reversed(batches) if b.op != "store" and number in b.programs)
    element = int(asked.touched()[0][list(asked.programs).index(number)])
    others = {one for one, _ in stuck.waiting}
    changed = [
        int(program)
        for batch in batches
        if batch.region is asked.region and batch.op != "load"
        for program in batch.programs[batch.touched()[1][batch.touched()[0] == element]]
        if program != number
    ]
    parameter, index = asked.region.place(element)
    facts = {"site": str(site), "program": called(number), "element": index, "tensor": parameter.name}
    facts["waiting"] = len(others)
    if not changed:
        return say("launch.waiting.unchanged", **facts)
    # whoever waits for the same may only have tried to
    last = ([program for program in changed if program not in others] or changed)[-1]
    return say("launch.waiting.changed", **facts, last=called(last), waits=last in others)


class Poll(NamedTuple):
    """The values that a `while` carried when it last polled. again: it had carried the same values before."""

    state: bytes
    again: bool


def resident(num_warps: int) -> int:
    """Return how many programs run at a time: a GPU starts no more than fit into it, and those that wait keep their place."""
    return SMS * min(BLOCKS, max(1, WARPS // num_warps))


class Turns:
    """Cooperative scheduler of programs that wait for one another: each calls `wait` or `look` where it yields."""

    def __init__(self, memory: Accesses, at_a_time: int):
        self._memory, self._at_a_time = memory, at_a_time
        self._hub: greenlet  # of `run`
        self._where: dict[int, Site] = {}
        self._awake: dict[int, Callable[[], bool]] = {}
        self._woken: set[int] = set()
        self._loops: dict[int, dict[Site, Poll]] = {}  # of each program
        self._looked: Counter[int] = Counter()
        self._moved = 0

    def wait(self, site: Site, program: int) -> None:
        """Yield to other programs before an access to memory that they may see."""
        self._moved += not self._repeats(program)
        if program % AHEAD == 0 or program in self._woken:
            self._woken.discard(program)
            return
        self._where[program], self._awake[program] = site, _always
        self._hub.switch()

    def look(self, site: Site, program: int, state: bytes) -> None:
        """Yield before a `while` polls again. state: the values that it carries.

        The program sleeps until what it asks for is another; and then looks at once, before somebody else takes it.
        """
        loops = self._loops.setdefault(program, {})
        before = loops.get(site)
        loops[site] = Poll(state, before is not None and before.state == state)
        counts = before is not None and before.state != state  # it ends by itself, and so it waits for nobody
        self._moved += not self._repeats(program)
        if counts and program % AHEAD == 0 and program < AHEAD * HASTY and self._looked[program] < LOOKS:
            self._looked[program] += 1
            return
        assert self._memory.asked is not None  # since `run`
        self._where[program], self._awake[program] = site, self._memory.asked.take(program)
        self._hub.switch()
        self._woken.add(program)

    def left(self, site: Site, program: int) -> None:
        """Record that a `while` has ended."""
        self._loops.get(program, {}).pop(site, None)

    def _repeats(self, program: int) -> bool:
        """Whether a program does what it did before, as long as nobody changes memory."""
        return any(look.again for look in self._loops.get(program, {}).values())

    def run(self, programs: Iterable[int], one: Callable[[int], None]) -> None:
        """Run one(number) for each program, at most `at_a_time` of them at a time. Raises Stuck if all wait, and nothing changes."""
        self._hub, self._memory.asked = getcurrent(), Asked()
        coming, alive = iter(programs), deque()
        quiet, before = 0, ()
        while True:
            while len(alive) < self._at_a_time and (number := next(coming, None)) is not None:
                alive.append((number, greenlet(one)))
                alive[-1][1].gr_context = copy_context()  # which floating-point warnings are off, among others
                self._awake[number] = _always
            if not alive:
                return
            rested = quiet > 0  # nobody was awake: a loop that counts its turns still ends by itself
            for _ in range(len(alive)):
                number, program = alive.popleft()
                if rested or self._awake[number]():
                    program.switch(number) if number not in self._where else program.switch()
                if program.dead:
                    self._where.pop(number, None)
                else:
                    alive.append((number, program))
            now = self._memory.changes, self._moved, len(alive)
            quiet, before = (quiet + 1 if now == before else 0), now
            if quiet > PATIENCE:
                raise Stuck([(number, self._where[number]) for number, _ in alive])


def _always() -> bool:
    return True
