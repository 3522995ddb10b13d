"""The criterion of unit 05."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.criteria import OnceRight
from course_lib.evidence import Operation
from course_lib.exercise import Finding, Trial

Shape = tuple[int, ...]


@dataclass
class Counted(OnceRight):
    """Torch did each of these operations as many times as needed, on pieces of the right size. Neither work that is done
    at once nor operations on nothing that only make up the number will do.

    names   aten names
    shape   of such an operation, what is to be counted
    needed  the arguments of a call -> those shapes, one for each operation
    """

    missed = "too many products, or too few"
    names: frozenset[str]
    shape: Callable[[Operation], Shape]
    needed: Callable[..., Sequence[Shape]]
    points: float
    title: str
    what: str  # in the plural
    group: str = "plain"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            needed = Counter(self.needed(**trial.inputs[-1]))
            done = Counter(self.shape(op) for op in trial.evidence.operations if op.name in self.names)
            expected = f"{needed.total()} {self.what} on {trial.case.name}"
            if done.total() != needed.total():
                return self.lost(f"{done.total()} {self.what}", expected=expected)
            if done != needed:
                (wrong, *_), (right, *_) = done - needed, needed - done
                told = f"{self.what} of {_in_words(wrong)}, where {_in_words(right)} are needed"
                return self.lost(told, expected=expected)
            if trial.evidence.launches:
                return self.lost(f"a kernel does the work of {self.what}", expected=expected)
        return self.earned(f"{done.total()} {self.what}")


def _in_words(shape: Shape) -> str:
    return " x ".join(map(str, shape))
