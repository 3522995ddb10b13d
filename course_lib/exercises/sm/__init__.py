"""Unit 13, inside an SM. No Hopper is needed: kernels in Gluon are simulated.

limits.py        the speed of light and watts, occupancy, chains of instructions
tiles.py         tiles of programs, warps and threads
machine_code.py  what the compiler made of six kernels
walks.py         as many programs as SMs, and who does what
products.py      kernels with descriptors, and an epilogue
gluon.py         layouts, banks, and copies by cp.async
"""

from course_lib.exercises.sm import gluon, limits, machine_code, products, tiles, walks

PARTS = (limits, tiles, machine_code, walks, products, gluon)
EXERCISES = {exercise.id: exercise for part in PARTS for exercise in part.EXERCISES}
