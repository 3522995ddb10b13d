"""Unit 11, your kernels in a real model.

Training: optimizer.py, data.py, training.py, accounting.py, checkpoints.py, block.py. What a check calls and trains there stands in
course_lib/workloads/rehearsals.py. Oracles: torch's optimizers and schedules, straight runs of a small model, and what is
counted in one.
"""

from course_lib.exercises.model.accounting import run_cost, training_memory
from course_lib.exercises.model.block import swap_in
from course_lib.exercises.model.checkpoints import checkpoint
from course_lib.exercises.model.data import get_batch
from course_lib.exercises.model.optimizer import adamw_step, update
from course_lib.exercises.model.training import accumulate, clip, learning_rate

TRAINING = (
    get_batch,
    update,
    adamw_step,
    accumulate,
    clip,
    learning_rate,
    training_memory,
    run_cost,
    checkpoint,
    swap_in,
)
EXERCISES = {exercise.id: exercise for exercise in TRAINING}
