"""Remarks of units 13 and 14: what a hazard teaches, whichever exercise it comes from."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.catalogue import say
from course_lib.exercise import MistakeMatcher, Trial
from tritontrace.hopper import Kind

LESSONS = {
    Kind.NO_EXPECT: "A barrier waits for bytes only after it was told how many will come. Put expect before the copy.",
    Kind.BYTES: (
        "A barrier opens when exactly the expected bytes have come, so some copy must name it. TMA delivers whole tiles, with zeros "
        "outside of the tensor, and the bytes of every copy that names this barrier count."
    ),
    Kind.READ_EARLY: (say("sm.async_column_sum.commits_with_copies_alone")),
    Kind.OVERWRITTEN: (say("sm.async_column_sum.started_before_the_place_is_free")),
    Kind.PHASE: (
        "A wait names the parity of the phase that it waits for: 0 for a barrier's first phase, 1 for its second. So the parity flips each "
        "time that this barrier is used again: with each step if one barrier serves all steps, and once a round if each slot of a ring "
        "has its own."
    ),
    Kind.STORE: (
        "A TMA store reads its tile after the instruction has returned. Until store_wait(0) the kernel must not write the tile, and must "
        "not end."
    ),
    Kind.DEADLOCK: (
        "Everybody waits for somebody here. Write down for each barrier how many arrivals a phase needs, and who makes them; an arrive is "
        "one, however many threads run it. Then compare the parity of each wait with the phases that are over. Before the first phase is "
        "over, a wait for parity 1 passes, and a wait for parity 0 does not. So in a ring a wait for a free slot begins with parity 1, a "
        "wait for a tile with parity 0, and both flip once a round."
    ),
    Kind.FENCE: (
        "Threads write shared memory in one way, and TMA and tensor cores read it in another way. Put fence_async_shared() between the "
        "two."
    ),
    Kind.ACCUMULATOR: (
        "A product is still under way when mma(..., is_async=True) returns, and mma_wait(n) lets the n newest products run on. So a result "
        "is there after mma_wait(0), or after a mma_wait(n) before which n newer products were issued. Only then are the tiles that its "
        "product reads free again."
    ),
    Kind.ARRIVALS: (
        "More arrivals came to a barrier in one phase than it counts. Either two places arrive and only one is counted, or a partition "
        "did not wait for its turn."
    ),
    Kind.LOAD: (
        "The kernel ends while a copy is under way, which then writes memory that is no longer the kernel's. Should somebody read its "
        "tile? Then wait for the copy before that. If not, do not begin it."
    ),
    Kind.PRODUCT: (
        "The kernel ends while a product is under way. Call mma_wait(0, deps=[acc]) before its result is used, and before the end."
    ),
    Kind.UNUSED: "A barrier in shared memory is more than eight bytes: the GPU may write it back. Make only those that somebody uses.",
    Kind.STANDS: (
        "While a barrier stands somewhere in shared memory, nothing else may lie there, not even another barrier. mbarrier.invalidate "
        "removes it."
    ),
    Kind.TWO_WRITES: (
        "Two copies write one buffer, and nothing decides which comes first. Wait for one of them before you begin the other, or leave one "
        "out."
    ),
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
