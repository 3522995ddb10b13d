"""Unit 05's matmul against torch (cuBLAS) and torch.compile, on a GPU: `python benchmarks/tiling.py`.

Each row is one interleaved run: median of the ratios baseline time / kernel time, and their median absolute deviation. The
tables go to benchmarks/results/tiling.md, what the unit's figures draw to course_lib/hardware/measured/tiling.json. About two minutes on
an H200. `--quick` leaves torch.compile's search out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

import torch
import triton
import triton.language as tl

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from course_lib.exercises.tiling import EXERCISES  # noqa: E402
from course_lib.exercises.tiling.oracles import rank_correlation  # noqa: E402
from course_lib.hardware import measurements, throughput  # noqa: E402
from course_lib.hardware.measurements import measured  # noqa: E402
from grader.published import published  # noqa: E402
from tritontrace import gpu  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402
from tritontrace.tracing import grouped, hilbert, row_major  # noqa: E402

FLOOR = 0.8  # of cuBLAS, for the autotuned reference in bfloat16 at 4096 and 8192
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
TILES = [  # BLOCK_M, BLOCK_N, BLOCK_K, num_warps, num_stages
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 4),
    (256, 128, 64, 8, 3),
    (256, 128, 64, 8, 4),
    (128, 128, 64, 4, 3),
    (128, 128, 64, 4, 4),
    (64, 256, 64, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 64, 32, 4, 3),
    (32, 32, 32, 2, 3),
]


def solution(name: str):
    """The object that the published cell of an exercise defines."""
    return published(f"tiling.{name}", on_the_cpu=False)


matmul = solution("matmul")
kernel = matmul.__globals__["matmul_kernel"]
tuned_kernel = triton.autotune(
    [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP": group}, num_warps=warps, num_stages=stages)
        for m, n, k, warps, stages in TILES[:8]
        for group in ((4, 8) if m * n == 128 * 256 else (8,))
    ],
    key=["M", "N", "K"],
)(kernel)


def tuned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """(M, K) @ (K, N) by the published kernel, autotuned."""
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)

    def grid(meta):
        return (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]), 1)

    tuned_kernel[grid](a[None], b[None], c, M, N, K, 0, *a.stride(), 0, *b.stride())
    return c


def with_tile(a: torch.Tensor, b: torch.Tensor, tile: tuple[int, ...]) -> torch.Tensor:
    (M, K), N = a.shape, b.shape[1]
    m, n, k, warps, stages = tile
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    shape = dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, GROUP=8, num_warps=warps, num_stages=stages)
    kernel[(triton.cdiv(M, m) * triton.cdiv(N, n), 1)](a, b, c, M, N, K, 0, *a.stride(), 0, *b.stride(), **shape)
    return c


@triton.jit
def matmul_in_order(
    a_ptr, b_ptr, c_ptr, order_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Whole tiles of contiguous matrices; which tile is whose is read from a table, so that all orders cost the same."""
    pid = tl.program_id(0)
    rows = tl.load(order_ptr + 2 * pid) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    cols = tl.load(order_ptr + 2 * pid + 1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    k = tl.arange(0, BLOCK_K)
    a_ptrs, b_ptrs = a_ptr + rows * K + k[None, :], b_ptr + k[:, None] * N + cols
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a_ptrs), tl.load(b_ptrs), acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    tl.store(c_ptr + rows * N + cols, acc.to(c_ptr.dtype.element_ty))


# ------------------------------------------------------------------------------------------------ measurements


def random(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype)


def roofline(a: torch.Tensor, b: torch.Tensor) -> float:
    """The least seconds that the datasheet allows."""
    sheet = gpu.current() or gpu.current_or_h200()
    M, K, N, batch = a.shape[-2], a.shape[-1], b.shape[-1], a.shape[:-2].numel()
    peak = sheet.fp32_flops if a.dtype == FP32 else sheet.bf16_flops
    nbytes = a.element_size() * batch * (M * K + K * N + M * N)
    return max(batch * 2 * M * N * K / peak, nbytes / sheet.hbm_bandwidth)


def right(own: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Within the exercise's budget, on the first rows."""
    top = a[..., :64, :]
    expected = top.double() @ b.double()
    budget = EXERCISES["tiling.matmul"].budget(expected, own.dtype, {"a": top, "b": b})
    return bool(((own[..., :64, :].double() - expected).abs() <= budget).all())


def products() -> tuple[list[str], bool]:
    """Rows of the first table, and whether all is right and the autotuned kernel reaches the floor."""
    works: list[tuple[str, torch.Tensor, torch.Tensor]] = [
        (f"{n} cubed, {name}", random(n, n, dtype=dtype), random(n, n, dtype=dtype))
        for n, name, dtype in (
            (2048, "bfloat16", BF16),
            (4096, "bfloat16", BF16),
            (8192, "bfloat16", BF16),
            (4096, "float16", FP16),
            (2048, "float32", FP32),
        )
    ]
    works += [
        ("4096 cubed, bfloat16, a transposed", random(4096, 4096).T, random(4096, 4096)),
        ("4096 cubed, bfloat16, b transposed", random(4096, 4096), random(4096, 4096).T),
        ("4096 cubed, bfloat16, windows", random(4096, 4160)[:, 32:4128], random(4096, 4160)[:, 32:4128]),
        ("4097 cubed, bfloat16", random(4097, 4097), random(4097, 4097)),
        ("64 of 1024 x 1024 x 128, bfloat16", random(64, 1024, 128), random(64, 128, 1024)),
    ]
    lines, passed = [], True
    for name, a, b in works:
        ways: list[tuple[str, Callable]] = [("published", matmul)]
        if a.dim() == 2 and a.dtype != FP32:
            ways.append(("autotuned", tuned))
        for way, function in ways:
            good = right(function(a, b), a, b)
            found = bench.ratio(lambda f=function: f(a, b), lambda: torch.matmul(a, b), pairs=24)  # noqa: B023
            flops = 2 * a.shape[:-2].numel() * a.shape[-2] * a.shape[-1] * b.shape[-1]
            lines.append(
                f"| {name} | {way} | {found.own_ms:.4f} | {flops / found.own_ms / 1e9:.0f} | {flops / found.baseline_ms / 1e9:.0f} "
                f"| {found.speedup:.3f} ± {found.spread:.3f} | {roofline(a, b) * 1e3 / found.own_ms:.2f} | {'yes' if good else 'NO'} |"
            )
            passed &= good
            if way == "autotuned" and name in ("4096 cubed, bfloat16", "8192 cubed, bfloat16"):
                passed &= found.speedup >= FLOOR
                lines[-1] += f" <!-- {tuned_kernel.best_config} -->"
    return lines, passed


def compiled() -> list[str]:
    """The published kernel against torch.compile: as it is, and told to write a Triton kernel of its own and tune it."""
    lines = []
    options = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    for n in (4096, 8192):
        a, b = random(n, n), random(n, n)
        for name, told in (("torch.compile", None), ("torch.compile, its own Triton, tuned", options)):
            torch._dynamo.reset()
            function = torch.compile(lambda x, y: x @ y, options=told)
            function(a, b)
            found = bench.ratio(lambda: tuned(a, b), lambda f=function: f(a, b), pairs=24)  # noqa: B023
            times = f"{found.own_ms:.4f} | {found.baseline_ms:.4f} | {found.speedup:.3f} ± {found.spread:.3f}"
            lines.append(f"| {n} cubed, bfloat16 | {name} | {times} |")
    return lines


def by_tile(n: int = 4096) -> list[dict]:
    a, b = random(n, n), random(n, n)
    return [
        {"n": n, "tile": list(tile), "flops": 2 * n**3 / throughput.seconds(lambda t=tile: with_tile(a, b, t), 0.1)}
        for tile in TILES
    ]


def cublas(n: int) -> float:
    """FLOP/s of torch's own product."""
    a, b = random(n, n), random(n, n)
    return 2 * n**3 / throughput.seconds(lambda: a @ b, 0.1)


def by_order() -> list[dict]:
    """The same kernel with its tiles in three orders, each against row order in the same run."""
    found = []
    m, n, k, warps, stages = 128, 256, 64, 8, 3
    for size in (4096, 8192, 16384):
        a, b, c = random(size, size), random(size, size), random(size, size)
        grid = (size // m, size // n)

        def run(order, a=a, b=b, c=c, size=size, grid=grid):
            table = torch.tensor(order, dtype=torch.int32, device="cuda")
            shape = dict(BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, num_warps=warps, num_stages=stages)
            return lambda: matmul_in_order[(grid[0] * grid[1],)](a, b, c, table, size, size, size, **shape)

        rows = run(row_major(*grid))
        for name, order in (("grouped, 8", grouped(*grid, 8)), ("Hilbert", hilbert(*grid))):
            ratio = bench.ratio(run(order), rows, pairs=24 if size < 16384 else 10)
            times = {"ms": ratio.own_ms, "row_ms": ratio.baseline_ms}
            found.append({"n": size, "order": name, "ratio": ratio.value, "spread": ratio.spread, **times})
    return found


def one_tile_for_all() -> dict:
    """Throughput of the published kernel with one tile, against size."""
    tile, points = (128, 256, 64, 8, 3), []
    for n in range(1024, 4353, 64):
        a, b = random(n, n), random(n, n)
        points.append([n, 2 * n**3 / throughput.seconds(lambda a=a, b=b: with_tile(a, b, tile), 0.04)])
    return {"tile": list(tile), "points": points}


def vocabulary(tokens: int = 8192, d_model: int = 768) -> list[dict]:
    """The last layer of GPT-2, with its vocabulary as it is and padded."""
    x, found = random(tokens, d_model), []
    for size in (50257, 50304):
        w = random(size, d_model)
        found.append({"vocabulary": size, "seconds": throughput.seconds(lambda w=w: torch.nn.functional.linear(x, w))})
    return found


def correlations() -> list[str]:
    """Spearman's rank correlation of the published model with the curve measured now, and its worst misses."""
    predict = solution("predicted_throughput")
    curve = throughput.matmul_curve()
    sizes, speeds = [n for n, _ in curve], [f for _, f in curve]
    ceilings = measured("mystery_plot")["ceilings"]
    machine = dict(
        sms=gpu.num_sms(),
        flops_per_second=ceilings["random"]["bf16"],
        bytes_per_second=ceilings["copy_bytes_per_second"],
        launch_seconds=5e-6,
    )
    model = predict(sizes, 128, 128, **machine)
    lines = []
    for name, chosen in (
        ("all sizes", lambda n: True),
        ("multiples of 8", lambda n: n % 8 == 0),
        ("multiples of 8 from 2500", lambda n: n % 8 == 0 and n >= 2500),
        ("4 × odd", lambda n: n % 8 == 4),
        ("2 × odd", lambda n: n % 4 == 2),
        ("odd", lambda n: n % 2 == 1),
    ):
        at = [i for i, n in enumerate(sizes) if chosen(n)]
        rho = [rank_correlation([y[i] for i in at], [speeds[i] for i in at]) for y in (model, sizes)]
        lines.append(f"| {name} | {len(at)} | {rho[0]:.3f} | {rho[1]:.3f} |")
    return lines


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    table, passed = products()
    against_compile = [] if "--quick" in sys.argv else compiled()
    kept = {
        "machine": torch.cuda.get_device_name(),
        "date": date.today().isoformat(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "tiles": by_tile(),
        "cublas": {str(n): cublas(n) for n in (4096, 8192)},
        "orders": by_order(),
        "curve": one_tile_for_all(),
        "vocabulary": vocabulary(),
    }
    measurements.write("tiling", kept)
    text = "\n".join(
        [
            f"# Unit 05's matmul against cuBLAS, {kept['machine']}",
            "",
            f"{kept['date']}, torch {kept['torch']}, triton {kept['triton']}. Random data. `ratio` is torch.matmul's time / kernel "
            f"time, median of interleaved pairs ± median absolute deviation; the autotuned reference must reach {FLOOR} in bfloat16 "
            f"at 4096 and 8192, a student's full bonus is at {EXERCISES['tiling.matmul'].bonus[0].full}. `roofline` is the share of "
            "the datasheet's speed for this work, compute or memory, whichever is less.",
            "",
            "| product | kernel | ms | TFLOP/s | torch's TFLOP/s | ratio | roofline | right |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *table,
            "",
            "The autotuned kernel against torch.compile:",
            "",
            "| product | baseline | kernel ms | baseline ms | ratio |",
            "| --- | --- | --- | --- | --- |",
            *against_compile,
            "",
            "Tiles in another order, against row order in the same run (tiles of 128 x 256 x 64):",
            "",
            "| n | order | ms | row order's ms | ratio |",
            "| --- | --- | --- | --- | --- |",
            *(
                f"| {o['n']} | {o['order']} | {o['ms']:.3f} | {o['row_ms']:.3f} | {o['ratio']:.3f} ± {o['spread']:.3f} |"
                for o in kept["orders"]
            ),
            "",
            "Rank correlation (Spearman) of the unit's model with the speeds of torch.matmul measured in this run, and of size alone:",
            "",
            "| sizes | how many | model | size alone |",
            "| --- | --- | --- | --- |",
            *correlations(),
            "",
        ]
    )
    (ROOT / "benchmarks" / "results" / "tiling.md").write_text(text)
    print(text)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
