"""A work log: a wasteful first version is made better in rounds, and what each will move is stated before it is written.

Each round states bytes, sectors and launches as formulas in the sizes of its inputs. They are evaluated on sizes that nobody has
seen, so a number that was read off a trace is right on one size alone. The first version is the course's: a waste that a
learner puts in cannot be taken out again for points.

    rounds()   [{"change": "tiles", "bytes": "8*M*N", "sectors": "M*N/4", "launches": 1, "version": tiled}, ...]
    cases      number 0 asks what is stated; number n runs the version of round n, on each size
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import torch

from course_lib.catalogue import say
from course_lib.criteria import Compiles, GradedTrial, TritonDidTheWork
from course_lib.exercise import Case, Criterion, Effort, ErrorBudget, Exercise, Finding, Trial
from course_lib.workloads.stated import CALLED, COUNTED, MOST_ROUNDS, evaluated, written
from tritontrace.messages import message_of
from tritontrace.results import Cause, Launch
from tritontrace.tracing import trace

ROUNDS = 3  # that earn points
ALLOWED = 0.1  # that a stated number may be off, and that a round must save at least


def counted(launches: Sequence[Launch]) -> dict[str, int]:
    """Count the bytes, sectors and launches of traced launches."""
    accesses = [access for launch in launches for access in launch.accesses]
    moved, touched = sum(a.bytes for a in accesses), sum(a.sectors for a in accesses)
    return {"bytes": moved, "sectors": touched, "launches": len(launches)}


@dataclass
class OnOneSize:
    """Counts of the right versions on one input size, by the number of their round; 0 is the first version."""

    name: str
    sizes: dict[str, int]
    counts: dict[int, dict[str, int]] = field(default_factory=dict)

    def before(self, number: int) -> dict[str, int]:
        """Return the lowest value of each count in all versions before this round."""
        earlier = [counts for n, counts in self.counts.items() if n < number]
        return {name: min(counts[name] for counts in earlier) for name in COUNTED}


def off(stated: Mapping[str, str], number: int, on: Sequence[OnOneSize]) -> str:
    """Return a message on a wrong number of a round's statement, or that the round saves nothing; "" if it is right on every size and
    saves."""
    for size in on:
        for name, done in COUNTED.items():
            try:
                value = evaluated(stated[name], size.sizes)
            except ValueError as clause:
                return say("criteria.rounds.no_number", name=name, problem=message_of(clause))
            seen = size.counts[number][name]
            if not abs(value - seen) <= ALLOWED * seen:
                facts = {"name": name, "stated": stated[name], "value": value, "size": size.name}
                return say("criteria.rounds.other", **facts, seen=seen, done=done)
    saved = [name for name in COUNTED if all(_saves(size, number, name) for size in on)]
    return "" if saved else say("criteria.rounds.saves_nothing")


def _saves(size: OnOneSize, number: int, name: str) -> bool:
    return size.counts[number][name] <= (1 - ALLOWED) * size.before(number)[name]


@dataclass(frozen=True)
class Task:
    """The function that a work log improves. first: its first version; sizes: the arguments of a call -> the sizes by name."""

    first: Callable[..., Any]
    sizes: Callable[..., dict[str, int]]

    def traced(self, name: str, arguments: dict[str, Any]) -> OnOneSize:
        """Trace the first version; cached by the layout of the tensors, since their addresses make no difference."""
        kinds = {n: _layout(v) if isinstance(v, torch.Tensor) else v for n, v in arguments.items()}
        return OnOneSize(name, self.sizes(**arguments), {0: _counted(self.first, tuple(kinds.items()))})


def _layout(x: torch.Tensor) -> tuple[Any, ...]:
    return x.shape, x.stride(), x.dtype, x.device


@lru_cache(256)
def _counted(first: Callable[..., Any], kinds: Sequence[tuple[str, Any]]) -> dict[str, int]:
    """counted() of a call with numbers of these values and tensors of these layouts."""

    def zeros(shape: Sequence[int], stride: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()

    with trace() as seen:
        first(**{name: zeros(*kind) if isinstance(kind, tuple) else kind for name, kind in kinds})
    return counted(seen.launches)


@dataclass
class RoundsHeld(Criterion):
    """Criterion: points for each round whose version is right, whose stated numbers hold on every size, and which saves something."""

    task: Task
    points: float
    group: str = "performance"
    title: str = say("criteria.rounds.title", rounds=ROUNDS)
    missed = say("criteria.rounds.missed")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        asked = next((t for t in trials if t.inputs[0]["version"] == 0), None)
        if asked is None or asked.evidence.error:
            return self.lost(
                asked.evidence.error if asked else say("criteria.rounds.nothing_stated"),
                cause=asked and asked.evidence.cause,
            )
        stated = written(asked.evidence.outputs[0] if asked.evidence.outputs else None)
        if not any(any(each.values()) for each in stated):
            return self.lost(say("criteria.rounds.no_round"), cause=Cause("blank"))
        problems = self._problems(exercise, trials, stated)
        held = min(ROUNDS, sum(not problem for problem in problems))
        seen = say("criteria.rounds.hold", held=held, rounds=ROUNDS)
        numbered = [(n, problem) for n, problem in enumerate(problems, 1) if problem]
        rounds = [say("criteria.rounds.round", number=n, problem=problem) for n, problem in numbered]
        detail = say("criteria.rounds.rounds", rounds=rounds) if rounds else ""
        if held == ROUNDS:
            return self.earned(seen, detail=detail)
        cause = Cause("wrong", f"round {next((n for n, p in enumerate(problems, 1) if p), len(problems) + 1)}")
        return replace(self.lost(seen, detail=detail, cause=cause), points=self.points * held / ROUNDS)

    def _problems(self, exercise: Exercise, trials: Sequence[Trial], stated: Sequence[Mapping[str, str]]) -> list[str]:
        """Say of each round what does not hold."""
        on: dict[str, OnOneSize] = {}
        wrong: dict[int, str] = {}
        for trial in trials:
            number, arguments = trial.inputs[0]["version"], without_number(trial.inputs[0])
            if not 0 < number <= len(stated):
                continue
            name = trial.case.name.partition(", ")[2]
            size = on.get(name) or on.setdefault(name, self.task.traced(name, arguments))
            if problem := _not_right(exercise, trial):
                wrong.setdefault(number, say("criteria.rounds.on", problem=problem, size=name))
            else:
                size.counts[number] = counted(trial.evidence.launches)
        return [wrong.get(number) or off(each, number, [*on.values()]) for number, each in enumerate(stated, 1)]


def _not_right(exercise: Exercise, trial: Trial) -> str:
    """Say why a version proves nothing on this case."""
    if not trial.evidence.error and not trial.evidence.refused and trial.evidence.outputs in ([], [None]):
        return say("criteria.rounds.no_version")
    work = TritonDidTheWork().judge(exercise, [trial])
    difference = GradedTrial.of(exercise, trial).difference
    return work.seen if work.lost else difference.seen if difference else for_nobody(trial.evidence.launches)


def for_nobody(launches: Sequence[Launch]) -> str:
    """Return a message if something is stored that nothing reads, waste added only to be removed again; else ""."""
    read, stored, room = Counter[str](), Counter[str](), dict[str, int]()
    for each in (footprint for launch in launches for footprint in launch.footprints):
        read[each.tensor] += each.read_bytes
        stored[each.tensor] += each.written_bytes
        room[each.tensor] = each.nbytes
    for tensor, nbytes in stored.items():
        needed = room[tensor] if tensor.startswith("out") else 0
        if nbytes > needed and not read[tensor]:
            facts = {"bytes": nbytes, "tensor": tensor}
            if needed:
                return say("criteria.rounds.stored_and_returned", **facts, returned=needed)
            return say("criteria.rounds.stored_for_nobody", **facts)
    return ""


def without_number(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a case's arguments without the number of its round: those of a version."""
    return {name: value for name, value in arguments.items() if name != "version"}


def versions(name: str, draw: Callable[..., dict[str, Any]]) -> list[Case]:
    """Make the cases that run each version on one size."""
    return [Case(f"version {n}, {name}", "performance", _asking(n, draw)) for n in range(1, MOST_ROUNDS + 1)]


def _asking(number: int, draw: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    return lambda generator: draw(generator) | {"version": number}


def work_log(
    id: str,
    task: Task,
    draws: Mapping[str, Callable[..., dict[str, Any]]],
    oracle: Callable[..., Any],
    budget: ErrorBudget | None,
    *,
    called: str,
    effort: Effort,
) -> Exercise:
    """Make an exercise that asks for a work log.

    id      ends in the name of the function that returns the rounds
    draws   name of a size -> its drawing; the first one is what `worklog` traces
    called  how a version is called, as a signature
    """
    entry = id.partition(".")[2]
    first = next(iter(draws.values()))
    return Exercise(
        id=id,
        signature=f"{entry}() -> a list of rounds, of versions {called}",
        track="more",
        effort=effort,
        called=CALLED,
        cases=[
            *(case for name, draw in draws.items() for case in versions(name, draw)),
            Case("what is stated", "performance", _asking(0, first)),
        ],
        oracle=lambda version, **arguments: oracle(**arguments),
        budget=budget and (lambda expected, dtype, given: budget(expected, dtype, without_number(given))),
        gates=[Compiles()],
        criteria=[RoundsHeld(task, 9)],
        blank=say("criteria.rounds.blank"),
    )
