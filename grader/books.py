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
from nbgrader.api import Gradebook
from nbgrader.converters import Autograde, GenerateFeedback
from nbgrader.coursedir import CourseDirectory
from sqlalchemy import Engine, StaticPool, create_engine

from course_lib.exercise import Verdict
from course_lib.observe import wire
from grader import ROOT, preprocessors, submission
from grader.nbgrader_config import config


class Books:
    """The books of one unit under `home`. ValueError if nbgrader cannot register the unit.

    changes  sentences: exercises that the unit has gained or lost since somebody handed it in
    cpu    seconds of CPU by step: "gradebook", "feedback". nbgrader changes the working directory while it works.
    """

    def __init__(self, home: Path, unit: str, *, root: Path = ROOT) -> None:
        self.home, self.unit = Path(home).resolve(), unit
        self.changes = preprocessors.register(self.home, unit, root=root)
        settings = config(self.home, root=root)
        self.steps = {
            "gradebook": _Line(Autograde, settings, unit),
            "feedback": _Line(GenerateFeedback, settings, unit),
        }
        self.connection = _Connection(f"sqlite:///{self.home / 'gradebook.db'}")
        self.stamps = self.home / "verdicts" / "entered" / unit
        self.due = self._due()
        self.cpu: Counter[str] = Counter()

    def enter(
        self, student: str, verdicts: Mapping[str, Verdict] | None = None, read: submission.Submission | None = None
    ) -> str:
        """Write a submission's verdicts down: "ok", or a sentence. One failure never stops the next.

        Without verdicts nbgrader's chain asks the judge for them.
        """
        if problem := submission.misnamed(student):
            return problem
        stamp, path = self._stamp(student, verdicts), self.stamps / student
        page = self.home / "feedback" / student / self.unit / f"{self.unit}.html"
        if verdicts and student in self.due and page.exists() and path.exists() and path.read_text() == stamp:
            return "ok"
        # what the chain reads was written by itself, from cells that submission.load has cleaned
        with preprocessors.at_hand(student, verdicts, read), patch.object(nbformat, "validate", lambda *a, **k: None):
            for step, line in self.steps.items():
                started = time.process_time()
                problem = line.convert(student, self.connection.held if verdicts else nullcontext)
                self.cpu[step] += time.process_time() - started
                if problem:
                    return problem
        if verdicts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(stamp)
        return "ok"

    def _stamp(self, student: str, verdicts: Mapping[str, Verdict] | None) -> str:
        """A hash of all that a submission's entry depends on."""
        parts: list[object] = [_version(), self.due.get(student, self.due[""])]
        for name in (f"{self.unit}.ipynb", "timestamp.txt"):
            file = self.home / "submitted" / student / self.unit / name
            parts.append((file.lstat().st_size, file.lstat().st_mtime_ns) if file.is_file() else None)
        parts += [wire.to_tree(verdict) for verdict in (verdicts or {}).values()]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def _due(self) -> dict[str, str]:
        """Student -> until when, for those in the gradebook; "" -> for everybody else."""
        with Gradebook(f"sqlite:///{self.home / 'gradebook.db'}") as book:
            assignment = book.find_assignment(self.unit)
            own = {s.student_id: f"{assignment.duedate} {s.extension}" for s in assignment.submissions}
            return {"": f"{assignment.duedate} None"} | own


@functools.cache
def _version() -> str:
    """A hash of all in grader/ that writes the books."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "grader").glob("*.py"), *(ROOT / "grader" / "templates").rglob("*.j2")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Line:
    """One of nbgrader's converters, set up once for a whole class: its templates are compiled, its filters warm."""

    def __init__(self, converter: type, settings: object, unit: str) -> None:
        course = CourseDirectory(config=settings, assignment_id=unit, student_id="*")
        self.app = converter(coursedir=course, config=settings, force=True)
        self.app.exporter = self.app.exporter_class(parent=self.app, config=self.app.config)
        for preprocessor in self.app.preprocessors:
            self.app.exporter.register_preprocessor(preprocessor)

    def convert(self, student: str, held: Callable[[], AbstractContextManager]) -> str:
        """A sentence if it failed, else "". It happens within held()."""
        self.app.coursedir.student_id = student

        def work() -> None:
            with held():
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
        self.execute("BEGIN")
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
