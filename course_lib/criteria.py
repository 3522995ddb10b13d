"""Criteria: pure functions of what was observed. Each gives one Finding.

Gates decide whether an exercise earns anything; the others carry points of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from course_lib import mistakes
from course_lib.compiled.show import remarks
from course_lib.exercise import Access, Budget, Case, Evidence, Exercise, Finding, Footprint, Trial, Verdict

NOTHING = "returns nothing yet (is a `return` missing?)"


def judge(exercise: Exercise, trials: Sequence[Trial]) -> Verdict:
    """All findings on the evidence, and the points they add up to. A failed gate leaves the rest "not judged"."""
    findings = []
    for gate in exercise.gates:
        finding = gate.judge(exercise, trials)
        finding.gate = True
        findings.append(finding)
        if not finding.passed:
            break  # later gates would say the same again in other words
    open_gates = all(f.passed for f in findings)
    for criterion in exercise.criteria:
        if open_gates:
            findings.append(criterion.judge(exercise, trials))
        else:
            findings.append(Finding(criterion.title, 0, criterion.points, False, seen="not judged", judged=False))
    bonus = 0.0
    for criterion in exercise.bonus:
        timed = open_gates and any(t.evidence.timing for t in trials)
        finding = criterion.judge(exercise, trials) if timed else _not_measured(criterion)
        finding.bonus = True
        bonus += finding.points
        findings.append(finding)
    for i, finding in enumerate(findings):  # one cause is told once
        if not finding.passed and any(f.seen == finding.seen and not f.passed for f in findings[:i] if f.judged):
            finding.seen, finding.detail, finding.expected, finding.error_map = "as above", "", "", None
    points = sum(f.points for f in findings if not f.gate and not f.bonus)
    remark = next(filter(None, (m(trials) for m in exercise.mistakes)), "") if points < exercise.points else ""
    printed = next((t.evidence.printed for t in trials if t.evidence.printed), "")
    return Verdict(exercise.id, round(points, 2), exercise.points, findings, round(bonus, 2), remark, printed)


def _not_measured(criterion: Any) -> Finding:
    return Finding(criterion.title, 0, criterion.points, False, seen="not measured: needs a GPU", judged=False)


def refused(exercise: Exercise, sentence: str) -> Verdict:
    """The verdict on something that could not be observed at all, for the reason in `sentence`."""
    findings = [Finding("runs", 0, 0, False, seen=sentence, gate=True)]
    findings += [Finding(c.title, 0, c.points, False, seen="not judged", judged=False) for c in exercise.criteria]
    return Verdict(exercise.id, 0.0, exercise.points, findings)


def of_group(trials: Sequence[Trial], group: str) -> list[Trial]:
    return [t for t in trials if t.case.group == group]


def _numbers(value: float) -> str:
    return f"{value:,.0f}"


# ------------------------------------------------------------------------------------------------ correctness


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
            wrong.seen = evidence.error or evidence.refused
            return wrong
        if len(evidence.outputs) != len(trial.inputs):
            wrong.seen = f"{len(evidence.outputs)} results of {len(trial.inputs)} calls"
            return wrong
        for call, (arguments, output) in enumerate(zip(trial.inputs, evidence.outputs, strict=True)):
            expected = exercise.oracle(**arguments)
            again = " in the second call" if call else ""
            if isinstance(expected, dict):
                return self._judge_values(expected, output)
            for got, right, name in _pairs(output, expected):
                problem = _compare(exercise, arguments, got, right, wrong)
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
            key for key, value in expected.items() if type(output.get(key)) in (int, float) and output[key] == value
        ]
        wrongs = [f"{k}: {output[k]!r}" if k in output else f"{k}: no answer" for k in expected if k not in rights]
        wrongs += [f"{key}: not one of the questions" for key in output if key not in expected]
        points = round(self.points * len(rights) / len(expected), 2)
        seen = f"{len(rights)} of {len(expected)} right" + (f"; not right: {', '.join(wrongs)}" if wrongs else "")
        return Finding(
            self.title, points, self.points, not wrongs, expected=f"{len(expected)} right values", seen=seen[:400]
        )


def _pairs(output: Any, expected: Any) -> Iterable[tuple[Any, Any, str]]:
    """(got, expected, name) for each part of a result; a tuple of the wrong length is one part."""
    if not isinstance(expected, tuple):
        return [(output, expected, "")]
    if not isinstance(output, list) or len(output) != len(expected):
        return [(output, expected, "")]
    return [(got, right, f"output {i}: ") for i, (got, right) in enumerate(zip(output, expected, strict=True))]


def _compare(exercise: Exercise, arguments: dict[str, Any], got: Any, expected: Any, finding: Finding) -> str:
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
    finding.detail = mistakes.looks_like(wrong, reference, got, arguments)
    return mistakes.first_difference(wrong, reference, got)


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
            seen = trial.evidence.error
            for arguments, output in zip(trial.inputs, trial.evidence.outputs, strict=False):
                seen = seen or (f"{exercise.entry} {NOTHING}" if output is None else self.problem(output, **arguments))
            if seen:
                return Finding(self.title, 0, self.points, False, seen=seen)
        return Finding(self.title, self.points, self.points, True, seen="holds")


# ------------------------------------------------------------------------------------------------------- gates


@dataclass
class TritonDidTheWork:
    """Kernels of the student's wrote every output; torch did nothing but what the exercise allows."""

    points: float = 0.0
    title: str = "computed by your Triton kernel"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        expected = "a kernel of yours writes the result; torch allocates and makes views"
        for trial in trials:
            problem = self._problem(exercise, trial.evidence)
            if problem:
                return Finding(self.title, 0, 0, False, expected=expected, seen=problem)
        launches = max((len(t.evidence.launches) for t in trials), default=0)
        if not launches and any(t.evidence.error for t in trials):
            return Finding(self.title, 0, 0, True, expected=expected, seen="nothing was launched", judged=False)
        if not launches:
            return Finding(self.title, 0, 0, False, expected=expected, seen="no Triton kernel was launched")
        seen = "1 launch" if launches == 1 else f"{launches} launches"
        return Finding(self.title, 0, 0, True, expected=expected, seen=seen)

    def _problem(self, exercise: Exercise, evidence: Evidence) -> str:
        if evidence.refused:
            return evidence.refused
        if evidence.error:
            return ""  # the result is judged by Correct, in its own words
        if all(output is None for output in evidence.outputs):
            return f"{exercise.entry} {NOTHING}"
        if not evidence.launches:
            return ""  # an empty grid on a small input: wrong or right, that is for Correct to say
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


# ----------------------------------------------------------------------------------------------------- memory


def accesses(trials: Sequence[Trial], op: str) -> list[Access]:
    """All loads, or all stores and atomics, of these trials."""
    kinds = ("load",) if op == "load" else ("store", "atomic")
    return [a for t in trials for launch in t.evidence.launches for a in launch.accesses if a.op in kinds]


def _footprints(trials: Sequence[Trial]) -> list[Footprint]:
    return [f for t in trials for launch in t.evidence.launches for f in launch.footprints]


def _failure(exercise: Exercise, trials: Sequence[Trial]) -> str:
    """A sentence if a result is wrong: what is saved by wrong results is not credited."""
    for trial in trials:
        wrong = Correct(trial.case.group).judge(exercise, [trial])
        if not wrong.passed:
            return f"not right on {trial.case.name}: {wrong.seen}"
    return ""


@dataclass
class Coalesced:
    """Loads (or stores) touch hardly more 32-byte sectors than the bytes they use would fill.

    Compared for each line that moves at least 2 % of the bytes: the sectors it touches against its useful bytes / 32.
    Accesses of single elements (an index, a length) do not count for a small tensor that is only moved that way.
    """

    op: str  # "load" or "store"
    points: float = 0.0
    at_most: float = 1.05
    group: str = "performance"

    @property
    def title(self) -> str:
        return "loads are dense" if self.op == "load" else "stores are dense"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        failed = _failure(exercise, group)
        expected = f"at most {self.at_most} times the sectors that the used bytes fill"
        if failed:
            return Finding(self.title, 0, self.points, False, seen=failed)
        counted = self._counted(accesses(group, self.op))
        names = {id(a): t.case.name for t in group for launch in t.evidence.launches for a in launch.accesses}
        sectors = sum(a.sectors for a in counted)
        needed = sum(math.ceil(a.useful_bytes / 32) for a in counted)
        seen = f"{_numbers(sectors)} sectors, {_numbers(needed)} needed"
        total = sum(a.bytes for a in counted)
        wasteful = [a for a in counted if a.bytes >= 0.02 * total and a.sectors * 32 > self.at_most * a.useful_bytes]
        if not wasteful:
            return Finding(self.title, self.points, self.points, True, expected=expected, seen=seen)
        worst = min(wasteful, key=lambda a: a.efficiency * 1e9 - a.sectors)
        detail = (
            f"line {worst.line} uses {worst.efficiency * 32:.3g} of every 32 bytes it touches of `{worst.tensor}` "
            f"({names[id(worst)]}): `{worst.source}`"
        )
        return Finding(self.title, 0, self.points, False, expected=expected, seen=seen, detail=detail)

    def _counted(self, accesses: Sequence[Access]) -> list[Access]:
        moved: dict[str, list[int]] = {}
        for access in accesses:
            totals = moved.setdefault(access.tensor, [0, 0])
            totals[0] += access.bytes
            totals[1] += access.single_bytes
        small = {
            name
            for name, (total, single) in moved.items()
            if 0 < single == total and total <= 0.02 * sum(m[0] for m in moved.values())
        }
        return [a for a in accesses if a.tensor not in small and a.bytes]


@dataclass
class Traffic:
    """No more bytes are moved than the task needs. needed: the arguments of a call -> bytes read and written at best."""

    needed: Callable[..., float]
    points: float = 0.0
    at_most: float = 1.05
    group: str = "performance"
    title: str = "reads once, writes once"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        failed = _failure(exercise, group)
        expected = f"at most {self.at_most} times the bytes that the task needs"
        if failed:
            return Finding(self.title, 0, self.points, False, seen=failed)
        needed = sum(self.needed(**t.inputs[-1]) for t in group)
        footprints = _footprints(group)
        moved = sum(f.read_bytes + f.written_bytes for f in footprints)
        seen = f"{_numbers(moved)} bytes moved, {_numbers(needed)} needed"
        if moved <= self.at_most * needed:
            return Finding(self.title, self.points, self.points, True, expected=expected, seen=seen)
        worst = max(
            footprints, key=lambda f: f.read_bytes - f.read_distinct_bytes + f.written_bytes - f.written_distinct_bytes
        )
        return Finding(
            self.title, 0, self.points, False, expected=expected, seen=seen, detail=self._explain(worst, group)
        )

    def _explain(self, worst: Footprint, group: Sequence[Trial]) -> str:
        lines = {
            f"line {a.line} `{a.source}`"
            for op in ("load", "store")
            for a in accesses(group, op)
            if a.tensor == worst.tensor
        }
        reads = worst.read_bytes / max(1, worst.read_distinct_bytes)
        writes = worst.written_bytes / max(1, worst.written_distinct_bytes)
        times = f"read {reads:.3g} times" if reads > writes else f"written {writes:.3g} times"
        if max(reads, writes) <= 1.01:
            return f"`{worst.tensor}` is a detour: bytes that the task does not need ({'; '.join(sorted(lines))})"
        return f"`{worst.tensor}` is {times}: {'; '.join(sorted(lines))}"


@dataclass
class Programs:
    """The launch that reads most bytes has enough programs to keep a GPU's SMs busy."""

    at_least: int
    points: float
    group: str = "tall"

    @property
    def title(self) -> str:
        return f"at least {self.at_least} programs share a tall input"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        group = of_group(trials, self.group)
        failed = _failure(exercise, group)
        if failed:
            return Finding(self.title, 0, self.points, False, seen=failed)
        busiest = [
            max(t.evidence.launches, key=lambda launch: sum(f.read_bytes for f in launch.footprints)) for t in group
        ]
        fewest = min(launch.programs for launch in busiest)
        passed = fewest >= self.at_least
        detail = "" if passed else "Cut the long axis into parts, and give each part a program."
        seen = "1 program" if fewest == 1 else f"{fewest} programs"
        return Finding(self.title, self.points if passed else 0, self.points, passed, seen=seen, detail=detail)


# ------------------------------------------------------------------------------------------------------ speed


@dataclass
class Speed:
    """Extra credit, on a GPU: a ramp between two ratios to a baseline that is timed in the same run."""

    vs: str  # "copy": a device-to-device copy of the bytes that the task needs
    case: Case
    needed: Callable[..., float]
    full: float
    none: float
    points: float = 1.0

    @property
    def title(self) -> str:
        return f"speed against {self.vs} (extra)"

    def judge(self, exercise: Exercise, trials: Sequence[Trial]) -> Finding:
        timing = next(t.evidence.timing for t in trials if t.evidence.timing)
        if timing.problem:
            return Finding(self.title, 0, self.points, False, seen=timing.problem)
        share = min(1.0, max(0.0, (timing.ratio - self.none) / (self.full - self.none)))
        return Finding(
            self.title,
            round(self.points * share, 2),
            self.points,
            share == 1.0,
            expected=f"{self.full:g} of its speed",
            seen=f"{timing.ratio:.2f} ± {timing.spread:.2f} on {timing.gpu}",
        )


# ----------------------------------------------------------------------------------------------------- budgets


def sum_budget(magnitude: Callable[..., torch.Tensor], length: Callable[..., int]) -> Budget:
    """The error that an honest sum of `length` terms may have, per output element, accumulated in float32.

    magnitude: arguments -> the sum of the absolute values of the terms (float64, the shape of the output). The budget is
    4 eps(out) |expected| + 2 sqrt(length) eps32 magnitude: a random walk of rounding errors, with room for any order.
    """

    def budget(expected: torch.Tensor, dtype: torch.dtype, arguments: dict[str, Any]) -> torch.Tensor:
        walk = 2 * math.sqrt(length(**arguments)) * torch.finfo(torch.float32).eps * magnitude(**arguments)
        return 4 * torch.finfo(dtype).eps * expected.abs() + walk

    return budget
