"""The criteria of unit 07."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.catalogue import say
from course_lib.criteria import CostCriterion
from course_lib.exercise import Finding, Trial


@dataclass
class KeepsNothing(CostCriterion):
    """Criterion: backward reads nothing of the forward half: no buffer, no output, and no input."""

    missed = say("criteria.saves.missed")
    points: float
    title: str = say("recomputation.keeps_nothing.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            saved = trial.evidence.saved
            if saved is None or 0 not in trial.evidence.ready:
                return self.lost(say("criteria.saves.no_forward"))
            if saved:
                reads = [say("recomputation.keeps_nothing.tensor", tensor=s.tensor, bytes=s.nbytes) for s in saved]
                return self.lost(say("recomputation.keeps_nothing.reads", tensors=reads))
        return self.earned(say("recomputation.keeps_nothing.nothing"))
