"""Scripts of benchmarks/ and research/, for tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def imported(*names: str) -> Iterator[list[Any]]:
    """Import scripts of benchmarks/ and research/ as they import one another, by their bare names; in the end sys.path is as it was."""
    before = list(sys.path)
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "research")]
    try:
        yield [import_module(name) for name in names]
    finally:
        sys.path[:] = before
