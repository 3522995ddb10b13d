"""The process that has the GPU, in a sandbox of its own, the only one that sees it.

`python -m grader.child.gpu_child` confines itself, takes its share of the GPU's memory, and is course_lib.execution.gpu_process from then
on. It runs no Python of a student's: kernels, as Triton compiled them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import torch

from course_lib.execution import gpu_lock, gpu_process, timed
from grader.child import sandbox
from grader.child.zygote import remove

GPU_BYTES = 24 << 30  # that torch may allocate; a timed case needs a few GB
FREE_BYTES = 2 << 30  # with less nothing starts: another process, or one that has lingered, holds the rest


def run(message: bytes, seconds: float) -> subprocess.CompletedProcess:
    """Send the message to a confined process that alone holds the GPU, waiting for its turn. Raises TimeoutExpired."""
    folder = tempfile.mkdtemp(prefix="grader-")
    try:
        with gpu_lock.alone():
            return subprocess.run(
                sandbox.wrap([sys.executable, "-P", "-m", "grader.child.gpu_child"], gpu=True),
                input=gpu_lock.framed(message),
                capture_output=True,
                timeout=seconds,
                env=sandbox.environment(folder),
                start_new_session=True,
            )
    finally:
        remove(folder)


def main() -> None:
    """Confine this process, then carry out the request on stdin."""
    sandbox.become_nobody()
    folder = tempfile.mkdtemp()
    os.environ |= {"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}
    tempfile.tempdir = folder
    sandbox.confine(folder, cpu_seconds=int(4 * timed.SECONDS), gpu=True)

    free, total = torch.cuda.mem_get_info()
    if free < FREE_BYTES:
        sys.exit(f"{free / 1e9:.1f} GB of the GPU's {total / 1e9:.0f} GB are free, another process holds the rest")
    torch.cuda.set_per_process_memory_fraction(min(1.0, GPU_BYTES / total))
    gpu_process.main()


if __name__ == "__main__":
    main()
