"""Is the result right? Did a kernel of the student's make it? Does it compile?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib import mistakes
from course_lib.compiled.show import remarks
from course_lib.exercise import Evidence, Exercise, Finding, Trial

NOTHING = "returns nothing yet (is a `return` missing?)"


def of_group(trials: Sequence[Trial], group: str) -> list[Trial]:
    return [t for t in trials if t.case.group == group]


@dataclass
class Correct:
    """The right result on every case of a group, without a fault there. Values (dicts) earn their share of the points."""

    group: str
    points: float = 0.0
    title: str = ""

    def __post_init__(self) -> None:
        self.title = self.title or f"right on {self.group} inputs"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        for trial in group:
            finding = self._judge_case(exercise, trial)
            if finding is not None:
                return finding
        names = "1 case" if len(group) == 1 else f"{len(group)} cases"
        return Finding(self.title, self.points, self.points, True, expected="right", seen=f"right in {names}")

    def _judge_case(self, exercise: Exercise, trial: Trial) -> Finding | None:
        evidence = trial.evidence
        wrong = Finding(self.title, 0, self.points, False, expected=f"right on {trial.case.name}")
        if evidence.error or evidence.refused:
            wrong.seen = _told(exercise, trial) or evidence.refused
            return wrong
        if _too_few(trial):
            wrong.seen = _too_few(trial)
            return wrong
        for call, (arguments, output) in enumerate(zip(trial.inputs, evidence.outputs, strict=True)):
            expected = exercise.oracle(**arguments)
            again = " in the second call" if call else ""
            if isinstance(expected, dict):
                return self._judge_values(expected, output)
            for got, right, name in _pairs(output, expected):
                problem = _compare(exercise, arguments, got, right, wrong, trial.case.hidden, bool(evidence.launches))
                if problem:
                    wrong.seen = f"{name}{problem}{again}"
                    if "NaN" in wrong.detail and evidence.poisoned:
                        wrong.detail += f" Masked lanes loaded without `other`: {', '.join(evidence.poisoned)}."
                    return wrong
        if evidence.faults:
            wrong.seen = evidence.faults[0].sentence
            return wrong
        return None

    def _judge_values(self, expected: dict[str, Any], output: Any) -> Finding:
        output = output if isinstance(output, dict) else {}
        rights = [
            key
            for key, value in expected.items()
            if (type(output.get(key)) in (int, float)) == (type(value) in (int, float)) and output.get(key) == value
        ]
        wrongs = [f"{k}: {_answer(output[k]) if k in output else 'no answer'}" for k in expected if k not in rights]
        wrongs += [f"{key}: not one of the questions" for key in output if key not in expected]
        points = round(self.points * len(rights) / len(expected), 2)
        seen = f"{len(rights)} of {len(expected)} right" + (f"; not right: {', '.join(wrongs)}" if wrongs else "")
        return Finding(self.title, points, self.points, not wrongs, seen=seen[:400])


def _answer(value: Any) -> str:
    """A prediction as it was written; an ellipsis is none."""
    if isinstance(value, dict) and set(value) == {"unsupported"}:
        return "no answer" if value["unsupported"] == "a ellipsis" else str(value["unsupported"])
    return f"{value!r}, a string" if isinstance(value, str) else repr(value)


def _pairs(output: Any, expected: Any) -> Iterable[tuple[Any, Any, str]]:
    """(got, expected, name) for each part of a result; a tuple of the wrong length is one part."""
    if not isinstance(expected, tuple):
        return [(output, expected, "")]
    if not isinstance(output, list) or len(output) != len(expected):
        return [(output, expected, "")]
    names = getattr(expected, "_fields", None) or [f"output {i}" for i in range(len(expected))]
    return [(got, right, f"{name}: ") for got, right, name in zip(output, expected, names, strict=True)]


def _too_few(trial: Trial) -> str:
    """Evidence without a result for each call proves nothing, whatever it holds."""
    results, calls = len(trial.evidence.outputs), len(trial.inputs)
    return "" if results == calls else f"{results} results of {calls} calls"


def _told(exercise: Exercise, trial: Trial) -> str:
    """The error of a run. A formula's exception may quote the hidden numbers it was given, in its name too."""
    error = trial.evidence.error
    quotes = trial.case.hidden and exercise.kind != "kernel" and error.startswith("raised ")
    return f"raised an exception on {trial.case.name}" if quotes else error


def _compare(
    exercise: Exercise,
    arguments: dict[str, Any],
    got: Any,
    expected: Any,
    finding: Finding,
    hidden: bool = False,
    kernel: bool = True,
) -> str:
    """ "" if `got` is right, else what is wrong with it; the picture and the likely mistake go into `finding`."""
    if got is None:
        return f"{exercise.entry} {NOTHING}"
    if isinstance(expected, tuple):
        return f"expected {len(expected)} results, got {_kind(got)}"
    if not isinstance(expected, torch.Tensor):
        if type(got) not in (int, float, bool):
            return f"expected a number, got {_kind(got)}"
        close = got == expected or (
            isinstance(expected, float)
            and abs(got) < 1e300
            and math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12)
        )
        if hidden and not close:
            return "not right for numbers that stay hidden; try the formula on some of your own"
        shown = ", ".join(f"{k} = {_short(v)}" for k, v in arguments.items())
        return "" if close else f"for {shown}: expected {expected!r}, got {_short(got)}"
    if not isinstance(got, torch.Tensor):
        return f"expected a tensor, got {_kind(got)}"
    if got.shape != expected.shape:
        turned = " Is the output transposed?" if tuple(got.shape) == tuple(expected.shape)[::-1] else ""
        return f"expected shape {tuple(expected.shape)}, got {tuple(got.shape)}.{turned}"
    dtype = _expected_dtype(arguments, expected)
    if got.dtype != dtype:
        return f"expected {dtype}, got {got.dtype}"
    reference = expected.to(dtype) if exercise.budget is None else expected.double()
    if exercise.budget is None:
        wrong = ~((got == reference) | (got.isnan() & reference.isnan()))
    else:
        budget = exercise.budget(expected.double(), dtype, arguments)
        # written so that NaN is wrong, and that equal infinities are right
        wrong = ~(((got.double() - reference).abs() <= budget) | (got.double() == reference))
    if not bool(wrong.any()):
        return ""
    if wrong.dim() > 1 and not bool(wrong.all()):
        finding.error_map = mistakes.error_map(wrong)
    finding.detail = mistakes.looks_like(wrong, reference, got, arguments, kernel)
    return mistakes.first_difference(wrong, reference, got, values=not hidden)


def _expected_dtype(arguments: dict[str, Any], expected: torch.Tensor) -> torch.dtype:
    """Oracles give float64 for "the dtype of the first tensor argument", any other dtype literally."""
    if expected.dtype != torch.float64:
        return expected.dtype
    return next(v.dtype for v in arguments.values() if isinstance(v, torch.Tensor))


def _kind(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"unsupported"}:
        return str(value["unsupported"])
    return {"Tensor": "a tensor", "list": f"a tuple or list of {len(value)}" if isinstance(value, list) else ""}.get(
        type(value).__name__, f"a value of type {type(value).__name__}"
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:56] + " ..."


@dataclass
class Holds:
    """A property of numbers: problem(output, **arguments) is "" where it holds, else a sentence."""

    problem: Callable[..., str]
    points: float
    title: str
    group: str = "plain"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        for trial in of_group(trials, self.group):
            seen = _told(exercise, trial) or trial.evidence.refused or _too_few(trial)
            for arguments, output in zip(trial.inputs, trial.evidence.outputs, strict=False):
                seen = seen or (
                    f"{exercise.entry} {NOTHING}" if output is None else self._problem(trial, output, arguments)
                )
            if seen:
                return Finding(self.title, 0, self.points, False, seen=seen)
        return Finding(self.title, self.points, self.points, True, seen="holds")

    def _problem(self, trial: Trial, output: Any, arguments: dict[str, Any]) -> str:
        problem = self.problem(output, **arguments)
        return f"does not hold on {trial.case.name}" if problem and trial.case.hidden else problem


def failure(exercise: Exercise, trials: Sequence[Trial]) -> str:
    """A sentence if a result is wrong: what is saved by wrong results is not credited."""
    for trial in trials:
        wrong = Correct(trial.case.group).judge(exercise, [trial])
        if not wrong.passed:
            return f"not right on {trial.case.name}: {wrong.seen}"
    return ""


# ------------------------------------------------------------------------------------------------------- gates


@dataclass
class TritonDidTheWork:
    """Kernels of the student's wrote every output; torch did nothing but what the exercise allows."""

    points: float = 0.0
    title: str = "computed by your Triton kernel"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        expected = "a kernel of yours writes the result; torch allocates and makes views"
        for trial in trials:
            problem = self._problem(exercise, trial.evidence, trial.case.group)
            if problem:
                return Finding(self.title, 0, 0, False, expected=expected, seen=problem)
        launches = max((len(t.evidence.launches) for t in trials), default=0)
        if not launches and any(t.evidence.error for t in trials):
            return Finding(self.title, 0, 0, True, expected=expected, seen="stopped by the error below", judged=False)
        if not launches:
            return Finding(self.title, 0, 0, False, expected=expected, seen="no Triton kernel was launched")
        seen = "1 launch" if launches == 1 else f"{launches} launches"
        return Finding(self.title, 0, 0, True, expected=expected, seen=seen)

    def _problem(self, exercise: Exercise, evidence: Evidence, group: str) -> str:
        if evidence.refused:
            return evidence.refused
        if evidence.error:
            return ""  # the result is judged by Correct, in its own words
        if all(output is None for output in evidence.outputs):
            return f"{exercise.entry} {NOTHING}"
        if not evidence.launches or (group != "plain" and not evidence.operations):
            return ""  # no whole tile in a small input: wrong or right, that is for Correct to say
        written = {f.tensor for launch in evidence.launches for f in launch.footprints if f.written_bytes}
        if not any(name == "out" or name.startswith("out[") for name in written):
            return "no kernel wrote to what the function returns"
        return ""


@dataclass
class Compiles:
    """What the interpreter ran must also compile for a GPU."""

    points: float = 0.0
    title: str = "compiles for a GPU"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        facts = [fact for trial in trials for fact in trial.evidence.compiled]
        for fact in facts:
            if not fact.accepted and not fact.too_slow:
                return Finding(self.title, 0, 0, False, expected="accepted by the compiler", seen=fact.complaint)
        gpus = sorted({fact.gpu for fact in facts if fact.accepted})
        slow = " (not compiled: too slow here)" if any(fact.too_slow for fact in facts) else ""
        said = [sentence for fact in facts if fact.gpu in gpus[-1:] and fact.accepted for sentence in remarks(fact)]
        seen = f"{', '.join(gpus)}{slow}"
        detail = " ".join(dict.fromkeys(said))  # spills, and fp32 dots that a GPU would run as TF32
        return Finding(self.title, 0, 0, True, expected="accepted by the compiler", seen=seen, detail=detail)
