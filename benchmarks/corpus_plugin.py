"""The plugin of pytest with which corpus.py runs others' tests: each under a trace of its own, with one line of JSON for what became of it.

    CORPUS      a suite of corpus.toml as JSON, with `out`, the file for the lines, and `done`, the tests that need not run again

A test that passes is equal: its own assertions held. What else became of it is the error that it ended with, and whose error that is.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from importlib import import_module
from pkgutil import resolve_name
from types import FrameType
from typing import Any

import pytest
import torch

from tritontrace.hopper import EveryOrder, Kind
from tritontrace.testing import as_on_a_gpu
from tritontrace.tracing import KernelError, KernelFault, opened, trace

SUITE: dict[str, Any] = json.loads(os.environ["CORPUS"])
SECONDS, GIGABYTES = SUITE["seconds"], SUITE["gigabytes"]


class TimeIsUp(BaseException):
    """Raised in a test that has used its seconds of processor time."""


class Process:
    """The answer of `run_in_process` for a function that ran here: its error, and a text that has all that a test looks for."""

    def __init__(self, exc: BaseException | None = None):
        self.exc, self.driver_stderr_output = (
            exc and RuntimeError(f"device-side assert: {exc}"),
            AnyText() if exc else "",
        )


class AnyText:
    def __contains__(self, text: str) -> bool:
        return True


def here(function: Callable[..., None], arguments: tuple[Any, ...] = (), *_: Any, **__: Any) -> Process:
    """Run in this process what a test would run in another one, to see how a GPU takes it. Kernels of the concurrency suite read tiles
    that nobody wrote, which is a mistake, and none that the suite is about."""
    try:
        function(*arguments)
    except KernelError as error:
        if not (hazards := getattr(error, "hazards", ())):
            raise
        about = [hazard for hazard in hazards if hazard.kind != Kind.READ_EARLY.value or hazard.other]
        return Process(RuntimeError(str(about[0])) if about else None)
    except KernelFault as error:
        return Process(error)
    return Process()


# before any conftest.py is imported, which may ask for a GPU
torch.set_num_threads(1)
resource.setrlimit(resource.RLIMIT_DATA, (GIGABYTES << 30, GIGABYTES << 30))
as_a_gpu = ExitStack()
if SUITE["how"] != "cpu":
    as_a_gpu.enter_context(as_on_a_gpu(None, torch.device("cuda", 0)))
if SUITE["how"] == "simulate":
    import_module("triton._internal_testing").run_in_process = here
for name, installed in SUITE["renamed"].items():
    module, _, new = name.rpartition(".")
    setattr(resolve_name(module), new, resolve_name(installed))
if SUITE["setup"]:
    import_module(SUITE["setup"])


def pytest_unconfigure(config: pytest.Config) -> None:
    as_a_gpu.close()


def name_of(item: pytest.Item) -> str:
    return item.nodeid.split("/")[-1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep of each test function `each` parameter sets, far from one another, and none that the suite leaves out."""
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if not any(re.search(pattern, name_of(item)) for pattern in SUITE["leave_out"]):
            functions.setdefault(name_of(item).split("[")[0], []).append(item)
    chosen = []
    for sets in functions.values():
        sets = sets[::-1] if SUITE["backwards"] else sets
        each = min(SUITE["each"], len(sets))
        chosen += [sets[round(i * (len(sets) - 1) / max(each - 1, 1))] for i in range(each)]
    items[:] = [item for item in chosen if name_of(item) not in SUITE["done"]]


def under_trace() -> AbstractContextManager[Any]:
    return opened(EveryOrder()) if SUITE["how"] == "simulate" else trace(other=SUITE["other"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeIsUp

    write(name=name_of(item), became="died")  # which stands, unless another line follows
    error: BaseException | None = None
    with under_trace() as seen:
        signal.signal(signal.SIGPROF, stop)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            return (yield)
        except BaseException as raised:
            error = raised
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            faults = [f"{fault.kind}: {fault.sentence}" for fault in seen.faults]
            kernels = sorted({launch.kernel for launch in seen.launches})
            became, why = outcome(error, faults)
            write(name=name_of(item), became=became, why=why, kernels=kernels)
    if error is not None:
        raise error if isinstance(error, Exception) else pytest.fail.Exception(why)


def outcome(error: BaseException | None, faults: list[str]) -> tuple[str, str]:
    """One of the columns of corpus.py's table, and the sentence of the error."""
    if faults:
        return "fault", faults[0]
    if error is None:
        return "equal", ""
    why = f"{type(error).__name__}: {error}"[:600]
    while error is not None:
        match error:
            case pytest.skip.Exception():
                return "skipped", why
            case TimeIsUp() | MemoryError():
                return "slow", type(error).__name__
            case RuntimeError() if "not enough memory" in str(error) or "DefaultCPUAllocator" in str(error):
                return "slow", "MemoryError"
            case KernelFault():
                return "fault", why
            case KernelError():
                return "fault" if hasattr(error, "hazards") else "refused", why
            case AssertionError() if not error.__cause__:
                return "unequal", why
        error = error.__cause__ or error.__context__
    return "crashed", why


def write(**line: Any) -> None:
    with open(SUITE["out"], "a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
