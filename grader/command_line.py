"""The parts that all commands of `python -m grader` share: the app, arguments and options, progress bars, and how a sentence is printed."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from typer.core import TyperGroup

from course_lib import content
from course_lib.exercises import UNITS
from grader import disk
from grader.gradebook import dates


class Commands(TyperGroup):
    """Command group that ends with one sentence where the disk refuses something to a command."""

    def invoke(self, ctx: Any) -> Any:
        # nbgrader's gradebook shows there, with its traceback, what it raises anyway
        logging.getLogger("tornado.application").addFilter(lambda record: "nbgrader" not in record.pathname)
        try:
            return super().invoke(ctx)
        except Exception as error:
            if not (refusal := disk.refusal(error)):
                raise
            lost = "Nothing that was there is lost: mend that, and run the same command again."
            raise typer.Exit(
                print_sentence(f"Stopped, because something cannot be read or written: {refusal}. {lost}")
            ) from None


app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    help="The instructor's command line: `python -m grader COMMAND`.",
    pretty_exceptions_enable=False,
)
console = Console()
if not console.is_terminal:
    console = Console(width=140)  # a file or a log has no edge to fold tables at


def existing_units(named: list[str] | None) -> list[str] | None:
    """Return the units that somebody named; end the command where one does not exist."""
    for unit in named or ():
        if unit not in UNITS:
            raise typer.Exit(print_sentence(f"There is no unit {unit!r}. There are: {', '.join(UNITS)}."))
    return named


Units = Annotated[
    list[str] | None,
    typer.Argument(help="Units such as 04_memory_coalescing; all if none is given.", callback=existing_units),
]


def _unit(named: str) -> str:
    """The unit that somebody named, if it exists: a slip is told before the libraries are loaded."""
    existing_units([named])
    return named


def a_date(named: str) -> str:
    """Return the date that somebody named; end the command where it is none."""
    with in_a_sentence():
        dates.utc(named)
    return named


def one_of(*known: str, what: str) -> Callable[[str], str]:
    """Make a callback that takes one of the known words; `what` begins the sentence on another one: "There is no form"."""

    def check(named: str) -> str:
        if named not in known:
            raise typer.Exit(print_sentence(f"{what} {named!r}. There are: {', '.join(known)}."))
        return named

    return check


def existing(named: Path | None) -> Path | None:
    """Return the file or folder that somebody named; end the command where it does not exist."""
    if named and not named.exists():
        raise typer.Exit(print_sentence(f"{named} does not exist."))
    return named


Unit = Annotated[str, typer.Argument(help="Such as 04_memory_coalescing.", callback=_unit)]
CORES = len(os.sched_getaffinity(0))
Fields = Annotated[
    list[str] | None,
    typer.Option("--field", help="A roster's column that is not known by its name: 'name=Volledige naam'. Repeat it."),
]
Risk = Annotated[bool, typer.Option("--accept-risk", help="Grade even where this machine offers no sandbox.")]


OF_A_WHEEL = ("demo", "grade")
NEEDS_A_CLONE = (
    "An installed course has no hidden cases, and no sources to build from: what classes, builds and packs need is in a clone of "
    "the repository or its unpacked zip, as `.venv/bin/python -m grader`."
)


@app.callback()
def loading(context: typer.Context) -> None:
    """Tell a waiting person on stderr that the command is loading."""
    if content.INSTALLED and context.invoked_subcommand not in OF_A_WHEEL:
        raise typer.Exit(print_sentence(NEEDS_A_CLONE))
    if sys.stderr.isatty() and "--help" not in sys.argv:
        print(f"{context.invoked_subcommand}: the libraries take some seconds to load.", file=sys.stderr)


@contextmanager
def in_a_sentence(kinds: type[Exception] | tuple[type[Exception], ...] = ValueError) -> Iterator[None]:
    """End the command with the message of an exception of these kinds."""
    try:
        yield
    except kinds as error:
        raise typer.Exit(print_sentence(str(error))) from None


@contextmanager
def progress_bar(what: str) -> Iterator:
    """Yield a function (done, total) that moves a progress bar."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_sentence(sentence: str) -> int:
    """Print a sentence as it is, and return 1: the exit status of a command that it ends."""
    console.print(sentence, markup=False)  # a student's name may look like markup
    return 1


def print_lines(lines: Iterable[str]) -> None:
    """Print lines that a terminal, not Python, breaks: what is copied from one is whole."""
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def show_gradebook(home: Path, unit: str) -> None:
    """Print the gradebook of a unit, and what else a person should know of it."""
    from grader.reporting import in_a_terminal

    with in_a_sentence():
        table, lines = in_a_terminal.gradebook(home, unit, console.width)
    console.print(table)
    print_lines(lines)
