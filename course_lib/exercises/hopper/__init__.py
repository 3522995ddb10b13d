"""Unit 12, Hopper by hand, in three parts.

anywhere.py      what needs no Hopper: limits, tiles, machine code, orders of tiles
asynchrony.py    layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
"""

from course_lib.exercises.hopper import anywhere, asynchrony, pipelines

EXERCISES = {exercise.id: exercise for part in (anywhere, asynchrony, pipelines) for exercise in part.EXERCISES}
