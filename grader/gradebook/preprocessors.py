"""nbgrader keeps the books, the judge gives the verdicts, and nothing in between starts a kernel.

    submitted/ ── SubmissionExporter ──▶ Normalise ──▶ OverwriteCells ──▶ autograded/
    autograded/ ── WriteVerdicts ──▶ SaveAutoGrades ──▶ SaveExtras ──▶ autograded/, gradebook.db ──▶ feedback/

nbgrader scores a test cell by its outputs: an error gives 0, an execute_result that reads as a number gives that many
points, and anything else, no output included, gives them all. So each test cell gets one or the other here; and what the
grader could not judge has no score afterwards, neither 0 nor any other, and waits for a person or for the next run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import shutil
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat.v4 as v4
from nbconvert.exporters import NotebookExporter
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import ClearSolutions as ClearedByNbgrader
from nbgrader.preprocessors import GetGrades as GetsScores
from nbgrader.preprocessors import NbGraderPreprocessor

from course_lib import render
from course_lib.exercise import Exercise, Verdict
from course_lib.observe import wire
from grader import disk, exercises
from grader.classes import amended
from grader.classes.exchange import NOTE_BYTES, NOTES
from grader.judging import submission
from grader.nbgrader_config import ROOT, config

VERDICT = "verdict"  # in the metadata of a graded cell's output: the verdict as a tree, for the class report
ANSWER = "answer"  # beside it: a hash of what was judged
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}  # no version: the same notebook whatever Python built it


# --------------------------------------------------------------------------------------------------- out: release


class ClearSolutions(ClearedByNbgrader):
    """nbgrader's. In a dict of answers `...` stands for each answer already, and nothing is left of the solution below it."""

    def preprocess_cell(self, cell: NotebookNode, resources: dict, index: int) -> tuple[NotebookNode, dict]:
        cell, resources = super().preprocess_cell(cell, resources, index)
        of_unit = exercises(resources["nbgrader"]["assignment"]).values()
        if any(e.kind == "values" and e.grade_id == cell.metadata.get("nbgrader", {}).get("grade_id") for e in of_unit):
            cell.source = cell.source.removesuffix(self.code_stub["python"]).rstrip()
        return cell, resources


class Release(NbGraderPreprocessor):
    """The last step of generate_assignment: nothing of the machine that executed the instructor's notebook remains."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        nb.metadata = NotebookNode(kernelspec=NotebookNode(KERNELSPEC), language_info=NotebookNode(LANGUAGE))
        nb.nbformat, nb.nbformat_minor = 4, 5
        return nb, resources


# ------------------------------------------------------------------------------------------------- in: submissions


class SubmissionExporter(NotebookExporter):
    """Reads submitted notebooks through submission.read: kinds and sources come in, and nothing else.

    A file that is refused becomes a notebook with one cell, which says why; its exercises then score 0.
    """

    def from_filename(self, filename: str, resources: dict | None = None, **kw) -> tuple[str, dict]:
        if not resources or Path(filename).parent != _submitted(self.config, resources["nbgrader"]):
            return super().from_filename(filename, resources, **kw)
        read = _submission(self.config, resources["nbgrader"])
        cells = [_clean(cell) for cell in read.cells] or [v4.new_markdown_cell(read.problem)]
        nb = v4.new_notebook(cells=cells, metadata={"kernelspec": KERNELSPEC, "language_info": LANGUAGE})
        for number, cell in enumerate(nb.cells, 1):
            cell.id = f"cell-{number}"
        resources.setdefault("metadata", {})["name"] = Path(filename).stem
        return self.from_notebook_node(nb, resources, **kw)


def _submitted(config, names: dict) -> Path:
    course = CourseDirectory(config=config)
    return Path(course.format_path(course.submitted_directory, names["student"], names["assignment"]))


@dataclass(frozen=True)
class Known:
    """What grader.gradebook.books knows of a submission that it enters.

    same     the exercises with points by hand that a person gave, or has looked at, for the very answer that is there now
    extra    those whose extra credit was given by hand
    """

    verdicts: Mapping[str, Verdict] | None = None
    read: submission.Submission | None = None
    same: frozenset[str] = frozenset()
    extra: frozenset[str] = frozenset()


_handed: dict[str, Known] = {}  # by student


@contextlib.contextmanager
def at_hand(student: str, known: Known) -> Iterator[None]:
    """Within this the chain asks nobody for what is known already."""
    _handed[student] = known
    try:
        yield
    finally:
        del _handed[student]


def _submission(config, names: dict) -> submission.Submission:
    if (read := _handed.get(names["student"], Known()).read) is not None:
        return read
    course = CourseDirectory(config=config)
    notebook = f"{names['notebook']}.ipynb"
    release = Path(course.format_path(course.release_directory, ".", names["assignment"])) / notebook
    of_unit = list(exercises(names["assignment"]).values())
    return submission.read(_submitted(config, names) / notebook, of_unit, release if release.exists() else None)


def _clean(cell: submission.Cell) -> NotebookNode:
    if cell.kind == "code":
        return v4.new_code_cell(cell.source)
    if cell.kind == "raw":  # nbconvert would put it into the page as it is
        return v4.new_markdown_cell("\n".join(f"    {line}" for line in cell.source.splitlines()))
    return v4.new_markdown_cell(cell.source)


class Normalise(NbGraderPreprocessor):
    """Exactly one cell for each cell of the gradebook, with the gradebook's metadata.

    Of copies the solution that was judged stays, and the first check cell; deleted cells come back as they were handed
    out. Then no honest accident (a copy, #1083 of nbgrader) and no edit of metadata can change a score or stop a run.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        with Gradebook(names["db_url"]) as gradebook:
            book = gradebook.find_notebook(names["notebook"], names["assignment"])
            points = {cell.name: cell.max_score for cell in book.grade_cells}
            solutions = {cell.name for cell in book.solution_cells}
            given = {cell.name: (cell.source, cell.checksum) for cell in book.source_cells}
        chosen = self._chosen(nb, names)
        for name, (source, checksum) in given.items():
            graded = name in points
            if name not in chosen:
                chosen[name] = v4.new_code_cell(source)
                after = [i for i, cell in enumerate(nb.cells) if f"{cell.id}-check" == name]
                nb.cells.insert(after[0] + 1 if after else len(nb.cells), chosen[name])
            cell = chosen[name]
            cell.id = name
            if graded:
                cell.source = source
            cell.metadata = NotebookNode(
                deletable=False,
                nbgrader=NotebookNode(
                    grade=graded,
                    solution=name in solutions,
                    locked=graded,
                    task=False,
                    grade_id=name,
                    schema_version=3,
                    cell_type="code",
                    checksum=checksum,
                    **({"points": points[name]} if graded else {}),
                ),
            )
        return nb, resources

    def _chosen(self, nb: NotebookNode, names: dict) -> dict[str, NotebookNode]:
        """grade_id -> the cell that stands for it, by submission's rule. One that is both answer and check becomes two."""
        read, cells = _submission(self.config, names), list(nb.cells)
        chosen: dict[str, NotebookNode] = {}
        for cell in read.cells:
            if cell.kind == "code":
                chosen.setdefault(cell.grade_id, cells[cell.number - 1])
        for exercise in exercises(names["assignment"]).values():
            with contextlib.suppress(submission.Problem):  # the verdict says what is wrong
                chosen[exercise.grade_id] = answer = cells[read.solution(exercise).number - 1]
                if answer is chosen.get(exercise.check_id):
                    chosen[exercise.grade_id] = v4.new_code_cell(answer.source)
                    nb.cells.insert(nb.cells.index(answer), chosen[exercise.grade_id])
        return chosen


# ------------------------------------------------------------------------------------------------- verdicts


class WriteVerdicts(NbGraderPreprocessor):
    """In place of nbgrader's Execute: each test cell's outputs are the judge's verdict, as text, HTML and a number."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        path = _submitted(self.config, names) / f"{names['notebook']}.ipynb"
        by_cell = {exercise.check_id: exercise for exercise in exercises(names["assignment"]).values()}
        verdicts, problem, read = {}, "", _submission(self.config, names)
        try:
            from grader.judging import judge

            known = _handed.get(names["student"], Known()).verdicts
            verdicts = dict(known or judge.verdicts(names["assignment"], names["student"], path))
        except Exception as e:  # a failure of ours, whatever it is, must be seen and must not read as a mark
            problem = f"the judge failed: {type(e).__name__}: {e}"
            self.log.error("No verdicts for %s: %s", names["student"], problem)
        resources["verdicts"] = {}
        for cell in nb.cells:
            if cell.cell_type != "code":
                continue
            cell.outputs, cell.execution_count = [], None
            meta = cell.metadata.get("nbgrader", {})
            if not meta.get("grade"):
                continue
            exercise = by_cell.get(meta.grade_id)
            verdict = verdicts.get(exercise.id) if exercise else None
            try:
                cell.outputs = _outputs(verdict, float(meta.points))
                cell.outputs[0].metadata[ANSWER] = answer(read, exercise)
                resources["verdicts"][meta.grade_id] = verdict if verdict.judged else None
            except Exception as e:
                about = exercise.id if exercise else meta.grade_id
                cell.outputs = [_no_verdict(f"{about}: {problem or e}; tell your instructor, and grade this again")]
        return nb, resources


def _outputs(verdict: Verdict | None, out_of: float) -> list[NotebookNode]:
    if verdict is None:
        raise ValueError("the judge said nothing about this exercise")
    if not isinstance(verdict.points, (int, float)) or math.isnan(verdict.points):
        raise ValueError(f"the points of the verdict are {verdict.points!r}, not a number")
    points = min(max(float(verdict.points), 0.0), out_of)
    mark = v4.new_output("execute_result", {"text/plain": f"{points:g}"}, execution_count=None)
    shown = {  # the class keeps formgrader's MathJax away from what the student printed
        "text/plain": render.text(verdict),
        "text/html": f'<div class="tex2jax_ignore">{render.html(verdict)}</div>',
    }
    return [
        v4.new_output("display_data", shown, metadata={VERDICT: wire.to_tree(verdict)}),
        mark if verdict.judged else _no_verdict(verdict.findings[0].seen),
    ]


def answer(read: submission.Submission, exercise: Exercise) -> str:
    """A hash of a student's answer to an exercise: of its program, or of the whole notebook where there is none."""
    try:
        sources = [source for _, source in read.program(exercise).cells]
    except submission.Problem:
        sources = [read.problem, *(cell.source for cell in read.cells)]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:16]


def bonus(verdict: Verdict) -> float:
    """The extra credit of a verdict."""
    return max(float(verdict.bonus), 0.0) if math.isfinite(verdict.bonus) else 0.0


def _no_verdict(sentence: str) -> NotebookNode:
    return v4.new_output("error", ename="NoVerdict", evalue=sentence, traceback=[f"NoVerdict: {sentence}"])


class SaveExtras(NbGraderPreprocessor):
    """After SaveAutoGrades: no score where there is no verdict; the bonus as nbgrader's extra credit; what a person should
    look at as a comment on its exercise, with formgrader's flag on the submission. The flag goes when a person takes it away.

    SaveAutoGrades asks for a review of all points given by hand; here of those alone whose answer has changed since.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        where = names["notebook"], names["assignment"], names["student"]
        read, known = _submission(self.config, names), _handed.get(names["student"], Known())
        with Gradebook(names["db_url"]) as gradebook:
            if read.flags:
                gradebook.find_submission_notebook(*where).flagged = True
            for exercise in exercises(names["assignment"]).values():
                verdict = resources["verdicts"].get(exercise.check_id)
                grade = gradebook.find_grade(exercise.check_id, *where)
                if verdict is None:  # nbgrader has read the error as 0
                    grade.auto_score, grade.needs_manual_grade = None, exercise.id not in known.same
                    continue
                if exercise.bonus and exercise.id not in known.extra:
                    grade.extra_credit = bonus(verdict)
                if exercise.id in known.same:
                    grade.needs_manual_grade = False
                flags = [sentence for about, sentence in read.flags if about == exercise.id]
                if flags:  # more to the point than nbgrader's own "No response."
                    gradebook.find_comment(exercise.grade_id, *where).auto_comment = "\n\n".join(flags)
            gradebook.db.commit()
        return nb, resources


# ------------------------------------------------------------------------------------------------- feedback


class GetGrades(GetsScores):
    """nbgrader's, which puts points and comments into the cells. Whether the points were given by hand goes along, and what
    neither the judge nor a person has given points has none, where nbgrader says 0."""

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        where = self.notebook_id, self.assignment_id, self.student_id
        grade = self.gradebook.find_grade(cell.metadata.nbgrader.grade_id, *where)
        cell.metadata.nbgrader["by_hand"] = grade.manual_score is not None
        if grade.auto_score is None and grade.manual_score is None:
            cell.metadata.nbgrader.score = None


def carry_notes(*, assignment: str, student: str, notebooks: Iterable[str]) -> None:
    """nbgrader's hook after each submission: the two notes of its exchange go along, and no other file."""
    for source in (Path(notebook).with_name(note) for notebook in notebooks for note in NOTES):
        step, *names = source.parts[-4:-1]
        following = {"submitted": "autograded", "autograded": "feedback"}.get(step)
        if following and source.is_file() and not source.is_symlink() and source.stat().st_size <= NOTE_BYTES:
            target = source.parents[3].joinpath(following, *names, source.name)
            target.unlink(missing_ok=True)
            shutil.copyfile(source, target)


# ------------------------------------------------------------------------------------------------- without a shell


def register(home: Path, unit: str, *, root: Path = ROOT) -> list[str]:
    """Puts the unit's cells and points into the gradebook of `home`. ValueError if nbgrader cannot.

    The notebook that students get is not written: that is the build's work. Returns what amended.amend says.
    """
    changes = amended.amend(home, unit, root=root)
    settings = config(home, root=root, CourseDirectory={"release_directory": str(home.resolve() / "registered")})
    if problem := convert(GenerateAssignment, settings, unit):
        raise ValueError(f"{unit} cannot be put into the gradebook of {home}: {problem}")
    return changes


def convert(converter: type, settings, unit: str, student: str = "*") -> str:
    """Runs one of nbgrader's converters. Returns a sentence if it failed, with the last error of its log."""
    course = CourseDirectory(config=settings, assignment_id=unit, student_id=student)
    app = converter(coursedir=course, config=settings, force=True)
    return running(app, app.start)


def running(app, work: Callable[[], None]) -> str:
    """Has a converter do its work. Returns a sentence if it failed, with the last error of its log.

    disk.Refused if the disk is full or read-only: whatever comes next would fail as well.
    """
    errors: list[str] = []
    refusals: list[str] = []

    def note(record: logging.LogRecord) -> None:
        errors.append(record.getMessage())
        refusals.append(
            disk.refusal(sys.exception(), disk.EVERYTHING)
        )  # nbgrader logs what it catches, and raises another

    handler = logging.Handler(level=logging.ERROR)
    handler.emit = note
    app.log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SQLAlchemy's, about nbgrader's own queries
            work()
    except (Exception, SystemExit) as e:
        if refusal := next(filter(None, [disk.refusal(e, disk.EVERYTHING), *refusals]), ""):
            raise disk.Refused(refusal) from None
        traces = [error.strip().splitlines()[-1] for error in errors if error.startswith("Traceback")]
        return (traces or [f"{type(e).__name__}: {e}"])[-1]
    finally:
        app.log.removeHandler(handler)
    return ""
