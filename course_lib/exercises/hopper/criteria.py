"""Criteria of unit 12."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from course_lib.criteria import OnceRight, accesses
from course_lib.exercise import Finding, Trial


@dataclass
class ByDescriptors(OnceRight):
    """Kernels move everything as tiles of tensor descriptors: on Hopper TMA does it, and no thread computes an address."""

    missed = "addresses by hand"
    points: float
    title: str = "all tiles by descriptors"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        found = [access for op in ("load", "store", "atomic") for access in accesses(group, op)]
        by_hand = {f"line {a.line} `{a.source}`": None for a in found if a.described_bytes < a.bytes}
        moved = sum(a.bytes for a in found)
        if not by_hand:
            return self.earned(f"{moved:,} bytes, all by descriptors")
        return self.lost(
            f"addresses computed in {'; '.join(by_hand)}", expected="loads and stores of descriptors alone"
        )
