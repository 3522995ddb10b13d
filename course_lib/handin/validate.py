"""validate(): what of a notebook would be graded, and what would not, exercise by exercise. Nothing is run."""

from __future__ import annotations

import ast
import time
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.handin import files, literals
from course_lib.handin.answer import Answer, Notebook
from course_lib.handin.cells import Cell, Problem
from course_lib.render import CELL, chip, code, show
from tritontrace.colours import EDGE, HOLDS, PARTLY

MARK = "...  # your code here"  # as in every stub but dicts of answers
STANDINGS = {  # of a line, by its mark: a word, the sign, its colour
    "✓": (say("handin.report.graded"), "✓", HOLDS),
    "!": (say("handin.report.fails"), "!", PARTLY),
    "✗": (say("handin.report.not_graded"), "✗", EDGE),
}
LONG_AGO = 120  # seconds: JupyterLab saves by itself about as often


@dataclass(frozen=True)
class ReportLine:
    """One line of the report: an exercise, and its remarks."""

    exercise: Exercise
    graded: bool
    sentence: str
    remarks: list[str] = field(default_factory=list)
    lacks: bool = False  # it needs a name that is defined nowhere
    answer: Answer | None = None  # where it would be graded

    @property
    def mark(self) -> str:
        return "✗" if not self.graded else "!" if self.lacks else "✓"


@dataclass(frozen=True)
class Validation:
    """A notebook as saved, and what of it would be graded."""

    path: Path
    content: bytes
    unit: str
    saved: float  # seconds since 1970
    lines: list[ReportLine]

    @property
    def graded(self) -> list[ReportLine]:
        return [line for line in self.lines if line.graded]

    def text(self) -> str:
        """Return the report as text: a line for each exercise, with further remarks below it."""
        width = max(len(line.exercise.id) for line in self.lines)
        rows = [self._when(), self._how_many()]
        for line in self.lines:
            rows.append(f"{line.mark} {line.exercise.id:<{width}}  {line.sentence}")
            rows += [f"    {remark}" for remark in line.remarks]
        return "\n".join(rows)

    def html(self) -> str:
        """Return the report as an HTML table."""
        rows = "".join(
            f'<tr><td style="{CELL}">{chip(*STANDINGS[line.mark])}</td>'
            f'<th scope="row" style="{CELL}font-weight:normal">{code(line.exercise.id)}</th>'
            f'<td style="{CELL}">{"".join(f"<div>{code(said)}</div>" for said in (line.sentence, *line.remarks))}</td></tr>'
            for line in self.lines
        )
        return (
            f"<div>{code(self._when())}</div><div>{code(self._how_many())}</div>"
            f'<table aria-label="{say("handin.report.columns")}" style="border-collapse:collapse;color:inherit">{rows}</table>'
        )

    def _how_many(self) -> str:
        sound = [line for line in self.graded if not line.lacks]
        points, out_of = (sum(line.exercise.points for line in lines) for lines in (sound, self.lines))
        counts = {"graded": len(self.graded), "of": len(self.lines)}
        return say("handin.report.how_many", **counts, points=points, out_of=out_of)

    def _when(self) -> str:
        ago = max(0, time.time() - self.saved)
        clock = time.strftime("%H:%M:%S" if ago < 86_400 / 2 else "%Y-%m-%d %H:%M", time.localtime(self.saved))
        return say("handin.report.saved", name=self.path.name, clock=clock, long_ago=ago > LONG_AGO)


def validated(path: Path) -> Validation:
    """Read a saved notebook and determine what of it would be graded. Raises Problem if the whole file would be refused."""
    saved = path.stat().st_mtime
    content, cells = files.read(path)
    unit = files.unit_of(cells)
    if not unit:
        raise Problem(say("handin.report.no_exercise", name=path.name))
    release = files.released(unit)
    as_given = release.is_file() and release.resolve() != path.resolve()  # else all of it is as it was handed out
    given = files.read(release)[1] if as_given else []
    exercises = files.exercises(unit)
    notebook = Notebook(cells, exercises, given)
    if notebook.problem:
        raise Problem(notebook.problem)
    return Validation(path, content, unit, saved, [_line(notebook, exercise) for exercise in exercises])


def _line(notebook: Notebook, exercise: Exercise) -> ReportLine:
    try:
        cell = notebook.solution(exercise)
        answer = notebook.answer(exercise)
    except Problem as problem:
        return ReportLine(exercise, False, _lost(notebook, exercise) or problem.message)
    if notebook.untouched(exercise, cell):
        return ReportLine(exercise, False, say("handin.report.stub", cell=cell.number))
    remarks = list(answer.flags)
    remarks += [say("handin.report.lacks", name=name) for name in answer.missing]
    if MARK in cell.source:
        remarks.append(say("handin.report.placeholder", mark=MARK))
    if unanswered := _unanswered(cell, exercise.entry):
        remarks.append(say("handin.report.unanswered", count=unanswered))
    if exercise.kind == "values" and (computed := literals.problem(answer.cells, exercise.entry)):
        remarks.append(computed)
    if not _own(notebook, exercise):
        remarks.append(say("handin.report.another_cell", cell=cell.number))
    remarks += notebook.check_cell_warnings(exercise)
    return ReportLine(
        exercise, True, say("handin.report.would_be", cell=cell.number), remarks, bool(answer.missing), answer
    )


def _unanswered(cell: Cell, entry: str) -> int:
    """How many values are an ellipsis in the dict of answers that the cell leaves in `entry`."""
    for statement in reversed(ast.parse(cell.source).body):
        match statement:
            case ast.Assign([ast.Name(id=name)], ast.Dict(values=values)) if name == entry:
                return sum(isinstance(v, ast.Constant) and v.value is ... for v in values)
    return 0


def _own(notebook: Notebook, exercise: Exercise) -> list[Cell]:
    return [cell for cell in notebook.cells if cell.grade_id == exercise.grade_id]


def _lost(notebook: Notebook, exercise: Exercise) -> str:
    """Say where the exercise's name has gone; "" if its cell does not parse, or looks as if it were elsewhere."""
    if notebook.mangled(exercise):
        return ""
    own = _own(notebook, exercise)
    name = exercise.entry
    if notebook.seems_to_define(exercise.entry) or any(c.number in notebook.broken for c in own):
        return ""
    if not own:
        return say("handin.report.cell_gone", name=name, exercise=exercise.id)
    if own[-1].kind != "code":
        return say("handin.report.no_code_cell", name=name, cell=own[-1].number)
    names = [f"`{each}`" for each in sorted(notebook.names_of(own[-1]))[:5]]
    return say("handin.report.renamed", name=name, cell=own[-1].number, any=bool(names), names=names)


def validate(notebook: str = "") -> None:
    """Print what of this notebook, as it is saved, would be graded. notebook: a file's name, where it cannot be told."""
    try:
        found = validated(files.here(notebook))
        show(found.text(), found.html())
    except Problem as problem:
        print(problem)
