"""Words that a verdict may say of hidden cases: ours, Python's and torch's, and those of the student's source.

An answer sees hidden numbers while it runs, and can give names to what it makes: exceptions, classes, kernels, operations. None
of these names reaches a sentence unless it is a word that somebody wrote down before. An exception is named by nothing.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import keyword
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import triton.language as tl

import course_lib
import tritontrace
from course_lib.evidence import Evidence
from course_lib.exercise import Exercise
from grader import sources
from grader.catalogue import say
from tritontrace.messages import Message
from tritontrace.results import Cause

WORD = re.compile(r"\w*[^\W\d]\w*")  # a name, or an English word; a number is none: shapes and places are told
QUOTED = re.compile(r"`[^`\n]*`")
ROLES = re.compile(
    r"(out|buffer|dy)[ \[]?\d{0,2}\]?"
)  # tensors as verdicts call them; of their numbers no more than two digits


class Redactor:
    """Redacts the texts shown about one answer: of hidden cases only what the student or the course wrote may show. logs: public."""

    def __init__(self, exercise: Exercise, cells: Sequence[tuple[str, str]], logs: Sequence[Any]) -> None:
        self.kernel = exercise.kind == "kernel"
        self._sources, self._logs = [text for _, text in cells], logs
        self._names = [*exercise.cases[0].arguments(0), exercise.entry] if exercise.cases else [exercise.entry]

    @functools.cached_property
    def written(self) -> str:
        """Return all texts of the student's source and public logs, which may be shown."""
        return "\n".join([*self._sources, *_strings(self._logs), *self._names])

    @functools.cached_property
    def allowed(self) -> frozenset[str]:
        return frozenset(WORD.findall(self.written))

    @functools.cached_property
    def lines(self) -> frozenset[str]:
        return frozenset(_squeezed(line) for line in self.written.splitlines())

    def redact(self, found: Any) -> None:
        """Replace, in all texts of some evidence, what is not among those."""
        if isinstance(found, Evidence):
            if found.cause and found.cause.kind == "raised":  # by the student's code, in words that it chose
                found.error = say("judging.answer.raised", case=found.case)
                found.cause = Cause("raised", found.case)
            if not self.kernel:  # the criteria tell nothing of what a formula returned there
                found.cause = found.cause and Cause(found.cause.kind, found.case)
                return
        for field in dataclasses.fields(found):
            if field.name not in ("case", "cases", "kernels"):  # ours, and keys that nobody is told
                setattr(found, field.name, self._hidden(getattr(found, field.name)))

    def _hidden(self, value: Any) -> Any:
        match value:
            case Message():
                return Message(self._redacted(value), self._redacted(value.id), self._hidden({**value.parameters}))
            case str():
                return self._redacted(value)
            case list():
                return [self._hidden(v) for v in value]
            case dict():
                return {self._redacted(str(k)): self._hidden(v) for k, v in value.items()}
        if dataclasses.is_dataclass(value):
            self.redact(value)
        return value

    def _redacted(self, text: str) -> str:
        pieces = []
        for quoted in re.split(f"({QUOTED.pattern})", text):
            if quoted.startswith("`") and not self._may_quote(quoted[1:-1].removesuffix(" ...")):
                quoted = "`...`"
            elif not quoted.startswith("`"):
                quoted = WORD.sub(
                    lambda word: word[0] if word[0] in self.allowed or word[0] in _words() else "...", quoted
                )
            pieces.append(quoted)
        return "".join(pieces)

    def _may_quote(self, text: str) -> bool:
        if ROLES.fullmatch(text) or text in _quotations() or any(_squeezed(text) in line for line in self.lines):
            return True
        known = self.allowed | _names()
        return not re.search(r"\d", text) and all(word in known for word in WORD.findall(text))


def _strings(tree: Any) -> set[str]:
    """Each once: a log says the same few for each of its events."""
    found, waiting = set(), [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            found.add(item)
        elif isinstance(item, (list, tuple)):
            waiting += [v for v in item if not isinstance(v, (int, float))]  # numbers are the most by far
        elif isinstance(item, dict):
            found.update(map(str, item))
            waiting += item.values()
    return found


def _squeezed(line: str) -> str:
    return re.sub(r"\s+", "", line)


@functools.cache
def _ours() -> str:
    """All that the course's allowed code, and the engine's, can say."""
    folders = [Path(str(package.__file__)).parent for package in (course_lib, tritontrace)]
    return "\n".join(path.read_text("utf-8") for folder in folders for path in sources(folder))


@functools.cache
def _words() -> frozenset[str]:
    return frozenset(WORD.findall(_ours())) | _names()


@functools.cache
def _quotations() -> frozenset[str]:
    return frozenset(quoted[1:-1] for quoted in QUOTED.findall(_ours()))


@functools.cache
def _names() -> frozenset[str]:
    """Names of Python's, torch's and Triton's."""
    places = [dir(place) for place in (builtins, torch, torch.Tensor, torch.ops.aten, tl)]
    return frozenset(keyword.kwlist).union(*places)
