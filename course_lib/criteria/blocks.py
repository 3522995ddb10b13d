"""Blocks that are smaller than a warp: the reflex of whoever knows CUDA, who takes a program for a thread."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.exercise import Trial
from tritontrace.results import Access, Cause

WARP = 32
SMALL_BLOCKS = "blocks smaller than a warp"
ENOUGH_BYTES = 4096  # moved in a case, from which on it matters how
NEARLY_ALL = 0.98
FEW = 4  # lanes that have work: with fewer, the others are there for show


def small_blocks(trial: Trial) -> Cause | None:
    """Return the cause if nearly all bytes of a case are moved in blocks with fewer elements than a warp has threads, else None."""
    ran = [a for launch in trial.evidence.launches for a in launch.accesses if a.instructions]
    moved = sum(a.bytes for a in ran)
    small = [a for a in ran if _block(a) < WARP]
    if moved < ENOUGH_BYTES or sum(a.bytes for a in small) < NEARLY_ALL * moved:
        return None
    widest = max(_block(a) for a in small if a.bytes > (1 - NEARLY_ALL) * moved / len(small))
    for_show = {"masked": "nearly all"} if any(_whole(a) >= WARP for a in small) else {}
    return Cause("waste", SMALL_BLOCKS, {"elements": str(widest)} | for_show)


def _block(access: Access) -> int:
    """Elements of the block that an access moves at once, those that are masked included; without these, if nearly all are."""
    moved, block = access.elements // access.instructions, _whole(access)
    return moved if moved < FEW and block >= WARP else block


def _whole(access: Access) -> int:
    return (access.elements + access.masked) // access.instructions


def in_words(cause: Cause) -> str:
    """Return the message on such small blocks: what they cost on a GPU, and what to do."""
    elements = int(cause.details["elements"])
    return say(f"criteria.blocks.{'masked' if 'masked' in cause.details else 'small'}", elements=elements)
