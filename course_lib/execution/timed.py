"""Time a recorded log on a GPU, against a baseline in the same run, in the process that has it (card.py)."""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections.abc import Collection, Mapping
from typing import Any, BinaryIO

import torch

from course_lib import mistakes
from course_lib.catalogue import say
from course_lib.evidence import Timing
from course_lib.execution import gpu_lock, on_gpu
from course_lib.exercise import Exercise
from course_lib.exercises import twists
from tritontrace import gpu
from tritontrace.profiling import bench
from tritontrace.replay import Tape, wire

SECONDS = 60.0
TRIED = 3  # runs that are looked at before and after the timed ones
INSPECTED = 0.2  # share of the timed runs whose result is looked at


def can_time(exercise: Exercise) -> bool:
    """Whether the speed of an exercise can be measured here: it has a bonus, and the GPU runs its kernels."""
    return bool(exercise.bonus) and on_gpu.can_run(exercise)


def measure(
    exercise: Exercise, log: Mapping[str, Any], seed: int, traced: Collection[str], run: gpu_lock.Runner = gpu_lock.run
) -> Timing:
    """Time a log of the exercise's speed case on the GPU. A failure is reported as a message in Timing.problem.

    traced: keys of the kernels that ran in the traced cases; no other is run on the GPU.
    run: takes the message to the process with the GPU and back; the grader's has a sandbox
    """
    error = next((call["error"] for call in log["calls"] if call["error"]), "")
    if error:
        return problem(exercise, say("criteria.speed.stopped", case=exercise.bonus[0].case.name, error=error))
    if not set(log["kernels"]) <= set(traced):
        return problem(exercise, say("criteria.speed.other_kernel", case=exercise.bonus[0].case.name))
    task = {"exercise": exercise.id, "twist": exercise.twist}
    message = wire.pack({"asked": "time", **task, "log": dict(log), "seed": seed})
    try:
        done = run(message, SECONDS)
        return wire.from_tree(Timing, wire.unpack(done.stdout))
    except subprocess.TimeoutExpired:
        return problem(exercise, say("criteria.speed.endless", seconds=SECONDS))
    except gpu_lock.Busy:
        return problem(exercise, say("criteria.speed.busy"), by_machine=True)
    except wire.WireError:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        sentence = next((line for line in reversed(lines) if re.match(r"[\w.]+: ", line)), lines[-1])  # SomeError: ...
        return problem(exercise, say("criteria.speed.failed", error=sentence[:200]))


def problem(exercise: Exercise, sentence: str, by_machine: bool = False) -> Timing:
    """Make a Timing that holds a message on why nothing was measured."""
    speed = exercise.bonus[0]
    return Timing(speed.case.name, speed.vs, 0.0, 0.0, "", sentence, by_machine=by_machine)


def time_here(exercise: Exercise, log: Mapping[str, Any], seed: int) -> Timing:
    """Time the compiled log on this process's GPU, and check the results of randomly chosen runs.

    No inputs come twice, and what a run allocated is overwritten before the next one: nothing that an earlier run left in
    memory is an answer.
    """
    on_gpu.let_kernels_allocate()
    speed, chance = exercise.bonus[0], random.SystemRandom()
    generator = torch.Generator("cuda").manual_seed(seed)
    tape = Tape(log, device="cuda", allows=exercise.allows)
    given: dict[str, Any] = {}
    wrong: list[str] = []

    def prepare() -> None:
        tape.overwrite(0)
        given.update(speed.case.draw(generator))
        tape.bind(0, given)

    def inspect(result: Any) -> None:
        if chance.random() < INSPECTED and (what := difference(exercise, given, result)):
            wrong.append(what)

    def differences() -> list[str]:
        """Differences in a few runs, each on other inputs. Raises torch.AcceleratorError if the kernels stop the GPU:
        nobody else can be blamed."""
        reports = []
        for _ in range(TRIED):
            prepare()
            result = tape.run(0)
            torch.cuda.synchronize()
            reports.append(difference(exercise, given, result))
        return [what for what in reports if what]

    case = speed.case.name
    try:
        if reports := differences():
            return problem(exercise, say("criteria.speed.wrong", case=case, problem=reports[0]))
    except torch.AcceleratorError as error:
        return problem(exercise, say("criteria.speed.fault", case=case, error=bench.stopped(error)))
    others = speed.case.draw(generator)  # the baseline's, which leaves its results in memory, too
    nbytes = int(speed.needed(**others))
    baseline = speed.baseline(**others) if speed.baseline else bench.copy_of(nbytes)
    started = time.monotonic()
    took = bench.ratio(lambda: tape.run(0), baseline, prepare=prepare, inspect=inspect)
    seconds = time.monotonic() - started
    if wrong := wrong or differences():
        return problem(exercise, say("criteria.speed.wrong_again", case=case, problem=wrong[0]))
    claimed = took.pairs * (took.own_ms + took.baseline_ms) / 1000
    sheet = gpu.current()
    if claimed > seconds or (sheet and took.own_ms / 1000 < nbytes / sheet.hbm_bandwidth / 2):
        return problem(exercise, say("criteria.speed.too_fast"))
    microseconds = 1000 * took.own_ms
    return Timing(case, speed.vs, took.speedup, took.spread, torch.cuda.get_device_name(), "", microseconds)


def difference(exercise: Exercise, arguments: dict[str, Any], results: Any) -> str:
    """Return a message where results on the GPU exceed the exercise's error budget; else ""."""
    expected = exercise.oracle(**arguments)
    results, expected = (r if isinstance(r, tuple) else (r,) for r in (results, expected))
    for got, wanted in zip(results, expected, strict=True):
        if got.shape != wanted.shape:
            return say("criteria.speed.shape", right=str(tuple(wanted.shape)), got=str(tuple(got.shape)))
        budget = 0.0 if exercise.budget is None else exercise.budget(wanted.double(), got.dtype, arguments)
        wrong = ~((got.double() - wanted).abs() <= budget)
        if bool(wrong.any()):
            return mistakes.first_difference(wrong, wanted, got, values=False)
    return ""


def time_for(answer: BinaryIO, exercise: str, twist: str, log: Mapping[str, Any], seed: int) -> None:
    """Time a log of the exercise's speed case, and write the packed Timing to `answer`."""
    answer.write(wire.pack(wire.to_tree(time_here(twists.named(exercise, twist), log, seed))))
    answer.flush()
