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
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import Any

import grader
from course_lib import criteria, execution, judging
from course_lib.execution import exactly, relays, smallest
from course_lib.exercise import Exercise, Trial, Verdict
from grader.catalogue import say
from grader.child import gpu_child, sandbox
from grader.child.zygote import Zygote
from grader.judging import submission, twists
from grader.judging.secret import course_secret, seed_of
from grader.judging.task import UNREADABLE_ANSWER, JudgingTask
from grader.judging.verdicts import VerdictStore, device, key_of, one_at_a_time, place
from tritontrace.messages import message_of
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
JudgedAnswer = tuple[Exercise, Sequence[tuple[str, str]], int]  # cells, and the seed of the hidden inputs
NOBODYS = -1  # a seed of hidden inputs that is no student's
RECORD_SECONDS, REPLAY_SECONDS = 10.0, 60.0  # of CPU
COMPILE_SECONDS = 60.0  # on the clock: compilers are processes of their own
SUBMISSION_SECONDS = 240.0  # of CPU, for all answers of a submission and all tries: ten times an honest one


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
        verdict = store.get(key)
        if verdict is None:
            verdict = self.judge(exercise, cells, seed, budget)
            store.put(key, verdict)
        return verdict

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
        verdicts, again = self._verdicts(tasks), {}
        for index, task in enumerate(tasks):
            batch = batches.get(tuple(task.exercise.without), ())
            if (
                len(batch) > 1
                and task in batch
                and not task.settled
                and verdicts[index].points < verdicts[index].out_of
            ):
                alone = copy.copy(task)
                self._record([alone])
                ended = any(trial.evidence.error for trial in task.trials)
                if ended or (alone.logs, alone.problem) != (task.logs, task.problem):
                    self._replay([alone])
                    again[index] = alone
        for index, verdict in zip(again, self._verdicts(again.values()), strict=True):
            verdicts[index] = verdict
        return verdicts

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

        with execution.spending("running"):
            return judging.judge(
                task.exercise,
                task.trials,
                task.seed,
                functools.partial(self._logs_of, task),
                task.logs,
                self._gpu_policy,
                functools.partial(self._evaluated, task),
                functools.partial(self._looked_for, task),
            )

    def _logs_of(self, task: JudgingTask, calls: list) -> list:
        """Logs of other calls of the answer. Raises ValueError, with a sentence, if there are none."""
        other = copy.copy(task)
        other.calls, other.public, other.hidden = calls, list(range(len(calls))), []
        self._record([other])
        if other.problem:
            raise ValueError(other.problem)
        return other.logs

    def _evaluated(self, task: JudgingTask, trial: Trial) -> Any:
        """Result of exactly.evaluated for a case; None if it does not get there."""
        log = task.logs[[case.name for case in task.cases].index(trial.case.name)]
        part = {"log": log, "arguments": trial.inputs[0], "allows": sorted(task.exercise.allows)}
        return self._explanation("evaluate", part, exactly.SECONDS)

    def _looked_for(self, task: JudgingTask, asked: Mapping[str, Any]) -> Any:
        """Result of smallest.looked_for; None if it does not get there."""
        answer = task.to_record([])
        part = {name: answer[name] for name in ("cells", "entry", "without")} | dict(asked)
        return self._explanation("look", part, smallest.SECONDS)

    def _explanation(self, role: str, part: dict[str, Any], seconds: float) -> Any:
        """A child's answer, of no budget: an explanation takes no time from another answer."""
        reply = self.zygote.ask({"role": role, "parts": [part], "seconds": seconds})
        return None if reply["error"] else reply["result"][0]

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
