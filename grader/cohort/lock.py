"""One grader at a time on a home."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(home: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the home's file lock; waiting() is called first if another process has it. The system releases it when its process dies."""
    with (home / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
