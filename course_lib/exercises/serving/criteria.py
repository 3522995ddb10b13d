"""Criteria of what torch's operations move, besides kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from course_lib.criteria.results import CostCriterion
from course_lib.exercise import Finding, Spent, Trial
from tritontrace.results import Operation
from tritontrace.words import number, plural


def moved_by(operation: Operation) -> int:
    """Bytes that an operation of torch reads and writes. One that writes in place moves its last argument, as cache[:, :, i] = k does."""
    itemsize = getattr(torch, operation.dtypes[0]).itemsize if operation.dtypes else 0
    if operation.name.endswith("_"):
        return 2 * itemsize * math.prod(operation.shapes[-1])
    return itemsize * sum(map(math.prod, [*operation.shapes, operation.result]))


@dataclass
class Moves(CostCriterion):
    """torch and kernels together move no more bytes than a limit. at_most: the arguments of a call -> bytes."""

    missed = "bytes moved that could stay where they are"
    at_most: Callable[..., float]
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        moved = allowed = 0.0
        for trial in group:
            operations, launches = trial.evidence.operations, trial.evidence.launches
            footprints = [f for launch in launches for f in launch.footprints]
            moved, allowed = sum(map(moved_by, operations)), self.at_most(**trial.inputs[-1])
            moved += sum(f.read_bytes + f.written_bytes for f in footprints)
            if moved > allowed:
                largest = max(operations, key=moved_by, default=None)
                detail = f"torch does {largest.name}, which moves {number(moved_by(largest))} bytes" if largest else ""
                spent = Spent("bytes", "moved", allowed, moved, allowed)
                expected = f"at most {number(allowed)} on {trial.case.name}"
                return self.lost(f"{number(moved)} bytes moved", expected=expected, detail=detail, spent=spent)
        return self.earned(f"{number(moved)} bytes moved, {number(allowed)} allowed")


@dataclass
class ReadTogether(CostCriterion):
    """The launch that moves most is shared by enough programs: it moves that many halves of what its busiest program does."""

    missed = "too few programs"
    programs: int
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        fewest = min(map(self._at_work, group))
        seen = plural(fewest, "program")
        if fewest >= self.programs:
            return self.earned(seen)
        detail = "A program runs on one SM, and a GPU has about a hundred. Cut the keys into shares, and give each share to a program."
        return self.lost(seen, expected=f"at least {self.programs} programs that share the reading", detail=detail)

    @staticmethod
    def _at_work(trial: Trial) -> int:
        moved = {
            i: sum(f.read_bytes + f.written_bytes for f in launch.footprints)
            for i, launch in enumerate(trial.evidence.launches)
        }
        if not moved:
            return 0
        most = max(moved, key=lambda i: moved[i])
        launch = trial.evidence.launches[most]
        return min(launch.programs, 2 * moved[most] // max(1, launch.busiest_bytes))
