"""What the exercises of several units share: ways to draw cases, and what torch may do in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from course_lib.exercise import Case

HALF, BRAIN, SINGLE = torch.float16, torch.bfloat16, torch.float32  # brain floats: bfloat16


def integer(g: torch.Generator, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return int(torch.randint(low, high + 1, (), generator=g))


def given(**arguments: Any) -> Callable[[torch.Generator], dict[str, Any]]:
    """A drawing that is always the same."""
    return lambda g: dict(arguments)


def fixed(name: str, group: str, /, **arguments: Any) -> Case:
    """A case of plain numbers, the same for every seed."""
    return Case(name, group, given(**arguments))


def window(values: torch.Tensor, step: int = 1) -> torch.Tensor:
    """values (..., M, N), as every `step`-th row and column of a larger matrix full of NaN: an element read from outside shows."""
    *lead, M, N = values.shape
    around = torch.full((*lead, step * M + 3, step * N + 8), math.nan, dtype=values.dtype, device=values.device)
    inside = around[..., 2 : 2 + step * M : step, 8 : 8 + step * N : step]
    inside.copy_(values)
    return inside


# ------------------------------------------------------------------------------------------------------- operations


def operations(text: str) -> frozenset[str]:
    """What torch may do in an exercise that is written in torch, by the names that its dispatcher uses."""
    return frozenset(text.split())


INTEGERS = operations(
    "__and__ __or__ __xor__ __rshift__ __lshift__ bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_right_shift "
    "bitwise_left_shift add sub rsub neg abs remainder floor_divide where eq ne lt le gt ge logical_and logical_or logical_not "
    "masked_fill scalar_tensor clone "
    "add_ sub_ neg_ bitwise_and_ bitwise_or_ bitwise_xor_ __irshift__ __ilshift__ masked_fill_"
)
ARITHMETIC = INTEGERS | operations(
    "mul div reciprocal exp exp2 log log2 sqrt maximum minimum clamp clamp_min clamp_max amax amin max min sum cumsum mean "
    "any all isnan isinf isfinite nan_to_num round floor ceil sign _to_copy copy_ mul_ div_ exp_ log_ round_ clamp_ "
    "clamp_min_ nan_to_num_ zero_ fill_"
)
