"""Facts already known about the submission that is being entered: books.py sets them, the steps of nbgrader's chain ask
for them.

Under the plain `nbgrader autograde` nothing is: each step reads the notebook again, opens the gradebook for itself, and the
judge is asked for the verdicts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode
from nbgrader.api import Gradebook
from nbgrader.coursedir import CourseDirectory
from nbgrader.preprocessors import NbGraderPreprocessor

from course_lib.exercise import Verdict
from grader import exercises
from grader.gradebook import counts
from grader.judging import submission


@dataclass(frozen=True)
class KnownSubmission:
    """Facts that grader.gradebook.books knows about a submission.

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
    """Hand these facts to the chain while this is open, so that it asks nobody for them."""
    _handed[student] = known
    try:
        yield
    finally:
        del _handed[student]


def of(names: dict) -> KnownSubmission:
    """The facts known about the submission that nbgrader's `resources["nbgrader"]` names."""
    return _handed.get(names["student"], KnownSubmission())


def read(config, names: dict) -> submission.Submission:
    """The submission; it is read from its file if it is not at hand."""
    if (here := of(names).read) is not None:
        return here
    course = CourseDirectory(config=config)
    notebook = f"{names['notebook']}.ipynb"
    release = Path(course.format_path(course.release_directory, ".", names["assignment"])) / notebook
    of_unit = list(exercises(names["assignment"]).values())
    return submission.read(folder(config, names) / notebook, of_unit, release if release.exists() else None)


def folder(config, names: dict) -> Path:
    """The folder in which the submission lies."""
    course = CourseDirectory(config=config)
    return Path(course.format_path(course.submitted_directory, names["student"], names["assignment"]))


@contextlib.contextmanager
def gradebook(names: dict) -> Iterator[Gradebook]:
    """The gradebook; it is opened for this block if it is not at hand."""
    if (book := of(names).book) is not None:
        yield book
    else:
        with Gradebook(names["db_url"]) as book:
            yield book


def counting(names: dict) -> counts.ExerciseCounts:
    """How the exercises of the unit count in the class whose gradebook this is."""
    return counts.of(Path(names["db_url"].removeprefix("sqlite:///")).parent, names["assignment"])


class InTheBook(NbGraderPreprocessor):
    """A base to put before one of nbgrader's preprocessors: it then works in the gradebook that is at hand, where nbgrader's own
    opens another."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        names = resources["nbgrader"]
        self.notebook_id, self.assignment_id, self.student_id = names["notebook"], names["assignment"], names["student"]
        with gradebook(names) as self.gradebook:
            for index, cell in enumerate(nb.cells):
                nb.cells[index], resources = self.preprocess_cell(cell, resources, index)
            self.settle(resources)
        return nb, resources

    def settle(self, resources: dict) -> None:
        """Do what is left for the notebook when its cells are done."""
