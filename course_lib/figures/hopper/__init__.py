"""The pictures of 12_hopper_by_hand.

anywhere.py      what needs no Hopper: limits, tiles, machine code, orders of tiles
asynchrony.py    layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named

Each function returns a matplotlib Figure, but which_attention, a table.
"""

from course_lib.figures.hopper.anywhere import (
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
    "chains",
    "explore_occupancy",
    "matmul_ladder",
    "nested_tiles",
    "occupancy",
    "walks",
    "which_attention",
]
