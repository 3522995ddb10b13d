"""A file as handed in -> the answer to each exercise.

What a notebook gives is read by course_lib.handin, which students have too, so that their validate() cannot disagree.
What is hostile about a file ends here: links, devices, names; what its code may not do is flagged; and all of that happens
in a child with limits (bounded.py), from which a Submission comes back as plain data.
"""

from __future__ import annotations

import re
import stat
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from course_lib.exercise import Exercise
from course_lib.handin import files
from course_lib.handin.answer import MAX_FLAGS, MAX_STATEMENTS, Answer, Notebook
from course_lib.handin.cells import MAX_FILE, Cell, Problem, parse, small_enough
from grader.catalogue import say
from grader.judging import flags as source_rules
from grader.judging import releases
from grader.judging.bounded import TooMuch, bounded
from grader.judging.releases import HandedOutRelease
from tritontrace.messages import message_of
from tritontrace.replay import wire

__all__ = ["MAX_FILE", "MAX_FLAGS", "MAX_STATEMENTS", "Answer", "Cell", "Problem"]
__all__ += ["Reading", "Submission", "load", "read"]


def misnamed(student: str) -> str:
    """Return a message on an invalid student name, which is also a folder's, else "". The name goes into paths, globs and pages."""
    if re.fullmatch(r"[\w@+][\w@+. '-]{0,99}", as_letters(student)) and student == student.strip():
        return ""
    return (
        f"The folder submitted/{ascii(student)[1:-1][:100]} is not a student's name: letters, digits and . _ - @ + ' are "
        "allowed. Rename it."
    )


def as_letters(name: str) -> str:
    """Replace each combining mark of a name by a letter: Thai and Hindi have them, and `re` does not take them for letters."""
    return "".join("x" if unicodedata.category(c).startswith("M") else c for c in name)


def stem_of(name: str) -> str:
    """Return a notebook's name without its ending, whatever an LMS or a browser has added to that; "" if it is no notebook."""
    match = re.fullmatch(r"(.+)\.ipynb(\.txt|\.json)?", name, re.I | re.S)
    return match[1] if match else ""


def load(path: Path) -> list[Cell]:
    """Parse the cells of a notebook of any version. Raises Problem if it cannot be read or should not be."""
    path = Path(path)
    try:
        status = path.lstat()
    except OSError:
        raise Problem(say("judging.file.missing", name=path.name)) from None
    # a link may point at somebody else's work, at the solutions or at the gradebook
    if stat.S_ISLNK(status.st_mode) or path.parent.is_symlink() or path.parent.parent.is_symlink():
        raise Problem(say("judging.file.link", name=path.name))
    if not stat.S_ISREG(status.st_mode):
        raise Problem(say("judging.file.irregular", name=path.name))
    small_enough(path.name, status.st_size)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Problem(say("judging.file.unreadable", name=path.name, error=error.strerror)) from None
    return parse(content, path.name)


@dataclass(frozen=True)
class Submission:
    """A student's submission, as plain data.

    cells      as they stand in the notebook; [] if it could not be read, and `problem` says why
    flags      for a person to look at: (exercise, sentence), the exercise "" if it is about the file
    homes      exercise -> the number of the cell whose definition counts
    answers   exercise -> what to run for it
    refused    exercise -> why there is nothing to run
    attempted  exercises that were not left as they were handed out
    excused    exercises that were not in the release that was handed out, and are nowhere in the notebook
    """

    cells: list[Cell] = field(default_factory=list)
    problem: str = ""
    flags: list[tuple[str, str]] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    attempted: list[str] = field(default_factory=list)
    excused: list[str] = field(default_factory=list)

    def solution(self, exercise: Exercise) -> Cell:
        """Return the cell whose definition of the exercise's function counts. Raises Problem if there is none."""
        if exercise.id not in self.homes:
            raise Problem(self.refused.get(exercise.id, self.problem))
        return self.cells[self.homes[exercise.id] - 1]

    def answer(self, exercise: Exercise) -> Answer:
        """Return the code to run for the exercise. Raises Problem if there is nothing to run."""
        if exercise.id not in self.answers:
            raise Problem(self.refused.get(exercise.id, self.problem))
        return self.answers[exercise.id]


class Reading(Notebook):
    """A notebook while it is parsed, in a child that bears the cost: its answers, and the flags for a person.

    handed_out    which release the student got
    """

    def __init__(
        self,
        cells: Sequence[Cell],
        exercises: Sequence[Exercise],
        release: Sequence[Cell] = (),
        problem: str = "",
        *,
        handed_out: HandedOutRelease | None = None,
    ) -> None:
        super().__init__(cells, exercises, release, problem)
        self.handed_out = handed_out or HandedOutRelease(tuple(release))
        if not self.problem and (other := self._other_unit):
            self.problem = say("judging.file.other_unit", unit=other)

    @cached_property
    def flags(self) -> list[tuple[str, str]]:
        """List flags for a person to look at: (exercise, sentence), the exercise "" if it is about the file. None takes a point."""
        if self.problem:
            return [("", self.problem)]
        found = dict.fromkeys(
            filter(None, [self._of_release]), ""
        )  # sentence -> exercise: a helper's cell belongs to several
        for exercise in self.exercises:
            if exercise.id in self.excused:
                continue
            try:
                of_answer = self.answer(exercise).flags
            except Problem:  # the verdict says so
                of_answer = list(filter(None, [self.mangled(exercise)]))
            for sentence in self.check_cell_warnings(exercise) + of_answer:
                found.setdefault(sentence, exercise.id)
        return [(exercise, sentence) for sentence, exercise in found.items()]

    @cached_property
    def excused(self) -> list[str]:
        """List the exercises that were not handed out to the student, whose notebook has no trace of them."""
        if not self.handed_out.date or self.problem:
            return []
        got = {cell.grade_id for cell in self.handed_out.cells}
        there = {cell.grade_id for cell in self.cells}
        new = [e for e in self.exercises if e.check_id not in got and not {e.check_id, e.grade_id} & there]
        return [
            e.id
            for e in new
            if not any(e.entry in s.binds for s in self._statements) and not self.seems_to_define(e.entry)
        ]

    @property
    def _of_release(self) -> str:
        """A sentence on the release that was handed out, "" if it is today's."""
        if self.handed_out.unknown:
            return "The notebook names a release that is not in this clone's history; it is read as today's."
        if not self.handed_out.date:
            return ""
        older = f"An older notebook, of the release of {self.handed_out.date}"
        return f"{older}; not in it, and excused: {', '.join(self.excused)}." if self.excused else f"{older}."

    @property
    def _other_unit(self) -> str:
        """The unit that it is of, if not of the one it was handed in for; else ""."""
        if any(cell.grade_id in self._checks for cell in self.cells):
            return ""
        unit = files.unit_of(self.cells)
        return unit if unit and not {e.id for e in self.exercises} & {e.id for e in files.exercises(unit)} else ""

    def _answer_of(self, exercise: Exercise) -> Answer:
        answer = super()._answer_of(exercise)
        return replace(answer, flags=[*answer.flags, *map(str, source_rules.of_answer(exercise, answer.own))])

    def submission(self) -> Submission:
        """Return what was read of the notebook as plain data, a Submission."""
        homes, answers, refused = {}, {}, {}
        for exercise in self.exercises:
            try:
                homes[exercise.id] = self.solution(exercise).number
                answers[exercise.id] = self.answer(exercise)
            except Problem as problem:
                refused[exercise.id] = problem.message
        return Submission(self.cells, self.problem, self.flags, homes, answers, refused, self.work, self.excused)

    @property
    def work(self) -> list[str]:
        """List the exercises that were changed since they were handed out."""
        return [] if self.problem else [e.id for e in self.exercises if self.attempted(e)]


def given_cells(release: Path | None) -> tuple[Cell, ...]:
    """Return the cells of the notebook as it was handed out."""
    return _released(release, release.stat().st_mtime_ns) if release else ()


@lru_cache(maxsize=8)
def _released(path: Path, changed: int) -> tuple[Cell, ...]:
    cells = tuple(load(path))
    Notebook(cells, [], cells)  # what is parsed of it here, every child finds parsed
    return cells


def handed_out_as(path: Path, release: Path | None) -> HandedOutRelease:
    """Return the notebook as the student of this submission got it. release: today's."""
    return releases.of(path, release, given_cells(release)) if release else HandedOutRelease()


def read(path: Path, exercises: Sequence[Exercise], release: Path | None = None) -> Submission:
    """Read a submitted notebook in a child. Never raises: a problem with the whole file is raised by each `answer`.

    release    the notebook as it is handed out today. That which this student got tells an untouched stub from work, and brings back
               deleted imports
    """
    given = handed_out_as(path, release)
    try:
        return wire.from_tree(Submission, bounded(lambda: wire.to_tree(read_here(path, exercises, given))))
    except TooMuch as reason:
        problem = say("judging.file.too_much", name=path.name, what=message_of(reason))
        return Submission(problem=problem, flags=[("", problem)])


def has_work(content: bytes, exercises: Sequence[Exercise], release: Path | None = None) -> bool:
    """Whether a notebook holds more than was handed out. False if it cannot be read."""
    given = given_cells(release)

    def looked_at() -> bool:
        try:
            return bool(Reading(parse(content, ""), exercises, given).work)
        except Problem:
            return False

    try:
        return bounded(looked_at)
    except TooMuch:
        return False


def other_unit(content: bytes, exercises: Sequence[Exercise]) -> str:
    """Return the unit of a notebook, if it is another than that of the exercises; else ""."""
    ours = [e.grade_id for e in exercises] + [f'check(\\"{e.id}' for e in exercises]
    if any(name.encode() in content for name in ours):
        return ""

    def looked_at() -> str:
        try:
            return Reading(parse(content, ""), exercises)._other_unit
        except Problem:
            return ""

    try:
        return bounded(looked_at)
    except TooMuch:
        return ""


def read_here(path: Path, exercises: Sequence[Exercise], given: HandedOutRelease) -> Submission:
    """Read a submitted notebook in this process, which may not survive it.

    given    the notebook as it was handed out
    """
    try:
        return Reading(load(path), exercises, given.cells, handed_out=given).submission()
    except Problem as problem:
        return Reading([], exercises, given.cells, problem=problem.message).submission()
