"""Measure what a launch costs the host, on a GPU: `python benchmarks/launches.py`, ten seconds. A kernel that takes less than its launch
waits for the host. Sizes are small, so that no call waits for the GPU. The table goes to benchmarks/results/launches.md.
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
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import attention_backward_overlapped  # noqa: E402
import attention_overlapped  # noqa: E402
import matmul_persistent  # noqa: E402


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
    values = (*matmul_persistent.descriptors(a, b, c, False, False), None, None, 256, 256, 256)
    constants = {"A_T": False, "B_T": False, "SCALED": False, "num_warps": 4}
    backward = attention_backward_overlapped.launch
    given = (q, k, v, *attention_overlapped.launch(q, k, v, False), do, False)
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
    yield "attention_overlapped.launch, four descriptors", partial(attention_overlapped.launch, q, k, v, False)
    yield "attention_backward_overlapped.launch, eight descriptors, three kernels", partial(backward, *given)
    yield "the same as a CUDA graph", replayed(partial(backward, *given))


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
        ]
    )
    (ROOT / "benchmarks" / "results" / "launches.md").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
