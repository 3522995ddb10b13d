"""Criteria of unit 10, and what a backward pass may cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria.copies import copied_inputs
from course_lib.criteria.costs import CostCriterion
from course_lib.criteria.memory import kept_tensors
from course_lib.evidence import Evidence
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from course_lib.exercises.attention.criteria import PRODUCTS
from course_lib.exercises.attention.oracles import seen
from course_lib.exercises.flash.criteria import WIDE, heads_of, pairs
from tritontrace.results import Cause


def products(times: int, side: int = WIDE) -> Callable[..., int]:
    """Make a function that counts the FLOPs of `times` products of each visible tile of side x side."""
    return lambda q, k, causal=False, **_: (
        2 * times * q.shape[-1] * heads_of(q) * pairs(q.shape[-2], k.shape[-2], causal, side=side)
    )


def of_pairs(*times: int) -> Callable[..., Sequence[int]]:
    """Make a function that counts the FLOPs of products of each query with each key that it sees: times[0] of them in the forward half,
    times[1] in the backward half."""
    return lambda **given: [products(count, side=1)(**given) for count in times]


def scores_bytes(q: torch.Tensor, k: torch.Tensor, **_: Any) -> int:
    """Count half a byte for each score."""
    return heads_of(q) * q.shape[-2] * k.shape[-2] // 2


NOTHING_KEPT = say("flash_backward.keeps_one_number_a_row.nothing_kept")


@dataclass
class KeepsOneNumberARow(CostCriterion):
    """Criterion: backward uses the inputs, o, and one more tensor: a float32 for each query."""

    missed = say("criteria.saves.missed")
    points: float
    title: str = say("flash_backward.keeps_one_number_a_row.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        allowed = 0
        for trial in group:
            evidence, arguments = trial.evidence, trial.inputs[-1]
            if evidence.saved is None or 0 not in evidence.ready:
                return self.lost(say("criteria.saves.no_forward"))
            own = [s for s in evidence.saved if s.tensor not in arguments]
            rows = [s for s in own if s.tensor != "out[0]"]
            allowed = 4 * math.prod(arguments["q"].shape[:-1])
            if len(rows) != 1 or rows[0].nbytes != allowed:
                expected = say("flash_backward.keeps_one_number_a_row.one_more", bytes=allowed, case=trial.case.name)
                detail = (
                    say("flash_backward.keeps_one_number_a_row.reads", tensors=kept_tensors(rows))
                    if rows
                    else NOTHING_KEPT
                )
                return self.lost(
                    say("flash_backward.keeps_one_number_a_row.besides", tensors=len(rows)),
                    expected=expected,
                    detail=detail,
                )
        return self.earned(say("flash_backward.keeps_one_number_a_row.kept", bytes=allowed))


@dataclass
class KernelsAlone(CostCriterion):
    """Gate: torch only allocates and makes views, in both halves, and no kernel copies an input."""

    missed = say("flash_backward.kernels_alone.missed")
    points: float
    title: str = say("flash_backward.kernels_alone.title")
    group: str = "strided"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            if trial.evidence.operations:
                done = [*dict.fromkeys(op.name for op in trial.evidence.operations)]
                detail = say("flash_backward.kernels_alone.hand_over")
                return self.lost(
                    say("flash_backward.kernels_alone.torch_does", operations=done),
                    expected=say("flash_backward.kernels_alone.expected", case=trial.case.name),
                    detail=detail,
                )
            _kernel, copies = copied_inputs(trial)
            if copies:
                return self.lost(copies, expected=say("flash_backward.kernels_alone.no_copies", case=trial.case.name))
        return self.earned(say("flash_backward.kernels_alone.holds"))


@dataclass
class KernelsMadeTheGradients(Criterion):
    """Gate: kernels of the backward half write dq, dk and dv, and do five products of what is seen; torch does no more products than a slow
    forward pass takes."""

    missed = say("flash_backward.kernels_made_the_gradients.missed")
    points: float = 0.0
    title: str = say("flash_backward.kernels_made_the_gradients.title")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in trials:
            if seen := self._problem(exercise, trial):
                # an error says nothing of what kernels wrote
                expected = "" if trial.evidence.error else say("flash_backward.kernels_made_the_gradients.expected")
                return self.lost(seen, expected=expected, cause=trial.evidence.cause or self._why(trial.evidence))
        return self.earned(
            say("flash_backward.kernels_made_the_gradients.written"),
            expected=say("flash_backward.kernels_made_the_gradients.expected"),
        )

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
            return say("criteria.result.blank", entry=exercise.entry, blank=exercise.blank)
        if evidence.saved is None or len(evidence.outputs[-1]) != 4:
            return say("flash_backward.kernels_made_the_gradients.too_little", entry=exercise.entry)
        launches = [launch for launch in evidence.launches if launch.phase == 1]
        written = {f.tensor for launch in launches for f in launch.footprints if f.written_bytes}
        missing = [name for i, name in enumerate(("dq", "dk", "dv"), 1) if f"out[{i}]" not in written]
        if missing:
            return say("flash_backward.kernels_made_the_gradients.not_written", gradients=[*missing])
        arguments = trial.inputs[-1]
        applications = 3 if "between" in arguments else 1  # others before and after this one
        if sum(op.name in PRODUCTS for op in evidence.operations) > 2 * applications:
            return say("flash_backward.kernels_made_the_gradients.torch_multiplies")
        q, k = arguments["q"], arguments["k"]
        least = 10 * q.shape[-1] * heads_of(q) * int(seen(q.shape[-2], k.shape[-2], arguments["causal"]).sum())
        if trial.case.group == "performance" and sum(launch.flops.dot for launch in launches) < least:
            return say("flash_backward.kernels_made_the_gradients.few_products")
        return ""
