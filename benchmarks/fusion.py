"""Unit 06's solutions against torch, torch.compile and a copy of the needed bytes, on a GPU: `python benchmarks/fusion.py`.

Each ratio is one interleaved run. Writes the table to benchmarks/results/fusion.md, and what the notebook shows (speeds, the
code that torch.compile writes, its launches, the time of k operations in one kernel) to course_lib/hardware/measured/fusion.json.
About two minutes on an H200, most of them torch.compile's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.execution import timed  # noqa: E402
from course_lib.exercises import fusion  # noqa: E402
from course_lib.hardware import inductor, measurements  # noqa: E402
from grader.published import answer, published, solution_cell  # noqa: E402
from tritontrace import gpu  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402
from tritontrace.replay import load  # noqa: E402

FLOOR = 0.85  # of the copy's speed, for the references; a student's full bonus lies a tenth below
ELEMENTS = 1 << 26  # of each input
ROWS = (1024, 2048, 4096, 8192, 16384, 32768)
DRAWN = {  # exercise -> the drawing of an input with M rows of N
    "bias_gelu": lambda M, N: fusion.cases.also(fusion.cases.rows(M, N), "bias"),
    "softmax": fusion.cases.rows,
    "online_softmax": fusion.cases.rows,
    "rmsnorm": lambda M, N: fusion.cases.normed(fusion.cases.rows(M, N)),
    "add_rmsnorm": lambda M, N: fusion.cases.added(fusion.cases.rows(M, N)),
    "cross_entropy": fusion.cases.labelled,
}
FLOORED = ("softmax", "rmsnorm", "add_rmsnorm", "cross_entropy")  # the others have no floor against the copy
TORCH = {"online_softmax": "softmax"}  # where torch's function has another name


def solution(name: str) -> Callable:
    return published(f"fusion.{name}", on_the_cpu=False)


def measured(name: str, what: str, draw: Callable) -> dict[str, Any]:
    """One row of the table: ratios to the copy of the solution, of torch and of torch.compile, and of solution to compile."""
    exercise = fusion.EXERCISES[f"fusion.{name}"]
    arguments = draw(torch.Generator("cuda").manual_seed(6))
    function, eager = solution(name), inductor.FUNCTIONS[TORCH.get(name, name)]
    compiled = inductor.compiled(TORCH.get(name, name), *arguments.values())

    def own() -> Any:
        return function(**arguments)

    nbytes = int(exercise.bonus[0].needed(**arguments))
    right = not timed.difference(exercise, arguments, own())
    copy = bench.copy_of(nbytes)
    against_copy = bench.ratio(own, copy)
    found = {
        "name": name,
        "size": what,
        "MB": nbytes / 1e6,
        "ms": against_copy.own_ms,
        "solution": against_copy.value,
        "spread": against_copy.spread,
        "compile": bench.ratio(compiled, copy).speedup,
        "eager": bench.ratio(lambda: eager(*arguments.values()), copy, pairs=10).speedup,
        "against_compile": bench.ratio(own, compiled).speedup,
        "right": right,
    }
    torch.cuda.empty_cache()
    return found


@triton.jit
def multiply_adds(x_ptr, out_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    """K multiply-adds on each element, each of which needs the one before."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    for _ in tl.static_range(K):
        x = x * 0.999 + 0.001
    tl.store(out_ptr + i, x, mask=i < n)


def free_operations() -> dict[str, Any]:
    n, BLOCK = ELEMENTS, 2048
    x = torch.randn(n, device="cuda")
    out, copy = torch.empty_like(x), bench.copy_of(2 * x.nbytes)
    counts = [1 << k for k in range(10)]
    runs = [
        bench.ratio(lambda K=K: multiply_adds[(n // BLOCK,)](x, out, n, K=K, BLOCK=BLOCK), copy, pairs=20)
        for K in counts
    ]
    return {"n": n, "operations": counts, "ms": [r.own_ms for r in runs], "copy_ms": runs[0].baseline_ms}


def chain_ms() -> dict[str, Any]:
    """sin2_plus_cos2: torch one operation at a time, and the solution."""
    x, y = (torch.randn(ELEMENTS, device="cuda") for _ in range(2))
    function = solution("sin2_plus_cos2")
    found = bench.ratio(lambda: function(x, y), lambda: inductor.sin2_plus_cos2(x, y))
    return {"n": ELEMENTS, "eager": found.baseline_ms, "fused": found.own_ms}


def bias_tiles(M: int = 65536, N: int = 1024) -> list[dict[str, Any]]:
    """The solution's kernel for bias_gelu with tiles of other heights: how often each reads the bias, and its speed / copy."""
    kernel = published("fusion.bias_gelu", "bias_gelu_kernel", on_the_cpu=False)
    x, bias = torch.randn(M, N, device="cuda"), torch.randn(N, device="cuda")
    out, copy, found = torch.empty_like(x), bench.copy_of(2 * x.nbytes), []
    for BLOCK_M, BLOCK_N in ((2, 1024), (8, 256), (16, 128), (32, 64)):
        launch = partial(kernel[(N // BLOCK_N, M // BLOCK_M)], x, bias, out, M, N, N, BLOCK_M, BLOCK_N, num_warps=8)
        speed = bench.ratio(launch, copy).speedup
        found.append({"tile": [BLOCK_M, BLOCK_N], "bias_reads": M // BLOCK_M, "speed": speed})
    return found


def hint() -> dict[str, Any]:
    """The solution's softmax with its hint to the cache and without, against a copy."""
    exercise, cell = fusion.EXERCISES["fusion.softmax"], solution_cell("fusion.softmax")
    x, found = torch.randn(8192, 8192, device="cuda"), {"N": 8192}
    copy = bench.copy_of(2 * x.nbytes)
    for way, source in (("with", cell), ("without", cell.replace(', eviction_policy="evict_last"', ""))):
        softmax = load(answer(exercise.id, source), "softmax", on_the_cpu=False)
        found[way] = bench.ratio(partial(softmax, x), copy).speedup
    return found


def line(row: dict[str, Any]) -> str:
    sheet = gpu.current()
    roofline = f"{row['MB'] / row['ms'] * 1e9 / sheet.hbm_bandwidth:.2f}" if sheet else "unknown"
    return (
        f"| {row['name']} | {row['size']} | {row['MB']:.0f} | {row['ms']:.4f} | {row['solution']:.3f} ± {row['spread']:.3f} | "
        f"{row['compile']:.3f} | {row['eager']:.3f} | {row['against_compile']:.3f} | {row['MB'] / row['ms'] / 1e3:.2f} | {roofline} | "
        f"{'yes' if row['right'] else 'NO'} |"
    )


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    table = [measured("sin2_plus_cos2", f"{ELEMENTS}", fusion.cases.vectors(ELEMENTS))]
    table += [
        measured(name, f"{ELEMENTS // N} x {N}", draw(ELEMENTS // N, N)) for name, draw in DRAWN.items() for N in ROWS
    ]
    speeds = {
        name: {"N": list(ROWS)}
        | {way: [row[way] for row in table if row["name"] == name] for way in ("solution", "compile", "eager")}
        for name in DRAWN
    }
    recording = {
        "machine": torch.cuda.get_device_name(),
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "launches": {
            name: inductor.launches(inductor.FUNCTIONS[name], *inductor.drawn(shapes))
            for name, shapes in inductor.LAUNCHED.items()
        },
        "chain_ms": chain_ms(),
        "free": free_operations(),
        "bias_tiles": bias_tiles(),
        "hint": hint(),
        "speeds": speeds,
        "code": {
            name: inductor.triton_code(inductor.FUNCTIONS[function], *inductor.drawn(shapes))
            for name, (function, shapes) in inductor.SHOWN.items()
        },
    }
    measurements.write("fusion", recording, digits=4)
    text = "\n".join(
        [
            f"# Unit 06 against torch, torch.compile and a copy, {recording['machine']}",
            "",
            f"{recording['date']}, torch {torch.__version__}, triton {triton.__version__}, float32. `solution`, `compile` and "
            "`eager` are the time of a device-to-device copy of the needed bytes / theirs, `against compile` is "
            "torch.compile's time / the solution's; medians of interleaved pairs ± median absolute deviation. `roofline` is the share "
            "of the datasheet's bandwidth. The needed bytes "
            "are what memory must move at best: cross_entropy writes next to nothing, and online_softmax may read from L2 what "
            f"it reads twice. {', '.join(FLOORED)} must reach {FLOOR} of the copy and 1 of torch.compile (0.98, for noise); a "
            "student's full bonus is at "
            f"{fusion.softmax.bonus[0].full} of the copy, and at {fusion.online_softmax.bonus[0].full} of torch.compile for "
            "online_softmax.",
            "",
            "| kernel | size | MB needed | ms | solution | compile | eager | against compile | TB/s | roofline | right |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *map(line, table),
            "",
        ]
    )
    (ROOT / "benchmarks" / "results" / "fusion.md").write_text(text)
    print(text)
    print("launches:", recording["launches"])
    fast = all(row["solution"] >= FLOOR for row in table if row["name"] in FLOORED)
    return 0 if fast and all(row["right"] and row["against_compile"] >= 0.98 for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
