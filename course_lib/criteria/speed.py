"""The criterion for speed on a GPU, which gives only extra credit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.exercise import Case, Exercise, Finding, TimedCriterion, Trial


@dataclass
class Speed(TimedCriterion):
    """Extra credit, on a GPU: a ramp between two ratios to a baseline that is timed in the same run.

    none, full  the ratios where points begin, and where all are earned
    advice      what to try where full points were missed
    """

    vs: str
    case: Case
    needed: Callable[..., float]
    full: float
    none: float
    points: float = 1.0
    baseline: Callable[..., Callable[[], object]] | None = None
    advice: str = "Try larger blocks, and more warps or fewer: enough loads must be on their way at any time."

    @property
    def title(self) -> str:
        return f"speed against {self.vs} (extra)"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        timing = next(t.evidence.timing for t in trials if t.evidence.timing)
        if timing.by_machine:
            return Finding(self.title, 0, self.points, "not_measured", seen=timing.problem)
        if timing.problem:
            return self.lost(timing.problem)
        share = min(1.0, max(0.0, (timing.ratio - self.none) / (self.full - self.none)))
        return Finding(
            self.title,
            round(self.points * share, 2),
            self.points,
            "passed" if share == 1.0 else "failed",
            expected=f"{self.full:g} of its speed; points begin at {self.none:g}",
            seen=f"{timing.ratio:.2f} ± {timing.spread:.2f} on {timing.gpu}, {timing.case}: {timing.microseconds:,.0f} µs",
            detail="" if share == 1.0 else self.advice,
        )
