"""Answers that somebody could guess: what counts is how much better than a guess they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from course_lib.catalogue import say
from course_lib.criteria.results import GradedTrial, of_group, share
from course_lib.exercise import Criterion, Exercise, Finding, Trial


@dataclass
class Numbers(Criterion):
    """Criterion on named answers that are numbers: each right one earns its share."""

    points: float
    title: str
    group: str = "plain"

    @property
    def missed(self) -> str:
        return say("criteria.result.missed", title=self.title)

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        (trial, *_) = of_group(trials, self.group)
        judged = GradedTrial.of(exercise, trial)
        if judged.stopped:
            return self.lost(judged.stopped, cause=judged.cause)
        expected, answers = exercise.oracle(**trial.inputs[0]), trial.evidence.outputs[0]
        answers = answers if isinstance(answers, dict) else {}
        own = {key: value for key, value in expected.items() if self.asks(value)}
        others = expected.keys() - own.keys()
        found = share(own, {key: value for key, value in answers.items() if key not in others})
        points = round(self.points * self.worth(own, answers), 2)
        return replace(found, title=self.title, points=points, out_of=self.points)

    @staticmethod
    def asks(expected: object) -> bool:
        return type(expected) is not bool

    @staticmethod
    def worth(expected: dict[str, object], answers: dict[str, object]) -> float:
        """The share of the points that these answers earn, 0 to 1."""
        return share(expected, answers).points


@dataclass
class Truths(Numbers):
    """Criterion on named answers that are True or False. It earns the share of the true ones that is right, plus that of the false ones,
    minus what anybody gets who writes the same word everywhere."""

    @staticmethod
    def asks(expected: object) -> bool:
        return type(expected) is bool

    @staticmethod
    def worth(expected: dict[str, object], answers: dict[str, object]) -> float:
        words = ({key: value for key, value in expected.items() if value is word} for word in (True, False))
        return max(0.0, sum(share(of_word, answers).points for of_word in words) - 1)
