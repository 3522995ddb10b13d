"""Views by their shape, strides and offset."""

from __future__ import annotations

import torch

from course_lib.catalogue import say
from course_lib.criteria import Holds
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.strides.mistakes import gives
from course_lib.exercises.strides.oracles import reads_like, recipe_of, tiles


def transposed(x: torch.Tensor, i: int, j: int) -> torch.Tensor:
    """Swap two axes of x, as torch's view."""
    return x.transpose(i, j)


transpose_view = Exercise(
    id="strides.transpose_view",
    signature="transpose_view(shape: list[int], strides: list[int], i: int, j: int) -> (shape, strides)",
    kind="formula",
    effort=Effort(minutes=5, lines=4, difficulty=1),
    track="more",
    cases=[
        fixed("a matrix", "plain", shape=[3, 4], strides=[4, 1], i=0, j=1),
        fixed("the last two of three", "plain", shape=[2, 3, 4], strides=[12, 4, 1], i=1, j=2),
        fixed("the outer two of three", "plain", shape=[2, 3, 4], strides=[12, 4, 1], i=2, j=0),
        fixed("an axis with itself", "plain", shape=[2, 3], strides=[3, 1], i=1, j=1),
        fixed("a matrix with gaps", "strided", shape=[3, 5], strides=[20, 2], i=0, j=1),
        fixed("a transposed one", "strided", shape=[4, 3], strides=[1, 4], i=1, j=0),
        fixed("an expanded one", "strided", shape=[6, 2, 3], strides=[0, 3, 1], i=0, j=2),
        fixed("a slice of three axes", "strided", shape=[2, 3, 4], strides=[30, 6, 1], i=0, j=1),
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
        )
    ],
)


def broadcast(x: torch.Tensor, target: list[int]) -> torch.Tensor:
    """Expand x to the target shape, as torch's view."""
    return x.expand(target)


broadcast_view = Exercise(
    id="strides.broadcast_view",
    signature="broadcast_view(shape: list[int], strides: list[int], target: list[int]) -> (shape, strides)",
    kind="formula",
    effort=Effort(minutes=10, lines=4, difficulty=2),
    cases=[
        fixed("one row", "plain", shape=[1, 4], strides=[4, 1], target=[3, 4]),
        fixed("one column", "plain", shape=[3, 1], strides=[1, 1], target=[3, 5]),
        fixed("nothing to do", "plain", shape=[3, 4], strides=[4, 1], target=[3, 4]),
        fixed("a bias over a batch", "leading", shape=[4], strides=[1], target=[2, 3, 4]),
        fixed("one number", "leading", shape=[], strides=[], target=[3, 2]),
        fixed("matrices over a batch", "leading", shape=[3, 1], strides=[1, 1], target=[5, 3, 2]),
        fixed("every other element", "strided", shape=[4], strides=[2], target=[3, 4]),
        fixed("one column of a matrix", "strided", shape=[3, 1], strides=[7, 1], target=[3, 4]),
        fixed("a transposed matrix", "strided", shape=[4, 3], strides=[1, 4], target=[2, 4, 3]),
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
        )
    ],
)

tile_view = Exercise(
    id="strides.tile_view",
    signature="tile_view(shape: list[int], strides: list[int], bm: int, bn: int) -> (shape, strides)",
    kind="formula",
    effort=Effort(minutes=15, lines=3, difficulty=3),
    cases=[
        fixed("4 x 6 in tiles of 2 x 3", "plain", shape=[4, 6], strides=[6, 1], bm=2, bn=3),
        fixed("8 x 8 in tiles of 4 x 2", "plain", shape=[8, 8], strides=[8, 1], bm=4, bn=2),
        fixed("one tile", "plain", shape=[3, 5], strides=[5, 1], bm=3, bn=5),
        fixed("tiles of one element", "plain", shape=[3, 5], strides=[5, 1], bm=1, bn=1),
        fixed("a transposed matrix", "strided", shape=[6, 4], strides=[1, 6], bm=3, bn=2),
        fixed("a matrix with gaps", "strided", shape=[6, 8], strides=[40, 3], bm=2, bn=4),
        fixed("an expanded row", "strided", shape=[4, 6], strides=[0, 1], bm=2, bn=2),
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
        )
    ],
)


def windows(x: torch.Tensor, width: int, step: int) -> torch.Tensor:
    """Cut x into windows along its last axis, as torch's view."""
    return x.unfold(-1, width, step)


sliding_windows = Exercise(
    id="strides.sliding_windows",
    signature="sliding_windows(shape: list[int], strides: list[int], width: int, step: int) -> (shape, strides)",
    kind="formula",
    effort=Effort(minutes=10, lines=3, difficulty=3),
    track="more",
    cases=[
        fixed("10 numbers, 4 at a time", "plain", shape=[10], strides=[1], width=4, step=1),
        fixed("10 numbers, 4 at a time, step 2", "plain", shape=[10], strides=[1], width=4, step=2),
        fixed("9 numbers, 3 at a time, step 3", "plain", shape=[9], strides=[1], width=3, step=3),
        fixed("11 numbers: the last do not fit", "plain", shape=[11], strides=[1], width=4, step=3),
        fixed("one window", "plain", shape=[5], strides=[1], width=5, step=2),
        fixed("a batch", "batch", shape=[3, 8], strides=[8, 1], width=3, step=2),
        fixed("every other number", "batch", shape=[8], strides=[2], width=3, step=1),
        fixed("down the columns", "batch", shape=[4, 6], strides=[1, 4], width=2, step=2),
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
        )
    ],
)
