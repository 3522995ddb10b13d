"""Barriers that stand in shared memory while Triton may give it to another buffer.

Triton gives away the memory of a buffer behind its last use in the kernel. PTX wants mbarrier.inval before a barrier's memory holds
anything else, and a GPU that changes from one process to another and back writes barriers that are not invalidated back to where they
stood (research/attention_backward_overlapped.py tells of such a case). A barrier is judged at the end of a launch, and not at all if
an instruction that uses barriers was never reached: it might use this one.
"""

from __future__ import annotations

from tritontrace.hopper.faults import Kind, Mistake, Spot, mistake
from tritontrace.hopper.machine import Machine
from tritontrace.hopper.memory import Allocation, Barriers, View
from tritontrace.messages import say


def touched(machine: Machine, view: View, stand: int = 0, used: bool = False, made: Spot | None = None) -> None:
    """Record that a barrier is initialised, used or invalidated."""
    barriers = view.allocation.barriers
    if barriers is None:
        assert made is not None
        barriers = view.allocation.barriers = Barriers(made)
    barriers.stand += stand
    barriers.used |= used
    barriers.last = len(machine.shared.asked)


def made_again(view: View, first: Spot, second: Spot) -> Mistake:
    """Return the Mistake of an mbarrier.init on a barrier that was not invalidated."""
    return mistake(
        Kind.STANDS,
        say("hopper.barrier.made_again", barrier=view.name, second=str(second), first=str(first)),
        second=second,
        first=first,
        buffer=view.name,
    )


class Upkeep:
    """Lifetimes of the barriers in the programs of one launch."""

    def __init__(self) -> None:
        self._reached: set[object] = set()
        self._used: set[object] = set()  # places that allocate
        self._unused: dict[object, Mistake] = {}
        self._standing: list[Mistake] = []

    def add(self, machine: Machine) -> None:
        """Add the barriers of a program that has ended."""
        self._reached |= machine.gates
        for allocation in machine.shared.allocations:
            barriers = allocation.barriers
            if barriers is None:
                continue
            if barriers.used:
                self._used.add(allocation.site)
            elif barriers.stand:
                self._unused.setdefault(allocation.site, _unused(allocation, barriers))
            later = machine.shared.asked[barriers.last :]
            if barriers.used and barriers.stand and later:
                self._standing.append(_standing(allocation, barriers, *later[0]))

    def look(self, gates: set[object]) -> None:
        """Raise the Mistake of the first barrier that was not invalidated, or not used, if each of these instructions was reached."""
        if not gates <= self._reached:
            return
        unused = [found for site, found in self._unused.items() if site not in self._used]
        for found in (*unused, *self._standing):
            raise found


def _unused(allocation: Allocation, barriers: Barriers) -> Mistake:
    return mistake(
        Kind.UNUSED,
        say("hopper.barrier.unused", barrier=allocation.name, made=str(barriers.made)),
        second=barriers.made,
        buffer=allocation.name,
    )


def _standing(allocation: Allocation, barriers: Barriers, other: Allocation, spot: Spot) -> Mistake:
    return mistake(
        Kind.STANDS,
        say(
            "hopper.barrier.standing",
            buffer=other.name,
            spot=str(spot),
            barrier=allocation.name,
            made=str(barriers.made),
        ),
        second=spot,
        first=barriers.made,
        buffer=allocation.name,
    )
