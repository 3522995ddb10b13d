"""One answer while it is judged: what its children are asked, and what is made of their replies, which they may have written themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from course_lib import execution
from course_lib.execution import relays
from course_lib.exercise import Exercise, Trial
from course_lib.handin import literals
from grader.catalogue import say
from grader.judging import provided, redaction
from grader.judging.cases import all_cases
from grader.judging.verdicts import one_at_a_time
from tritontrace.messages import message_of
from tritontrace.replay import wire
from tritontrace.replay.child import SENTENCE, ChildLost
from tritontrace.results import Cause

UNREADABLE_ANSWER = ChildLost("unreadable")
MOST_NAMES, LONGEST_NAME = 20, 1_000  # of files and modules that an answer could not read


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
        self.unread |= unread(reply)
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


def unread(reply: Any) -> set[str]:
    """The names that a child says it could not read; none if its reply cannot be read itself."""
    try:
        said = [reply["unread"], *(call["unread"] for log in reply["logs"] for call in log["calls"])]
        names = list(chain.from_iterable(said))[:MOST_NAMES]
        return {name for name in names if isinstance(name, str) and len(name) < LONGEST_NAME}
    except (KeyError, TypeError):
        return set()
