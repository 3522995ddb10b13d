"""Unit 11, training a model with your kernels.

What a check calls and trains there stands in course_lib/workloads/rehearsals.py. Oracles: torch's optimizers and schedules,
straight runs of a small model, what is counted in one, and float64.
"""

from course_lib.exercises.training.accounting import run_cost, training_memory
from course_lib.exercises.training.block import swap_in
from course_lib.exercises.training.checkpoints import checkpoint
from course_lib.exercises.training.data import get_batch
from course_lib.exercises.training.operators import operator_norm
from course_lib.exercises.training.optimizer import adamw_step, update
from course_lib.exercises.training.shared_heads import grouped_backward
from course_lib.exercises.training.steps import accumulate, clip, learning_rate

EXERCISES = {
    exercise.id: exercise
    for exercise in (
        adamw_step,
        accumulate,
        training_memory,
        run_cost,
        checkpoint,
        swap_in,
        grouped_backward,
        operator_norm,
        get_batch,
        update,
        clip,
        learning_rate,
    )
}
