"""The judge: secrets, hidden cases, references and criteria in; verdicts out. It never runs student code.

    judge ──cells, entry, arguments──▶ recorder      (a child of the zygote)   ──▶ logs
    judge ──logs, other arguments───▶ replayer      (another child)           ──▶ Evidence ──▶ criteria ──▶ Verdict

A verdict is written to disk the moment it exists, under a hash of all that it depends on; grading again costs nothing.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hmac
import importlib
import os
import random
import secrets
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grader
from course_lib import criteria, observe
from course_lib.exercise import Case, Exercise, Trial, Verdict
from course_lib.observe import timed, wire
from grader import sandbox, submission, timing
from grader.verdicts import Verdicts, device, key_of
from grader.zygote import Zygote

RECORD_SECONDS, REPLAY_SECONDS, COMPILE_SECONDS = 10.0, 60.0, 30.0


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
        """Observe the program in two children and judge the evidence."""
        try:
            trials = self.observe(exercise, cells, seed)
            with _oracles, observe.spending("running"):
                recorder = lambda calls: self.record(exercise, cells, calls)["result"]  # noqa: E731
                return timed.judge(exercise, trials, seed, recorder, timing.run)
        except NotObserved as reason:
            return criteria.refused(exercise, str(reason))

    def record(self, exercise: Exercise, cells: Sequence[tuple[str, str]], inputs: Sequence[Any]) -> dict[str, Any]:
        """The recorder's reply: one log per case."""
        request = {"role": "record", "cells": [list(c) for c in cells], "entry": exercise.entry, "inputs": inputs}
        return self._ask(exercise, request | {"seconds": RECORD_SECONDS})

    def observe(self, exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int) -> list[Trial]:
        cases = all_cases(exercise, seed)
        with observe.spending("running"):
            recorded, fresh = observe.draw(exercise, cases, seed)
        reply = self.record(exercise, cells, recorded)
        request = {
            "role": "replay",
            "logs": reply["result"],
            "inputs": fresh,
            "names": [case.name for case in cases],
            "kernel": exercise.kind == "kernel",
            "allows": sorted(exercise.allows),
            "compile_seconds": COMPILE_SECONDS,
            "compile_every": True,
        }
        try:
            if exercise.kind == "kernel":
                trees = self._ask(exercise, request | {"seconds": REPLAY_SECONDS})["result"]
            else:  # nothing runs: the log is the answer
                trees = observe.replay_all(reply["result"], fresh, request["names"], kernel=False)
            found = observe.trials(cases, fresh, trees)
        except NotObserved:
            raise
        except (wire.WireError, TypeError, ValueError, KeyError, IndexError) as error:
            raise NotObserved(f"the evidence cannot be read ({error})") from None
        if exercise.kind == "kernel":  # a formula could print the hidden numbers it was given
            found[0].evidence.printed = str(reply["printed"])
        return found

    def _ask(self, exercise: Exercise, request: dict) -> dict:
        reply = self.zygote.ask(request)
        if reply.get("lost"):
            raise GraderFailed(str(reply["error"]))
        observe.SPENT.update(reply["spent"])  # what children say of themselves: for tables alone
        if reply["error"]:
            sentence = str(reply["error"])
            names_itself = sentence.startswith(("no cell", "cell ", "handed-out cell ", "the "))
            raise NotObserved(sentence if names_itself else f"{exercise.entry} {sentence}")
        return reply

    def close(self) -> None:
        self.zygote.close()


class GraderFailed(RuntimeError):
    """Our own machinery failed; nothing is known of the program, and no verdict may be kept."""


# an oracle may be a trace, and a process can hold one trace at a time; and a timing has the GPU to itself
_oracles = threading.Lock()


class NotObserved(ValueError):
    """A program could not be observed. The message is one sentence for the student."""


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
