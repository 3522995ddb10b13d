"""The pictures of 13_inside_an_sm.

limits.py   room on an SM, chains, tiles within tiles, walks over tiles, the two ladders; and a table of cards
gluon.py    who holds what, and banks

Each function returns a matplotlib Figure, but which_attention, a table.
"""

from course_lib.figures.sm.gluon import banks, explore_who_holds_what, who_holds_what
from course_lib.figures.sm.limits import (
    attention_ladder,
    chains,
    explore_occupancy,
    matmul_ladder,
    nested_tiles,
    occupancy,
    walks,
    which_attention,
)

__all__ = [
    "attention_ladder",
    "banks",
    "chains",
    "explore_occupancy",
    "explore_who_holds_what",
    "matmul_ladder",
    "nested_tiles",
    "occupancy",
    "walks",
    "which_attention",
    "who_holds_what",
]
