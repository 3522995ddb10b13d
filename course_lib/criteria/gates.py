"""Criteria for right results, most of them gates: is the result right, did a kernel of the student's make it, does that compile?"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from course_lib.catalogue import one_by_one, say
from course_lib.criteria.copies import copied_inputs
from course_lib.criteria.results import GradedTrial, blank, is_nothing, of_group
from course_lib.evidence import Evidence
from course_lib.exercise import Criterion, Exercise, Finding, Trial
from tritontrace.compiled import remarks
from tritontrace.results import Cause, Compiled


@dataclass
class Correct(Criterion):
    """Criterion: the right result on every case of a group, without a fault there. Values (dicts) earn their share of the points."""

    group: str
    points: float = 0.0
    title: str = ""
    compiles: bool = False  # kernels as this group alone launches them must compile, too: see Compiles.apart
    uncopied: bool = False  # kernels must take views as they are, and copy no input

    def __post_init__(self) -> None:
        self.title = self.title or say("criteria.result.right_on", group=self.group)

    @property
    def missed(self) -> str:
        if self.title.startswith(right := say("criteria.result.right_begins")):
            return say("criteria.result.missed_on", on=self.title.removeprefix(right))
        return say("criteria.result.missed", title=self.title)

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        # of numbers the smallest that are wrong say most; a picture of a kernel's result is best as it was asked for
        for trial in group if exercise.kind == "kernel" else sorted(group, key=_size):
            found = GradedTrial.of(exercise, trial).difference
            if found is not None and self._left_to_the_compiler(exercise, trial.evidence):
                return self.left_open(say("criteria.result.not_run"))
            if found is not None:
                others = [o for t in trials if t.case is not trial.case for o in t.evidence.outputs]
                if found.cause == Cause("blank") and any(o is not None for o in others):
                    here = Cause("wrong", trial.case.name)
                    nothing = say("criteria.result.nothing_here", case=trial.case.name, entry=exercise.entry)
                    found = replace(found, seen=nothing, cause=here)
                points = round(self.points * found.points, 2)
                return replace(found, title=self.title, points=points, out_of=self.points)
        refused = next(
            (f for f in _facts(trials) if self.compiles and _refused(f) and _of_groups(f, trials, [self.group])), None
        )
        if refused is not None:
            seen = say("criteria.result.on_case", case=refused.cases[0], problem=refused.complaint)
            return self.lost(seen, expected=say("criteria.compiler.accepted"), cause=_compilers(refused))
        for trial in group if self.uncopied else ():
            kernel, copies = copied_inputs(trial)
            if copies:
                return self.lost(
                    say("criteria.result.on_case", case=trial.case.name, problem=copies),
                    expected=say("criteria.result.uncopied"),
                    cause=Cause("waste", kernel, {"copies": copies}),
                    detail=say("criteria.result.hand_over"),
                )
        return self.earned(say("criteria.result.right_in", cases=len(group)), expected=say("criteria.result.right"))

    def _left_to_the_compiler(self, exercise: Exercise, evidence: Evidence) -> bool:
        """Whether this is a gate, a kernel did not run because the compiler refuses it, and the gate on that says so."""
        asked = self in exercise.gates and any(isinstance(gate, Compiles) for gate in exercise.gates)
        return asked and bool(evidence.error) and any(map(_refused, evidence.compiled))


def correct(exercise: str, points: Mapping[str, float]) -> list[Correct]:
    """List the criteria of these groups, by their points. A group has the title `EXERCISE.title_GROUP` if the catalogue has it."""
    return [Correct(group, each, _title(exercise, group)) for group, each in points.items()]


def _title(exercise: str, group: str) -> str:
    with suppress(LookupError):
        return say(f"{exercise}.title_{re.sub('[^a-z0-9]+', '_', group.lower())}")
    return ""


def _size(trial: Trial) -> int:
    """Letters that it takes to write a call's arguments down, tensors by their elements."""
    values = trial.inputs[0].values() if trial.inputs else ()
    return sum(x.numel() if isinstance(x, torch.Tensor) else len(repr(x)) for x in values)


def _facts(trials: Sequence[Trial]) -> list[Compiled]:
    return [fact for trial in trials for fact in trial.evidence.compiled]


def _compilers(fact: Compiled) -> Cause:
    return Cause("compiler", fact.kernel, {"gpu": fact.gpu, "case": next(iter(fact.cases), "")})


def _refused(fact: Compiled) -> bool:
    return not (fact.accepted or fact.too_slow or fact.crashed or fact.left_out)


def _of_groups(fact: Compiled, trials: Sequence[Trial], groups: Collection[str]) -> bool:
    """Whether cases of these groups alone launched what this fact is about."""
    return bool(fact.cases) and set(fact.cases) <= {t.case.name for t in trials if t.case.group in groups}


@dataclass
class Holds(Criterion):
    """Criterion on a property of numbers. problem(output, **arguments) is "" where it holds, else a message; told: the message where it
    holds."""

    problem: Callable[..., str]
    points: float
    title: str
    group: str = "plain"
    told: Callable[..., str] = lambda *_, **__: say("criteria.result.holds")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        told = say("criteria.result.holds")
        for trial in of_group(trials, self.group):
            judged = GradedTrial.of(exercise, trial)
            seen, cause = judged.stopped, judged.cause
            for arguments, output in trial.calls:
                if not seen and output is None:
                    seen, cause = blank(exercise), Cause("blank")
                elif not seen:
                    seen = self._problem(trial, output, arguments)
                    wrong = Cause("wrong", trial.case.name, {"criterion": self.key})
                    cause = Cause("blank") if is_nothing(output) else wrong
                told = told if seen or trial.case.hidden else self.told(output, **arguments)
            if seen:
                return self.lost(seen, cause=cause)
        return self.earned(told)

    def _problem(self, trial: Trial, output: Any, arguments: dict[str, Any]) -> str:
        problem = self.problem(output, **arguments)
        return say("criteria.result.does_not_hold", case=trial.case.name) if problem and trial.case.hidden else problem


@dataclass
class TritonDidTheWork(Criterion):
    """Gate: kernels of the student's wrote every output; torch did nothing but what the exercise allows."""

    missed = say("criteria.triton.missed")
    points: float = 0
    title: str = say("criteria.triton.title")

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        expected = say("criteria.triton.expected")
        for trial in trials:
            problem = self._problem(exercise, trial.evidence, trial.case.group)
            if problem:  # what is refused says by itself what is allowed
                cause = trial.evidence.cause or self._why(trial.evidence)
                says_all = trial.evidence.refused or (cause and cause.kind in ("blank", "wrong"))
                return self.lost(problem, expected="" if says_all else expected, cause=cause)
        launches = max((len(t.evidence.launches) for t in trials), default=0)
        if not launches and any(t.evidence.error for t in trials):
            return self.left_open(say("criteria.triton.stopped"), expected=expected)
        if not launches and any(t.evidence.idle for t in trials):
            return self.lost(say("criteria.triton.stores_nothing", why=say("criteria.looks.no_program")))
        if not launches and any(t.evidence.kernels for t in trials):
            return self.lost(say("criteria.looks.no_launch"))
        if not launches:
            return self.lost(say("criteria.triton.no_launch"), expected=expected)
        return self.earned(say("criteria.triton.launches", launches=launches), expected=expected)

    def _why(self, evidence: Evidence) -> Cause | None:
        """The cause of what _problem says, where nothing was refused. Whoever launches a kernel and returns nothing has begun."""
        if any(output is not None for output in evidence.outputs):
            return None
        return Cause("wrong", evidence.case) if evidence.launches else Cause("blank")

    def _problem(self, exercise: Exercise, evidence: Evidence, group: str) -> str:
        if evidence.refused:
            return evidence.refused
        if evidence.error:
            return ""  # the result is judged by Correct, in its own words
        if all(output is None for output in evidence.outputs):
            launched = say("criteria.result.launched_and_nothing", entry=exercise.entry)
            return launched if evidence.launches else blank(exercise)
        if not evidence.launches or (group != "plain" and not evidence.operations):
            return ""  # no whole tile in a small input: wrong or right, that is for Correct to say
        written = {f.tensor for launch in evidence.launches for f in launch.footprints if f.written_bytes}
        if not any(name == "out" or name.startswith("out[") for name in written):
            names = [f"`{name}`" for name in sorted(written)]
            return say("criteria.triton.written", tensors=names) if names else say("criteria.triton.not_written")
        return ""


@dataclass
class Compiles(Criterion):
    """Criterion: every kernel that was traced also compiles for a GPU.

    apart: groups whose own constants (the widest heads, for example) cost no more than the criterion on that group,
    which then has `compiles`.
    """

    missed = say("criteria.compiler.missed")
    points: float = 0
    title: str = say("criteria.compiler.title")
    apart: Sequence[str] = ()

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        facts = [fact for fact in _facts(trials) if not _of_groups(fact, trials, self.apart)]
        # what the compiler refuses for every GPU did not run either: of other groups, the criteria on these say so
        asked = [gate.group for gate in exercise.gates if isinstance(gate, Correct)]
        facts = [fact for fact in facts if fact.gpu or _of_groups(fact, trials, asked)]
        for fact in facts:
            if _refused(fact):
                return self.lost(fact.complaint, expected=say("criteria.compiler.accepted"), cause=_compilers(fact))
        newest = {fact.kernel: fact for fact in sorted(facts, key=lambda fact: fact.gpu) if fact.accepted}
        # spills, and fp32 dots that a GPU would run as TF32
        sentences = [sentence for fact in newest.values() for sentence in remarks(fact)]
        complaints = [fact.complaint for fact in facts if fact.crashed or fact.left_out]
        if any(fact.left_out for fact in facts):
            sentences = [say("criteria.compiler.left_out"), *sentences]
        detail = one_by_one([*complaints, *sentences])
        gpus = sorted({fact.gpu for fact in facts if fact.accepted})
        seen = say("criteria.compiler.gpus", gpus=gpus) if gpus else ""
        late = [say("criteria.compiler.kernel", kernel=f.kernel, gpu=f.gpu) for f in facts if f.too_slow]
        if late:  # by load, not by the kernel: said in the same words however much of it was left
            asked = say("criteria.compiler.late", kernels=[*dict.fromkeys(late)])
            seen = say("criteria.compiler.gpus_and_late", gpus=gpus, late=asked) if gpus else asked
        if {fact.kernel for fact in facts if fact.too_slow or fact.crashed} - newest.keys():
            detail = detail.rstrip(". ")
            both = (
                say("criteria.compiler.seen_and_detail", seen=seen, detail=detail)
                if seen and detail
                else seen or detail
            )
            return self.left_open(both, late=bool(late))
        return self.earned(seen, expected=say("criteria.compiler.accepted"), detail=detail, late=bool(late))
