"""Run a function in a forked child, so that a loop, a crash or a flood of output costs that child alone."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from tritontrace.messages import Message, MessageError, message_of, say
from tritontrace.replay import wire
from tritontrace.results import Cause, CauseKind

__all__ = ["PATIENCE", "PRINTED", "SENTENCE", "ChildLost", "listen", "message", "opened", "run"]

MAX_REPLY = 128 << 20  # bytes
SENTENCE = 1_000  # characters of an error
MOST_OF_A_MESSAGE = 4_000  # of one that is a Message, with its parameters
MOST_WORDS = 300  # of those of an exception
PRINTED = 2_000  # characters of the child's output that are kept
PATIENCE = 4  # seconds on the clock for each of CPU: a busy machine is not the author's fault


BY_SIGNAL: dict[str, CauseKind] = {"SIGXCPU": "cpu_time", "SIGKILL": "killed", "SIGSYS": "forbidden"}


class ChildLost(MessageError, RuntimeError):
    """Raised where the child gave no answer, for the reason in `cause`; str() is one sentence about the author's function."""

    def __init__(self, kind: CauseKind, **details: str) -> None:
        pointer = {"pointer": say("replay.child.pointer") if details.get("signal") == "SIGSEGV" else ""}
        super().__init__(say(f"replay.child.{kind}", **details, **(pointer if kind == "crashed" else {})))
        self.kind: CauseKind = kind
        self.cause = Cause(kind, details=details)


class Kept(io.TextIOBase):
    """Standard output of the child, cut after the first characters."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += str(text)[: PRINTED - len(self.text)]
        return len(text)


def listen() -> Kept:
    r"""Redirect this child's output into a Kept, and return it.

    >>> def work():
    ...     kept = listen()
    ...     print("hello")
    ...     return kept.text
    >>> run(work, seconds=5)
    ('hello\n', '')
    """
    kept = Kept()
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = kept
    return kept


def run(work: Callable[[], Any], *, seconds: float, **more: Any) -> tuple[Any, str]:
    r"""Compute work() in a forked child of one thread; return (its result, its output).

    work       returns a tree (see wire.py); if it raises ValueError, so does this, with the same message
    seconds    CPU time that the child may take; after PATIENCE times as long it is killed with all its children
    more       see message
    Raises ChildLost, with a sentence, if no answer comes.

    >>> run(lambda: {"answer": 42}, seconds=5)
    ({'answer': 42}, '')
    >>> run(lambda: print("hello"), seconds=5)
    (None, 'hello\n')
    """
    return opened(message(work, seconds=seconds, **more))


def message(
    work: Callable[[], Any],
    *,
    seconds: float,
    waiting: float = math.inf,
    memory: int | None = None,
    prepare: Callable[[], None] | None = None,
) -> bytes:
    """Do what `run` does, but return the child's message unread, for another process to open.

    waiting    seconds on the clock that it may spend asleep; waiting for a processor or a disk is not sleeping
    memory     bytes of address space the child may add to what this process uses now
    prepare    called in the child before work: the place for a sandbox

    >>> opened(message(lambda: [1, 2], seconds=5))
    ([1, 2], '')
    """
    sys.stdout.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            _become_child(writer, work, seconds, memory, prepare)
        finally:
            os._exit(70)
    os.close(writer)
    try:
        sent = _read(reader, time.monotonic() + PATIENCE * seconds, seconds, _Rest(pid, waiting))
    finally:
        os.close(reader)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status, used = os.wait4(pid, 0)
    if not sent:
        # SIGXCPU says that a limit was met, and what was used says which; the kernel counts in ticks
        sure = 0.5 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU else 0.95
        slow = os.WIFSIGNALED(status) and used.ru_utime + used.ru_stime >= sure * seconds
        raise ChildLost("timeout", seconds=f"{seconds:g}") if slow else _cause_of_death(status)
    return sent


def opened(sent: bytes | bytearray) -> tuple[Any, str]:
    """Read a child's message: return what `run` returns, or raise what it raises.

    >>> opened(b"no message")
    Traceback (most recent call last):
        ...
    tritontrace.replay.child.ChildLost: ...
    """
    try:
        answer = wire.unpack(sent)
        # the child may have written this itself: lengths are cut here, not there
        result, error, printed = answer["result"], _short(answer["error"]), str(answer["printed"])[:PRINTED]
        starved = answer.get("starved") is True
    except (wire.WireError, KeyError, TypeError, AttributeError):
        raise ChildLost("unreadable") from None
    if starved:
        raise ChildLost("memory")
    if error:
        raise ValueError(error)
    return result, printed


def _short(error: Any) -> str:
    """An error as it was said; of one without an id, and of a long one, the beginning of its text alone."""
    if isinstance(error, Message) and error.id and len(json.dumps(error.as_data())) <= MOST_OF_A_MESSAGE:
        return error
    return str(error)[:SENTENCE]


def _become_child(
    writer: int, work: Callable[[], Any], seconds: float, memory: int | None, prepare: Callable[[], None] | None
) -> None:
    os.setsid()
    # what the parent owned is not this child's to finalise: its descriptors are about to be closed
    gc.freeze()
    gc.set_threshold(300_000)  # the front end leaves hardly any garbage, and each search takes 70 ms
    sys.unraisablehook = lambda problem: None
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    opened_ones = "/proc/self/fd" if os.path.isdir("/proc") else "/dev/fd"  # the latter: macOS
    for descriptor in map(int, os.listdir(opened_ones)):
        if descriptor > 2 and descriptor != writer:
            with contextlib.suppress(OSError):
                os.close(descriptor)  # the parent's sockets and pipes are none of the child's business
    kept = listen()
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), math.ceil(seconds) + 2))
    if memory:
        limit = _address_space() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    answer = {"result": None, "error": ""}
    try:
        if prepare:
            prepare()
        answer["result"] = work()
    except ValueError as error:
        answer["error"] = message_of(error) or say("replay.child.failed_silently")
    except MemoryError:
        answer["starved"] = True
    except BaseException as error:
        message, whole = message_of(error), len(str(error)) <= MOST_WORDS
        words = message if message.id and whole else str(error)[:MOST_WORDS]
        answer["error"] = say("replay.child.failed", exception=type(error).__name__, words=words)
    try:
        packed = wire.pack(answer | {"printed": kept.text})
    except (TypeError, ValueError, RecursionError) as error:
        problem = say("replay.child.no_plain_data", reason=str(error))
        packed = wire.pack({"result": None, "error": problem, "printed": ""})
    view = memoryview(packed)
    while view:
        view = view[os.write(writer, view) :]
    os._exit(0)


def _address_space() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()


class _Rest:
    """The time that a process has slept, found by looking now and then. A process of which any thread is ready to run, or reads a
    disk, does not sleep."""

    EVERY = 0.1  # seconds

    def __init__(self, pid: int, most: float) -> None:
        self.tasks, self.most = f"/proc/{pid}/task", most
        self.slept, self.looked = 0.0, time.monotonic()

    def look(self) -> None:
        """Raise ChildLost if it has slept for longer than it may."""
        now = time.monotonic()
        if self.most < math.inf and self._asleep():
            self.slept += min(now - self.looked, 2 * self.EVERY)
        self.looked = now
        if self.slept > self.most:
            raise ChildLost("asleep", seconds=f"{self.most:g}")

    def _asleep(self) -> bool:
        try:
            states = set()
            for task in os.listdir(self.tasks):
                with open(f"{self.tasks}/{task}/stat") as stat:
                    states.add(stat.read().rpartition(")")[2].split()[0])
        except OSError:  # it, or a thread, has just ended; or this system tells nothing
            return False
        return states == {"S"}


def _read(reader: int, deadline: float, seconds: float, rest: _Rest) -> bytes:
    chunks, total = [], 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise ChildLost("timeout", seconds=f"{seconds:g}")
        if not select.select([reader], [], [], min(left, rest.EVERY if rest.most < math.inf else left))[0]:
            rest.look()
            continue
        chunk = os.read(reader, 1 << 20)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
        if total > MAX_REPLY:
            raise ChildLost("flood")


def _cause_of_death(status: int) -> ChildLost:
    if not os.WIFSIGNALED(status):
        return ChildLost("exited")
    name = signal.Signals(os.WTERMSIG(status)).name
    return ChildLost(BY_SIGNAL[name]) if name in BY_SIGNAL else ChildLost("crashed", signal=name)
