"""Unit 12: what needs no Hopper: limits, tiles, machine code, orders of tiles.

limits.py        the speed of light and watts, occupancy, chains of instructions
tiles.py         tiles of programs, warps and threads
machine_code.py  what the compiler made of six kernels
walks.py         as many programs as SMs, and who does what
products.py      kernels with descriptors, and an epilogue
"""

from __future__ import annotations

from course_lib.exercise import Exercise
from course_lib.exercises.hopper import limits, machine_code, products, tiles, walks

PARTS = (limits, tiles, machine_code, walks, products)
EXERCISES: tuple[Exercise, ...] = tuple(exercise for part in PARTS for exercise in part.EXERCISES)
