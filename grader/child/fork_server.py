"""A process that forks another one for each who asks: what it has loaded is loaded once for all of them.

Who asks sends descriptors through a door, and nothing else. The process that is forked has these, and the standard ones.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Callable

DOOR = socket.AF_UNIX, socket.SOCK_SEQPACKET
"""Family and type of the pair of sockets of which one is the door."""
MOST = 3  # descriptors with which somebody asks


def serve(door: socket.socket, become: Callable[..., None]) -> None:
    """Fork a process that runs become(*descriptors) for each who asks, until nobody is left to ask."""
    while descriptors := socket.recv_fds(door, 16, MOST)[1]:
        with contextlib.suppress(ChildProcessError):  # of those that have ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        # without memory for another, whoever asked reads the end of a pipe
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                try:
                    only(descriptors)
                    become(*descriptors)
                finally:
                    os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def ask(door: socket.socket, *descriptors: int) -> None:
    """Ask for a process that has these descriptors. Raises OSError if nobody serves any more."""
    socket.send_fds(door, [b"fork"], descriptors)


def end_with_parent() -> None:
    """Ask that this process be killed when the one that forked it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG of linux/prctl.h


def only(descriptors: list[int]) -> None:
    """Close all but these and the standard ones: what a process is asked and answers is none of its fork's business."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor not in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
