"""Tasks that unit 04's kernels may ask of one student in place of their own."""

from __future__ import annotations

from course_lib.criteria import sum_budget
from course_lib.exercises.twists import Twist

FACTORS = (-1, 2, -2, 4)  # powers of two: a result must be equal, in float16, too


def _row_copy_times(n: int) -> Twist:
    return Twist(f"times {n}", f"`out[m, n] = {n} * x[m, n]`.", lambda x: n * x.double())


def _gather_times(n: int) -> Twist:
    return Twist(f"times {n}", f"`out[k, n] = {n} * x[index[k], n]`.", lambda x, index: n * x[index].double())


def _transpose_times(n: int) -> Twist:
    return Twist(f"times {n}", f"`out[n, m] = {n} * x[m, n]`.", lambda x: n * x.T.contiguous().double())


def _differences(n: int) -> Twist:
    return Twist(
        f"minus {n}",
        f"`out[n]` is the sum of `x[m, n] - {n}` over all rows m.",
        lambda x: (x.double() - n).sum(0).float(),
        {"budget": sum_budget(lambda x: (x.double().abs() + n).sum(0), lambda x: x.shape[0])},
    )


TWISTS = {
    "coalescing.row_copy": [
        *map(_row_copy_times, FACTORS),
        Twist("rows backwards", "`out[m, n] = x[M - 1 - m, n]`: the last row first.", lambda x: x.flip(0).double()),
        Twist(
            "columns backwards", "`out[m, n] = x[m, N - 1 - n]`: each row from its end.", lambda x: x.flip(1).double()
        ),
    ],
    "coalescing.gather_rows": [
        *map(_gather_times, FACTORS),
        Twist(
            "rows backwards",
            "`out[k, n] = x[index[K - 1 - k], n]`: the row that is asked for last comes first.",
            lambda x, index: x[index].flip(0).double(),
        ),
        Twist(
            "columns backwards",
            "`out[k, n] = x[index[k], N - 1 - n]`: each row from its end.",
            lambda x, index: x[index].flip(1).double(),
        ),
    ],
    "coalescing.transpose": [
        *map(_transpose_times, FACTORS),
        Twist(
            "rows backwards",
            "`out[n, m] = x[M - 1 - m, n]`: the last row of x becomes the first column.",
            lambda x: x.flip(0).T.contiguous().double(),
        ),
        Twist(
            "columns backwards",
            "`out[n, m] = x[m, N - 1 - n]`: the last column of x becomes the first row.",
            lambda x: x.flip(1).T.contiguous().double(),
        ),
    ],
    "coalescing.column_sum": [
        Twist(
            "squares",
            "`out[n]` is the sum of `x[m, n]**2` over all rows m.",
            lambda x: x.double().square().sum(0).float(),
            {"budget": sum_budget(lambda x: x.double().square().sum(0), lambda x: x.shape[0])},
        ),
        Twist(
            "absolute values",
            "`out[n]` is the sum of `abs(x[m, n])` over all rows m.",
            lambda x: x.double().abs().sum(0).float(),
        ),
        Twist(
            "positive parts",
            "`out[n]` is the sum of `max(x[m, n], 0)` over all rows m.",
            lambda x: x.double().clamp_min(0).sum(0).float(),
        ),
        *map(_differences, (1, 2, 3)),
    ],
}
