"""Unit 06, fusion."""

from course_lib.exercises.fusion.breaking import break_softmax
from course_lib.exercises.fusion.counting import chain_bytes, predicted_launches
from course_lib.exercises.fusion.kernels import (
    add_rmsnorm,
    bias_gelu,
    cross_entropy,
    online_softmax,
    rmsnorm,
    sin2_plus_cos2,
    softmax,
)

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        chain_bytes,
        sin2_plus_cos2,
        predicted_launches,
        bias_gelu,
        softmax,
        online_softmax,
        rmsnorm,
        add_rmsnorm,
        cross_entropy,
        break_softmax,
    )
}
