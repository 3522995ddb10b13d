"""Places in memory, strides and bytes by their formulas."""

from __future__ import annotations

import math

import torch

from course_lib.catalogue import say
from course_lib.criteria import Correct, Holds, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.strides.cases import integers
from course_lib.exercises.strides.mistakes import gives
from course_lib.exercises.strides.oracles import VIEWS, new_bytes, position, strides_of_a_new_tensor
from course_lib.mistakes import miscounted, on_exception

flat_index = Exercise(
    id="strides.flat_index",
    signature="flat_index(index: list[int], strides: list[int], offset: int) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=1, difficulty=1),
    cases=[
        fixed("a matrix", "plain", index=[2, 3], strides=[4, 1], offset=0),
        fixed("a transposed matrix", "plain", index=[3, 2], strides=[1, 4], offset=0),
        fixed("three axes", "plain", index=[1, 2, 3], strides=[20, 5, 1], offset=0),
        fixed("a slice", "offset", index=[1, 2], strides=[6, 2], offset=9),
        fixed("an expanded row", "offset", index=[5, 3], strides=[0, 1], offset=12),
        fixed("no axis", "any rank", index=[], strides=[], offset=7),
        fixed("one axis", "any rank", index=[11], strides=[3], offset=2),
        Case(
            "five drawn axes",
            "any rank",
            lambda g: {"index": integers(g, 0, 5, 5), "strides": integers(g, 0, 300, 5), "offset": 17},
        ),
    ],
    oracle=position,
    criteria=correct("strides.flat_index", {"plain": 2, "offset": 1, "any rank": 1}),
    mistakes=[
        gives(
            lambda index, strides, offset: sum(i * s for i, s in zip(index, strides, strict=True)),
            say("strides.flat_index.forgets_the_offset"),
        )
    ],
)

row_major_strides = Exercise(
    id="strides.row_major_strides",
    signature="row_major_strides(shape: list[int]) -> list[int]",
    kind="formula",
    effort=Effort(minutes=10, lines=5, difficulty=2),
    cases=[
        fixed("3 x 4", "plain", shape=[3, 4]),
        fixed("5 x 5", "plain", shape=[5, 5]),
        fixed("2 x 3 x 4", "plain", shape=[2, 3, 4]),
        fixed("8 x 16 x 128 x 64", "plain", shape=[8, 16, 128, 64]),
        fixed("no axis", "any rank", shape=[]),
        fixed("one axis", "any rank", shape=[7]),
        fixed("axes of size 1", "any rank", shape=[1, 5, 1, 3, 1]),
        Case("six drawn axes", "any rank", lambda g: {"shape": integers(g, 1, 6, 6)}),
    ],
    oracle=lambda shape: torch.empty(shape, device="meta").stride(),
    criteria=[
        Holds(strides_of_a_new_tensor, 2, say("strides.row_major_strides.title_plain")),
        Holds(strides_of_a_new_tensor, 2, say("strides.row_major_strides.title_any_rank"), "any rank"),
    ],
    mistakes=[
        gives(
            lambda shape: [math.prod(shape[:axis]) for axis in range(len(shape))],
            say("strides.row_major_strides.column_major"),
        ),
        gives(
            lambda shape: [math.prod(shape[axis:]) for axis in range(len(shape))],
            say("strides.row_major_strides.its_own_size_counts"),
        ),
    ],
)

is_contiguous = Exercise(
    id="strides.is_contiguous",
    signature="is_contiguous(shape: list[int], strides: list[int]) -> bool",
    kind="formula",
    effort=Effort(minutes=10, lines=6, difficulty=2),
    cases=[
        fixed("3 x 4", "plain", shape=[3, 4], strides=[4, 1]),
        fixed("its transpose", "plain", shape=[4, 3], strides=[1, 4]),
        fixed("a slice of columns", "plain", shape=[3, 2], strides=[4, 1]),
        fixed("every other column", "plain", shape=[3, 2], strides=[4, 2]),
        fixed("an expanded row", "plain", shape=[3, 4], strides=[0, 1]),
        fixed("2 x 3 x 4", "plain", shape=[2, 3, 4], strides=[12, 4, 1]),
        fixed("the last two swapped", "plain", shape=[2, 3, 4], strides=[12, 1, 3]),
        fixed("the middle sliced", "plain", shape=[2, 2, 4], strides=[12, 4, 1]),
        fixed("one row of a wide matrix", "size 1", shape=[1, 4], strides=[99, 1]),
        fixed("one column", "size 1", shape=[5, 1], strides=[1, 7]),
        fixed("one column of a matrix", "size 1", shape=[5, 1], strides=[4, 1]),
        fixed("a size of 1 in the middle", "size 1", shape=[3, 1, 4], strides=[4, 0, 1]),
        fixed("no axis", "size 1", shape=[], strides=[]),
        fixed("no rows", "empty", shape=[0, 4], strides=[1, 9]),
        fixed("no columns", "empty", shape=[3, 0], strides=[5, 5]),
    ],
    oracle=lambda shape, strides: torch.empty_strided(shape, strides, device="meta").is_contiguous(),
    criteria=correct("strides.is_contiguous", {"plain": 2, "size 1": 2, "empty": 1}),
    mistakes=[
        on_exception("NoneType", say("strides.is_contiguous.unsolved_strides")),
        gives(lambda shape, strides: False, say("strides.is_contiguous.never"), besides="empty"),
        gives(
            lambda shape, strides: list(strides) == list(torch.empty(shape, device="meta").stride()),
            say("strides.is_contiguous.equal_strides"),
            besides="empty",
        ),
        gives(
            lambda shape, strides: list(strides) == sorted(strides, reverse=True),
            say("strides.is_contiguous.falling_strides"),
            besides="empty",
        ),
    ],
)

predictions = Exercise(
    id="strides.predictions",
    signature="predicted_new_bytes: dict[str, int]",
    kind="values",
    effort=Effort(minutes=10, lines=10, difficulty=2),
    cases=[fixed("ten expressions", "plain")],
    oracle=lambda: {name: new_bytes(make) for name, make in VIEWS.items()},
    criteria=[Correct("plain", 5, say("strides.predictions.title_plain"))],
    mistakes=[
        miscounted(
            {
                ("x.T.contiguous()", 4096): say("strides.predictions.elements"),
                ("x.T.reshape(4096)", 4096): say("strides.predictions.elements"),
                ("x[[0, 1]]", 128): say("strides.predictions.elements"),
                ("x.half()", 4096): say("strides.predictions.elements"),
                ("x.T", 16384): say("strides.predictions.a_transpose"),
                ("x[:, ::2]", 8192): say("strides.predictions.a_step"),
                ("x.contiguous()", 16384): say("strides.predictions.contiguous"),
                ("x.T.reshape(4096)", 0): say("strides.predictions.bent"),
                ("x.expand(10, 64, 64)", 163_840): say("strides.predictions.expanded"),
                ("x[[0, 1]]", 0): say("strides.predictions.a_list"),
                ("x.half()", 0): say("strides.predictions.other_bits"),
                ("x.float()", 16384): say("strides.predictions.same_dtype"),
            }
        )
    ],
)

tensor_bytes = Exercise(
    id="strides.tensor_bytes",
    signature="tensor_bytes(shape: list[int], dtype: str) -> int",
    kind="formula",
    effort=Effort(minutes=5, lines=4, difficulty=1),
    track="more",
    cases=[
        fixed("3 x 4 floats", "float32", shape=[3, 4], dtype="float32"),
        fixed("GPT-3's matrix", "float32", shape=[12288, 49152], dtype="float32"),
        fixed("one number", "float32", shape=[], dtype="float32"),
        fixed("none at all", "float32", shape=[5, 0], dtype="float32"),
        *(
            fixed(name, "dtypes", shape=[7, 11, 13], dtype=name)
            for name in ("bfloat16", "float16", "int64", "bool", "float8_e4m3fn", "float64")
        ),
    ],
    oracle=lambda shape, dtype: torch.empty(shape, dtype=getattr(torch, dtype), device="meta").nbytes,
    criteria=correct("strides.tensor_bytes", {"float32": 2, "dtypes": 2}),
    mistakes=[
        gives(lambda shape, dtype: 4 * math.prod(shape), say("strides.tensor_bytes.always_4")),
        gives(lambda shape, dtype: math.prod(shape), say("strides.tensor_bytes.elements")),
    ],
)
