"""Matmul throughput against size, and the ceilings that unit 03 draws, on a GPU: `python benchmarks/mystery_plot.py`.

Writes course_lib/hardware/measured/mystery_plot.json: machine, date, torch, and what course_lib/hardware/throughput.py measures, FLOP/s and
bytes/s in SI units. The GPU must be free of other work. Under a minute on an H200; needs torch alone.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.hardware import measurements, throughput  # noqa: E402


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 0):
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    started = time.perf_counter()
    found = throughput.measure_all()
    took = time.perf_counter() - started
    measurements.write("mystery_plot", found)

    print(f"{found['machine']}, torch {found['torch']}: {len(found['curve']['points'])} sizes, {took:.0f} s in all")
    print(f"copy {found['ceilings']['copy_bytes_per_second'] / 1e12:.2f} TB/s")
    for name in throughput.PRECISIONS:
        on = {what: found["ceilings"][what][name] / 1e12 for what in ("random", "zeros")}
        print(f"matmul {name}: random {on['random']:.0f}, zeros {on['zeros']:.0f} TFLOP/s")
    for op in found["operations"]:
        print(
            f"{op['name']:>20}: {op['flops'] / op['seconds'] / 1e12:7.2f} TFLOP/s, {op['bytes'] / op['seconds'] / 1e12:5.2f} TB/s"
        )
    took = found["relus"]
    print(f"ReLU: float16 is {took['float32'] / took['float16']:.2f} times as fast as float32")
    for row in found["pitfalls"]:
        print(f"{row['work']:>8}, {row['timer']}: {row['seconds'] * 1e3:.4f} ms")
    for n in (256, 1024, 1792, 1793, 1794, 2048, 3001, 4095, 4096, 4097, 4352):
        print(f"N = {n}: {dict(found['curve']['points'])[n] / 1e12:.0f} TFLOP/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
