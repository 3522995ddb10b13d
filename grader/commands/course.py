"""Commands that make something of the course's sources: notebooks, a copy for students, slides, packs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import grader
from course_lib.exercises import UNITS
from grader.command_line import Risk, Unit, Units, app, console, in_a_sentence, one_of, print_sentence


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
