"""Criteria of units 13 and 14: what goes on at the same time in a kernel in Gluon. All of it comes from the simulator, in every order
that a check runs; nothing is a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from course_lib.criteria import Compiles, Correct, TritonDidTheWork
from course_lib.criteria.results import CostCriterion
from course_lib.exercise import Criterion, Exercise, Finding, Spent, Trial
from tritontrace.results import Simulated
from tritontrace.words import number, plural


def simulations(trial: Trial) -> list[Simulated]:
    """The facts of each launch in Gluon of a trial."""
    return [launch.simulated for launch in trial.evidence.launches if launch.simulated]


@dataclass
class InEveryOrder(Criterion):
    """No hazard in any order, on any case: nothing meets that should be kept apart, and nobody waits for ever."""

    missed = "goes wrong in some order"
    points: float = 0
    title: str = "no race and no deadlock, in any order"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in trials:
            if trial.evidence.hazards:
                first = trial.evidence.hazards[0]
                others = sorted({hazard.kind for hazard in trial.evidence.hazards[1:]} - {first.kind})
                detail = f"In other orders: {', '.join(others)}." if others else ""
                seen = f"{first.sentence} (in the order {first.order}, on {trial.case.name})"
                return self.lost(seen, cause=first.cause, detail=detail)
        orders = max((found.orders for trial in trials for found in simulations(trial)), default=0)
        if not orders:
            return self.left_open("no launch came to its end")
        return self.earned(plural(orders, "order"))


GATES = (TritonDidTheWork(title="computed by your kernel in Gluon"), InEveryOrder(), Correct("plain"), Compiles())
"""The gates of an exercise that asks for a kernel in Gluon."""

SHARE = 0.95  # of the bytes, or of the products, that must go the way that an exercise asks for
READS, WRITES = {"TMA load": "tma_read", "cp.async": "async_read"}, {"TMA store": "tma_written"}


@dataclass
class Uses(CostCriterion):
    """Bytes, or products, go the way that `op` names: what is read comes by "TMA load" or "cp.async", what is written leaves by "TMA
    store", what is multiplied is multiplied by "wgmma".

    most    instructions of the kernel that may begin one; 0 for any number
    needs   for "wgmma" the multiply-adds that a call needs, from its arguments
    """

    op: str
    points: float
    group: str = "performance"
    most: int = 0
    needs: Callable[..., int] | None = None

    @property
    def title(self) -> str:
        return {
            "TMA load": "read by TMA",
            "cp.async": "read by cp.async",
            "TMA store": "written by TMA",
            "wgmma": "multiplied by wgmma",
        }[self.op]

    @property
    def missed(self) -> str:
        return f"not {self.title}"

    def count(self, group: Sequence[Trial]) -> Finding:
        part, unit = 1.0, "multiply-adds" if self.op == "wgmma" else "bytes"
        for trial in group:
            mine, all_of_it = self._moved(trial)
            part = min(part, mine / max(1, all_of_it))
            sites = max((found.instructions.get(self.op, 0) for found in simulations(trial)), default=0)
            if mine < SHARE * all_of_it or not mine:
                seen = f"{number(mine)} of {number(all_of_it)} {unit} on {trial.case.name}"
                others = (
                    "written out by threads" if self.op == "wgmma" else "moved by threads, with plain loads and stores"
                )
                detail = f"The other {unit} are {others}: let {self.op} do all of it."
                return self.lost(seen, expected=f"at least {SHARE:.0%} of the {unit} by {self.op}", detail=detail)
            if self.most and sites > self.most:
                detail = f"One {self.op} takes a whole tile: it needs no other one for a part of it, or for show."
                seen = f"{sites} instructions of the kernel are a {self.op}"
                return self.lost(seen, expected=f"at most {self.most}", detail=detail)
        return self.earned(f"{100 * part:.0f} % of the {unit}")

    def _moved(self, trial: Trial) -> tuple[int, int]:
        """(what went this way, all that had to)."""
        found = simulations(trial)
        if self.op == "wgmma":
            needed = self.needs(**trial.inputs[-1]) if self.needs else sum(s.multiply_adds for s in found)
            return min(needed, sum(s.multiply_adds for s in found)), needed
        footprints = [f for launch in trial.evidence.launches for f in launch.footprints]
        if self.op in WRITES:
            return sum(s.tma_written for s in found), sum(f.written_bytes for f in footprints)
        return sum(getattr(s, READS[self.op]) for s in found), sum(f.read_bytes for f in footprints)


class Share(CostCriterion):
    """A part of what a kernel does, in every case of the group: least, 0 to 1, is what it must be."""

    least: float
    of: ClassVar[str]  # what it is a part of, in words
    advice: ClassVar[str]  # to a kernel in which it is too small

    def part(self, group: Sequence[Trial]) -> float:
        raise NotImplementedError

    def count(self, group: Sequence[Trial]) -> Finding:
        part = self.part(group)
        seen = f"{100 * part:.0f} % of the {self.of}"
        if part >= self.least:
            return self.earned(seen)
        return self.lost(seen, expected=f"at least {100 * self.least:.0f} %", detail=self.advice)


@dataclass
class Overlapped(Share):
    """A part of the products, by their work, beside which a copy to shared memory is under way; of a kernel without products, of
    the bytes that threads load of tiles. It is taken in the order in which it is most. least: what it must be."""

    missed = "does no work while copies are under way"
    of = "work while a copy was under way"
    advice = "Begin the copy of a later tile before you wait for this one, and wait for the oldest copy alone."
    least: float
    points: float
    title: str = "copies are under way while tiles are worked on"
    group: str = "performance"

    def part(self, group: Sequence[Trial]) -> float:
        return min(map(self._part, group))

    @staticmethod
    def _part(trial: Trial) -> float:
        found = simulations(trial)
        if products := sum(s.multiply_adds for s in found):
            return sum(s.overlapped * s.multiply_adds for s in found) / products
        read = sum(s.threads_read for s in found)
        return sum(s.read_ahead * s.threads_read for s in found) / read if read else 0.0


@dataclass
class NoConflicts(CostCriterion):
    """No load and no store of a tile passes shared memory more often than its bytes need."""

    missed = "bank conflicts"
    points: float
    title: str = "no bank conflicts"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        found = [each for trial in group for s in simulations(trial) for each in s.passes]
        if not found:
            return self.lost("no tile in shared memory is loaded or stored by threads")
        worst = max(found, key=lambda each: each.passes / each.needed if each.needed else float("inf"))
        if not worst.needed:
            return self.lost(f"the layouts of {worst.line} are of a kind whose conflicts are not counted here")
        seen = f"{worst.passes} passes of a warp for a tile, {worst.needed} needed"
        if worst.passes == worst.needed:
            return self.earned(seen)
        return self.lost(
            seen, expected="as many passes as the bytes need", detail=f"The worst is a {worst.op} in {worst.line}."
        )


@dataclass
class SharedBytes(CostCriterion):
    """A program holds no more shared memory than this. most: the arguments of a call -> bytes."""

    missed = "too much shared memory"
    most: Callable[..., int]
    points: float
    title: str = "shared memory only for tiles under way"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        held = 0
        for trial in group:
            held, most = max((s.shared_bytes for s in simulations(trial)), default=0), self.most(**trial.inputs[-1])
            if held > most:
                spent = Spent("bytes", "held", most, held, most)
                detail = "Is there a place in the ring, or a tile of its own, for what could lie where another tile is done with?"
                expected = f"at most {number(most)} on {trial.case.name}"
                return self.lost(f"{number(held)} bytes", expected=expected, spent=spent, detail=detail)
        return self.earned(f"{number(held)} bytes")
