"""Submissions as the class report compares them: the source of each exercise, its tokens, and what a person should look at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grader
from grader.judging import submission
from grader.judging.bounded import TooMuch, bounded
from grader.reporting import similar


@dataclass(frozen=True)
class StudentFlag:
    """A flag on a student's answer for a person to look at; it has taken no point."""

    student: str
    exercise: str  # "" if it is about the notebook
    sentence: str


@dataclass(frozen=True)
class Handin:
    """One student's submission as it was judged: the source of each exercise, its tokens if it was begun, and flags."""

    sources: dict[str, str]
    tokens: dict[str, tuple[str, ...]]
    flags: list[StudentFlag]
    problem: str = ""  # why the file could not be read


def handin(path: Path, unit: str, student: str) -> Handin:
    """Read a submitted notebook, in a child; runs nothing."""
    exercises = list(grader.exercises(unit).values())
    given = submission.handed_out_as(path, grader.released(unit))

    def work() -> list:
        read = submission.read_here(path, exercises, given)
        sources = {e.id: read.solution(e).source for e in exercises if e.id in read.homes}
        tokens = {id: similar.tokens(source) for id, source in sources.items() if id in read.attempted}
        return [sources, tokens, read.flags, read.problem]

    try:
        sources, tokens, flags, problem = bounded(work)
    except TooMuch as reason:
        problem = f"{path.name} {reason}."
        return Handin({}, {}, [StudentFlag(student, "", problem)], problem)
    tokens = {id: tuple(read) for id, read in tokens.items()}
    return Handin(sources, tokens, [StudentFlag(student, *flag) for flag in flags], problem)
