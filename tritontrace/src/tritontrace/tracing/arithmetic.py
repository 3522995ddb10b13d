"""The arithmetic in which kernels are evaluated, as data: which function each operation of TTIR is, and what memory holds.

FLOATS is what a GPU computes. exact/ has another, in which nothing is rounded. A trace is opened with one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tritontrace.tracing import blocks, operations
from tritontrace.ttir import ir, numerics
from tritontrace.ttir.elements import dtype_of


@dataclass(frozen=True, eq=False)
class Arithmetic:
    """The functions with which a trace evaluates operations.

    lanewise            (operation, operand types) -> operations.Lanewise, or None if it is not lane-wise
    blocks              operations on whole blocks, by name
    reductions, scans   folds, by the name of the one operation that combines
    constant            (value, type) -> the array of a constant;  argument  (number, element) -> (1,) of a kernel's argument
    poison              element -> a lane that nobody wrote;  is_poison  (values, element) -> which of them are that
    from_memory, to_memory   (values, element) as in operations.py;  held  element -> the dtype that memory is read as
    updated             (kind, old, new, want, element) -> what an atomic leaves
    added               (sums, places, values, element) -> sums, with each value added to that of its place
    """

    lanewise: Callable[[ir.Operation, Sequence[ir.Type]], operations.Lanewise | None]
    blocks: Mapping[str, Callable[[ir.Operation, Sequence[ir.Type]], blocks.Whole]]
    reductions: Mapping[str, operations.Fold]
    scans: Mapping[str, operations.Fold]
    constant: Callable[[Any, ir.Type], np.ndarray]
    argument: Callable[[Any, str], np.ndarray]
    poison: Callable[[str], np.ndarray]
    is_poison: Callable[[np.ndarray, str], np.ndarray]
    from_memory: Callable[[np.ndarray, str], np.ndarray]
    to_memory: Callable[[np.ndarray, str], np.ndarray]
    held: Callable[[str], np.dtype]
    updated: Callable[..., np.ndarray]
    added: Callable[..., np.ndarray]


def _argument(number: Any, element: str) -> np.ndarray:
    """A number of another size wraps around, a float is a float32: as a launch on a GPU passes them."""
    return np.array([number]).astype(dtype_of(element))


def _is_poison(values: np.ndarray, element: str) -> np.ndarray:
    """Integers narrower than 32 bits are never known as poison: any of their numbers comes up by itself."""
    if values.dtype.kind == "f":
        return numerics.is_poison(values) if numerics.has_nan(values) else np.zeros((1,) * values.ndim, bool)
    if values.dtype.itemsize < 4 or element == "ptr":
        return np.zeros((1,) * values.ndim, bool)
    return values == operations.poison(element)


FLOATS = Arithmetic(
    operations.lanewise,
    blocks.OPERATIONS,
    operations.REDUCTIONS,
    operations.SCANS,
    operations.constant,
    _argument,
    operations.poison,
    _is_poison,
    operations.from_memory,
    operations.to_memory,
    operations.memory_dtype,
    operations.updated,
    operations.summed,
)
