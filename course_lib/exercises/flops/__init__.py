"""Unit 03, counting FLOPs.

Oracles: torch's own FLOP counter on real or meta tensors, bytes as a dispatch mode sees them, autograd's saved tensors,
and properties that a right number has (a number of days delivers a number of FLOPs). None is a closed form.
"""

from course_lib.exercises.flops.counting import count_flops, intensity, matmul_cost, predictions, roofline_seconds
from course_lib.exercises.flops.dial import dial
from course_lib.exercises.flops.models import (
    attention_cost,
    backward_flops,
    block_cost,
    init_scale,
    largest_model,
    training_days,
    training_memory,
    utilisation,
)
from course_lib.exercises.flops.modules import deep_linear, truncated_init
from course_lib.exercises.flops.timing import measure

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        matmul_cost,
        predictions,
        attention_cost,
        intensity,
        roofline_seconds,
        dial,
        measure,
        count_flops,
        backward_flops,
        block_cost,
        init_scale,
        truncated_init,
        deep_linear,
        utilisation,
        training_days,
        largest_model,
        training_memory,
    )
}
