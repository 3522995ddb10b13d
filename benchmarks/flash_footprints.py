"""Bytes that a plain FlashAttention forward moves, traced: course_lib/hardware/measured/flash_footprints.json.

    python benchmarks/flash_footprints.py      traces all configurations anew and writes the file; needs no GPU

Unit 08's `flash_bytes` is judged against these numbers; tests/unit/test_exercises_attention.py traces them again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import torch
import triton
from course_kernels import flash_forward

from course_lib.hardware import measurements
from tritontrace.tracing import trace

TABLE = measurements.path("flash_footprints")
COLUMNS = ["n", "d", "bm", "bn", "itemsize", "causal", "bytes"]


def configurations() -> Iterator[tuple]:
    """(n, d, bm, bn, itemsize, causal): whole and ragged lengths, square and oblong tiles."""
    for n in (33, 128, 130, 200, 256):
        for d, itemsize in ((64, 2), (32, 2), (32, 4), (16, 4)):
            for bm, bn in ((64, 64), (32, 64), (64, 32), (16, 32), (128, 32), (32, 128)):
                yield from ((n, d, bm, bn, itemsize, causal) for causal in (False, True))


def traced_bytes(n: int, d: int, bm: int, bn: int, itemsize: int, causal: bool) -> int:
    """Bytes loaded and stored for one head of n queries and keys of d elements."""
    g = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(n, d, generator=g).to({2: torch.float16, 4: torch.float32}[itemsize]) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(n)
    with trace() as t:
        flash_forward[(triton.cdiv(n, bm), 1)](q, k, v, o, lse, d**-0.5, n, D=d, BLOCK_M=bm, BLOCK_N=bn, CAUSAL=causal)
    return t.bytes


def main() -> None:
    rows = [[*c, traced_bytes(*c)] for c in configurations()]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    TABLE.write_text(f'{{"columns": {json.dumps(COLUMNS)},\n"rows": [\n{lines}\n]}}\n')
    print(f"{len(rows)} configurations written to {TABLE.name}")


if __name__ == "__main__":
    main()
