"""Criteria of units 13 and 14: what goes on at the same time in a kernel in Gluon. All of it comes from the simulator, in every order
that a check runs; nothing is a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from course_lib.catalogue import say
from course_lib.criteria import Compiles, Correct, TritonDidTheWork
from course_lib.criteria.costs import CostCriterion
from course_lib.exercise import Criterion, Exercise, Finding, Spent, Trial
from tritontrace.results import Simulated


def simulations(trial: Trial) -> list[Simulated]:
    """List what the simulator reports of each Gluon launch of a trial."""
    return [launch.simulated for launch in trial.evidence.launches if launch.simulated]


@dataclass
class InEveryOrder(Criterion):
    """Gate: no hazard in any execution order, on any case: no two accesses race, and no agent waits for ever."""

    missed = say("sm.in_every_order.missed")
    points: float = 0
    title: str = say("sm.in_every_order.title")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in trials:
            if trial.evidence.hazards:
                first = trial.evidence.hazards[0]
                others = sorted({hazard.kind for hazard in trial.evidence.hazards[1:]} - {first.kind})
                detail = say("sm.in_every_order.others", others=[*others]) if others else ""
                seen = say("sm.in_every_order.seen", problem=first.sentence, order=first.order, case=trial.case.name)
                return self.lost(seen, cause=first.cause, detail=detail)
        orders = max((found.orders for trial in trials for found in simulations(trial)), default=0)
        if not orders:
            return self.left_open(say("sm.in_every_order.no_launch"))
        return self.earned(say("sm.in_every_order.orders", orders=orders))


GATES = (TritonDidTheWork(title=say("sm.in_every_order.title_triton")), InEveryOrder(), Correct("plain"), Compiles())
"""The gates of an exercise that asks for a kernel in Gluon."""

SHARE = 0.95  # of the bytes, or of the products, that must go the way that an exercise asks for
READS, WRITES = {"TMA load": "tma_read", "cp.async": "async_read"}, {"TMA store": "tma_written"}


@dataclass
class Uses(CostCriterion):
    """Criterion: bytes, or products, go the way that `op` names: reads by "TMA load" or "cp.async", writes by "TMA store", products by
    "wgmma".

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
            "TMA load": say("sm.uses.title_tma_load"),
            "cp.async": say("sm.uses.title_cp_async"),
            "TMA store": say("sm.uses.title_tma_store"),
            "wgmma": say("sm.uses.title_wgmma"),
        }[self.op]

    @property
    def missed(self) -> str:
        return say("sm.uses.missed", title=self.title)

    def count(self, group: Sequence[Trial]) -> Finding:
        part, unit = 1.0, "multiply_adds" if self.op == "wgmma" else "bytes"
        for trial in group:
            mine, all_of_it = self._moved(trial)
            part = min(part, mine / max(1, all_of_it))
            sites = max((found.instructions.get(self.op, 0) for found in simulations(trial)), default=0)
            if mine < SHARE * all_of_it or not mine:
                seen = say(f"sm.uses.seen_{unit}", mine=mine, all=all_of_it, case=trial.case.name)
                expected = say(f"sm.uses.expected_{unit}", share=SHARE, op=self.op)
                return self.lost(seen, expected=expected, detail=say(f"sm.uses.others_{unit}", op=self.op))
            if self.most and sites > self.most:
                detail = say("sm.uses.one_is_enough", op=self.op)
                seen = say("sm.uses.instructions", instructions=sites, op=self.op)
                return self.lost(seen, expected=say("sm.uses.at_most", most=self.most), detail=detail)
        return self.earned(say(f"sm.uses.part_{unit}", part=100 * part))

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
    """Base of criteria on a share of a kernel's work, in every case of the group: `least`, 0 to 1, must be reached."""

    least: float
    of: ClassVar[str]  # what it is a part of, in words
    advice: ClassVar[str]  # to a kernel in which it is too small

    def part(self, group: Sequence[Trial]) -> float:
        raise NotImplementedError

    def count(self, group: Sequence[Trial]) -> Finding:
        part = self.part(group)
        seen = say("sm.share.part", part=100 * part, of=self.of)
        if part >= self.least:
            return self.earned(seen)
        return self.lost(seen, expected=say("sm.share.least", least=100 * self.least), detail=self.advice)


@dataclass
class Overlapped(Share):
    """Criterion: this share of the products, by their work, runs while a copy to shared memory is in flight; without products, of the bytes
    that threads load of tiles. The order with the highest share counts. least: the share that is needed."""

    missed = say("sm.overlapped.missed")
    of = say("sm.overlapped.of")
    advice = say("sm.overlapped.advice")
    least: float
    points: float
    title: str = say("sm.overlapped.title")
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
    """Criterion: no load or store of a tile needs more passes through shared memory than its bytes do."""

    missed = say("sm.no_conflicts.missed")
    points: float
    title: str = say("sm.no_conflicts.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        found = [each for trial in group for s in simulations(trial) for each in s.passes]
        if not found:
            return self.lost(say("sm.no_conflicts.no_tile"))
        worst = max(found, key=lambda each: each.passes / each.needed if each.needed else float("inf"))
        if not worst.needed:
            return self.lost(say("sm.no_conflicts.unknown", line=worst.line))
        seen = say("sm.no_conflicts.passes", passes=worst.passes, needed=worst.needed)
        if worst.passes == worst.needed:
            return self.earned(seen)
        return self.lost(
            seen,
            expected=say("sm.no_conflicts.expected"),
            detail=say("sm.no_conflicts.worst", op=worst.op, line=worst.line),
        )


@dataclass
class SharedBytes(CostCriterion):
    """Criterion: a program uses no more shared memory than this. most: the arguments of a call -> bytes."""

    missed = say("sm.shared_bytes.missed")
    most: Callable[..., int]
    points: float
    title: str = say("sm.shared_bytes.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        held = 0
        for trial in group:
            held, most = max((s.shared_bytes for s in simulations(trial)), default=0), self.most(**trial.inputs[-1])
            if held > most:
                spent = Spent(say("criteria.spent.bytes"), say("criteria.spent.held"), most, held, most)
                detail = say("sm.shared_bytes.place")
                expected = say("sm.shared_bytes.at_most", bytes=most, case=trial.case.name)
                return self.lost(say("sm.shared_bytes.held", bytes=held), expected=expected, spent=spent, detail=detail)
        return self.earned(say("sm.shared_bytes.held", bytes=held))
