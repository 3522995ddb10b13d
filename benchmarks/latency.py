"""Latency and read bandwidth of registers, L1, L2 and main memory on a GPU: `python benchmarks/latency.py`.

Writes course_lib/hardware/measured/memory_hierarchy.json: machine, date, versions, and what course_lib/hardware/hierarchy.py
measures. Unit 00 shows it to readers without a GPU. The GPU must be free of other work. Seconds on an H200, after compilation.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.hardware import hierarchy, measurements  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    started = time.perf_counter()
    found = hierarchy.measure_all()
    took = time.perf_counter() - started
    measurements.write("memory_hierarchy", found, digits=4)

    print(f"{found['machine']}, torch {found['torch']}, triton {found['triton']}: {took:.0f} s in all")
    print("x + 1: " + ", ".join(f"{n:,} in {1e6 * s:.1f} us" for n, s in found["add_one"]))
    print(f"{'multiply-add':>12}: {found['fma'][0]:7.1f} cycles, {1e9 * found['fma'][1]:7.2f} ns")
    for nbytes, cycles, seconds in found["latency"]:
        print(f"{nbytes >> 10:8} KiB: {cycles:7.1f} cycles, {1e9 * seconds:7.2f} ns")
    print(f"read from the L1 caches: {found['l1_bandwidth'] / 1e12:.2f} TB/s")
    for nbytes, rate in found["bandwidth"]:
        print(f"{nbytes >> 20:8} MiB: {rate / 1e12:5.2f} TB/s")
    for name in ("L1", "L2", "memory"):
        cycles, seconds, rate = hierarchy.level(found, name)
        print(f"{name:>6}: {cycles:.0f} cycles, {1e9 * seconds:.0f} ns, {rate / 1e12:.2f} TB/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
