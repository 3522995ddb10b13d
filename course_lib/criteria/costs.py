"""Criteria for how the work was cut: programs that share it, launches, products, atomics. CostCriterion is the base of all that count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import blocks
from course_lib.criteria.results import GradedTrial, of_group
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from tritontrace.results import Access, Footprint, Launch, tensors_of


class CostCriterion(Criterion):
    """Base of criteria on cost, for the cases of a group, all of them right: savings of wrong results earn nothing, nor does anything where
    most threads of a program have no work."""

    about = "cost"
    group: str

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        for trial in group:
            wrong = GradedTrial.of(exercise, trial).difference
            if wrong is not None and not wrong.passed:
                seen = say("criteria.result.not_right", case=trial.case.name, seen=wrong.seen)
                return self.lost(seen, cause=wrong.cause)
        for trial in group if self.about == "cost" else []:
            if small := blocks.small_blocks(trial):
                seen = say("criteria.blocks.seen", elements=int(small.details["elements"]), case=trial.case.name)
                return self.lost(seen, expected=say("criteria.blocks.expected"), cause=small)
        return self.count(group)

    def count(self, group: Sequence[Trial]) -> Finding:
        raise NotImplementedError


def accesses(trials: Sequence[Trial], op: str) -> list[Access]:
    """List all loads, or all stores, of these trials. An atomic counts as both."""
    kinds = (op, "atomic")
    return [a for t in trials for launch in t.evidence.launches for a in launch.accesses if a.op in kinds]


def footprints(trials: Sequence[Trial]) -> list[Footprint]:
    """List what each launch of these trials moved of each tensor."""
    return [f for t in trials for launch in t.evidence.launches for f in launch.footprints]


def labels(arguments: dict[str, Any]) -> set[str]:
    """Names of the tensors among a call's arguments."""
    return {label for _, label, _ in tensors_of(0, arguments)}


def is_result(tensor: str) -> bool:
    """Return whether a tensor's name in a trace, "out" or "out[1]", is that of a result."""
    return tensor.partition("[")[0] == "out"


def moved_bytes(trial: Trial) -> int:
    """Count the bytes that a trial's launches read and write, each as often as it is moved."""
    return sum(f.read_bytes + f.written_bytes for f in footprints([trial]))


MIN_PROGRAMS = 32
"""Programs that keep a GPU busy where a case is large enough: most of a T4's 40 SMs, a quarter of an H200's 132."""

BYTES_OF_A_PROGRAM = 1 << 16
"""What an honest program may take of a task, read and written: 8 rows of 1024 floats. A case that has fewer such parts than the
programs that are asked for asks for no more than it has."""

FEW_PROGRAMS = 8
"""Programs that even a small case asks for, where a criterion asks for as many."""


def effective_programs(trial: Trial) -> int:
    """Count the programs that do a fair share: the bytes that a call needs, divided by half of what the busiest program moves.

    The need counts each byte of an argument or a result once, so that bytes which are moved again, or through buffers, are
    nobody's share. Launches follow one another, so what the busiest program of each moves adds up.
    """
    launches = trial.evidence.launches
    moved = [launch.busiest_bytes for launch in launches]
    programs = max(
        la.programs for la in launches if 20 * la.busiest_bytes >= max(moved)
    )  # a launch for show does not count
    return min(programs, 2 * sum(_needed_bytes(trial)) // max(1, sum(moved)))


def _needed_bytes(trial: Trial) -> list[int]:
    """Bytes of each argument that is read, and of each result: each byte once."""
    inputs, needed = labels(trial.inputs[-1]), {}
    for f in footprints([trial]):
        once = f.read_distinct_bytes if f.tensor in inputs else f.written_distinct_bytes * is_result(f.tensor)
        needed[f.tensor] = min(f.nbytes, needed.get(f.tensor, 0) + once)
    return list(needed.values())


class ParallelWork(CostCriterion):
    """Base of criteria on what kernels save while many programs share the work: one program that does everything saves much, and leaves a
    GPU idle. programs: how many must be at work in the largest case of the group."""

    programs: int

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        found = super().judge(exercise, trials)
        group = [t for t in of_group(trials, self.group) if t.evidence.launches]
        if not found.passed or not group:
            return found
        largest = max(group, key=lambda t: sum(_needed_bytes(t)))
        asked = min(self.programs, max(FEW_PROGRAMS, sum(_needed_bytes(largest)) // BYTES_OF_A_PROGRAM))
        programs = max(map(effective_programs, group))
        if programs >= asked:
            return found
        few = self.lost(
            say("criteria.programs.work_of", programs=programs),
            expected=say("criteria.programs.share", programs=asked, case=largest.case.name),
            detail=_one_by_one(largest.evidence.launches) or _of_copies(largest, asked) or say("criteria.programs.cut"),
        )
        title = say("criteria.programs.title", programs=asked)
        return replace(few, title=title, missed=say("criteria.programs.missed"))


def _one_by_one(launches: Sequence[Launch]) -> str:
    """Say so if a kernel is launched again and again for parts of the same tensors that do not need one another."""
    alike: dict[str, list[Launch]] = {}
    for launch in launches:
        alike.setdefault(launch.kernel, []).append(launch)
    kernel, most = max(alike.items(), key=lambda item: len(item[1]))
    if len(most) == 1 or passed_on(most) or len({frozenset(f.tensor for f in one.footprints) for one in most}) > 1:
        return ""
    return say("criteria.programs.one_by_one", kernel=kernel, launches=len(most))


def _of_copies(trial: Trial, asked: int) -> str:
    """Say so if enough programs share the bytes evenly, and most of these are none of the arguments'."""
    launches, inputs = trial.evidence.launches, labels(trial.inputs[-1])
    total = sum(launch.programs * launch.busiest_bytes for launch in launches)
    if min(launch.programs for launch in launches) < asked or total > 2 * moved_bytes(trial):
        return ""
    of_arguments = sum(f.read_bytes for f in footprints([trial]) if f.tensor in inputs)
    copied = sum(f.read_bytes for f in footprints([trial]) if f.tensor not in inputs and not is_result(f.tensor))
    return say("criteria.programs.copies") if copied > of_arguments else ""


def passed_on(launches: Sequence[Launch]) -> bool:
    """Whether one of these launches reads what another one wrote before it."""
    written: set[str] = set()
    for launch in launches:
        if any(f.read_bytes and f.tensor in written for f in launch.footprints):
            return True
        written |= {f.tensor for f in launch.footprints if f.written_bytes}
    return False


@dataclass
class Programs(CostCriterion):
    """Criterion: enough programs keep a GPU's SMs busy, and no small part of them does all the work: see `effective_programs`."""

    missed = say("criteria.programs.missed")
    programs: int
    points: float
    group: str = "tall"

    @property
    def title(self) -> str:
        return say("criteria.programs.title", programs=self.programs)

    def count(self, group: Sequence[Trial]) -> Finding:
        fewest = min(map(effective_programs, group))
        seen = say("criteria.programs.count", programs=fewest)
        if fewest >= self.programs:
            return self.earned(seen)
        return self.lost(seen, detail=say("criteria.programs.parts"))


@dataclass
class Launches(ParallelWork):
    """Criterion: a call makes at most `at_most` kernel launches. phase 0 or 1: in its forward or its backward half alone. programs: those
    that share the work of the whole call."""

    missed = say("criteria.launches.missed")
    at_most: int
    points: float
    group: str = "performance"
    phase: int | None = None
    programs: int = 0

    @property
    def key(self) -> str:
        return super().key + {None: "", 0: ".forward", 1: ".backward"}[self.phase]

    @property
    def title(self) -> str:
        half = {None: "", 0: "_forward", 1: "_backward"}[self.phase]
        return say(f"criteria.launches.title{half}", launches=self.at_most)

    def count(self, group: Sequence[Trial]) -> Finding:
        names: list[str] = []
        for trial in group:
            own = [la.kernel for la in trial.evidence.launches if self.phase in (None, la.phase)]
            names = max(names, own, key=len)
        seen = say("criteria.launches.count", launches=len(names))
        if 0 < len(names) <= self.at_most:
            return self.earned(seen)
        return self.lost(seen, detail=_in_a_row(names) if names else "")


def _in_a_row(names: Sequence[str]) -> str:
    """Name kernels in the order of their launches, the first eight that differ from the one before: "`a`, `b` 7 times"."""
    runs = [(name, len([*same])) for name, same in groupby(names)]
    shown = [
        f"`{name}`" if count == 1 else say("criteria.launches.often", kernel=name, count=count)
        for name, count in runs[:8]
    ]
    more = [say("criteria.launches.more", count=sum(count for _, count in runs[8:]))] if len(runs) > 8 else []
    return say("criteria.launches.in_order", kernels=shown, more=more)


@dataclass
class DotFlops(CostCriterion):
    """Criterion: tl.dot does all the products that it must, and none that the exercise leaves to other operations.

    at_most    the arguments of a call -> FLOPs, 2 M N K for a product
    at_least   likewise, of all launches; or of those of the forward and of the backward half
    """

    missed = say("criteria.products.missed")
    at_most: Callable[..., float]
    at_least: Callable[..., float | Sequence[float]]
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        done = allowed = 0.0
        for trial in group:
            launches = trial.evidence.launches
            halves = say("criteria.products.forward"), say("criteria.products.backward")
            done, allowed = sum(launch.flops.dot for launch in launches), self.at_most(**trial.inputs[-1])
            if done > allowed:
                expected = say("criteria.products.at_most", flops=allowed, case=trial.case.name)
                return self.lost(say("criteria.products.done", flops=done, half=""), expected=expected)
            least = self.at_least(**trial.inputs[-1])
            parts: list[tuple[Sequence[Launch], float, str]]
            if isinstance(least, Sequence):
                parts = [([x for x in launches if x.phase == i], least[i], half) for i, half in enumerate(halves)]
            else:
                parts = [(launches, least, "")]
            for some, needed, half in parts:
                own = sum(launch.flops.dot for launch in some)
                if some and own < needed:  # a half without a launch is torch's, and other criteria say so
                    expected = say("criteria.products.at_least", flops=needed, half=half, case=trial.case.name)
                    seen = say("criteria.products.done", flops=own, half=half)
                    return self.lost(seen, expected=expected, detail=say("criteria.products.written_out"))
        return self.earned(say("criteria.products.allowed", flops=done, allowed=allowed))


@dataclass
class NoAtomics(CostCriterion):
    """Criterion: no sum is added up by atomics, in an order that changes from run to run."""

    missed = say("criteria.atomics.missed")
    about = "result"
    points: float
    group: str = "performance"
    title: str = say("criteria.atomics.title")

    def count(self, group: Sequence[Trial]) -> Finding:
        found = [a for t in group for launch in t.evidence.launches for a in launch.accesses if a.op == "atomic"]
        lines = dict.fromkeys(say("criteria.traffic.line", line=a.line, source=a.source) for a in found)
        return (
            self.lost(say("criteria.atomics.lines", lines=[*lines]))
            if lines
            else self.earned(say("criteria.atomics.none"))
        )
