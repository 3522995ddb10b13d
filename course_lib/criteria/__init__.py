"""Criteria: pure functions of what was observed. Each gives one Finding.

results.py   a result beside the right one: the first difference, and where
gates.py     is the result right? Did a kernel make it? Does it compile?
blocks.py    are blocks as large as a warp?
copies.py    does a kernel copy an input?
costs.py     how the work was cut: programs, launches, products, atomics; the base of all criteria that count
memory.py    what it did to memory: bytes, sectors, re-reads, buffers, what is kept for backward
answers.py   answers by name, of which some could be guessed
on_gpu.py    is it right on a GPU, too?
speed.py     how fast it was, there
budgets.py   the error that honest arithmetic may have

Gates decide whether an exercise earns anything; the others carry points of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from course_lib import common_mistakes
from course_lib.catalogue import say
from course_lib.criteria import blocks
from course_lib.criteria.answers import Numbers, Truths
from course_lib.criteria.budgets import EPS32, roundings, sum_budget
from course_lib.criteria.costs import CostCriterion, DotFlops, Launches, NoAtomics, Programs, accesses, passed_on
from course_lib.criteria.gates import Compiles, Correct, Holds, TritonDidTheWork, correct
from course_lib.criteria.memory import BuffersBelow, Coalesced, Rereads, Saves, Traffic, copy_bytes
from course_lib.criteria.on_gpu import RightOnGPU
from course_lib.criteria.results import GradedTrial, of_group
from course_lib.criteria.speed import Speed
from course_lib.evidence import SmallestFault
from course_lib.exercise import NOT_THE_RUN, CauseKind, Criterion, Exercise, Finding, Status, Trial, Verdict
from tritontrace.results import Cause

__all__ = [
    "EPS32",
    "GATES",
    "BuffersBelow",
    "Coalesced",
    "Compiles",
    "Correct",
    "CostCriterion",
    "DotFlops",
    "Holds",
    "Judged",
    "Launches",
    "NoAtomics",
    "Numbers",
    "Programs",
    "Rereads",
    "RightOnGPU",
    "Saves",
    "Speed",
    "Traffic",
    "TritonDidTheWork",
    "Truths",
    "accesses",
    "copy_bytes",
    "correct",
    "judge",
    "of_group",
    "passed_on",
    "refused",
    "roundings",
    "sum_budget",
]

GATES = (TritonDidTheWork(), Correct("plain"), Compiles())
"""The gates of an exercise that asks for a kernel, where it names no others."""

NOT_YET = say("criteria.seen.not_yet")
"""A line below what was printed where kernels are launched."""


def judge(exercise: Exercise, trials: Sequence[Trial], *, gpu_counts: bool = True) -> Verdict:
    """Return the verdict: all findings on the evidence, and the points they add up to. A failed gate leaves the rest "not judged".

    gpu_counts   of cases that ran on a GPU: whether a result that is wrong there is wrong. If not, it is shown and costs nothing
    """
    trials = [GradedTrial.of(exercise, trial) for trial in trials]
    findings, shut = [], None
    on_gpu = [RightOnGPU()] if any(t.evidence.on_gpu for t in trials) else []
    for gate in [*exercise.gates, *(on_gpu if gpu_counts else [])]:
        finding = _named(gate, gate.judge(exercise, trials))
        finding.gate = True
        findings.append(finding)
        if finding.lost:
            shut = gate  # later gates would say the same again in other words
            break
    for criterion in exercise.criteria:
        if not shut:
            findings.append(_named(criterion, criterion.judge(exercise, trials)))
        else:
            findings.append(_unknown(criterion, "not_judged"))
    measured = [] if shut else [t for t in trials if t.evidence.timing]
    timed = of_speed(exercise, measured)
    findings += timed
    for criterion in [] if gpu_counts or shut else on_gpu:
        findings.append(_named(criterion, criterion.judge(exercise, trials)))
        findings[-1].bonus = True
    told: list[Cause] = []
    for finding in findings:
        if not finding.lost:
            continue
        if finding.status == "failed" and finding.points:
            finding.status = "partial"
        if finding.cause and finding.cause in told:  # one cause is told once
            finding.status, finding.seen = "same_cause", say("criteria.seen.same_cause")
            finding.detail, finding.expected, finding.on, finding.error_map = "", "", "", None
            finding.spent = finding.request = finding.at = None
        elif finding.cause:
            told.append(finding.cause)
    points = sum(f.points for f in findings if not f.gate and not f.bonus)
    # behind a gate that failed on one group, a remark on another would not fit what is shown
    group = getattr(shut, "group", None)
    shown = [t for t in trials if group in (None, t.case.group)]
    # what other wasteful kernels do is not what one with such blocks does
    remark = next((blocks.in_words(cause) for cause in told if cause.where == blocks.SMALL_BLOCKS), "")
    if points < exercise.points and not remark:
        remark = _remark(exercise, shown)
        if smallest := next((t.evidence.smallest for t in trials if t.evidence.smallest), None):
            already = _already(smallest)
            remark = say("criteria.looks.both", one=remark, other=already) if remark else already
    printed = _once(next((t.evidence.printed for t in trials if t.evidence.printed), ""))
    if printed and any(t.evidence.launches for t in trials):
        printed = f"{printed.rstrip()}\n{NOT_YET}"
    return Verdict(
        exercise.id,
        round(points, 2),
        exercise.points,
        findings,
        round(sum(finding.points for finding in timed), 2),
        remark,
        printed,
        asked=exercise.asks,
        gpu=next((run.gpu for t in trials if (run := t.evidence.on_gpu) and not run.not_run), ""),
        timing=measured[0].evidence.timing if measured else None,
    )


def of_speed(exercise: Exercise, measured: Sequence[Trial]) -> list[Finding]:
    """Return the findings on speed, which are extra credit. measured: trials of which one has a timing, or none."""
    findings = [
        _named(criterion, criterion.judge(exercise, measured) if measured else _unknown(criterion, "not_measured"))
        for criterion in exercise.bonus
    ]
    return [replace(finding, bonus=True) for finding in findings]


def _remark(exercise: Exercise, shown: Sequence[GradedTrial]) -> str:
    """The sentence that says most of a loss: of the mistake that it is, of one that it looks like, of its kind."""
    trial = next((t for t in shown if t.evidence.formula), None)
    formula = trial.evidence.formula if trial else None
    if trial is None or formula is None:
        return next(filter(None, (m(shown) for m in exercise.mistakes)), "") or _kind(shown)
    names = {getattr(exercise.mistakes[number], "says", "") for number in formula.like}
    if len(names) == 1:  # of several that give the same here nobody knows which it is
        return names.pop()
    likely = next(filter(None, (m(shown) for m in exercise.mistakes)), "")
    if formula.right:
        return likely or say("criteria.formula.right", case=trial.case.name)
    detail = trial.difference.detail if trial.difference else ""
    # of bits that must be equal, none may be rounded: nothing is said of rounding
    unlike = "" if detail or exercise.budget is None else say("criteria.formula.wrong", case=trial.case.name)
    return likely or _kind(shown) or unlike


def _already(smallest: SmallestFault) -> str:
    shapes = [say("criteria.smallest.shape", name=name, shape=str(shape)) for name, shape in smallest.shapes]
    return say(f"criteria.smallest.{smallest.op}", shapes=shapes, line=smallest.line, tensor=smallest.tensor)


def _once(printed: str) -> str:
    """Return what was printed, each warning once. A warning's line ends with its words; the line of code below it is indented."""
    lines: list[str] = []
    warned: set[str] = set()
    leaving_out = False
    for line in printed.splitlines(keepends=True):
        words = line.partition("Warning: ")[2]
        leaving_out = words in warned if words else leaving_out and line.startswith(" ")
        if words:
            warned.add(words)
        if not leaving_out and not words.startswith("Enable tracemalloc"):
            lines.append(line)
    return "".join(lines)


def _kind(trials: Sequence[GradedTrial]) -> str:
    """Say what no exercise need say of a kernel with wrong results."""
    ran = [t for t in trials if not t.stopped and t.evidence.launches and not t.evidence.faults]
    wrong = [t for t in ran if t.difference]
    if not wrong:
        return ""
    return (
        common_mistakes.unread(ran, wrong)
        or common_mistakes.other_way_round(wrong)
        or common_mistakes.right_while_short([t for t in ran if not t.difference], wrong)
    )


def _named(criterion: Criterion, finding: Finding) -> Finding:
    """The finding with what its criterion says of itself."""
    title_of_loss = finding.missed if finding.missed != finding.title else ""
    stopped = finding.lost and finding.cause is not None and finding.cause.kind not in NOT_THE_RUN
    general = say("criteria.seen.does_not_run") if stopped else say("criteria.seen.not_so", title=criterion.title)
    missed = title_of_loss or criterion.missed or general
    missed = say("criteria.seen.not_begun") if finding.blank else missed
    return replace(finding, key=criterion.key, missed=missed, about=criterion.about)


def _unknown(criterion: Criterion, status: Status) -> Finding:
    return _named(criterion, Finding(criterion.title, 0, criterion.points, status, seen=say(f"criteria.seen.{status}")))


def refused(exercise: Exercise, sentence: str, cause: CauseKind | Cause = "refused") -> Verdict:
    """Return the verdict on an answer that could not be run at all. cause: why, or a kind of cause; `sentence` is shown."""
    cause = Cause(cause) if isinstance(cause, str) else cause
    missed = say(f"criteria.seen.{'not_begun' if cause.kind == 'blank' else 'does_not_run'}")
    title = say("criteria.seen.runs")
    findings = [Finding(title, 0, 0, "failed", seen=sentence, cause=cause, key="runs", gate=True, missed=missed)]
    findings += [_unknown(criterion, "not_judged") for criterion in exercise.criteria]
    return Verdict(exercise.id, 0.0, exercise.points, findings, asked=exercise.asks)


def unjudged(exercise: Exercise, sentence: str) -> Verdict:
    """Return the verdict on an answer about which nothing is known because the grader itself failed: no finding is judged."""
    verdict = refused(exercise, sentence, "grader_failed")
    verdict.findings[0].status = "not_judged"
    return verdict
