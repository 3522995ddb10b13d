"""How much work a trace does, counted where seconds would depend on what else the machine does: operations, and the elements of
their blocks in all programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, prod

from tritontrace.messages import say
from tritontrace.ttir import ir
from tritontrace.ttir.launching import KernelError

OPERATION = 2_000  # elements: what an operation costs by itself, however many programs do it together
MEMORY = 16  # how often as much one on memory costs, by itself and for each element: it is checked and counted
MANY_TURNS = 1_000  # of a `while`, after which it is asked whether it ends


class TooSlow(KernelError):
    """Raised, with a message, for a kernel that takes too much work to be traced here."""


# trap: work is counted in operations and elements; seconds are the last resort, since they depend on the machine's load
class Work:
    """A budget of work for a trace, and how much is spent.

    most, done: in elements that an operation gives, of all programs; without a limit, unless one is given.

    >>> with trace(work=Work(1000)):
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    Traceback (most recent call last):
        ...
    tritontrace.tracing.work.TooSlow: too much work: ...
    """

    def __init__(self, most: float = inf) -> None:
        self.most, self.done, self._by_themselves = most, 0, 0

    def spend(self, cost: tuple[int, int], programs: int) -> None:
        """Spend the cost of operations that `programs` programs do together. Raises TooSlow beyond the limit."""
        self.done += cost[0] + cost[1] * programs
        self._by_themselves += cost[0]
        if self.done > self.most:
            few = 2 * self._by_themselves > self.done
            raise TooSlow(say(f"launch.work.{'operations' if few else 'elements'}"))


def cost_of(operations: Sequence[ir.Operation], type_of: Callable[[str], ir.Type]) -> tuple[int, int]:
    """Return (what operations cost by themselves, what they cost for each program), in elements."""
    costs = [(MEMORY if _is_on_memory(op) else 1, _elements(op, type_of)) for op in operations]
    return OPERATION * sum(times for times, _ in costs), sum(times * elements for times, elements in costs)


def _elements(op: ir.Operation, type_of: Callable[[str], ir.Type]) -> int:
    if op.name == "tt.dot":  # of products, a library does many at once
        return prod(type_of(op.operands[0]).shape) * type_of(op.operands[1]).shape[-1] // 64
    types = [*(kind for _, kind in op.results), *map(type_of, op.operands)]
    return max((prod(kind.shape) for kind in types if kind.shape), default=1)


def _is_on_memory(op: ir.Operation) -> bool:
    return op.name in ("tt.load", "tt.store") or op.name.startswith(("tt.atomic", "tt.descriptor"))
