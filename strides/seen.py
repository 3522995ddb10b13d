"""Trace an answer in a saved notebook, in a process of its own, since it runs what is written there.

python -m strides.seen trace FILE EXERCISE [--case NAME]
python -m strides.seen watch FILE EXERCISE VARIABLE [--case NAME] [--program 1,0]
python -m strides.seen diff BEFORE AFTER EXERCISE [--case NAME]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

from course_lib.execution.calls import CALLS
from course_lib.exercise import Exercise
from course_lib.exercises import find
from course_lib.handin.cells import Problem
from course_lib.handin.validate import validated
from tritontrace import KernelError, KernelFault, Trace, diff, trace
from tritontrace.replay import load

SEED = 0


def traced(
    notebook: Path, exercise: Exercise, case: str = "", before: Callable[[Trace], object] = lambda seen: None
) -> Trace:
    """Trace the answer to an exercise on one of its public cases, the first if none is named. before: called with the trace before a kernel
    runs. Raises ValueError, with a message, where there is nothing to trace."""
    if exercise.kind != "kernel":
        raise ValueError(f"{exercise.id} asks for no kernel, so there is nothing to trace.")
    chosen = next((each for each in exercise.cases if case in ("", each.name)), None)
    if chosen is None:
        raise ValueError(f"{exercise.id} has no case {case!r}. There are: {'; '.join(c.name for c in exercise.cases)}.")
    line = next((line for line in validated(notebook).lines if line.exercise.id == exercise.id), None)
    if line is None:
        raise ValueError(f"{notebook.name} is not the notebook of {exercise.id}.")
    if line.answer is None:
        raise ValueError(f"{exercise.id}: {line.sentence}")
    with chdir(notebook.parent), trace() as seen:
        before(seen)
        function = load(line.answer.cells, exercise.entry, on_the_cpu=True)
        CALLS[exercise.called](function, chosen.arguments(SEED), lambda what="": 0)
    return seen


def place(text: str) -> tuple[int, ...]:
    """Parse a program's place in its grid: "3", or "1,0" along two axes."""
    return tuple(map(int, text.split(",")))


def main() -> int:
    """Print a trace or a diff; return 1, with a message, where there is nothing to see."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, words in (("trace", ["file"]), ("watch", ["file"]), ("diff", ["file", "after"])):
        command = commands.add_parser(name)
        for word in words:
            command.add_argument(word, type=Path)
        command.add_argument("exercise")
        command.add_argument("--case", default="")
        if name == "watch":
            command.add_argument("variable")
            command.add_argument("--program", type=place, default=(0,))
    asked = parser.parse_args()
    try:
        exercise, values = find(asked.exercise), []
        watching = asked.command == "watch"
        seen = traced(
            asked.file.absolute(),
            exercise,
            asked.case,
            lambda seen: values.append(seen.watch(asked.variable, asked.program)) if watching else None,
        )
        if asked.command == "diff":
            print(diff(seen, traced(asked.after.absolute(), exercise, asked.case)))
        else:
            print(*values if watching else [seen])
    except (Problem, ValueError, KernelError, KernelFault) as problem:
        print(problem)
        return 1
    except Exception as error:  # of the answer's own code
        print(f"{asked.exercise} raised {type(error).__name__}: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
