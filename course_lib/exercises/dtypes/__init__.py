"""Unit 02, dtypes."""

from course_lib.exercises.dtypes.formulas import decode_float, predictions, relu_intensity, ulp
from course_lib.exercises.dtypes.in_torch import half_sum, quantize_rows, round_to_bf16, stable_logsumexp
from course_lib.exercises.dtypes.kernels import scaled_square

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        predictions,
        half_sum,
        stable_logsumexp,
        scaled_square,
        decode_float,
        ulp,
        round_to_bf16,
        relu_intensity,
        quantize_rows,
    )
}
