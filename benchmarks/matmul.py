"""matmul_persistent.py against cuBLAS, on a GPU: `python benchmarks/matmul.py`, half a minute on an H200.

Squares, shapes of a transformer, transposed operands, and rows that begin at no multiple of 16 bytes, which are copied first: that copy
is timed, too. Each ratio is one interleaved run on random data; each result is held against float64 first, in memory that held NaN.
The table goes to benchmarks/results/matmul.md, the numbers to course_lib/hardware/measured/matmul.json.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import matmul_persistent  # noqa: E402

from course_lib.exercises.tiling import EXERCISES  # noqa: E402
from course_lib.hardware import bench, recordings  # noqa: E402


def random(rows: int, cols: int) -> torch.Tensor:
    return torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16)


def works() -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    """Yield (what it is, a, b), one after the other: the largest fill gigabytes."""
    for n in (1024, 2048, 4096, 8192):
        yield "", random(n, n), random(n, n)
    yield "tall: 65536 tokens, d_model 2048", random(65536, 2048), random(2048, 2048)
    yield "wide: 8192 tokens, to 4 d_model", random(8192, 4096), random(4096, 16384)
    yield "vocabulary: 8192 tokens, weights as torch keeps them", random(8192, 4096), random(50304, 4096).T
    yield "b transposed", random(4096, 4096), random(4096, 4096).T
    yield "a transposed", random(4096, 4096).T, random(4096, 4096)
    yield "both transposed", random(4096, 4096).T, random(4096, 4096).T
    yield "windows", random(4096, 4160)[:, 32:4128], random(4096, 4160)[:, 32:4128]
    for n in (3001, 4095, 4097, 8191):
        yield "copied first", random(n, n), random(n, n)
    yield "b transposed, copied first", random(4097, 4097), random(4097, 4097).T


def right(a: torch.Tensor, b: torch.Tensor, rows: int = 4096) -> bool:
    """Return whether the product is within the budget of unit 05's exercise everywhere, where memory held NaN before."""
    torch.full((a.shape[0] * (b.shape[1] + 8),), torch.nan, dtype=a.dtype, device=a.device)  # freed at once
    own = matmul_persistent.product(a, b)
    for first in range(0, a.shape[0], rows):  # float64 takes four times the memory
        part = a[first : first + rows]
        expected = part.double() @ b.double()
        budget = EXERCISES["tiling.matmul"].budget(expected, own.dtype, {"a": part, "b": b})
        if not ((own[first : first + rows].double() - expected).abs() <= budget).all():
            return False
    return True


def measured() -> Iterator[dict[str, Any]]:
    """Yield a row for each product; what is not right is not timed."""
    for what, a, b in works():
        (M, K), N = a.shape, b.shape[1]
        row = {"what": what, "size": f"{M} x {K} x {N}", "right": right(a, b)}
        if row["right"]:
            found = bench.ratio(partial(matmul_persistent.product, a, b), partial(torch.matmul, a, b))
            row |= {"ratio": found.speedup, "spread": found.spread}
            row |= {"own": 2 * M * N * K / found.own_ms / 1e9, "torch": 2 * M * N * K / found.baseline_ms / 1e9}
        yield row


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    if not row["right"]:
        return f"| {row['size']} | {row['what']} | | | not timed: wrong |"
    speeds = f"{row['own']:.0f} | {row['torch']:.0f}"
    return f"| {row['size']} | {row['what']} | {speeds} | {row['ratio']:.3f} ± {row['spread']:.3f} |"


def report(rows: list[dict[str, Any]], machine: str) -> str:
    """Return the page of results."""
    return "\n".join(
        [
            f"# A persistent product in Gluon against cuBLAS, {machine}",
            "",
            f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}, bfloat16, random data. `ratio` is "
            "torch.matmul's time / the kernel's, median of interleaved pairs ± median absolute deviation. All results are within the "
            "budget of unit 05's exercise. Where rows begin at no multiple of 16 bytes, a and b are copied into rows that do, and the "
            "result is copied back: all three copies are in the time.",
            "",
            "| M x K x N | what | TFLOP/s | torch's TFLOP/s | ratio |",
            "| --- | --- | --- | --- | --- |",
            *map(line, rows),
            "",
        ]
    )


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("This benchmark needs a Hopper GPU, sm_90: its kernel is written for it.")
        return 0
    rows = []
    for row in measured():
        print(line(row), flush=True)
        rows.append(row)
    text = report(rows, torch.cuda.get_device_name())
    (ROOT / "benchmarks" / "results" / "matmul.md").write_text(text)
    about = {"machine": torch.cuda.get_device_name(), "date": date.today().isoformat(), "torch": torch.__version__}
    recordings.write("matmul", about | {"triton": triton.__version__, "rows": rows})
    print(text)
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
