"""The error that honest arithmetic may have, per element of a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercise import Budget


def roundings(expected: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Four of the result's dtype, below its normal numbers too."""
    info = torch.finfo(dtype)
    return 4 * info.eps * (expected.abs() + info.smallest_normal)


def sum_budget(magnitude: Callable[..., torch.Tensor], length: Callable[..., int]) -> Budget:
    """The error that an honest sum of `length` terms may have, per output element, accumulated in float32.

    magnitude: arguments -> the sum of the absolute values of the terms (float64, the shape of the output). The budget is
    4 eps(out) |expected| + 2 sqrt(length) eps32 magnitude: a random walk of rounding errors, with room for any order.
    """

    def budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
        walk = 2 * math.sqrt(length(**arguments)) * torch.finfo(torch.float32).eps * magnitude(**arguments)
        return 4 * torch.finfo(dtype).eps * expected.abs() + walk

    return budget
