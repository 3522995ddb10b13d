"""Measure what a launch costs the host, and from which size on a kernel is fast, on a GPU: `python benchmarks/launches.py`, 20 seconds.

A kernel that takes less than its launch waits for the host; sizes in the first table are small, so that no call waits for the GPU. In the
second one the host is ahead of the GPU, as in tritontrace.profiling.bench. The tables go to benchmarks/results/launches.md.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

import attention_backward_overlapped  # noqa: E402
import attention_decode_registers  # noqa: E402
import attention_in_turns  # noqa: E402
import matmul_persistent  # noqa: E402
from attention_contenders import flops, in_turns  # noqa: E402

ENOUGH = 0.9  # of the speed at the largest size


def microseconds(call: Callable[[], object], times: int = 200, rounds: int = 7) -> tuple[float, float]:
    """Return the host's microseconds per call, median of rounds, and their median absolute deviation."""
    found = []
    for _ in range(rounds + 1):  # the first one compiles
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            call()
        found.append(1e6 * (time.perf_counter() - start) / times)
    middle = statistics.median(found[1:])
    return middle, statistics.median(abs(each - middle) for each in found[1:])


def replayed(call: Callable[[], object]) -> Callable[[], object]:
    """Record what a call launches into a CUDA graph. Returns its replay."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call()
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            call()
    return graph.replay


def calls() -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield (what it is, a call)."""
    a, b, c = (torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    q, k, v, do = (torch.randn(1, 2, 256, 128, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    values = (*matmul_persistent.descriptors(a, b, c, False, False), *[None] * 5, 256, 256, 256)
    constants = {"A_T": False, "B_T": False, "SCALED": False, "num_warps": 4}
    backward = attention_backward_overlapped.launch
    given = (q, k, v, *attention_in_turns.launch(q, k, v, False), do, False)
    yield "torch.empty", partial(torch.empty, 256, 256, device="cuda")
    yield "torch.matmul into a given result", partial(torch.matmul, a, b, out=c)
    yield "a Triton kernel of 9 arguments", partial(matmul_persistent.copied, a, c, 256)
    yield "three TMA descriptors", partial(matmul_persistent.descriptors, a, b, c, False, False)
    yield (
        "a Gluon kernel with three descriptors, made before",
        partial(matmul_persistent.persistent[(1,)], *values, **constants),
    )
    yield "matmul_persistent.product, all in all", partial(matmul_persistent.product, a, b)
    yield "the same as a CUDA graph", replayed(partial(matmul_persistent.product, a, b))
    yield "attention_in_turns.launch, four descriptors", partial(attention_in_turns.launch, q, k, v, False)
    yield "attention_backward_overlapped.launch, eight descriptors, three kernels", partial(backward, *given)
    yield "the same as a CUDA graph", replayed(partial(backward, *given))


Sized = tuple[str, float, Callable[[], object]]  # what the size is, its FLOPs or bytes, a call


def cubes() -> Iterator[Sized]:
    for n in (512, 768, 1024, 1536, 2048, 3072, 4096, 8192):
        a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        yield f"{n} cubed", 2.0 * n**3, partial(matmul_persistent.product, a, b)


def texts(causal: bool, backward: bool) -> Iterator[Sized]:
    for n in (256, 512, 1024, 2048, 4096, 8192, 16384):
        q, k, v, do = (torch.randn(1, 16, n, 128, device="cuda", dtype=torch.bfloat16) for _ in range(4))
        if backward:
            o, lse = attention_in_turns.launch(q, k, v, causal)
            call = partial(attention_backward_overlapped.launch, q, k, v, o, lse, do, causal)
        else:
            call = partial(attention_in_turns.launch, q, k, v, causal)
        yield f"{n} tokens", (2.5 if backward else 1.0) * flops(q, causal), call


def caches() -> Iterator[Sized]:
    for n in (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072):
        q = torch.randn(1, 32, 128, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(1, 8, n, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        yield f"{n} keys", 2.0 * k.nbytes, partial(attention_decode_registers.launch, q, k, v, n)


SERIES: dict[str, Callable[[], Iterator[Sized]]] = {
    "matmul_persistent.product": cubes,
    "attention_in_turns, full": partial(texts, False, False),
    "attention_in_turns, causal": partial(texts, True, False),
    "attention_backward_overlapped, full": partial(texts, False, True),
    "attention_backward_overlapped, causal": partial(texts, True, True),
    "attention_decode_registers, 8 heads of k and v": caches,
}


def first_fast() -> Iterator[str]:
    """Yield a row for each kernel: the first size from which on it has ENOUGH of its speed, and the first that outlasts its launch."""
    for name, series in SERIES.items():
        sizes = list(series())
        ms = in_turns({size: call for size, _, call in sizes})
        speed = {size: work / ms[size] / 1e9 for size, work, _ in sizes}  # T a second
        best = speed[sizes[-1][0]]
        slow = [i for i, (size, _, _) in enumerate(sizes) if speed[size] < ENOUGH * best]
        fast = sizes[max(slow, default=-1) + 1][0]
        host, _ = microseconds(sizes[0][2])
        longer = next((size for size, _, _ in sizes if 1e3 * ms[size] > host), "none of them")
        found = (f"{sizes[0][0]} to {sizes[-1][0]}", fast, f"{speed[fast]:.3g} of {best:.3g}", f"{1e3 * ms[fast]:.0f}")
        yield f"| {name} | {' | '.join(found)} | {host:.0f} | {longer} |"


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
        print("This benchmark needs a Hopper GPU, sm_90: its kernels are written for it.")
        return 0
    rows = [(what, *microseconds(call)) for what, call in calls()]
    text = "\n".join(
        [
            f"# What a launch costs the host, {torch.cuda.get_device_name()}",
            "",
            f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}. Host microseconds per call, median "
            "of seven rounds of 200 calls ± median absolute deviation. The host is part of the number as much as the software.",
            "",
            "| call | us |",
            "| --- | --- |",
            *(f"| {what} | {middle:.1f} ± {spread:.1f} |" for what, middle, spread in rows),
            "",
            "## From which size on a kernel is fast",
            "",
            f"The first size from which on a kernel has {ENOUGH} of its speed at the largest size, in TFLOP/s or TB/s; the GPU's time "
            "there, median of rounds in turns with a cold L2; what the host needs for a call; and the first size at which the GPU needs "
            "longer than the host. Below that one a graph, or fewer launches, is what helps. Attention: one text, 16 heads, D 128.",
            "",
            "| kernel | sizes | first fast one | T/s | GPU, us | host, us | GPU longer than host from |",
            "| --- | --- | --- | --- | --- | --- | --- |",
            *first_fast(),
            "",
        ]
    )
    (ROOT / "benchmarks" / "results" / "launches.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
