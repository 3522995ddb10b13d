"""Mistakes in access patterns, and how results reveal them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from course_lib.criteria import (
    accesses,
)
from course_lib.exercise import Budget, Trial
from course_lib.mistakes import Mistake


def wasteful(op: str, sentence: str, times: float = 4.0) -> Mistake:
    """Say `sentence` if the loads (or stores) touch that many times the sectors that they need."""

    def look(trials: Sequence[Trial]) -> str:
        found = accesses([t for t in trials if t.case.group == "performance"], op)
        return sentence if sum(a.sectors for a in found) * 32 >= times * sum(a.useful_bytes for a in found) > 0 else ""

    return look


def the_last_rows_alone(trials: Sequence[Trial]) -> str:
    """Say so if every sum is that of the last rows of x, and not of all of them; what programs overwrite looks alike."""
    if any(t.evidence.faults for t in trials):
        return ""
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


def added_in_float16(budget: Budget) -> Mistake:
    """Say so if every sum of floats is right, and sums of halves are finite and further off than `budget`."""

    def look(trials: Sequence[Trial]) -> str:
        right = {torch.float32: [], torch.float16: []}
        for t in trials:
            for arguments, output in zip(t.inputs, t.evidence.outputs, strict=False):
                x, sums = arguments["x"], arguments["x"].double().sum(0)
                finite = isinstance(output, torch.Tensor) and output.shape == sums.shape and output.isfinite().all()
                if not finite or t.evidence.faults:
                    return ""
                right[x.dtype].append(bool(((output - sums).abs() <= budget(sums, torch.float32, arguments)).all()))
        if not all(right[torch.float32]) or all(right[torch.float16]):
            return ""
        return (
            "Right in float32, and off in float16: is each tile turned into float32 before it is added, and `total` float32 from "
            "the start? In float16, 2048 + 1 is 2048."
        )

    return look


ONE_ELEMENT = (
    "32 lanes, 32 sectors: neighbouring lanes of this access are not neighbours in memory. Which axis has stride 1?"
)
