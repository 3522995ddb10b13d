"""Unit 12, serving a model: positions.py, interfaces.py, rings.py, caches.py, batching.py, broken.py.

Oracles: torch in float64 on whole texts, tensors without data. Tensors here:

    q          (B, Hq, N, D);  k, v (B, Hkv, N, D), Hq a multiple of Hkv: head h of q reads head h // (Hq / Hkv) of k and v
    cos, sin   (positions, D / 2) float32, what a position turns the pairs of a head by
"""

from course_lib.exercises.serving import batching, broken, caches, interfaces, positions, rings

PARTS = (positions, interfaces, rings, caches, batching, broken)
EXERCISES = {exercise.id: exercise for part in PARTS for exercise in part.EXERCISES}
