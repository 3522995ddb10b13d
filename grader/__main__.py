"""The instructor's command line: `python -m grader COMMAND`."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

import grader
from course_lib import content
from course_lib.exercises import UNITS
from grader.command_line import (
    CORES,
    Fields,
    Risk,
    Unit,
    Units,
    a_date,
    app,
    console,
    existing,
    existing_units,
    in_a_sentence,
    one_of,
    print_lines,
    print_sentence,
    progress_bar,
)
from grader.lms import FORMS

if TYPE_CHECKING:
    from course_lib.exercises.twists import Draw, Twist
    from grader.cohort.workers import Workers


@app.command()
def build(
    units: Units = None,
    execute: Annotated[
        bool, typer.Option(help="Run cells of the instructor's notebook whose code, or what they read, has changed.")
    ] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Run the other cells, too: their figures or course_lib have changed.")
    ] = False,
    pictures: Annotated[
        bool,
        typer.Option(
            "--pictures", help="Draw pictures anew, whose code in course_lib has changed, and run nothing for it."
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only compare the built notebooks with their sources.")
    ] = False,
) -> None:
    """Build notebooks from solutions/NN_topic.py: the instructor's, and the students'."""
    from grader.building import build as building
    from grader.building import index
    from grader.building import units as table

    if again and not execute:
        raise typer.Exit(print_sentence("--again runs cells and --no-execute runs none: take one of them."))
    differences = [*index.check(grader.ROOT), *table.check(grader.ROOT)] if check else []
    for unit in units or UNITS:
        if check:
            found = building.check(unit, grader.ROOT)
            differences += found
            for sentence in [] if found else building.waiting(unit, grader.ROOT):
                console.print(sentence, markup=False, soft_wrap=True)
            continue
        with in_a_sentence(building.BuildError):
            built = building.build(unit, execute=execute, root=grader.ROOT, again=again, pictures=pictures)
        for path in built:
            console.print(f"{path.relative_to(grader.ROOT)}")
        for sentence in building.missing(unit, grader.ROOT) + building.waiting(unit, grader.ROOT):
            console.print(sentence, markup=False, soft_wrap=True)
    if not check:
        console.print(f"{index.write(grader.ROOT)}")
        console.print(f"{table.write(grader.ROOT)}")
    for difference in differences:
        console.print(difference)
    raise typer.Exit(1 if differences else 0)


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
    unit: Unit,
    thaw: Annotated[bool, typer.Option("--thaw", help="Let the next autograde change marks again.")] = False,
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


@app.command()
def report(unit: Unit) -> None:
    """Show the gradebook of a unit, and write the class report: distributions, mistakes, what a person should look at."""
    from grader.gradebook import amended, results
    from grader.reporting import report as reporting

    with in_a_sentence():
        amended.require_current(grader.home(), unit)
    show_gradebook(grader.home(), unit)
    with in_a_sentence(results.NotGraded):
        path = reporting.write(grader.home(), unit)
    console.print(f"class report: {path}", soft_wrap=True)


@app.command()
def term(
    student: Annotated[str, typer.Option(help="This one through all units, here; the page has everybody.")] = "",
) -> None:
    """Show a class over all units that have been graded: who falls behind, which exercises cost most, each student."""
    from grader.reporting import in_a_terminal
    from grader.reporting import term as terms

    with in_a_sentence():
        whole = terms.of_class(grader.home())
        console.print(in_a_terminal.term(whole, student))
    for costly in whole.costly[whole.latest]:
        lost = f"{100 * costly.lost:.0f} % of the points lost, by {costly.students} students"
        console.print(f"{costly.exercise}: {lost}", markup=False)
    console.print(f"the term: {terms.write(grader.home(), whole)}", soft_wrap=True)


def show_gradebook(home: Path, unit: str) -> None:
    """Print the gradebook of a unit, and what else a person should know of it."""
    from grader.reporting import in_a_terminal

    with in_a_sentence():
        table, lines = in_a_terminal.gradebook(home, unit, console.width)
    console.print(table)
    print_lines(lines)


@app.command()
def export(
    unit: Unit,
    form: Annotated[
        str,
        typer.Argument(
            help="exercises, criteria, canvas, moodle or feedback.",
            callback=one_of(*FORMS, "feedback", what="There is no export"),
        ),
    ] = "exercises",
    to: Annotated[Path | None, typer.Option(help="The file to write; else reports/UNIT_FORM.csv.")] = None,
    roster: Annotated[
        Path | None,
        typer.Option(help="The CSV that Canvas or Moodle exports: its students, its ids.", callback=existing),
    ] = None,
    column: Annotated[str, typer.Option(help="Canvas's name of the assignment, with its id: 'Unit 04 (1234)'.")] = "",
    field: Fields = None,
    out_of: Annotated[
        str, typer.Option(help="Where the LMS's maximum is another: `column` scales scores to it, `unit` does not.")
    ] = "",
) -> None:
    """Write the gradebook as CSV: per exercise, per criterion, or for the import of Canvas or Moodle. `feedback` writes the
    feedback pages as a zip that Canvas or Moodle takes back."""
    from grader.cohort import frozen
    from grader.gradebook import results
    from grader.lms import exports
    from grader.reporting import in_a_terminal

    if form == "feedback":
        return _hand_back(unit, to)
    path = to or grader.home() / "reports" / f"{unit}_{form}.csv"
    with in_a_sentence():
        done = exports.export(
            grader.home(), unit, form, roster=roster, fields=field or (), column=column, out_of=out_of
        )
    exports.write(done.rows, path)
    frozen.note_export(grader.home(), unit)
    console.print(_maximum(unit), soft_wrap=True)
    print_lines(in_a_terminal.by_hand(grader.home(), unit, results.gradebook(grader.home(), unit)))
    if done.made:
        console.print(
            f"Canvas would make a new assignment {unit!r}. The roster has: {', '.join(done.made)}; --column names one of them.",
            markup=False,
            soft_wrap=True,
        )
    for students in done.doubles:
        same = f"{' and '.join(students)} are the same person in the LMS"
        mend = "remove who does not count (`nbgrader db student remove NAME --force`) and export again"
        console.print(f"{same}: left out, since one mark alone can be theirs; {mend}.", markup=False, soft_wrap=True)
    for student in done.cut:
        console.print(f"{student} has more than Moodle's maximum, and gets the maximum.", markup=False, soft_wrap=True)
    for student in done.unknown:
        console.print(f"{student} is not in {roster}; not exported.", markup=False)
    if done.absent:
        absent = "; ".join(done.absent)
        console.print(f"In {roster}, and nothing of theirs is graded: {absent}.", markup=False, soft_wrap=True)
    for student in done.unmarked:
        left_out = "left out" if form in exports.LMS else "empty"
        console.print(f"{student} has no mark, as not everything could be judged: {left_out}.", markup=False)
    console.print(f"{path}", soft_wrap=True)


def _hand_back(unit: str, to: Path | None) -> None:
    from grader import disk
    from grader.cohort import frozen
    from grader.gradebook import results
    from grader.lms import feedback_export
    from grader.reporting import in_a_terminal

    path = to or grader.home() / "reports" / f"{unit}_feedback.zip"
    with in_a_sentence():
        packed, without = feedback_export.pack(grader.home(), unit)
    disk.write({path: packed})
    frozen.note_export(grader.home(), unit)
    with suppress(results.NotGraded):
        print_lines(in_a_terminal.behind(grader.home(), unit, results.gradebook(grader.home(), unit)))
    for student in without:
        told = "has a page and no file that the LMS would know: hand this page back by itself"
        console.print(f"{student} {told}.", markup=False, soft_wrap=True)
    console.print(f"{path}", soft_wrap=True)


@app.command(name="import")
def import_submissions(
    unit: Unit,
    source: Annotated[
        Path,
        typer.Argument(
            help="A folder or a zip, as Canvas or Moodle exports it or one folder a student.", callback=existing
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be imported.")] = False,
    times: Annotated[
        Path | None,
        typer.Option(
            help="Moodle's grading worksheet of this assignment, which says who handed in when.", callback=existing
        ),
    ] = None,
) -> None:
    """Put the submissions that an LMS has exported where they are graded."""
    from grader.lms import imports, rosters

    with in_a_sentence():
        grader.exercises(unit)
        when = rosters.read(times).times() if times else {}
        done = imports.collect(source, unit, grader.home(), dry_run=dry_run, times=when)
    for remark in done.remarks:
        console.print(remark, markup=False)
    what = "would be imported" if dry_run else f"imported to {grader.home()}/submitted"
    console.print(f"{len(done.students)} notebooks {what}: {done.changes}", soft_wrap=True)


@app.command()
def roster(
    file: Annotated[
        Path,
        typer.Argument(
            help="Canvas's gradebook or groups, Moodle's worksheet or participants: a CSV.", callback=existing
        ),
    ],
    field: Fields = None,
    by_login: Annotated[
        bool, typer.Option("--by-login", help="Call newcomers by their login, as nbgrader's exchange does.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Who is not in it has left the class.")] = False,
) -> None:
    """Import who is in the class, with sections and groups, so that those who hand in nothing are named."""
    from grader.lms import enrolled, rosters

    with in_a_sentence():
        people = rosters.read(file, field or ()).people()
    done = enrolled.enrol(grader.home(), people, by_login=by_login, replace=replace)
    for remark in done.remarks:
        console.print(remark, markup=False, soft_wrap=True)
    console.print(f"{len(done.students)} students in the class, {len(done.new)} of them new.")


@app.command()
def twists(
    units: Annotated[
        list[str] | None,
        typer.Argument(help="Ask for tasks of one's own in these units, too.", callback=existing_units),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Not in these units any more; in none if none is named.")] = False,
    student: Annotated[str, typer.Option(help="Show the code and the tasks of this one.")] = "",
    solutions: Annotated[
        bool, typer.Option("--solutions", help="With --student: the published answers to them.")
    ] = False,
    notebooks: Annotated[
        Path | None, typer.Option(help="A new folder: notebooks for each student, with the tasks in their text.")
    ] = None,
) -> None:
    """Give students twists in some exercises, drawn for each; write the codes that students need."""
    from grader.audit import twisted
    from grader.building import personal
    from grader.judging import twists as of_class
    from grader.lms import codes

    home = grader.home()
    with in_a_sentence():
        now = {*of_class.units(home)}
        if off or units:
            now = codes.switch(home, (now - {*(units or now)}) if off else now | {*(units or ())})
        if not now:
            return console.print(
                "No unit asks for tasks of one's own: everybody has the published ones.", soft_wrap=True
            )
        if student:
            return _show_tasks(student, of_class.of_student(home, student), twisted.source if solutions else None)
        path, students = codes.write(home)
        console.print(f"Tasks of one's own in {', '.join(sorted(now))}.", soft_wrap=True)
        console.print(f"{path}: the codes of {students} students. Give each the code in its row.", soft_wrap=True)
        if notebooks:
            count = personal.write(
                {row.student: of_class.of_student(home, row.student) for row in codes.table(home)}, notebooks
            )
            console.print(f"{notebooks}: {count} notebooks.", soft_wrap=True)


def _show_tasks(student: str, drawn: Draw, source: Callable[[str, Twist], str] | None) -> None:
    console.print(f"{student}: {drawn.code}", markup=False)
    for exercise, twist in ((id, twist) for unit in drawn.units for id, twist in drawn.tasks(unit).items()):
        console.print(f"{exercise}, {twist.key}: {twist.asks}", markup=False, soft_wrap=True)
        if source:
            print(f"\n{source(exercise, twist)}")


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


@app.command()
def pack(
    grader_of: Annotated[
        str,
        typer.Argument(
            metavar="GRADER",
            help="gradescope or github.",
            callback=one_of("gradescope", "github", what="There is no pack for"),
        ),
    ],
    unit: Unit,
    to: Annotated[Path | None, typer.Option(help="The zip; else packs/GRADER_UNIT.zip in the class's folder.")] = None,
    repository: Annotated[
        str, typer.Option(help="For github: OWNER/NAME, from which students' workflows install the course.")
    ] = "",
    accept_risk: Risk = False,
) -> None:
    """Pack a unit for another grader: the zip of Gradescope's autograder, or a template repository for GitHub Classroom."""
    if to and not to.parent.is_dir():
        raise typer.Exit(print_sentence(f"There is no folder {to.parent} to write {to.name} to."))
    if grader_of == "github" and not repository:
        raise typer.Exit(print_sentence("Name the course's repository on GitHub: --repository OWNER/NAME."))
    from grader.judging import twists as of_class
    from grader.packing import github, gradescope

    home = grader.home()
    if grader_of == "github" and unit in of_class.units(home):
        raise typer.Exit(
            print_sentence(
                f"{unit} asks each student for tasks of their own, and GitHub's runs may not know the secret that says which."
            )
        )
    to = to or home / "packs" / f"{grader_of}_{unit}.zip"
    home.mkdir(parents=True, exist_ok=True)
    to.parent.mkdir(exist_ok=True)
    if grader_of == "gradescope":
        rules = gradescope.pack(unit, home, to, accept_risk=accept_risk)
        secret = "It holds the class's secret: show it to no student"
        risk = ", and where Gradescope offers no sandbox, a student's code can read it" if accept_risk else ""
        console.print(f"{to}: upload it as the autograder. {secret}{risk}.", soft_wrap=True)
        students = len(set(rules.ids.values()))
        console.print(
            f"{students} students of the class can be told by an email address, a login or a number. Others get hidden inputs and "
            "dates of their own there.",
            soft_wrap=True,
        )
        return
    github.pack(unit, home, to, repository)
    console.print(f"{to}: unpack it into the template repository of the assignment.")


@app.command()
def release(folder: Annotated[Path, typer.Argument(help="A new folder, which students get.")]) -> None:
    """Copy the course for students: without solutions, hidden cases and variants."""
    from grader.building import student_copy as releasing
    from grader.judging import twists as of_class

    with in_a_sentence():
        files = releasing.copy(grader.ROOT, folder, of_class.units(grader.home()))
    console.print(
        f"{folder}: {files} files, no solutions. Hand out this folder, as a zip or as a repository of its own."
    )


@app.command()
def slides(unit: Unit, to: Annotated[Path, typer.Option(help="An HTML file.")] = Path("slides.html")) -> None:
    """Write a unit's pictures as slides: title, question, picture, three lines."""
    from grader.building import slides as writing

    with in_a_sentence():
        shown = writing.write(unit, grader.ROOT, to)
    console.print(f"{to}: {shown} slides. Open it in a browser; it prints one slide on each sheet.")


@app.command()
def due(
    unit: Unit,
    when: Annotated[str, typer.Argument(help="2026-11-30T23:59+01:00; local time without a zone.", callback=a_date)],
    percent: Annotated[
        float | None, typer.Option(min=0, max=100, help="What each day begun costs, of the points earned.")
    ] = None,
    grace: Annotated[float | None, typer.Option(min=0, help="Minutes of lateness that nobody minds.")] = None,
    at_most: Annotated[
        float | None, typer.Option(min=0, max=100, help="The most that lateness costs, in percent.")
    ] = None,
) -> None:
    """Set the date a unit is due, and what lateness costs in it; else grader/nbgrader_config.py says that."""
    from grader.gradebook import late

    with in_a_sentence():
        grader.exercises(unit)
        if {percent, grace, at_most} != {None}:
            late.set_rules(grader.home(), unit, percent=percent, grace_minutes=grace, at_most=at_most)
        console.print(f"{unit} is due on {late.set_due(grader.home(), unit, when):%Y-%m-%d %H:%M} UTC")
        if late.without_times(grader.home(), unit):
            console.print(
                "No submission of this unit says when it was handed in, so nobody is late here: that is your LMS's to print_sentence, or "
                "`import --times` reads it from Moodle's grading worksheet.",
                soft_wrap=True,
            )


@app.command()
def counts(
    unit: Unit,
    path: Annotated[list[str] | None, typer.Option(help="This exercise is part of the maximum.")] = None,
    more: Annotated[list[str] | None, typer.Option(help="This one is extra.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="This one does not count. Repeat each as often as needed.")
    ] = None,
    above: Annotated[
        bool | None, typer.Option("--above/--not-above", help="Whether More may lift a score above the maximum.")
    ] = None,
) -> None:
    """Show which exercises of a unit count in the class, or change it; the next autograde follows."""
    from grader.gradebook import counts as counting

    with in_a_sentence():
        found = counting.of(grader.home(), unit)
        if path or more or drop or above is not None:
            ways: dict[counting.Counting, list[str]] = {"path": path or [], "more": more or [], "dropped": drop or []}
            found = counting.set_rules(grader.home(), unit, ways, above)
    table = Table("exercise", "counts as", "points", title=unit)
    for way in counting.WAYS:
        for id in found.ids(way):
            table.add_row(id, way, f"{found.exercises[id].points:g}")
    console.print(table)
    console.print(_maximum(unit), soft_wrap=True)


def _maximum(unit: str) -> str:
    """Say in a sentence what the unit's maximum in the class is."""
    from grader.gradebook import counts

    found = counts.of(grader.home(), unit)
    path = f"{unit}: the maximum is {found.out_of:g} points, those of {len(found.ids('path'))} exercises"
    goes = "above it, too" if found.above else "up to it"
    return f"{path}; another {found.more:g} can be earned in More, and count {goes}." if found.more else f"{path}."


@app.command()
def extend(
    unit: Unit,
    student: str,
    days: Annotated[float, typer.Option(help="In place of what was given before; 0 takes it back.")],
) -> None:
    """Give one student more time."""
    from grader.gradebook import late

    with in_a_sentence():
        grader.exercises(unit)
        doubt = late.unheard_of(grader.home(), student) if days else ""
        until = late.extend(grader.home(), unit, student, days)
    console.print(f"{student}: {unit} is due on {until:%Y-%m-%d %H:%M} UTC" if until else f"{unit} has no due date yet")
    if doubt:
        console.print(doubt, markup=False)


@app.command(name="kill-matrix")
def kill_matrix(
    units: Units = None,
    exercise: Annotated[
        str, typer.Option(help="Of the unit's exercises this one alone: 'matmul' or 'tiling.matmul'.")
    ] = "",
    sentences: Annotated[
        bool, typer.Option("--sentences", help="Print what each wrong kernel is told, and how many are told something.")
    ] = False,
    write_remarks: Annotated[
        bool,
        typer.Option("--write-remarks", help="Write down the remarks that were drawn: somebody reads what changed."),
    ] = False,
) -> None:
    """Judge every wrong, wasteful, cheating and unusual variant; fail if one loses more or less than it should."""
    from grader.audit import kill_matrix as matrix
    from grader.audit import remarks, variants

    failed = 0
    for unit in units or UNITS:
        chosen = variants.of_unit(UNITS[unit])
        if exercise:
            chosen = [v for v in chosen if v.exercise in (exercise, f"{UNITS[unit]}.{exercise}")]
        if not chosen:
            known = ", ".join(id.partition(".")[2] for id in grader.exercises(unit))
            raise typer.Exit(print_sentence(f"{unit} has no exercise {exercise!r} with variants. There are: {known}."))
        with progress_bar(unit) as progress:
            rows = matrix.run(chosen, progress)
        if write_remarks:
            remarks.write({row.key: remarks.to_read(row.verdict.remark) for row in rows})
        for table in matrix.tables(rows) if not sentences else ():
            console.print(table)
        if sentences:
            table, explained, lose = matrix.said(rows)
            console.print(table)
            console.print(f"{explained} of {lose} wrong kernels are told more than numbers")
        wrong = [row for row in rows if not row.as_expected]
        for row in wrong:
            console.print(f"{row.variant.exercise}, {row.variant.name}: {row.difference}", markup=False)
        for of, sentence in matrix.unused_remarks(rows):
            console.print(f"{of}: no variant draws {sentence!r}", markup=False)
        for of in dict.fromkeys(v.exercise for v in chosen):
            for key in matrix.never_lost(of):
                failed += 1
                console.print(
                    f"{of}: no variant loses {key}. Add one to grader/audit/variants, in {UNITS[unit]}.", markup=False
                )
        failed += len(wrong)
        console.print(f"{len(rows) - len(wrong)} of {len(rows)} variants lose what they should")
    raise typer.Exit(1 if failed else 0)


@app.command()
def mutations(units: Units = None) -> None:
    """Change the published kernels in every small way; fail if a change costs nothing and survivors.toml says not why."""
    from grader.audit import mutations as mutating

    problems = []
    for unit in units or UNITS:
        with progress_bar(unit) as progress:
            report = mutating.report(unit, progress)
        table = Table("exercise", "mutants", "survivors", title=f"{unit}: mutants of the published kernels")
        for exercise in dict.fromkeys(mutant.exercise for mutant, _ in report.outcomes):
            titles = [title for mutant, title in report.outcomes if mutant.exercise == exercise]
            table.add_row(exercise.split(".")[1], f"{len(titles)}", f"{titles.count('')}")
        console.print(table)
        for mutant in report.survivors:
            console.print(f"{mutant}\n    {report.reasons.get(str(mutant), 'NOT EXPLAINED')}", markup=False)
        problems += report.unexplained + report.stale
        for change in report.stale:
            console.print(f"explained in survivors.toml, and no survivor: {change}", markup=False)
    raise typer.Exit(1 if problems else 0)


@app.command()
def holes(
    units: Units = None,
    count: Annotated[int, typer.Option(help="Random changes of each exercise's published answer.")] = 20,
    seed: Annotated[int, typer.Option(help="By which they are drawn.")] = 1,
    seconds: Annotated[float, typer.Option(help="After these no other change is tried; 0: all are.")] = 0,
) -> None:
    """Change the published answers at random; fail if a change earns all points, computes another formula, and holes.toml says not why."""
    from grader.audit import holes as searching

    kernels = [of for of in units or UNITS if UNITS[of] != "hopper"]
    mutants = [mutant for unit in kernels for mutant in searching.of_unit(unit, count, seed)]
    result = searching.search(mutants, seconds or float("inf"))
    reasons = searching.explained()
    for hole in result.holes:
        reason = reasons.get(str(hole.mutant), "NOT EXPLAINED")
        console.print(f"{hole.mutant}\n    {hole.case}: {reason}", markup=False)
    console.print(f"{result.judged} of {len(mutants)} changes judged, {len(result.holes)} earn all points and differ")
    raise typer.Exit(1 if result.unexplained(reasons) else 0)


@app.command()
def doctor(
    units: Annotated[
        list[str] | None,
        typer.Argument(help="Whose published solutions are judged; else those with submissions, or 04."),
    ] = None,
    accept_risk: Risk = False,
) -> None:
    """Report what this machine offers for grading, and what to do about each gap; judge published solutions for a proof."""
    from grader import doctor as checks

    with in_a_sentence():
        rows = [*checks.examine(accept_risk=accept_risk), *checks.prove(units, accept_risk=accept_risk)]
    console.print(checks.table(rows))
    raise typer.Exit(1 if any(row.stops for row in rows) else 0)


@app.command()
def demo(
    units: Annotated[list[str] | None, typer.Argument(help="04_memory_coalescing if none is given.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the sample class lives.")] = content.OWN / "build" / "demo",
) -> None:
    """Grade a sample class through nbgrader, and show its gradebook."""
    from grader.audit import samples
    from grader.child import sandbox

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
    for unit in units or ["04_memory_coalescing"]:
        console.print(f"{unit}, by public cases alone: the hidden ones are in a clone" if content.INSTALLED else unit)
        for sample in samples.write(unit, grader.released(unit), home / "submitted"):
            console.print(f"  {sample.student:<16}{sample.about}")
        grade(home, unit, workers=CORES, accept_risk=True, root=content.ROOT)
    console.print(f"{time.monotonic() - start:.0f} seconds")


if __name__ == "__main__":
    app()
