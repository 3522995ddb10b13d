"""Unit 11, your kernels in a real model.

Training: optimizer.py, data.py, training.py, accounting.py, checkpoints.py, block.py. What a check calls and trains there stands in
course_lib/workloads/rehearsals.py. Oracles: torch's optimizers and schedules, straight runs of a small model, and what is
counted in one.

Serving: positions.py, interfaces.py, caches.py, serving.py, operators.py, broken.py. Oracles: torch in float64 on whole
texts, tensors without data. Tensors there:

    q          (B, Hq, N, D);  k, v (B, Hkv, N, D), Hq a multiple of Hkv: head h of q reads head h // (Hq / Hkv) of k and v
    cos, sin   (positions, D / 2) float32, what a position turns the pairs of a head by
"""

from course_lib.exercises.model import broken, caches, interfaces, operators, positions, serving
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
SERVING = (
    *positions.EXERCISES,
    *interfaces.EXERCISES,
    *operators.EXERCISES,
    *caches.EXERCISES,
    *serving.EXERCISES,
    *broken.EXERCISES,
)
EXERCISES = {exercise.id: exercise for exercise in (*TRAINING, *SERVING)}
