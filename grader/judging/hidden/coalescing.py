"""Hidden cases of unit 04: odd sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.breaking import mutant
from course_lib.exercises.cases import FP16, Drawing, cases_of, fixed
from course_lib.exercises.coalescing.cases import matrix, matrix_and_index, pairs
from course_lib.exercises.rounds import versions


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N = rng.randrange(65, 200, 2), rng.randrange(33, 150, 2)
    K, small, offset = rng.randrange(20, 60), rng.randrange(3, 30), rng.randrange(1, 31)
    itemsize, stride, warp = rng.choice((1, 2, 8)), rng.randrange(5, 60), rng.choice((4, 16, 24))
    match exercise_id.split(".")[1]:
        case "transpose_log":
            rows, columns = 128 * rng.choice((3, 4, 5)), 128 * rng.choice((2, 3))
            return versions(f"{rows} x {columns}", matrix(rows, columns))
        case "break_transpose":
            tile, grid = "mask=inside)\n    tl.store", "(triton.cdiv(M, 32), triton.cdiv(N, 32))"
            return [
                mutant("in half", (tile, "mask=inside).to(tl.float16).to(tl.float32)\n    tl.store")),
                mutant(
                    "tiny is zero",
                    (tile, "mask=inside)\n    tile = tl.where(tl.abs(tile) < 1e-6, 0, tile)\n    tl.store"),
                ),
                mutant("grid rounds down", (grid, "(max(1, M // 32), max(1, N // 32))")),
                mutant("no full last tile", ("cols < N)", "cols < N - (N % 32 == 0))")),
                mutant("128 columns", (grid, "(triton.cdiv(M, 32), min(4, triton.cdiv(N, 32)))")),
                mutant("one row is none", ("rows < M)", "rows < M - (M == 1))")),
            ]
        case "sectors_touched":
            at = [offset + itemsize * rng.randrange(500) for _ in range(32)]
            run = list(range(0, 32 * stride * 4, stride * 4))
            return [
                fixed("a hidden stride", "strides", addresses=run, itemsize=4),
                fixed("hidden addresses", "straddling", addresses=at, itemsize=itemsize + 3),
            ]
        case "strided_efficiency":
            return [fixed("a hidden stride", "other dtypes", stride=stride, itemsize=itemsize)]
        case "divergence_passes":
            taken = [rng.random() < 0.9 for _ in range(M)]
            return [fixed("hidden lanes", "short warps", taken=taken, warp=warp)]
        case "padded_stride":
            return [fixed("a hidden length", "plain", n=N, itemsize=itemsize)]
        case "row_copy":
            return cases_of(
                ragged=[Drawing(f"{M} x {small}", matrix(M, small, FP16))],
                strided=[matrix(N, M, layout="window"), matrix(M, 16 * small, layout="apart")],
            )
        case "gather_rows":
            return [
                Case(f"{K} of {M} rows of {N}", "ragged", matrix_and_index(M, N, K)),
                Case(f"{M} of {small}, repeated, a window", "strided", matrix_and_index(small, N, M, layout="window")),
                Case(
                    f"{K} of {M} rows of {16 * small}, apart",
                    "strided",
                    matrix_and_index(M, 16 * small, K, layout="apart"),
                ),
            ]
        case "transpose":
            return cases_of(
                ragged=[matrix(M, N)], strided=[matrix(N, M, layout="columns"), matrix(M, 16 * small, layout="apart")]
            )
        case "column_sum":
            return cases_of(
                ragged=[matrix(M, N, layout="window"), matrix(M, 16 * small, layout="apart")],
                float16=[Drawing(f"{20 * M} x {small}, float16", matrix(20 * M, small, FP16, mean=1.0))],
            )
        case "deinterleave":
            return cases_of(ragged=[pairs(7 * M)], float16=[pairs(N, FP16)])
    return []  # predictions: their kernels stand in the notebook
