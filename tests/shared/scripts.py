"""Scripts for tests: those of benchmarks/ and research/, and one that launches a kernel."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# which `strides trace` counts: 4,000 bytes in, 4,000 out
COPY = """
import torch, triton, triton.language as tl

@triton.jit
def copy(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)

x = torch.ones(1000)
copy[(8,)](x, torch.empty_like(x), 1000, BLOCK=128)
"""


@contextmanager
def imported(*names: str) -> Iterator[list[Any]]:
    """Import scripts of benchmarks/ and research/ as they import one another, by their bare names; in the end sys.path is as it was."""
    before = list(sys.path)
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "research")]
    try:
        yield [import_module(name) for name in names]
    finally:
        sys.path[:] = before
