"""Throughput that a GPU reaches: matrix products by size and dtype, copies, a few operations; and how timers mislead.

On a GPU of sm_80 or newer each function measures here, in seconds; `measured("mystery_plot")` is the same from one H200, for readers
without one. Needs torch alone. `python benchmarks/mystery_plot.py` records anew.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import torch

FLUSH_BYTES = 1 << 28  # written before each run: larger than any L2, and long enough to hide the launch behind it
LOW, HIGH = 256, 4352  # sizes of the curve


# ------------------------------------------------------------------------------------------------------------ timing


def seconds(work: Callable[[], object], for_seconds: float = 0.2, *, cold: bool = True) -> float:
    """Measure the median time of `work` on the GPU: warmed up, between two events, with cold caches unless told otherwise."""
    flush = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
    work()  # loads what must be loaded
    once = _median(work, flush, 3, cold)
    runs = max(7, min(500, int(for_seconds / (once + 1e-4))))
    _median(work, flush, runs // 3, cold)  # clocks and power settle under the load
    return _median(work, flush, runs, cold)


def _median(work: Callable[[], object], flush: torch.Tensor, runs: int, cold: bool) -> float:
    events = []
    for _ in range(runs):
        flush.zero_()  # also keeps the GPU busy while the host queues what follows
        if not cold:
            work()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        events.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in events) / 1e3


@contextmanager
def _precision(name: str):
    """ "highest": float32 products in float32; "high": in TF32."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _product(m: int, n: int, k: int, dtype: torch.dtype, fill: Callable = torch.randn) -> Callable[[], object]:
    a, b = fill(m, k, device="cuda", dtype=dtype), fill(k, n, device="cuda", dtype=dtype)
    out = torch.empty(m, n, device="cuda", dtype=dtype)
    return lambda: torch.mm(a, b, out=out)


# ------------------------------------------------------------------------------------------------------ measurements


def curve_sizes() -> list[int]:
    """Choose about 230 sizes N: all multiples of 64, and one or two of each lesser alignment in every 128."""
    blocks = range(LOW, HIGH + 1, 128)
    near = [base + offset for base in blocks for offset in (0, 64, 40, 112, 68, 26, 77)]
    corners = [1792, 1793, 1794, 3001, 4095, 4097]  # a cliff of unit 05, and the neighbours of a round number
    return sorted({n for n in near + corners if LOW <= n <= HIGH})


def matmul_curve(sizes: Sequence[int] | None = None, dtype: str = "bfloat16") -> list[tuple[int, float]]:
    """Measure (N, FLOP/s) of products of two random N x N matrices. About 20 s; in random order, so that drift is no trend."""
    sizes = list(curve_sizes() if sizes is None else sizes)
    found = {}
    for n in random.Random(3).sample(sizes, len(sizes)):
        found[n] = 2 * n**3 / seconds(_product(n, n, n, getattr(torch, dtype)), 0.04)
    return sorted(found.items())


PRECISIONS = {  # name -> (dtype, float32 precision)
    "fp32": (torch.float32, "highest"),
    "tf32": (torch.float32, "high"),
    "fp16": (torch.float16, "highest"),
    "bf16": (torch.bfloat16, "highest"),
}


def ceilings(n: int = 8192) -> dict[str, Any]:
    """Measure copy_bytes_per_second (read + written), and FLOP/s of an n x n x n product by dtype, on random data and on zeros."""
    source = torch.randint(-128, 127, (1 << 30,), dtype=torch.int8, device="cuda")
    target = torch.empty_like(source)
    copied = seconds(lambda: target.copy_(source))
    found: dict[str, Any] = {"n": n, "copy_bytes_per_second": 2 * source.numel() / copied}
    for what, fill in (("random", torch.randn), ("zeros", torch.zeros)):
        found[what] = {}
        for name, (dtype, precision) in PRECISIONS.items():
            with _precision(precision):
                found[what][name] = 2 * n**3 / seconds(_product(n, n, n, dtype, fill), 0.5)
    return found


def operations() -> list[dict[str, Any]]:
    """Measure operations for a roofline, in bfloat16: name, flops, bytes (each tensor moved once) and seconds of each."""
    n = 8192
    x, y = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    vector, out = torch.randn(n, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)
    table: list[tuple[str, float, float, Callable[[], object]]] = [
        ("add", n * n, 6 * n * n, lambda: torch.add(x, y, out=out)),
        ("softmax", 5 * n * n, 4 * n * n, lambda: torch.softmax(x, 1)),  # maximum, minus, exp, sum, divide
        ("gelu", 8 * n * n, 4 * n * n, lambda: torch.nn.functional.gelu(x, approximate="tanh")),
        ("matrix × vector", 2 * n * n, 2 * n * n + 4 * n, lambda: torch.mv(x, vector)),
    ]
    for rows in (16, 128, 1024):
        work = _product(rows, n, n, torch.bfloat16)
        table.append((f"{rows} rows × matrix", 2 * rows * n * n, 2 * (n * n + 2 * rows * n), work))
    for size in (512, 2048, 8192):
        work = _product(size, size, size, torch.bfloat16)
        table.append((f"matmul {size}", 2 * size**3, 6 * size**2, work))
    return [dict(name=name, flops=f, bytes=b, seconds=seconds(work)) for name, f, b, work in table]


def relus(n: int = 1 << 28) -> dict[str, float]:
    """Measure the seconds of a ReLU of n elements, by dtype."""
    found = {}
    for name in ("float32", "float16"):
        x = torch.randn(n, device="cuda", dtype=getattr(torch, name))
        out = torch.empty_like(x)
        found[name] = seconds(lambda x=x, out=out: torch.clamp_min(x, 0, out=out))
    return found


def pitfalls() -> list[dict[str, Any]]:
    """Time the same two works wrong and right. Return work, timer, seconds, and flops or bytes of one run.

    matmul: a bfloat16 product, 8192 x 8192 x 8192.   add: x + y of 2^21 float32, 24 MiB in all, less than an H200's L2.
    """
    n, m = 8192, 1 << 21
    found = []

    def note(work: str, timer: str, took: float) -> None:
        amount = {"flops": 2 * n**3} if work == "matmul" else {"bytes": 12 * m}
        found.append({"work": work, "timer": timer, "seconds": took, **amount})

    product = _product(n, n, n, torch.bfloat16)
    torch.cuda.synchronize()
    note("matmul", "first call", _host(product, wait=True))
    note("matmul", "no synchronise", _host(product, wait=False))
    note("matmul", "zeros", seconds(_product(n, n, n, torch.bfloat16, torch.zeros), 0.5))
    note("matmul", "right", seconds(product, 0.5))
    x, y, out = (torch.randn(m, device="cuda") for _ in range(3))
    add = lambda: torch.add(x, y, out=out)  # noqa: E731
    add()
    torch.cuda.synchronize()
    note("add", "host clock", statistics.median(_host(add, wait=True) for _ in range(50)))
    note("add", "no synchronise", statistics.median(_host(add, wait=False) for _ in range(50)))
    note("add", "hot cache", seconds(add, cold=False))
    note("add", "right", seconds(add))
    return found


def pitfalls_afresh() -> list[dict[str, Any]]:
    """Run pitfalls() in a new process: only there is the first call the first."""
    code = "import json; from course_lib.hardware import throughput; print(json.dumps(throughput.pitfalls()))"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    return json.loads(done.stdout) if done.returncode == 0 else pitfalls()


def _host(work: Callable[[], object], *, wait: bool) -> float:
    """One run by the host's clock; without `wait` the clock stops when the work is queued."""
    start = time.perf_counter()
    work()
    if wait:
        torch.cuda.synchronize()
    took = time.perf_counter() - start
    torch.cuda.synchronize()
    return took


def measure_all() -> dict[str, Any]:
    """Measure curve, ceilings, operations and pitfalls, as plain data. pitfalls first: it needs a process in which no product has run."""
    timers = pitfalls()
    return {
        "machine": torch.cuda.get_device_name(),
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "curve": {"dtype": "bfloat16", "points": matmul_curve()},
        "ceilings": ceilings(),
        "operations": operations(),
        "relus": relus(),
        "pitfalls": timers,
    }
