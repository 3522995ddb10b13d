"""The pictures of 14_hopper_by_hand.

asynchrony.py    a ring of buffers
pipelines.py     pipelined and specialised products and attention, races to be named
clusters.py      one tile for several SMs

Each function returns a matplotlib Figure.
"""

from course_lib.figures.hopper.asynchrony import explore_ring, ring
from course_lib.figures.hopper.clusters import clusters
from course_lib.figures.hopper.pipelines import explore_pipeline, pipeline, pipelines, six_races, timeline_of, two_races

__all__ = [
    "clusters",
    "explore_pipeline",
    "explore_ring",
    "pipeline",
    "pipelines",
    "ring",
    "six_races",
    "timeline_of",
    "two_races",
]
