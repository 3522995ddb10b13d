"""Views and copies made by torch."""

from __future__ import annotations

import torch

from course_lib.catalogue import say
from course_lib.criteria import Compiles, Correct, Traffic, TritonDidTheWork, copy_bytes, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.misconceptions import Misconception
from course_lib.exercises.strides.cases import matrix, tokens
from course_lib.exercises.strides.mistakes import (
    as_if_contiguous,
    channels_before_heads,
    channels_last_but_one,
    contiguous_alone,
    cut_in_the_wrong_order,
    diagonals_alone,
    equals,
    windows_alone,
)
from course_lib.mistakes import row_by_row_into_columns

split_heads = Exercise(
    id="strides.split_heads",
    signature="split_heads(x: (B, S, heads * D), heads: int) -> (B, heads, S, D), a copy",
    effort=Effort(minutes=10, lines=1, difficulty=2),
    track="more",
    cases=[
        Case("2 x 5 x (3 x 4)", "plain", tokens(2, 5, 3, 4)),
        Case("3 x 7 x (2 x 8), float16", "plain", tokens(3, 7, 2, 8, torch.float16)),
        Case("2 x 4 x (4 x 4): all alike", "plain", tokens(2, 4, 4, 4)),
        Case("4 x 6 x (2 x 5), sequence first", "strided", tokens(4, 6, 2, 5, sequence_first=True)),
    ],
    # head by head, cut out of the last axis
    oracle=lambda x, heads: torch.stack(x.double().chunk(heads, dim=-1), dim=1),
    allows=frozenset(["clone", "copy_"]),
    criteria=correct("strides.split_heads", {"plain": 4, "strided": 2}),
    mistakes=[
        equals(cut_in_the_wrong_order, say("strides.split_heads.cut_in_the_order_of_storage")),
        equals(channels_before_heads, say("strides.split_heads.channels_before_heads")),
        equals(channels_last_but_one, say("strides.split_heads.the_wrong_two_swapped")),
        Misconception(as_if_contiguous, say("strides.split_heads.contiguous_x_alone"), each=True),
    ],
)

strided_copy = Exercise(
    id="strides.strided_copy",
    signature="strided_copy(x: (M, N), any strides) -> (M, N), contiguous",
    effort=Effort(minutes=25, lines=11, difficulty=3),
    cases=[
        Case("64 x 128", "plain", matrix(64, 128)),
        Case("1 x 1", "ragged", matrix(1, 1)),
        Case("37 x 1201", "ragged", matrix(37, 1201)),
        Case("1130 x 5, float16", "ragged", matrix(1130, 5, torch.float16)),
        Case("40 x 70, transposed", "strided", matrix(40, 70, layout="columns")),
        Case("33 x 50, a window", "strided", matrix(33, 50, layout="window")),
        Case("21 x 30, every second row and third column", "strided", matrix(21, 30, layout="steps")),
        Case("48 x 20, one row expanded", "zero strides", matrix(48, 20, layout="one row")),
        Case("19 x 66, one column expanded", "zero strides", matrix(19, 66, layout="one column")),
        Case("512 x 512", "performance", matrix(512, 512)),
        Case("128 x 256", "performance", matrix(128, 256)),
        Case("128 x 256, transposed, float16", "performance", matrix(128, 256, torch.float16, layout="columns")),
    ],
    oracle=lambda x: x.double(),
    gates=(TritonDidTheWork(), Correct("plain"), Compiles()),
    criteria=[
        *correct("strides.strided_copy", {"ragged": 2, "strided": 3, "zero strides": 1}),
        Traffic(copy_bytes, 2),
    ],
    mistakes=[row_by_row_into_columns(lambda x: x), diagonals_alone, windows_alone, contiguous_alone],
)
