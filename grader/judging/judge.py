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
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from socket import socket
from typing import Any

import grader
from course_lib import content, criteria, execution, judging
from course_lib.execution import exactly, relays, smallest
from course_lib.exercise import Case, Exercise, Trial, Verdict
from course_lib.handin import literals
from grader.catalogue import say
from grader.child import gpu_child, sandbox
from grader.child.zygote import Zygote
from grader.judging import provided, redaction, submission, twists
from grader.judging.secret import course_secret
from grader.judging.verdicts import VerdictStore, device, key_of, one_at_a_time, place
from tritontrace.messages import message_of
from tritontrace.replay import wire
from tritontrace.replay.child import SENTENCE, ChildLost
from tritontrace.results import Cause

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
JudgedAnswer = tuple[Exercise, Sequence[tuple[str, str]], int]  # cells, and the seed of the hidden inputs
MOST_NAMES, LONGEST_NAME = 20, 1_000  # of files and modules that an answer could not read
NOBODYS = -1  # a seed of hidden inputs that is no student's
RECORD_SECONDS, REPLAY_SECONDS = 10.0, 60.0  # of CPU
COMPILE_SECONDS = 60.0  # on the clock: compilers are processes of their own
SUBMISSION_SECONDS = 240.0  # of CPU, for all answers of a submission and all tries: ten times an honest one


# --------------------------------------------------------------------------------------------------- secrets


def seed_of(secret: bytes, student: str, exercise: str) -> int:
    """Derive the seed of one student's hidden inputs for one exercise (63 bits: too many to try them all)."""
    digest = hmac.digest(secret, f"{student}\0{exercise}".encode(), "sha256")
    return int.from_bytes(digest[:8], "big") >> 1


def all_cases(exercise: Exercise, seed: int) -> list[Case]:
    """List the public cases, then the hidden ones of grader/judging/hidden, which depend on the seed; a wheel has none.

    Whatever is drawn from the secret is hidden, in public cases too; the fixed numbers of a formula's public cases are not.
    """
    public = [dataclasses.replace(case, hidden=_drawn(exercise, case)) for case in exercise.cases]
    if content.INSTALLED:
        return public
    return public + [dataclasses.replace(case, hidden=True) for case in hidden_cases(exercise.id, seed)]


def hidden_cases(exercise_id: str, seed: int) -> list[Case]:
    """Draw the hidden cases of an exercise from its unit's module in grader/judging/hidden."""
    unit = exercise_id.partition(".")[0]
    return importlib.import_module(f"grader.judging.hidden.{unit}").cases(exercise_id, random.Random(seed))


def _drawn(exercise: Exercise, case: Case) -> bool:
    """Do the case's values depend on the seed?"""
    return exercise.kind == "kernel" or repr(case.arguments(0)) != repr(case.arguments(1))


# -------------------------------------------------------------------------------------------------- verdicts


class Judge:
    """Judges answers with one zygote. Not for several threads at once; make one for each. gpu: see grader.GPUMode.

    door    of a nursery that forks the zygote
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        accept_risk: bool = False,
        gpu: grader.GPUMode = "shown",
        door: socket | None = None,
    ) -> None:
        self.gpu: grader.GPUMode = gpu
        self.folder = folder or grader.home()
        self.level = sandbox.require(accept_risk, self.folder)
        self.zygote = Zygote(door)

    @property
    def _gpu_policy(self) -> judging.GPUPolicy | None:
        return None if self.gpu == "none" else judging.GPUPolicy(gpu_child.run, self.gpu == "counts")

    @functools.cached_property
    def secret(self) -> bytes:
        self.folder.mkdir(parents=True, exist_ok=True)
        return course_secret(self.folder)

    def asked(self, exercise: Exercise, student: str) -> Exercise:
        """Return the exercise with the student's twist."""
        return twists.of_student(self.folder, student).asked(exercise)

    def warm(self, published: Sequence[tuple[Exercise, Sequence[tuple[str, str]]]]) -> None:
        """Trace the kernels of published answers in the replay process: an answer's kernel that equals one is then cheaper.

        Their cases have numbers that are nobody's, hidden ones, too. Where that fails, everything is judged all the same.
        """
        self.budget, tasks = CpuBudget(), []
        for exercise, cells in published:
            if exercise.kind == "kernel" and exercise.language == "Triton" and exercise.called not in relays.ONCE:
                tasks.append(JudgingTask(exercise, cells, NOBODYS))
        with contextlib.suppress(NotObserved, GraderFailed, Postponed):
            self._record(tasks)
            parts = [task.to_replay() for task in tasks if not task.problem]
            self.zygote.ask({"role": "warm", "parts": parts, "seconds": REPLAY_SECONDS})

    def verdict(
        self, exercise: Exercise, cells: Sequence[tuple[str, str]], student: str, budget: CpuBudget | None = None
    ) -> Verdict:
        """Return the verdict on an answer (its cells, in order), from disk if it is there, with the student's twist."""
        exercise, seed = self.asked(exercise, student), seed_of(self.secret, student, exercise.id)
        key, store = key_of(exercise, cells, seed, device(self.gpu)), VerdictStore(self.folder / "verdicts")
        found = store.get(key)
        if found is None:
            found = self.judge(exercise, cells, seed, budget)
            store.put(key, found)
        return found

    def judge(
        self, exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int, budget: CpuBudget | None = None
    ) -> Verdict:
        """Judge one answer, observed in three children of its own, and return the verdict."""
        return self.judge_all([(exercise, cells, seed)], budget)[0]

    # trap: a student's answers share three children, so one answer may change another's world: one that loses points is
    # recorded again, alone
    def judge_all(self, answers: Sequence[JudgedAnswer], budget: CpuBudget | None = None) -> list[Verdict]:
        """Judge answers of one student, and return the verdicts: those that judging each alone would find, with fewer processes.

        All that do without the same modules share three children as long as all goes well. An answer that does not earn all its
        points in the batch is recorded again alone, and judged by the new log if it differs from the first, or if a case had ended
        early; so is each answer if nothing comes of the batch.

        budget    what the submission has left; a new one if none is given
        """
        self.budget = budget or CpuBudget()
        tasks = [JudgingTask(*answer) for answer in answers]
        batches: dict[tuple[str, ...], list[JudgingTask]] = {}
        for task in tasks:
            if not task.problem:  # what `without` takes away is gone for all
                batches.setdefault(tuple(task.exercise.without), []).append(task)
        for together in batches.values():
            self._record(together)
            self._replay(together)
        found, again = self._verdicts(tasks), {}
        for index, task in enumerate(tasks):
            batch = batches.get(tuple(task.exercise.without), ())
            if len(batch) > 1 and task in batch and not task.settled and found[index].points < found[index].out_of:
                alone = copy.copy(task)
                self._record([alone])
                ended = any(trial.evidence.error for trial in task.trials)
                if ended or (alone.logs, alone.problem) != (task.logs, task.problem):
                    self._replay([alone])
                    again[index] = alone
        for index, verdict in zip(again, self._verdicts(again.values()), strict=True):
            found[index] = verdict
        return found

    def _verdicts(self, tasks: Collection[JudgingTask]) -> list[Verdict]:
        """Their verdicts, one traced oracle after another; other threads wait meanwhile."""
        with one_at_a_time:
            return [dataclasses.replace(self._verdict(task), on=place(self.gpu)) for task in tasks]

    def _record(self, tasks: Sequence[JudgingTask]) -> None:
        """Run each answer's host code on all cases, and keep a log for each, or a problem.

        Its messages come from a child that holds no hidden number; of the child with the hidden cases only logs are believed.
        """
        try:
            replies = self._recorded(tasks, [task.public for task in tasks])
        except NotObserved as reason:
            return self._retry_one_by_one(self._record, tasks, reason)
        for task, reply in zip(tasks, replies, strict=True):
            task.store_logs(task.public, reply)
        self._record_hidden([task for task in tasks if task.hidden and not task.problem])

    # trap: who holds hidden numbers may say them, in the name of an exception or of a kernel: of this child logs alone
    # are believed
    def _record_hidden(self, tasks: Sequence[JudgingTask]) -> None:
        try:
            replies = self._recorded(tasks, [task.hidden for task in tasks])
        except NotObserved as reason:
            return self._retry_one_by_one(self._record_hidden, tasks, reason)
        for task, reply in zip(tasks, replies, strict=True):
            task.store_logs(task.hidden, reply, believed=False)

    def _recorded(self, tasks: Sequence[JudgingTask], indices: Sequence[Sequence[int]]) -> list[Any]:
        """A child's reply for each task on these of its cases; of those that two processes are called for, with what came of both."""
        replies = self._ask(
            "record", [task.to_record(i) for task, i in zip(tasks, indices, strict=True)], RECORD_SECONDS
        )
        second = {n: part for n, task in enumerate(tasks) if (part := task.to_record_second(replies[n]))}
        answers = self._ask("record", list(second.values()), RECORD_SECONDS)
        for n, answer in zip(second, answers, strict=True):
            replies[n] = tasks[n].joined(replies[n], answer)
        return replies

    # trap: a failure of the grader's own is `criteria.unjudged`: shown as "?", never kept, never 0
    def _infrastructure_failure(self, task: JudgingTask) -> str:
        """A sentence if our sandbox is to blame: a file that the answer could not read belongs to Python or to a package, and
        nobody can read it there. Else "".

        Answers may say what they like: that the file is closed is seen in a child that holds none of theirs.
        """
        if not task.unread or not (paths := [str(path) for path in sandbox.of_python(task.unread)]):
            return ""
        part = {"cells": [["<grader>", UNREADABLE]], "entry": "unreadable", "called": "", "without": []}
        request = {"role": "record", "parts": [part | {"calls": [[{"paths": paths}]]}], "seconds": RECORD_SECONDS}
        reply = self.zygote.ask(request)
        if reply["error"]:
            raise GraderFailed(reply["error"])
        closed = reply["result"][0]["logs"][0]["calls"][0]["result"]["list"]
        return say("judging.failed.unreadable", path=closed[0]) if closed else ""

    def _replay(self, tasks: Sequence[JudgingTask]) -> None:
        """Run the kernels of each log on other data, and keep trials, or a problem."""
        for task in tasks:
            if task.exercise.kind != "kernel" and not task.problem:  # nothing runs: the log has it all
                task.load_evidence()
        tasks = [task for task in tasks if task.exercise.kind == "kernel" and not task.problem]
        try:
            replies = self._ask("replay", [task.to_replay() for task in tasks], REPLAY_SECONDS)
        except NotObserved as reason:
            return self._retry_one_by_one(self._replay, tasks, reason)
        for task, trees in zip(tasks, replies, strict=True):
            task.load_evidence(trees)
            if task.trials:  # a formula could print the hidden numbers it was given
                task.trials[0].evidence.printed = task.printed

    def _retry_one_by_one(
        self, step: Callable[[Sequence[JudgingTask]], None], tasks: Sequence[JudgingTask], reason: NotObserved
    ) -> None:
        """Try each alone if nothing came of several together; of one alone, that is its problem."""
        if len(tasks) == 1:
            if reason.cause.kind == "grader_failed":
                raise GraderFailed(message_of(reason))
            unsafe = reason.cause.kind == "raised" and step == self._record_hidden  # the child's own words
            tasks[0].fail(say("judging.answer.hidden") if unsafe else message_of(reason), reason.cause)
        elif self.budget.hurry:
            raise Postponed
        else:
            for task in tasks:
                task.alone.add(step.__name__)
                step([task])

    def _ask(self, role: str, parts: list[dict[str, Any]], seconds: float) -> list[Any]:
        """An answer for each part. Raises NotObserved if there is none."""
        if not parts:
            return []
        if self.budget.seconds <= 0:
            raise NotObserved(say("judging.answer.used_up"), Cause("used_up"))
        reply = self.zygote.ask({"role": role, "parts": parts, "seconds": seconds, "compile_seconds": COMPILE_SECONDS})
        self.budget.seconds -= reply["used"]
        execution.SPENT.update(reply.get("spent", {}))  # what children say of themselves: for tables alone
        if reply["error"]:
            raise NotObserved(reply["error"], reply["cause"])
        if not isinstance(reply["result"], list) or len(reply["result"]) != len(parts):
            raise NotObserved(UNREADABLE_ANSWER.message, UNREADABLE_ANSWER.cause)
        return reply["result"]

    def _verdict(self, task: JudgingTask) -> Verdict:
        if failure := self._infrastructure_failure(task):
            return failed(task.exercise, GraderFailed(failure))
        if task.problem:
            return criteria.refused(task.exercise, task.problem, task.cause)

        def recorded(calls: list) -> list:
            timed_one = copy.copy(task)
            timed_one.calls, timed_one.public, timed_one.hidden = calls, list(range(len(calls))), []
            self._record([timed_one])
            if timed_one.problem:
                raise ValueError(timed_one.problem)
            return timed_one.logs

        def evaluated(trial: Trial) -> Any:  # of no budget: an explanation takes no time from another answer
            log = task.logs[[case.name for case in task.cases].index(trial.case.name)]
            part = {"log": log, "arguments": trial.inputs[0], "allows": sorted(task.exercise.allows)}
            reply = self.zygote.ask({"role": "evaluate", "parts": [part], "seconds": exactly.SECONDS})
            return None if reply["error"] else reply["result"][0]

        def looked_for(asked: Mapping[str, Any]) -> Any:  # of no budget, as above
            known = task.to_record([])
            part = {name: known[name] for name in ("cells", "entry", "without")} | dict(asked)
            reply = self.zygote.ask({"role": "look", "parts": [part], "seconds": smallest.SECONDS})
            return None if reply["error"] else reply["result"][0]

        with execution.spending("running"):
            return judging.judge(
                task.exercise, task.trials, task.seed, recorded, task.logs, self._gpu_policy, evaluated, looked_for
            )

    def close(self) -> None:
        self.zygote.close()


@dataclass
class CpuBudget:
    """CPU seconds that a submission may still use. Its last child may take more than that.

    hurry    others are waiting: Postponed is raised as soon as its answers need children of their own
    """

    seconds: float = field(default_factory=lambda: SUBMISSION_SECONDS)
    hurry: bool = False


class Postponed(RuntimeError):
    """Raised where the answers of a submission failed in a batch: they are judged later, one by one, when nothing waits for them."""


class GraderFailed(RuntimeError):
    """Raised where the grader itself failed; nothing is known of the answer, and no verdict may be stored."""


class NotObserved(ValueError):
    """Raised where a child gave no answer. The message is one sentence for the student; `cause` is the reason as data.

    If something was raised, the sentence is the child's own, and may hold anything that the child has seen.
    """

    def __init__(self, sentence: str, cause: Cause) -> None:
        super().__init__(sentence)
        self.cause = cause


@dataclass(eq=False)
class JudgingTask:
    """State of one answer while it is judged: cases, arguments, logs, trials; or a problem."""

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
        """Whether the answer was judged in processes of its own, where no other answer can have interfered."""
        return "_record" in self.alone and (bool(self.problem) or "_replay" in self.alone)

    def __post_init__(self) -> None:
        with execution.spending("running"), one_at_a_time:  # what is drawn may be traced
            if self.exercise.kind == "values":
                self.problem = literals.problem(self.cells, self.exercise.entry)
            self.cases = all_cases(self.exercise, self.seed)
            self.calls, self.fresh = execution.draw(self.exercise, self.cases, self.seed)
        # of a kernel's public cases other values are judged than those that it is recorded with
        self.relay = relays.RELAYS.get(self.exercise.called)
        kernel, public = self.exercise.kind == "kernel", len(self.exercise.cases)
        self.public = [i for i, case in enumerate(self.cases) if i < public and (kernel or not case.hidden)]
        if self.exercise.called in relays.ONCE:  # no case is known where it is recorded
            self.public = list(range(len(self.cases)))
        self.hidden = [i for i in range(len(self.cases)) if i not in self.public]

    def to_record(self, indices: Sequence[int]) -> dict[str, Any]:
        of, calls, called = self.exercise, [self.calls[i] for i in indices], self.exercise.called
        with one_at_a_time:
            cells = [list(cell) for cell in provided.with_provided(of, self.cells)]
            if self.relay:
                calls, called = relays.first_calls(self.relay, calls), self.relay.first
            if of.called in relays.ONCE:
                calls = [[{}]]
        return {
            "cells": cells,
            "entry": of.entry,
            "calls": calls,
            "called": called,
            "without": [*of.without],
            "before": min(indices, default=0),
        }

    def to_record_second(self, reply: Any) -> dict[str, Any] | None:
        """Return the request to the second of two recording processes, made of the first one's reply; None where there is no second."""
        try:
            if not self.relay or reply["error"]:
                return None
            calls = relays.second_calls(self.relay, reply["logs"])
        except (KeyError, TypeError, AttributeError):  # the child wrote this itself
            return None
        return self.to_record([]) | {"calls": calls, "called": self.relay.second}

    def joined(self, reply: Any, second: Any) -> Any:
        """Return the first process's reply, merged with that of the second."""
        try:
            return {**reply, "error": second["error"], "logs": relays.joined(reply["logs"], second["logs"])}
        except (KeyError, TypeError, ValueError, AttributeError):
            return None  # which store_logs cannot read

    def store_logs(self, indices: Sequence[int], reply: Any, *, believed: bool = True) -> None:
        """Store the logs of some cases from a child's reply, or a problem; if it is believed, in the child's words."""
        try:
            logs, printed, error = reply["logs"], str(reply["printed"]), str(reply["error"])
            if not error:
                if self.exercise.called in relays.ONCE:
                    logs = relays.repeated(logs, [self.calls[i] for i in indices])
                pairs = list(zip(indices, logs, strict=True))
                self.logs = [*self.logs] if self.logs and not believed else [None] * len(self.calls)
                for index, log in pairs:
                    self.logs[index] = log
                with one_at_a_time:
                    error = provided.problem(self.exercise, logs)
                error = error and f"{self.exercise.entry} {error}"
        except (KeyError, TypeError, ValueError):  # the child wrote this itself
            what = UNREADABLE_ANSWER.message
            printed, error = "", say("judging.answer.problem", entry=self.exercise.entry, what=what)
        self.unread |= _unread(reply)
        if believed:
            self.printed = printed
        if error and not believed:
            self.fail(say("judging.answer.hidden"), Cause("raised"))
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
        } | ({"reported": True} if any(criterion.reported for criterion in self.exercise.criteria) else {})

    def load_evidence(self, trees: Any = None) -> None:
        """Load the evidence from trees; without any, replay the logs here."""
        try:
            trees = execution.replay_all(**self.to_replay()) if trees is None else trees
            self.trials = execution.trials(self.cases, self.fresh, trees)
            redactor = redaction.Redactor(self.exercise, self.cells, [self.logs[i] for i in self.public])
            for index in self.hidden:
                redactor.redact(self.trials[index].evidence)
            for compiled in self.trials[0].evidence.compiled:
                if not set(compiled.cases) & {self.cases[i].name for i in self.public}:
                    redactor.redact(compiled)
        except (wire.WireError, TypeError, ValueError, KeyError, IndexError) as error:
            self.problem, self.cause = say("judging.failed.evidence", error=message_of(error)), Cause("unreadable")

    def fail(self, what: str, cause: Cause) -> None:
        """Store that the child gave no answer, with a clause `what` for the student, and the cause."""
        what = what if len(what) <= SENTENCE else what[:SENTENCE]
        self.problem, self.cause = say("judging.answer.problem", entry=self.exercise.entry, what=what), cause


def _unread(reply: Any) -> set[str]:
    """The names that a child says it could not read; none if its reply cannot be read itself."""
    try:
        said = [reply["unread"], *(call["unread"] for log in reply["logs"] for call in log["calls"])]
        names = list(chain.from_iterable(said))[:MOST_NAMES]
        return {name for name in names if isinstance(name, str) and len(name) < LONGEST_NAME}
    except (KeyError, TypeError):
        return set()


# -------------------------------------------------------------------------------------------- a submission


def judge_exercise(
    judge: Judge, exercise: Exercise, read: submission.Submission, student: str, budget: CpuBudget
) -> Verdict:
    """Judge one exercise, and return the verdict. Never raises: a failure is recorded, and costs this exercise alone."""
    try:
        return judge.verdict(exercise, read.answer(exercise).cells, student, budget)
    except submission.Problem as problem:
        return criteria.refused(judge.asked(exercise, student), problem.message)
    except Exception as error:
        return failed(exercise, error)


def failed(exercise: Exercise, error: Exception) -> Verdict:
    """Make the verdict for a failure of the grader itself: it is shown, and never stored."""
    facts = {"kind": type(error).__name__, "error": message_of(error)}
    return criteria.unjudged(exercise, say("judging.failed.grader", **facts))
