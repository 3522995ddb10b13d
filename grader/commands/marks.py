"""Commands on marks: what counts and until when, reports, exports."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import grader
from grader.command_line import (
    Fields,
    Unit,
    a_date,
    app,
    console,
    existing,
    in_a_sentence,
    one_of,
    print_lines,
    show_gradebook,
)
from grader.lms import FORMS


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
                "No submission of this unit says when it was handed in, so nobody is late here: that is your LMS's to say, or "
                "`import --times` reads it from Moodle's grading worksheet.",
                soft_wrap=True,
            )


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
