"""One process at a time has the GPU, and answers one message there (gpu_process.py).

A CUDA fault costs that process alone, never the notebook or the judge.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator

COMMAND = (sys.executable, "-m", "course_lib.execution.gpu_process")
PATIENCE = 5.0  # seconds that a notebook waits for a card that others hold
# trap: the process may not wait for the end of its input. A fork of this one holds the pipe, too, and may live on
LENGTH = struct.Struct("<Q")  # before a message
Runner = Callable[[bytes, float], subprocess.CompletedProcess]
"""(message, seconds) -> the process that had it. It raises TimeoutExpired, with what was written until then, or Busy."""


PLACES = 100  # of the queue that are told apart


class Busy(RuntimeError):
    """Raised where other processes hold the GPU for longer than this process waits. waiting: how many others wait for it, too."""

    def __init__(self, waiting: int = 0) -> None:
        super().__init__(waiting)
        self.waiting = waiting


def run(message: bytes, seconds: float) -> subprocess.CompletedProcess:
    """Send the message to a new process that alone holds the GPU; return that process. Raises TimeoutExpired, or Busy after PATIENCE
    seconds."""
    return Interruptible()(message, seconds)


class Interruptible:
    """`run` as an object that another thread can interrupt: then TimeoutExpired is raised, too, and the GPU is free."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._process: subprocess.Popen | None = None

    def end(self) -> None:
        self._over.set()
        if self._process is not None:
            self._process.kill()

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    def __call__(self, message: bytes, seconds: float) -> subprocess.CompletedProcess:
        with alone(PATIENCE), _take_prepared() or _start() as process:
            self._process = process
            if self.ended:  # before there was a process to kill
                process.kill()
            # trap: one call. Another `communicate`, after one that was late, does not write what is left of a long message
            try:
                written = process.communicate(framed(message), timeout=seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if self.ended:
            raise subprocess.TimeoutExpired(COMMAND, seconds, *written)
        return subprocess.CompletedProcess(COMMAND, process.returncode, *written)


def framed(message: bytes) -> bytes:
    """Prefix a message with its length, as the GPU process reads and writes it."""
    return LENGTH.pack(len(message)) + message


def _start() -> subprocess.Popen:
    """A process that waits for its message; it finds what this one can import."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


_prepared: list[subprocess.Popen] = []  # at most one


def prepare() -> None:
    """Start the process for the next run, if none waits: it imports torch, which takes seconds, while this one traces. It touches no
    GPU before its message has come."""
    if (process := _take_prepared()) is None:
        process = _start()
    _prepared.append(process)


def _take_prepared() -> subprocess.Popen | None:
    """The process that waits, unless it has ended."""
    while _prepared:
        process = _prepared.pop()
        if process.poll() is None:
            return process
        process.communicate()
    return None


@contextlib.contextmanager
def alone(patience: float | None = None) -> Iterator[None]:
    """Hold this machine's GPU lock, for the same CUDA_VISIBLE_DEVICES: two processes that share a GPU would measure each other. patience:
    seconds after which Busy is raised; None waits for as long as it takes."""
    devices = re.sub(r"\W", "_", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    descriptor = _lock_file(os.path.join(tempfile.gettempdir(), f"gpu-{devices}.lock"))
    try:
        _lock(descriptor, patience)
        yield
    finally:
        os.close(descriptor)  # and with it the lock, however this process ends


# trap: in a folder for all, Linux refuses to create what is there and somebody else's (fs.protected_regular)
def _lock_file(path: str) -> int:
    """A descriptor of the file that all accounts lock."""
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
            os.fchmod(descriptor, 0o666)
            return descriptor
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW)


def _lock(descriptor: int, patience: float | None) -> None:
    if patience is None:
        return fcntl.flock(descriptor, fcntl.LOCK_EX)
    deadline = time.monotonic() + patience
    place = next((place for place in range(PLACES) if _take(descriptor, place)), PLACES)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fcntl.lockf(descriptor, fcntl.LOCK_UN)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
        if time.monotonic() > deadline:
            raise Busy(sum(not _is_free(descriptor, other) for other in range(PLACES) if other != place))
        time.sleep(0.05)


def _take(descriptor: int, place: int) -> bool:
    """Take a place in the queue, a byte of the lock file, which is free again when its process closes that file."""
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError:
        return False
    return True


def _is_free(descriptor: int, place: int) -> bool:
    if free := _take(descriptor, place):
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)
    return free
