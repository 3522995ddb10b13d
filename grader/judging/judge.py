"""The judge: secrets, hidden cases, references and criteria in; verdicts out. It never runs student code.

    judge ──cells, entry, arguments──▶ recorder      (a child of the zygote; one more for hidden arguments)   ──▶ logs
    judge ──logs, other arguments───▶ replayer      (another child)           ──▶ Evidence ──▶ criteria ──▶ Verdict

Each does all the answers of one student, if nothing goes wrong; else each answer has children of its own.
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
from itertools import chain
from pathlib import Path
from typing import Any

import grader
from course_lib import criteria, judging, observe
from course_lib.evidence import Cause
from course_lib.exercise import Case, Exercise, Trial, Verdict
from course_lib.exercises import find
from course_lib.handin import literals
from course_lib.observe import wire
from course_lib.observe.child import SENTENCE, ChildLost
from grader.child import sandbox, timing
from grader.child.zygote import Zygote
from grader.classes import carried
from grader.classes.verdicts import Verdicts, device, key_of, one_at_a_time
from grader.judging import given, submission, untold

UNTOLD = (
    "fails on cases that stay hidden: call it with sizes and numbers of your own, the smallest and the oddest first"
)
# run where answers are recorded, by us: of these files, those that cannot be read there
UNREADABLE = """
def unreadable(paths):
    closed = []
    for path in paths:
        try:
            open(path, "rb").close()
        except OSError:
            closed.append(path)
    return closed
"""
UNREADABLE_ANSWER = ChildLost("unreadable")
USED_UP = "was not judged: all that came before has used up the time that a submission has"
Answer = tuple[Exercise, Sequence[tuple[str, str]], int]  # cells, and the seed of the hidden inputs
MOST_NAMES, LONGEST_NAME = 20, 1_000  # of files and modules that an answer could not read
RECORD_SECONDS, REPLAY_SECONDS = 10.0, 60.0  # of CPU
COMPILE_SECONDS = 60.0  # on the clock: compilers are processes of their own
SUBMISSION_SECONDS = 240.0  # of CPU, for all answers of a submission and all tries: ten times an honest one


# --------------------------------------------------------------------------------------------------- secrets


def course_secret(folder: Path) -> bytes:
    """The secret of this course, made on first use, readable by its owner alone, never committed."""
    path = folder / "secret"
    if not path.exists():
        descriptor, draft = tempfile.mkstemp(dir=folder, prefix="secret.")  # mode 0600
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
            with contextlib.suppress(FileExistsError):
                os.link(draft, path)  # whole or not at all, also when several start at once
        finally:
            os.unlink(draft)
    return bytes.fromhex(path.read_text().strip())


def seed_of(secret: bytes, student: str, exercise: str) -> int:
    """The seed of one student's hidden inputs for one exercise (63 bits: too many to try them all)."""
    digest = hmac.digest(secret, f"{student}\0{exercise}".encode(), "sha256")
    return int.from_bytes(digest[:8], "big") >> 1


def all_cases(exercise: Exercise, seed: int) -> list[Case]:
    """The public cases, then the hidden ones of grader/judging/hidden, which depend on the seed.

    Whatever is drawn from the secret is hidden, in public cases too; the fixed numbers of a formula's public cases are not.
    """
    hidden = importlib.import_module(f"grader.judging.hidden.{exercise.id.split('.')[0]}")
    public = [dataclasses.replace(case, hidden=_drawn(exercise, case)) for case in exercise.cases]
    return public + [dataclasses.replace(c, hidden=True) for c in hidden.cases(exercise.id, random.Random(seed))]


def _drawn(exercise: Exercise, case: Case) -> bool:
    """Do the case's values depend on the seed?"""
    return exercise.kind == "kernel" or repr(case.arguments(0)) != repr(case.arguments(1))


# -------------------------------------------------------------------------------------------------- verdicts


class Judge:
    """Judges answers with one zygote. Not for several threads at once; make one for each."""

    def __init__(self, folder: Path | None = None, *, accept_risk: bool = False) -> None:
        self.folder = folder or grader.home()
        self.level = sandbox.require(accept_risk, self.folder)
        self.zygote = Zygote()

    @functools.cached_property
    def secret(self) -> bytes:
        self.folder.mkdir(parents=True, exist_ok=True)
        return course_secret(self.folder)

    def verdict(
        self, exercise: Exercise, cells: Sequence[tuple[str, str]], student: str, budget: Budget | None = None
    ) -> Verdict:
        """The verdict on an answer (its cells, in order), from disk if it is there."""
        seed = seed_of(self.secret, student, exercise.id)
        key, store = key_of(exercise, cells, seed, device()), Verdicts(self.folder / "verdicts")
        found = store.get(key)
        if found is None:
            found = self.judge(exercise, cells, seed, budget)
            store.put(key, found)
        return found

    def judge(
        self, exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int, budget: Budget | None = None
    ) -> Verdict:
        """The verdict on one answer, observed in three children of its own."""
        return self.judge_all([(exercise, cells, seed)], budget)[0]

    def judge_all(self, answers: Sequence[Answer], budget: Budget | None = None) -> list[Verdict]:
        """The verdicts on answers of one student: those that judging each alone would find, with fewer processes.

        All but those of exercises with `without`, which have children of their own, share three children as long as all goes
        well. An answer that does not earn all its points in company is recorded again alone, and judged by the new log if it
        differs from the first, or if a case had ended early; so is each answer if nothing comes of the company.

        budget    what the submission has left; a new one if none is given
        """
        self.budget = budget or Budget()
        works = [Work(*answer) for answer in answers]
        to_run = [work for work in works if not work.problem]
        company = [work for work in to_run if not work.exercise.without]  # what that takes away is gone for all
        for together in [company, *([work] for work in to_run if work not in company)]:
            self._record(together)
            self._replay(together)
        found, again = self._verdicts(works), {}
        for index, work in enumerate(works):
            if len(company) > 1 and work in company and not work.settled and found[index].points < found[index].out_of:
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
        with one_at_a_time:
            return [self._verdict(work) for work in works]

    def _record(self, works: Sequence[Work]) -> None:
        """Run each answer's host code on all cases, and keep a log for each, or a problem.

        Its messages come from a child that holds no hidden number; of the child with the hidden cases only logs are believed.
        """
        try:
            replies = self._ask("record", [work.to_record(work.open) for work in works], RECORD_SECONDS)
        except NotObserved as reason:
            return self._apart(self._record, works, reason)
        for work, reply in zip(works, replies, strict=True):
            work.take(work.open, reply)
        self._record_hidden([work for work in works if work.closed and not work.problem])

    def _record_hidden(self, works: Sequence[Work]) -> None:
        try:
            replies = self._ask("record", [work.to_record(work.closed) for work in works], RECORD_SECONDS)
        except NotObserved as reason:
            return self._apart(self._record_hidden, works, reason)
        for work, reply in zip(works, replies, strict=True):
            work.take(work.closed, reply, believed=False)

    def _ours(self, work: Work) -> str:
        """A sentence if our sandbox is to blame: a file that the answer could not read belongs to Python or to a package, and
        nobody can read it there. Else "".

        Answers may say what they like: that the file is closed is seen in a child that holds none of theirs.
        """
        if not work.unread or not (paths := [str(path) for path in sandbox.of_python(work.unread)]):
            return ""
        part = {"cells": [["<grader>", UNREADABLE]], "entry": "unreadable", "called": "", "without": ""}
        request = {"role": "record", "parts": [part | {"calls": [[{"paths": paths}]]}], "seconds": RECORD_SECONDS}
        reply = self.zygote.ask(request)
        if reply["error"]:
            raise GraderFailed(reply["error"])
        closed = reply["result"][0]["logs"][0]["calls"][0]["result"]["list"]
        return f"{closed[0]} cannot be read in the sandbox" if closed else ""

    def _replay(self, works: Sequence[Work]) -> None:
        """Run the kernels of each log on other data, and keep trials, or a problem."""
        for work in works:
            if work.exercise.kind != "kernel" and not work.problem:  # nothing runs: the log has it all
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
        """Try each alone if nothing came of several together; of one alone, that is its problem."""
        if len(works) == 1:
            if reason.cause.kind == "grader_failed":
                raise GraderFailed(str(reason))
            unsafe = reason.cause.kind == "raised" and step == self._record_hidden  # the child's own words
            works[0].stop(UNTOLD if unsafe else str(reason), reason.cause)
        elif self.budget.hurry:
            raise Postponed
        else:
            for work in works:
                work.alone.add(step.__name__)
                step([work])

    def _ask(self, role: str, parts: list[dict[str, Any]], seconds: float) -> list[Any]:
        """An answer for each part. Raises NotObserved if there is none."""
        if not parts:
            return []
        if self.budget.seconds <= 0:
            raise NotObserved(USED_UP, Cause("used_up"))
        reply = self.zygote.ask({"role": role, "parts": parts, "seconds": seconds, "compile_seconds": COMPILE_SECONDS})
        self.budget.seconds -= reply["used"]
        observe.SPENT.update(reply.get("spent", {}))  # what children say of themselves: for tables alone
        if reply["error"]:
            raise NotObserved(reply["error"], reply["cause"])
        if not isinstance(reply["result"], list) or len(reply["result"]) != len(parts):
            raise NotObserved(str(UNREADABLE_ANSWER), UNREADABLE_ANSWER.cause)
        return reply["result"]

    def _verdict(self, work: Work) -> Verdict:
        if ours := self._ours(work):
            return failed(work.exercise, GraderFailed(ours))
        if work.problem:
            return criteria.refused(work.exercise, work.problem, work.cause)

        def recorded(calls: list) -> list:
            timed_one = copy.copy(work)
            timed_one.calls, timed_one.open, timed_one.closed = calls, list(range(len(calls))), []
            self._record([timed_one])
            if timed_one.problem:
                raise ValueError(timed_one.problem)
            return timed_one.logs

        with observe.spending("running"):
            return judging.judge(work.exercise, work.trials, work.seed, recorded, timing.run)

    def close(self) -> None:
        self.zygote.close()


@dataclass
class Budget:
    """CPU seconds that a submission may still cost. Its last child may take more than that.

    hurry    others are waiting: Postponed is raised as soon as its answers need children of their own
    """

    seconds: float = field(default_factory=lambda: SUBMISSION_SECONDS)
    hurry: bool = False


class Postponed(RuntimeError):
    """Raised where nothing came of the answers of a submission together: to be judged when nobody waits for it."""


class GraderFailed(RuntimeError):
    """Our own machinery failed; nothing is known of the answer, and no verdict may be kept."""


class NotObserved(ValueError):
    """A child gave no answer. The message is one sentence for the student; `cause` is what it tells.

    If something was raised, the sentence is the child's own, and may hold anything that the child has seen.
    """

    def __init__(self, sentence: str, cause: Cause) -> None:
        super().__init__(sentence)
        self.cause = cause


@dataclass(eq=False)
class Work:
    """An answer on its way to its verdict: cases, arguments, logs, trials; or a problem."""

    exercise: Exercise
    cells: Sequence[tuple[str, str]]
    seed: int
    logs: Any = None
    printed: str = ""
    problem: str = ""  # a sentence, and the cause that it tells
    cause: Cause = field(default_factory=lambda: Cause("refused"))
    unread: set[str] = field(default_factory=set)  # files and modules that it says it could not read
    trials: list[Trial] = field(default_factory=list)
    alone: set[str] = field(default_factory=set)  # the steps that it had to take in a child of its own

    @property
    def settled(self) -> bool:
        """Whether nothing that others did can have touched it."""
        return "_record" in self.alone and (bool(self.problem) or "_replay" in self.alone)

    def __post_init__(self) -> None:
        with observe.spending("running"), one_at_a_time:  # what is drawn may be traced
            if self.exercise.kind == "values":
                self.problem = literals.problem(self.cells, self.exercise.entry)
            self.cases = all_cases(self.exercise, self.seed)
            self.calls, self.fresh = observe.draw(self.exercise, self.cases, self.seed)
        # of a kernel's public cases other values are judged than those that it is recorded with
        kernel, public = self.exercise.kind == "kernel", len(self.exercise.cases)
        self.open = [i for i, case in enumerate(self.cases) if i < public and (kernel or not case.hidden)]
        self.closed = [i for i in range(len(self.cases)) if i not in self.open]

    def to_record(self, indices: Sequence[int]) -> dict[str, Any]:
        of = self.exercise
        calls = [self.calls[i] for i in indices]
        with one_at_a_time:
            cells = [list(cell) for cell in given.placed(of, self.cells)]
        return {"cells": cells, "entry": of.entry, "calls": calls, "called": of.called, "without": of.without}

    def take(self, indices: Sequence[int], reply: Any, *, believed: bool = True) -> None:
        """The logs of some cases from a child's reply, or a problem; if it is believed, in the child's words."""
        try:
            logs, printed, error = reply["logs"], str(reply["printed"]), str(reply["error"])
            if not error:
                pairs = list(zip(indices, logs, strict=True))
                self.logs = [*self.logs] if self.logs and not believed else [None] * len(self.calls)
                for index, log in pairs:
                    self.logs[index] = log
                with one_at_a_time:
                    error = given.problem(self.exercise, logs)
                error = error and f"{self.exercise.entry} {error}"
        except (KeyError, TypeError, ValueError):  # the child wrote this itself
            printed, error = "", f"{self.exercise.entry} {UNREADABLE_ANSWER}"
        self.unread |= _unread(reply)
        if believed:
            self.printed = printed
        if error and not believed:
            self.stop(UNTOLD, Cause("raised"))
        else:
            self.problem = error[:SENTENCE]

    def to_replay(self) -> dict[str, Any]:
        return {
            "logs": self.logs,
            "fresh": self.fresh,
            "names": [case.name for case in self.cases],
            "kernel": self.exercise.kind == "kernel",
            "allows": sorted(self.exercise.allows),
            "language": self.exercise.language,
        }

    def believe(self, trees: Any = None) -> None:
        """Take the evidence, unless it cannot be read; without any the log is the evidence."""
        try:
            trees = observe.replay_all(**self.to_replay()) if trees is None else trees
            self.trials = observe.trials(self.cases, self.fresh, trees)
            told = untold.Told(self.exercise, self.cells, [self.logs[i] for i in self.open])
            for index in self.closed:
                told.hide(self.trials[index].evidence)
            for compiled in self.trials[0].evidence.compiled:
                if not set(compiled.cases) & {self.cases[i].name for i in self.open}:
                    told.hide(compiled)
        except (wire.WireError, TypeError, ValueError, KeyError, IndexError) as error:
            self.problem, self.cause = f"the evidence cannot be read ({error})", Cause("unreadable")

    def stop(self, what: str, cause: Cause) -> None:
        """Note that the child gave no answer, for a cause that is told of the student's function in `what`."""
        self.problem, self.cause = f"{self.exercise.entry} {what[:SENTENCE]}", cause


def _unread(reply: Any) -> set[str]:
    """The names that a child says it could not read; none if its reply cannot be read itself."""
    try:
        said = [reply["unread"], *(call["unread"] for log in reply["logs"] for call in log["calls"])]
        names = list(chain.from_iterable(said))[:MOST_NAMES]
        return {name for name in names if isinstance(name, str) and len(name) < LONGEST_NAME}
    except (KeyError, TypeError):
        return set()


# -------------------------------------------------------------------------------------------- a submission


def judge_submission(judge: Judge, unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """A verdict for each exercise of the unit, whatever the notebook is like."""
    exercises = list(grader.exercises(unit).values())
    read = submission.read(path, exercises, grader.released(unit))
    budget = Budget()
    own = {exercise.id: judge_exercise(judge, exercise, read, student, budget) for exercise in exercises}
    second = dataclasses.replace(read, answers=carried.answers(exercises, read, own))
    again = {id: judge_exercise(judge, find(id), second, student, budget) for id in second.answers}
    return carried.settled(exercises, read, own, again)


def judge_exercise(
    judge: Judge, exercise: Exercise, read: submission.Submission, student: str, budget: Budget
) -> Verdict:
    """The verdict on one exercise. Never raises: whatever goes wrong is seen, and costs this exercise alone."""
    try:
        return judge.verdict(exercise, read.answer(exercise).cells, student, budget)
    except submission.Problem as problem:
        return criteria.refused(exercise, str(problem))
    except Exception as error:
        return failed(exercise, error)


def failed(exercise: Exercise, error: Exception) -> Verdict:
    """Make the verdict for a failure of our own machinery: it is shown, and never kept."""
    sentence = f"the grader failed ({type(error).__name__}: {error}); tell your instructor, and grade this again"
    return criteria.unjudged(exercise, sentence)


_local = threading.local()


def verdicts(unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """The verdicts on one submitted notebook, from disk where they exist; nbgrader's chain asks for them. Raises
    canary.Broken if the published solutions do not earn everything."""
    from grader.classes import canary  # which judges with this module

    if not hasattr(_local, "judge") or _local.judge.folder != grader.home():
        _local.judge, _local.proven = Judge(accept_risk=bool(os.environ.get("GRADER_ACCEPT_RISK"))), set()
    if unit not in _local.proven:
        canary.prove(_local.judge, unit)
        _local.proven.add(unit)
    return judge_submission(_local.judge, unit, student, path)
