"""The process that has the GPU: it runs recorded logs there, and nothing of a student's but kernels as Triton compiled them.

`python -m course_lib.execution.gpu_process` reads one message and writes what comes of it: on_gpu.py asks whether results are right
on the GPU, timed.py how fast they come.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from typing import BinaryIO

from course_lib.execution import gpu_lock, on_gpu, timed
from tritontrace.replay import wire

ANSWERS = {"run": on_gpu.run_here, "time": timed.time_for}


def respond(message: bytes, answer: BinaryIO) -> None:
    """Carry out the request in a message, and write the response."""
    request = wire.unpack(message)
    ANSWERS[request.pop("asked")](answer, **request)


def run_in_this_process(message: bytes, seconds: float) -> subprocess.CompletedProcess:
    """Answer a message here, as a card.Runner: for benchmarks, whose process has the GPU already. Nothing limits its time."""
    answer = io.BytesIO()
    respond(message, answer)
    return subprocess.CompletedProcess([], 0, answer.getvalue(), b"")


def main() -> None:
    """Read a request from stdin, carry it out, and write the response to stdout. Does nothing if no request comes."""
    if len(length := sys.stdin.buffer.read(gpu_lock.LENGTH.size)) < gpu_lock.LENGTH.size:
        return
    message = sys.stdin.buffer.read(*gpu_lock.LENGTH.unpack(length))
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a kernel prints (tl.device_print) is not the answer
    respond(message, answer)


if __name__ == "__main__":
    main()
