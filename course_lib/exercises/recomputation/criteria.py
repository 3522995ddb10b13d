"""The criteria of unit 07."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.criteria import OnceRight, Speed
from course_lib.exercise import Case, Finding, Trial
from course_lib.mistakes import Mistake, raised


def against_copy(name: str, draw: Callable, needed: Callable, full: float) -> Speed:
    """Extra credit: full at that share of the speed of a device copy of the needed bytes."""
    return Speed("copy", Case(name, "speed", draw), needed, full=full, none=full - 0.3, points=2)


@dataclass
class KeepsNothing(OnceRight):
    """Backward uses nothing that the forward half had: no buffer, no output, and no input either."""

    points: float
    title: str = "keeps nothing, not even x"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            saved = trial.evidence.saved
            if saved is None or 0 not in trial.evidence.ready:
                return self.lost("no forward half that ends with its result")
            if saved:
                return self.lost(", ".join(f"backward uses `{s.tensor}`: {s.nbytes:,} bytes" for s in saved))
        return self.earned("nothing is kept")


def saved_something(sentence: str) -> Mistake:
    """`sentence`, if backward used a buffer of the forward half."""
    return lambda trials: (
        sentence if any(s.tensor.startswith("buffer") for t in trials for s in t.evidence.saved or ()) else ""
    )


FLOAT32 = raised(
    "Expected dtype ['fp32', 'fp64']",
    "tl.exp, tl.erf and tl.sigmoid take float32: put .to(tl.float32) behind each load.",
)


def several_launches(sentence: str) -> Mistake:
    """`sentence`, if a call of a performance case launches more than one kernel a half."""
    return lambda trials: (
        sentence if any(len(t.evidence.launches) > 2 for t in trials if t.case.group == "performance") else ""
    )
