"""The pictures of 12_hopper_by_hand.

anywhere.py      what needs no Hopper: limits, tiles, machine code, orders of tiles
asynchrony.py    layouts, banks, cp.async, mbarriers, TMA, wgmma, one at a time
pipelines.py     pipelined and specialised products and attention, races to be named

Each function returns a matplotlib Figure.
"""

from course_lib.figures.hopper.asynchrony import banks, explore_ring, ring, who_holds_what
from course_lib.figures.hopper.pipelines import (
    explore_pipeline,
    pipeline,
    pipelines,
    six_races,
    timeline_of,
    two_races,
)

__all__ = [
    "banks",
    "explore_pipeline",
    "explore_ring",
    "pipeline",
    "pipelines",
    "ring",
    "six_races",
    "timeline_of",
    "two_races",
    "who_holds_what",
]
