"""Unit 11, your kernels in a real model.

    q          (B, Hq, N, D);  k, v (B, Hkv, N, D), Hq a multiple of Hkv: head h of q reads head h // (Hq / Hkv) of k and v
    cos, sin   (positions, D / 2) float32, what a position turns the pairs of a head by

Serving: positions.py, interfaces.py, caches.py, serving.py, operators.py, broken.py. Oracles: torch in float64 on whole
texts, tensors without data.
"""

from course_lib.exercises.model import broken, caches, interfaces, operators, positions, serving

SERVING = (
    *positions.EXERCISES,
    *interfaces.EXERCISES,
    *operators.EXERCISES,
    *caches.EXERCISES,
    *serving.EXERCISES,
    *broken.EXERCISES,
)
EXERCISES = {exercise.id: exercise for exercise in SERVING}
