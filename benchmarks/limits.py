"""Limits of ten kernels, each of a known one, by Nsight Compute: `python benchmarks/limits.py`, a minute on an H200.

What the GPU counted goes to course_lib/hardware/measured/limits.json, and tests/engine/test_what_limits.py asks `profile` for the limit of
each. Needs `ncu`, and leave to read counters.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.hardware import measurements  # noqa: E402
from tritontrace import profile  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

N = 1 << 22


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, mask=i < n, other=0), tl.load(y_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + i, x + y, mask=i < n)


@triton.jit
def exponentials(x_ptr, out_ptr, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    for _ in range(TIMES):
        x = tl.exp(-x)
    tl.store(out_ptr + i, x)


@triton.jit
def multiply_adds(x_ptr, out_ptr, TIMES: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    for _ in range(TIMES):
        x = x * 0.999 + 0.5
    tl.store(out_ptr + i, x)


@triton.jit
def every_eighth(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + 8 * i))


@triton.jit
def sums_of_all(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        total += tl.load(x_ptr + start + tl.arange(0, BLOCK))
    tl.store(out_ptr + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def chase(next_ptr, out_ptr, STEPS: tl.constexpr):
    at = tl.load(next_ptr)
    for _ in range(STEPS):
        at = tl.load(next_ptr + at)
    tl.store(out_ptr, at)


@triton.jit
def copy_alone(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.load(x_ptr + i))


@triton.jit
def product(a_ptr, b_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + (start + inner)[None, :])
        b = tl.load(b_ptr + (start + inner)[:, None] * N + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total.to(out_ptr.dtype.element_ty))


# what limits each launch of `work`, in order, by the names of Profiled.limit
LIMITS = {
    "an addition of 4 M floats": "dram",
    "an addition of 16 M floats": "dram",
    "an addition of 1,000 floats": "launch",
    "64 exponentials of each element": "special",
    "256 multiply-adds of each element": "issued",
    "every eighth float": "dram",
    "264 programs of four warps that each sum 8 MB": "waiting",
    "a chain of 2,000 loads in one program": "waiting",
    "a copy by one program": "waiting",
    "a product of 4096 x 1024 x 4096 in bfloat16": "tensor",
}


def work() -> None:
    """Launch all of them."""

    def random(n: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.randn(n, device="cuda", dtype=dtype)

    for n in (N, 4 * N, 1000):
        add[(triton.cdiv(n, 1024),)](random(n), random(n), torch.empty(n, device="cuda"), n, BLOCK=1024)
    x, out = random(N), torch.empty(N, device="cuda")
    exponentials[(N // 1024,)](x, out, TIMES=64, BLOCK=1024)
    multiply_adds[(N // 1024,)](x, out, TIMES=256, BLOCK=1024)
    every_eighth[(N // 1024,)](random(8 * N), out, BLOCK=1024)
    sums_of_all[(264,)](random(N // 2), out, N // 2, BLOCK=2048)
    chase[(1,)](
        torch.randperm(1 << 20, device="cuda", dtype=torch.int32),
        torch.empty(1, device="cuda", dtype=torch.int32),
        STEPS=2000,
    )
    copy_alone[(1,)](x, out, 1 << 20, BLOCK=1024)
    a, b = random(4096 * 1024, torch.bfloat16), random(1024 * 4096, torch.bfloat16)
    c = torch.empty(4096 * 4096, device="cuda", dtype=torch.bfloat16)
    product[(32, 16)](a, b, c, 4096, 1024, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, num_warps=8, num_stages=3)


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    found = profile(work)
    print(found)
    if found.not_counted:
        return 1
    rows: list[dict[str, Any]] = []
    for (name, limit), launch in zip(LIMITS.items(), found.launches, strict=True):
        rows.append({"name": name, "limit": limit, **asdict(launch)})
        print(f"{name}: {launch.limit}, known to be {limit}")
    head = {"machine": found.card.name, "date": date.today().isoformat(), "triton": triton.__version__}
    measurements.write("limits", head | {"launches": rows})
    return sum(row["limit"] != launch.limit for row, launch in zip(rows, found.launches, strict=True))


if __name__ == "__main__":
    sys.exit(main())
