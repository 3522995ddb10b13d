"""Measure kernels on a GPU, and say what limits them.

bench.py     timed ratios: two things measured in one interleaved run, and the spread
nsight.py    counters of Nsight Compute
profiled.py  profile(): one's own launches, predicted, and counted by a GPU
"""

from typing import TYPE_CHECKING

from tritontrace.lazily import lazily

if TYPE_CHECKING:
    from tritontrace.profiling.profiled import Profile, Profiled, Roofline, predicted, profile

__all__ = ["Profile", "Profiled", "Roofline", "predicted", "profile"]
__getattr__ = lazily(
    __name__,
    {
        "Profile": "tritontrace.profiling.profiled",
        "Profiled": "tritontrace.profiling.profiled",
        "Roofline": "tritontrace.profiling.profiled",
        "predicted": "tritontrace.profiling.profiled",
        "profile": "tritontrace.profiling.profiled",
    },
)
