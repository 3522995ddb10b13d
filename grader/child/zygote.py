"""torch and Triton imported, no secrets: forks the processes that record, replay and evaluate.

    judge  ──request──▶  zygote  ──fork──▶  child (Landlock, seccomp, limits): records, or replays
           ◀───reply───          ◀──bytes──

A recorder runs the student's host code and may start no process; a replayer runs kernels alone and may start Triton's
assembler. Neither sees the network, another submission, the secret or the GPU.

A request and a reply are two messages each of tritontrace.replay.wire, with their lengths before them: one that the zygote
reads, and one that it hands on unread. `python -m grader.child.zygote`
speaks over standard input and output; `Zygote` is the judge's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import math
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from typing import IO, Any

from grader.child import fork_server, sandbox

GRACE = 20.0  # seconds that a reply may take beyond the child's own limit; starting a zygote takes some
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
MEMORY = 4 << 30  # bytes of address space that a child may add
REMOVING = 2.0  # seconds on the clock that a reply waits until what a child has written is gone
WAITING = 3.0  # seconds on the clock that a recorder may sleep; a replayer, which runs no host code, waits for compilers alone


class Zygote:
    """A zygote process, started when first asked, restarted if lost. door: of a nursery that forks it; else it starts by itself."""

    def __init__(self, door: socket.socket | None = None) -> None:
        self.process: subprocess.Popen | Forked | None = None
        self.door = door
        self.folder = ""  # the zygote's own, where bubblewrap gives it none
        self.complaints: IO[bytes]  # what it says on its standard error

    @property
    def forked(self) -> int:
        """The number of the process if a nursery has forked it, else 0."""
        return 0 if self.process is None or isinstance(self.process, subprocess.Popen) else self.process.pid

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the zygote and return its reply: {"result", "error", "spent", "used"}; error is a message or "". With a
        sentence comes its "cause"; if the zygote itself was lost, there is no "spent".

        spent: seconds of CPU by phase, as the child says; used: all of them, as the zygote has measured them.

        A request has a role, "record", "replay", "evaluate", "look" or "warm" (see WarmReplayer), seconds of CPU, compile_seconds on the
        clock if it is to replay, and parts: what record_all, replay_all, exactly.evaluated or smallest.looked_for takes for each answer.
        """
        from course_lib.execution.calls import WITHOUT_DATA
        from tritontrace.replay import child, wire
        from tritontrace.results import Cause

        order = {name: value for name, value in request.items() if name != "parts"}
        order["without"] = sorted({module for part in request["parts"] for module in part.get("without", ())})
        order["without_data"] = any(part.get("called") in WITHOUT_DATA for part in request["parts"])
        parts = wire.pack(request["parts"])
        for attempt in (1, 2):
            deadline = time.monotonic() + child.PATIENCE * request["seconds"] + GRACE
            process = self._started(deadline)
            try:
                send(process.stdin, wire.pack(order), parts)
                told = wire.unpack(receive(process.stdout, deadline))
                return _opened(told, receive(process.stdout, deadline))
            except (BrokenPipeError, EOFError, TimeoutError, wire.WireError):
                last_words = self._last_words(process)
                self.close()
                if attempt == 2:
                    error = f"the grading process was lost{last_words}"
                    return {"result": None, "error": error, "cause": Cause("grader_failed"), "used": 0.0}
        raise AssertionError("unreachable")

    def _started(self, deadline: float) -> subprocess.Popen | Forked:
        if self.process is None or self.process.poll() is not None:
            self.close()
            self.complaints = tempfile.TemporaryFile()  # noqa: SIM115  open as long as the process
            self.process = self._forked(deadline)
        if self.process is None:
            self.folder = tempfile.mkdtemp(prefix="grader-")
            self.removed = weakref.finalize(self, remove, self.folder)  # also when nobody closes this
            self.process = subprocess.Popen(
                # -P: where the instructor stands, a submission's folder perhaps, is no place to import from
                sandbox.wrap([sys.executable, "-P", "-m", "grader.child.zygote"]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.complaints,
                env=sandbox.environment(self.folder),
                start_new_session=True,  # Ctrl-C is the judge's
            )
        return self.process

    def _forked(self, deadline: float) -> Forked | None:
        """A zygote of the nursery; None if there is no nursery, or none any more."""
        try:
            return self.door and Forked(self.door, self.complaints, deadline)
        except (OSError, EOFError):
            self.door = None
            return None

    def _last_words(self, process: subprocess.Popen | Forked) -> str:
        """The last line of the lost process's complaints, in brackets; "" if it has not complained."""
        process.kill()
        process.wait()
        self.complaints.seek(max(0, self.complaints.seek(0, os.SEEK_END) - 10_000))
        lines = self.complaints.read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1][:300]})" if lines else ""

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            for pipe in filter(None, (self.process.stdin, self.process.stdout, self.complaints)):
                pipe.close()
            self.process = None
        if self.folder:
            self.removed()
            self.folder = ""


class Forked:
    """A zygote that a nursery has forked, with the part of Popen's face that is made use of. Raises OSError or EOFError if there is no
    nursery any more, or if it gives no answer by the deadline."""

    def __init__(self, door: socket.socket, complaints: IO[bytes], deadline: float) -> None:
        (asked, requests), (replies, answered) = os.pipe(), os.pipe()
        self.stdin, self.stdout = os.fdopen(requests, "wb"), os.fdopen(replies, "rb")
        try:
            fork_server.ask(door, asked, answered, complaints.fileno())
        finally:
            os.close(asked)
            os.close(answered)
        self.pid = int(receive(self.stdout, deadline))
        self.descriptor = os.pidfd_open(self.pid)  # a number may become another process's, a descriptor does not
        weakref.finalize(self, os.close, self.descriptor)

    def poll(self, seconds: float | None = 0.0) -> int | None:
        """0 if it has ended, else None."""
        return 0 if select.select([self.descriptor], [], [], seconds)[0] else None

    def wait(self) -> None:
        """Wait for its end."""
        self.poll(None)

    def kill(self) -> None:
        """End it, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)


def send(stream: Any, *messages: bytes | bytearray) -> None:
    """Write messages, each with its length before it."""
    for message in messages:
        stream.write(struct.pack("<Q", len(message)))
        stream.write(message)
    stream.flush()


def receive(stream: Any, deadline: float = math.inf) -> bytearray:
    """One message, read past the stream's own buffer. Raises EOFError if it ends, TimeoutError if it does not come by the deadline."""

    def read(count: int) -> bytearray:
        parts = bytearray()
        while len(parts) < count:
            left = None if deadline == math.inf else max(0.0, deadline - time.monotonic())
            if not select.select([stream], [], [], left)[0]:
                raise TimeoutError
            part = os.read(stream.fileno(), min(count - len(parts), 1 << 20))
            if not part:
                raise EOFError
            parts += part
        return parts

    (length,) = struct.unpack("<Q", read(8))
    return read(length)


def _opened(told: dict[str, Any], sent: bytearray) -> dict[str, Any]:
    """Make a reply of what a zygote told of a child and of the message that this child sent."""
    from tritontrace.replay import child
    from tritontrace.results import Cause

    spent, lost, used = told["spent"], told["lost"], told["used"]
    if lost:
        lost = child.ChildLost(lost["kind"], **lost["details"])
    else:
        try:
            answered, _ = child.opened(sent)
            spent = {phase: float(answered["spent"].get(phase, 0)) for phase in ("running", "tracing", "compiling")}
            return {"result": answered["value"], "error": "", "spent": spent, "used": used}
        except ValueError as words:  # in the child's own words
            return {"result": None, "error": str(words), "cause": Cause("raised"), "spent": spent, "used": used}
        except child.ChildLost as reason:
            lost = reason
        except (KeyError, TypeError, AttributeError, ArithmeticError):  # the child wrote this itself
            lost = child.ChildLost("unreadable")
    return {"result": None, "error": str(lost), "cause": lost.cause, "spent": spent, "used": used}


# ---------------------------------------------------------------------------------------------- the zygote itself


class WarmReplayer:
    """A fork of the zygote that has traced published answers, and forks the children that replay: for an equal kernel they skip the front
    end and the patterns of accesses.

    No recorder is its child. What it remembers of published kernels lies in its memory, where host code could look for it; a
    replay runs none.
    """

    def __init__(self, parts: bytes | bytearray) -> None:
        (asked, requests), (replies, answered) = os.pipe(), os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                fork_server.only([asked, answered])
                fork_server.end_with_parent()
                _trace(parts)
                serve(os.fdopen(asked, "rb"), os.fdopen(answered, "wb"))
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)
        self.requests, self.replies = os.fdopen(requests, "wb"), os.fdopen(replies, "rb")
        _spared.add(self.pid)

    def answer(self, order: dict[str, Any], parts: bytes | bytearray) -> tuple[dict[str, Any], bytearray]:
        """Run answer() in that process. Raises EOFError or BrokenPipeError if it is gone."""
        from tritontrace.replay import wire

        send(self.requests, wire.pack(order), parts)
        return wire.unpack(receive(self.replies)), receive(self.replies)

    def close(self) -> None:
        """Kill the process, if it has not ended."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        _spared.discard(self.pid)
        for pipe in (self.requests, self.replies):
            with contextlib.suppress(OSError):  # what it was not sent yet
                pipe.close()


_spared: set[int] = set()  # children of this process that are not a submission's


def _trace(parts: bytes | bytearray) -> None:
    from course_lib import execution
    from tritontrace.replay import wire

    with contextlib.suppress(Exception):  # then it is as cold as the zygote, and no worse
        execution.replay_once(wire.unpack(parts))
    gc.collect()
    gc.freeze()


def answer(order: dict[str, Any], parts: bytes | bytearray) -> tuple[dict[str, Any], bytes]:
    """Run one request, for one answer or several of one student, in a child of its own. Return the facts about it (lost: why no message
    came; spent; used) and the child's message, unread.

    The parts and the message are not read here: the child and the judge open them.
    """
    from course_lib import execution
    from course_lib.execution import exactly
    from course_lib.execution.calls import COMPARES_SHAPES
    from tritontrace.replay import child, wire

    if order["without_data"]:  # here, once, and not in each child
        importlib.import_module(COMPARES_SHAPES)
    sandbox.shown_without(tuple(order["without"]), gpu=False)
    folder = tempfile.mkdtemp(prefix="exercise-")
    seconds, within = order["seconds"], order.get("compile_seconds", 0.0)
    recording = order["role"] in ("record", "look")  # an answer's own code runs

    def prepare() -> None:
        os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        fork_server.end_with_parent()
        sandbox.confine(folder, cpu_seconds=math.ceil(seconds), compiles=not recording, without=order["without"])
        if recording:
            modules: dict[str, Any] = sys.modules
            modules["course_lib.exercises"] = None  # where Landlock is missing, the import at least fails

    def work() -> Any:
        given = wire.unpack(parts)
        match order["role"]:
            case "record":
                value = [_recorded(part) for part in given]
            case "replay":
                value = execution.replay_each(given, within)
            case "evaluate":
                value = [exactly.evaluated(**part) for part in given]
            case "look":
                value = [_looked_for(part) for part in given]
        return {"value": value, "spent": dict(execution.SPENT)}

    started = execution.cpu_seconds()
    try:
        waiting = WAITING if recording else math.inf
        sent, lost = child.message(work, seconds=seconds, waiting=waiting, memory=MEMORY, prepare=prepare), None
    except child.ChildLost as reason:
        sent, lost = b"", wire.to_tree(reason.cause)
    finally:
        _end_orphans()
        # trap: to remove a million files takes longer than a judge waits for a reply, and where there is none the grader has failed
        remove(folder, REMOVING)
    phase = "running" if recording else "tracing"
    used = execution.cpu_seconds() - started
    return {"lost": lost, "spent": {phase: used}, "used": used}, sent


def _recorded(part: dict[str, Any]) -> dict[str, Any]:
    """The logs of one answer, or a sentence and what could not be read."""
    from course_lib import execution
    from tritontrace.replay import child, load, take_away, unread

    heard, logs, error, missing = child.listen(), [], "", []
    try:
        for module in part["without"]:
            take_away(module)
        with execution.spending("running"):
            entry = load([tuple(cell) for cell in part["cells"]], part["entry"])
        asked = {name: part[name] for name in ("called", "without", "before") if name in part}
        logs = execution.record_all(entry, part["calls"], **asked)
    except ValueError as problem:
        error, missing = str(problem), unread(problem)
    return {"logs": logs, "error": error, "unread": missing, "printed": heard.text}


def _looked_for(part: dict[str, Any]) -> Any:
    """Answer of smallest.looked_for for one answer; None of one that cannot be loaded."""
    from course_lib.execution import smallest
    from tritontrace.replay import load, take_away

    cells, entry, without = (part.pop(name) for name in ("cells", "entry", "without"))
    for module in without:
        take_away(module)
    try:
        return smallest.looked_for(load([tuple(cell) for cell in cells], entry), **part)
    except ValueError:
        return None


def _end_orphans() -> None:
    """Kill what a child left behind in sessions of its own: as a subreaper this process has inherited it."""
    _removals[:] = [process for process in _removals if process.poll() is None]
    spared = _spared | {process.pid for process in _removals}
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            orphans = [pid for pid in map(int, children.read().split()) if pid not in spared]
        if not orphans:
            return
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
        for pid in orphans:
            os.waitpid(pid, 0)


def remove(folder: str, patience: float | None = None) -> None:
    """Remove the folder, also one made to resist: closed to its owner, or too deep for Python. Links are not followed. What takes longer
    than so many seconds goes on by itself."""
    with contextlib.suppress(OSError):
        return os.rmdir(folder)  # nothing in it, as most often
    process = subprocess.Popen(["sh", "-c", REMOVAL, folder], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        _removals.append(process)


REMOVAL = 'rm -rf -- "$0" || { chmod -R u+rwx -- "$0"; rm -rf -- "$0"; }'
_removals: list[subprocess.Popen] = []  # that this process has not waited for


def load() -> None:
    """Become nobody, and load all that children need: they find it there."""
    sandbox.become_nobody()
    gc.disable()  # what is loaded stays, and to look among it takes a fifth of the time that torch takes

    import torch

    from course_lib.execution import exactly, smallest  # noqa: F401
    from tritontrace import compiled
    from tritontrace.tracing import keep_it_light

    torch.set_num_threads(1)
    # each child has a cache of its own, so Triton need not hash all of itself to tell its versions apart in there
    cache: Any = importlib.import_module("triton.runtime.cache")
    cache.triton_key = lambda: ""
    compiled.warm_up()
    with contextlib.suppress(ImportError):  # an older Triton, under which no kernel in Gluon is judged
        import tritontrace.hopper  # noqa: F401
    keep_it_light()
    sandbox.packages()
    gc.freeze()  # who is forked shares it
    gc.enable()


def main() -> None:
    """Run the zygote: load torch once, then fork a child for each request."""
    load()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # nothing but replies goes to the judge
    serve(requests, replies)


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until nobody is left to ask. One to warm up is answered at once."""
    from tritontrace.replay import wire

    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    warmed: WarmReplayer | None = None
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        while True:
            order, parts = wire.unpack(receive(requests)), receive(requests)
            if order.get("role") == "warm":
                if warmed:
                    warmed.close()
                warmed = WarmReplayer(parts)
                nothing = {"result": {"value": [], "spent": {}}, "error": "", "printed": ""}
                known, sent = {"lost": None, "spent": {}, "used": 0.0}, wire.pack(nothing)
            elif warmed and order.get("role") == "replay":
                try:
                    known, sent = warmed.answer(order, parts)
                except (EOFError, BrokenPipeError, wire.WireError):  # it ended: out of memory?
                    warmed.close()
                    warmed = None
                    known, sent = answer(order, parts)
            else:
                known, sent = answer(order, parts)
            try:
                send(replies, wire.pack(known), sent)
            except BrokenPipeError:  # the judge was stopped; nobody is left to hear of it, or of what is unsent
                os._exit(0)


if __name__ == "__main__":
    main()
