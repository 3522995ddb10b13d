"""An offset into a dense tensor, taken apart into a coordinate for each axis: row * N + col into (row, col).

If each coordinate lies inside its axis, the offset lies inside the tensor, and two offsets are equal only if their coordinates are.
So a question with products of sizes becomes one without.
"""

from __future__ import annotations

from tritontrace.proving import formulas
from tritontrace.proving.formulas import Condition, Monomial, SizeFormula, both, whole
from tritontrace.proving.launches import Tensor
from tritontrace.proving.quotients import without


def coordinates(offset: SizeFormula, tensor: Tensor) -> tuple[SizeFormula, ...] | None:
    """Split an offset into a coordinate for each axis, the outermost in memory first; times the strides they sum to the offset. None if the
    strides are no products of sizes."""
    if tensor.order is None:
        return None
    sizes = [tensor.sizes[axis] for axis in tensor.order]
    result: list[SizeFormula] = []
    for i in range(len(sizes)):
        stride = whole(1)
        for size in sizes[i + 1 :]:
            stride = stride * size
        if len(stride.terms) != 1:
            return None
        mine: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        ((unit, count),) = stride.terms.items()
        for monomial, factor in offset.terms.items():
            remaining = without(monomial, unit)
            if remaining is not None and factor % count == 0:
                mine[remaining] = factor // count
            else:
                rest[monomial] = factor
        result.append(SizeFormula(mine))
        offset = SizeFormula(rest)
    return tuple(result) if not offset.terms else None


def inside(some: tuple[SizeFormula, ...], tensor: Tensor) -> Condition:
    """Return the condition that each coordinate lies on its axis."""
    assert tensor.order is not None
    sizes = [tensor.sizes[axis] for axis in tensor.order]
    each = zip(some, sizes, strict=True)
    return both(*(both(formulas.at_least(c, 0), formulas.less(c, size)) for c, size in each))
