"""Trace a script: python -m course_lib.tracing script.py

The script runs unchanged, on this CPU: torch and Triton answer it as on a GPU, tensors lie in ordinary memory, and each launch is
counted. Exit status: 0, 1 if a kernel has a fault, 2 if the script could not be traced to its end.
"""

from __future__ import annotations

import argparse
import json
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import FrameType

from course_lib.hardware import gpu
from course_lib.tracing import KernelError, KernelFault, Trace, report, trace
from course_lib.tracing.as_on_a_gpu import CUDA, as_on_a_gpu

FINE, FAULTS, NOT_TRACED = 0, 1, 2


class _TimeIsUp(BaseException):
    """Raised in the script when its seconds are spent; `except Exception` does not stop it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Trace the script that is named, write the report, and return the exit status."""
    options = _parser().parse_args(arguments)
    script = Path(options.script)
    if not script.is_file():
        return _cannot(f"There is no script {script}.")
    if options.output and not options.output.parent.is_dir():
        return _cannot(f"There is no folder {options.output.parent} to write {options.output.name} to.")
    card = gpu.datasheet(options.gpu) if options.gpu else gpu.planned_for()
    card = replace(card, sms=options.sms or card.sms)
    # what is printed to stdout may be JSON: what the script prints goes where a person reads
    with redirect_stdout(sys.stderr), as_on_a_gpu(card, CUDA), trace() as traced:
        problem = _run(script, options.arguments, options.seconds)
    if not traced.launches and not problem:
        problem = f"{script} launched no kernel, so there is nothing to count. Does it call what it defines?"
    if traced.launches:
        _write(options, traced, f"{script}, as on {_named(card)}", problem)
    if problem:
        return FAULTS if traced.faults else _cannot(problem)
    return FAULTS if traced.faults else FINE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m course_lib.tracing",
        description="Count what a script's Triton kernels do to memory, without a GPU.",
    )
    parser.add_argument("script", help="a Python file that launches kernels")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    parser.add_argument("--format", choices=("table", "json", "html"), default="table", help="of the report")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the report there instead of showing it"
    )
    names = [card.name for card in gpu.DATASHEETS]
    parser.add_argument(
        "--gpu", choices=names, help="which GPU answers the script; by default this machine's, or an H200"
    )
    parser.add_argument("--sms", type=_positive, help="its number of SMs, over which persistent kernels spread")
    parser.add_argument("--seconds", type=_positive, default=600, help="how long the script may take (600)")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _named(card: gpu.GPU) -> str:
    article = "an" if card.name[0] in "AHLR" else "a"
    return f"{article} {card.name} with {card.sms} SMs"


def _run(script: Path, arguments: Sequence[str], seconds: int) -> str:
    """Run a script as `python script.py arguments` would. Returns what kept it from its end, in a sentence, or ""."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    try:
        with _at_most(seconds):
            runpy.run_path(str(script), run_name="__main__")
    except _TimeIsUp:
        return f"{script} was stopped after {seconds:,} seconds; --seconds allows more. Smaller tensors take less."
    except KernelFault as fault:  # its sentence is among the faults
        return f"{script}{_line_of(fault, script)} ended at an access that would stop a GPU: what follows it is not counted."
    except SystemExit as left:
        return "" if left.code in (None, 0) else f"{script} ended itself with {left.code!r} before its end."
    except KeyboardInterrupt:
        return f"{script} was interrupted."
    except BaseException as error:
        said = str(error).strip() if isinstance(error, KernelError) else f"{type(error).__name__}: {error}".strip(": ")
        return f"{script}{_line_of(error, script)} failed: {said}"
    finally:
        sys.argv, sys.path[0] = before
    return ""


def _line_of(error: BaseException, script: Path) -> str:
    """ ", line 12" of the script, where the error went through it."""
    if isinstance(error, SyntaxError) and error.filename == str(script):
        return f", line {error.lineno},"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(script)]
    return f", line {lines[-1]}," if lines else ""


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Raise _TimeIsUp in here after so many seconds."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TimeIsUp

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _write(options: argparse.Namespace, traced: Trace, title: str, problem: str) -> None:
    match options.format:
        case "json":
            text = json.dumps({"script": options.script, "stopped": problem, **report.as_data(traced)}, indent=1) + "\n"
        case "html":
            text = report.page(traced, title, problem)
        case _:
            text = f"{title}\n{report.table(traced)}\n" + (f"{problem}\n" if problem else "")
    if options.output:
        options.output.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)


def _cannot(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return NOT_TRACED


if __name__ == "__main__":
    sys.exit(main())
