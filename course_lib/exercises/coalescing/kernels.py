"""Kernels whose accesses are to be dense."""

from __future__ import annotations

from functools import partial

from course_lib.catalogue import say
from course_lib.criteria import GATES, Coalesced, Correct, Programs, Traffic, copy_bytes, correct, sum_budget
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import FP16, Drawing, against_copy, cases_of
from course_lib.exercises.coalescing.cases import gather_bytes, matrix, matrix_and_index, pairs, read_bytes
from course_lib.exercises.coalescing.mistakes import (
    DOWN_A_COLUMN,
    added_in_float16,
    halves_of_blocks,
    kept_in_16_bits,
    of_the_first_index,
    one_element_apart,
    read_several_times,
    short_runs,
    sums_of_blocks,
    the_ends_of_parts_twice,
    the_first_of_each_part,
    the_first_rows_alone,
    the_last_rows_alone,
    wasteful,
)
from course_lib.exercises.misconceptions import Misconception
from course_lib.mistakes import on_fault, on_race, row_by_row_into_columns

row_copy = Exercise(
    id="coalescing.row_copy",
    signature="row_copy(x: (M, N), column stride 1) -> (M, N), contiguous",
    effort=Effort(minutes=15, lines=10, difficulty=3),
    cases=cases_of(
        plain=[matrix(256, 128)],
        ragged=[matrix(1, 1), matrix(37, 1031), matrix(203, 7, FP16)],
        strided=[matrix(45, 100, layout="window"), matrix(9, 80, FP16, layout="apart")],
        performance=[matrix(512, 1024), matrix(128, 512), matrix(64, 512, FP16)],
    ),
    oracle=lambda x: x.double(),
    gates=GATES,
    criteria=[
        *correct("coalescing.row_copy", {"ragged": 2, "strided": 2}),
        Coalesced("load", 2),
        Coalesced("store", 1),
        Traffic(copy_bytes, 1),
    ],
    bonus=[against_copy(matrix(8192, 8192), copy_bytes)],
    mistakes=[
        Misconception(one_element_apart, say("coalescing.gather_rows.one_element_apart"), each=True),
        wasteful("load", DOWN_A_COLUMN),
        wasteful("store", DOWN_A_COLUMN),
        short_runs,
    ],
)

gather_rows = Exercise(
    id="coalescing.gather_rows",
    signature="gather_rows(x: (M, N), column stride 1, index: (K,) int64) -> (K, N), contiguous",
    effort=Effort(minutes=10, lines=13, difficulty=2),
    cases=[
        Case("256 of 300 rows", "plain", matrix_and_index(300, 256, 256)),
        Case("1 of 1", "ragged", matrix_and_index(1, 1, 1)),
        Case("40 of 300 rows of 3", "ragged", matrix_and_index(300, 3, 40)),
        Case("17 of 50 rows of 1031", "ragged", matrix_and_index(50, 1031, 17)),
        Case("77 of 90 rows of 5, float16", "ragged", matrix_and_index(90, 5, 77, FP16)),
        Case("60 of 13, repeated", "strided", matrix_and_index(13, 40, 60)),
        Case("20 of 30, a window", "strided", matrix_and_index(30, 112, 20, layout="window")),
        Case("300 rows of 512, 1024 asked for", "performance", matrix_and_index(300, 512, 1024)),
        Case("128 of 300 rows of 512", "performance", matrix_and_index(300, 512, 128)),
        Case("64 of 300 rows of 512, float16", "performance", matrix_and_index(300, 512, 64, FP16)),
    ],
    oracle=lambda x, index: x[index].double(),
    gates=GATES,
    criteria=[
        *correct("coalescing.gather_rows", {"ragged": 2, "strided": 2}),
        Coalesced("load", 2),
        Coalesced("store", 1),
        Traffic(gather_bytes, 1, title=say("coalescing.gather_rows.title_traffic")),
    ],
    bonus=[against_copy(Drawing("8192 of 8192 rows", matrix_and_index(8192, 8192, 8192)), gather_bytes)],
    mistakes=[
        Misconception(one_element_apart, say("coalescing.gather_rows.one_element_apart"), each=True),
        Misconception(
            [of_the_first_index(2**k) for k in range(1, 9)],
            say("coalescing.gather_rows.one_index_a_program"),
            each=True,
            strict=True,
        ),
        wasteful("load", DOWN_A_COLUMN),
        wasteful("store", DOWN_A_COLUMN),
        short_runs,
    ],
)

transpose = Exercise(
    id="coalescing.transpose",
    signature="transpose(x: (M, N), any strides) -> (N, M), contiguous",
    effort=Effort(minutes=25, lines=10, difficulty=3),
    cases=cases_of(
        plain=[matrix(256, 128)],
        ragged=[matrix(1, 1), matrix(130, 33), matrix(7, 200, FP16)],
        strided=[matrix(70, 41, layout="columns"), matrix(45, 100, layout="window")],
        performance=[matrix(512, 1024), matrix(256, 256), matrix(128, 256, FP16)],
    ),
    oracle=lambda x: x.T.contiguous().double(),
    gates=GATES,
    criteria=[
        Correct("ragged", 2),
        Correct("strided", 1),
        Coalesced("load", 3),
        Coalesced("store", 3),
        Traffic(copy_bytes, 1),
    ],
    bonus=[against_copy(matrix(8192, 8192), copy_bytes)],
    mistakes=[
        row_by_row_into_columns(lambda x: x.T),
        wasteful("store", say("coalescing.transpose.one_row_a_program"), alone=True),
        wasteful("load", say("coalescing.transpose.one_column_a_program"), alone=True),
        short_runs,
    ],
)

ROUND = (
    50,
    100,
    200,
    250,
    300,
    400,
    500,
    600,
    750,
    800,
    1000,
)  # rows of a part, by those who do not count in powers of two
SUMS = sum_budget(lambda x: x.double().abs().sum(0), lambda x: x.shape[0])

column_sum = Exercise(
    id="coalescing.column_sum",
    signature="column_sum(x: (M, N), column stride 1) -> (N,) float32",
    effort=Effort(minutes=30, lines=20, difficulty=4),
    cases=cases_of(
        plain=[matrix(512, 256)],
        ragged=[matrix(1, 1), matrix(37, 300), matrix(1201, 33, layout="window")],
        float16=[matrix(3001, 20, FP16, mean=1.0)],
        performance=[matrix(1024, 256), matrix(1024, 512, FP16)],
        tall=[matrix(4096, 128)],
    ),
    oracle=lambda x: x.double().sum(0).float(),
    budget=SUMS,
    gates=GATES,
    criteria=[
        *correct("coalescing.column_sum", {"ragged": 2, "float16": 2}),
        Coalesced("load", 3),
        Traffic(read_bytes, 1, at_most=1.15, title=say("coalescing.column_sum.title_traffic"), programs=0),
        Programs(8, 2),
    ],
    bonus=[against_copy(matrix(8192, 8192), read_bytes)],
    mistakes=[
        the_last_rows_alone,
        the_first_rows_alone,
        *(
            Misconception(wrongs, say(f"coalescing.column_sum.{name}"), each=True, strict=True)
            for name, wrongs in {
                "start_is_unused": [the_first_of_each_part(2**k, 2**h) for k in range(5, 12) for h in range(k)],
                "parts_overlap": [the_ends_of_parts_twice(n, 2**h) for n in ROUND for h in range(3, 8) if n % 2**h],
                "the_whole_block": [sums_of_blocks(2**k) for k in range(10)],
            }.items()
        ),
        added_in_float16(SUMS, say("coalescing.column_sum.adds_in_float16")),
        kept_in_16_bits,
        on_fault("uninitialised", say("coalescing.column_sum.starts_from_empty")),
        on_race(say("coalescing.column_sum.parts_overwrite_each_other")),
        read_several_times,
        wasteful("load", DOWN_A_COLUMN),
        short_runs,
    ],
)

deinterleave = Exercise(
    id="coalescing.deinterleave",
    signature="deinterleave(x: (2 N,), contiguous) -> (N,), (N,)",
    effort=Effort(minutes=10, lines=11, difficulty=3),
    track="more",
    cases=cases_of(
        plain=[pairs(4096)],
        ragged=[pairs(1), pairs(777), pairs(5001)],
        float16=[pairs(999, FP16)],
        performance=[pairs(262144), pairs(32768), pairs(32768, FP16)],
    ),
    oracle=lambda x: (x[0::2].double(), x[1::2].double()),
    gates=GATES,
    criteria=[
        *correct("coalescing.deinterleave", {"ragged": 1, "float16": 1}),
        Coalesced("load", 3),
        Coalesced("store", 2),
        Traffic(copy_bytes, 1),
    ],
    bonus=[against_copy(pairs(1 << 25), copy_bytes)],
    mistakes=[
        Misconception(
            [partial(halves_of_blocks, block=2**k) for k in range(6, 13)],
            say("coalescing.deinterleave.halves_not_pairs"),
        ),
        wasteful("load", say("coalescing.deinterleave.two_strided_loads"), times=2, alone=True),
    ],
)
