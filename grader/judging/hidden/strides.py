"""Hidden cases of unit 01: sizes that differ from student to student, in the groups of the public cases."""

from __future__ import annotations

import random

import torch

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed
from course_lib.exercises.strides.cases import matrix, tokens
from course_lib.exercises.strides.named_axes import pooled, queries_and_keys


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    M, N = rng.randrange(65, 150, 2), rng.randrange(33, 120, 2)
    a, b, c = (rng.randrange(2, 7) for _ in range(3))
    gap, offset = rng.randrange(2, 6), rng.randrange(1, 40)
    shape = [rng.randrange(1, 6) for _ in range(5)]
    match exercise_id.split(".")[1]:
        case "flat_index":
            return [
                fixed("a hidden slice", "offset", index=[a, b], strides=[M, gap], offset=offset),
                fixed("hidden axes", "any rank", index=[a, b, c, a], strides=[N, 0, gap, 1], offset=offset),
            ]
        case "row_major_strides":
            return [fixed("a hidden matrix", "plain", shape=[M, N]), fixed("hidden axes", "any rank", shape=shape)]
        case "is_contiguous":
            dense = torch.empty(a, 1, b, device="meta").stride()
            return [
                fixed("a hidden matrix", "plain", shape=[M, N], strides=[N + rng.randrange(2), 1]),
                fixed("a hidden size of 1", "size 1", shape=[a, 1, b], strides=[dense[0], offset, dense[2]]),
                fixed("hidden, and empty", "empty", shape=[a, 0, b], strides=[gap, offset, gap]),
            ]
        case "tensor_bytes":
            dtype = rng.choice(("int16", "int32", "uint8", "float8_e5m2", "complex64"))
            return [
                fixed("a hidden shape", "float32", shape=shape, dtype="float32"),
                fixed("a hidden dtype", "dtypes", shape=[M, N], dtype=dtype),
            ]
        case "transpose_view":
            i, j = rng.sample(range(3), 2)
            return [
                fixed("hidden axes", "plain", shape=[a, b, c], strides=[b * c, c, 1], i=i, j=j),
                fixed("hidden gaps", "strided", shape=[a, b, c], strides=[gap * b * c, c, 1], i=j, j=i),
            ]
        case "broadcast_view":
            return [
                fixed("a hidden row", "plain", shape=[1, b], strides=[b, 1], target=[a, b]),
                fixed("a hidden bias", "leading", shape=[b, 1], strides=[1, 1], target=[a, c, b, gap]),
                fixed("hidden gaps", "strided", shape=[b], strides=[gap], target=[a, b]),
            ]
        case "tile_view":
            tiles = {"bm": b, "bn": c}
            return [
                fixed("hidden tiles", "plain", shape=[a * b, a * c], strides=[a * c, 1], **tiles),
                fixed("hidden gaps", "strided", shape=[a * b, 2 * c], strides=[gap, gap * a * b], **tiles),
            ]
        case "sliding_windows":
            return [
                fixed("hidden windows", "plain", shape=[N], strides=[1], width=a + b, step=c),
                fixed("hidden gaps", "batch", shape=[a, N], strides=[gap * N, gap], width=b, step=c),
            ]
        case "split_heads":
            return [
                Case("a hidden shape", "plain", tokens(a, N, b, c, torch.float16)),
                Case("hidden, sequence first", "strided", tokens(a, N, b, c, sequence_first=True)),
            ]
        case "grouped_scores":
            return [Case("hidden heads", "grouped", queries_and_keys(2, a, N, b, c, 8))]
        case "mean_pool":
            return [Case("hidden windows", "other", pooled(a, b + 1, c, N))]
        case "strided_copy":
            layout = rng.choice(("columns", "window", "steps"))
            return [
                Case(f"{M} x {N}", "ragged", matrix(M, N)),
                Case(
                    f"{a} x {M + 1300}", "ragged", matrix(a, M + 1300)
                ),  # more than a grid for the public cases reaches
                Case(f"{N} x {M}, {layout}", "strided", matrix(N, M, torch.float16, layout=layout)),
                Case(f"{M} x {N}, one row expanded", "zero strides", matrix(M, N, layout="one row")),
            ]
    return []  # predictions: the expressions stand in the notebook
