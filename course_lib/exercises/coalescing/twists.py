"""Tasks that unit 04's kernels may ask of one student in place of their own."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import sum_budget
from course_lib.exercises.twists import Twist

FACTORS = (-1, 2, -2, 4)  # powers of two: a result must be equal, in float16, too


def _row_copy_times(n: int) -> Twist:
    return Twist(f"times {n}", say("coalescing.row_copy.asks_times", n=n), lambda x: n * x.double())


def _gather_times(n: int) -> Twist:
    return Twist(f"times {n}", say("coalescing.gather_rows.asks_times", n=n), lambda x, index: n * x[index].double())


def _transpose_times(n: int) -> Twist:
    return Twist(f"times {n}", say("coalescing.transpose.asks_times", n=n), lambda x: n * x.T.contiguous().double())


def _differences(n: int) -> Twist:
    return Twist(
        f"minus {n}",
        say("coalescing.column_sum.asks_minus", n=n),
        lambda x: (x.double() - n).sum(0).float(),
        {"budget": sum_budget(lambda x: (x.double().abs() + n).sum(0), lambda x: x.shape[0])},
    )


TWISTS = {
    "coalescing.row_copy": [
        *map(_row_copy_times, FACTORS),
        Twist("rows backwards", say("coalescing.row_copy.asks_rows_backwards"), lambda x: x.flip(0).double()),
        Twist("columns backwards", say("coalescing.row_copy.asks_columns_backwards"), lambda x: x.flip(1).double()),
    ],
    "coalescing.gather_rows": [
        *map(_gather_times, FACTORS),
        Twist(
            "rows backwards",
            say("coalescing.gather_rows.asks_rows_backwards"),
            lambda x, index: x[index].flip(0).double(),
        ),
        Twist(
            "columns backwards",
            say("coalescing.gather_rows.asks_columns_backwards"),
            lambda x, index: x[index].flip(1).double(),
        ),
    ],
    "coalescing.transpose": [
        *map(_transpose_times, FACTORS),
        Twist(
            "rows backwards",
            say("coalescing.transpose.asks_rows_backwards"),
            lambda x: x.flip(0).T.contiguous().double(),
        ),
        Twist(
            "columns backwards",
            say("coalescing.transpose.asks_columns_backwards"),
            lambda x: x.flip(1).T.contiguous().double(),
        ),
    ],
    "coalescing.column_sum": [
        Twist(
            "squares",
            say("coalescing.column_sum.asks_squares"),
            lambda x: x.double().square().sum(0).float(),
            {"budget": sum_budget(lambda x: x.double().square().sum(0), lambda x: x.shape[0])},
        ),
        Twist(
            "absolute values",
            say("coalescing.column_sum.asks_absolute_values"),
            lambda x: x.double().abs().sum(0).float(),
        ),
        Twist(
            "positive parts",
            say("coalescing.column_sum.asks_positive_parts"),
            lambda x: x.double().clamp_min(0).sum(0).float(),
        ),
        *map(_differences, (1, 2, 3)),
    ],
}
