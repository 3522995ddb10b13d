"""The judge: secrets, hidden cases, references and criteria in; verdicts out. It never runs student code.

    judge ──cells, entry, arguments──▶ recorder      (a child of the zygote)   ──▶ logs
    judge ──logs, other arguments───▶ replayer      (another child)           ──▶ Evidence ──▶ criteria ──▶ Verdict

A verdict is written to disk the moment it exists, under a hash of all that it depends on; grading again costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import importlib
import json
import os
import random
import secrets
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import triton

import grader
from course_lib import bench, criteria, observe
from course_lib.exercise import Case, Exercise, Trial, Verdict
from course_lib.observe import timed, wire
from grader import sandbox, submission
from grader.zygote import Zygote

RECORD_SECONDS, REPLAY_SECONDS, COMPILE_SECONDS = 10.0, 40.0, 20.0


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
    """The seed of one student's hidden inputs for one exercise (31 bits)."""
    digest = hmac.digest(secret, f"{student}\0{exercise}".encode(), "sha256")
    return int.from_bytes(digest[:4], "big") >> 1


def all_cases(exercise: Exercise, seed: int) -> list[Case]:
    """The public cases, then the hidden ones of grader/hidden, which depend on the seed."""
    hidden = importlib.import_module(f"grader.hidden.{exercise.id.split('.')[0]}")
    return [*exercise.cases, *hidden.cases(exercise.id, random.Random(seed))]


# -------------------------------------------------------------------------------------------------- verdicts


class Judge:
    """Judges programs with one zygote. Not for several threads at once; make one for each."""

    def __init__(self, folder: Path | None = None, *, accept_risk: bool = False) -> None:
        self.folder = folder or grader.home()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.level = sandbox.require(accept_risk, self.folder)
        self.zygote = Zygote()
        self.secret = course_secret(self.folder)

    def verdict(self, exercise: Exercise, cells: Sequence[tuple[str, str]], student: str) -> Verdict:
        """The verdict on a program (its cells, in order), from disk if it is there."""
        seed = seed_of(self.secret, student, exercise.id)
        store = self.folder / "verdicts" / f"{_key(exercise, cells, seed)}.json"
        if store.exists():
            return wire.from_tree(Verdict, json.loads(store.read_text()))
        found = self.judge(exercise, cells, seed)
        store.parent.mkdir(parents=True, exist_ok=True)
        partial = store.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
        partial.write_text(json.dumps(wire.to_tree(found)))
        partial.replace(store)
        return found

    def judge(self, exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int) -> Verdict:
        """Observe the program in two children and judge the evidence."""
        try:
            trials = self.observe(exercise, cells, seed)
            with _oracles:
                return timed.judge(exercise, trials, seed, lambda calls: self.record(exercise, cells, calls)["result"])
        except NotObserved as reason:
            return criteria.refused(exercise, str(reason))

    def record(self, exercise: Exercise, cells: Sequence[tuple[str, str]], inputs: Sequence[Any]) -> dict[str, Any]:
        """The recorder's reply: one log per case."""
        request = {"role": "record", "cells": [list(c) for c in cells], "entry": exercise.entry, "inputs": inputs}
        return self._ask(exercise, request | {"seconds": RECORD_SECONDS})

    def observe(self, exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int) -> list[Trial]:
        cases = all_cases(exercise, seed)
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
        trees = self._ask(exercise, request | {"seconds": REPLAY_SECONDS})["result"]
        try:
            found = observe.trials(cases, fresh, trees)
        except (wire.WireError, TypeError, ValueError) as error:
            raise NotObserved(f"the evidence cannot be read ({error})") from None
        found[0].evidence.printed = str(reply["printed"])
        return found

    def _ask(self, exercise: Exercise, request: dict) -> dict:
        reply = self.zygote.ask(request)
        if reply.get("lost"):
            raise GraderFailed(str(reply["error"]))
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


@functools.cache
def _code_version() -> str:
    """A hash of everything of ours that a verdict depends on."""
    card = torch.cuda.get_device_name() if bench.available() else "no GPU"
    digest = hashlib.sha256(f"{torch.__version__} {triton.__version__} {card}".encode())
    course, own = grader.ROOT / "course_lib", grader.ROOT / "grader"
    for path in sorted([*course.rglob("*.py"), *own.glob("*.py"), *(own / "hidden").glob("*.py")]):
        name = path.relative_to(grader.ROOT)
        if "figures" not in name.parts:
            digest.update(f"{name}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _key(exercise: Exercise, cells: Sequence[tuple[str, str]], seed: int) -> str:
    content = json.dumps([exercise.id, [list(c) for c in cells], seed, _code_version()])
    return hashlib.sha256(content.encode()).hexdigest()[:40]


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
        sentence = f"the grader failed ({type(error).__name__}: {error}); tell your instructor, and grade this again"
        return criteria.refused(exercise, sentence)


_local = threading.local()


def verdicts(unit: str, student: str, path: Path) -> dict[str, Verdict]:
    """What nbgrader's chain asks for: the verdicts on one submitted notebook, from disk where they exist."""
    if not hasattr(_local, "judge") or _local.judge.folder != grader.home():
        _local.judge = Judge(accept_risk=bool(os.environ.get("GRADER_ACCEPT_RISK")))
    return judge_submission(_local.judge, unit, student, path)
