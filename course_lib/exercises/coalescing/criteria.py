"""The criterion of unit 04."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_lib.criteria import Correct
from course_lib.exercise import Exercise, Finding, Trial


@dataclass
class CorrectInFloat32(Correct):
    """As Correct, of a number around 1 that may have been computed in float32."""

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        return super().judge(exercise, [_in_float64(exercise, trial) for trial in trials])


def _in_float64(exercise: Exercise, trial: Trial) -> Trial:
    """The trial, with what is right in float32 as the oracle gives it."""

    def exact(output: Any, expected: float) -> Any:
        close = type(output) is float and math.isclose(output, expected, rel_tol=1e-6)
        return expected if close else output

    pairs = zip(trial.evidence.outputs, trial.inputs, strict=False)
    outputs = [exact(output, exercise.oracle(**arguments)) for output, arguments in pairs]
    return replace(trial, evidence=replace(trial.evidence, outputs=outputs))
