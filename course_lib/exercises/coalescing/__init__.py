"""Unit 04, memory coalescing."""

from course_lib.exercises.coalescing.breaking import break_transpose
from course_lib.exercises.coalescing.formulas import (
    divergence_passes,
    padded_stride,
    predictions,
    sectors_touched,
    strided_efficiency,
)
from course_lib.exercises.coalescing.kernels import column_sum, deinterleave, gather_rows, row_copy, transpose
from course_lib.exercises.coalescing.log import transpose_log
from course_lib.exercises.coalescing.naming import name_lanes

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        sectors_touched,
        predictions,
        row_copy,
        gather_rows,
        transpose,
        column_sum,
        padded_stride,
        strided_efficiency,
        break_transpose,
        deinterleave,
        divergence_passes,
        name_lanes,
        transpose_log,
    )
}
