"""The criterion that only a GPU can judge: are the results of the compiled kernels right, too?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.catalogue import say
from course_lib.criteria.results import GradedTrial
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from tritontrace.results import Cause


@dataclass
class RightOnGPU(Criterion):
    """Criterion on Evidence.on_gpu: what the compiled kernels gave on a GPU must be right, like the traced results."""

    missed = say("criteria.gpu.missed")
    points: float = 0
    title: str = say("criteria.gpu.title")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        apart = say("criteria.gpu.right_as_traced")
        runs = [(trial, trial.evidence.on_gpu) for trial in trials if trial.evidence.on_gpu]
        for trial, run in runs:
            if run.error:
                seen = say("criteria.gpu.endless") if run.error == "endless" else run.said
                cause = Cause("stopped", trial.case.name, {"on": "GPU"})
                return self.lost(seen, detail=apart, on=trial.case.name, cause=cause)
        there = [self._there(trial, exercise) for trial in trials]
        for criterion in (*exercise.gates, *exercise.criteria):
            if criterion.about == "cost" or criterion.judge(exercise, trials).lost:
                continue  # what is lost as traced is told there
            finding = criterion.judge(exercise, there)
            if finding.lost:
                return replace(finding, title=self.title, points=0, out_of=0, detail=apart)
        for _, run in runs:
            if run.not_run:
                queue = say("criteria.gpu.queue", checks=run.waiting) if run.waiting else ""
                why = [say(f"criteria.gpu.{run.not_run}"), run.said, queue]
                return self.left_open(say("criteria.gpu.not_run", why=[*filter(None, why)]))
        return self.earned(say("criteria.gpu.cases", cases=len(runs), gpu=runs[0][1].gpu))

    def _there(self, trial: Trial, exercise: Exercise) -> Trial:
        """The trial with the GPU's results, if there are any."""
        run = trial.evidence.on_gpu
        if run is None or run.not_run:
            return trial
        return GradedTrial(trial.case, trial.inputs, replace(trial.evidence, outputs=run.outputs), exercise)
