"""The schema of what the course writes into the metadata of a notebook, a cell or an output: below the key `course`, one of these
kinds, as plain data.

nbgrader's own metadata are nbgrader's (grader/building/build.py writes them), the kernel's are Jupyter's. This module needs Python
alone.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

KEY = "course"
Kind = TypeVar("Kind", "CellRun", "HandedOut", "GradedOutput", "SharedEffort")
FORMS: Mapping[str, Any] = {
    "str": str,
    "float": (int, float),
    "Mapping[str, Any]": Mapping,
}  # of a field, as it is annotated


@dataclass(frozen=True)
class CellRun:
    """A code cell that has run: where its outputs come from.

    inputs  a hash of the cell and of what it reads
    gpu     its name, "" for a machine without one
    date    YYYY-MM-DD
    """

    inputs: str
    gpu: str
    date: str


@dataclass(frozen=True)
class HandedOut:
    """A student's notebook: the release of it that was handed out, a hash of its code."""

    release: str


@dataclass(frozen=True)
class GradedOutput:
    """An output of a graded notebook: what programs read of the verdict that it shows.

    verdict  the Verdict, as a tree of plain data
    answer   a hash of what was judged
    extra    the extra credit that was entered; another one in the gradebook is a person's
    """

    verdict: Mapping[str, Any]
    answer: str
    extra: float


@dataclass(frozen=True)
class SharedEffort:
    """An output of a student's notebook: what `effort()` shows of a unit, and the class gets with the notebook.

    checks, hints    exercise -> how many the student has asked for
    """

    unit: str
    checks: Mapping[str, Any]
    hints: Mapping[str, Any]


def write(metadata: MutableMapping[str, Any], what: CellRun | HandedOut | GradedOutput | SharedEffort) -> None:
    """Store this in the metadata of a notebook, cell or output, replacing what was there."""
    metadata[KEY] = {field.name: getattr(what, field.name) for field in fields(what)}


def read(metadata: Mapping[str, Any], kind: type[Kind]) -> Kind | None:
    """Return the entry of that kind in the metadata; None if there is none, or it is malformed."""
    answered = metadata.get(KEY)
    forms = {field.name: FORMS[str(field.type)] for field in fields(kind)}
    if not isinstance(answered, Mapping) or answered.keys() != forms.keys():
        return None
    if not all(isinstance(value, forms[name]) for name, value in answered.items()):
        return None
    return kind(**answered)


def drop(metadata: MutableMapping[str, Any]) -> None:
    """Remove from the metadata what `write` stored."""
    metadata.pop(KEY, None)
