"""Views by their shape, strides and offset."""

from __future__ import annotations

import torch

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Case, Exercise
from course_lib.exercises.cases import given
from course_lib.exercises.strides.mistakes import gives
from course_lib.exercises.strides.oracles import reads_like, recipe_of, tiles


def transposed(x: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """Swap two axes of x, as torch's view."""
    return x.transpose(i, j)


transpose_view = Exercise(
    id="strides.transpose_view",
    signature="transpose_view(shape: list[int], strides: list[int], i: int, j: int) -> (shape, strides)",
    kind="formula",
    minutes=5,
    difficulty=1,
    track="more",
    lines=4,
    cases=[
        Case("a matrix", "plain", given(shape=[3, 4], strides=[4, 1], i=0, j=1)),
        Case("the last two of three", "plain", given(shape=[2, 3, 4], strides=[12, 4, 1], i=1, j=2)),
        Case("the outer two of three", "plain", given(shape=[2, 3, 4], strides=[12, 4, 1], i=2, j=0)),
        Case("an axis with itself", "plain", given(shape=[2, 3], strides=[3, 1], i=1, j=1)),
        Case("a matrix with gaps", "strided", given(shape=[3, 5], strides=[20, 2], i=0, j=1)),
        Case("a transposed one", "strided", given(shape=[4, 3], strides=[1, 4], i=1, j=0)),
        Case("an expanded one", "strided", given(shape=[6, 2, 3], strides=[0, 3, 1], i=0, j=2)),
        Case("a slice of three axes", "strided", given(shape=[2, 3, 4], strides=[30, 6, 1], i=0, j=1)),
    ],
    oracle=recipe_of(transposed),
    criteria=[
        Holds(reads_like(transposed), 2, say("strides.transpose_view.title_plain")),
        Holds(reads_like(transposed), 1, say("strides.transpose_view.title_strided"), "strided"),
    ],
    mistakes=[
        gives(
            lambda shape, strides, i, j: [list(torch.empty(shape, device="meta").transpose(i, j).shape), strides],
            say("strides.transpose_view.sizes_alone"),
        ),
    ],
)


def broadcast(x: torch.Tensor, target: list[int]) -> torch.Tensor:
    """Expand x to the target shape, as torch's view."""
    return x.expand(target)


broadcast_view = Exercise(
    id="strides.broadcast_view",
    signature="broadcast_view(shape: list[int], strides: list[int], target: list[int]) -> (shape, strides)",
    kind="formula",
    minutes=10,
    difficulty=2,
    lines=4,
    cases=[
        Case("one row", "plain", given(shape=[1, 4], strides=[4, 1], target=[3, 4])),
        Case("one column", "plain", given(shape=[3, 1], strides=[1, 1], target=[3, 5])),
        Case("nothing to do", "plain", given(shape=[3, 4], strides=[4, 1], target=[3, 4])),
        Case("a bias over a batch", "leading", given(shape=[4], strides=[1], target=[2, 3, 4])),
        Case("one number", "leading", given(shape=[], strides=[], target=[3, 2])),
        Case("matrices over a batch", "leading", given(shape=[3, 1], strides=[1, 1], target=[5, 3, 2])),
        Case("every other element", "strided", given(shape=[4], strides=[2], target=[3, 4])),
        Case("one column of a matrix", "strided", given(shape=[3, 1], strides=[7, 1], target=[3, 4])),
        Case("a transposed matrix", "strided", given(shape=[4, 3], strides=[1, 4], target=[2, 4, 3])),
    ],
    oracle=recipe_of(broadcast),
    criteria=[
        Holds(reads_like(broadcast), 2, say("strides.broadcast_view.title_plain")),
        Holds(reads_like(broadcast), 1, say("strides.broadcast_view.title_leading"), "leading"),
        Holds(reads_like(broadcast), 1, say("strides.broadcast_view.title_strided"), "strided"),
    ],
    mistakes=[
        gives(
            lambda shape, strides, target: [target, torch.empty(target, device="meta").stride()],
            say("strides.broadcast_view.strides_of_a_copy"),
        ),
    ],
)

tile_view = Exercise(
    id="strides.tile_view",
    signature="tile_view(shape: list[int], strides: list[int], bm: int, bn: int) -> (shape, strides)",
    kind="formula",
    minutes=15,
    difficulty=3,
    lines=3,
    cases=[
        Case("4 x 6 in tiles of 2 x 3", "plain", given(shape=[4, 6], strides=[6, 1], bm=2, bn=3)),
        Case("8 x 8 in tiles of 4 x 2", "plain", given(shape=[8, 8], strides=[8, 1], bm=4, bn=2)),
        Case("one tile", "plain", given(shape=[3, 5], strides=[5, 1], bm=3, bn=5)),
        Case("tiles of one element", "plain", given(shape=[3, 5], strides=[5, 1], bm=1, bn=1)),
        Case("a transposed matrix", "strided", given(shape=[6, 4], strides=[1, 6], bm=3, bn=2)),
        Case("a matrix with gaps", "strided", given(shape=[6, 8], strides=[40, 3], bm=2, bn=4)),
        Case("an expanded row", "strided", given(shape=[4, 6], strides=[0, 1], bm=2, bn=2)),
    ],
    oracle=recipe_of(tiles),
    criteria=[
        Holds(reads_like(tiles), 3, say("strides.tile_view.title_plain")),
        Holds(reads_like(tiles), 2, say("strides.tile_view.title_strided"), "strided"),
    ],
    mistakes=[
        gives(
            lambda shape, strides, bm, bn: [
                [shape[0] // bm, shape[1] // bn, bm, bn],
                torch.empty([shape[0] // bm, shape[1] // bn, bm, bn], device="meta").stride(),
            ],
            say("strides.tile_view.strides_of_a_copy"),
        ),
    ],
)


def windows(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    """Cut x into windows along its last axis, as torch's view."""
    return x.unfold(-1, width, step)


sliding_windows = Exercise(
    id="strides.sliding_windows",
    signature="sliding_windows(shape: list[int], strides: list[int], width: int, step: int) -> (shape, strides)",
    kind="formula",
    minutes=10,
    difficulty=3,
    track="more",
    lines=3,
    cases=[
        Case("10 numbers, 4 at a time", "plain", given(shape=[10], strides=[1], width=4, step=1)),
        Case("10 numbers, 4 at a time, step 2", "plain", given(shape=[10], strides=[1], width=4, step=2)),
        Case("9 numbers, 3 at a time, step 3", "plain", given(shape=[9], strides=[1], width=3, step=3)),
        Case("11 numbers: the last do not fit", "plain", given(shape=[11], strides=[1], width=4, step=3)),
        Case("one window", "plain", given(shape=[5], strides=[1], width=5, step=2)),
        Case("a batch", "batch", given(shape=[3, 8], strides=[8, 1], width=3, step=2)),
        Case("every other number", "batch", given(shape=[8], strides=[2], width=3, step=1)),
        Case("down the columns", "batch", given(shape=[4, 6], strides=[1, 4], width=2, step=2)),
    ],
    oracle=recipe_of(windows),
    criteria=[
        Holds(reads_like(windows), 2, say("strides.sliding_windows.title_plain")),
        Holds(reads_like(windows), 2, say("strides.sliding_windows.title_batch"), "batch"),
    ],
    mistakes=[
        gives(
            lambda shape, strides, width, step: [
                list(torch.empty(shape, device="meta").unfold(-1, width, step).shape),
                [*strides[:-1], step, 1],
            ],
            say("strides.sliding_windows.stride_1"),
        ),
    ],
)
