"""Observe: the only place where student code runs. A function and its cases in, Evidence out.

progress.py says how far a check is
gpu_lock.py  one process at a time has the GPU: gpu_process.py
on_gpu.py   runs logs there: are results right, too?
timed.py    runs a log there, timed
calls.py    how a function is called, where it takes more than tensors and numbers
relays.py   functions that are called in two processes
exactly.py  what a recorded call gives where nothing is rounded
asked_sizes.py  the sizes that an exercise's cases ask about
smallest.py the smallest of them for which a kernel reaches outside a tensor

What records a call and runs its log again on fresh inputs, traced, is tritontrace.replay's.
"""

from __future__ import annotations

import hashlib
import importlib
import math
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.evidence import Evidence
from course_lib.execution import relays
from course_lib.execution.calls import BACKWARD, CALLS, COMPARES_SHAPES, REHEARSALS, WITHOUT_DATA
from course_lib.execution.progress import CaseCounter, told
from course_lib.exercise import Case, Exercise, Trial
from tritontrace import compiled, gpu
from tritontrace.replay import HOSTS, child, compile_every, compile_launched, record, replay, steps, take_away, wire
from tritontrace.results import Cause, tensors_of
from tritontrace.tracing import Work

HOSTS.add("course_lib")
GPUS = ("sm_80", "sm_90")
# What the kernels of an answer may do in one case, in a larger one once that was too much, and in all, in the elements of
# tracing/work.py. Honest answers take 4e8 in all; 2e9 are 5 seconds on a machine with nothing else to do
MOST_OF_A_CASE, MOST_BEHIND_IT, MOST_WORK = 2e9, 4e8, 8e9
SPENT: Counter[str] = Counter()  # "running", "tracing", "compiling" -> seconds of CPU of this process, for whoever asks


def cpu_seconds() -> float:
    """Seconds of CPU of this process and of the children that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def spending(phase: str) -> Iterator[None]:
    """Add the CPU time of the block to SPENT[phase]."""
    started = cpu_seconds()
    try:
        yield
    finally:
        SPENT[phase] += cpu_seconds() - started  # pyright: ignore[reportArgumentType] - a Counter adds floats, too


def calls_of(case: Case) -> int:
    """How often a case calls the function: twice, to expose buffers shared between calls; once where bytes are counted."""
    return 1 if case.group == "performance" else 2


def draw(exercise: Exercise, cases: Sequence[Case], seed: int) -> tuple[list, list]:
    """Draw, for each case, the arguments to record with and, for kernels, other arguments to replay on: one dict per call.

    Formulas and values are judged on what they were recorded with.
    """

    def drawn(purpose: str) -> list[list[dict[str, Any]]]:
        return [
            [case.arguments(derived(seed, f"{purpose} {i} {call}")) for call in range(calls_of(case))]
            for i, case in enumerate(cases)
        ]

    recorded = drawn("record")
    return recorded, drawn("replay") if exercise.kind == "kernel" else recorded


def derived(seed: int, purpose: str) -> int:
    """Derive a 32-bit seed for a purpose. One derived seed does not give away the others."""
    return int.from_bytes(hashlib.sha256(f"{seed} {purpose}".encode()).digest()[:4], "big")


IN_A_TRACE = say("criteria.result.in_a_trace")


def record_all(
    entry: Any,
    recorded: Sequence[Sequence[dict[str, Any]]],
    *,
    called: str = "",
    without: Sequence[str] = (),
    before: int = 0,
) -> list[dict[str, Any]]:
    """Run the student's host code and return one log per case; in a child of its own where `without` names modules.

    called, without: see Exercise. In the first of two calls each case takes another configuration of autotuned kernels;
    before: cases that are recorded elsewhere, and have taken theirs
    """
    with spending("running"):
        for module in without:
            take_away(module)
        how = {"by": CALLS[called], "launches": called not in REHEARSALS}
        return [record(entry, calls, configuration=number, **how) for number, calls in enumerate(recorded, 1 + before)]


def replay_all(
    logs: Sequence[dict[str, Any]],
    fresh: Sequence[Sequence[dict[str, Any]]],
    names: Sequence[str],
    *,
    kernel: bool,
    allows: Sequence[str] = (),
    language: str = "Triton",
    compile_seconds: float = 4.0,
    begun: Callable[[int], None] = lambda number: None,
) -> list[dict[str, Any]]:
    """Run only the student's kernels and return one Evidence (as a tree) per case.

    Each kernel is compiled once, all within `compile_seconds`. What the compiler says stands with the first case.
    begun: is told the number of each case as it begins
    """
    found, launched = _replayed(logs, fresh, names, kernel=kernel, allows=allows, language=language, begun=begun)
    if launched:
        with spending("compiling"):
            found[0].compiled += compile_launched(launched, GPUS, compile_seconds)
    return [wire.to_tree(evidence) for evidence in found]


def replay_each(parts: Sequence[dict[str, Any]], compile_seconds: float) -> list[list[dict[str, Any]]]:
    """Replay several answers in one process, as the judge does: every set of dtypes and constants that was launched is compiled.

    parts             what replay_all takes, for each answer, and `reported`: whether the compiler's whole report is asked for
    compile_seconds   for all of them together: one that is not compiled in time counts as refused if its answer is alone, and
                      is a ValueError in company

    All are compiled in one child, since a fork costs as much as two kernels.
    """
    reported = [i for i, part in enumerate(parts) if part.get("reported")]
    replayed = [_replayed(**{name: value for name, value in part.items() if name != "reported"}) for part in parts]
    with spending("compiling"):
        compiled = compile_every([launched for _, launched in replayed], GPUS, compile_seconds, reported)
    for (found, _), facts in zip(replayed, compiled, strict=True):
        found[0].compiled += facts
    return [[wire.to_tree(evidence) for evidence in found] for found, _ in replayed]


def replay_once(parts: Sequence[dict[str, Any]]) -> None:
    """Replay one's own answers once, to fill this process's caches of traced and compiled kernels, which its forks inherit. A kernel that
    crashes the compiler ends this process."""
    launched = [_replayed(**{name: value for name, value in part.items() if name != "reported"})[1] for part in parts]
    reported = [i for i, part in enumerate(parts) if part.get("reported")]
    compile_every(launched, GPUS, math.inf, reported, compiled.compile_here)
    SPENT.clear()


def _replayed(
    logs: Sequence[dict[str, Any]],
    fresh: Sequence[Sequence[dict[str, Any]]],
    names: Sequence[str],
    *,
    kernel: bool,
    allows: Sequence[str] = (),
    language: str = "Triton",
    begun: Callable[[int], None] = lambda number: None,
) -> tuple[list[Evidence], list[Any]]:
    """(the evidence of each case, all that was launched)."""
    if not len(logs) == len(fresh) == len(names):
        raise ValueError("the log is not one of these cases")
    found = [Evidence(name) for name in names]
    launched: list[list[Any]] = [[] for _ in names]
    left, last, too_slow = MOST_WORK, Evidence(""), False
    with spending("tracing"):
        # what is too much, the largest find
        smallest_first = sorted(range(len(names)), key=lambda i: _input_bytes(fresh[i]))
        for number, i in enumerate(smallest_first, 1):
            begun(number)
            log, inputs = logs[i], fresh[i]
            stopped = next((call for call in log["calls"] if call["error"]), None)
            if stopped:
                found[i].error = stopped["error"]
                found[i].cause = wire.from_tree(Cause, stopped["cause"])
            elif not kernel and any(call.get("traced") for call in log["calls"]):
                found[i].error = IN_A_TRACE
                found[i].cause = Cause("refused", details={"message": IN_A_TRACE})
            elif kernel and left <= 0 and last.error:  # what took all of it is told of the others, too
                found[i].error, found[i].cause = last.error, last.cause
            elif kernel:
                work = Work(min(MOST_OF_A_CASE, MOST_BEHIND_IT if too_slow else left, left))
                more = {"allows": allows, "language": language, "launched": launched[i], "work": work}
                found[i] = Evidence(**vars(replay(log, inputs, case=names[i], **more)))
                left, last, too_slow = left - work.done, found[i], too_slow or work.done > work.most
            else:
                found[i].outputs = [plain(call["result"]) for call in log["calls"]]
                found[i].did = [[str(e["mark"]) for e in call["events"] if "mark" in e] for call in log["calls"]]
                found[i].steps = [steps(call["events"]) for call in log["calls"]]
    return found, [one for of_case in launched for one in of_case]


def _input_bytes(calls: Sequence[dict[str, Any]]) -> int:
    return sum(tensor.nbytes for call in calls for _, _, tensor in tensors_of(0, call))


def plain(value: Any) -> Any:
    """Convert a logged result to plain numbers, lists and dicts; anything else to {"unsupported": message}."""
    match value:
        case {"tuple": list(items)} | {"list": list(items)}:
            return [*items] if wire.PLAIN.issuperset(map(type, items)) else [plain(v) for v in items]
        case {"dict": dict(items)}:
            return {k: plain(v) for k, v in items.items()}
        case {"float": str(text)}:
            return float(text)
        case {"tensor": _}:
            return {"unsupported": "a tensor"}
        case {"unsupported": str(what)}:
            return {"unsupported": str(what)}
    return value


def trials(cases: Sequence[Case], inputs: Sequence[Sequence[dict[str, Any]]], trees: Sequence[Any]) -> list[Trial]:
    """Read trees of evidence back as Trials. Raises WireError or ValueError if they are malformed."""
    found = [wire.from_tree(Evidence, tree) for tree in trees]
    return [Trial(case, calls, e) for case, calls, e in zip(cases, inputs, found, strict=True)]


def record_apart(exercise: Exercise, entry: Any, calls: Sequence[Any], *, seconds: float) -> list[dict[str, Any]]:
    """Record one log per case in a forked child. Raises ChildLost or ValueError, with a message, if that gives no answer."""
    gpu.planned_for()
    work = partial(record_all, entry, calls, called=exercise.called, without=_to_take_away(exercise))
    return work() if _cannot_fork(exercise) else child.run(work, seconds=seconds)[0]


def _cannot_fork(exercise: Exercise) -> bool:
    """Whether host code must run in the student's own process: torch's autograd refuses to work in a fork of a process that
    may have used it with a GPU. Kernels never run there."""
    relay = relays.RELAYS.get(exercise.called)
    return (relay.first if relay else exercise.called) in BACKWARD and torch.cuda.is_available()


def _to_take_away(exercise: Exercise) -> Sequence[str]:
    """The modules that a child must do without; the student's own process keeps them."""
    return () if _cannot_fork(exercise) else exercise.without


def warm_up(exercise: Exercise) -> None:
    """Import what a child needs to observe this exercise, once, so that forked children find it loaded."""
    if exercise.kind == "kernel":
        compiled.warm_up()
    if exercise.language == "Gluon":
        importlib.import_module("tritontrace.hopper")
    if exercise.called in WITHOUT_DATA:
        importlib.import_module(COMPARES_SHAPES)


def observe(
    exercise: Exercise, entry: Any, seed: int, *, seconds: float = 10.0, compile_seconds: float = 4.0
) -> list[Trial]:
    """Record and replay `entry` on all cases of the exercise, in a forked child. Raises ChildLost if that gives no answer."""
    cases = list(exercise.cases)
    recorded, fresh = draw(exercise, cases, seed)
    kernel = exercise.kind == "kernel"

    gpu.planned_for()
    record_here = partial(record_all, entry, recorded, called=exercise.called, without=_to_take_away(exercise))
    printed_before = ""
    if relay := relays.RELAYS.get(exercise.called):
        logs_from_here, printed_before = _relayed(exercise, relay, entry, recorded, seconds=seconds)
    elif exercise.called in relays.ONCE:
        logs, printed_before = child.run(partial(record_all, entry, [[{}]], called=exercise.called), seconds=seconds)
        logs_from_here = relays.repeated(logs, recorded)
    else:
        logs_from_here = record_here() if _cannot_fork(exercise) else None

    def work() -> Any:
        logs = record_here() if logs_from_here is None else logs_from_here
        names = [case.name for case in cases]
        more = {"allows": sorted(exercise.allows), "language": exercise.language, "compile_seconds": compile_seconds}
        more["begun"] = counter.begin
        return replay_all(logs, fresh, names, kernel=kernel, **more)

    counter = CaseCounter(len(cases))
    warm_up(exercise)
    here = logs_from_here is not None and not kernel  # the log has it all, and nothing runs
    with told(counter.line):
        trees, printed = (work(), "") if here else child.run(work, seconds=seconds)
    found = trials(cases, fresh, trees)
    found[0].evidence.printed = printed_before or printed
    return found


def _relayed(
    exercise: Exercise, relay: relays.Relay, entry: Any, recorded: relays.Calls, *, seconds: float
) -> tuple[list[dict[str, Any]], str]:
    """(the logs of both processes as one, what the first one printed)."""

    def run(calls: relays.Calls, called: str) -> tuple[list[dict[str, Any]], str]:
        work = partial(record_all, entry, calls, called=called, without=_to_take_away(exercise))
        return (work(), "") if _cannot_fork(exercise) else child.run(work, seconds=seconds)

    logs, printed = run(relays.first_calls(relay, recorded), relay.first)
    second, _ = run(relays.second_calls(relay, logs), relay.second)
    return relays.joined(logs, second), printed
