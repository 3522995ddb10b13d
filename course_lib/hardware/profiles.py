"""Four kernels as a profiler sees them, on an H200: recorded times, and counts of what was asked of the GPU.

Nothing here is measured anew. Times are those of fusion.json, attention.json and memory_hierarchy.json; bytes, FLOPs and programs
are what the recorded launches were, by their code in benchmarks/.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from course_lib.hardware.measurements import measured


@dataclass(frozen=True)
class RecordedProfile:
    """Profile of one call: seconds, launches, programs of its largest launch (None: not known), bytes read and written at least, FLOPs in
    float32 and by tensor cores."""

    seconds: float
    launches: int
    programs: int | None
    nbytes: int
    flops: int
    tensor_flops: int = 0


@dataclass(frozen=True)
class Card:
    """Measured peaks of a GPU: bytes/s of a copy, FLOP/s in float32 and by tensor cores, and seconds of a call that does nearly nothing."""

    sms: int
    bytes_per_second: float
    flops_per_second: float
    tensor_flops_per_second: float
    least_seconds: float


def card() -> Card:
    """Return the peaks of the H200: measured, but for float32, which is the datasheet's."""
    from course_lib import gpu

    ceilings, sheet = measured("mystery_plot")["ceilings"], gpu.datasheet("H200")
    least = min(seconds for _, seconds in measured("memory_hierarchy")["add_one"])
    return Card(sheet.sms, ceilings["copy_bytes_per_second"], sheet.fp32_flops, ceilings["random"]["bf16"], least)


def profiles() -> Mapping[str, RecordedProfile]:
    """Return the four profiles of the exercise, by letter."""
    free, one = measured("fusion")["free"], dict(measured("memory_hierarchy")["add_one"])
    n, times = free["n"], dict(zip(free["operations"], free["ms"], strict=True))
    token = next(row for row in measured("attention")["decode"] if (row["keys"], row["splits"]) == (65536, 1))
    few = 1 << 18

    def chain(steps: int) -> RecordedProfile:
        """Multiply-adds on each of n numbers, 2048 of them a program."""
        return RecordedProfile(times[steps] / 1e3, 1, n // 2048, 8 * n, 2 * steps * n)

    return {
        "A": RecordedProfile(one[few], 1, None, 8 * few, few),  # torch.add(x, 1), until the result is there
        "B": chain(512),
        # 32 queries of 128 numbers against 65,536 keys, in 8 heads of k and v, each of which is one program's
        "C": RecordedProfile(token["ms"] / 1e3, 2, 8, token["bytes"], 0, 2 * 2 * 32 * 65536 * 128),
        "D": chain(4),
    }
