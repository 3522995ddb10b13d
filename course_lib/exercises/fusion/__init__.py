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
from course_lib.exercises.fusion.log import softmax_log
from course_lib.exercises.fusion.profiles import read_profiles

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        sin2_plus_cos2,
        predicted_launches,
        softmax,
        online_softmax,
        rmsnorm,
        cross_entropy,
        chain_bytes,
        bias_gelu,
        add_rmsnorm,
        read_profiles,
        break_softmax,
        softmax_log,
    )
}
