"""The books of a class, which nbgrader keeps: gradebook, graded notebooks, feedback pages.

    verdicts ──▶ the steps of nbgrader's Autograde ──▶ gradebook.db, autograded/ ──▶ those of its GenerateFeedback ──▶ feedback/

One submission is entered at a time, as soon as it has been judged; one that has been entered, and has not changed since, is
not entered again. The steps are those that nbgrader's own commands take (nbgrader_config.py names them), but they share one
session of one gradebook: nbgrader's converters open it a dozen times for each submission, and commit forty times.
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.converters.base import BaseConverter, NbGraderException
from nbgrader.coursedir import CourseDirectory

import grader
from course_lib.exercise import Verdict
from course_lib.exercises import UNITS
from grader import ROOT, disk
from grader.gradebook import converting, counts, current_submission, late, marks, results, submitted
from grader.judging import submission
from grader.judging.verdicts import NO_GPU, code_version, conditions
from grader.nbgrader_config import config
from tritontrace.replay import wire


class Books:
    """Enters submissions of one unit into the gradebook of `home`. Raises ValueError if nbgrader cannot register the unit.

    device   the GPU on which answers are judged, as verdicts.device() has it
    changes  sentences: exercises that the unit has gained or lost since somebody handed it in
    written  how many feedback pages were written anew; the others are as they were
    cpu      seconds of CPU by step: "gradebook", "feedback"
    """

    def __init__(self, home: Path, unit: str, *, root: Path = ROOT, device: str = NO_GPU) -> None:
        self.home, self.unit, self.device = Path(home).resolve(), unit, device
        self.changes = converting.register(self.home, unit, root=root)
        settings = config(self.home, root=root)
        self.book = Gradebook(f"sqlite:///{self.home / 'gradebook.db'}")
        self.book.close()
        course = CourseDirectory(config=settings, assignment_id=unit)
        grade = _Autograde(coursedir=course, config=settings)
        steps = [*grade.sanitize_preprocessors, *grade.autograde_preprocessors]
        page = GenerateFeedback(coursedir=course, config=settings)
        handed_in, graded, feedback = (self.home / name for name in ("submitted", "autograded", "feedback"))
        self.grade = _Step(grade, steps, handed_in, graded)
        self.page = _Step(page, page.preprocessors, graded, feedback)
        self.due: dict[str, str] = {}  # student -> until when, for those in the gradebook; "" -> for everybody else
        self.by_hand: dict[str, dict[str, results.ByHand]] = {}  # student -> exercise -> what formgrader's fields hold
        self._look_up()
        self.written = 0
        self.cpu: Counter[str] = Counter()

    def enter(self, student: str, verdicts: Mapping[str, Verdict], read: submission.Submission) -> str:
        """Enter a submission's verdicts into the gradebook. Return "ok", or a message on a failure, so that the next submission goes on;
        only disk.WriteRefused is raised, since all others would fail, too."""
        if problem := submission.misnamed(student):
            return problem
        found = self._known(student, verdicts, read)
        stamp = self._stamp(student, found)
        page = self.home / "feedback" / student / self.unit / f"{self.unit}.html"
        entered = page.exists() and results.entered(self.home, self.unit, student)
        if student in self.due and entered == stamp:
            return "ok"
        try:
            with current_submission.at_hand(student, found), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # SQLAlchemy's, about nbgrader's own queries
                with self._timed("gradebook"):
                    graded = self.grade.take(student, submitted.notebook(read), self.book)
                with self._timed("feedback"):
                    self.page.take(student, nbformat.v4.reads(graded), self.book)
        except NbGraderException as error:
            return str(error)
        except Exception as error:
            if refusal := disk.refusal(error, disk.EVERYTHING):
                raise disk.WriteRefused(refusal) from None
            return f"{type(error).__name__}: {error}".splitlines()[0]
        self.written += 1
        disk.write({results.entered_path(self.home, self.unit, student): json.dumps(stamp).encode()})
        return "ok"

    @contextmanager
    def _timed(self, step: str) -> Iterator[None]:
        started = time.process_time()
        try:
            yield
        finally:
            self.cpu[step] += time.process_time() - started

    def _known(
        self, student: str, verdicts: Mapping[str, Verdict], read: submission.Submission
    ) -> current_submission.KnownSubmission:
        """Everything to enter for a student, and which marks in the gradebook a person gave to this very answer."""
        fields, of_unit = self.by_hand.get(student, {}), grader.exercises(self.unit)
        same = {id for id, field in fields.items() if field.points is not None and not field.review}
        now = self._extras(student, verdicts)
        extra = {id for id, field in fields.items() if id in verdicts and field.extra not in (None, now.get(id))}
        if same or extra:  # the graded notebook is the one that a person saw
            answers = results.answers(self.home, self.unit, student)
            entered = results.extras(self.home, self.unit, student)
            same = {id for id in same if answers.get(id) == marks.answer(read, of_unit[id])}
            extra = {id for id in extra if id in entered and fields[id].extra != entered[id]}
        return current_submission.KnownSubmission(verdicts, read, frozenset(same), frozenset(extra), self.book)

    def _extras(self, student: str, verdicts: Mapping[str, Verdict]) -> dict[str, float]:
        """Exercise -> the extra credit that these verdicts give, with the points that a person gave on the path."""
        points = {id: field.points for id, field in self.by_hand.get(student, {}).items()}
        return marks.extras(counts.of(self.home, self.unit), verdicts, points)

    def _stamp(self, student: str, found: current_submission.KnownSubmission) -> dict[str, object]:
        """All that a submission's entry depends on."""
        parts: list[object] = []
        for name in (f"{self.unit}.ipynb", "timestamp.txt"):
            file = self.home / "submitted" / student / self.unit / name
            parts.append((file.lstat().st_size, file.lstat().st_mtime_ns) if file.is_file() else None)
        parts += [wire.to_tree(verdict) for verdict in found.verdicts.values()]
        by_hand, extras = {}, self._extras(student, found.verdicts or {})
        for id, fields in self.by_hand.get(student, {}).items():
            extra = fields.extra if id in found.extra or id not in extras else None
            if (given := [fields.points, fields.comment, extra]) != [None, None, None]:
                by_hand[id] = given
        return {
            "version": _version(),
            "code": code_version(UNITS[self.unit]),
            "conditions": conditions(self.device),
            "due": self.due.get(student, self.due[""]),
            "late": late.rules_of(self.home, self.unit),
            "counts": counts.rules_of(self.home, self.unit),
            "judged": hashlib.sha256(json.dumps(parts).encode()).hexdigest(),
            "by_hand": by_hand,
        }

    def _look_up(self) -> None:
        """Reads what people have set in the gradebook: dates, extensions, marks."""
        of_unit = grader.exercises(self.unit).values()
        with results.book(self.home) as book:
            assignment = book.find_assignment(self.unit)
            self.due[""] = f"{assignment.duedate} None"
            for entry in assignment.submissions:
                self.due[entry.student_id] = f"{assignment.duedate} {entry.extension}"
                self.by_hand[entry.student_id] = results.by_hand(entry, of_unit)


@functools.cache
def _version() -> str:
    """A hash of all in grader/ that writes the books."""
    folder = ROOT / "grader"
    rooms = [folder, *(package.parent for package in folder.glob("*/__init__.py"))]
    digest = hashlib.sha256()
    for path in sorted([*(path for room in rooms for path in room.glob("*.py")), *folder.glob("templates/**/*.j2")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Autograde(Autograde):
    """nbgrader's, which hands a submission in to the gradebook that is at hand."""

    def init_assignment(self, assignment_id: str, student_id: str) -> None:
        folder = self.coursedir.format_path(self.coursedir.submitted_directory, student_id, assignment_id)
        try:
            since = self.coursedir.get_existing_timestamp(folder)
        except (ValueError, OverflowError, AttributeError):  # the last is nbgrader's, which has no `fail` to call
            example = "2026-11-20 10:00:00 UTC"
            problem = f"{folder}/timestamp.txt holds no time: write one such as {example}, or remove the file."
            raise NbGraderException(problem) from None
        with current_submission.gradebook({"student": student_id}) as book:
            book.update_or_create_student(student_id)
            book.update_or_create_submission(assignment_id, student_id, **({"timestamp": since} if since else {}))


class _Step:
    """One of nbgrader's converters with its preprocessors, set up once for a whole class: its templates are compiled, its
    filters warm.

    source, target    the folders that it reads and writes, student by student
    """

    def __init__(self, app: BaseConverter, preprocessors: Sequence[str], source: Path, target: Path) -> None:
        self.app, self.unit, self.source, self.target = app, app.coursedir.assignment_id, source, target
        self.exporter = app.exporter_class(parent=app, config=app.config)
        for preprocessor in preprocessors:
            self.exporter.register_preprocessor(preprocessor)
        for before in target.glob(f"*/.{self.unit}.before"):  # of a process that was killed
            _put_back(before, before.with_name(self.unit))

    def take(self, student: str, nb: NotebookNode, book: Gradebook) -> str:
        """Make of a notebook what the converter writes, and write it; its text."""
        source, folder = self.source / student / self.unit / f"{self.unit}.ipynb", self.target / student / self.unit
        self.app.coursedir.student_id, self.app.notebooks = student, [str(source)]
        with _whole(folder), _transaction(book):
            self.app.run_pre_convert_hook()
            self.app.init_assignment(self.unit, student)
            text, _ = self.exporter.from_notebook_node(_Only(nb), self.app.init_single_notebook_resources(str(source)))
            disk.write({folder / f"{self.unit}{self.exporter.file_extension}": text.encode()})
            self.app.set_permissions(self.unit, student)
            self.app.run_post_convert_hook()
        return text


class _Only(NotebookNode):
    """A notebook that nobody else holds. nbconvert and nbformat change only copies of what they are given, seven for each submission, which
    took half the time of a page: of this one they change itself."""

    def __deepcopy__(self, memo: dict) -> _Only:
        return self


@contextmanager
def _whole(folder: Path) -> Iterator[None]:
    """Restore the folder if an exception leaves this block: nbgrader removes the old one before it writes the new one."""
    before = folder.with_name(f".{folder.name}.before")
    if folder.exists():
        folder.rename(before)
    try:
        yield
    except BaseException:
        _put_back(before, folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _put_back(before: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if before.exists():
        before.rename(folder)


@contextmanager
def _transaction(book: Gradebook) -> Iterator[None]:
    """Write everything that nbgrader commits within this at once, at the end; or nothing, if the end is not reached."""
    try:
        with book.engine.begin() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # waits for others now; once begun it could only give up
            book.db.configure(bind=connection, join_transaction_mode="rollback_only")
            yield
    finally:
        book.close()
