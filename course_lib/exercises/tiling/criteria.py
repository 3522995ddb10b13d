"""The criterion of unit 05."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.criteria import OnceRight
from course_lib.exercise import Finding, Trial


@dataclass
class Counted(OnceRight):
    """Torch did certain operations so often. names: aten names; times: the arguments of a call -> how often."""

    names: frozenset[str]
    times: Callable[..., int]
    points: float
    title: str
    what: str  # in the plural
    group: str = "plain"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            expected = self.times(**trial.inputs[-1])
            seen = sum(name in self.names for name in trial.evidence.operations)
            if seen != expected:
                return self.lost(f"{seen} {self.what}", expected=f"{expected} {self.what} on {trial.case.name}")
        return self.earned(f"{seen} {self.what}")
