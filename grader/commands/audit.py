"""Commands that try the grader itself: wrong answers, mutants, this machine, a sample class."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import grader
from course_lib import content
from course_lib.exercises import UNITS
from grader.command_line import CORES, Risk, Units, app, console, in_a_sentence, print_sentence, progress_bar
from grader.commands.judging import grade


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
