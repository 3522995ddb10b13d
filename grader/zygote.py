"""torch and Triton imported, no secrets: forks the processes that record and replay.

    judge  ──request──▶  zygote  ──fork──▶  child (Landlock, limits): records, or replays
           ◀───reply───          ◀──bytes──

Requests and replies are messages of course_lib.observe.wire, each with its length before it. `python -m grader.zygote`
speaks over standard input and output; `Zygote` is the judge's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from typing import Any

from grader import ROOT, sandbox

GRACE = 20.0  # seconds that a reply may take beyond the child's own limit; starting a zygote takes some
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
MEMORY = 4 << 30  # bytes of address space that a child may add


class Zygote:
    """A zygote process, started when first asked, restarted if lost."""

    def __init__(self) -> None:
        self.process: subprocess.Popen | None = None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to a request: {"result", "printed", "error"}; error is one sentence or ""."""
        from course_lib.observe import wire

        message = wire.pack(request)
        for attempt in (1, 2):
            process = self._started()
            try:
                process.stdin.write(struct.pack("<Q", len(message)) + message)
                process.stdin.flush()
                return wire.unpack(_receive(process.stdout, time.monotonic() + request["seconds"] + GRACE))
            except (BrokenPipeError, EOFError, TimeoutError, wire.WireError):
                self.close()
                if attempt == 2:
                    return {"result": None, "printed": "", "error": "the grading process was lost", "lost": True}
        raise AssertionError("unreachable")

    def _started(self) -> subprocess.Popen:
        if self.process is None or self.process.poll() is not None:
            command = sandbox.wrap([sys.executable, "-m", "grader.zygote"])
            environment = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
            # few threads: a class is graded by many processes; no bytecode: the system is read-only
            environment |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
            environment |= {"HOME": "/tmp", "TRITON_CACHE_DIR": "/tmp/triton"}
            if "LD_LIBRARY_PATH" in os.environ:
                environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self.process

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def _receive(stream: Any, deadline: float = math.inf) -> bytes:
    """One message, read past the stream's own buffer. EOFError if it ends, TimeoutError if it does not come by the deadline."""

    def read(count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
            if not select.select([stream], [], [], left)[0]:
                raise TimeoutError
            part = os.read(stream.fileno(), min(count - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    (length,) = struct.unpack("<Q", read(8))
    return read(length)


# ---------------------------------------------------------------------------------------------- the zygote itself


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do one request in a child of its own."""
    from course_lib import observe
    from course_lib.observe import child
    from course_lib.observe.record import load

    folder = tempfile.mkdtemp(prefix="exercise-")
    seconds = request["seconds"]

    def prepare() -> None:
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        sandbox.confine(folder, cpu_seconds=int(2 * seconds) + 5)

    def work() -> Any:
        if request["role"] == "record":
            sys.modules["course_lib.exercises"] = None  # where Landlock is missing, the import at least fails
            entry = load([tuple(cell) for cell in request["cells"]], request["entry"])
            return observe.record_all(entry, request["inputs"])
        options = {name: request[name] for name in ("kernel", "allows", "compile_seconds", "compile_every")}
        return observe.replay_all(request["logs"], request["inputs"], request["names"], **options)

    try:
        result, printed = child.run(work, seconds=seconds, memory=MEMORY, prepare=prepare)
        return {"result": result, "printed": printed, "error": ""}
    except (ValueError, child.ChildLost) as error:
        return {"result": None, "printed": "", "error": str(error)}
    finally:
        _end_orphans()
        shutil.rmtree(folder, ignore_errors=True)


def _end_orphans() -> None:
    """Kill what a child left behind in sessions of its own: as a subreaper this process has inherited it."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            orphans = [int(pid) for pid in children.read().split()]
        if not orphans:
            return
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            os.waitpid(pid, 0)


def main() -> None:
    import torch

    from course_lib.compiled import warm_up
    from course_lib.observe import wire

    torch.set_num_threads(1)
    warm_up()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # nothing but replies goes to the judge
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            reply = wire.pack(answer(wire.unpack(_receive(requests))))
            replies.write(struct.pack("<Q", len(reply)) + reply)
            replies.flush()


if __name__ == "__main__":
    main()
