"""nbgrader's converters without a shell: what went wrong is a sentence."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import nbgrader.api
from alembic.script import ScriptDirectory
from nbgrader.converters import GenerateAssignment
from nbgrader.coursedir import CourseDirectory
from nbgrader.dbutil import ALEMBIC_DIR

from grader import disk
from grader.gradebook import amended
from grader.nbgrader_config import ROOT, config


def schema() -> str:
    """Return the version of nbgrader's tables, which it notes in a new gradebook. nbgrader starts a process to ask Alembic for it, which
    takes 1.7 s of CPU; Alembic is asked here."""
    return ScriptDirectory(ALEMBIC_DIR).get_current_head()


nbgrader.api.get_alembic_version = schema


def register(home: Path, unit: str, *, root: Path = ROOT) -> list[str]:
    """Put the unit's cells and points into the gradebook of `home`. Raises ValueError if nbgrader cannot.

    The notebook that students get is not written: that is the build's work. Returns what amended.amend says.
    """
    changes = amended.amend(home, unit, root=root)
    settings = config(home, root=root, CourseDirectory={"release_directory": str(home.resolve() / "registered")})
    if problem := convert(GenerateAssignment, settings, unit):
        raise ValueError(f"{unit} cannot be put into the gradebook of {home}: {problem}")
    return changes


def convert(converter: type, settings, unit: str, student: str = "*") -> str:
    """Run one of nbgrader's converters. Return a message if it failed, with the last error of its log, else "".

    Raises disk.WriteRefused if the disk is full or read-only: whatever comes next would fail as well.
    """
    course = CourseDirectory(config=settings, assignment_id=unit, student_id=student)
    app = converter(coursedir=course, config=settings, force=True)
    errors: list[str] = []
    refusals: list[str] = []

    def note(record: logging.LogRecord) -> None:  # nbgrader logs what it catches, and raises another
        errors.append(record.getMessage())
        refusals.append(disk.refusal(sys.exception(), disk.EVERYTHING))

    handler = logging.Handler(level=logging.ERROR)
    handler.emit = note
    app.log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SQLAlchemy's, about nbgrader's own queries
            app.start()
    except (Exception, SystemExit) as e:
        if refusal := next(filter(None, [disk.refusal(e, disk.EVERYTHING), *refusals]), ""):
            raise disk.WriteRefused(refusal) from None
        traces = [error.strip().splitlines()[-1] for error in errors if error.startswith("Traceback")]
        return (traces or [f"{type(e).__name__}: {e}"])[-1]
    finally:
        app.log.removeHandler(handler)
    return ""
