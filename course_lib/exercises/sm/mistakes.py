"""Remarks of units 13 and 14: what a hazard teaches, whichever exercise it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.exercise import MistakeMatcher, Trial
from tritontrace.hopper import Kind

LESSONS = {
    Kind.NO_EXPECT: "A barrier waits for bytes only after it was told how many will come. Put expect before the copy.",
    Kind.BYTES: (
        "A barrier opens when exactly the expected bytes have come. TMA delivers whole tiles, with zeros outside of the tensor, and the "
        "bytes of every copy that names this barrier count."
    ),
    Kind.READ_EARLY: (
        "A copy that has begun has not yet come. Before you read its tile, wait for the barrier that the copy names, or for the group "
        "that it is in."
    ),
    Kind.OVERWRITTEN: (
        "A tile may be filled again only when all its readers are done, and the partition that fills it must know this, by a barrier or "
        "by its own wait."
    ),
    Kind.PHASE: (
        "A wait names the parity of the phase that it waits for: 0 for a barrier's first phase, 1 for its second. For a slot of a ring, "
        "the parity flips each time the ring goes round, not with each tile."
    ),
    Kind.STORE: (
        "A TMA store reads its tile after the instruction has returned. Until store_wait(0) the kernel must not write the tile, and must "
        "not end."
    ),
    Kind.DEADLOCK: (
        "Everybody waits for somebody here. For each barrier that is named, compare the arrivals that a phase needs with those that come. "
        "Note that an arrive is one, however many threads run it."
    ),
    Kind.FENCE: (
        "Threads write shared memory in one way, and TMA and tensor cores read it in another way. Put fence_async_shared() between the "
        "two."
    ),
    Kind.ACCUMULATOR: (
        "A product is still under way when mma(..., is_async=True) returns. Its result is there after mma_wait, which returns it."
    ),
    Kind.ARRIVALS: (
        "More arrivals came to a barrier in one phase than it counts. Either two places arrive and only one is counted, or a partition "
        "did not wait for its turn."
    ),
    Kind.LOAD: "The kernel ends while a copy is under way, which then writes memory that is no longer the kernel's. Wait for the copy.",
    Kind.PRODUCT: (
        "The kernel ends while a product is under way. Call mma_wait(0, deps=[acc]) before its result is used, and before the end."
    ),
    Kind.UNUSED: "A barrier in shared memory is more than eight bytes: the GPU may write it back. Make only those that somebody uses.",
    Kind.STANDS: (
        "While a barrier stands somewhere in shared memory, nothing else may lie there, not even another barrier. mbarrier.invalidate "
        "removes it."
    ),
    Kind.TWO_WRITES: "Two copies write one buffer, and nothing decides which comes first. Wait for one of them before you begin the other.",
}
"""The kind of a hazard -> one sentence or two that teach."""

_BY_NAME = {kind.value: sentence for kind, sentence in LESSONS.items()}


def lesson(trials: Sequence[Trial]) -> str:
    """Say what the first hazard teaches."""
    kinds = [hazard.kind for trial in trials for hazard in trial.evidence.hazards[:1]]
    return next((_BY_NAME[kind] for kind in kinds if kind in _BY_NAME), "")


def meets(kind: str, sentence: str) -> MistakeMatcher:
    """Say `sentence` if the first mistake that an order brings to light is of that kind."""

    def look(trials: Sequence[Trial]) -> str:
        first = next((trial.evidence.hazards[0] for trial in trials if trial.evidence.hazards), None)
        return sentence if first and first.kind == kind else ""

    return look
