"""A script, run as `python script.py arguments` would run it, until its end or until what keeps it from it."""

from __future__ import annotations

import argparse
import runpy
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from tritontrace import gpu
from tritontrace.messages import say
from tritontrace.ttir.frontend import TARGET
from tritontrace.ttir.launching import KernelError, KernelFault

FINE, FAULTS, NOT_TRACED = 0, 1, 2  # exit statuses


class _TimeIsUp(BaseException):
    """Raised in the script when its seconds are spent; `except Exception` does not stop it."""


def parser_for(name: str, description: str) -> argparse.ArgumentParser:
    """Make a parser with the options of every command on a script: the script, its arguments, a format, an output, a card, seconds."""
    parser = argparse.ArgumentParser(prog=name, description=description)
    parser.add_argument("script", help="a Python file that launches kernels")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own arguments")
    parser.add_argument("--format", choices=("table", "json", "html"), default="table", help="of the report")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the report there instead of showing it"
    )
    parser.add_argument(
        "--gpu",
        type=gpu_named,
        metavar="NAME",
        help="which GPU answers the script; by default this machine's, or an H200",
    )
    parser.add_argument("--sms", type=positive, help="its number of SMs, over which persistent kernels spread")
    parser.add_argument("--seconds", type=positive, default=600, help="how long the script may take (600)")
    return parser


def gpu_named(text: str) -> str:
    """Parse the name of a GPU, as an argparse type: an unknown one is refused, with suggestions."""
    if text in gpu.NAMES:
        return text
    near = [f'"{name}"' for name in gpu.NAMES if name.upper().startswith(text.upper())]
    names = [f'"{name}"' for name in gpu.NAMES]
    question = say("asked.script.gpu_near", near=near) if near else say("asked.script.gpu_names", names=names)
    raise argparse.ArgumentTypeError(say("asked.script.gpu", name=text, question=question))


def positive(text: str) -> int:
    """Parse a number of at least 1, as an argparse type."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def problem_with(options: argparse.Namespace) -> str:
    """Return a message if the script or the output's folder does not exist, else ""."""
    if not Path(options.script).is_file():
        return f"There is no script {options.script}."
    if options.output and not options.output.parent.is_dir():
        return f"There is no folder {options.output.parent} to write {options.output.name} to."
    return ""


def card_of(options: argparse.Namespace) -> gpu.GPU:
    """Return the GPU that host code sees, from --gpu and --sms."""
    card = gpu.datasheet(options.gpu) if options.gpu else gpu.planned_for()
    return replace(card, sms=options.sms or card.sms)


def named(card: gpu.GPU) -> str:
    """Describe a GPU: "an H200 with 132 SMs"."""
    article = "an" if card.name[0] in "AHLR" else "a"
    other = (
        ""
        if int(card.architecture.removeprefix("sm_")) < 100
        else f", though kernels are read as for an sm_{TARGET.arch}"
    )
    return f"{article} {card.name} with {card.sms} SMs{other}"


def run(script: Path, arguments: Sequence[str], seconds: int) -> str:
    """Run a script as `python script.py arguments` would. Return a message if it did not end normally, else ""."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(script), *arguments], str(script.resolve().parent)
    try:
        with _at_most(seconds):
            runpy.run_path(str(script), run_name="__main__")
    except _TimeIsUp:
        return f"{script} was stopped after {seconds:,} seconds; --seconds allows more. Smaller tensors take less, and so does --sample."
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


def write(options: argparse.Namespace, text: str) -> None:
    """Write a report to the file of --output, or to stdout."""
    if options.output:
        options.output.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)


def cannot(sentence: str) -> int:
    """Print to stderr why there is nothing to report, and return the exit status for it."""
    print(sentence, file=sys.stderr)
    return NOT_TRACED
