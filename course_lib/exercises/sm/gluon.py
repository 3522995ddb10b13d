"""Unit 13: first steps in Gluon: layouts, banks, and copies by cp.async."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Traffic, copy_bytes, correct, sum_budget
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import FP32, fixed
from course_lib.exercises.sm.cases import matrix
from course_lib.exercises.sm.criteria import GATES, NoConflicts, Overlapped, SharedBytes, Uses
from course_lib.exercises.sm.mistakes import lesson
from course_lib.mistakes import every

TILE = 64  # rows and columns of a tile


# ----------------------------------------------------------------------------------------------- who holds what


def blocked(row: int, col: int, size: list, threads: list, warps: list, order: list, shape: list) -> dict[str, Any]:
    """Make the arguments of `holder`: an element, and a BlockedLayout of a block of that shape."""
    return {
        "row": row,
        "col": col,
        "size_per_thread": size,
        "threads_per_warp": threads,
        "warps_per_cta": warps,
        "order": order,
        "shape": shape,
    }


def holding(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape) -> tuple[int, int, int]:
    """Return (warp, lane, register) of an element, looked up in Triton's own mapping of the layout."""
    return holders(*map(tuple, (size_per_thread, threads_per_warp, warps_per_cta, order, shape)))[row, col]


@cache
def holders(size: tuple, threads: tuple, warps: tuple, order: tuple, shape: tuple) -> dict[tuple, tuple]:
    """Map each element of a block to its (warp, lane, register)."""
    from triton.experimental.gluon import language as gl  # which an older Triton lacks

    from tritontrace.hopper import held_by

    return held_by(gl.BlockedLayout(*map(list, (size, threads, warps, order))), shape)


ROWS = ([1, 8], [4, 8], [4, 1], [1, 0], [64, 64])
COLUMNS = ([2, 2], [8, 4], [2, 2], [0, 1], [64, 32])
SMALL = ([1, 2], [2, 16], [1, 4], [1, 0], [2, 128])


def _swapped(output: Any, **arguments: Any) -> bool:
    turned = holding(**arguments | {"order": arguments["order"][::-1]})
    return tuple(output) == turned


def _another_axis_first(which: int) -> Callable[..., bool]:
    """Make a function that tells whether warps (0), lanes (1) or registers (2) alone are numbered along order[1] first."""

    def look(output: Any, **arguments: Any) -> bool:
        right, turned = holding(**arguments), holding(**arguments | {"order": arguments["order"][::-1]})
        return tuple(output) == (*right[:which], turned[which], *right[which + 1 :])

    return look


def _rows_first(output: Any, **arguments: Any) -> bool:
    return tuple(output) == holding(**arguments | {"order": [1, 0]})


def _warp_and_lane_swapped(output: Any, **arguments: Any) -> bool:
    warp, lane, register = holding(**arguments)
    return tuple(output) == (lane, warp, register)


def _number_in_the_program(output: Any, **arguments: Any) -> bool:
    warp, lane, register = holding(**arguments)
    return tuple(output) == (warp, 32 * warp + lane, register)


def _repetitions_first(output: Any, **arguments: Any) -> bool:
    warp, lane, register = holding(**arguments)
    together = prod(arguments["size_per_thread"])
    covered = together * prod(arguments["threads_per_warp"]) * prod(arguments["warps_per_cta"])
    again = prod(arguments["shape"]) // covered
    return tuple(output) == (warp, lane, register % together * again + register // together)


def _no_repetitions(output: Any, **arguments: Any) -> bool:
    warp, lane, register = holding(**arguments)
    return tuple(output) == (warp, lane, register % prod(arguments["size_per_thread"]))


holder = Exercise(
    id="sm.holder",
    signature="holder(row, col, size_per_thread, threads_per_warp, warps_per_cta, order, shape) -> (warp, lane, register)",
    kind="formula",
    without=["tritontrace.hopper.banks"],
    effort=Effort(minutes=25, lines=12, difficulty=3),
    cases=[
        *(
            fixed(f"rows, element ({i}, {j})", "once", **blocked(i, j, *SMALL))
            for i, j in ((0, 0), (0, 1), (1, 33), (1, 127))
        ),
        *(
            fixed(f"rows, element ({i}, {j})", "again", **blocked(i, j, *ROWS))
            for i, j in ((0, 7), (17, 9), (40, 63), (63, 56))
        ),
        *(
            fixed(f"columns, element ({i}, {j})", "columns", **blocked(i, j, *COLUMNS))
            for i, j in ((1, 0), (0, 1), (35, 19), (19, 16), (63, 31))
        ),
    ],
    oracle=holding,
    criteria=correct("sm.holder", {"once": 1, "again": 2, "columns": 2}),
    mistakes=[
        every(_swapped, say("sm.holder.axes_swapped")),
        every(_rows_first, say("sm.holder.order_ignored")),
        *(
            every(_another_axis_first(which), say("sm.holder.another_axis_first", what=what))
            for which, what in enumerate(("warps", "lanes", "registers"))
        ),
        every(_warp_and_lane_swapped, say("sm.holder.warp_and_lane_swapped")),
        every(_number_in_the_program, say("sm.holder.number_in_the_program")),
        every(_repetitions_first, say("sm.holder.repetitions_before_what_lies_together")),
        every(_no_repetitions, say("sm.holder.no_repetitions")),
    ],
)

# ----------------------------------------------------------------------------------------------- banks


shared_transpose = Exercise(
    id="sm.shared_transpose",
    signature="shared_transpose(x: (M, N) float32, contiguous) -> (N, M), contiguous",
    effort=Effort(minutes=30, lines=16, difficulty=3),
    language="Gluon",
    cases=[
        Case("128 x 128", "plain", matrix(128, 128, FP32)),
        Case("100 x 70", "ragged", matrix(100, 70, FP32)),
        Case("1 x 33", "ragged", matrix(1, 33, FP32)),
        Case("512 x 256", "performance", matrix(512, 256, FP32)),
    ],
    oracle=lambda x: x.T.double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 1, say("sm.shared_transpose.title_ragged")),
        NoConflicts(3),
        SharedBytes(lambda x: TILE * TILE * 4 + 1024, 1, say("sm.shared_transpose.title_shared_bytes")),
        Traffic(copy_bytes, 1),
    ],
    mistakes=[lesson],
)

# ----------------------------------------------------------------------------------------------- rings


def sum_of_columns(x: torch.Tensor) -> torch.Tensor:
    """Return the sum of each column of x (M, N), (N,) float32, added in float64."""
    return x.double().sum(0).float()


SUMS = sum_budget(lambda x: x.double().abs().sum(0), lambda x: x.shape[0])
STAGES = 4  # tiles of 64 x 64 that a ring may hold


def read_bytes(x: torch.Tensor) -> int:
    """Count the bytes of every element, and of the sums."""
    return x.numel() * x.element_size() + 4 * x.shape[1]


async_column_sum = Exercise(
    id="sm.async_column_sum",
    signature="async_column_sum(x: (M, N) float32, contiguous) -> (N,) float32",
    effort=Effort(minutes=35, lines=28, difficulty=4),
    language="Gluon",
    cases=[
        Case("320 x 64", "plain", matrix(320, 64, FP32)),
        Case("333 x 70", "ragged", matrix(333, 70, FP32)),
        Case("1 x 40", "ragged", matrix(1, 40, FP32)),
        Case("31 x 31", "ragged", matrix(31, 31, FP32)),
        Case("512 x 256", "performance", matrix(512, 256, FP32)),
    ],
    oracle=sum_of_columns,
    budget=SUMS,
    gates=GATES,
    criteria=[
        Correct("ragged", 2, say("sm.async_column_sum.title_ragged")),
        Uses("cp.async", 1),
        Traffic(read_bytes, 1, title=say("sm.async_column_sum.title_traffic"), programs=2),
        Overlapped(0.7, 2),
        SharedBytes(lambda x: STAGES * TILE * TILE * 4, 1, say("sm.async_column_sum.title_shared_bytes")),
    ],
    mistakes=[lesson],
)

EXERCISES = (holder, shared_transpose, async_column_sum)
