"""Unit 11, your kernels in a real model.

    q          (B, Hq, N, D);  k, v (B, Hkv, N, D), Hq a multiple of Hkv: head h of q reads head h // (Hq / Hkv) of k and v
    cos, sin   (positions, D / 2) float32, what a position turns the pairs of a head by

caches.py    what a model keeps of the tokens so far, and one more token
Oracles: torch in float64 on whole sequences, tensors without data.
"""

from course_lib.exercises.model import caches

EXERCISES = {exercise.id: exercise for module in (caches,) for exercise in module.EXERCISES}
