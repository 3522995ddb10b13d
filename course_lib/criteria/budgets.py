"""The error that honest arithmetic may have, per element of a result."""

from __future__ import annotations

# trap: a budget is an error bound for honest arithmetic, not a tolerance: too tight fails honest sums, too loose passes
# short cuts
import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercise import ErrorBudget

EPS32 = torch.finfo(torch.float32).eps


def roundings(expected: torch.Tensor, dtype: torch.dtype, times: float = 4) -> torch.Tensor:
    """Return the error bound of `times` eps of the result's dtype, plus four spacings of its subnormal numbers."""
    info = torch.finfo(dtype)
    # in place: a result may have millions of elements
    return expected.abs().mul_(times).add_(4 * info.smallest_normal).mul_(info.eps)


def sum_budget(magnitude: Callable[..., torch.Tensor], length: Callable[..., int]) -> ErrorBudget:
    """Make the error bound of an honest sum of `length` terms in float32, for each output element.

    magnitude: arguments -> the sum of the absolute values of the terms (float64, the shape of the output). The budget is
    roundings(expected) + 2 sqrt(length) eps32 magnitude: a random walk of rounding errors, with room for any order.
    """

    def budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
        walk = 2 * math.sqrt(length(**arguments)) * EPS32 * magnitude(**arguments)
        return roundings(expected, dtype).add_(walk)

    return budget
