"""Criteria of unit 05: which products torch did, and what the compiler says of a kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from course_lib.catalogue import say
from course_lib.criteria import CostCriterion
from course_lib.exercise import About, Criterion, Exercise, Finding, Trial
from tritontrace.results import Cause, Compiled, Operation

OperationShape = tuple[int, ...]


@dataclass
class Counted(CostCriterion):
    """Torch did each of these operations as many times as needed, on pieces of the right size. Neither work that is done
    at once nor operations on nothing that only make up the number will do.

    names   aten names
    shape   of such an operation, what is to be counted
    needed  the arguments of a call -> those shapes, one for each operation
    """

    missed = say("tiling.counted.missed")
    about: ClassVar[About] = "result"  # nothing is wasted: the pieces are others than are asked for
    names: frozenset[str]
    shape: Callable[[Operation], OperationShape]
    needed: Callable[..., Sequence[OperationShape]]
    points: float
    title: str
    what: str  # in the plural
    group: str = "plain"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            needed = Counter(self.needed(**trial.inputs[-1]))
            done = Counter(self.shape(op) for op in trial.evidence.operations if op.name in self.names)
            expected = say("tiling.counted.expected", count=needed.total(), what=self.what, case=trial.case.name)
            if done.total() != needed.total():
                return self.lost(say("tiling.counted.count", count=done.total(), what=self.what), expected=expected)
            if done != needed:
                (wrong, *_), (right, *_) = done - needed, needed - done
                told = say("tiling.counted.other", what=self.what, wrong=_in_words(wrong), right=_in_words(right))
                return self.lost(told, expected=expected)
            if trial.evidence.launches:
                return self.lost(say("tiling.counted.by_a_kernel", what=self.what), expected=expected)
        return self.earned(say("tiling.counted.count", count=done.total(), what=self.what))


def _in_words(shape: OperationShape) -> str:
    return " x ".join(map(str, shape))


@dataclass
class ByTheCompiler(Criterion):
    """Criterion on the compiler's report on each kernel for one GPU. Nothing is timed, and no GPU is needed.

    problem   the report -> "", or what is not as asked
    """

    problem: Callable[[Compiled], str]
    points: float
    title: str
    gpu: str = "sm_90"
    about: ClassVar[About] = "cost"
    reported: ClassVar[bool] = True

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        facts = [f for t in trials for f in t.evidence.compiled if f.gpu in ("", self.gpu)]
        known = [f for f in facts if not f.too_slow and not f.crashed]
        late = any(f.too_slow for f in facts)
        for fact in known:
            if (
                problem := (fact.complaint or say("tiling.by_the_compiler.not_accepted"))
                if not fact.accepted
                else self.problem(fact)
            ):
                cause = (
                    Cause("waste", fact.kernel) if fact.accepted else Cause("compiler", fact.kernel, {"gpu": fact.gpu})
                )
                return self.lost(
                    problem,
                    expected=say("tiling.by_the_compiler.expected", title=self.title, gpu=self.gpu),
                    cause=cause,
                )
        if not known:
            return self.left_open(say("tiling.by_the_compiler.unknown", gpu=self.gpu), late=late)
        return self.earned(say("tiling.by_the_compiler.as_asked", gpu=self.gpu), late=late)
