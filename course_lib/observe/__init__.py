"""Observe: the only place where student code runs. A function and its cases in, Evidence out.

record.py   calls the function and writes down what it did
replay.py   runs that log on fresh inputs, traced
timed.py    runs that log on a GPU, timed
kernels.py  a kernel as plain data and back, and what it may use
child.py    a forked process for either half
wire.py     what crosses process borders
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from course_lib.compiled import warm_up
from course_lib.exercise import Case, Evidence, Exercise, Trial
from course_lib.observe import child, wire
from course_lib.observe.record import record
from course_lib.observe.replay import compile_launched, replay

GPUS = ("sm_80", "sm_90")


def calls_of(case: Case) -> int:
    """How often a case calls the function: twice, to show buffers shared between calls; once where bytes are counted."""
    return 1 if case.group == "performance" else 2


def draw(exercise: Exercise, cases: Sequence[Case], seed: int) -> tuple[list, list]:
    """The arguments to record with and, for kernels, other arguments to replay on: per case, one dict per call.

    Formulas and values are judged on what they were recorded with.
    """
    recorded = [[case.arguments(seed + 7 * i + k) for k in range(calls_of(case))] for i, case in enumerate(cases)]
    if exercise.kind != "kernel":
        return recorded, recorded
    fresh = [[case.arguments(~seed + 2**32 + 7 * i + k) for k in range(calls_of(case))] for i, case in enumerate(cases)]
    return recorded, fresh


def record_all(entry: Any, recorded: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """One log per case. The half that runs the student's host code."""
    return [record(entry, calls) for calls in recorded]


def replay_all(
    logs: Sequence[dict[str, Any]],
    fresh: Sequence[Sequence[dict[str, Any]]],
    names: Sequence[str],
    *,
    kernel: bool,
    allows: Sequence[str] = (),
    compile_seconds: float = 4.0,
    compile_every: bool = False,
) -> list[dict[str, Any]]:
    """One Evidence (as a tree) per case. Runs the student's kernels alone.

    The kernels are compiled within `compile_seconds` in all: each once, or with `compile_every` for each set of dtypes
    and constants that was launched. What the compiler says stands with the first case.
    """
    found, launched = [], []
    for log, inputs, name in zip(logs, fresh, names, strict=True):
        error = next((call["error"] for call in log["calls"] if call["error"]), "")
        if error:
            found.append(Evidence(name, error=error))
        elif kernel:
            found.append(replay(log, inputs, case=name, allows=allows, launched=launched))
        else:
            found.append(Evidence(name, outputs=[plain(call["result"]) for call in log["calls"]]))
    if launched:
        found[0].compiled = compile_launched(launched, GPUS, compile_seconds, every=compile_every)
    return [wire.to_tree(evidence) for evidence in found]


def plain(value: Any) -> Any:
    """A logged result as plain numbers, lists and dicts; anything else as a sentence in {"unsupported": ...}."""
    match value:
        case {"tuple": list(items)} | {"list": list(items)}:
            return [plain(v) for v in items]
        case {"dict": dict(items)}:
            return {k: plain(v) for k, v in items.items()}
        case {"float": str(text)}:
            return float(text)
        case {"tensor": _}:
            return {"unsupported": "a tensor"}
    return value


def trials(cases: Sequence[Case], inputs: Sequence[Sequence[dict[str, Any]]], trees: Sequence[Any]) -> list[Trial]:
    """Evidence trees back as Trials. WireError or ValueError if they are not what they should be."""
    found = [wire.from_tree(Evidence, tree) for tree in trees]
    return [Trial(case, calls, e) for case, calls, e in zip(cases, inputs, found, strict=True)]


def observe(
    exercise: Exercise, entry: Any, seed: int, *, seconds: float = 10.0, compile_seconds: float = 4.0
) -> list[Trial]:
    """Record and replay `entry` on all cases of the exercise, in a forked child; ChildLost if that gives no answer."""
    cases = list(exercise.cases)
    recorded, fresh = draw(exercise, cases, seed)
    kernel = exercise.kind == "kernel"

    def work() -> Any:
        logs, names = record_all(entry, recorded), [case.name for case in cases]
        allows = sorted(exercise.allows)
        return replay_all(logs, fresh, names, kernel=kernel, allows=allows, compile_seconds=compile_seconds)

    if kernel:
        warm_up()
    trees, printed = child.run(work, seconds=seconds)
    found = trials(cases, fresh, trees)
    found[0].evidence.printed = printed
    return found
