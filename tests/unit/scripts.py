"""Scripts of benchmarks/, for the tests in this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@contextmanager
def imported(*names: str) -> Iterator[list[Any]]:
    """Import scripts of benchmarks/ as they import one another, by their bare names; in the end sys.path is as it was."""
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield [import_module(name) for name in names]
    finally:
        sys.path[:] = before
