"""The criterion that only a GPU can judge: are the results of the compiled kernels right, too?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.criteria.results import GradedTrial
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from tritontrace.results import Cause
from tritontrace.words import plural

NOT_RUN = {
    "busy": "the GPU was busy, not run",
    "memory": "not run: the GPU has too little free memory",
    "compiler": "not run: it did not compile here",
    "failed": "not run: the GPU failed before a kernel began",
}
ENDLESS = "the kernel does not end on the GPU: what does it wait for?"
APART = "Traced, the same inputs give the right result. Does the kernel rely on an order of its programs or threads?"


@dataclass
class RightOnGPU(Criterion):
    """Results that a GPU gave on the inputs that were traced (Evidence.on_gpu): all that holds of the traced ones holds of them."""

    missed = "wrong on the GPU"
    points: float = 0
    title: str = "right on this GPU"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        runs = [(trial, trial.evidence.on_gpu) for trial in trials if trial.evidence.on_gpu]
        for trial, run in runs:
            if run.error:
                seen = ENDLESS if run.error == "endless" else run.said
                cause = Cause("stopped", trial.case.name, {"on": "GPU"})
                return self.lost(seen, detail=APART, on=trial.case.name, cause=cause)
        there = [self._there(trial, exercise) for trial in trials]
        for criterion in (*exercise.gates, *exercise.criteria):
            if criterion.about == "cost" or criterion.judge(exercise, trials).lost:
                continue  # what is lost as traced is told there
            finding = criterion.judge(exercise, there)
            if finding.lost:
                return replace(finding, title=self.title, points=0, out_of=0, detail=APART)
        for _, run in runs:
            if run.not_run:
                queue = f"{plural(run.waiting, 'other check')} waited, too" if run.waiting else ""
                return self.left_open(": ".join(filter(None, [NOT_RUN[run.not_run], run.said, queue])))
        return self.earned(f"{plural(len(runs), 'case')} on {runs[0][1].gpu}")

    def _there(self, trial: Trial, exercise: Exercise) -> Trial:
        """The trial with the GPU's results, if there are any."""
        run = trial.evidence.on_gpu
        if run is None or run.not_run:
            return trial
        return GradedTrial(trial.case, trial.inputs, replace(trial.evidence, outputs=run.outputs), exercise)
