"""Criteria: pure functions of what was observed. Each gives one Finding.

results.py   is the result right? Did a kernel make it? Does it compile?
memory.py    what it did to memory: bytes, sectors, re-reads, launches, buffers, what is kept for backward
answers.py   answers by name, of which some could be guessed
speed.py     how fast it was, on a GPU
budgets.py   the error that honest arithmetic may have

Gates decide whether an exercise earns anything; the others carry points of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
from course_lib.criteria.results import NOTHING, Compiles, Correct, Holds, Judged, OnceRight, TritonDidTheWork, of_group
from course_lib.criteria.speed import Speed
from course_lib.exercise import Exercise, Finding, Trial, Verdict

__all__ = [
    "EPS32",
    "GATES",
    "NOTHING",
    "Coalesced",
    "Compiles",
    "Correct",
    "DotFlops",
    "Holds",
    "Judged",
    "Launches",
    "NoAtomics",
    "Numbers",
    "BuffersBelow",
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
"""Of an exercise that asks for a kernel, where it names no others."""

NOT_YET = (
    "(in every call of the check; kernels run after your function has returned, so their results are not there yet)"
)


def judge(exercise: Exercise, trials: Sequence[Trial]) -> Verdict:
    """All findings on the evidence, and the points they add up to. A failed gate leaves the rest "not judged"."""
    trials = [Judged.of(exercise, trial) for trial in trials]
    findings, shut = [], None
    for gate in exercise.gates:
        finding = gate.judge(exercise, trials)
        finding.gate = True
        findings.append(finding)
        if not finding.passed:
            shut = gate  # later gates would say the same again in other words
            break
    for criterion in exercise.criteria:
        if not shut:
            findings.append(criterion.judge(exercise, trials))
        else:
            findings.append(Finding(criterion.title, 0, criterion.points, False, seen="not judged", judged=False))
    bonus = 0.0
    for criterion in exercise.bonus:
        timed = not shut and any(t.evidence.timing for t in trials)
        finding = criterion.judge(exercise, trials) if timed else _not_measured(criterion)
        finding.bonus = True
        bonus += finding.points
        findings.append(finding)
    for i, finding in enumerate(findings):  # one cause is told once
        told = [_cause(f) for f in findings[:i] if f.judged and not f.passed]
        if not finding.passed and _cause(finding) in told:
            finding.seen, finding.detail, finding.expected, finding.error_map = "as above", "", "", None
    points = sum(f.points for f in findings if not f.gate and not f.bonus)
    # behind a gate that failed on one group, a remark on another would not fit what is shown
    group = getattr(shut, "group", None)
    shown = [t for t in trials if group in (None, t.case.group)]
    remark = next(filter(None, (m(shown) for m in exercise.mistakes)), "") if points < exercise.points else ""
    printed = next((t.evidence.printed for t in trials if t.evidence.printed), "")
    if printed and any(t.evidence.launches for t in trials):
        printed = f"{printed.rstrip()}\n{NOT_YET}"
    return Verdict(exercise.id, round(points, 2), exercise.points, findings, round(bonus, 2), remark, printed)


def _cause(finding: Finding) -> tuple[str, str]:
    """What tells causes apart: of a line of a kernel what it does wrong, and not the program and the element that did."""
    seen = finding.seen
    if seen.startswith("kernel `"):
        line, _, rest = seen.partition("`: ")
        seen = line + re.sub(r"[\d,() ]+", "", rest)
    return seen, finding.detail


def _not_measured(criterion: Any) -> Finding:
    return Finding(criterion.title, 0, criterion.points, False, seen="not measured: needs a GPU", judged=False)


def refused(exercise: Exercise, sentence: str) -> Verdict:
    """The verdict on something that could not be observed at all, for the reason in `sentence`."""
    findings = [Finding("runs", 0, 0, False, seen=sentence, gate=True)]
    findings += [Finding(c.title, 0, c.points, False, seen="not judged", judged=False) for c in exercise.criteria]
    return Verdict(exercise.id, 0.0, exercise.points, findings)


def unjudged(exercise: Exercise, sentence: str) -> Verdict:
    """In place of a verdict where nothing is known of the program, as the grader itself failed: no finding of it is judged."""
    verdict = refused(exercise, sentence)
    verdict.findings[0].judged = False
    return verdict
