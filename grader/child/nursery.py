"""One process that has torch and Triton loaded and forks a zygote for each worker of a class: they are loaded once for all of them.

    worker ──three descriptors──▶ nursery ──fork──▶ zygote ◀──requests, replies──▶ worker

Nothing secret can be inherited from it. Python is executed anew for it, with an environment of its own, so its memory has nothing of
the command that grades, or of that one's variables; workers are forked from the command (cohort/forked.py), zygotes never. It hears of
nothing but descriptors: no answer, no case and no secret comes to it, and what happens in one zygote changes nothing that another is
forked from. A zygote keeps its own worker's pipes alone: nobody below it
can ask for another one.

Bubblewrap around a nursery would be one for the submissions of all workers. So where bubblewrap works there is none, and each zygote
starts by itself, in a sandbox of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile

from grader.child import fork_server, sandbox, zygote


class Nursery:
    """The process, started at once. `door` is where zygotes are asked for: a process that has it can start a zygote.Forked."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="grader-")
        self.door, inside = socket.socketpair(*fork_server.DOOR)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.child.nursery"],
            stdin=inside.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=sandbox.environment(self.folder),
            start_new_session=True,  # Ctrl-C is the judge's
        )
        inside.close()

    def close(self) -> None:
        """End it and all zygotes that it has forked."""
        self.process.kill()
        self.process.wait()
        self.door.close()
        zygote.remove(self.folder)


def main() -> None:
    """Load what zygotes need, then fork one for each who asks, until nobody is left to ask."""
    zygote.load()
    door = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    fork_server.serve(door, _become_zygote)


def _become_zygote(requests: int, replies: int, complaints: int) -> None:
    fork_server.end_with_parent()
    os.dup2(complaints, 2)
    os.close(complaints)
    answers = os.fdopen(replies, "wb")
    zygote.send(answers, str(os.getpid()).encode())
    zygote.serve(os.fdopen(requests, "rb"), answers)


if __name__ == "__main__":
    main()
