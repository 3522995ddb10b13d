"""Criteria of what torch's operations move, besides kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from course_lib.catalogue import say
from course_lib.criteria.costs import CostCriterion
from course_lib.exercise import Finding, Spent, Trial
from tritontrace.results import Operation


def moved_by(operation: Operation) -> int:
    """Count the bytes that a torch operation reads and writes. One that writes in place moves its last argument, as cache[:, :, i] = k
    does."""
    itemsize = getattr(torch, operation.dtypes[0]).itemsize if operation.dtypes else 0
    if operation.name.endswith("_"):
        return 2 * itemsize * math.prod(operation.shapes[-1])
    return itemsize * sum(map(math.prod, [*operation.shapes, operation.result]))


@dataclass
class Moves(CostCriterion):
    """Criterion: torch and kernels together move no more bytes than a limit. at_most: the arguments of a call -> bytes."""

    missed = say("serving.moves.missed")
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
                detail = (
                    say("serving.moves.torch_does", operation=largest.name, bytes=moved_by(largest)) if largest else ""
                )
                spent = Spent(say("criteria.spent.bytes"), say("criteria.spent.moved"), allowed, moved, allowed)
                expected = say("serving.moves.at_most", bytes=allowed, case=trial.case.name)
                return self.lost(say("serving.moves.moved", moved=moved), expected=expected, detail=detail, spent=spent)
        return self.earned(say("serving.moves.allowed", moved=moved, allowed=allowed))


@dataclass
class ReadTogether(CostCriterion):
    """Criterion: the launch that moves most is shared by enough programs: it moves that many times half of its busiest program's bytes."""

    missed = say("criteria.programs.missed")
    programs: int
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        fewest = min(map(self._at_work, group))
        seen = say("criteria.programs.count", programs=fewest)
        if fewest >= self.programs:
            return self.earned(seen)
        detail = say("serving.read_together.cut")
        return self.lost(seen, expected=say("serving.read_together.expected", programs=self.programs), detail=detail)

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
