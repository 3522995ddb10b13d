"""The criterion for speed on a GPU, which gives only extra credit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.catalogue import say
from course_lib.exercise import Case, Exercise, Finding, TimedCriterion, Trial


@dataclass
class Speed(TimedCriterion):
    """Criterion for extra credit, on a GPU: a ramp between two speed ratios to a baseline that is timed in the same run.

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
    advice: str = say("criteria.speed.advice")

    @property
    def title(self) -> str:
        return say("criteria.speed.title", vs=self.vs)

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        timing = next(t.evidence.timing for t in trials if t.evidence.timing)
        if timing.by_machine:
            return Finding(self.title, 0, self.points, "not_measured", seen=timing.problem)
        if timing.problem:
            return self.lost(timing.problem)
        own = {"ratio": timing.ratio, "spread": timing.spread, "gpu": timing.gpu, "microseconds": timing.microseconds}
        share = min(1.0, max(0.0, (timing.ratio - self.none) / (self.full - self.none)))
        return Finding(
            self.title,
            round(self.points * share, 2),
            self.points,
            "passed" if share == 1.0 else "failed",
            expected=say("criteria.speed.asked", full=self.full, none=self.none),
            seen=say("criteria.speed.measured", case=timing.case, **own),
            detail="" if share == 1.0 else self.advice,
        )
