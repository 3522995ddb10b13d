"""Worker processes that are forked from the command that judges: torch, Triton and the course are loaded once for all of them.

    command ──fork──▶ fork server ──fork──▶ worker ◀──calls, results──▶ a thread of the command

The fork server has no threads, of which one might hold a lock while it forks. So it is forked early, before the command has any, a
gradebook or a GPU. Workers run no student code: the processes that do are never forked from them or from the command, but start by
executing Python anew (child/nursery.py), or inherit from one that did.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, Pipe
from typing import Any

from grader.child import fork_server

given: list[int] = []
"""Descriptors that this process was given when it was forked as a worker."""


class WorkerDied(RuntimeError):
    """Raised where a job's process died: killed, out of memory, crashed, or its machine was taken away."""


class ForkServer:
    """The process that forks workers, started at once; it ends when this one has closed it, or has ended."""

    def __init__(self) -> None:
        self.door, inside = socket.socketpair(*fork_server.DOOR)
        # trap: from a process that has used CUDA no other that can is forked
        self.pid = os.fork()
        if self.pid == 0:
            try:
                gc.freeze()  # what the command owned is not for its forks to finalise
                fork_server.only([inside.fileno()])
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the command's
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                fork_server.serve(inside, _work)
            finally:
                os._exit(0)
        inside.close()

    def worker(self, *given: int) -> WorkerProcess:
        """Fork a worker that is given these descriptors."""
        return WorkerProcess(self.door, *given)

    def close(self) -> None:
        """End it, and with it the workers that have not ended."""
        self.door.close()
        os.waitpid(self.pid, 0)


class WorkerProcess:
    """A process that calls functions, one after another. `pid` is its number."""

    def __init__(self, door: socket.socket, *given: int) -> None:
        self.connection, inside = Pipe()
        try:
            fork_server.ask(door, inside.fileno(), *given)
        except OSError:
            raise WorkerDied("the process that forks workers ended") from None
        finally:
            inside.close()
        self.pid: int = self.call(os.getpid)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what function(*arguments) returns in the process, or raise what it raises. Raises WorkerDied if it ends."""
        try:
            self.connection.send((function, arguments))
            returned, raised = self.connection.recv()
        except (EOFError, OSError):
            raise WorkerDied("the process that judged it ended") from None
        if raised:
            raise raised
        return returned

    def close(self) -> None:
        """Let it go, and wait until it has ended."""
        self.connection.close()
        try:
            ended = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        select.select([ended], [], [])
        os.close(ended)


def _work(descriptor: int, *those: int) -> None:
    """Call what this worker is asked to, until nobody is left to ask."""
    given[:] = those
    fork_server.end_with_parent()
    connection = Connection(descriptor)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((function(*arguments), None))
        except Exception as error:
            error.add_note(traceback.format_exc())
            connection.send((None, error))
