"""A class: what has no verdict yet goes to workers, submission by submission; each verdict is on disk the moment it exists.

A submission is handed on as soon as its last verdict is there, and forgotten: a class of 1000 needs no more memory than
one of 10. A submission of whose answers nothing comes together is judged when all others are done, so that nobody waits for
it. When a worker dies, the exercises that it had wait until all others are done, and are then judged one by one with
nothing else at work, so that a fatal one neither costs others their verdicts nor is taken for another; where the worker dies
again, that is the verdict.
"""

from __future__ import annotations

import functools
import os
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, replace
from pathlib import Path

import grader
from course_lib import criteria
from course_lib.exercise import Exercise, Verdict
from course_lib.exercises import find, unit_of
from grader.child import sandbox
from grader.cohort import canary
from grader.cohort.workers import JudgingJob, Local, OtherVersion, QueuedAnswer, Workers, WorkersLost, verdicts_of
from grader.gradebook import counts
from grader.judging import excused, follow_through, submission, twists, verdicts
from grader.judging import judge as judging
from grader.judging.secret import seed_of

MANY = 20  # submissions of which each worker first traces the published kernels, which takes as long as one submission
OnProgress = Callable[[int, int], None]
POISON = (
    "the process that judged this ended twice, the second time with nothing else at work (memory? a crash?); "
    "0 points until a person has looked at it"
)


def submissions(folder: Path, unit: str) -> dict[str, Path]:
    """Map each student to their notebook, for everyone who handed in this unit under folder/submitted/."""
    found = {}
    for student in sorted((folder / "submitted").glob("*")):
        path = student / unit / f"{unit}.ipynb"
        if (path.exists() or path.is_symlink()) and not submission.misnamed(student.name):
            found[student.name] = path
    return found


def misnamed(folder: Path, unit: str) -> list[str]:
    """List a message for everything under folder/submitted/ that has a wrong name, and so is not graded."""
    sentences, known = [], submissions(folder, unit)
    for student in sorted((folder / "submitted").glob("*")):
        others = sorted(path.name for path in (student / unit).glob("*") if submission.stem_of(path.name))
        if student.name in known or not others:
            continue
        sentences.append(
            submission.misnamed(student.name)
            or f"submitted/{student.name}/{unit} holds {others[0]!a} and no {unit}.ipynb: not graded. Rename it."
        )
    return sentences


@dataclass
class GradedSubmission:
    """A submission and its verdicts by exercise, None where one is still to come.

    again    verdicts on the answers with published functions in place (see follow_through.py); None until all others are there
    """

    student: str
    path: Path
    read: submission.Submission
    verdicts: dict[str, Verdict | None]
    again: dict[str, Verdict | None] | None = None

    @property
    def complete(self) -> bool:
        return None not in self.verdicts.values() and None not in (self.again or {}).values()

    @property
    def judged(self) -> dict[str, Verdict]:
        """Return the verdicts that exist: all of them, once it is complete."""
        return _there(self.verdicts)

    @property
    def poison(self) -> list[str]:
        """List the exercises whose answers killed their workers."""
        found = [*self.verdicts.items(), *(self.again or {}).items()]
        return list(dict.fromkeys(exercise for exercise, verdict in found if verdict and is_poison(verdict)))

    @property
    def unjudged(self) -> str:
        """Return a message on the exercises that the grader could not judge, and why the first was not; "" if there are none."""
        found = {exercise: v for exercise, v in self.verdicts.items() if v and not v.judged}
        return ", ".join(found) + f": {next(iter(found.values())).findings[0].seen}" if found else ""


def is_poison(verdict: Verdict) -> bool:
    """Whether the answer killed its worker twice."""
    return verdict.cause is not None and verdict.cause.kind == "ended_twice"


def _there(verdicts: Mapping[str, Verdict | None]) -> dict[str, Verdict]:
    return {exercise: verdict for exercise, verdict in verdicts.items() if verdict is not None}


class NoGPU(ValueError):
    """Raised, with a message, where a GPU is to count and there is none."""


class ClassGrader:
    """Judges the submissions under `folder`. A context manager; leaving it by an exception stops the workers at once.

    again    judge once more what is recorded as poison
    gpu      what is done with a GPU. Raises NoGPU if it is to count and there is none
    ended    whose jobs ended their workers, each time
    spent    seconds of the workers by phase (see execution.SPENT), of the verdicts that were not on disk: `judged` many
    """

    def __init__(
        self,
        folder: Path,
        *,
        workers: Workers | int | None = None,
        accept_risk: bool = False,
        again: bool = False,
        gpu: grader.GPUMode = "shown",
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        sandbox.require(accept_risk, folder)
        if workers is None or isinstance(workers, int):
            workers = Local(workers or len(os.sched_getaffinity(0)), accept_risk=accept_risk)
        self.workers: Workers = workers
        self.folder, self.again = folder, again
        self.secret, self.twisted = judging.course_secret(folder), twists.units(folder)
        self.store = verdicts.VerdictStore(folder / "verdicts")
        self.gpu: grader.GPUMode = gpu
        self.device = workers.device(gpu)
        if gpu == "counts" and self.device == verdicts.NO_GPU:
            raise NoGPU(
                "No GPU is in sight of the workers, so none can count: leave out --gpu counts, or give them one."
            )
        self.many = False
        self.ended: list[str] = []
        self.spent: Counter[str] = Counter()
        self.judged = 0

    def __enter__(self) -> ClassGrader:
        return self

    def __exit__(self, kind: type | None, *exception: object) -> None:
        self.workers.close(now=kind is not None)

    def prove(self, unit: str) -> None:
        """Judge the unit's published solutions on the workers, unless they are known to earn full points. Raises canary.Broken,
        OtherVersion or WorkersLost if the workers are of no use."""
        answers = [self.answer(exercise, cells, canary.REFERENCE) for exercise, cells in canary.references(unit)]
        unknown = [answer for answer in answers if not canary.full(self.store.get(self.key(answer)))]
        for _, found in self.judge(self.jobs(canary.REFERENCE, unknown)):
            canary.require(found.values())

    def grade(
        self, unit: str, progress: OnProgress = lambda done, total: None, only: Collection[str] | None = None
    ) -> Iterator[GradedSubmission]:
        """Yield every submission of the unit, or only those of these students, as soon as it is complete. Nothing in one stops the next.

        Raises canary.Broken, OtherVersion or WorkersLost if the workers are of no use.
        """
        exercises = list(grader.exercises(unit).values())
        found = {s: path for s, path in submissions(self.folder, unit).items() if only is None or s in only}
        self.many = len(found) >= MANY
        unread, waiting, incomplete = deque(found.items()), deque(), {}
        done, total, desk = 0, len(found) * len(exercises), JobQueue(self)
        while True:
            while unread and len(waiting) < self.workers.slots:
                student, path = unread.popleft()
                read = submission.read(path, exercises, grader.released(unit))
                incomplete[student] = graded = GradedSubmission(student, path, read, {})
                graded.verdicts, jobs = self._look_up(exercises, student, read)
                waiting += jobs
                done += len(exercises) - sum(len(job.answers) for job in jobs)
                progress(done, total)
                if self._settled(exercises, graded, waiting):
                    yield incomplete.pop(student)
            desk.hand_out(waiting)
            if not desk.effective_programs:
                return
            for job, judged in desk.collect():
                graded = incomplete[job.student]
                if graded.again is None:
                    graded.verdicts |= judged
                    done += len(judged)
                    progress(done, total)
                else:
                    graded.again |= judged
                if self._settled(exercises, graded, waiting):
                    yield incomplete.pop(job.student)

    def _settled(self, exercises: Sequence[Exercise], graded: GradedSubmission, waiting: deque[JudgingJob]) -> bool:
        """Whether no verdict is still to come. Answers that an earlier mistake may have cost points are handed in once more."""
        if graded.complete and graded.again is None:
            answers = follow_through.answers(exercises, graded.read, graded.judged)
            again = [exercise for exercise in exercises if exercise.id in answers]
            graded.again, jobs = self._look_up(again, graded.student, replace(graded.read, answers=answers))
            waiting += jobs
        if not graded.complete:
            return False
        settled = follow_through.apply(exercises, graded.read, graded.judged, _there(graded.again or {}))
        worth = counts.of(self.folder, _unit(exercises)).in_the_maximum
        graded.verdicts = {**excused.apply(graded.read, settled, worth)}
        return True

    def judge(self, jobs: Iterable[JudgingJob]) -> Iterator[tuple[JudgingJob, dict[str, Verdict]]]:
        """Yield each job with its verdicts by exercise, in the order in which they come."""
        waiting, desk = deque(jobs), JobQueue(self)
        while desk.hand_out(waiting) or desk.effective_programs:
            yield from desk.collect()

    def answer(self, exercise: Exercise, cells: Iterable[tuple[str, str]], student: str) -> QueuedAnswer:
        seed = seed_of(self.secret, student, exercise.id)
        return QueuedAnswer(
            exercise.id, tuple((name, text) for name, text in cells), seed, self._asked(exercise, student).twist
        )

    def _asked(self, exercise: Exercise, student: str) -> Exercise:
        """The exercise as the class asks it of the student."""
        return twists.draw(self.secret, self.twisted, student).asked(exercise)

    def jobs(self, student: str, answers: Iterable[QueuedAnswer]) -> list[JudgingJob]:
        """Make one job for a student's answers, or two if a GPU runs some: where GPUs are few, they should not wait for what needs none."""
        if self.device == verdicts.NO_GPU:
            parts = [(False, tuple(answers))]
        else:
            kernels = {answer: find(answer.exercise).kind == "kernel" for answer in answers}
            parts = [(kind, tuple(p for p in kernels if kernels[p] is kind)) for kind in (False, True)]
        return [
            JudgingJob(
                student,
                part,
                verdicts.checkout(),
                kernels,
                self.gpu,
                self._canary(_unit(find(answer.exercise) for answer in part)),
                self.many,
            )
            for kernels, part in parts
            if part
        ]

    @functools.cache  # noqa: B019  a class lives as long as the command
    def _canary(self, unit: str) -> QueuedAnswer | None:
        one = canary.first(unit)
        return one and self.answer(*one, canary.REFERENCE)

    def key(self, answer: QueuedAnswer) -> str:
        return verdicts.key_of(answer.task, answer.cells, answer.seed, self.device)

    def _look_up(
        self, exercises: Iterable[Exercise], student: str, read: submission.Submission
    ) -> tuple[dict[str, Verdict | None], list[JudgingJob]]:
        """The verdicts that a submission has already, None for the others, and the jobs that judge these."""
        known = {exercise.id: self._known(exercise, student, read) for exercise in exercises}
        answers = [answer for answer in known.values() if isinstance(answer, QueuedAnswer)]
        found = {id: verdict if isinstance(verdict, Verdict) else None for id, verdict in known.items()}
        return found, self.jobs(student, answers)

    def _known(self, exercise: Exercise, student: str, read: submission.Submission) -> QueuedAnswer | Verdict:
        """The answer to judge, or the verdict if there is nothing left to judge."""
        try:
            answer = self.answer(exercise, read.answer(exercise).cells, student)
        except submission.Problem as problem:
            return criteria.refused(self._asked(exercise, student), problem.message)
        kept = self.store.get(self.key(answer))
        return answer if kept is None or (self.again and is_poison(kept)) else kept


def _unit(exercises: Iterable[Exercise]) -> str:
    (unit,) = {unit_of(exercise.id) for exercise in exercises}
    return unit


class JobQueue:
    """Queue that hands jobs to the workers, a few ahead, and collects their verdicts; each is on disk before anyone sees it."""

    def __init__(self, room: ClassGrader) -> None:
        self.room, self.workers = room, room.workers
        self.running: dict[Future, JudgingJob] = {}
        self.later: deque[JudgingJob] = deque()  # postponed
        self.suspects: deque[JudgingJob] = deque()  # their workers died
        self.doubts: deque[JudgingJob] = (
            deque()
        )  # their workers failed at the canary: nobody is judged until one has not
        self.alone: JudgingJob | None = None

    @property
    def effective_programs(self) -> bool:
        return bool(self.running)

    def hand_out(self, waiting: deque[JudgingJob]) -> bool:
        """Submit waiting jobs to free workers; return whether any job is running."""
        while waiting and self._free():
            self._submit(waiting.popleft())
        while self.later and not waiting and self._free():
            self._submit(self.later.popleft())
        if not self.running and (self.doubts or self.suspects):
            self.alone = (self.doubts or self.suspects).popleft()
            self._submit(self.alone)
        return self.effective_programs

    def collect(self) -> list[tuple[JudgingJob, dict[str, Verdict]]]:
        """Wait for the next verdicts and return them; [] if only a worker ended."""
        finished, _ = wait(self.running, return_when=FIRST_COMPLETED)
        found = [(job, self._verdicts(job, future)) for future in finished if (job := self.running.pop(future))]
        return [(job, judged) for job, judged in found if judged]

    def _free(self) -> bool:
        return not self.alone and not self.doubts and len(self.running) < self.workers.slots

    def _submit(self, job: JudgingJob) -> None:
        self.running[self.workers.submit(job)] = job

    def _verdicts(self, job: JudgingJob, future: Future) -> dict[str, Verdict]:
        alone, self.alone = self.alone is job, None
        try:
            trees, spent = future.result()
            found = verdicts_of(trees)
        except judging.Postponed:
            self.later.append(replace(job, patient=True))
            return {}
        except self.workers.died:
            self.room.ended.append(job.student)
            if not alone:
                self.suspects += job.apart()
                return {}
            found, spent = ([criteria.refused(answer.task, POISON, "ended_twice") for answer in job.answers], {})
        except CancelledError:
            raise WorkersLost("The workers went away. What was judged is kept: run the same command again.") from None
        except canary.Broken:
            if alone:
                raise
            self.doubts += job.apart()  # others that were at work may have taken the memory
            return {}
        except (OtherVersion, sandbox.NoSandbox):
            raise
        except Exception as error:  # ours; nothing is known of the answers, so nothing is kept
            return {answer.exercise: judging.failed(answer.task, error) for answer in job.answers}
        for answer, verdict in zip(job.answers, found, strict=True):
            self.room.store.put(self.room.key(answer), verdict)
        self.room.spent.update(spent)
        self.room.judged += len(found)
        return {answer.exercise: verdict for answer, verdict in zip(job.answers, found, strict=True)}
