"""The instructor's command line: `python -m grader COMMAND`."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import grader
from course_lib.exercises import UNITS

app = typer.Typer(add_completion=False, no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False)
console = Console()
if not console.is_terminal:
    console = Console(width=140)  # a file or a log has no edge to fold tables at

Units = Annotated[list[str] | None, typer.Argument(help="Units such as 04_memory_coalescing; all if none is given.")]
CORES = len(os.sched_getaffinity(0))
Risk = Annotated[bool, typer.Option("--accept-risk", help="Grade even where this machine offers no sandbox.")]


@contextmanager
def progress_bar(what: str) -> Iterator:
    """Yields a function (done, total) that moves a bar."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@app.command()
def build(
    units: Units = None,
    execute: Annotated[bool, typer.Option(help="Run the instructor's notebook and keep its outputs.")] = True,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare the built notebooks with their sources.")
    ] = False,
) -> None:
    """Build notebooks from solutions/NN_topic.py: the instructor's, and the students'."""
    from grader import build as building

    differences = []
    for unit in units or UNITS:
        if check:
            differences += building.check(unit, grader.ROOT)
            continue
        try:
            for path in building.build(unit, execute=execute, root=grader.ROOT):
                console.print(f"{path.relative_to(grader.ROOT)}")
        except building.BuildError as error:
            raise typer.Exit(_say(str(error))) from None
    for difference in differences:
        console.print(difference)
    raise typer.Exit(1 if differences else 0)


@app.command()
def autograde(
    unit: str,
    workers: Annotated[int, typer.Option(help="Submissions judged at a time.")] = CORES,
    accept_risk: Risk = False,
) -> None:
    """Judge every submission of a unit, write the gradebook and the feedback, and show the table."""
    from grader import sandbox

    try:
        grader.exercises(unit)
        console.print(f"sandbox: {sandbox.require(accept_risk)}")
    except (ValueError, sandbox.NoSandbox) as error:
        raise typer.Exit(_say(str(error))) from None
    if accept_risk:
        os.environ["GRADER_ACCEPT_RISK"] = "1"
    grade(grader.home(), unit, workers=workers, accept_risk=accept_risk, root=grader.ROOT)


def grade(home: Path, unit: str, *, workers: int, accept_risk: bool, root: Path) -> None:
    """Judge, then nbgrader's own chain, then the table."""
    from grader.classroom import Class, submissions
    from grader.preprocessors import grade_with_nbgrader

    students = submissions(home, unit)
    if not students:
        raise typer.Exit(_say(f"No submissions: expected {home}/submitted/STUDENT/{unit}/{unit}.ipynb"))
    with progress_bar("judging") as progress, Class(home, workers=workers, accept_risk=accept_risk) as room:
        verdicts = room.grade(unit, progress)
    folder = Path.cwd()
    with progress_bar("gradebook") as progress:
        outcomes = grade_with_nbgrader(home, unit, students, root=root, progress=progress)
    for student, outcome in outcomes.items():
        if outcome != "ok":
            console.print(f"{student}: {outcome}")
    os.chdir(folder)  # nbgrader leaves it elsewhere
    show_gradebook(home, unit)
    flags = [f"{student}: {flag}" for student in verdicts for flag in _flags(students[student], unit)]
    for flag in flags:
        console.print(f"to look at: {flag}")
    console.print(f"feedback: {home}/feedback/STUDENT/{unit}/{unit}.html", soft_wrap=True)


def _flags(path: Path, unit: str) -> list[str]:
    from grader import submission

    exercises = list(grader.exercises(unit).values())
    return submission.read(path, exercises, grader.released(unit)).flags


@app.command()
def report(unit: str) -> None:
    """Show the gradebook of a unit: a row per student, a column per exercise."""
    show_gradebook(grader.home(), unit)


def show_gradebook(home: Path, unit: str) -> None:
    from nbgrader.api import Gradebook, MissingEntry

    exercises = list(grader.exercises(unit).values())
    table = Table(title=unit)
    table.add_column("student", no_wrap=True)
    for number, exercise in enumerate(exercises, 1):
        table.add_column(f"{number}\n/{exercise.points:g}", justify="right", no_wrap=True)
    table.add_column(f"total\n/{sum(e.points for e in exercises):g}", justify="right", no_wrap=True)
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as gradebook:
        try:
            submissions = gradebook.find_assignment(unit).submissions
        except MissingEntry:
            raise typer.Exit(_say(f"{unit} has not been graded yet.")) from None
        for entry in sorted(submissions, key=lambda s: s.student.id):
            grades = {grade.name: grade for notebook in entry.notebooks for grade in notebook.grades}
            row = [_cell(grades.get(grader.check_id(exercise))) for exercise in exercises]
            table.add_row(entry.student.id, *row, f"{entry.score:g}")
    console.print(table)
    console.print(", ".join(f"{number} {exercise.entry}" for number, exercise in enumerate(exercises, 1)))


def _cell(grade) -> str:
    if grade is None or grade.auto_score is None:
        return "?"
    extra = f" +{grade.extra_credit:g}" if grade.extra_credit else ""
    return f"{grade.auto_score:g}{extra}"


@app.command(name="kill-matrix")
def kill_matrix(units: Units = None) -> None:
    """Judge every wrong, wasteful, cheating and unusual variant; fail if one loses more or less than it should."""
    from grader import kill_matrix as matrix
    from grader import variants

    failed = 0
    for unit in units or UNITS:
        with progress_bar(unit) as progress:
            rows = matrix.run(variants.of_unit(UNITS[unit]), progress)
        table = Table(title=f"{unit}: what each variant loses")
        for column in ("exercise", "variant", "points", "loses", ""):
            table.add_column(column)
        for row in rows:
            points = f"{row.verdict.points:g} / {row.verdict.out_of:g}"
            note = "" if row.as_expected else f"expected: {', '.join(row.variant.loses) or 'nothing'}"
            name = row.variant.exercise.split(".")[1]
            table.add_row(name, row.variant.name, points, ", ".join(row.lost) or "nothing", note)
        console.print(table)
        wrong = [row for row in rows if not row.as_expected]
        failed += len(wrong)
        console.print(f"{len(rows) - len(wrong)} of {len(rows)} variants lose what they should")
    raise typer.Exit(1 if failed else 0)


@app.command()
def doctor() -> None:
    """Say what this machine offers for grading."""
    import nbgrader
    import torch
    import triton

    from course_lib import bench
    from grader import sandbox

    level = sandbox.level()
    table = Table("what", "here", "what to do")
    table.add_row("torch, triton", f"{torch.__version__}, {triton.__version__}", "")
    table.add_row("nbgrader", nbgrader.__version__, "")
    speed = "" if bench.available() else "speed is extra credit and is not measured here; it needs sm_80 or newer"
    table.add_row("GPU", torch.cuda.get_device_name() if torch.cuda.is_available() else "none", speed)
    advice = {
        "none": "install bubblewrap, or pass --accept-risk",
        "Landlock": "install bubblewrap for a private network",
    }
    table.add_row("sandbox", level, advice.get(level, ""))
    free = shutil.disk_usage(grader.ROOT).free / 1e9
    table.add_row("free disk", f"{free:.0f} GB", "" if free > 2 else "make room: a class of 100 needs about 1 GB")
    console.print(table)


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the sample class lives.")] = grader.ROOT / "build" / "demo",
) -> None:
    """Build the notebooks, grade the sample class through nbgrader, show the gradebook."""
    from grader import build as building
    from grader import samples, sandbox

    start = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    home = folder / "grader"
    os.environ["GRADER_HOME"] = str(home)
    os.environ["GRADER_ACCEPT_RISK"] = "1"  # the samples are our own
    level = sandbox.level()
    risk = (
        " (none on this machine; the samples are the project's own, so the risk is accepted)" if level == "none" else ""
    )
    console.print(f"sandbox: {level}{risk}")
    for unit in UNITS:
        _, release = building.build(unit, execute=False, root=grader.ROOT, out=folder)
        console.print(f"built {unit}")
        for sample in samples.write(unit, release, home / "submitted"):
            console.print(f"  {sample.student:<16}{sample.about}")
        grade(home, unit, workers=CORES, accept_risk=True, root=folder)
    console.print(f"{time.monotonic() - start:.0f} seconds")


def _say(sentence: str) -> int:
    console.print(sentence)
    return 1


if __name__ == "__main__":
    app()
