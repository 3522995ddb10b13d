"""Criteria of unit 12."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.criteria import OnceRight
from course_lib.exercise import Finding, Trial
from course_lib.words import in_words


@dataclass
class Copied(OnceRight):
    """The compiler makes these copies of the kernels: "TMA load", "TMA store" or "cp.async", for the newest GPU that it was asked for."""

    missed = "copied in another way"
    by: frozenset[str]
    points: float
    title: str
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        facts = [fact for trial in group for fact in trial.evidence.compiled if fact.to_the_end and fact.accepted]
        if not facts:
            return self.left_open("not compiled in time on this machine")
        found = {copy for fact in facts for copy in fact.copies}
        if self.by <= found:
            return self.earned(", ".join(sorted(self.by)))
        seen = f"{', '.join(sorted(found)) or 'loads and stores of threads'}"
        return self.lost(seen, expected=in_words(", ".join(sorted(self.by))).strip("'"))
