"""State is data: no code reads a sentence to learn what happened. So one word in the place of every sentence changes
only what people read."""

import dataclasses
from collections import Counter
from contextlib import contextmanager
from importlib import import_module

import pytest
from sentences import says

from course_lib import criteria
from course_lib.evidence import Evidence, Timing
from course_lib.execution import observe
from course_lib.exercise import Case, Criterion, Finding
from course_lib.exercises import UNITS, find
from grader.audit import variants
from grader.cohort.classroom import is_poison
from grader.lms import moodle
from grader.reporting import report
from tritontrace.replay import load
from tritontrace.replay.child import ChildLost
from tritontrace.results import Cause, Compiled, Fault, Launch

WORD = "word"
SENTENCES = {  # the fields that hold what people read
    Evidence: ("error", "refused"),
    Fault: ("sentence",),
    Compiled: ("complaint",),
    Timing: ("problem",),
    Finding: ("expected", "seen", "detail"),
}
UNIT = "04_memory_coalescing"


def worded(value):
    """The same data, with one word in the place of each sentence."""
    if isinstance(value, list):
        return [worded(each) for each in value]
    if not dataclasses.is_dataclass(value):
        return value
    spoken = SENTENCES.get(type(value), ())
    found = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    return dataclasses.replace(
        value, **{name: (WORD if each else each) if name in spoken else worded(each) for name, each in found.items()}
    )


@contextmanager
def speechless(monkeypatch):
    """Criteria that say the same word of everything."""
    with monkeypatch.context() as patch:
        for name in ("earned", "lost", "left_open"):
            said = getattr(Criterion, name)
            patch.setattr(Criterion, name, lambda self, seen, _said=said, **more: worded(_said(self, seen, **more)))
        yield


def facts(verdict):
    """All of a verdict that is no sentence."""
    causes = [f.cause and (f.cause.kind, f.cause.where) for f in verdict.findings]
    return verdict.points, [(f.key, f.status, f.points) for f in verdict.findings], causes


@pytest.mark.slow
def test_one_word_in_place_of_every_sentence_changes_no_point_and_no_status(monkeypatch):
    own, plain, seen = variants.of_unit(UNITS[UNIT]), {}, Counter()
    for variant in (v for v in own if not v.script):
        exercise = find(variant.exercise)
        try:
            trials = observe(exercise, load(variant.cells(), exercise.entry), seed=7)
        except (ChildLost, ValueError):
            continue
        before = criteria.judge(exercise, trials)
        with speechless(monkeypatch):
            after = criteria.judge(exercise, [dataclasses.replace(t, evidence=worded(t.evidence)) for t in trials])
        assert facts(after) == facts(before), variant.name
        plain[variant.name] = {exercise.id: before}
        seen.update(f.status for f in before.findings)
    assert {"passed", "partial", "failed", "same_cause", "not_judged"} <= seen.keys() and len(plain) > 50

    silent = {name: {id: worded(verdict) for id, verdict in of.items()} for name, of in plain.items()}
    said, not_remark = ([(m.exercise, m.title, m.students) for m in report.mistakes(of)] for of in (plain, silent))
    assert said == not_remark and len(said) > 10
    for name, of in plain.items():
        for id, verdict in of.items():
            assert report.blank(verdict) == report.blank(silent[name][id])
            told = [[moodle.explains(f) for f in each.findings] for each in (verdict, silent[name][id])]
            assert told[0] == told[1]


def test_every_criterion_has_a_key_of_its_own():
    for unit in UNITS.values():
        for exercise in import_module(f"course_lib.exercises.{unit}").EXERCISES.values():
            keys = [criterion.key for criterion in (*exercise.gates, *exercise.criteria, *exercise.bonus)]
            assert len(set(keys)) == len(keys), exercise.id


def test_what_ended_its_process_twice_is_known_whatever_is_said_of_it():
    exercise = find("coalescing.transpose")
    assert is_poison(worded(criteria.refused(exercise, "a sentence", "ended_twice")))
    assert not is_poison(criteria.refused(exercise, "the process that judged this ended twice"))
    assert report.blank(worded(criteria.refused(exercise, "a sentence", "blank")))
    assert not report.blank(criteria.refused(exercise, "transpose returns nothing yet (is a `return` missing?)"))


def test_who_launches_a_kernel_and_returns_nothing_has_begun():
    exercise = find("coalescing.transpose")
    one = [Launch("k", (1, 1, 1), 1)]
    for launches, blank, id in (([], True, "blank"), (one, False, "launched_and_nothing")):
        evidence = Evidence("a", outputs=[None], launches=launches)
        case = exercise.cases[0]
        verdict = criteria.judge(exercise, [criteria.GradedTrial(case, [case.arguments(0)], evidence, exercise)])
        assert says(verdict.findings[0].seen, f"criteria.result.{id}") and report.blank(verdict) == blank
        assert verdict.findings[0].expected == ""


def test_an_exception_in_our_words_is_no_blank():
    """An exception may say `no answer`."""
    exercise = find("coalescing.transpose")
    cause = Cause("raised", details={"exception": "ValueError", "message": "no answer"})
    trial = criteria.GradedTrial(
        Case("a", "plain", lambda generator: {}),
        [{}],
        Evidence("a", error="raised ValueError: no answer", cause=cause),
        exercise,
    )
    verdict = criteria.judge(exercise, [trial])
    assert verdict.points == 0 and not report.blank(verdict)
