"""How much work a trace does, counted where seconds would depend on what else the machine does: operations, and the elements of
their blocks in all programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

from course_lib.ttir import ir
from course_lib.ttir.launching import KernelError

OPERATION = 2_000  # elements: what an operation costs by itself, however many programs do it together
MEMORY = 16  # how often as much one on memory costs, by itself and for each element: it is checked and counted


class TooSlow(KernelError):
    """A kernel takes too much work to be judged here. The message is one sentence."""


class Work:
    """most, done: in elements; without a limit, unless one is given."""

    def __init__(self, most: float = inf) -> None:
        self.most, self.done = most, 0

    def spend(self, cost: tuple[int, int], programs: int) -> None:
        """Spend the cost of operations that `programs` programs do together. Raises TooSlow if that is too much."""
        self.done += cost[0] + cost[1] * programs
        if self.done > self.most:
            raise TooSlow(
                "too slow to judge: its programs do more operations, on more elements, than a check can wait for. Larger tiles "
                "take fewer, and so does a loop that does not go over single elements."
            )


def cost_of(operations: Sequence[ir.Operation], type_of: Callable[[str], ir.Type]) -> tuple[int, int]:
    """(what operations cost by themselves, what they cost for each program), in elements."""
    costs = [(MEMORY if _is_on_memory(op) else 1, _elements(op, type_of)) for op in operations]
    return OPERATION * sum(times for times, _ in costs), sum(times * elements for times, elements in costs)


def _elements(op: ir.Operation, type_of: Callable[[str], ir.Type]) -> int:
    if op.name == "tt.dot":  # of products, a library does many at once
        return prod(type_of(op.operands[0]).shape) * type_of(op.operands[1]).shape[-1] // 64
    types = [*(kind for _, kind in op.results), *map(type_of, op.operands)]
    return max((prod(kind.shape) for kind in types if kind.shape), default=1)


def _is_on_memory(op: ir.Operation) -> bool:
    return op.name in ("tt.load", "tt.store") or op.name.startswith(("tt.atomic", "tt.descriptor"))
