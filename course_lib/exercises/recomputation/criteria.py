"""The criteria of unit 07."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.criteria import CostCriterion
from course_lib.exercise import Finding, Trial


@dataclass
class KeepsNothing(CostCriterion):
    """Backward reads nothing of the forward half: no buffer, no output, and no input."""

    missed = "too much kept for the backward pass"
    points: float
    title: str = "keeps nothing, not even x"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            saved = trial.evidence.saved
            if saved is None or 0 not in trial.evidence.ready:
                return self.lost("no forward half that ends with its result")
            if saved:
                return self.lost(", ".join(f"backward reads `{s.tensor}`: {s.nbytes:,} bytes" for s in saved))
        return self.earned("backward reads nothing of the forward half")
