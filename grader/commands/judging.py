"""Commands that judge: a unit of the class, or one notebook."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import grader
from grader.command_line import (
    CORES,
    Risk,
    Unit,
    app,
    console,
    existing,
    in_a_sentence,
    print_sentence,
    progress_bar,
    show_gradebook,
)

if TYPE_CHECKING:
    from grader.cohort.workers import Workers


@app.command()
def autograde(
    unit: Unit,
    workers: Annotated[int, typer.Option(min=1, help="Submissions judged at a time on this machine.")] = CORES,
    scheduler: Annotated[str, typer.Option(help="A Dask scheduler, tcp://HOST:8786: judge on its workers.")] = "",
    again: Annotated[bool, typer.Option("--again", help="Retry what ended its worker twice.")] = False,
    student: Annotated[list[str] | None, typer.Option(help="Only this one; may be given more than once.")] = None,
    gpu: Annotated[
        grader.GPUMode,
        typer.Option(help="Where there is a GPU: leave it alone, show what is wrong there, or let that count."),
    ] = "shown",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Judge, and only say whose marks would change.")] = False,
    accept_risk: Risk = False,
) -> None:
    """Judge every submission of a unit, write the gradebook and the feedback, and show the table.

    Stopped at any moment, it goes on from there the next time: only what is missing or has changed is judged.
    """
    if not any(grader.home().glob(f"submitted/*/{unit}")):
        raise typer.Exit(print_sentence(_nothing_to_grade(grader.home(), unit)))
    from grader.child import sandbox
    from grader.cohort.workers import Dask, WorkersLost

    with in_a_sentence((ValueError, sandbox.NoSandbox, WorkersLost)):
        console.print(f"sandbox: {sandbox.require(accept_risk)}")
        chosen = Dask(scheduler, accept_risk=accept_risk) if scheduler else workers
    if accept_risk:
        os.environ["GRADER_ACCEPT_RISK"] = "1"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the end of a job is as orderly as Ctrl-C
    grade(
        grader.home(),
        unit,
        workers=chosen,
        accept_risk=accept_risk,
        root=grader.ROOT,
        again=again,
        only=student or (),
        gpu=gpu,
        dry_run=dry_run,
    )


def grade(
    home: Path,
    unit: str,
    *,
    workers: int | Workers,
    accept_risk: bool,
    root: Path,
    again: bool = False,
    only: Collection[str] = (),
    gpu: grader.GPUMode = "shown",
    dry_run: bool = False,
) -> None:
    """Judge submissions, enter each into nbgrader's gradebook as it is complete, then show the table. only: these students, if any.
    dry_run: into a copy of the books, and only say whose marks would change.

    Two at a time would write over each other, so the second waits for the first.
    """
    from grader.cohort.lock import locked

    home.mkdir(parents=True, exist_ok=True)

    def wait() -> None:
        console.print(f"Another autograde is at work in {home}: waiting for it.", soft_wrap=True)

    from grader.cohort import copies

    with locked(home, wait), copies.rehearsal(home, unit) if dry_run else nullcontext(home) as at:
        _grade(home, at, unit, workers=workers, accept_risk=accept_risk, root=root, again=again, only=only, gpu=gpu)


def _nothing_to_grade(home: Path, unit: str) -> str:
    return f"No submissions: expected {home}/submitted/STUDENT/{unit}/{unit}.ipynb"


def _grade(
    home: Path,
    books_at: Path,
    unit: str,
    *,
    workers: int | Workers,
    accept_risk: bool,
    root: Path,
    again: bool,
    only: Collection[str],
    gpu: grader.GPUMode,
) -> None:
    from grader.child.sandbox import NoSandbox
    from grader.cohort import regrade
    from grader.cohort.canary import Broken
    from grader.cohort.classroom import POISON, ClassGrader, misnamed, submissions
    from grader.cohort.workers import OtherVersion, WorkersLost
    from grader.gradebook import to_look_at
    from grader.gradebook.books import Books
    from grader.judging.verdicts import NO_GPU

    rehearsed, unentered, unjudged, notes, flags = books_at != home, misnamed(home, unit), [], [], []
    found = submissions(home, unit)
    if not found:
        for note in unentered:
            console.print(note, markup=False)
        raise typer.Exit(print_sentence(_nothing_to_grade(home, unit)))
    with in_a_sentence():
        room = ClassGrader(home, workers=workers, accept_risk=accept_risk, again=again, gpu=gpu)
        plan = regrade.planned(books_at, unit, found, only, room.device, room.workers.places(gpu))
        for sentence in plan.said:
            console.print(sentence, markup=False, soft_wrap=True)
        if not rehearsed and (snapshot := plan.snapshot()):
            console.print(f"The gradebook as it was: {snapshot}", markup=False, soft_wrap=True)
        books = Books(books_at, unit, root=root, device=room.device)
    notes += books.changes
    if room.device != NO_GPU:
        console.print(f"GPU: {room.device}")
    try:
        with progress_bar("judging") as progress, room:
            if plan.students:
                room.prove(unit)
            for graded in room.grade(unit, progress, plan.students):
                before = books.written
                outcome = books.enter(graded.student, graded.judged, graded.read)
                if books.written > before:
                    plan.entered(graded.student)
                unentered += [f"{graded.student}: not entered: {outcome}"] if outcome != "ok" else []
                unjudged += [f"{graded.student}: {why}"] if (why := graded.unjudged) else []
                flags += [(graded.student, where or unit, flag) for where, flag in graded.read.flags]
                notes += [f"to look at: {graded.student}: {exercise} {POISON}" for exercise in graded.poison]
    except KeyboardInterrupt:
        print_sentence("Stopped. What was judged is kept: the same command goes on from there.")
        raise typer.Exit(130) from None
    except (Broken, NoSandbox, OtherVersion, WorkersLost) as error:
        raise typer.Exit(print_sentence(str(error))) from None
    if rehearsed:
        return _would_change(unit, plan.changed(), books.changes + regrade.upcoming(home, unit), unentered + unjudged)
    show_gradebook(home, unit)
    notes += [
        f"{s}: a worker ended while it judged this; it was judged again, alone" for s in dict.fromkeys(room.ended)
    ]
    changed = [f"mark changed: {student}: {what}" for student, what in plan.changed().items()]
    for note in sorted(notes) + to_look_at.lines(flags) + sorted(unentered) + changed:
        console.print(note, markup=False)
    plan.changes.shown()
    anew = f"{books.written} of {len(plan.students)} pages written anew"
    console.print(f"feedback: {home}/feedback/STUDENT/{unit}/{unit}.html, {anew}", soft_wrap=True)
    for note in sorted(unjudged):
        console.print(f"not judged, no mark: {note}", markup=False)
    if unjudged:
        raise typer.Exit(print_sentence("Mend that and run the same command again: what has no mark is judged anew."))
    if unentered:
        raise typer.Exit(1)


def _would_change(unit: str, changes: dict[str, str], structure: Sequence[str], problems: Sequence[str]) -> None:
    """Say what a dry run has shown."""
    for note in [
        *structure,
        *(f"mark would change: {student}: {what}" for student, what in changes.items()),
        *problems,
    ]:
        console.print(note, markup=False)
    students = "The mark of 1 student" if len(changes) == 1 else f"The marks of {len(changes) or 'no'} students"
    console.print(
        f"{students} would change. Nothing was entered; what was judged is kept, so that `autograde {unit}` has it already.",
        soft_wrap=True,
    )
    raise typer.Exit(1 if problems else 0)


@app.command()
def freeze(
    unit: Unit, thaw: Annotated[bool, typer.Option("--thaw", help="Let the next autograde change marks again.")] = False
) -> None:
    """Keep the marks of everybody who has been graded in a unit, whatever changes in the course."""
    from grader.cohort import frozen

    with in_a_sentence():
        grader.exercises(unit)
    (frozen.thaw if thaw else frozen.freeze)(grader.home(), unit)
    kept = (
        "may change again" if thaw else "stay as they are; who has not been graded yet still is, at the next autograde"
    )
    console.print(f"{unit}: marks {kept}.", soft_wrap=True)


@app.command(name="grade")
def grade_one(
    notebook: Annotated[Path, typer.Argument(callback=existing)],
    student: Annotated[
        str, typer.Option(help="Whose hidden inputs are drawn; the same as in the class for the same verdict.")
    ] = "",
    unit: Annotated[str, typer.Option(help="Where the notebook does not tell.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print plain data for a program.")] = False,
    html: Annotated[Path | None, typer.Option(help="Write a page, too.")] = None,
    accept_risk: Risk = False,
) -> None:
    """Judge one notebook and show the verdicts; the gradebook stays as it is."""
    import json

    from grader.child import sandbox
    from grader.cohort import canary, single
    from grader.judging import submission
    from grader.judging import twists as of_class

    if not student and of_class.units(grader.home()):
        raise typer.Exit(
            print_sentence("This class asks each student for tasks of their own: --student says whose notebook it is.")
        )
    with in_a_sentence((ValueError, submission.Problem, sandbox.NoSandbox, canary.Broken)):
        graded = single.grade(notebook, student or notebook.stem, unit=unit, accept_risk=accept_risk)
    if html:
        html.write_text(graded.html())
    typer.echo(json.dumps(graded.tree(), indent=1) if as_json else graded.text())
    raise typer.Exit(0 if graded.judged else 1)
