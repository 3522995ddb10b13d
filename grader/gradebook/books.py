"""The books of a class, which nbgrader keeps: gradebook, graded notebooks, feedback pages.

    verdicts ──▶ nbgrader's Autograde ──▶ gradebook.db, autograded/ ──▶ nbgrader's GenerateFeedback ──▶ feedback/

One submission is entered at a time, as soon as it has been judged; one that has been entered, and has not changed since, is
not entered again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nbformat
import nbgrader.api
from nbconvert.writers import FilesWriter
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import Engine, StaticPool, create_engine

import grader
from course_lib.exercise import Verdict
from course_lib.exercises import UNITS
from course_lib.observe import wire
from grader import ROOT, disk
from grader.classes import late
from grader.classes.verdicts import code_version
from grader.gradebook import preprocessors
from grader.judging import submission
from grader.nbgrader_config import config
from grader.reporting import results


class Books:
    """The books of one unit under `home`. ValueError if nbgrader cannot register the unit.

    changes  sentences: exercises that the unit has gained or lost since somebody handed it in
    written  how many feedback pages were written anew; the others are as they were
    cpu    seconds of CPU by step: "gradebook", "feedback". nbgrader changes the working directory while it works.
    """

    def __init__(self, home: Path, unit: str, *, root: Path = ROOT) -> None:
        self.home, self.unit = Path(home).resolve(), unit
        self.changes = preprocessors.register(self.home, unit, root=root)
        settings = config(self.home, root=root)
        self.steps = {
            "gradebook": _Line(Autograde, settings, unit, self.home / "autograded"),
            "feedback": _Line(GenerateFeedback, settings, unit, self.home / "feedback"),
        }
        self.connection = _Connection(f"sqlite:///{self.home / 'gradebook.db'}")
        self.due: dict[str, str] = {}  # student -> until when, for those in the gradebook; "" -> for everybody else
        self.by_hand: dict[str, dict[str, results.ByHand]] = {}  # student -> exercise -> what formgrader's fields hold
        self._look_up()
        self.written = 0
        self.cpu: Counter[str] = Counter()

    def enter(
        self, student: str, verdicts: Mapping[str, Verdict] | None = None, read: submission.Submission | None = None
    ) -> str:
        """Write a submission's verdicts down: "ok", or a sentence. One failure never stops the next, but disk.Refused, since
        they would all fail.

        Without verdicts nbgrader's chain asks the judge for them.
        """
        if problem := submission.misnamed(student):
            return problem
        known = self._known(student, verdicts, read)
        stamp = self._stamp(student, known)
        page = self.home / "feedback" / student / self.unit / f"{self.unit}.html"
        entered = page.exists() and results.entered(self.home, self.unit, student)
        if verdicts and student in self.due and entered == stamp:
            return "ok"
        # what the chain reads was written by itself, from cells that submission.load has cleaned
        with preprocessors.at_hand(student, known), patch.object(nbformat, "validate", lambda *a, **k: None):
            for step, line in self.steps.items():
                started = time.process_time()
                problem = line.convert(student, self.connection.held if verdicts else nullcontext)
                self.cpu[step] += time.process_time() - started
                if problem:
                    return problem
        self.written += 1
        if verdicts:
            disk.write({results.entered_path(self.home, self.unit, student): json.dumps(stamp).encode()})
        return "ok"

    def _known(
        self, student: str, verdicts: Mapping[str, Verdict] | None, read: submission.Submission | None
    ) -> preprocessors.Known:
        """What there is to enter, and what of the marks that the gradebook holds was given by hand, and to this very answer."""
        if not (verdicts and read):
            return preprocessors.Known(verdicts, read)
        fields, of_unit = self.by_hand.get(student, {}), grader.exercises(self.unit)
        same = {id for id, field in fields.items() if field.points is not None and not field.review}
        extra = {id for id, field in fields.items() if id in verdicts and _other_extra(field, verdicts[id])}
        if same or extra:  # the graded notebook is the one that a person saw
            answers = results.answers(self.home, self.unit, student)
            judged = results.verdicts(self.home, self.unit, student)
            same = {id for id in same if answers.get(id) == preprocessors.answer(read, of_unit[id])}
            extra = {id for id in extra if id in judged and _other_extra(fields[id], judged[id])}
        return preprocessors.Known(verdicts, read, frozenset(same), frozenset(extra))

    def _stamp(self, student: str, known: preprocessors.Known) -> dict[str, object]:
        """All that a submission's entry depends on."""
        parts: list[object] = []
        for name in (f"{self.unit}.ipynb", "timestamp.txt"):
            file = self.home / "submitted" / student / self.unit / name
            parts.append((file.lstat().st_size, file.lstat().st_mtime_ns) if file.is_file() else None)
        parts += [wire.to_tree(verdict) for verdict in (known.verdicts or {}).values()]
        of_unit, by_hand = grader.exercises(self.unit), {}
        for id, fields in self.by_hand.get(student, {}).items():
            extra = fields.extra if id in known.extra or not of_unit[id].bonus else None
            if (given := [fields.points, fields.comment, extra]) != [None, None, None]:
                by_hand[id] = given
        return {
            "version": _version(),
            "code": code_version(UNITS[self.unit]),
            "due": self.due.get(student, self.due[""]),
            "late": late.rules_of(self.home, self.unit),
            "judged": hashlib.sha256(json.dumps(parts).encode()).hexdigest(),
            "by_hand": by_hand,
        }

    def _look_up(self) -> None:
        """Reads what people have set in the gradebook: dates, extensions, marks."""
        of_unit = grader.exercises(self.unit).values()
        with results.book(self.home) as book:
            assignment = book.find_assignment(self.unit)
            self.due[""] = f"{assignment.duedate} None"
            for submitted in assignment.submissions:
                self.due[submitted.student_id] = f"{assignment.duedate} {submitted.extension}"
                self.by_hand[submitted.student_id] = results.by_hand(submitted, of_unit)


def _other_extra(fields: results.ByHand, verdict: Verdict) -> bool:
    """Whether another extra credit stands there than the verdict's."""
    return fields.extra is not None and fields.extra != preprocessors.bonus(verdict)


ROOMS = ("gradebook", "classes", "templates")


@functools.cache
def _version() -> str:
    """A hash of all in grader/ that writes the books."""
    digest = hashlib.sha256()
    for path in sorted(
        [*(ROOT / "grader").glob("*.py"), *(p for room in ROOMS for p in (ROOT / "grader" / room).rglob("*.*"))]
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Line:
    """One of nbgrader's converters, set up once for a whole class: its templates are compiled, its filters warm.

    written    where it writes, student by student
    """

    def __init__(self, converter: type, settings: object, unit: str, written: Path) -> None:
        self.written, self.unit = written, unit
        for before in written.glob(f"*/.{unit}.before"):  # of a process that was killed
            _put_back(before, before.with_name(unit))
        course = CourseDirectory(config=settings, assignment_id=unit, student_id="*")
        self.app = converter(coursedir=course, config=settings, force=True)
        self.app.exporter = self.app.exporter_class(parent=self.app, config=self.app.config)
        for preprocessor in self.app.preprocessors:
            self.app.exporter.register_preprocessor(preprocessor)

    def convert(self, student: str, held: Callable[[], AbstractContextManager]) -> str:
        """A sentence if it failed, else "". It happens within held()."""
        self.app.coursedir.student_id = student

        def work() -> None:
            with _whole(self.written / student / self.unit), held():
                self._again()

        return preprocessors.running(self.app, work)

    def _again(self) -> None:
        """BaseConverter.start, but for the exporter."""
        self.app.writer = FilesWriter(parent=self.app, config=self.app.config)  # it makes its folder once in its life
        self.app.init_notebooks()
        folder = os.getcwd()
        os.chdir(self.app.coursedir.root)
        try:
            self.app.convert_notebooks()
        finally:
            os.chdir(folder)


@contextmanager
def _whole(folder: Path) -> Iterator[None]:
    """Unless this is left without an exception, the folder is as it was. nbgrader removes it before it writes the new one."""
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


class _Connection:
    """One connection for a whole class. nbgrader opens and closes the gradebook a dozen times for each submission, and
    commits forty times."""

    def __init__(self, url: str) -> None:
        self.url = url
        options = {"factory": _Patient, "check_same_thread": False}
        self.engine = create_engine(url, future=True, poolclass=StaticPool, connect_args=options)
        self.engine.dispose = lambda: None  # nbgrader's way to close it

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within this nbgrader's gradebooks share the connection, and all that they commit is written at the end at once;
        nothing is, if that is not reached."""
        there = patch.object(nbgrader.api.Base.metadata, "create_all", lambda bind: None)  # the tables, since register
        with (
            patch.object(nbgrader.api, "create_engine", self._create_engine),
            there,
            self.engine.connect() as connection,
        ):
            database = connection.connection.driver_connection
            database.hold()
            try:
                yield
                database.release()
            finally:
                database.undo()

    def _create_engine(self, url: str, **options: Any) -> Engine:
        return self.engine if url == self.url else create_engine(url, **options)


class _Patient(sqlite3.Connection):
    """Between hold() and release() each commit is a savepoint, and a rollback goes back to the last."""

    holds = False

    def hold(self) -> None:
        self.execute("BEGIN IMMEDIATE")  # waits for others now; once begun it could only give up
        self.execute("SAVEPOINT kept")
        self.holds = True

    def commit(self) -> None:
        if self.holds:
            self.execute("RELEASE kept")
            self.execute("SAVEPOINT kept")
        else:
            super().commit()

    def rollback(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # SQLAlchemy has closed it: Ctrl-C, and all is taken back
            if self.holds:
                self.execute("ROLLBACK TO kept")
            else:
                super().rollback()

    def release(self) -> None:
        self.holds = False
        self.commit()

    def undo(self) -> None:
        """Nothing, after release()."""
        self.holds = False
        self.rollback()
