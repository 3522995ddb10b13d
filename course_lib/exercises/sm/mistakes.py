"""Remarks of units 13 and 14: what a hazard teaches, whichever exercise it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.catalogue import say
from course_lib.exercise import MistakeMatcher, Trial
from tritontrace.hopper import Kind

LESSONS = {
    Kind.NO_EXPECT: say("sm.barriers.expect_first"),
    Kind.BYTES: (say("sm.barriers.other_bytes")),
    Kind.READ_EARLY: (say("sm.async_column_sum.commits_with_copies_alone")),
    Kind.OVERWRITTEN: (say("sm.async_column_sum.started_before_the_place_is_free")),
    Kind.PHASE: (say("sm.barriers.parity")),
    Kind.STORE: (say("sm.barriers.store")),
    Kind.DEADLOCK: (say("sm.barriers.deadlock")),
    Kind.FENCE: (say("sm.barriers.fence")),
    Kind.ACCUMULATOR: (say("sm.barriers.product")),
    Kind.ARRIVALS: (say("sm.barriers.arrivals")),
    Kind.LOAD: (say("sm.barriers.copy_at_the_end")),
    Kind.PRODUCT: (say("sm.barriers.product_at_the_end")),
    Kind.UNUSED: say("sm.barriers.unused"),
    Kind.STANDS: (say("sm.barriers.overwritten")),
    Kind.TWO_WRITES: (say("sm.barriers.two_writes")),
}
"""The kind of a hazard -> one sentence or two that teach."""

_BY_NAME = {kind.value: sentence for kind, sentence in LESSONS.items()}


def lesson(trials: Sequence[Trial]) -> str:
    """Return the remark on the first hazard's kind, or ""."""
    kinds = [hazard.kind for trial in trials for hazard in trial.evidence.hazards[:1]]
    return next((_BY_NAME[kind] for kind in kinds if kind in _BY_NAME), "")


def meets(kind: str, sentence: str) -> MistakeMatcher:
    """Make a matcher that returns `sentence` if the first hazard is of that kind."""

    def look(trials: Sequence[Trial]) -> str:
        first = next((trial.evidence.hazards[0] for trial in trials if trial.evidence.hazards), None)
        return sentence if first and first.kind == kind else ""

    return look
