"""matmul_persistent.py against cuBLAS, on a GPU: `python benchmarks/matmul.py`, half a minute on an H100.

Squares, shapes of a transformer, transposed operands, float8, and rows that begin at no multiple of 16 bytes, which are copied first:
that copy is timed, too, and its parts for one size. Each ratio is one interleaved run on random data; each result is held against
float64 first, in memory that held NaN. The table goes to benchmarks/results/matmul.md, all of it to
course_lib/hardware/measured/matmul.json, where units 05 and 12 read it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

import matmul_persistent  # noqa: E402
import peers  # noqa: E402

from course_lib.exercises.tiling import EXERCISES  # noqa: E402
from course_lib.hardware import measurements  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


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


def in_8_bits(n: int, along: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random numbers as float8_e4m3fn and their scales, which bring the largest of each row or column to its largest number."""
    x = torch.randn(n, n, device="cuda")
    scales = x.abs().amax(along, keepdim=True) / torch.finfo(torch.float8_e4m3fn).max
    return (x / scales).to(torch.float8_e4m3fn), scales


def of_quack(a: torch.Tensor, b: torch.Tensor) -> Product:
    """quack's product, with the configuration that it finds fastest here."""
    from quack.gemm_interface import gemm

    return partial(gemm, tuned=True)


def of_tilelang(a: torch.Tensor, b: torch.Tensor) -> Product:
    """TileLang's first example of a product."""
    import tilelang_product

    if not (a.is_contiguous() and b.is_contiguous()):
        raise ValueError("the example takes rows that lie one after the other")
    return tilelang_product.made(a.shape[0], b.shape[1], a.shape[1])


PEERS = {peers.QUACK_PRODUCT: of_quack, peers.TILELANG: of_tilelang}


def right(a: torch.Tensor, b: torch.Tensor, product: Product = matmul_persistent.product, rows: int = 4096) -> bool:
    """Return whether the product is within the budget of unit 05's exercise everywhere, where memory held NaN before."""
    torch.full((a.shape[0] * (b.shape[1] + 8),), torch.nan, dtype=a.dtype, device=a.device)  # freed at once
    own = product(a, b)
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
        row = {"what": what, "size": f"{M} x {K} x {N}", "right": right(a, b, matmul_persistent.product)}
        if row["right"]:
            found = bench.ratio(partial(matmul_persistent.product, a, b), partial(torch.matmul, a, b))
            row |= {"ratio": found.speedup, "spread": found.spread}
            row |= {"own": 2 * M * N * K / found.own_ms / 1e9, "torch": 2 * M * N * K / found.baseline_ms / 1e9}
        if what != "copied first":
            row["peers"] = beside(a, b)
        yield row


def beside(a: torch.Tensor, b: torch.Tensor) -> dict[str, float | str]:
    """Return of each peer cuBLAS's time / its own, or why it has none here."""
    products, why = peers.works(PEERS, a, b)
    found: dict[str, float | str] = {}
    for name, product in products.items():
        try:
            if right(a, b, product):
                found[name] = bench.ratio(partial(product, a, b), partial(torch.matmul, a, b)).speedup
            else:
                why[name] = "not right"
        except Exception as error:  # of another project: it may raise any
            why[name] = peers.reason(error)
    peers.note(PEERS, why, torch.cuda.get_device_name())
    return found | {peer.name: why[peer.name][:80] for peer in PEERS if not peer.problem and peer.name in why}


def measured_in_8_bits() -> Iterator[dict[str, Any]]:
    """Yield a row for each product of float8 numbers, against torch._scaled_mm with either way of adding."""
    for n in (4096, 8192):
        (a, a_scales), (b, b_scales) = in_8_bits(n, 1), in_8_bits(n, 0)
        b = b.T.contiguous().T
        own = partial(matmul_persistent.scaled_product, a, b, a_scales.view(-1), b_scales.view(-1))
        expected = (a.double() @ b.double()) * a_scales * b_scales
        off = float((own().double() - expected).norm() / expected.norm())
        for fast in (True, False):
            row = {
                "what": f"float8, scaled by rows; torch adds {'as fast' if fast else 'more exactly'}",
                "size": f"{n} x {n} x {n}",
            }
            row["right"] = off < 2**-8  # half the last bit of the bfloat16 that both return
            if row["right"]:
                theirs = partial(
                    torch._scaled_mm,
                    a,
                    b,
                    scale_a=a_scales,
                    scale_b=b_scales,
                    out_dtype=torch.bfloat16,
                    use_fast_accum=fast,
                )
                found = bench.ratio(own, theirs)
                row |= {"ratio": found.speedup, "spread": found.spread}
                row |= {"own": 2 * n**3 / found.own_ms / 1e9, "torch": 2 * n**3 / found.baseline_ms / 1e9}
            yield row


def copied_first(n: int) -> dict[str, float]:
    """Return the seconds of torch's product of (n, n), of our whole product, and of its parts: copies in, product, copy out."""
    a, b = random(n, n), random(n, n)
    wide_a, wide_b, wide_c = (matmul_persistent.aligned_copy(x) for x in (a, b, a))
    parts = {
        "whole": partial(matmul_persistent.product, a, b),
        "copy_in": lambda: (matmul_persistent.aligned_copy(a), matmul_persistent.aligned_copy(b)),
        "product": partial(matmul_persistent.launch, wide_a, wide_b, wide_c, False, False),
        "copy_out": lambda: matmul_persistent.copied(wide_c, a.new_empty(n, n), n),
    }
    found = {name: bench.ratio(part, partial(torch.matmul, a, b), pairs=12) for name, part in parts.items()}
    return {"n": n, "torch": found["whole"].baseline_ms / 1e3} | {
        name: each.own_ms / 1e3 for name, each in found.items()
    }


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    if not row["right"]:
        return f"| {row['size']} | {row['what']} | | | not timed: wrong |"
    speeds = f"{row['own']:.0f} | {row['torch']:.0f}"
    return f"| {row['size']} | {row['what']} | {speeds} | {row['ratio']:.3f} ± {row['spread']:.3f} |"


def report(found: dict[str, Any]) -> str:
    """Return the page of results."""
    parts = {name: f"{1e6 * seconds:.0f}" for name, seconds in found["copied_first"].items() if name != "n"}
    return "\n".join(
        [
            f"# A persistent product in Gluon against cuBLAS, {found['machine']}",
            "",
            f"{found['date']}, torch {found['torch']}, triton {found['triton']}, bfloat16 but for float8, random data. `ratio` is "
            "torch.matmul's time / the kernel's, median of interleaved pairs ± median absolute deviation. All results are within the "
            "budget of unit 05's exercise. Where rows begin at no multiple of 16 bytes, a and b are copied into rows that do, and the "
            "result is copied back: all three copies are in the time.",
            "",
            "| M x K x N | what | TFLOP/s | torch's TFLOP/s | ratio |",
            "| --- | --- | --- | --- | --- |",
            *map(line, found["rows"]),
            "",
            f"{found['copied_first']['n']} cubed, in microseconds: torch {parts['torch']}, ours {parts['whole']}. Each alone: copies of a "
            f"and b {parts['copy_in']}, the product of the copies {parts['product']}, the copy of its result {parts['copy_out']}.",
            "",
            *beside_peers(found["rows"]),
        ]
    )


def beside_peers(rows: list[dict[str, Any]]) -> list[str]:
    """Return a table of everybody's speed as a share of cuBLAS's; nothing where no peer was there."""
    names = list(dict.fromkeys(name for row in rows for name in row.get("peers", {})))
    if not names:
        return []
    lines = ["## Beside peers: cuBLAS's time / theirs", "", f"| M x K x N | what | ours | {' | '.join(names)} |"]
    lines.append("| --- " * (3 + len(names)) + "|")
    for row in rows:
        if shares := row.get("peers"):
            theirs = [f"{share:.3f}" if type(share) is float else str(share or "") for share in map(shares.get, names)]
            ours = f"{row['ratio']:.3f}" if row["right"] else "wrong"
            lines.append(f"| {row['size']} | {row['what']} | {ours} | {' | '.join(theirs)} |")
    return [*lines, ""]


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("This benchmark needs a Hopper GPU, sm_90: its kernel is written for it.")
        return 0
    found = {"machine": torch.cuda.get_device_name(), "date": date.today().isoformat()}
    found |= {"torch": torch.__version__, "triton": triton.__version__, "copied_first": copied_first(4097), "rows": []}
    for row in chain(measured(), measured_in_8_bits()):
        print(line(row), flush=True)
        found["rows"].append(row)
    text = report(measurements.write("matmul", found))
    (ROOT / "benchmarks" / "results" / "matmul.md").write_text(text)
    print(text)
    return 0 if all(row["right"] for row in found["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
