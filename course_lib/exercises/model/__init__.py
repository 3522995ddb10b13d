"""Unit 11, your kernels in a real model.

Training: optimizer.py, data.py, training.py, accounting.py, checkpoints.py, block.py. What a check calls and trains there stands in
course_lib/workloads/rehearsals.py. Oracles: torch's optimizers and schedules, straight runs of a small model, and what is
counted in one.
"""

from course_lib.exercises.model.optimizer import adamw_step, update

TRAINING = (update, adamw_step)
EXERCISES = {exercise.id: exercise for exercise in TRAINING}
