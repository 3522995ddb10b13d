"""Facts already known about the submission that is being entered: books.py sets them, the steps of nbgrader's chain ask
for them.

Under the plain `nbgrader autograde` nothing is: each step reads the notebook again, opens the gradebook for itself, and the
judge is asked for the verdicts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbgrader.api import Comment, Grade, Gradebook, GradeCell, SolutionCell
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor
from sqlalchemy.orm import undefer

from course_lib.exercise import Verdict
from grader import exercises
from grader.gradebook import counts
from grader.judging import submission


@dataclass(frozen=True)
class KnownSubmission:
    """Facts about a submission that grader.gradebook.books has already read.

    same     the exercises with points by hand that a person gave, or has looked at, for the very answer that is there now
    extra    those whose extra credit was given by hand
    book     the gradebook, open
    """

    verdicts: Mapping[str, Verdict] | None = None
    read: submission.Submission | None = None
    same: frozenset[str] = frozenset()
    extra: frozenset[str] = frozenset()
    book: Gradebook | None = None


_handed: dict[str, KnownSubmission] = {}  # by student


@contextlib.contextmanager
def at_hand(student: str, known: KnownSubmission) -> Iterator[None]:
    """Pass these facts to nbgrader's converters inside the block, so that they need not look them up."""
    _handed[student] = known
    try:
        yield
    finally:
        del _handed[student]


def of(names: dict) -> KnownSubmission:
    """Return the known facts about the submission that nbgrader's `resources["nbgrader"]` names."""
    return _handed.get(names["student"], KnownSubmission())


def read(config, names: dict) -> submission.Submission:
    """Return the submission, read from its file unless it is already known."""
    if (here := of(names).read) is not None:
        return here
    course = CourseDirectory(config=config)
    notebook = f"{names['notebook']}.ipynb"
    release = Path(course.format_path(course.release_directory, ".", names["assignment"])) / notebook
    of_unit = list(exercises(names["assignment"]).values())
    return submission.read(folder(config, names) / notebook, of_unit, release if release.exists() else None)


def folder(config, names: dict) -> Path:
    """Return the folder of the submission."""
    course = CourseDirectory(config=config)
    return Path(course.format_path(course.submitted_directory, names["student"], names["assignment"]))


@contextlib.contextmanager
def gradebook(names: dict) -> Iterator[Gradebook]:
    """Yield the open gradebook, or open it for this block."""
    if (book := of(names).book) is not None:
        yield book
    else:
        with Gradebook(names["db_url"]) as book:
            yield book


def counting(names: dict) -> counts.ExerciseCounts:
    """Return how the exercises of the unit count in the class whose gradebook this is."""
    return counts.of(Path(names["db_url"].removeprefix("sqlite:///")).parent, names["assignment"])


class LookedUp:
    """A gradebook that reads the grades and comments of one submitted notebook by two queries, and commits once. nbgrader needs a query
    over seven tables for each, and commits each, which takes longer than all else that is done with them."""

    def __init__(self, book: Gradebook, *where: str) -> None:
        self.book, self.where = book, where
        self.db = _Uncommitted(book.db)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.book, name)

    def find_grade(self, cell: str, *where: str) -> Grade:
        return self._grades[cell] if cell in self._grades else self.book.find_grade(cell, *where)

    def find_comment(self, cell: str, *where: str) -> Comment:
        return self._comments[cell] if cell in self._comments else self.book.find_comment(cell, *where)

    @cached_property
    def _grades(self) -> dict[str, Grade]:
        return self._by_cell(Grade, GradeCell, undefer(Grade.max_score))

    @cached_property
    def _comments(self) -> dict[str, Comment]:
        return self._by_cell(Comment, SolutionCell)

    def _by_cell(self, what: Any, cell: Any, *options: Any) -> dict[str, Any]:
        notebook = self.book.find_submission_notebook(*self.where)
        query = self.book.db.query(cell.name, what).join(what, what.cell_id == cell.id)
        return dict(map(tuple, query.filter(what.notebook == notebook).options(*options)))


class _Uncommitted:
    """A database session whose commits wait for the end."""

    def __init__(self, session: Any) -> None:
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def commit(self) -> None:
        self.session.flush()


class InTheBook(NbGraderPreprocessor):
    """Mixin to put before one of nbgrader's preprocessors: it then works in the gradebook that is already open, where nbgrader's own opens
    another."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        self.notebook_id, self.assignment_id, self.student_id = names["notebook"], names["assignment"], names["student"]
        with gradebook(names) as book:
            self.gradebook = LookedUp(book, self.notebook_id, self.assignment_id, self.student_id)
            for index, cell in enumerate(nb.cells):
                nb.cells[index], resources = self.preprocess_cell(cell, resources, index)
            self.settle(resources)
            book.db.commit()
        return nb, resources

    def settle(self, resources: dict) -> None:
        """Finish the notebook when its cells are done; a hook for subclasses."""
