"""Criteria of unit 12."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.criteria import OnceRight
from course_lib.exercise import Exercise, Finding, Trial


@dataclass
class Copied(OnceRight):
    """The compiler makes these copies of the kernels: "TMA load", "TMA store" or "cp.async", for the newest GPU that it was asked for."""

    missed = "copied in another way"
    by: frozenset[str]
    points: float
    title: str
    group: str = "performance"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        found = super().judge(exercise, trials)
        facts = [fact for trial in trials for fact in trial.evidence.compiled if fact.to_the_end and fact.accepted]
        if not found.passed or not facts:
            return self.left_open("not compiled in time on this machine") if found.passed else found
        copies = sorted({copy for fact in facts for copy in fact.copies})
        if self.by <= set(copies):
            return self.earned(", ".join(sorted(self.by)))
        seen = f"for {facts[-1].gpu} the compiler makes {', '.join(copies) or 'loads and stores of threads'}"
        return self.lost(seen, expected=" and ".join(sorted(self.by)))

    def count(self, group: Sequence[Trial]) -> Finding:
        return self.earned("right")
