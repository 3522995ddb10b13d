"""Compiling within a time: in a forked child that can be stopped.

LLVM holds Python's lock, so nothing inside this process could stop it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from course_lib.compiled.launch import undecorated
from course_lib.exercise import Compiled

PR_SET_PDEATHSIG = 1  # linux/prctl.h

# kernel, args, kwargs, gpu: what compile_for takes; False: only whether it is accepted
Job = tuple[Any, tuple, dict[str, Any], str] | tuple[Any, tuple, dict[str, Any], str, bool]


def in_a_child(
    compiler: Callable[..., Compiled], jobs: Sequence[Job], deadline: float, seconds: float
) -> list[Compiled]:
    """The results of the first jobs, up to the first that crashes, that one included; of all, if time runs out.

    deadline is a time of time.monotonic(); `seconds` is the limit as it is told.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child():
        os.setsid()  # a group of its own, so that the assembler it starts is stopped with it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # and it goes when its parent is killed
        gc.freeze()  # what the parent left to collect may hold LLVM's threads, which are not here: it would wait for them
        for job in jobs:
            sender.send_bytes(json.dumps(asdict(compiler(*job))).encode())

    process = context.Process(target=child)
    with warnings.catch_warnings():
        # Python warns of forks beside threads, on stderr, and nbgrader gives 0 to a cell that writes there.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    found = []
    try:
        for kernel, _, _, gpu, *_ in jobs:
            name = undecorated(kernel).fn.__name__
            if not receiver.poll(max(0.0, deadline - time.monotonic())):
                late = f"kernel `{name}` was not compiled for {gpu}: too slow, the limit is {seconds:g} s."
                found.append(Compiled(name, gpu, False, late, too_slow=True))
                continue
            try:
                found.append(Compiled(**json.loads(receiver.recv_bytes())))
            except EOFError:
                return [*found, Compiled(name, gpu, False, f"kernel `{name}`: the compiler crashed on it.")]
        return found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        receiver.close()
