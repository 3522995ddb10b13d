"""Commands on who is in the class: submissions and rosters of an LMS, tasks of one's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import grader
from grader.command_line import Fields, Unit, app, console, existing, existing_units, in_a_sentence

if TYPE_CHECKING:
    from course_lib.exercises.twists import Draw, Twist


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
