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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from tritontrace.compiled.launch import undecorated
from tritontrace.messages import Message, say
from tritontrace.results import Compiled

# trap: the compiler is asked in a child with a time limit: a kernel may compile for ever, or crash it

PR_SET_PDEATHSIG = 1  # linux/prctl.h

# kernel, args, kwargs, gpu: what compile_for takes, or what the front end made of a kernel, and its arguments by name;
# False: only whether it is accepted
Job = tuple[Any, tuple, dict[str, Any], str] | tuple[Any, tuple, dict[str, Any], str, bool]


def in_a_child(
    compiler: Callable[..., Compiled], jobs: Sequence[Job], deadline: float, seconds: float
) -> list[Compiled]:
    """Compile jobs in forked children, and return the results up to the first that crashes, that one included; of all, if time runs out.

    deadline is a time of time.monotonic(); `seconds` is the limit as it is told.
    """
    found = [_from_data(got) for got in answers(lambda *job: _as_data(compiler(*job)), jobs, deadline)]
    for kernel, _, _, gpu, *_ in jobs[len(found) :]:
        name = undecorated(kernel).fn.__name__
        if time.monotonic() < deadline:
            return [*found, Compiled(name, gpu, False, say("compiler.failure.crash", kernel=name))]
        late = say("compiler.failure.too_slow", kernel=name, gpu=gpu, seconds=seconds)
        found.append(Compiled(name, gpu, False, late, too_slow=True))
    return found


def _as_data(found: Compiled) -> dict[str, Any]:
    complaint = found.complaint
    return asdict(found) | {"complaint": complaint.as_data() if isinstance(complaint, Message) else complaint}


def _from_data(facts: dict[str, Any]) -> Compiled:
    found = Compiled(**facts)
    if isinstance(facts["complaint"], dict):
        found.complaint = Message.from_data(facts["complaint"])
    return found


def answers(work: Callable[..., Any], jobs: Sequence[tuple], deadline: float) -> Iterator[Any]:
    """Yield what `work` returns for each job, as plain data, computed in a forked child. If the child crashes or time
    runs out, only the first answers come. deadline: a time of time.monotonic()."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child():
        os.setsid()  # a group of its own, so that the assembler it starts is stopped with it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # and it goes when its parent is killed
        gc.freeze()  # what the parent left to collect may hold LLVM's threads, which are not here: it would wait for them
        for job in jobs:
            sender.send_bytes(json.dumps(work(*job)).encode())

    process = context.Process(target=child)
    with warnings.catch_warnings():
        # Python warns of forks where threads run, on stderr, which belongs to whoever asked.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    try:
        for _ in jobs:
            if not receiver.poll(max(0.0, deadline - time.monotonic())):
                return
            try:
                sent = receiver.recv_bytes()
            except EOFError:
                return
            yield json.loads(sent)
    finally:
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        receiver.close()
