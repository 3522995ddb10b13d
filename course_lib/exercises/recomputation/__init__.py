"""Unit 07, recomputation.

Oracles: autograd in float64, its saved-tensor hooks, traced kernels, the schedule of a checkpointed backward pass, played
through step by step, and a deep model whose live bytes are counted.
"""

from course_lib.exercises.recomputation.checkpoints import checkpoint, segments_for
from course_lib.exercises.recomputation.kernels import (
    cross_entropy_backward,
    recomputed_gelu,
    rmsnorm_backward,
    seeded_dropout,
    sigmoid3,
    sigmoid3_traffic,
)
from course_lib.exercises.recomputation.log import gradient_log
from course_lib.exercises.recomputation.saved import kept_tensors, saved_bytes

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        kept_tensors,
        sigmoid3_traffic,
        sigmoid3,
        cross_entropy_backward,
        seeded_dropout,
        saved_bytes,
        recomputed_gelu,
        rmsnorm_backward,
        checkpoint,
        segments_for,
        gradient_log,
    )
}
