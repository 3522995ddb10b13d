"""The judge: secrets, hidden cases, references and criteria in; verdicts out. It never runs student code.

    judge ──cells, entry, arguments──▶ recorder      (a child of the zygote)   ──▶ logs
    judge ──logs, other arguments───▶ replayer      (another child)           ──▶ Evidence ──▶ criteria ──▶ Verdict

Both do all the programs of one student, if nothing goes wrong; else each program has a pair of its own.
A verdict is written to disk the moment it exists, under a hash of all that it depends on; grading again costs nothing.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import hmac
import importlib
import os
import random
import secrets
import tempfile
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grader
from course_lib import criteria, observe
from course_lib.exercise import Case, Exercise, Trial, Verdict
from course_lib.observe import timed, wire
from course_lib.observe.child import SENTENCE
from course_lib.tracing import in_a_row
from grader import sandbox, submission, timing
from grader.verdicts import Verdicts, device, key_of
from grader.zygote import Zygote

Program = tuple[Exercise, Sequence[tuple[str, str]], int]  # cells, and the seed of the hidden inputs
RECORD_SECONDS, REPLAY_SECONDS = 10.0, 60.0  # of CPU
COMPILE_SECONDS = 60.0  # on the clock: compilers are processes of their own


# --------------------------------------------------------------------------------------------------- secrets


def course_secret(folder: Path) -> bytes:
    """The secret of this course, made on first use, readable by its owner alone, never committed."""
    path = folder / "secret"
    if not path.exists():
        descriptor, draft = tempfile.mkstemp(dir=folder, prefix="secret.")  # mode 0600
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all, also when several start at once
        os.unlink(draft)
    return bytes.fromhex(path.read_text().strip())


def seed_of(secret: bytes, student: str, exercise: str) -> int:
    """The seed of one student's hidden inputs for one exercise (63 bits: too many to try them all)."""
    digest = hmac.digest(secret, f"{student}\0{exercise}".encode(), "sha256")
    return int.from_bytes(digest[:8], "big") >> 1


def all_cases(exercise: Exercise, seed: int) -> list[Case]:
    """The public cases, then the hidden ones of grader/hidden, which depend on the seed.

    Whatever is drawn from the secret is hidden, in public cases too; the fixed numbers of a formula's public cases are not.
    """
    hidden = importlib.import_module(f"grader.hidden.{exercise.id.split('.')[0]}")
    public = [dataclasses.replace(case, hidden=_drawn(exercise, case)) for case in exercise.cases]
    return public + [dataclasses.replace(c, hidden=True) for c in hidden.cases(exercise.id, random.Random(seed))]


def _drawn(exercise: Exercise, case: Case) -> bool:
    """Do the case's values depend on the seed?"""
    return exercise.kind == "kernel" or repr(case.arguments(0)) != repr(case.arguments(1))


# -------------------------------------------------------------------------------------------------- verdicts


class Judge:
    """Judges programs with one zygote. Not for several threads at once; make one for each."""

    def __init__(self, folder: Path | None = None, *, accept_risk: bool = False) -> None:
        self.folder = folder or grader.home()
        self.level = sandbox.require(accept_risk, self.folder)
        self.zygote = Zygote()

    @functools.cached_property
    def secret(self) -> bytes:
        self.folder.mkdir(parents=True, exist_ok=True)
        return course_secret(self.folder)

    def verdict(self, exercise: Exercise, cells: Sequence[tuple[str, str]], student: str) -> Verdict:
        """The verdict on a program (its cells, in order), from disk if it is there."""
        seed = seed_of(self.secret, student, exercise.id)
        key, store = key_of(exercise, cells, seed, device()), Verdicts(self.folder / "verdicts")
        found = store.get(key)
        if found is None:
            found = self.judge(exercise, cells, seed)
            store.put(key, found)
        return found

    def judge(self, exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int) -> Verdict:
        """The verdict on one program, observed in two children of its own."""
        return self.judge_all([(exercise, cells, seed)])[0]

    def judge_all(self, programs: Sequence[Program]) -> list[Verdict]:
        """The verdicts on programs of one student: those that judging each alone would find, with fewer processes.

        They share two children as long as all goes well. A program that does not earn all its points in company is
        recorded alone as well, and judged by that log if it is another one, or if its kernels ended early; so is each
        program if the company gives no answer.
        """
        works = [Work(*program) for program in programs]
        company = [work for work in works if not work.exercise.without]  # what that takes away is gone for all
        for together in [company, *([work] for work in works if work not in company)]:
            self._record(together)
            self._replay(together)
        found, again = self._verdicts(works), {}
        for index, work in enumerate(works):
            if len(company) > 1 and work in company and found[index].points < found[index].out_of:
                alone = copy.copy(work)
                self._record([alone])
                ended = any(trial.evidence.error for trial in work.trials)
                if ended or (alone.logs, alone.problem) != (work.logs, work.problem):
                    self._replay([alone])
                    again[index] = alone
        for index, verdict in zip(again, self._verdicts(again.values()), strict=True):
            found[index] = verdict
        return found

    def _verdicts(self, works: Collection[Work]) -> list[Verdict]:
        """Their verdicts, one traced oracle after another; other threads wait meanwhile."""
        with _oracles, in_a_row() if works else contextlib.nullcontext():
            return [self._verdict(work) for work in works]

    def _record(self, works: Sequence[Work]) -> None:
        """Have each program's host code run on all cases: a log for each, or a problem."""
        try:
            replies = self._ask("record", [work.to_record() for work in works], RECORD_SECONDS)
        except NotObserved as reason:
            return self._apart(self._record, works, reason)
        for work, reply in zip(works, replies, strict=True):
            try:
                work.logs, work.printed, error = reply["logs"], str(reply["printed"]), str(reply["error"])
            except (KeyError, TypeError):  # the child wrote this itself
                error = "gave an answer that cannot be read"
            work.problem = work.sentence(error)

    def _replay(self, works: Sequence[Work]) -> None:
        """Have the kernels of each log run on other data: trials, or a problem."""
        for work in works:
            if work.exercise.kind != "kernel" and not work.problem:  # nothing runs: the log is the answer
                work.believe()
        works = [work for work in works if work.exercise.kind == "kernel" and not work.problem]
        try:
            replies = self._ask("replay", [work.to_replay() for work in works], REPLAY_SECONDS)
        except NotObserved as reason:
            return self._apart(self._replay, works, reason)
        for work, trees in zip(works, replies, strict=True):
            work.believe(trees)
            if work.trials:  # a formula could print the hidden numbers it was given
                work.trials[0].evidence.printed = work.printed

    def _apart(self, step: Callable[[Sequence[Work]], None], works: Sequence[Work], reason: NotObserved) -> None:
        """Several together gave no answer: each alone. One alone gave none: that is its problem."""
        if len(works) == 1:
            if reason.lost:
                raise GraderFailed(str(reason))
            works[0].problem = works[0].sentence(str(reason))
        else:
            for work in works:
                step([work])

    def _ask(self, role: str, parts: list[dict[str, Any]], seconds: float) -> list[Any]:
        """An answer for each part. NotObserved if there is none."""
        if not parts:
            return []
        reply = self.zygote.ask({"role": role, "parts": parts, "seconds": seconds})
        observe.SPENT.update(reply.get("spent", {}))  # what children say of themselves: for tables alone
        if reply["error"]:
            raise NotObserved(str(reply["error"]), lost="lost" in reply)
        if not isinstance(reply["result"], list) or len(reply["result"]) != len(parts):
            raise NotObserved("gave an answer that cannot be read")
        return reply["result"]

    def _verdict(self, work: Work) -> Verdict:
        if work.problem:
            return criteria.refused(work.exercise, work.problem)

        def recorded(calls: list) -> list:
            timed_one = copy.copy(work)
            timed_one.calls = calls
            self._record([timed_one])
            if timed_one.problem:
                raise ValueError(timed_one.problem)
            return timed_one.logs

        with observe.spending("running"):
            return timed.judge(work.exercise, work.trials, work.seed, recorded, timing.run)

    def close(self) -> None:
        self.zygote.close()


class GraderFailed(RuntimeError):
    """Our own machinery failed; nothing is known of the program, and no verdict may be kept."""


# an oracle may be a trace, and a process can hold one trace at a time; and a timing has the GPU to itself
_oracles = threading.Lock()


class NotObserved(ValueError):
    """A child gave no answer. The message is one sentence for the student; `lost` means that it is our fault."""

    def __init__(self, sentence: str, *, lost: bool = False) -> None:
        super().__init__(sentence)
        self.lost = lost


@dataclass(eq=False)
class Work:
    """A program on its way to its verdict: cases, arguments, logs, trials; or a problem."""

    exercise: Exercise
    cells: Sequence[tuple[str, str]]
    seed: int
    logs: Any = None
    printed: str = ""
    problem: str = ""
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        with observe.spending("running"):
            self.cases = all_cases(self.exercise, self.seed)
            self.calls, self.fresh = observe.draw(self.exercise, self.cases, self.seed)

    def to_record(self) -> dict[str, Any]:
        of = self.exercise
        cells = [list(cell) for cell in self.cells]
        return {"cells": cells, "entry": of.entry, "calls": self.calls, "called": of.called, "without": of.without}

    def to_replay(self) -> dict[str, Any]:
        return {
            "logs": self.logs,
            "fresh": self.fresh,
            "names": [case.name for case in self.cases],
            "kernel": self.exercise.kind == "kernel",
            "allows": sorted(self.exercise.allows),
            "compile_seconds": COMPILE_SECONDS,
            "compile_every": True,
        }

    def believe(self, trees: Any = None) -> None:
        """Take the evidence, unless it cannot be read; without any the log is the evidence."""
        try:
            trees = observe.replay_all(**self.to_replay()) if trees is None else trees
            self.trials = observe.trials(self.cases, self.fresh, trees)
        except (wire.WireError, TypeError, ValueError, KeyError, IndexError) as error:
            self.problem = f"the evidence cannot be read ({error})"

    def sentence(self, error: str) -> str:
        """A child's sentence, with the name of what it is about; "" stays ""."""
        names_itself = error.startswith(("no cell", "cell ", "handed-out cell ", "the "))
        return error[:SENTENCE] if names_itself or not error else f"{self.exercise.entry} {error[:SENTENCE]}"


# -------------------------------------------------------------------------------------------- a submission


def judge_submission(judge: Judge, unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """A verdict for each exercise of the unit, whatever the notebook is like."""
    exercises = list(grader.exercises(unit).values())
    read = submission.read(path, exercises, grader.released(unit))
    return {exercise.id: judge_exercise(judge, exercise, read, student) for exercise in exercises}


def judge_exercise(judge: Judge, exercise: Exercise, read: submission.Submission, student: str) -> Verdict:
    """The verdict on one exercise. Never raises: whatever goes wrong is seen, costs this exercise alone, and is no points."""
    try:
        return judge.verdict(exercise, read.program(exercise).cells, student)
    except submission.Problem as problem:
        return criteria.refused(exercise, str(problem))
    except Exception as error:
        return failed(exercise, error)


def failed(exercise: Exercise, error: Exception) -> Verdict:
    """In place of a verdict, where our own machinery failed: to be seen, and not to be kept."""
    sentence = f"the grader failed ({type(error).__name__}: {error}); tell your instructor, and grade this again"
    return criteria.refused(exercise, sentence)


_local = threading.local()


def verdicts(unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """What nbgrader's chain asks for: the verdicts on one submitted notebook, from disk where they exist."""
    if not hasattr(_local, "judge") or _local.judge.folder != grader.home():
        _local.judge = Judge(accept_risk=bool(os.environ.get("GRADER_ACCEPT_RISK")))
    return judge_submission(_local.judge, unit, student, path)
