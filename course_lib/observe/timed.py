"""Time a recorded log on a GPU, against a baseline in the same run, in a process of its own.

`python -m course_lib.observe.timed` reads a message (exercise, log, seed) and writes one back (a Timing). Only the
student's kernels run there, compiled; a CUDA fault costs that process alone, and never the notebook.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch

from course_lib import bench, criteria
from course_lib.exercise import Exercise, Timing, Trial, Verdict, find
from course_lib.observe import wire
from course_lib.observe.child import ChildLost
from course_lib.observe.replay import Tape

SECONDS = 60.0


def measure(exercise: Exercise, log: Mapping[str, Any], seed: int, traced: Collection[str]) -> Timing:
    """The timing of a log of the exercise's speed case. Whatever goes wrong stands in Timing.problem, as a sentence.

    traced: keys of the kernels that ran in the traced cases; no other is run on the GPU.
    """
    error = next((call["error"] for call in log["calls"] if call["error"]), "")
    if error:
        return problem(exercise, f"not measured: on {exercise.bonus[0].case.name} the function {error}")
    if not set(log["kernels"]) <= set(traced):
        return problem(
            exercise, "not measured: large inputs get a kernel that no smaller one got, so it was never traced"
        )
    message = wire.pack({"exercise": exercise.id, "log": dict(log), "seed": seed})
    command = [sys.executable, "-m", "course_lib.observe.timed"]
    path = os.pathsep.join(p for p in sys.path if p)
    try:
        run = subprocess.run(
            command, input=message, capture_output=True, timeout=SECONDS, env=os.environ | {"PYTHONPATH": path}
        )
        return wire.from_tree(Timing, wire.unpack(run.stdout))
    except subprocess.TimeoutExpired:
        return problem(exercise, f"not measured: no end after {SECONDS:g} seconds")
    except wire.WireError:
        last = (run.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        return problem(exercise, f"not measured: the run on the GPU failed ({last[:200]})")


def judge(exercise: Exercise, trials: Sequence[Trial], seed: int, record: Callable[[list], list]) -> Verdict:
    """The verdict on the trials; where it has points and there is a GPU, with the speed case timed for its bonus.

    record: the calls of each case -> their logs; ChildLost or ValueError, with a sentence, if there are none.
    """
    found = criteria.judge(exercise, trials)
    if not (exercise.bonus and found.points and bench.available()):
        return found
    case = exercise.bonus[0].case
    try:
        (log,) = record([[case.arguments(seed)]])
        timing = measure(exercise, log, seed, {key for trial in trials for key in trial.evidence.kernels})
    except (ChildLost, ValueError) as error:
        timing = problem(exercise, f"not measured: on {case.name} the function {error}")
    trials[0].evidence.timing = timing
    return criteria.judge(exercise, trials)


def problem(exercise: Exercise, sentence: str) -> Timing:
    speed = exercise.bonus[0]
    return Timing(speed.case.name, speed.vs, 0.0, 0.0, "", sentence)


def time_here(exercise: Exercise, log: Mapping[str, Any], seed: int) -> Timing:
    """Run the log compiled on this process's GPU: right before, and right after it was timed.

    Two sets of inputs take turns, so that what the run before left in memory is never the answer.
    """
    speed = exercise.bonus[0]
    inputs = [speed.case.draw(torch.Generator("cuda").manual_seed(seed + i)) for i in range(2)]
    turns = itertools.cycle(inputs)
    tape = Tape(log, device="cuda", allows=exercise.allows)

    def run() -> Any:
        tape.bind(0, next(turns))
        return tape.run(0)

    def wrong() -> bool:
        return any(not right(exercise, arguments, run()) for arguments in inputs)

    if wrong():
        return problem(exercise, "the compiled kernel's result is wrong on the GPU")
    found = bench.ratio(run, bench.copy_of(int(speed.needed(**inputs[0]))))
    turns = itertools.cycle(inputs)
    if wrong():
        return problem(exercise, "the compiled kernel's result is wrong on the GPU when it is run again")
    return Timing(speed.case.name, speed.vs, found.value, found.spread, torch.cuda.get_device_name())


def right(exercise: Exercise, arguments: Mapping[str, Any], results: Any) -> bool:
    """Whether results on the GPU are within the exercise's budget of its oracle."""
    expected = exercise.oracle(**arguments)
    results, expected = (r if isinstance(r, tuple) else (r,) for r in (results, expected))
    for got, wanted in zip(results, expected, strict=True):
        budget = 0.0 if exercise.budget is None else exercise.budget(wanted.double(), got.dtype, arguments)
        if got.shape != wanted.shape or not bool(((got.double() - wanted).abs() <= budget).all()):
            return False
    return True


def main() -> None:
    request = wire.unpack(sys.stdin.buffer.read())
    timing = time_here(find(request["exercise"]), request["log"], request["seed"])
    sys.stdout.buffer.write(wire.pack(wire.to_tree(timing)))


if __name__ == "__main__":
    main()
