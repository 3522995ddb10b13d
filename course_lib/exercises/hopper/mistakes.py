"""Remarks of unit 12: what a hazard teaches, whichever exercise it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.exercise import Mistake, Trial
from course_lib.hopper.faults import Kind

LESSONS = {
    Kind.NO_EXPECT: "A barrier waits for bytes only after somebody has said how many will come: expect stands before the copy.",
    Kind.BYTES: "A barrier opens when exactly the expected bytes have come. TMA delivers whole tiles, zeros outside of the tensor "
    "included, and each copy to the barrier counts.",
    Kind.READ_EARLY: "A copy that has begun has not yet come. Read its tile behind a wait: for the barrier that the copy tells, or for "
    "the group that it is in.",
    Kind.OVERWRITTEN: "A tile may be filled again only when all who read it are done, and whoever fills it knows that: by a barrier, or "
    "by its own wait.",
    Kind.PHASE: "A wait names the parity of the phase that it waits for: 0 for a barrier's first phase, 1 for its second. For a "
    "slot of a ring it flips each time the ring goes round, and not with each tile.",
    Kind.STORE: "A TMA store reads its tile after the instruction has returned. Until store_wait(0) the tile is not the kernel's, and "
    "the kernel may not end.",
    Kind.DEADLOCK: "Everybody waits for somebody here. Compare, for each barrier that is named, the arrivals that a phase wants with those "
    "that come: an arrive is one, whatever the number of threads that run it.",
    Kind.FENCE: "Threads write shared memory one way, TMA and tensor cores read it another way. fence_async_shared() stands between.",
    Kind.ACCUMULATOR: "A product is under way when mma(..., is_async=True) returns. Its result is there after mma_wait, which returns it.",
    Kind.ARRIVALS: "A barrier was arrived at more often than it counts in one phase. Either two places arrive where one is counted, or "
    "somebody did not wait for its turn.",
    Kind.LOAD: "The kernel ends while a copy is under way, into memory that is no longer its own.",
    Kind.PRODUCT: "The kernel ends while a product is under way: mma_wait(0, deps=[acc]) before its result is used, and before the end.",
    Kind.UNUSED: "A barrier in shared memory is more than eight bytes: the GPU may write it back. Make only those that somebody uses.",
    Kind.STANDS: "Where a barrier stands, nothing else may lie, no other barrier either: mbarrier.invalidate takes it away.",
    Kind.TWO_WRITES: "Two copies write one buffer, and nothing says which comes first.",
}
"""The kind of a hazard -> one sentence or two that teach."""

_BY_NAME = {kind.value: sentence for kind, sentence in LESSONS.items()}


def lesson(trials: Sequence[Trial]) -> str:
    """Say what the first hazard teaches."""
    kinds = [hazard.kind for trial in trials for hazard in trial.evidence.hazards[:1]]
    return next((_BY_NAME[kind] for kind in kinds if kind in _BY_NAME), "")


def meets(kind: str, sentence: str) -> Mistake:
    """Say `sentence` if the first mistake that an order brings to light is of that kind."""

    def look(trials: Sequence[Trial]) -> str:
        first = next((trial.evidence.hazards[0] for trial in trials if trial.evidence.hazards), None)
        return sentence if first and first.kind == kind else ""

    return look
