"""Name it: pictures of what went wrong are given, and six causes. Which one is it? The explanation comes after the answer."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.catalogue import say
from course_lib.criteria import GradedTrial, of_group
from course_lib.exercise import Criterion, Effort, Exercise, Finding, Trial
from course_lib.exercises.cases import fixed
from course_lib.exercises.sealed import opened
from course_lib.words import as_written, is_answer
from tritontrace.results import Cause


@dataclass
class Names(Criterion):
    """Criterion on the cause named for each picture. Half of them earn nothing, since guesses get some right; each further one earns a
    share.

    explanations  picture -> its explanation, sealed with the cause
    causes        cause -> what its picture would look like, which is said of a wrong answer
    """

    explanations: Mapping[str, str]
    causes: Mapping[str, str]
    points: float
    group: str = "plain"

    title = say("criteria.pictures.title")
    missed = say("criteria.pictures.missed")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        (trial, *_) = of_group(trials, self.group)
        judged = GradedTrial.of(exercise, trial)
        if judged.stopped:
            return self.lost(judged.stopped, cause=judged.cause)
        answers = trial.evidence.outputs[0]
        answers = answers if isinstance(answers, dict) else {}
        found = self.explained(exercise, answers)
        right, free = sum(text is not None for text in found.values()), len(found) // 2
        worth = max(0, right - free) / (len(found) - free)
        seen, detail = (
            say("criteria.pictures.earn", right=right, pictures=len(found), free=free),
            say("criteria.pictures.told", each=self.told(found, answers)),
        )
        if worth == 1:
            return self.earned(say("criteria.pictures.all", right=right), detail=detail)
        cause = Cause("wrong", details={"criterion": self.key})
        if not any(is_answer(answers.get(picture)) for picture in found):
            cause = Cause("blank")
        points = round(self.points * worth, 2)
        return Finding(self.title, points, self.points, "failed", seen=seen, detail=detail, cause=cause)

    def told(self, found: Mapping[str, str | None], answers: Mapping[str, Any]) -> list[str]:
        """Return a message on each picture: its explanation where the answer is right, and why it is not elsewhere."""
        return [
            say("criteria.pictures.each", picture=picture, text=text or self.not_it(picture, answers))
            for picture, text in found.items()
        ]

    def explained(self, exercise: Exercise, answers: Mapping[str, Any]) -> dict[str, str | None]:
        """Return the explanation of each picture that was answered right; None for the others."""
        return {
            picture: opened(sealed, f"{exercise.id}/{picture}", answers.get(picture))
            for picture, sealed in self.explanations.items()
        }

    def not_it(self, picture: str, answers: Mapping[str, Any]) -> str:
        """Return the message on why an answer is not right."""
        answer = answers.get(picture)
        if not is_answer(answer):
            return say("criteria.pictures.no_answer")
        if not isinstance(answer, str) or answer not in self.causes:
            return say("criteria.pictures.none_of_them", got=as_written(answer)[:80])
        return say("criteria.pictures.not_that", cause=self.causes[answer])


def shipped(unit: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Read a unit's naming.toml: maps of errors, as rows of digits, and sealed explanations, by picture."""
    data = tomllib.loads(Path(__file__).with_name(unit).joinpath("naming.toml").read_text("utf-8"))
    return {picture: rows.split() for picture, rows in data.get("maps", {}).items()}, data["sealed"]


def name_pictures(
    id: str, entry: str, pictures: str, sealed: Mapping[str, str], causes: Mapping[str, str], minutes: int = 6
) -> Exercise:
    """Make an exercise that shows six pictures and asks for the cause of each, worth 3 points.

    pictures    what they are, "six maps";  sealed, causes  as Names has them
    """
    return Exercise(
        id=id,
        signature=f"{entry}: dict[str, str]",
        kind="values",
        effort=Effort(minutes=minutes, lines=6, difficulty=3),
        track="more",
        cases=[fixed(pictures, "plain")],
        oracle=lambda: {},  # each answer is judged by its seal
        criteria=[Names(sealed, causes, 3)],
    )
