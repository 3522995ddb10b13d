"""Criteria of unit 10, and what a backward pass may cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.criteria.copies import copied_inputs
from course_lib.criteria.memory import kept_tensors
from course_lib.criteria.results import CostCriterion
from course_lib.evidence import Evidence
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from course_lib.exercises.attention.criteria import PRODUCTS
from course_lib.exercises.attention.oracles import seen
from course_lib.exercises.flash.criteria import WIDE, heads_of, pairs
from tritontrace.results import Cause
from tritontrace.words import plural


def products(times: int, side: int = WIDE) -> Callable[..., int]:
    """Count FLOPs of `times` products of each visible tile of side x side."""
    return lambda q, k, causal=False, **_: (
        2 * times * q.shape[-1] * heads_of(q) * pairs(q.shape[-2], k.shape[-2], causal, side=side)
    )


def of_pairs(*times: int) -> Callable[..., Sequence[int]]:
    """Count FLOPs of products of each query with each key that it sees: times[0] of them in the forward half, times[1]
    in the backward half."""
    return lambda **given: [products(count, side=1)(**given) for count in times]


def scores_bytes(q: torch.Tensor, k: torch.Tensor, **_: Any) -> int:
    """Half a byte for each score."""
    return heads_of(q) * q.shape[-2] * k.shape[-2] // 2


NOTHING_KEPT = (
    "Nothing is kept besides the inputs. Keep o and lse with ctx.save_for_backward: then backward need not run the forward pass "
    "again."
)


@dataclass
class KeepsOneNumberARow(CostCriterion):
    """Backward uses the inputs, o, and one more tensor: a float32 for each query."""

    missed = "too much kept for the backward pass"
    points: float
    title: str = "keeps q, k, v, o and one number for each query"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        allowed = 0
        for trial in group:
            evidence, arguments = trial.evidence, trial.inputs[-1]
            if evidence.saved is None or 0 not in evidence.ready:
                return self.lost("no forward half that ends with its result")
            own = [s for s in evidence.saved if s.tensor not in arguments]
            rows = [s for s in own if s.tensor != "out[0]"]
            allowed = 4 * math.prod(arguments["q"].shape[:-1])
            if len(rows) != 1 or rows[0].nbytes != allowed:
                expected = f"one more tensor, of {allowed:,} bytes, besides the inputs and o on {trial.case.name}"
                detail = f"besides the inputs and o, backward reads {kept_tensors(rows)}" if rows else NOTHING_KEPT
                return self.lost(
                    f"{plural(len(rows), 'tensor')} besides the inputs and o", expected=expected, detail=detail
                )
        return self.earned(f"o, and {allowed:,} bytes")


@dataclass
class KernelsAlone(CostCriterion):
    """torch allocates and makes views, in both halves, and no kernel copies an input."""

    missed = "copies, or operations of torch in between"
    points: float
    title: str = "kernels alone, without copies"
    group: str = "strided"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            if trial.evidence.operations:
                done = ", ".join(dict.fromkeys(op.name for op in trial.evidence.operations))
                detail = "Strides tell a kernel where elements lie: hand each tensor over as it is, and let kernels do the rest."
                return self.lost(f"torch does {done}", expected=f"kernels alone on {trial.case.name}", detail=detail)
            _kernel, copies = copied_inputs(trial)
            if copies:
                return self.lost(copies, expected=f"no copies on {trial.case.name}")
        return self.earned("kernels alone")


@dataclass
class KernelsMadeTheGradients(Criterion):
    """A gate: kernels of the backward half write dq, dk and dv, and do five products of what is seen; torch does no more
    products than a slow forward pass takes."""

    missed = "gradients not computed by Triton kernels"
    points: float = 0.0
    title: str = "gradients computed by your Triton kernels"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in trials:
            if seen := self._problem(exercise, trial):
                # an error says nothing of what kernels wrote
                expected = "" if trial.evidence.error else "kernels of the backward half write dq, dk and dv"
                return self.lost(seen, expected=expected, cause=trial.evidence.cause or self._why(trial.evidence))
        return self.earned("dq, dk and dv", expected="kernels of the backward half write dq, dk and dv")

    @staticmethod
    def _why(evidence: Evidence) -> Cause | None:
        return Cause("blank") if evidence.outputs and evidence.outputs[-1] is None else None

    def _problem(self, exercise: Exercise, trial: Trial) -> str:
        evidence = trial.evidence
        if evidence.refused:
            return evidence.refused
        if evidence.error:
            return evidence.error if not evidence.launches else ""
        if evidence.outputs[-1] is None:
            return f"{exercise.entry} {exercise.blank}"
        if evidence.saved is None or len(evidence.outputs[-1]) != 4:
            return f"{exercise.entry} returns nothing yet, or too little"
        launches = [launch for launch in evidence.launches if launch.phase == 1]
        written = {f.tensor for launch in launches for f in launch.footprints if f.written_bytes}
        missing = [name for i, name in enumerate(("dq", "dk", "dv"), 1) if f"out[{i}]" not in written]
        if missing:
            return f"no kernel of the backward half writes {', '.join(missing)}"
        if sum(op.name in PRODUCTS for op in evidence.operations) > 2:
            return "torch multiplies matrices in the backward half"
        arguments = trial.inputs[-1]
        q, k = arguments["q"], arguments["k"]
        least = 10 * q.shape[-1] * heads_of(q) * int(seen(q.shape[-2], k.shape[-2], arguments["causal"]).sum())
        if trial.case.group == "performance" and sum(launch.flops.dot for launch in launches) < least:
            return "kernels do fewer products than gradients take"
        return ""
