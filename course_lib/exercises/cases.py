"""Shared parts of several units' exercises: ways to draw cases, and lists of what torch may do in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib.criteria import Speed
from course_lib.exercise import Case

FP16, BF16, FP32 = torch.float16, torch.bfloat16, torch.float32


def integer(g: torch.Generator, low: int, high: int) -> int:
    """Draw a whole number from low to high, both included."""
    return int(torch.randint(low, high + 1, (), generator=g))


@dataclass(frozen=True)
class Drawing:
    """A function that draws the arguments of a case, with a name that says what it draws."""

    name: str
    draw: Callable[[torch.Generator], dict[str, Any]]

    def __call__(self, generator: torch.Generator) -> dict[str, Any]:
        return self.draw(generator)


def named_by(size: str, dtype: torch.dtype, *words: str) -> str:
    """Return the name of a drawing: its size, the words that are not empty, and its dtype unless that is float32."""
    return ", ".join(filter(None, [size, *words, "" if dtype == FP32 else str(dtype).removeprefix("torch.")]))


def cases_of(**groups: Sequence[Drawing]) -> list[Case]:
    """Make the cases of these groups, named after their drawings: ragged=[matrix(1, 1), matrix(37, 1031)]."""
    return [Case(drawing.name, group, drawing) for group, drawings in groups.items() for drawing in drawings]


def against_copy(
    drawing: Drawing, needed: Callable[..., float], *, full: float = 0.8, none: float | None = None, points: float = 2
) -> Speed:
    """Make the speed criterion against a device copy of the needed bytes: all points at the share `full` of its speed, some from `none` on,
    which is 0.3 less unless given."""
    none = full - 0.3 if none is None else none
    return Speed("copy", Case(drawing.name, "speed", drawing), needed, full=full, none=none, points=points)


def twice(
    draw: Callable[[torch.Generator], dict[str, Any]], **others: Any
) -> Callable[[torch.Generator], dict[str, Any]]:
    """Extend `draw`, whose last argument is dy, with `between`, the inputs of another application before the way back: tensors like the
    first ones, drawn anew, and the same numbers but for `others`."""

    def drawn(g: torch.Generator) -> dict[str, Any]:
        *inputs, _dy = (draw(g) | others).values()
        return {"between": inputs} | draw(g)

    return drawn


def fixed(name: str, group: str, /, **arguments: Any) -> Case:
    """Make a case of plain numbers, the same for every seed."""
    return Case(name, group, lambda g: dict(arguments))


LAYOUTS = ("rows", "columns", "heads", "window", "apart", "steps")


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """Return values (..., M, N) with the same elements in another memory layout.

    "rows"     as they are, contiguous
    "columns"  the last two axes swapped in memory: column by column
    "heads"    the axis before them between them, as (B, N, H, D) seen as (B, H, N, D)
    "window"   a view into larger matrices full of NaN, so that an element read from outside shows; rows begin anywhere
    "apart"    the same, but the first row begins where the memory does: the others begin anywhere
    "steps"    as "window", and every second row and third column of them

    Raises ValueError for another layout.
    """
    match layout:
        case "rows":
            return values
        case "columns":
            return values.mT.contiguous().mT
        case "heads":
            return values.transpose(-3, -2).contiguous().transpose(-3, -2)
        case "window":
            return _inside(values, 1, 1)
        case "apart":
            return _inside(values, 1, 1, before=(0, 0))
        case "steps":
            return _inside(values, 2, 3)
    raise ValueError(f"layout is {layout!r}; there are {', '.join(LAYOUTS)}")


def _inside(values: torch.Tensor, down: int, across: int, before: tuple[int, int] = (2, 5)) -> torch.Tensor:
    *lead, M, N = values.shape
    around = torch.full((*lead, down * M + 3, across * N + 9), math.nan, dtype=values.dtype, device=values.device)
    top, left = before
    inside = around[..., top : top + down * M : down, left : left + across * N : across]
    inside.copy_(values)
    return inside


# ------------------------------------------------------------------------------------------------------- operations


def operations(text: str) -> frozenset[str]:
    """Parse the names of torch operations that an exercise allows, as torch's dispatcher has them."""
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
