"""One mistake costs once: what an exercise lost by a mistake in an earlier one, whose functions it calls, is given back.

    verdicts ──▶ answers: those that lost points and call functions of exercises that lost points, too
                   with the published functions in their place ──▶ judged again ──▶ settled: what that earns beyond

A function is put in place only where the published solution calls it as well, so all else that the exercise asks for is
the student's own work. Of an answer that can see published code nothing is believed but what it earned. A mistake is a
program that came to a result: what is blank, was refused or raised is none, whatever stands in the cell, and what calls it
is judged with that. An exercise that hardly does more than call others says what that alone is worth (Exercise.wiring).
"""

# trap: the answer that is judged again can read published code, and a message would carry the solution out: no word of
# the student's is kept

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from course_lib.exercise import Exercise, Finding, Verdict
from course_lib.handin.answer import MAX_STATEMENTS, Answer
from course_lib.handin.cells import Cell
from course_lib.handin.statements import SourceStatement, statements
from grader import published
from grader.catalogue import say
from grader.judging.submission import Submission

Verdicts = Mapping[str, Verdict]  # by exercise
RESULTS = ("wrong", "waste", "fault", "compiler", "stopped")  # kinds of causes of a program that computes something


def answers(exercises: Sequence[Exercise], read: Submission, own: Verdicts) -> dict[str, Answer]:
    """Return the answers to judge again, by exercise, with published functions in place of the student's wrong earlier ones.

    own    the verdicts on what the student handed in
    """
    found = {}
    for exercise in exercises:
        if names := {n for mistaken in _mistaken(exercise, exercises, read, own).values() for n in mistaken}:
            answer = read.answers[exercise.id]
            earlier = tuple(e.id for e in exercises[: exercises.index(exercise)])
            text = _source(exercise.id, earlier, frozenset(names))
            found[exercise.id] = replace(answer, cells=[*answer.cells, ("<published functions>", text)])
    return found


def apply(exercises: Sequence[Exercise], read: Submission, own: Verdicts, again: Verdicts) -> dict[str, Verdict]:
    """Return the verdicts on a submission, with points given back that earlier mistakes cost. again: the verdicts on `answers`."""
    found: dict[str, Verdict] = {}
    for exercise in exercises:
        found[exercise.id] = own[exercise.id]
        if exercise.id in again:
            earlier = [found[id] for id in _mistaken(exercise, exercises, read, own)]
            causes = [id for v in earlier for id in ([v.exercise] if _lost(v) else v.rests_on)]
            better = _better(own[exercise.id], again[exercise.id], list(dict.fromkeys(causes)))
            earned = sum(own[id].points for id in _called(exercise, exercises, read))
            found[exercise.id] = _at_most(better, own[exercise.id], max(exercise.wiring or 0, earned), exercise.wiring)
    return found


# ------------------------------------------------------------------------------------------------- what is called


def _mistaken(
    exercise: Exercise, exercises: Sequence[Exercise], read: Submission, own: Verdicts
) -> dict[str, frozenset[str]]:
    """Earlier exercise with a mistake -> its functions that both this one, which lost points, and its published solution call."""
    if exercise.id not in read.attempted or not _lost(own[exercise.id]):
        return {}
    called = _called(exercise, exercises, read)
    return {id: names for id, names in called.items() if _came_to_a_result(own[id]) and _lost(own[id])}


def _called(exercise: Exercise, exercises: Sequence[Exercise], read: Submission) -> dict[str, frozenset[str]]:
    """Earlier exercise -> its functions that both this one and its published solution call."""
    if exercise.id not in read.answers:
        return {}
    reads = {name for s in _published(exercise.id) for name in s.reads}
    called, found = reads.intersection(read.answers[exercise.id].calls), {}
    for earlier in exercises[: exercises.index(exercise)]:
        if earlier.id in read.attempted and (
            names := called & {name for s in _published(earlier.id) if not s.imports for name in s.binds}
        ):
            found[earlier.id] = frozenset(names)
    return found


def _came_to_a_result(verdict: Verdict) -> bool:
    """Whether the program gave a result, though a wrong one. A blank one does not, nor one that raises, nor a result without a
    kernel where one is asked for: a word in a stub would do that."""
    lost = next((f for f in verdict.findings if f.lost and not f.bonus), None)
    kind = lost.cause.kind if lost and lost.cause else ""
    return kind in RESULTS or any(f.passed and not f.bonus for f in verdict.findings)


def _lost(verdict: Verdict) -> bool:
    """Whether the exercise was judged and lost points."""
    return verdict.points < verdict.out_of and verdict.judged


@cache
def _published(exercise: str) -> list[SourceStatement]:
    """The statements of an exercise's published solution; [] if there is none, and so nothing to put in place."""
    try:
        source = published.solution_cell(exercise)
    except KeyError:
        return []
    return statements(Cell(1, "code", source), MAX_STATEMENTS)


@cache
def _source(exercise: str, earlier: tuple[str, ...], names: frozenset[str]) -> str:
    """The published definitions of these names, and of what they need of earlier exercises."""
    there = [s for id in earlier for s in _published(id)]
    needed, todo = set(names), set(names)
    while todo:
        todo = {name for s in there if s.binds & todo for name in s.reads} - needed
        needed |= todo
    (_, imports), *_ = published.answer(exercise, "")
    return "\n\n\n".join([imports, *("\n".join(s.text) for s in there if s.binds & needed)]) + "\n"


# ------------------------------------------------------------------------------------------------------ two verdicts


def _better(own: Verdict, again: Verdict, causes: list[str]) -> Verdict:
    """The verdict on what was handed in, with what it earned beyond that when it was judged again."""
    if not again.judged:
        return again  # the grader failed: which mark is right is not known
    if again.points <= own.points:
        return own
    before = {f.key: f for f in own.findings}
    findings = [_finding(before.get(f.key), f) for f in again.findings if not f.bonus]
    points = round(sum(f.points for f in findings if not f.gate), 2)
    return replace(
        own,
        points=points,
        findings=findings + [f for f in own.findings if f.bonus],  # speed is the student's alone
        remark=own.remark if points < own.out_of else "",
        rests_on=causes,
    )


def _at_most(found: Verdict, own: Verdict, most: float, wiring: float | None) -> Verdict:
    """The verdict with no more points than `most`, if the exercise says what wiring is worth, and none lost that are its own."""
    if wiring is None or found.points <= max(most, own.points):
        return found
    left = max(most, own.points) - sum(f.points - f.carried for f in found.findings if not f.gate and not f.bonus)
    findings = []
    for f in found.findings:
        given = min(f.carried, max(left, 0))
        left -= given
        status = f.status if given == f.carried else "partial" if f.points - f.carried + given else "failed"
        findings.append(replace(f, points=f.points - f.carried + given, carried=given, status=status))
    points = round(sum(f.points for f in findings if not f.gate and not f.bonus), 2)
    return replace(found, points=points, findings=findings, remark=own.remark)


def _finding(own: Finding | None, again: Finding) -> Finding:
    """Choose the better finding. The second one's words on what is wrong are dropped: the answer could have put published
    code into them."""
    earned = own.points if own else 0
    if not again.lost or again.points > earned:
        seen = own.seen if again.lost and own else "" if again.lost else again.seen
        return replace(again, seen=seen, detail="", error_map=None, carried=max(again.points - earned, 0))
    if own and own.judged:
        return own
    return replace(again, seen=say("judging.follow_through.not_either"), detail="", error_map=None)
