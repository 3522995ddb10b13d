"""Time a recorded log on a GPU, against a baseline in the same run, in a process of its own.

`python -m course_lib.observe.timed` reads a message (exercise, log, seed) and writes one back (a Timing). Only the
student's kernels run there, compiled; a CUDA fault costs that process alone, and never the notebook.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import torch

from course_lib import bench, gpu
from course_lib.exercise import Exercise, Timing, find
from course_lib.observe import wire
from course_lib.observe.replay import Tape

SECONDS = 60.0


def measure(exercise: Exercise, log: Mapping[str, Any], seed: int) -> Timing:
    """The timing of a log of the exercise's speed case. Whatever goes wrong stands in Timing.problem, as a sentence."""
    message = wire.pack({"exercise": exercise.id, "log": dict(log), "seed": seed})
    command = [sys.executable, "-m", "course_lib.observe.timed"]
    path = os.pathsep.join(p for p in sys.path if p)
    try:
        run = subprocess.run(
            command, input=message, capture_output=True, timeout=SECONDS, env=os.environ | {"PYTHONPATH": path}
        )
        return wire.from_tree(Timing, wire.unpack(run.stdout))
    except subprocess.TimeoutExpired:
        return _problem(exercise, f"not measured: no end after {SECONDS:g} seconds")
    except wire.WireError:
        last = (run.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        return _problem(exercise, f"not measured: the run on the GPU failed ({last[:200]})")


def _problem(exercise: Exercise, sentence: str) -> Timing:
    speed = exercise.bonus[0]
    return Timing(speed.case.name, speed.vs, 0.0, 0.0, "", sentence)


def time_here(exercise: Exercise, log: Mapping[str, Any], seed: int) -> Timing:
    """Run the log compiled on this process's GPU: right first, then fast."""
    speed = exercise.bonus[0]
    arguments = speed.case.draw(torch.Generator("cuda").manual_seed(seed))
    tape = Tape(log, device="cuda", allows=exercise.allows)
    tape.bind(0, arguments)
    results = tape.run(0)
    expected = exercise.oracle(**arguments)
    pairs = zip(results, expected, strict=True) if isinstance(expected, tuple) else [(results, expected)]
    for got, right in pairs:
        budget = 0.0 if exercise.budget is None else exercise.budget(right.double(), got.dtype, arguments)
        if got.shape != right.shape or not bool(((got.double() - right).abs() <= budget).all()):
            return _problem(exercise, "the compiled kernel's result is wrong on the GPU")
    del results, expected, pairs, got, right
    found = bench.ratio(lambda: tape.run(0), bench.copy_of(int(speed.needed(**arguments))))
    return Timing(speed.case.name, speed.vs, found.value, found.spread, gpu.current().name)


def main() -> None:
    request = wire.unpack(sys.stdin.buffer.read())
    timing = time_here(find(request["exercise"]), request["log"], request["seed"])
    sys.stdout.buffer.write(wire.pack(wire.to_tree(timing)))


if __name__ == "__main__":
    main()
