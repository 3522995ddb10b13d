"""The command `strides`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from course_lib import content
from strides import completion

TUTOR = "The tutor's package is missing. Install it: pip install 'strides-to-flashattention[tutor]'"
GRADER = "The grader's packages are missing. Install them: pip install 'strides-to-flashattention[grader]'"


def lab(arguments: Sequence[str]) -> int:
    """Open the course in JupyterLab, at the unit that is next."""
    parser = _parser(lab)
    parser.epilog = "Other options are JupyterLab's, such as --no-browser."
    parser.add_argument("--work", type=Path, default=content.OWN / "work", help="where your notebooks are, or go")
    parser.add_argument("--solutions", action="store_true", help="open a copy of the solutions instead, with outputs")
    told, options = parser.parse_known_args(arguments)
    from strides import lab as opening

    if told.solutions:
        return opening.solutions(content.OWN / "build" / "solutions", options)
    return opening.work(told.work.absolute(), options)


def next_(arguments: Sequence[str]) -> int:
    """Print which exercise is next, and your points so far."""
    _parser(next_).parse_args(arguments)
    from course_lib.logbook import progress

    print(progress())
    return 0


def check(arguments: Sequence[str]) -> int:
    """Judge what is solved in a saved notebook."""
    parser = _parser(check)
    parser.add_argument("notebook", type=Path, metavar="FILE")
    parser.add_argument("exercise", nargs="?", default="", help="this one alone, such as coalescing.transpose")
    told = parser.parse_args(arguments)
    from strides.check import check as checking

    return checking(told.notebook, told.exercise)


def log(arguments: Sequence[str]) -> int:
    """Write the page of a work log: what each round stated, what its trace says, with the pictures."""
    parser = _parser(log)
    parser.add_argument("notebook", type=Path, metavar="FILE")
    parser.add_argument("exercise", help="such as coalescing.transpose_log")
    parser.add_argument("-o", "--out", type=Path, help="the page; EXERCISE.html if none is named")
    told = parser.parse_args(arguments)
    from strides import work_log

    return work_log.write(told.notebook, told.exercise, told.out or Path(f"{told.exercise}.html"))


def trace(arguments: Sequence[str]) -> int:
    """Count what a script's kernels do to memory; as the command `tritontrace` does."""
    return import_module("tritontrace.cli").main(arguments)


def tutor(arguments: Sequence[str]) -> int:
    """Serve hints, checks and traces of your notebooks to an assistant, over MCP; solutions stay shut."""
    parser = _parser(tutor)
    parser.epilog = "An assistant starts it by itself once it is told to: AGENTS.md says how."
    parser.add_argument("--work", type=Path, default=content.OWN / "work", help="where your notebooks are")
    told = parser.parse_args(arguments)
    if find_spec("mcp") is None:
        print(TUTOR, file=sys.stderr)  # the output is the protocol's
        return 1
    from strides import tutor as tutoring

    tutoring.server(told.work).run()
    return 0


def demo(arguments: Sequence[str]) -> int:
    """Grade a sample class, and show its gradebook."""
    return grade(["demo", *arguments])


def grade(arguments: Sequence[str]) -> int:
    """Run an instructor's command, such as `strides grade autograde 04_memory_coalescing`."""
    if find_spec("grader") is None:
        print("This copy of the course has no grader.")
        return 1
    if not all(map(find_spec, ("typer", "nbgrader"))):
        print(GRADER)
        return 1
    return import_module("grader.__main__").app(arguments, prog_name="strides grade")


def complete(arguments: Sequence[str]) -> int:
    """Print the line for the start-up file of bash, zsh or fish by which Tab completes."""
    parser = _parser(complete)
    parser.add_argument("shell", choices=completion.SHELLS)
    print(completion.SHELLS[parser.parse_args(arguments).shell])
    return 0


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "lab": lab,
    "next": next_,
    "check": check,
    "log": log,
    "demo": demo,
    "trace": trace,
    "tutor": tutor,
    "grade": grade,
    "completion": complete,
}


def _parser(command: Callable[[Sequence[str]], int]) -> argparse.ArgumentParser:
    (name,) = (name for name, function in COMMANDS.items() if function is command)
    return argparse.ArgumentParser(f"strides {name}", description=command.__doc__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name, those of the process if none are given; return the exit status."""
    first, *rest = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    if first in COMMANDS:
        return COMMANDS[first](rest)
    if first == "--complete":
        line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", 10_000))]
        print("\n".join(completion.candidates(line, COMMANDS)))
        return 0
    if first == "--version":
        from course_lib.version import VERSION

        print(f"strides {VERSION}")
        return 0
    print("From Strides to FlashAttention, a course on making GPUs fast.\n")
    print("\n".join(f"    strides {name:<12}{command.__doc__}" for name, command in COMMANDS.items()))
    print("\nEach says more with --help.")
    if first in ("-h", "--help", "help"):
        return 0
    print(f"\nThere is no command {first!r}.", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
