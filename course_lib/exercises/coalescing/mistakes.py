"""What goes wrong with access patterns, and how to tell by the results."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_lib.criteria import (
    accesses,
)
from course_lib.exercise import Trial
from course_lib.mistakes import Mistake


def wasteful(op: str, sentence: str, times: float = 4.0) -> Mistake:
    """`sentence`, if the loads (or stores) touch that many times the sectors that they need."""

    def look(trials: Sequence[Trial]) -> str:
        found = accesses([t for t in trials if t.case.group == "performance"], op)
        return sentence if sum(a.sectors for a in found) * 32 >= times * sum(a.useful_bytes for a in found) > 0 else ""

    return look


def the_last_rows_alone(trials: Sequence[Trial]) -> str:
    """A sentence, if every sum is that of the last rows of x, and not of all of them."""
    left_out = []
    for t in trials:
        for arguments, output in zip(t.inputs, t.evidence.outputs, strict=False):
            x = arguments["x"].double()
            if not isinstance(output, torch.Tensor) or output.shape != x.shape[1:]:
                return ""
            sums = x.flip(0).cumsum(0)  # of the last row, the last two, ...
            alike = ((sums - output.double()).abs() <= 1e-3 * (1 + sums.abs())).all(1)
            if not alike.any():
                return ""
            left_out.append(not alike[-1])
    return "This is the sum of the last rows alone: `total =` where `total +=` is meant?" if any(left_out) else ""


ONE_ELEMENT = (
    "32 lanes, 32 sectors: neighbouring lanes of this access are not neighbours in memory. Which axis has stride 1?"
)
