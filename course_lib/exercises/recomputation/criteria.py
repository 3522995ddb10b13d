"""The criteria of unit 07."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.criteria import Judged, OnceRight, Speed
from course_lib.exercise import Case, Exercise, Finding, Trial
from course_lib.mistakes import Mistake, raised


def against_copy(name: str, draw: Callable, needed: Callable, full: float) -> Speed:
    """Extra credit: full at that share of the speed of a device copy of the needed bytes."""
    return Speed("copy", Case(name, "speed", draw), needed, full=full, none=full - 0.3, points=2)


@dataclass
class KeepsNothing(OnceRight):
    """Backward reads nothing that the forward half had: no buffer, no output, and no input either."""

    points: float
    title: str = "keeps nothing, not even x"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            saved = trial.evidence.saved
            if saved is None or 0 not in trial.evidence.ready:
                return self.lost("no forward half that ends with its result")
            if saved:
                return self.lost(", ".join(f"backward reads `{s.tensor}`: {s.nbytes:,} bytes" for s in saved))
        return self.earned("backward reads nothing of forward's")


def saved_something(sentence: str) -> Mistake:
    """`sentence`, if backward used a buffer of the forward half."""
    return lambda trials: (
        sentence if any(s.tensor.startswith("buffer") for t in trials for s in t.evidence.saved or ()) else ""
    )


FLOAT32 = raised(
    "Expected dtype ['fp32', 'fp64']",
    "tl.exp, tl.erf and tl.sigmoid take float32: put .to(tl.float32) behind each load.",
)


GRADIENTS = raised(
    "returned an incorrect number of gradients",
    "backward returns a tuple with one value for each argument of forward, None where there is no gradient; a list counts "
    "as one value.",
)


def saved_nothing(trials: Sequence[Trial]) -> str:
    errors = [t.evidence.error for t in trials]
    empty = any("not enough values to unpack" in e and "got 0)" in e and "saved_tensors" in e for e in errors)
    return (
        "Forward has saved nothing: ctx.save_for_backward(...) is what ctx.saved_tensors gives back." if empty else ""
    )


def nan_if_hard(exercise: Callable[[], Exercise], sentence: str) -> Mistake:
    """`sentence`, if hard inputs come out as NaN, and ragged ones right: what is not stored shows as NaN there, too."""

    def has_nan(output: Any) -> bool:
        parts = output if isinstance(output, list) else [output]
        return any(isinstance(part, torch.Tensor) and bool(part.isnan().any()) for part in parts)

    def look(trials: Sequence[Trial]) -> str:
        hard = any(t.case.group == "hard" and any(map(has_nan, t.evidence.outputs)) for t in trials)
        ragged = [Judged.of(exercise(), t) for t in trials if t.case.group == "ragged"]
        return sentence if hard and ragged and not any(t.difference for t in ragged) else ""

    return look


def several_launches(sentence: str) -> Mistake:
    """`sentence`, if a call of a performance case launches more than one kernel a half."""
    return lambda trials: (
        sentence if any(len(t.evidence.launches) > 2 for t in trials if t.case.group == "performance") else ""
    )
