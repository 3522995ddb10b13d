"""Criteria: pure functions of what was observed. Each gives one Finding.

results.py   is the result right? Did a kernel make it? Does it compile?
memory.py    what it did to memory: bytes, sectors, re-reads, launches, buffers, what is kept for backward
answers.py   answers by name, of which some could be guessed
speed.py     how fast it was, on a GPU
budgets.py   the error that honest arithmetic may have

Gates decide whether an exercise earns anything; the others carry points of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from course_lib.criteria.answers import Numbers, Truths
from course_lib.criteria.budgets import EPS32, roundings, sum_budget
from course_lib.criteria.memory import (
    BuffersBelow,
    Coalesced,
    DotFlops,
    Launches,
    NoAtomics,
    Programs,
    Rereads,
    Saves,
    Traffic,
    accesses,
    copy_bytes,
)
from course_lib.criteria.results import Compiles, Correct, Holds, Judged, OnceRight, TritonDidTheWork, of_group
from course_lib.criteria.speed import Speed
from course_lib.evidence import Cause, CauseKind
from course_lib.exercise import Criterion, Exercise, Finding, Status, Trial, Verdict

__all__ = [
    "EPS32",
    "GATES",
    "BuffersBelow",
    "Coalesced",
    "Compiles",
    "Correct",
    "DotFlops",
    "Holds",
    "Judged",
    "Launches",
    "NoAtomics",
    "Numbers",
    "OnceRight",
    "Programs",
    "Rereads",
    "Saves",
    "Speed",
    "Traffic",
    "TritonDidTheWork",
    "Truths",
    "accesses",
    "copy_bytes",
    "judge",
    "of_group",
    "refused",
    "roundings",
    "sum_budget",
]

GATES = (TritonDidTheWork(), Correct("plain"), Compiles())
"""The gates of an exercise that asks for a kernel, where it names no others."""

NOT_YET = (
    "(in every call of the check; kernels run after your function has returned, so their results are not there yet)"
)


def judge(exercise: Exercise, trials: Sequence[Trial]) -> Verdict:
    """All findings on the evidence, and the points they add up to. A failed gate leaves the rest "not judged"."""
    trials = [Judged.of(exercise, trial) for trial in trials]
    findings, shut = [], None
    for gate in exercise.gates:
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
    bonus = 0.0
    for criterion in exercise.bonus:
        timed = not shut and any(t.evidence.timing for t in trials)
        finding = criterion.judge(exercise, trials) if timed else _unknown(criterion, "not_measured")
        finding = _named(criterion, finding)
        finding.bonus = True
        bonus += finding.points
        findings.append(finding)
    told: list[Cause] = []
    for finding in findings:
        if not finding.lost:
            continue
        if finding.status == "failed" and finding.points:
            finding.status = "partial"
        if finding.cause and finding.cause in told:  # one cause is told once
            finding.status, finding.seen = "same_cause", SEEN["same_cause"]
            finding.detail, finding.expected, finding.on, finding.error_map = "", "", "", None
            finding.spent = finding.request = None
        elif finding.cause:
            told.append(finding.cause)
    points = sum(f.points for f in findings if not f.gate and not f.bonus)
    # behind a gate that failed on one group, a remark on another would not fit what is shown
    group = getattr(shut, "group", None)
    shown = [t for t in trials if group in (None, t.case.group)]
    remark = next(filter(None, (m(shown) for m in exercise.mistakes)), "") if points < exercise.points else ""
    printed = next((t.evidence.printed for t in trials if t.evidence.printed), "")
    if printed and any(t.evidence.launches for t in trials):
        printed = f"{printed.rstrip()}\n{NOT_YET}"
    return Verdict(exercise.id, round(points, 2), exercise.points, findings, round(bonus, 2), remark, printed)


SEEN = {"same_cause": "as above", "not_judged": "not judged", "not_measured": "not measured: needs a GPU"}
"""Words for a finding that brings none of its own, by its status."""
NOT_BEGUN = "not begun"
"""Words for a finding that is lost because nothing was written yet."""


def _named(criterion: Criterion, finding: Finding) -> Finding:
    """The finding with what its criterion says of itself."""
    missed = NOT_BEGUN if finding.blank else criterion.missed or f"not so: {criterion.title}"
    return replace(finding, key=criterion.key, missed=missed, about=criterion.about)


def _unknown(criterion: Criterion, status: Status) -> Finding:
    return _named(criterion, Finding(criterion.title, 0, criterion.points, status, seen=SEEN[status]))


def refused(exercise: Exercise, sentence: str, cause: CauseKind | Cause = "refused") -> Verdict:
    """The verdict on something that could not be observed at all, for this cause, or one of this kind; `sentence` tells it."""
    cause = Cause(cause) if isinstance(cause, str) else cause
    missed = NOT_BEGUN if cause.kind == "blank" else "does not run"
    findings = [Finding("runs", 0, 0, "failed", seen=sentence, cause=cause, key="runs", gate=True, missed=missed)]
    findings += [_unknown(criterion, "not_judged") for criterion in exercise.criteria]
    return Verdict(exercise.id, 0.0, exercise.points, findings)


def unjudged(exercise: Exercise, sentence: str) -> Verdict:
    """Make the verdict for a program about which nothing is known because the grader itself failed: none of its
    findings is judged."""
    verdict = refused(exercise, sentence, "grader_failed")
    verdict.findings[0].status = "not_judged"
    return verdict
