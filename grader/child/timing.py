"""The timed half in a sandbox of its own, the only one that sees the GPU.

`python -m grader.child.timing` confines itself, takes its share of the GPU's memory, and is course_lib.observe.timed from then
on. It holds the exercise and its oracle, and runs no Python of a student's: kernels, as Triton compiled them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import torch

from course_lib.observe import timed
from grader.child import sandbox
from grader.child.zygote import remove

GPU_BYTES = 24 << 30  # that torch may allocate; a timed case needs a few GB
FREE_BYTES = 2 << 30  # with less no timing starts: another process, or one that has lingered, holds the rest


def run(message: bytes) -> subprocess.CompletedProcess:
    """Run the process that timed.measure asks for: it reads the message and writes a Timing. Raises TimeoutExpired if
    it does not.

    One at a time on each GPU, whoever asks: two that share it would measure each other.
    """
    folder = tempfile.mkdtemp(prefix="grader-")
    try:
        with alone_on_the_gpu():
            return _run(message, folder)
    finally:
        remove(folder)


@contextlib.contextmanager
def alone_on_the_gpu() -> Iterator[None]:
    """Waits until no other process of this account on this machine is inside, for the same CUDA_VISIBLE_DEVICES."""
    devices = re.sub(r"\W", "_", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    with open(os.path.join(tempfile.gettempdir(), f"grader-{os.getuid()}-gpu-{devices}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # it goes with this process, however that ends
        yield


def _run(message: bytes, folder: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        sandbox.wrap([sys.executable, "-P", "-m", "grader.child.timing"], gpu=True),
        input=message,
        capture_output=True,
        timeout=timed.SECONDS,
        env=sandbox.environment(folder),
        start_new_session=True,
    )


def main() -> None:
    """Confine this process, then time what the message asks for."""
    sandbox.become_nobody()
    folder = tempfile.mkdtemp()
    os.environ |= {"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}
    tempfile.tempdir = folder
    sandbox.confine(folder, cpu_seconds=int(4 * timed.SECONDS), gpu=True)

    free, total = torch.cuda.mem_get_info()
    if free < FREE_BYTES:
        sys.exit(f"{free / 1e9:.1f} GB of the GPU's {total / 1e9:.0f} GB are free, another process holds the rest")
    torch.cuda.set_per_process_memory_fraction(min(1.0, GPU_BYTES / total))
    timed.main()


if __name__ == "__main__":
    main()
