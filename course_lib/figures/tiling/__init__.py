"""The pictures of 05_tiling.

    recording.py    what was measured on an H200, and whose it is
    tiles.py        one tile: its products, what it takes of an SM, how its loads are hidden, how fast it is
    scheduling.py   tiles dealt out to SMs: what is wasted at the edges and in the last wave
    mystery.py      the mystery plot, and a model laid over it
    named.py        maps of wrong products, whose causes are to be named
    order.py        the order in which programs take tiles, and what it saves

Each picture is a matplotlib Figure. Bytes, tiles and waves are counted when a picture is drawn. Speeds were measured:
torch's products here where there is a GPU, else on one H200, and the unit's own kernel on an H200 (benchmarks/tiling.py); the
picture says which.
"""

from course_lib.figures.tiling.mystery import (
    copied_first,
    how_well,
    one_tile_for_all,
    predicted_against_measured,
    vocabulary,
)
from course_lib.figures.tiling.named import name_maps
from course_lib.figures.tiling.order import order_traffic, orders
from course_lib.figures.tiling.scheduling import explore_waves, tile_quantization, waves
from course_lib.figures.tiling.tiles import (
    autotuned,
    explore_tile_sizes,
    outer_products,
    pipelining,
    tile_anatomy,
    tile_sizes,
)

__all__ = [
    "autotuned",
    "copied_first",
    "explore_tile_sizes",
    "explore_waves",
    "how_well",
    "name_maps",
    "one_tile_for_all",
    "order_traffic",
    "orders",
    "outer_products",
    "pipelining",
    "predicted_against_measured",
    "tile_anatomy",
    "tile_quantization",
    "tile_sizes",
    "vocabulary",
    "waves",
]
