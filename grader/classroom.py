"""A class: every (submission, exercise) goes to an executor; each verdict is on disk the moment it exists."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import grader
from course_lib.exercise import Verdict
from grader import judge as judging
from grader import submission

Progress = Callable[[int, int], None]


def submissions(folder: Path, unit: str) -> dict[str, Path]:
    """Student -> notebook, for everyone who handed in this unit under folder/submitted/."""
    found = {}
    for student in sorted((folder / "submitted").glob("*")):
        path = student / unit / f"{unit}.ipynb"
        if path.exists() or path.is_symlink():
            found[student.name] = path
    return found


class Class:
    """Judges a class with `workers` zygotes at a time. Use as a context manager."""

    def __init__(self, folder: Path, *, workers: int | None = None, accept_risk: bool = False) -> None:
        self.folder, self.accept_risk = folder, accept_risk
        self.executor: Executor = ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)))
        self.local = threading.local()
        self.judges: list[judging.Judge] = []

    def __enter__(self) -> Class:
        return self

    def __exit__(self, *exception: object) -> None:
        self.executor.shutdown(cancel_futures=True)
        for judge in self.judges:
            judge.close()

    def judge(self) -> judging.Judge:
        """This thread's judge, with a zygote of its own."""
        if not hasattr(self.local, "judge"):
            self.local.judge = judging.Judge(self.folder, accept_risk=self.accept_risk)
            self.judges.append(self.local.judge)
        return self.local.judge

    def grade(self, unit: str, progress: Progress = lambda done, total: None) -> dict[str, dict[str, Verdict]]:
        """Student -> exercise -> verdict. Nothing in one submission stops the next."""
        exercises = list(grader.exercises(unit).values())
        verdicts: dict[str, dict[str, Verdict]] = {}
        jobs = []
        for student, path in submissions(self.folder, unit).items():
            verdicts[student] = {}
            read = submission.read(path, exercises, grader.released(unit))
            for exercise in exercises:
                job = self.executor.submit(self._one, exercise, read, student)
                jobs.append((student, exercise, job))
        for done, (student, exercise, job) in enumerate(jobs):
            progress(done, len(jobs))
            verdicts[student][exercise.id] = job.result()
        progress(len(jobs), len(jobs))
        return verdicts

    def _one(self, exercise, read, student) -> Verdict:
        return judging.judge_exercise(self.judge(), exercise, read, student)
