"""Unit 14, Hopper by hand, in two parts.

asynchrony.py    mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
"""

from course_lib.exercises.hopper import asynchrony, pipelines

EXERCISES = {exercise.id: exercise for part in (asynchrony, pipelines) for exercise in part.EXERCISES}
