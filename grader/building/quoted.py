"""Measured numbers that texts quote: `{{measured KEY}}` in a source's Markdown becomes what a recording, or a page of
benchmarks/results, says now. So nobody types one, and one product has one speed in all units."""

from __future__ import annotations

from collections.abc import Callable

import grader
from course_lib.hardware.measurements import measured

TERA = 1e12


def text(key: str) -> str:
    """Return the measured number of that key, formatted. Raises KeyError for an unknown one."""
    return QUOTED[key]()


def on_page(page: str, row: tuple[str, ...], column: str) -> str:
    """Return the number in that column of the table in benchmarks/results/PAGE.md, without its spread. `row` has its first cells."""
    head: list[str] = []
    for line in (grader.ROOT / "benchmarks" / "results" / f"{page}.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("|") else []
        if not cells:
            head = []
        elif not head:
            head = cells
        elif column in head and tuple(cells[: len(row)]) == row:
            return cells[head.index(column)].split(" ±")[0]
    raise KeyError(f"{page}.md: no row {row} under a column {column!r}")


def _product(n: int) -> str:
    return f"{dict(measured('mystery_plot')['curve']['points'])[n] / TERA:.0f}"


def _ceiling(numbers: str) -> float:
    return measured("mystery_plot")["ceilings"][numbers]["bf16"] / TERA


def _tile(stages: int, tile: tuple[int, int] = (128, 256)) -> float:
    (speed,) = [row["flops"] for row in measured("tiling")["tiles"] if row["tile"] == [*tile, 64, 8, stages]]
    return speed / TERA


def _step(step: str, causal: bool = False) -> float:
    """The speed of one step of attention's ladder, at D = 128 and 16,384 tokens, in TFLOP/s."""
    (row,) = [r for r in measured("attention")["ladder"] if (r["d"], r["length"], r["causal"]) == (128, 16384, causal)]
    return row["contenders"][step]["tflops"]


def _tuned_by() -> float:
    rows = [row["contenders"] for row in measured("attention")["ladder"] if row["d"] == 64]
    return max(row["tuned"]["tflops"] / row["descriptors"]["tflops"] for row in rows)


def _of_cublas(product: str) -> str:
    """The speed of the plain kernel, autotuned; torch.matmul's in the same run is 1."""
    return on_page("tiling", (product, "autotuned"), "ratio")


def _microseconds(page: str, row: tuple[str, ...]) -> str:
    return f"{1e3 * float(on_page(page, row, 'kernel ms')):.0f}"


def _times(what: str) -> str:
    return on_page("h200_measurements", (what,), "measured").split()[-2]


def _against_three(solution: str) -> str:
    """Three cells of a table: the speed of one of unit 07's solutions, where that of a copy, of torch and of torch.compile is 1."""
    return " | ".join(
        on_page("recomputation", (solution,), column) for column in ("copy", "torch eager", "torch.compile")
    )


def _softmax(way: str, n: int) -> str:
    speeds = measured("fusion")["speeds"]["softmax"]
    return f"{speeds[way][speeds['N'].index(n)]:.2f}"


def _adamw(way: str) -> str:
    step = measured("model")["optimizer"]
    return f"{step['bytes'] / step['ways'][way]['ms'] / 1e9:.2f}"


QUOTED: dict[str, Callable[[], str]] = {
    "product 4096": lambda: _product(4096),
    "product 4097": lambda: _product(4097),
    "product of random": lambda: f"{_ceiling('random'):.0f}",
    "product of zeros": lambda: f"{_ceiling('zeros'):.0f}",
    "won by zeros": lambda: f"{_ceiling('zeros') - _ceiling('random'):.0f}",
    "tile, three stages": lambda: f"{_tile(3):.0f}",
    "tile, four stages": lambda: f"{_tile(4):.0f}",
    "turned tile, three stages": lambda: f"{_tile(3, (256, 128)):.0f}",
    "turned tile, four stages": lambda: f"{_tile(4, (256, 128)):.0f}",
    "plain product 4096": lambda: _of_cublas("4096 cubed, bfloat16"),
    "plain product 8192": lambda: _of_cublas("8192 cubed, bfloat16"),
    "plain product b transposed": lambda: _of_cublas("4096 cubed, bfloat16, b transposed"),
    "eager softmax 8192": lambda: _softmax("eager", 8192),
    "eager softmax 16384": lambda: _softmax("eager", 16384),
    "eager softmax 32768": lambda: _softmax("eager", 32768),
    "checkpoints' time": lambda: on_page("recomputation", ("12",), "time, no checkpoints = 1"),
    "checkpoints' peak": lambda: on_page("recomputation", ("12",), "peak, GiB"),
    "peak without checkpoints": lambda: on_page("recomputation", ("none",), "peak, GiB"),
    "09 against 2, full": lambda: f"{_step('unit 09') / _step('FlashAttention-2'):.2f}",
    "09 against 2, causal": lambda: f"{_step('unit 09', True) / _step('FlashAttention-2', True):.2f}",
    "overlapped against tuned": lambda: f"{_step('overlapped') / _step('tuned'):.2f}",
    "tuned": lambda: f"{_step('tuned'):.0f}",
    "overlapped": lambda: f"{_step('overlapped'):.0f}",
    "tuned at 64": lambda: f"{100 * (_tuned_by() - 1):.0f}",
    "columns against rows": lambda: _times("copying 8192 x 8192 float32 by columns against by rows"),
    "AdamW": lambda: _adamw("the course's"),
    "AdamW by torch": lambda: _adamw("torch, fused"),
    "column sums": lambda: _microseconds("coalescing", ("column_sum",)),
    "Sigmoid3, torch eager": lambda: on_page("recomputation", ("Sigmoid3",), "torch eager"),
    "rmsnorm_backward, copy": lambda: on_page("recomputation", ("rmsnorm_backward",), "copy"),
    "Sigmoid3": lambda: _against_three("Sigmoid3"),
    "RecomputedGelu": lambda: _against_three("RecomputedGelu"),
    "cross_entropy_backward": lambda: _against_three("cross_entropy_backward"),
    "rmsnorm_backward": lambda: _against_three("rmsnorm_backward"),
    "SeededDropout": lambda: _against_three("SeededDropout"),
}
