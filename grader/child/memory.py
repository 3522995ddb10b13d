"""Memory of this machine and of processes, as the kernel counts it."""

from __future__ import annotations

import contextlib
from pathlib import Path

WORKER = 1000 << 20
"""Bytes that a worker and its zygote may hold between two submissions; one that holds more is replaced by a new one."""
COMMAND = 600 << 20
"""Bytes of the command itself: the gradebook, a notebook, its page."""

_CGROUP = Path("/sys/fs/cgroup")


def resident(pid: int) -> int:
    """Count the bytes in memory of a process and its descendants (proportional set size); 0 once it is gone."""
    total = 0
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total = 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        total += sum(resident(int(child)) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return total


def free() -> int:
    """Count the bytes that new processes can still take: of the machine, or of the container if that has less."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = 1024 * int(fields["MemAvailable"].split()[0])
    with contextlib.suppress(OSError, ValueError):  # no container, or one without a limit: "max"
        most, taken = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        available = min(available, most - taken)
    return available
