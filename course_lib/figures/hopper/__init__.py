"""The pictures of 12_hopper_by_hand.

anywhere.py      what needs no Hopper: limits, tiles, machine code, orders of tiles
asynchrony.py    layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named
clusters.py      one tile for several SMs

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
from course_lib.figures.hopper.asynchrony import banks, explore_ring, ring, who_holds_what
from course_lib.figures.hopper.clusters import clusters
from course_lib.figures.hopper.pipelines import (
    explore_pipeline,
    pipeline,
    pipelines,
    six_races,
    timeline_of,
    two_races,
)

__all__ = [
    "attention_ladder",
    "banks",
    "chains",
    "clusters",
    "explore_occupancy",
    "explore_pipeline",
    "explore_ring",
    "matmul_ladder",
    "nested_tiles",
    "occupancy",
    "pipeline",
    "pipelines",
    "ring",
    "six_races",
    "timeline_of",
    "two_races",
    "walks",
    "which_attention",
    "who_holds_what",
]
